"""Programs that do something wrong: each gives a finding with its code at the right line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator.kernels import launch, text

from tkc.emulator import Finding, Poisoned, Report, TensorMap, emulate

ONE = np.zeros(64, np.uint32)


def the(report: Report, code: str) -> Finding:
    found = [f for f in report.findings if f.code == code]
    assert found, f"no {code} among {[str(f) for f in report.findings]}"
    return found[0]


def line_of(report: Report, code: str, body: str, marker: str) -> None:
    """The finding stands at the line of the body that holds `marker`."""
    lines = text(body, ("a0",)).splitlines()
    assert marker in lines[the(report, code).ptx_line - 1]


BARRIER = ".shared .align 8 .b64 bar; .reg .b32 b; mov.u32 b, bar; mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n"


@pytest.mark.parametrize(
    ("code", "marker", "body"),
    [
        ("TK303", "arrive", "mbarrier.arrive.shared::cta.b64 _, [b]; ret;"),
        (
            "TK303",
            "try_wait",
            "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [b], 0; @!%p1 bra W; ret;",
        ),
        (
            "TK304",
            "b], 5",
            "@%p0 ret; mbarrier.init.shared::cta.b64 [b], 2; mbarrier.arrive.shared::cta.b64 _, [b];\n"
            "mbarrier.init.shared::cta.b64 [b], 5; ret;",
        ),
        ("TK305", "init", "@%p0 ret; mbarrier.init.shared::cta.b64 [b], 0; ret;"),
        (
            "TK305",
            ", 3;",
            "@%p0 ret; mbarrier.init.shared::cta.b64 [b], 2;\nmbarrier.arrive.shared::cta.b64 _, [b], 3; ret;",
        ),
        (
            "TK305",
            "1048576",
            "@%p0 ret; mbarrier.init.shared::cta.b64 [b], 2;\n"
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [b], 1048576; ret;",
        ),
        ("TK305", "sync 16", "mov.u32 %r1, 16;\nbarrier.cta.sync %r1; // sync 16\nret;"),
        ("TK305", "40", "mov.u32 %r1, 40;\nbarrier.cta.sync 1, %r1; // 40\nret;"),
        ("TK321", "st.global", "add.u64 %d1, %d0, 256;\nst.global.u32 [%d1], 1; ret;"),
        ("TK321", "ld.global", "mov.u64 %d1, 0;\nld.global.u32 %r1, [%d1]; ret;"),
        ("TK322", "ld.global", "ld.global.u32 %r1, [%d0+2]; ret;"),
        ("TK321", "ld.shared", "mov.u32 %r1, 0x8000;\nld.shared.u32 %r1, [%r1]; ret;"),
        ("TK322", "v4", "mov.u32 %r1, 1028;\nst.shared.v4.b32 [%r1], {%r1, %r1, %r1, %r1}; ret;"),
        (
            "TK316",
            "ldmatrix",
            "@%p0 ret; mov.u32 %r1, 1024;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1]; ret;",
        ),
    ],
)
def test_stops(code: str, marker: str, body: str) -> None:
    body = BARRIER + body
    line_of(launch(body, ONE), code, body, marker)


TENSOR = (
    ".shared .align 8 .b32 slot[4]; .reg .b32 s, tm; mov.u32 s, slot;\n"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 64;\n"
    "ld.shared.b32 tm, [s];\n"
)


@pytest.mark.parametrize(
    ("code", "marker", "body"),
    [
        ("TK311", "alloc", TENSOR + "ret;"),
        (
            "TK310",
            "x1.b32",
            TENSOR
            + "add.u32 %r1, tm, 64;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1]; ret;",
        ),
        (
            "TK321",
            "x1.b32",
            TENSOR
            + "add.u32 %r1, tm, 0x200000;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%r2}, [%r1]; ret;",
        ),
        ("TK310", ", 32", TENSOR + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 tm, 32; ret;"),
        (
            "TK310",
            "[s], 33",
            TENSOR.replace("[s], 64", "[s], 33") + "ret;",
        ),
        (
            "TK310",
            ".b32 [s], 32",
            TENSOR
            + "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
            + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32; ret;",
        ),
        (
            "TK323",
            "kind::f16",
            TENSOR
            + "elect.sync _|%p1, -1; mov.u64 %d1, 0x4000404000010040; mov.u32 %r1, 0x08400491;\n"
            + "@%p1 tcgen05.mma.cta_group::1.kind::f16 [tm], %d1, %d1, 0x00000000, 0; ret;",
        ),
        (
            "TK323",
            "kind::f16",
            TENSOR
            + "elect.sync _|%p1, -1; mov.u64 %d1, 0x2000004000010040;\n"
            + "@%p1 tcgen05.mma.cta_group::1.kind::f16 [tm], %d1, %d1, 0x04100490, 0; ret;",
        ),
    ],
)
def test_tensor_memory(code: str, marker: str, body: str) -> None:
    line_of(launch(body, ONE, shared=65536), code, body, marker)


def test_a_deadlock_says_what_the_barrier_lacks() -> None:
    """The copy brings 128 bytes, and 256 are expected."""
    source = np.arange(64, dtype=np.uint32)
    body = """
        .shared .align 128 .b8 tile[256]; .shared .align 8 .b64 bar; .reg .b32 b, t;
        mov.u32 b, bar; mov.u32 t, tile; mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra W;
        mbarrier.init.shared::cta.b64 [b], 1;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [b], 256;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [t], [%d0], 128, [b];
    W:  bar.warp.sync -1;
    L:  mbarrier.try_wait.parity.shared::cta.b64 %p1, [b], 0;
        @!%p1 bra L;
        ret;
    """
    for schedule in ("eager", "lazy", "random"):
        report = launch(body, source, schedule=schedule)
        hang = the(report, "TK314")
        assert "try_wait" in text(body, ("a0",)).splitlines()[hang.ptx_line - 1]
        assert any("0 of 1 arrivals and 128 bytes pending" in note for note in hang.notes)


def _uninitialised(body: str, *more: Any, **options: Any) -> Report:
    return launch(body, ONE, *more, **options)


def test_uninitialised_values_that_reach_memory() -> None:
    shared = ".shared .align 16 .b32 s[32]; mov.u32 %r1, s;\n"
    report = _uninitialised(
        shared + "ld.shared.u32 %r2, [%r1]; add.u32 %r2, %r2, 1; st.global.u32 [%d0], %r2; ret;"
    )
    assert the(report, "TK320").message.startswith("an uninitialised value is stored")
    # A register, a branch, and an address.
    assert the(_uninitialised("st.global.u32 [%d0], %r7; ret;"), "TK320")
    report = _uninitialised("setp.eq.u32 %p1, %r7, 0; @%p1 bra L; st.global.u32 [%d0], 1; L: ret;")
    assert "branch" in the(report, "TK320").message
    report = _uninitialised("mad.wide.u32 %d1, %r7, 0, %d0; st.global.u32 [%d1], 1; ret;")
    assert "address" in the(report, "TK320").message


def test_uninitialised_values_that_do_not_matter() -> None:
    halves = (
        "mov.u32 %r0, %tid.x; mov.b64 %d1, {%r7, %r0}; mov.b64 {_, %r2}, %d1; st.global.u32 [%d0], %r2;\n"
        "and.b32 %r3, %r8, 0; prmt.b32 %r4, %r0, %r9, 0x3210; shl.b64 %d2, %d9, 32; cvt.u32.u64 %r5, %d2;\n"
        "or.b32 %r3, %r3, %r5; st.global.u32 [%d0+4], %r3; st.global.u32 [%d0+8], %r4; ret;"
    )
    assert not _uninitialised(halves, block=1).findings
    skipped = "setp.ne.u32 %p1, %r0, %r0; ret;"
    assert not _uninitialised(skipped).findings
    selected = "mov.u32 %r1, 5; setp.eq.u32 %p1, %r1, 5; selp.b32 %r2, %r1, %r7, %p1; st.global.u32 [%d0], %r2; ret;"
    assert not _uninitialised(selected).findings
    guarded = "setp.eq.u64 %p1, %d0, 0; @!%p1 mov.u32 %r2, 1; @!%p1 st.global.u32 [%d0], %r2; ret;"
    assert not _uninitialised(guarded).findings


def test_poisoned_arguments() -> None:
    out = np.zeros(32, np.uint32)
    copy = "ld.global.u32 %r1, [%d1]; st.global.u32 [%d0], %r1; ret;"
    assert not launch(copy, out, np.zeros(4, np.uint32)).findings
    assert the(launch(copy, out, Poisoned(np.zeros(4, np.uint32))), "TK320")
    assert not launch(
        "st.global.u32 [%d1], 3; " + copy, out, Poisoned(np.zeros(4, np.uint32))
    ).findings


def _tensor_store(
    tail: str, shared: str = "st.shared.u32 [%r2], %r0;", model: str = "practice"
) -> Report:
    target = np.zeros((8, 32), np.float32)
    tensor = TensorMap(target, dtype="f32", sizes=[32, 8], strides=[128], box=[32, 1])
    body = f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
{{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %d<4>;
    .shared .align 128 .b8 tile[128];
    mov.b64 %d0, map; cvta.param.u64 %d0, %d0;
    mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 4, %r1;
    {shared}
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    elect.sync _|%p1, -1;
    @!%p1 ret;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {{0, 3}}], [%r1];
    {tail}
    ret;
}}
"""
    report = emulate(body, grid=1, block=32, args=[tensor], model=model)
    if report.clean:
        assert (target[3].view(np.uint32) == np.arange(32)).all()
        assert not target[:3].any()
    return report


def test_bulk_stores_are_awaited_before_the_end() -> None:
    assert not _tensor_store(
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"
    ).findings
    assert not _tensor_store("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;").findings
    alone = _tensor_store("cp.async.bulk.commit_group;")
    assert the(alone, "TK324") in alone.warnings
    strict = _tensor_store("cp.async.bulk.commit_group;", model="strict")
    assert the(strict, "TK324") in strict.faults
    assert the(_tensor_store("cp.async.bulk.commit_group; cp.async.bulk.wait_group 1;"), "TK324")
    report = _tensor_store("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;", shared="")
    assert "shared memory is stored" in the(report, "TK320").message


def test_findings_have_source_places() -> None:
    body = '.file 1 "kernel.cu"\n'
    ptx = text(".loc 1 42 7\nld.global.u32 %r1, [%d0+2]; ret;", ("a0",), module=body)
    report = emulate(ptx, grid=1, block=32, args=[ONE])
    finding = report.faults[0]
    assert str(finding.location) == "kernel.cu:42:7"
    assert "kernel.cu:42:7: error" in str(finding)
    assert "warp 0" in finding.agents[0]
