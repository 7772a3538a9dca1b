"""Programs of exchanges between lanes, barriers of a CTA, divergent control, and special registers."""

from __future__ import annotations

from itertools import product

from generate.pointwise import Op, apply, pointwise
from generate.writing import GLOBAL_INDEX, Program, buffer, joined, out

FULL = "0xffffffff"


def _shuffles() -> list[Op]:
    ops: list[Op] = []
    valid = "selp.b32 {u}, 0x40000000, 0, {p};\nadd.u32 {d}, {t}, {u};"
    for mode, lane, clamp in product(
        ("idx", "up", "down", "bfly"), (0, 1, 5, 16, 31), (0x1F, 0, 0x0F, 0x181F, 0x1C03, 0x1007)
    ):
        ops.append(
            (
                f"shfl.{mode} {lane} {clamp:#x}",
                f"shfl.sync.{mode}.b32 {{t}}|{{p}}, {{a}}, {lane}, {clamp}, {FULL};\n{valid}",
            )
        )
    for mode in ("idx", "up", "down", "bfly"):
        # the lane is a value of each thread's own
        ops.append(
            (
                f"shfl.{mode} b",
                f"shfl.sync.{mode}.b32 {{t}}|{{p}}, {{a}}, {{b}}, 31, {FULL};\n{valid}",
            )
        )
    return ops


def _votes() -> list[Op]:
    first = "setp.lt.s32 {p}, {a}, {b};\n"
    select = "\nselp.b32 {d}, 1, 0, {q};"
    ops: list[Op] = [
        (f"vote.{m}", f"{first}vote.sync.{m}.pred {{q}}, {{p}}, {FULL};{select}")
        for m in ("all", "any", "uni")
    ]
    ops.append(("vote.ballot", f"{first}vote.sync.ballot.b32 {{d}}, {{p}}, {FULL};"))
    ops.append(("vote.ballot not", f"{first}vote.sync.ballot.b32 {{d}}, !{{p}}, {FULL};"))
    ops.append(("match.any", f"and.b32 {{t}}, {{a}}, 3;\nmatch.any.sync.b32 {{d}}, {{t}}, {FULL};"))
    ops.append(
        (
            "match.any.b64",
            f"and.b32 {{t}}, {{b}}, 5;\nmov.b64 {{l}}, {{{{{{t}}, {{t}}}}}};\nmatch.any.sync.b64 {{d}}, {{l}}, {FULL};",
        )
    )
    ops.append(
        (
            "match.all",
            f"and.b32 {{t}}, {{a}}, 0;\nmatch.all.sync.b32 {{t}}|{{p}}, {{t}}, {FULL};\n"
            "selp.b32 {d}, {t}, 7, {p};",
        )
    )
    ops.append(
        (
            "match.all fails",
            f"match.all.sync.b32 {{t}}|{{p}}, {{a}}, {FULL};\nselp.b32 {{d}}, 7, {{t}}, {{p}};",
        )
    )
    for op in ("add", "min", "max"):
        for t in ("u32", "s32"):
            ops.append((f"redux.{op}.{t}", f"redux.sync.{op}.{t} {{d}}, {{a}}, {FULL};"))
    for op in ("and", "or", "xor"):
        ops.append(
            (
                f"redux.{op}.b32",
                f"or.b32 {{t}}, {{a}}, 0x1000;\nredux.sync.{op}.b32 {{d}}, {{t}}, {FULL};",
            )
        )
    ops.append(("activemask", "activemask.b32 {d};"))
    for mask in (0xFFFFFFFF,):
        ops.append(
            (
                f"elect {mask:#x}",
                f"elect.sync {{t}}|{{p}}, {mask:#x};\nselp.b32 {{u}}, 256, 0, {{p}};\nadd.u32 {{d}}, {{t}}, {{u}};",
            )
        )
    return ops


