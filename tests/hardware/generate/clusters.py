"""Programs of clusters of two: shared memory of the peer, remote barriers, multicast, copies and stores across."""

from __future__ import annotations

from generate.writing import (
    Program,
    buffer,
    copy_out,
    fill_shared,
    joined,
    lines,
    out,
    tensor_map,
    wait_parity,
)

_HEAD = lines("""
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %cluster_ctarank;
    xor.b32 %r3, %r2, 1;
    mov.u32 %r4, room;
    mov.u32 %r10, full;
    ld.param.u64 %d0, [source];
    ld.param.u64 %d1, [out];
    mov.u32 %r8, %ctaid.x;
    setp.eq.u32 %p1, %r1, 0;
""")
_OWN_OUT = "mul.wide.u32 %d2, %r8, {size};\nadd.u64 %d1, %d1, %d2;"
_BARRIER = lines("""
    @%p1 mbarrier.init.shared::cta.b64 [%r10], {count};
    @%p1 fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
""")
_END = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"


def _distributed() -> Program:
    p = Program(
        "cluster_memory",
        "Loads, stores and atomics of the peer's shared memory; addresses that mapa makes.",
    )
    p.text(".shared .align 16 .b32 room[256];\n.shared .align 8 .b64 full;")
    body = joined(
        _HEAD,
        """
        mad.lo.u32 %r11, %r8, 128, %r1;
        mul.wide.u32 %d9, %r11, 4;
        add.u64 %d10, %d0, %d9;
        ld.global.b32 %r12, [%d10];
        mad.lo.u32 %r5, %r1, 4, %r4;
        st.shared.b32 [%r5], %r12;
        mov.b32 %r13, 7;
        st.shared.b32 [%r5+512], %r13;
        barrier.cluster.arrive.release.aligned;
        barrier.cluster.wait.acquire.aligned;
        mapa.shared::cluster.u32 %r6, %r5, %r3;
        ld.shared::cluster.b32 %r14, [%r6];
        mapa.shared::cluster.u32 %r7, %r5, %r2;
        ld.shared::cluster.b32 %r15, [%r7];
        getctarank.shared::cluster.u32 %r16, %r6;
        getctarank.shared::cluster.u32 %r17, %r7;
        sub.u32 %r18, %r6, %r7;
        atom.shared::cluster.add.u32 %r19, [%r6+512], %r12;
        mov.u64 %d11, room;
        cvta.shared.u64 %d11, %d11;
        mapa.u64 %d12, %d11, %r3;
        add.u64 %d12, %d12, 4;
        ld.b32 %r20, [%d12];
        getctarank.u64 %r21, %d12;
        isspacep.shared::cluster %p2, %d12;
        isspacep.shared::cta %p3, %d12;
        isspacep.shared::cluster %p4, %d11;
        isspacep.shared::cta %p5, %d11;
        selp.b32 %r22, 1, 0, %p2;
        @%p3 or.b32 %r22, %r22, 2;
        @%p4 or.b32 %r22, %r22, 4;
        @%p5 or.b32 %r22, %r22, 8;
        barrier.cluster.arrive.release.aligned;
        barrier.cluster.wait.acquire.aligned;
        ld.shared.b32 %r23, [%r5+512];
        mul.wide.u32 %d13, %r11, 36;
        add.u64 %d13, %d1, %d13;
        st.global.b32 [%d13], %r14;
        st.global.b32 [%d13+4], %r15;
        st.global.b32 [%d13+8], %r16;
        st.global.b32 [%d13+12], %r17;
        st.global.b32 [%d13+16], %r19;
        st.global.b32 [%d13+20], %r20;
        st.global.b32 [%d13+24], %r21;
        st.global.b32 [%d13+28], %r22;
        st.global.b32 [%d13+32], %r23;
        """,
    )
    p.entry("peer", {"source": "u64", "out": "u64"}, body, cluster=2)
    p.launch(
        "peer",
        "peer",
        ["source", "out"],
        {"source": buffer("b32", 512, "bits", seed=950), "out": out("b32", 512 * 9)},
        grid=4,
        cluster=2,
    )
    return p


