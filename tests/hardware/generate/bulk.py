"""Programs of bulk copies and reductions between global and shared memory, and of edited tensor maps."""

from __future__ import annotations

from generate.writing import (
    Json,
    Program,
    buffer,
    copy_in,
    copy_out,
    fill_shared,
    joined,
    lines,
    out,
    tensor_map,
    u32,
    wait_parity,
)

_HEAD = lines("""
    mov.u32 %r4, tile;
    mov.u32 %r10, full;
    ld.param.u64 %d0, [source];
    ld.param.u64 %d1, [out];
    mov.u32 %r14, %tid.x;
    setp.eq.u32 %p1, %r14, 0;
""")
_INIT = lines("""
    @%p1 mbarrier.init.shared::cta.b64 [%r10], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    bar.sync 0;
""")


def _bulk() -> Program:
    p = Program(
        "bulk_copy",
        "Bulk copies from and to global memory, several to one barrier, with prefetches and hints.",
    )
    p.text(".extern .shared .align 128 .b8 tile[];\n.shared .align 8 .b64 full;")
    copy = "cp.async.bulk.shared::{space}.global.mbarrier::complete_tx::bytes{hint}"
    for space in ("cluster", "cta"):
        plain, hinted = (
            copy.format(space=space, hint=""),
            copy.format(space=space, hint=".L2::cache_hint"),
        )
        body = joined(
            _HEAD,
            fill_shared("256", "FILL"),
            _INIT,
            lines(f"""
                @!%p1 bra WAIT;
                cp.async.bulk.prefetch.L2.global [%d0], 512;
                mov.b64 %d3, 0x12F0000000000000;
                mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 608;
                {plain} [%r4], [%d0], 16, [%r10];
                add.u32 %r11, %r4, 64;
                add.u64 %d2, %d0, 256;
                {plain} [%r11], [%d2], 512, [%r10];
                add.u32 %r11, %r4, 640;
                add.u64 %d2, %d0, 48;
                {hinted} [%r11], [%d2], 80, [%r10], %d3;
            """),
            wait_parity("%r10", "0", "WAIT"),
            copy_out("%d1", "256", "DUMP"),
        )
        p.entry(f"load_{space}", {"source": "u64", "out": "u64"}, body)
        p.launch(
            f"load_{space}",
            f"load_{space}",
            ["source", "out"],
            {"source": buffer("b8", 1024, "bits", seed=800), "out": out("b32", 256)},
            shared=1024,
        )
    body = joined(
        _HEAD,
        copy_in("%d0", "256", "COPY"),
        lines("""
            fence.proxy.async.shared::cta;
            bar.sync 0;
            @!%p1 bra DONE;
            add.u64 %d2, %d1, 32;
            cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r4], 16;
            cp.async.bulk.commit_group;
            add.u64 %d2, %d1, 128;
            add.u32 %r11, %r4, 48;
            cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r11], 720;
            cp.async.bulk.commit_group;
            cp.async.bulk.wait_group.read 1;
            cp.async.bulk.wait_group 0;
            DONE:
        """),
    )
    p.entry("store", {"source": "u64", "out": "u64"}, body)
    p.launch(
        "store",
        "store",
        ["source", "out"],
        {
            "source": buffer("b8", 1024, "bits", seed=801),
            "out": buffer("b32", 256, "fill", value=0xEEEEEEEE),
        },
        shared=1024,
    )
    return p


_REDUCTIONS: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "f32", "f64", "noftz.f16", "noftz.bf16"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}


