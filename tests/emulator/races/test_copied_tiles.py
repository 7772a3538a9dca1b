"""Tiles of cp.async for the tensor core (A27): practice takes them with no proxy fence and warns, strict does not."""

from __future__ import annotations

import pytest
from emulator.races.twins import FENCE, HEAD, SCHEDULES, Twin, init, run, wait

from tkc.diagnostics import Severity

COPY = (
    "cp.async.cg.shared.global [mine], [%d2], 16; cp.async.cg.shared.global [mine+2048], [%d2], 16;"
)
ZEROS = "st.shared.v4.u32 [mine], {%r1, %r1, %r1, 0};"
START = f"""{HEAD}{init(f=128)} mov.u32 %r1, 0; mad.wide.u32 %d2, t, 16, %d0;
    shr.u32 %r2, at, 4; cvt.u64.u32 %d4, %r2; or.b64 %d4, %d4, {256 >> 4 << 32 | 128 >> 4 << 16};
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;"""
TIMES = """wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %d4, %d4, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ret;"""
AWAITED = "cp.async.wait_all; bar.sync 0;"
TOLD = f"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [f]; {wait('f', 0)}"
BULK = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [at], 1024; cp.async.bulk.commit_group;"

WARNED = {
    "a barrier": f"{COPY} {AWAITED}",
    "an mbarrier": f"{COPY} {TOLD}",
    "groups": f"{COPY} cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;",
    "zeros behind the copies": f"{COPY} cp.async.wait_all; {ZEROS} cp.async.mbarrier.arrive.noinc.shared::cta.b64 [f];"
    f" bar.sync 0; {wait('f', 0)}",
}
WRONG = {
    "data of threads alone": (f"st.shared.v4.u32 [mine], {{t, %r1, %r1, %r1}}; {AWAITED}", "TK302"),
    "data beside copies": (
        f"{COPY} cp.async.wait_all; st.shared.v4.u32 [mine], {{t, t, t, t}}; {TOLD} bar.sync 0;",
        "TK302",
    ),
    "zeros without copies": (f"{ZEROS} {AWAITED}", "TK302"),
    "zeros behind the last wait": (f"{COPY} cp.async.wait_all; {ZEROS} bar.sync 0;", "TK302"),
    "copies not awaited": (f"{COPY} bar.sync 0;", "TK301|TK309"),
    "no barrier": (f"{COPY} cp.async.wait_all;", "TK301"),
}


def twin(name: str, fill: str, rest: str = TIMES) -> Twin:
    return Twin(name, f"{START} {fill} {rest}", "", "", block=128)


@pytest.mark.parametrize("name", WARNED)
def test_practice_warns_and_strict_refuses(name: str, seed: int) -> None:
    for schedule in SCHEDULES:
        report = run(twin(name, WARNED[name]), {}, schedule, seed)
        assert report.clean
        assert {f.code for f in report.warnings} == {"TK302"}
        for finding in report.warnings:
            assert finding.severity is Severity.WARNING
            assert any("practice rests on A27" in note for note in finding.notes)
    report = run(twin(name, WARNED[name]), {}, "lazy", seed, model="strict")
    assert {f.code for f in report.races} == {"TK302"}
    assert not report.warnings


@pytest.mark.parametrize("model", ["practice", "strict"])
@pytest.mark.parametrize("name", WARNED)
def test_a_fence_mends_it(name: str, model: str, seed: int) -> None:
    report = run(twin(name, f"{WARNED[name]} {FENCE} bar.sync 0;"), {}, "lazy", seed, model=model)
    assert not report.findings, "\n".join(map(str, report.findings))


@pytest.mark.parametrize("name", WRONG)
def test_the_row_reaches_no_further(name: str, seed: int) -> None:
    fill, code = WRONG[name]
    for schedule in SCHEDULES:
        report = run(twin(name, fill), {}, schedule, seed)
        assert {f.code for f in report.races}.intersection(code.split("|")), report.findings


def test_the_copy_engine_still_needs_the_fence(seed: int) -> None:
    store = f"@first {BULK} @first cp.async.bulk.wait_group 0; ret;".replace(
        "; cp.async.bulk.commit", "; @first cp.async.bulk.commit"
    )
    report = run(twin("a store", f"{COPY} {AWAITED}", store), {}, "lazy", seed)
    assert {f.code for f in report.races} == {"TK302"}