def _remote() -> Program:
    p = Program(
        "cluster_barriers",
        "Arrivals on the peer's barrier, st.async, red.async and bulk copies to the peer.",
    )
    p.text(".shared .align 16 .b32 room[256];\n.shared .align 8 .b64 full;")
    cases = {
        # thread i stores to word i of the peer; its barrier gets the bytes
        "store": (
            "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 1024;",
            """
            mad.lo.u32 %r5, %r1, 8, %r6;
            mov.b64 {%r20, %r21}, %d10;
            st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%r5], {%r20, %r21}, [%r7];
        """,
        ),
        "store64": (
            "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 1024;",
            """
            mad.lo.u32 %r5, %r1, 8, %r6;
            st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%r5], %d10, [%r7];
        """,
        ),
        "reduce": (
            "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 1536;",
            """
            and.b32 %r5, %r1, 15;
            mad.lo.u32 %r5, %r5, 4, %r6;
            mov.b64 {%r20, %r21}, %d10;
            red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r5], %r20, [%r7];
            red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.max.s32 [%r5+64], %r20, [%r7];
            red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.xor.b32 [%r5+128], %r21, [%r7];
        """,
        ),
        "reduce64": (
            "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 1024;",
            """
            and.b32 %r5, %r1, 15;
            mad.lo.u32 %r5, %r5, 8, %r6;
            red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r5], %d10, [%r7];
        """,
        ),
    }
    for name, (expect, text) in cases.items():
        body = joined(
            _HEAD,
            _OWN_OUT.format(size=1024),
            """
            mad.lo.u32 %r11, %r8, 128, %r1;
            mul.wide.u32 %d9, %r11, 8;
            add.u64 %d10, %d0, %d9;
            ld.global.b64 %d10, [%d10];
            """,
            fill_shared("256", "FILL", "0x00000011"),
            _BARRIER.format(count=1),
            f"@%p1 {expect}",
            """
            mapa.shared::cluster.u32 %r6, %r4, %r3;
            mapa.shared::cluster.u32 %r7, %r10, %r3;
            """,
            text,
            wait_parity("%r10", "0", "WAIT"),
            _END,
            copy_out("%d1", "256", "DUMP"),
        )
        p.entry(name, {"source": "u64", "out": "u64"}, body, cluster=2)
        p.launch(
            name,
            name,
            ["source", "out"],
            {"source": buffer("b64", 256, "bits", seed=960), "out": out("b32", 512)},
            grid=2,
            cluster=2,
        )
    # arrivals from the peer: 128 of its threads, then one with a count and bytes
    body = joined(
        _HEAD,
        """
        mul.wide.u32 %d2, %r8, 16;
        add.u64 %d1, %d1, %d2;
        """,
        fill_shared("256", "FILL"),
        _BARRIER.format(count=128),
        """
        mapa.shared::cluster.u32 %r7, %r10, %r3;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
        """,
        wait_parity("%r10", "0", "FIRST"),
        # the other barrier has finished its phase too
        _END,
        """
        setp.ge.u32 %p2, %r1, 2;
        @%p2 bra SKIP;
        setp.eq.u32 %p3, %r1, 1;
        @%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7], 127;
        @!%p3 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r7], 64;
        SKIP:
        """,
        _END,
        """
        @!%p1 bra DONE;
        mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r10], 1;
        selp.b32 %r20, 1, 0, %p4;
        mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r10], 64;
        mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r10], 1;
        selp.b32 %r21, 1, 0, %p4;
        mbarrier.arrive.shared::cta.b64 %d20, [%r10];
        mbarrier.pending_count.b64 %r22, %d20;
        st.global.b32 [%d1], %r20;
        st.global.b32 [%d1+4], %r21;
        st.global.b32 [%d1+8], %r22;
        DONE:
        """,
    )
    p.entry("arrive", {"source": "u64", "out": "u64"}, body, cluster=2)
    p.launch(
        "arrive",
        "arrive",
        ["source", "out"],
        {"source": buffer("b32", 4, "fill", value=0), "out": out("b32", 8)},
        grid=2,
        cluster=2,
    )
    return p


