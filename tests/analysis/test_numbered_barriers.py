"""Numbered barriers of threads: which arrivals complete a phase together, where roles come to them unlike."""

from __future__ import annotations

import pytest

from tests.analysis.bug_cases import changed
from tests.analysis.test_bug_cases import said

HEAD = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], f: i32):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 64))
"""

TURNS = (
    HEAD
    + """\
    shared v: vector[f32, 64]
    role one, warps 2:
        for m, n in work:
            sync 4, 128
            v[0][thread] <- read(X[m, n.index * 64 + thread])
            arrive 3, 128
    role two, warps 2:
        arrive 4, 128
        for m, n in work:
            sync 3, 128
            Y[m, n.index * 64 + thread] <- read(v[0][63 - thread])
            arrive 4, 128
"""
)
"""The reader lets the writer start: what it arrives at in a turn is what the writer comes to in the next."""

BOTH_AHEAD = changed(
    TURNS,
    ("        for m, n in work:\n            sync 4, 128\n", "        sync 4, 128\n        for m, n in work:\n"),
    ("            arrive 3, 128\n", "            arrive 3, 128\n            sync 4, 128\n"),
)  # fmt: skip
ONE_NUMBER = changed(BOTH_AHEAD, ("3, 128", "4, 128"))


@pytest.mark.parametrize("text", [TURNS, BOTH_AHEAD])
def test_arrivals_ahead_of_a_loop_count(text: str) -> None:
    assert said(text, "sm_90a") == ()


@pytest.mark.parametrize("text", [TURNS, BOTH_AHEAD])
def test_one_arrival_more_lets_the_writer_be_early(text: str) -> None:
    early = text.replace(
        "        arrive 4, 128\n", "        arrive 4, 128\n        arrive 4, 128\n", 1
    )
    assert [d.code for d in said(early, "sm_90a")] == ["TK309"]


RING = (
    HEAD
    + """\
    shared v: vector[f32, 64] * 2
    role one, warps 2:
        i = 0
        for m, n in work:
            v[i][thread] <- read(X[m, n.index * 64 + thread])
            sync 4, 128
            i = 1 - i
    role two, warps 2:
        i = 0
        for m, n in work:
            sync 4, 128
            Y[m, n.index * 64 + thread] <- read(v[i][63 - thread])
            i = 1 - i
"""
)
SYNC = "            sync 4, 128\n            Y"
UNLIKE = {
    "under a condition": (SYNC, f"            if f > 0: arrive 4, 128\n{SYNC}"),
    "in the first turns": (SYNC, f"            if n.first: arrive 4, 128\n{SYNC}"),
    "in either branch": (
        SYNC,
        f"            if f > 0: arrive 4, 128\n            else: arrive 4, 128\n{SYNC}",
    ),
    "in a loop inside": (SYNC, f"            for j in range(f): arrive 4, 128\n{SYNC}"),
    "before the loop": (
        f"        i = 0\n        for m, n in work:\n{SYNC}",
        f"        i = 0\n        arrive 4, 128\n        for m, n in work:\n{SYNC}",
    ),
    "before the loop, perhaps": (
        f"        i = 0\n        for m, n in work:\n{SYNC}",
        f"        i = 0\n        if f > 2: arrive 4, 128\n        for m, n in work:\n{SYNC}",
    ),
}


@pytest.mark.parametrize("change", UNLIKE.values(), ids=UNLIKE)
def test_what_arrives_and_what_waits_are_counted_as_one(change: tuple[str, str]) -> None:
    """A `sync` leaves with the phase that it arrives at, which arrivals before it may have moved."""
    assert said(RING, "sm_90a") == ()
    assert {d.code for d in said(changed(RING, change), "sm_90a")} & {"TK301", "TK309"}


CROSSED = (
    HEAD
    + """\
    role one, warps 2:
        for m, n in work:
            sync 4, 128
            Y[m, n.index * 64 + thread] <- read(X[m, n.index * 64 + thread])
            sync 3, 128
    role two, warps 2:
        for m, n in work:
            sync 4, 128
            sync 3, 128
"""
)
HUNG = {
    "nobody lets the writer start": changed(
        TURNS, ("        arrive 4, 128\n        for", "        for")
    ),
    "two numbers, crosswise": changed(
        CROSSED, ("            sync 4, 128\n            sync 3, 128\n", "            sync 3, 128\n            sync 4, 128\n")
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", HUNG.values(), ids=HUNG)
def test_roles_that_wait_for_one_another_are_told(text: str) -> None:
    assert said(CROSSED, "sm_90a") == ()
    told = [d for d in said(text, "sm_90a") if d.code == "TK314"]
    assert told
    assert any("4, 128" in d.message for d in told)


@pytest.mark.parametrize("condition", ["M > 3", "f > 0", "n.index > f", "n.index % 2 == 0"])
def test_roles_that_wait_for_one_another_under_a_condition_are_told(condition: str) -> None:
    """Where a run on small numbers need not come to them, too."""
    head = "        for m, n in work:\n"
    for text in (CROSSED, *HUNG.values()):
        under = text.replace(head, f"{head}          if {condition}:\n")
        assert {d.code for d in said(under, "sm_90a")} == ({"TK314"} if text != CROSSED else set())


def test_what_comes_in_the_next_turn_is_not_too_late() -> None:
    under = TURNS.replace(
        "        for m, n in work:\n", "        for m, n in work:\n          if n.index > f:\n"
    )
    assert said(under, "sm_90a") == ()


TWO_SLOTS = (
    HEAD
    + """\
    shared v: vector[f32, 64] * 2
    role one, warps 2:
        i = 0
        sync 4, 128
        for m, n in work:
            v[i][thread] <- read(X[m, n.index * 64 + thread])
            arrive 3, 128
            sync 4, 128
            i = i ^ 1
    role two, warps 2:
        i = 0
        arrive 4, 128
        for m, n in work:
            sync 3, 128
            Y[m, n.index * 64 + thread] <- read(v[i][63 - thread])
            arrive 4, 128
            i = i ^ 1