def _reductions() -> Program:
    p = Program(
        "bulk_reduce",
        "Bulk reductions of shared memory into global memory, every operation and type.",
    )
    p.text(".extern .shared .align 128 .b8 tile[];\n.shared .align 8 .b64 full;")
    for op, types in _REDUCTIONS.items():
        for t in types:
            name = f"{op}_{t.replace('.', '_')}"
            last = t.rsplit(".", 1)[-1]
            bits = int(last.lstrip("bfsu"))
            count = 1024 if last in ("f32", "f16", "bf16") else 512
            body = joined(
                _HEAD,
                copy_in("%d0", str(count * bits // 32), "COPY"),
                lines(f"""
                    fence.proxy.async.shared::cta;
                    bar.sync 0;
                    @!%p1 bra DONE;
                    cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{t} [%d1], [%r4], {count * bits // 8};
                    cp.async.bulk.commit_group;
                    cp.async.bulk.wait_group 0;
                    DONE:
                """),
            )
            p.entry(name, {"source": "u64", "out": "u64"}, body)
            of = last if last[0] in "fb" and last not in ("b32", "b64") else f"b{bits}"
            crossed = {"kind": "cross", "of": of, "seed": 810}
            p.launch(
                name,
                name,
                ["source", "out"],
                {
                    "source": {
                        "dtype": f"uint{bits}",
                        "count": count,
                        "make": {**crossed, "place": 0},
                    },
                    "out": {
                        "dtype": f"uint{bits}",
                        "count": count,
                        "make": {**crossed, "place": 1},
                    },
                },
                shared=count * bits // 8,
            )
    return p


def _refused() -> Program:
    p = Program(
        "bulk_refused",
        "Bulk copies that fault: addresses and sizes that are no multiples of 16 bytes.",
    )
    p.text(".extern .shared .align 128 .b8 tile[];\n.shared .align 8 .b64 full;")
    params = {"source": "u64", "out": "u64", "from": "u32", "to": "u32", "bytes": "u32"}
    body = joined(
        _HEAD,
        fill_shared("64", "FILL"),
        _INIT,
        """
        @!%p1 bra WAIT;
        ld.param.u32 %r20, [from];
        ld.param.u32 %r21, [to];
        ld.param.u32 %r22, [bytes];
        cvt.u64.u32 %d2, %r20;
        add.u64 %d2, %d0, %d2;
        add.u32 %r21, %r4, %r21;
        mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], %r22;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%d2], %r22, [%r10];
        """,
        wait_parity("%r10", "0", "WAIT"),
        copy_out("%d1", "64", "DUMP"),
    )
    p.entry("load", params, body)
    for source, target, size in ((8, 0, 64), (4, 0, 64), (0, 8, 64), (0, 0, 24), (0, 0, 40)):
        p.launch(
            f"load_{source}_{target}_{size}",
            "load",
            ["source", "out", u32(source), u32(target), u32(size)],
            {"source": buffer("b8", 256, "bits", seed=825), "out": out("b32", 64)},
            shared=256,
        )
    return p


def _edited() -> Program:
    """A map is copied to shared memory, edited there, published, and used (PTX: tensormap.replace)."""
    p = Program(
        "tensormap_edit",
        "A tensor map edited in shared memory with tensormap.replace, then used for a load.",
    )
    p.text(
        ".extern .shared .align 1024 .b8 tile[];\n.shared .align 128 .b8 plan[128];\n.shared .align 8 .b64 full;"
    )
    field = "tensormap.replace.tile.{}.shared::cta.b1024.{} [%r20], {};"
    edits = "\n".join(
        [
            field.format("global_address", "b64", "%d0"),
            field.format("rank", "b32", "1"),
            field.format("box_dim", "b32", "0, 16"),
            field.format("box_dim", "b32", "1, 8"),
            field.format("global_dim", "b32", "0, 40"),
            field.format("global_dim", "b32", "1, 12"),
            field.format("global_stride", "b64", "0, 128"),
            field.format("element_stride", "b32", "0, 1"),
            field.format("element_stride", "b32", "1, 1"),
            field.format("elemtype", "b32", "6"),
            field.format("interleave_layout", "b32", "0"),
            field.format("swizzle_mode", "b32", "1"),
            field.format("fill_mode", "b32", "1"),
        ]
    )
    body = joined(
        _HEAD,
        lines("""
            mov.u32 %r20, plan;
            ld.param.u64 %d3, [room];
            mov.b64 %d4, map;
            cvta.param.u64 %d4, %d4;
            setp.ge.u32 %p2, %r14, 32;
        """),
        fill_shared("64", "FILL"),
        _INIT,
        lines("""
            @%p2 bra WAIT;
            // one word of the map for each lane
            mul.wide.u32 %d9, %r14, 4;
            add.u64 %d10, %d4, %d9;
            ld.b32 %r21, [%d10];
            mad.lo.u32 %r22, %r14, 4, %r20;
            st.shared.b32 [%r22], %r21;
            bar.warp.sync 0xffffffff;
            @!%p1 bra PUBLISH;
        """),
        edits,
        lines("""
            PUBLISH:
            bar.warp.sync 0xffffffff;
            cvta.to.global.u64 %d5, %d3;
            tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d5], [%r20], 128;
            fence.proxy.tensormap::generic.acquire.gpu [%d3], 128;
            @!%p1 bra WAIT;
            mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 256;
            mov.u32 %r23, 32;
            mov.u32 %r24, 7;
            cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
                [%r4], [%d3, {%r23, %r24}], [%r10];
        """),
        wait_parity("%r10", "0", "WAIT"),
        copy_out("%d1", "64", "DUMP"),
    )
    p.entry("edit", {"map": "map", "source": "u64", "out": "u64", "room": "u64"}, body)
    source: Json = buffer("b8", 128 * 16, "bits", seed=820)
    original = tensor_map("source", "UINT8", [64, 4], [128], [32, 4])
    p.launch(
        "edit",
        "edit",
        [original, "source", "out", "room"],
        {"source": source, "out": out("b32", 64), "room": buffer("b64", 64, "fill", value=0)},
        shared=256,
        scratch=["room"],
    )
    return p


def programs() -> list[Program]:
    return [_bulk(), _reductions(), _refused(), _edited()]