def _bulk() -> Program:
    p = Program(
        "cluster_bulk",
        "Bulk copies and reductions to the peer's shared memory, multicast of bytes and of boxes.",
    )
    p.text(
        ".extern .shared .align 1024 .b8 room[];\n.shared .align 8 .b64 full;\n.shared .align 16 .b32 other[128];"
    )
    start = joined(
        _HEAD,
        _OWN_OUT.format(size=2048),
        """
        mov.u32 %r12, other;
        mad.lo.u32 %r11, %r8, 128, %r1;
        mul.wide.u32 %d9, %r11, 4;
        add.u64 %d10, %d0, %d9;
        ld.global.b32 %r13, [%d10];
        mad.lo.u32 %r14, %r1, 4, %r12;
        st.shared.b32 [%r14], %r13;
        """,
        fill_shared("512", "FILL", "0x00000022"),
        _BARRIER.format(count=1),
    )
    to_peer = "mapa.shared::cluster.u32 %r6, %r4, %r3;\nmapa.shared::cluster.u32 %r7, %r10, %r3;"
    cases: dict[str, tuple[int, str]] = {
        "copy": (
            512,
            f"{to_peer}\ncp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
            " [%r6], [%r12], 512, [%r7];",
        ),
    }
    for op, t in (
        ("add", "u32"),
        ("add", "s32"),
        ("min", "s32"),
        ("max", "u32"),
        ("inc", "u32"),
        ("dec", "u32"),
        ("and", "b32"),
        ("or", "b32"),
        ("xor", "b32"),
        ("add", "u64"),
    ):
        cases[f"{op}_{t}"] = (
            512,
            f"{to_peer}\ncp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{t}"
            " [%r6], [%r12], 512, [%r7];",
        )
    # every CTA sends its own half of the source to both
    cases["multicast"] = (
        1024,
        """
        mad.lo.u32 %r6, %r2, 512, %r4;
        mul.wide.u32 %d11, %r8, 512;
        add.u64 %d11, %d0, %d11;
        mov.b16 %h1, 3;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
            [%r6], [%d11], 512, [%r10], %h1;
        """,
    )
    for name, (expected, text) in cases.items():
        body = joined(
            start,
            f"@!%p1 bra WAIT;\nmbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], {expected};",
            text,
            wait_parity("%r10", "0", "WAIT"),
            _END,
            copy_out("%d1", "512", "DUMP"),
        )
        p.entry(name, {"source": "u64", "out": "u64"}, body, cluster=2)
        p.launch(
            name,
            name,
            ["source", "out"],
            {"source": buffer("b32", 256, "bits", seed=970), "out": out("b32", 1024)},
            grid=2,
            cluster=2,
            shared=2048,
        )
    body = joined(
        start,
        """
        mov.b64 %d20, map;
        cvta.param.u64 %d20, %d20;
        @!%p1 bra WAIT;
        mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 2048;
        mad.lo.u32 %r6, %r2, 1024, %r4;
        mov.b16 %h1, 3;
        mov.b16 %h2, 1;
        mul.lo.u32 %r20, %r2, 8;
        mov.u32 %r21, 8;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
            [%r6], [%d20, {%r21, %r20}], [%r10], %h1;
        """,
        wait_parity("%r10", "0", "WAIT"),
        _END,
        copy_out("%d1", "512", "DUMP"),
    )
    p.entry("boxes", {"map": "map", "source": "u64", "out": "u64"}, body, cluster=2)
    described = tensor_map("source", "BFLOAT16", [64, 14], [128], [64, 8], swizzle="128B")
    p.launch(
        "boxes",
        "boxes",
        [described, "source", "out"],
        {"source": buffer("b32", 512, "bits", seed=971), "out": out("b32", 1024)},
        grid=2,
        cluster=2,
        shared=2048,
    )
    # rank 1 alone gets the box that rank 0 loads; the barrier at the same place in rank 1 gets the bytes
    body = joined(
        start,
        """
        mov.b64 %d20, map;
        cvta.param.u64 %d20, %d20;
        setp.eq.u32 %p2, %r2, 1;
        @!%p1 bra SENT;
        @%p2 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r10], 1024;
        @%p2 bra SENT;
        mov.b16 %h1, 2;
        mov.u32 %r20, 0;
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
            [%r4], [%d20, {%r20, %r20}], [%r10], %h1;
        SENT:
        @!%p2 bra LAST;
        """,
        wait_parity("%r10", "0", "WAIT"),
        "LAST:",
        _END,
        copy_out("%d1", "512", "DUMP"),
    )
    p.entry("one_way", {"map": "map", "source": "u64", "out": "u64"}, body, cluster=2)
    p.launch(
        "one_way",
        "one_way",
        [described, "source", "out"],
        {"source": buffer("b32", 512, "bits", seed=972), "out": out("b32", 1024)},
        grid=2,
        cluster=2,
        shared=2048,
    )
    return p


def programs() -> list[Program]:
    return [_distributed(), _remote(), _bulk()]
