"""Which threads come to a place: conditions that none of them meets are told, with who comes."""

from __future__ import annotations

import pytest
from programs import changed

from tkc.analysis.reach import ranges
from tkc.driver import run
from tkc.job import Job

ROLE = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], f: i32):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    role all, warps 4:
        for m, n in work:
            v[0][thread] <- read(X[m, n.index * 128 + thread])
            BODY
            sync role
            Y[m, n.index * 128 + thread] <- read(v[0][127 - thread])
            sync role
"""
STORE = "v[0][thread] <- 0.0"


def told(*lines: str) -> list[str]:
    """Line and threads of each warning that nobody meets a condition."""
    text = changed(ROLE, ("BODY", "\n            ".join(lines)))
    found = [d for d in run(Job(text, "k.tk")).diagnostics if d.code == "TK122"]
    rows = text.splitlines()
    return [f"{rows[d.location.line - 1].strip()} | {d.message}" for d in found if d.location]


@pytest.mark.parametrize(
    ("outer", "inner", "come"),
    [
        ("if lane == 0:", "if lane == 3:", "threads 0, 32, 64 and 96"),
        ("if warp == 1:", "if thread == 3:", "threads 32 to 63"),
        ("if thread < 64:", "if thread >= 64:", "threads 0 to 63"),
        ("if thread == 70:", "if warp == 0:", "thread 70"),
        ("if warp >= 2:", "elect:", "threads 64 to 127"),
        ("if thread % 2 == 0:", "if thread % 4 == 1:", "61 more ranges"),
        ("if warp == 1 and f > 3:", "if warp == 2 or warp == 3:", "threads 32 to 63"),
    ],
)
def test_a_condition_in_another_that_excludes_it_is_told(outer: str, inner: str, come: str) -> None:
    (said,) = told(outer, f"    {inner} {STORE}")
    assert said.startswith(
        f"{inner} {STORE} | no thread meets this condition: those round it let only "
    )
    assert come in said


@pytest.mark.parametrize(
    "lines",
    [
        ("if lane == 0:", f"    if warp == 3: {STORE}"),
        ("if thread < 64:", f"    if thread >= 63: {STORE}"),
        ("if f > 3:", f"    if f < 3: {STORE}"),
        ("if warp < 2:", f"    elect: {STORE}"),
        ("if warp == 1 or f > 3:", f"    if warp == 2: {STORE}"),
        (f"if thread < 32: {STORE}", f"else: {STORE}"),
        # of the copies of a statement, one is met
        ("for i in unroll(4):", "    if thread < 64:", f"        if thread + 32 * i < 40: {STORE}"),
    ],
)
def test_conditions_that_some_thread_may_meet_are_silent(lines: tuple[str, ...]) -> None:
    assert told(*lines) == []


def test_it_is_told_once_and_not_of_what_nobody_comes_to() -> None:
    inner = ("if warp == 1:", "    if warp == 2:", f"        if warp == 3: {STORE}")
    assert len(told(*inner)) == 1
    twice = ("for i in unroll(2):", "    if warp == 1:", f"        if warp == 2 + i: {STORE}")
    assert len(told(*twice)) == 1
    other = ("if warp == 1:", f"    if f > 2: {STORE}", "else:", f"    if warp == 1: {STORE}")
    (said,) = told(*other)
    assert "threads 0 to 31 and 64 to 127" in said


def test_ranges_are_told_shortly() -> None:
    assert ranges([0]) == "0"
    assert ranges([5, 4, 9]) == "4 to 5 and 9"
    assert ranges(range(0, 20, 2)) == "0, 2, 4 and 7 more ranges"
