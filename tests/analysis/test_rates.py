"""Loops that are sure to handle differently many items of a ring, and such of which that is not known."""

from __future__ import annotations

import pytest
from oracles.as_stage import as_stage
from oracles.async_model import judge
from oracles.generate import trips
from oracles.roles import parse

from tkc.analysis.happens_before import check
from tkc.diagnostics import Severity
from tkc.driver import to_module
from tkc.job import Job

RING = """buffer a shared 2
barrier af 2 1
barrier ae 2 1
role load 1
  for {outer}
    for {load}
      wait ae[i] lag one
      expect af[i] 1
      tma a[i] af[i]
      step i
    {step}
role use 1
  for {outer}
    for {use}
      wait af[i] one
      store a[i]
      bulk_commit
      bulk_wait 0 read
      arrive ae[i] one
      step i
    {other}
"""


def told(**said: str) -> set[tuple[str, Severity]]:
    program = parse(RING.format(**{"outer": "T", "step": "step t", "other": "step t"} | said))
    deadlocks = {f.kind for f in judge(program, "practice", trips(program, False), False)}
    module, _ = as_stage(program, "sm_100a")
    found = {(f.code, f.severity) for f in check(module) if f.code != "TK324"}
    assert ("TK314", Severity.ERROR) not in found or "deadlock" in deadlocks
    return found


SURE = {("TK314", Severity.ERROR)}


def test_as_many_items_are_no_finding() -> None:
    assert told(load="t%3+0", use="t%3+0") == set()


@pytest.mark.parametrize(
    ("load", "use"), [("t%3+0", "t%3+1"), ("t%2+1", "2"), ("2", "1"), ("t%3+0", "t%2+0")]
)
def test_other_numbers_of_items_are_sure_to_hang(load: str, use: str) -> None:
    assert told(load=load, use=use) == SURE


AHEAD = """\
kernel k(X: global[f32, M, 8, N], Y: global[f32, M, 8, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared x: vector[f32, 128] * 2
    barrier full * 2, count = 1
    role all, warps 4:
        i = 0
        phase = 0
        for m, n in work:
            for j in range(2):
                elect:
                    expect full[j], bytes(x)
                    load x[j] <- X[m, j, n], full[j]
            for k in range(8):
                wait full[i], phase
                Y[m, k, n.index * 128 + thread] <- read(x[i][127 - thread])
                sync role
                if k < LOADS:
                    elect:
                        expect full[i], bytes(x)
                        load x[i] <- X[m, k + 2, n], full[i]
                phase = phase ^ i
                i = 1 - i
"""
"""Two loads ahead of a loop, and in it those of two turns later."""


@pytest.mark.parametrize(("loads", "items"), [(6, None), (5, 7), (4, 6)])
def test_items_of_several_loops_are_counted_together(loads: int, items: int | None) -> None:
    module = to_module(
        Job(AHEAD.replace("LOADS", str(loads)), "k.tk", "sm_90a"), after="insert-fences"
    )
    found = [f for f in check(module) if f.code == "TK314" and f.severity is Severity.ERROR]
    assert [f"{items} items" in f.message for f in found] == [True] * (items is not None), found


def test_a_counter_that_stands_still_is_sure_to_hang() -> None:
    assert told(load="t%3+0", use="t%3+0", other="fence") == SURE


def test_loops_that_turn_as_often_in_the_long_run_are_not_sure_to() -> None:
    assert SURE.isdisjoint(told(load="t%2+1", use="t%2+1", step="step t", other="step t"))
    assert SURE.isdisjoint(told(load="K", use="2"))


def test_few_turns_of_the_loop_round_them_may_not_be_enough() -> None:
    assert SURE.isdisjoint(told(outer="1", load="t%3+0", use="t%2+0"))