def _masked() -> str:
    """Half of the lanes take each way; in each they exchange among themselves."""
    blocks = []
    for name, mask, lane in (("LOW", 0x00FF_0F0F, 9), ("HIGH", 0xFF00_F0F0, 13)):
        blocks.append(
            f"""
            {name}:
            elect.sync %r20|%p2, {mask:#x};
            selp.b32 %r21, 1, 0, %p2;
            shfl.sync.idx.b32 %r22, %r10, {lane}, 31, {mask:#x};
            vote.sync.ballot.b32 %r23, %p3, {mask:#x};
            redux.sync.add.u32 %r24, %r10, {mask:#x};
            match.any.sync.b32 %r25, %r11, {mask:#x};
            activemask.b32 %r26;
            bar.warp.sync {mask:#x};
            bra JOIN;
            """
        )
    stores = "\n".join(
        f"st.global.b32 [%d5], %r{20 + i};\nadd.u64 %d5, %d5, 128;" for i in range(7)
    )
    return joined(
        GLOBAL_INDEX,
        """
        ld.param.u64 %d0, [a];
        ld.param.u64 %d1, [out];
        mul.wide.u32 %d9, %r0, 4;
        add.u64 %d5, %d1, %d9;
        add.u64 %d9, %d0, %d9;
        ld.global.b32 %r10, [%d9];
        and.b32 %r11, %r10, 1;
        setp.gt.s32 %p3, %r10, 0;
        mov.u32 %r12, %lanemask_eq;
        and.b32 %r13, %r12, 0x00ff0f0f;
        setp.ne.u32 %p1, %r13, 0;
        @%p1 bra LOW;
        bra HIGH;
        """,
        *blocks,
        "JOIN:",
        stores,
    )


def _lanes() -> Program:
    p = Program(
        "lanes", "Shuffles, votes, matches, reductions and elections of a warp, whole and in parts."
    )
    data = {"a": buffer("b32", 64, "bits", seed=850), "b": buffer("b32", 64, "bits", seed=851)}
    labels = pointwise(p, "shuffles", ["b32", "b32"], "b32", _shuffles(), threads=64)
    lanes = {
        **data,
        "b": {"dtype": "uint32", "count": 64, "make": {"kind": "count", "start": 3, "step": 7}},
    }
    apply(p, "shuffles", "shuffles", labels, lanes, "b32", 64, threads=64)
    labels = pointwise(p, "votes", ["b32", "b32"], "b32", _votes(), threads=64)
    apply(p, "votes", "votes", labels, data, "b32", 64, threads=64)
    same = {"a": buffer("b32", 64, "fill", value=5), "b": buffer("b32", 64, "fill", value=9)}
    apply(p, "votes_same", "votes", labels, same, "b32", 64, threads=64)
    p.entry("masked", {"a": "u64", "out": "u64"}, _masked(), threads=32)
    p.launch(
        "masked",
        "masked",
        ["a", "out"],
        {"a": buffer("b32", 32, "bits", seed=852), "out": out("b32", 224)},
        block=32,
    )
    return p


_CONTROL = """
    // a loop of each lane's own length
    mov.u32 %r20, 0;
    and.b32 %r21, %r10, 15;
    setp.eq.u32 %p1, %r21, 0;
    @%p1 bra SKIP;
    LOOP:
    mad.lo.u32 %r20, %r20, 5, %r21;
    sub.u32 %r21, %r21, 1;
    setp.ne.u32 %p1, %r21, 0;
    @%p1 bra LOOP;
    SKIP:
    // a switch of four ways
    and.b32 %r23, %r11, 3;
    mov.u32 %r24, 1000;
    WAYS: .branchtargets WAY0, WAY1, WAY2, WAY3;
    brx.idx %r23, WAYS;
    WAY0:
    add.u32 %r24, %r24, %r10;
    bra AFTER;
    WAY1:
    xor.b32 %r24, %r24, %r11;
    bra WAY3;
    WAY2:
    mul.lo.u32 %r24, %r24, %r10;
    bra AFTER;
    WAY3:
    sub.u32 %r24, %r24, 17;
    AFTER:
    // nested branches that meet inside
    setp.lt.s32 %p2, %r10, 0;
    setp.lt.s32 %p3, %r11, 0;
    mov.u32 %r25, 0;
    @!%p2 bra OUTER_ELSE;
    add.u32 %r25, %r25, 1;
    @!%p3 bra INNER;
    add.u32 %r25, %r25, 2;
    INNER:
    add.u32 %r25, %r25, 4;
    bra MEET;
    OUTER_ELSE:
    @%p3 bra MEET;
    add.u32 %r25, %r25, 8;
    MEET:
    st.global.b32 [%d5], %r20;
    st.global.b32 [%d5+512], %r24;
    st.global.b32 [%d5+1024], %r25;
    st.global.b32 [%d5+1536], %r23;
    // some lanes leave before the barrier
    setp.gt.u32 %p4, %r0, 99;
    @%p4 exit;
    st.global.b32 [%d5+2048], %r0;
"""


