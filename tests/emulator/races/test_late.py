"""Threads that have nothing left to wait for, and may still come late (A31): practice warns, strict does not."""

from __future__ import annotations

import pytest
from emulator.races.test_clusters import CLUSTER, FAR, RANK
from emulator.races.twins import HEAD, SCHEDULES, Twin, init, run, wait

from tkc.diagnostics import Severity
from tkc.emulator import Report

GO = "mbarrier.arrive.shared::cta.b64 _, [{0}];".format
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [at], 1024; cp.async.bulk.commit_group;"
READ = f"{STORE} cp.async.bulk.wait_group.read 0;"


def phases(between: str, last: str = "") -> Twin:
    """Thread 0 ends two phases of f, between which it hears from thread 32, which waits for the first."""
    body = f"""{HEAD}{init()} setp.eq.u32 q, t, 32; @first bra A; @q bra B; setp.eq.u32 q, t, 64; @q bra C; bra E;
    A: {GO("f")} {wait("e", 0)} {GO("f")} bra E;
    B: {between} {last} bra E;
    C: {GO("m")}
    E: ret;"""
    return Twin("phases", body, "", "", block=96)


def ends(word: str, end: str) -> Twin:
    """A thread of CTA 1 comes to CTA 0 by `word`; another one tells CTA 0 that both may go; then CTA 0 does `end`."""
    far = "mapa.shared::cluster.u32 %r5, {0}, {1};".format
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];"
    body = f"""{HEAD}{RANK}{FAR}{init()} fence.mbarrier_init.release.cluster; {CLUSTER} mov.u32 %r6, %cluster_ctarank;
    setp.eq.u32 p, %r6, 0; @p bra A; setp.eq.u32 q, t, 32;
    @first bra B; @q bra B; bra E;
    B: {wait("m", 0)} setp.eq.u32 q, t, 32; @q bra C; {word.format(arrive=far("f", 0) + arrive)} bra E;
    C: {far("e", 0)} {arrive} bra E;
    A: @!first bra E; {far("m", 1)} {arrive} {end.format(wait=wait("e", 0))}
    E: {{last}} ret;"""
    return Twin("ends", body, "", "", good={"last": CLUSTER}, cluster=2)


def codes(report: Report, severity: Severity) -> set[str]:
    return {f.code for f in report.findings if f.severity is severity}


def is_warned(twin: Twin, code: str, seed: int) -> None:
    for schedule in ("eager", "lazy"):
        report = run(twin, twin.bad, schedule, seed)
        assert (codes(report, Severity.ERROR), codes(report, Severity.WARNING)) == (set(), {code})
        assert all("practice rests on A31" in f.notes[-1] for f in report.warnings)
        strict = run(twin, twin.bad, schedule, seed, model="strict")
        assert code in codes(strict, Severity.ERROR)


def test_a_wait_that_has_only_to_begin(seed: int) -> None:
    is_warned(phases(GO("e") + wait("f", 0)), "TK306", seed)


@pytest.mark.parametrize(
    "between",
    [
        GO("e") + wait("m", 0),  # may last: nobody told thread 0 of m
        GO("e") + READ,  # may last: the copy engine reads
    ],
)
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_a_wait_behind_another(between: str, schedule: str, seed: int) -> None:
    report = run(phases(between, wait("f", 0)), {}, schedule, seed)
    assert codes(report, Severity.ERROR) & {"TK306", "TK314"}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_wait_that_is_over_is_silent(schedule: str, seed: int) -> None:
    assert not run(phases(wait("f", 0), GO("e")), {}, schedule, seed).findings


def test_an_arrival_that_has_only_to_be_made(seed: int) -> None:
    is_warned(ends("{arrive}", "{wait}"), "TK313", seed)


@pytest.mark.parametrize(
    ("word", "end"),
    [
        ("{arrive}", ""),  # CTA 0 has not heard from CTA 1
        ("ld.shared::cluster.u32 %r1, [far];", "{wait}"),  # data, and no arrival
        ("ld.shared::cluster.u32 %r1, [far]; {arrive}", "{wait}"),
    ],
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_other_ends(word: str, end: str, schedule: str, seed: int) -> None:
    twin = ends(word, end)
    assert "TK313" in codes(run(twin, twin.bad, schedule, seed), Severity.ERROR)
    assert not run(twin, twin.good, schedule, seed).findings