"""
)


def test_a_role_does_not_arrive_twice_before_another_has_come() -> None:
    """A barrier counts threads: both arrivals of the reader would complete a phase that the writer has not come to."""
    assert said(TWO_SLOTS, "sm_90a") == ()
    early = TWO_SLOTS.replace("        i = 0\n        sync 4, 128\n", "        i = 0\n")
    assert [d.code for d in said(early, "sm_90a")] == ["TK306"]


def test_a_role_that_arrives_and_waits_at_one_number_completes_the_phase_alone() -> None:
    assert [d.code for d in said(ONE_NUMBER, "sm_90a")] == ["TK306"]


EITHER = changed(
    RING,
    ("            sync 4, 128\n            i = 1", "            if f > 0: sync 4, 128\n            else: sync 5, 128\n            i = 1"),
    (SYNC, "            if f > 0: sync 4, 128\n            else: sync 5, 128\n            Y"),
)  # fmt: skip
"""A barrier in each branch of a condition on which all threads agree."""
UNEQUAL = {
    "another condition": ("            if f > 0: sync 4, 128\n            else: sync 5, 128\n            Y",
                          "            if f > 1: sync 4, 128\n            else: sync 5, 128\n            Y"),
    "the contrary": ("            if f > 0: sync 4, 128\n            else: sync 5, 128\n            Y",
                     "            if f <= 0: sync 4, 128\n            else: sync 5, 128\n            Y"),
    "the numbers the other way round": ("            if f > 0: sync 4, 128\n            else: sync 5, 128\n            Y",
                                        "            if f > 0: sync 5, 128\n            else: sync 4, 128\n            Y"),
    "nothing in one of them": ("            else: sync 5, 128\n            Y", "            Y"),
    "the read ahead of one": ("            else: sync 5, 128\n            Y[m, n.index * 64 + thread] <- read(v[i][63 - thread])\n",
                              "            else:\n                Y[m, n.index * 64 + thread] <- read(v[i][63 - thread])\n                sync 5, 128\n"),
}  # fmt: skip


@pytest.mark.parametrize("condition", ["f > 0", "n.index > f", "M > 7"])
def test_a_barrier_in_each_branch_is_one_meeting(condition: str) -> None:
    text = EITHER.replace("f > 0", condition)
    assert said(text, "sm_90a") == ()
    one_slot = text.replace("vector[f32, 64] * 2", "vector[f32, 64]").replace("v[i]", "v[0]")
    assert [d.code for d in said(one_slot, "sm_90a")] == ["TK309"]


@pytest.mark.parametrize("change", UNEQUAL.values(), ids=UNEQUAL)
def test_unlike_branches_are_no_meeting(change: tuple[str, str]) -> None:
    assert {d.code for d in said(changed(EITHER, change), "sm_90a")} & {"TK301", "TK305", "TK314"}


ALWAYS = (
    HEAD
    + """\
    role one, warps 2:
        for m, n in work:
            sync 4, 128
            Y[m, n.index * 64 + thread] <- read(X[m, n.index * 64 + thread])
    role two, warps 2:
        for m, n in work:
            sync 4, 128
"""
)
ALONE = "            sync 4, 128\n            Y"
SELDOM = {
    "if an argument says so": "            if f > 0: sync 4, 128\n            Y",
    "in some units": "            if n.index > f: sync 4, 128\n            Y",
    "in every second turn": "            if n.index % 2 == 0: sync 4, 128\n            Y",
    "as often as an argument says": "            for j in range(f): sync 4, 128\n            Y",
    "in the first turn": "            if n.first: sync 4, 128\n            Y",
    "where one size is large": "            if M > 900: sync 4, 128\n            Y",
}


@pytest.mark.parametrize("instead", SELDOM.values(), ids=SELDOM)
def test_a_role_that_need_not_come_lets_another_wait_for_ever(instead: str) -> None:
    assert said(ALWAYS, "sm_90a") == ()
    text = changed(ALWAYS, (ALONE, instead))
    assert {d.code for d in said(text, "sm_90a")} & {"TK305", "TK314"}
    alike = text.replace("            sync 4, 128\n", instead.removesuffix("            Y"))
    assert said(alike, "sm_90a") == ()


@pytest.mark.parametrize(
    "instead",
    [
        "            if n.index > f: sync 4, 128\n            else: sync 4, 128\n            Y",
        "            for j in range(1): sync 4, 128\n            Y",
    ],
)
def test_a_role_that_comes_in_each_case_is_one_that_comes(instead: str) -> None:
    assert said(changed(ALWAYS, (ALONE, instead)), "sm_90a") == ()


def test_all_roles_come_to_the_barrier_of_the_kernel() -> None:
    text = ALWAYS.replace("sync 4, 128", "sync cta")
    assert said(text, "sm_90a") == ()
    bad = changed(
        text,
        (
            "            sync cta\n            Y",
            "            if n.index > f: sync cta\n            Y",
        ),
    )
    assert [d.code for d in said(bad, "sm_90a")] == ["TK314"]