_START = """
    ld.param.u64 %d0, [a];
    ld.param.u64 %d1, [b];
    ld.param.u64 %d2, [out];
    mul.wide.u32 %d9, %r0, 4;
    add.u64 %d5, %d2, %d9;
    add.u64 %d10, %d0, %d9;
    ld.global.b32 %r10, [%d10];
    add.u64 %d10, %d1, %d9;
    ld.global.b32 %r11, [%d10];
"""
_CALL = """
    {
    .param .b32 given;
    .param .b32 answer;
    st.param.b32 [given], %r10;
    call.uni (answer), triple, (given);
    ld.param.b32 %r26, [answer];
    }
    setp.lt.s32 %p2, %r11, 0;
    @%p2 bra SKIP;
    {
    .param .b32 given;
    .param .b32 answer;
    st.param.b32 [given], %r26;
    call (answer), triple, (given);
    ld.param.b32 %r26, [answer];
    }
    SKIP:
    st.global.b32 [%d5], %r26;
"""


def _control() -> list[Program]:
    params = {"a": "u64", "b": "u64", "out": "u64"}
    data = {"a": buffer("b32", 128, "bits", seed=860), "b": buffer("b32", 128, "bits", seed=861)}
    p = Program("control", "Divergent loops, switches, nested branches, lanes that leave early.")
    p.entry("control", params, joined(GLOBAL_INDEX, _START, _CONTROL))
    p.launch("control", "control", ["a", "b", "out"], {**data, "out": out("b32", 640)})
    called = Program("call", "A function called by all threads, then by some.")
    called.text("""
        .func (.param .b32 answer) triple(.param .b32 given)
        {
            .reg .b32 %a;
            ld.param.b32 %a, [given];
            mad.lo.u32 %a, %a, 3, 1;
            st.param.b32 [answer], %a;
            ret;
        }
    """)
    called.entry("call", params, joined(GLOBAL_INDEX, _START, _CALL))
    called.launch("call", "call", ["a", "b", "out"], {**data, "out": out("b32", 128)})
    return [p, called]


def _barriers() -> Program:
    p = Program(
        "cta_barriers", "Barriers of a CTA: numbered, partial, arriving without waiting, reducing."
    )
    p.text(".shared .align 4 .b32 box[128];\n.shared .align 4 .b32 part[64];")
    body = joined(
        """
        mov.u32 %r1, %tid.x;
        shr.u32 %r2, %r1, 5;
        ld.param.u64 %d0, [a];
        ld.param.u64 %d1, [out];
        mul.wide.u32 %d9, %r1, 4;
        add.u64 %d5, %d1, %d9;
        add.u64 %d9, %d0, %d9;
        ld.global.b32 %r10, [%d9];
        mov.u32 %r3, box;
        mad.lo.u32 %r4, %r1, 4, %r3;
        st.shared.b32 [%r4], %r10;
        barrier.cta.sync.aligned 3, 128;
        xor.b32 %r5, %r1, 96;
        mad.lo.u32 %r4, %r5, 4, %r3;
        ld.shared.b32 %r11, [%r4];
        st.global.b32 [%d5], %r11;
        setp.gt.s32 %p1, %r10, 0;
        bar.red.popc.u32 %r12, 1, %p1;
        barrier.cta.red.popc.aligned.u32 %r13, 2, 128, !%p1;
        bar.red.and.pred %p2, 4, %p1;
        bar.red.or.pred %p3, 5, %p1;
        selp.b32 %r14, 1, 0, %p2;
        selp.b32 %r15, 2, 0, %p3;
        add.u32 %r14, %r14, %r15;
        st.global.b32 [%d5+512], %r12;
        st.global.b32 [%d5+1024], %r13;
        st.global.b32 [%d5+1536], %r14;
        // warps 0 and 1 write and arrive, warps 2 and 3 wait and read
        mov.u32 %r6, part;
        setp.ge.u32 %p4, %r2, 2;
        @%p4 bra READ;
        mad.lo.u32 %r7, %r1, 4, %r6;
        add.u32 %r8, %r10, 1;
        st.shared.b32 [%r7], %r8;
        barrier.cta.arrive 7, 128;
        bra ALL;
        READ:
        barrier.cta.sync 7, 128;
        sub.u32 %r7, %r1, 64;
        xor.b32 %r7, %r7, 33;
        mad.lo.u32 %r7, %r7, 4, %r6;
        ld.shared.b32 %r8, [%r7];
        ALL:
        st.global.b32 [%d5+2048], %r8;
        """
    )
    p.entry("barriers", {"a": "u64", "out": "u64"}, body)
    p.launch(
        "barriers",
        "barriers",
        ["a", "out"],
        {"a": buffer("b32", 128, "bits", seed=870), "out": out("b32", 640)},
    )
    return p


