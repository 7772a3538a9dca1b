"""What one branch, or some threads of a role, know is not what all do: slips, each with the program that is right."""

from __future__ import annotations

import pytest

from tests.analysis.test_bug_cases import said

HEAD = """\
kernel k(X: global[f32, M, N], Z: global[f32, M, N], Y: global[f32, M, N], f: i32):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 64))
"""


def put(text: str, mark: str, *lines: str) -> str:
    """The lines in the place of a mark, as deep as it stands."""
    indent = next(line for line in text.splitlines() if line.strip() == mark).split(mark)[0]
    return text.replace(indent + mark, "\n".join(indent + line for line in lines))


def branches(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    deeper = [[f"    {line}" for line in side] for side in (one, other)]
    return ("if n.index > f:", *deeper[0], "else:", *deeper[1])


def codes(text: str) -> set[str]:
    return {d.code for d in said(text, "sm_90a")}


COPIES = (
    HEAD
    + """\
    shared a: vector[f32, 64]
    shared b: vector[f32, 64]
    barrier fa, count = 1
    barrier r, count = 1
    barrier full, count = 1
    barrier eb, count = 1
    role load:
        phase = 0
        for m, n in work:
            expect fa, bytes(a)
            load a <- X[m, n], fa
            wait full, phase
            arrive eb
            phase = phase ^ 1
    role store:
        phase = 0
        for m, n in work:
            wait fa, phase
            elect:
                store Y[m, n] <- a
                commit stores
                wait stores, read
                arrive r
            phase = phase ^ 1
        elect: wait stores
    role other:
        phase = 0
        for m, n in work:
            wait eb, phase ^ 1
            BODY
            phase = phase ^ 1
"""
)
"""The bytes of `b` tell the loader of `a` that `a` has been read: by whom they are issued has waited for that (A5)."""
BEHIND = ("wait r, phase", "expect full, bytes(b)", "load b <- Z[m, n], full")
AHEAD = (*BEHIND[1:], BEHIND[0])


@pytest.mark.parametrize("body", [BEHIND, branches(BEHIND, BEHIND)], ids=["straight", "branches"])
def test_copies_of_each_branch_tell_what_their_thread_knew(body: tuple[str, ...]) -> None:
    assert codes(put(COPIES, "BODY", *body)) == set()


@pytest.mark.parametrize(
    "body", [AHEAD, branches(BEHIND, AHEAD), branches(AHEAD, BEHIND)], ids=["straight", "else", "then"]
)  # fmt: skip
def test_a_copy_of_one_branch_tells_nothing_of_the_other_s_items(body: tuple[str, ...]) -> None:
    assert "TK308" in codes(put(COPIES, "BODY", *body))


AHEAD_OF_WARP = (
    HEAD
    + """\
    barrier full, count = 1
    barrier e, count = 64
    barrier g, count = 1
    role one, warps 2:
        phase = 0
        for m, n in work:
            BODY
            phase = phase ^ 1
    role two, warps 2:
        phase = 0
        for m, n in work:
            wait full, phase
            arrive e, each = thread
            wait g, phase
            sync role
            phase = phase ^ 1
"""
)
ARRIVES = ("elect: arrive full", "if warp == 1:", "    wait e, phase", "    arrive g")


@pytest.mark.parametrize(
    "body",
    [
        (*ARRIVES, "sync role"),
        branches((*ARRIVES, "sync role"), (*ARRIVES, "sync role")),
        ("if warp == 1: arrive full", *ARRIVES[1:]),
    ],
)  # fmt: skip
def test_who_arrives_next_has_waited(body: tuple[str, ...]) -> None:
    assert codes(put(AHEAD_OF_WARP, "BODY", *body)) == set()


@pytest.mark.parametrize("body", [ARRIVES, branches((*ARRIVES, "sync role"), ARRIVES)])
def test_a_wait_of_one_warp_keeps_no_thread_of_another(body: tuple[str, ...]) -> None:
    (found,) = said(put(AHEAD_OF_WARP, "BODY", *body), "sm_90a")
    assert found.code == "TK306"
    assert "full may complete its next phase" in found.message


NUMBERED = (
    HEAD
    + """\
    barrier told, count = 1
    barrier back, count = COUNT
    role one, warps 2:
        phase = 0
        for m, n in work:
            sync 4, 128
            elect: arrive told
            wait back, phase
            sync role
            phase = phase ^ 1
    role two, warps 2:
        phase = 0
        for m, n in work:
            arrive 4, 128
            BODY
            phase = phase ^ 1
"""
)
ALL_WAIT = ("wait told, phase", "arrive back, each = thread")
ONE_WARP = ("if warp == 1:", "    wait told, phase", "    arrive back, each = thread")


@pytest.mark.parametrize(("body", "count"), [(ALL_WAIT, 64), ((*ONE_WARP, "sync role"), 32)])
def test_all_threads_that_arrive_have_waited(body: tuple[str, ...], count: int) -> None:
    assert codes(put(NUMBERED, "BODY", *body).replace("COUNT", str(count))) == set()


def test_threads_that_have_not_waited_arrive_for_the_wrong_phase() -> None:
    (found,) = said(put(NUMBERED, "BODY", *ONE_WARP).replace("COUNT", "32"), "sm_90a")
    assert found.code == "TK306"
    assert "may arrive for the next phase before role one has come to this one" in found.message