SPECIAL = (
    "%tid.x",
    "%tid.y",
    "%tid.z",
    "%ntid.x",
    "%ntid.y",
    "%ntid.z",
    "%ctaid.x",
    "%ctaid.y",
    "%ctaid.z",
    "%nctaid.x",
    "%nctaid.y",
    "%nctaid.z",
    "%laneid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%clusterid.x",
    "%clusterid.y",
    "%clusterid.z",
    "%nclusterid.x",
    "%nclusterid.y",
    "%nclusterid.z",
    "%cluster_ctaid.x",
    "%cluster_ctaid.y",
    "%cluster_ctaid.z",
    "%cluster_nctaid.x",
    "%cluster_nctaid.y",
    "%cluster_nctaid.z",
    "%cluster_ctarank",
    "%cluster_nctarank",
    "%dynamic_smem_size",
)


def _special() -> Program:
    p = Program(
        "special_registers",
        "What the special registers say in grids, blocks and clusters of three dimensions.",
    )
    p.text(".extern .shared .align 16 .b8 room[];\n.shared .align 16 .b8 fixed[48];")
    count = len(SPECIAL) + 2
    reads = "\n".join(
        f"mov.u32 %r20, {s};\nst.global.b32 [%d5+{4 * i}], %r20;" for i, s in enumerate(SPECIAL)
    )
    body = joined(
        f"""
        mov.u32 %r1, %ctaid.z;
        mov.u32 %r2, %nctaid.y;
        mov.u32 %r3, %ctaid.y;
        mad.lo.u32 %r1, %r1, %r2, %r3;
        mov.u32 %r2, %nctaid.x;
        mov.u32 %r3, %ctaid.x;
        mad.lo.u32 %r1, %r1, %r2, %r3;
        mov.u32 %r2, %ntid.z;
        mov.u32 %r3, %tid.z;
        mad.lo.u32 %r1, %r1, %r2, %r3;
        mov.u32 %r2, %ntid.y;
        mov.u32 %r3, %tid.y;
        mad.lo.u32 %r1, %r1, %r2, %r3;
        mov.u32 %r2, %ntid.x;
        mov.u32 %r3, %tid.x;
        mad.lo.u32 %r1, %r1, %r2, %r3;
        ld.param.u64 %d0, [out];
        mul.wide.u32 %d5, %r1, {4 * count};
        add.u64 %d5, %d0, %d5;
        """,
        reads,
        f"""
        mov.pred %p1, %is_explicit_cluster;
        selp.b32 %r20, 1, 0, %p1;
        st.global.b32 [%d5+{4 * (count - 2)}], %r20;
        mov.u32 %r20, %total_smem_size;
        st.global.b32 [%d5+{4 * (count - 1)}], %r20;
        """,
    )
    shapes = (((5, 4, 3), (2, 3, 2), (1, 1, 1)), ((16, 2, 1), (4, 2, 2), (2, 1, 2)))
    for i, (block, grid, cluster) in enumerate(shapes):
        p.entry(f"special{i}", {"out": "u64"}, body, threads=block, cluster=cluster)
        threads = grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2]
        p.launch(
            f"special{i}",
            f"special{i}",
            ["out"],
            {"out": out("b32", threads * count)},
            grid=grid,
            block=block,
            cluster=cluster,
            shared=256,
            columns=[*SPECIAL, "%is_explicit_cluster", "%total_smem_size"],
        )
    return p


def programs() -> list[Program]:
    return [_lanes(), *_control(), _barriers(), _special()]
