"""Arrivals under conditions on warps and lanes: how many threads make them, and what their barriers take."""

from __future__ import annotations

import pytest

from tests.analysis.bug_cases import changed
from tests.analysis.test_bug_cases import said

GIVEN_BACK = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared v: tile[f32, 128, 32]
    barrier full, count = 1
    barrier empty, count = COUNT
    role load:
        phase = 0
        for m, n in work:
            wait empty, phase ^ 1
            elect:
                expect full, bytes(v)
                load v <- X[m, n], full
            phase = phase ^ 1
    role all, warps 4:
        phase = 0
        for m, n in work:
            wait full, phase
            Y[m, n] <- read(v)
            sync role
ARRIVE
            phase = phase ^ 1
"""
"""The slot is given back behind a barrier of the role; its stores have an elected thread of their own."""

ELECTED = ("if warp == 1:", "    elect: arrive empty")
FORMS = {
    "an elected thread of a warp": (ELECTED, 1),
    "its first lane": (("if warp == 1:", "    if lane == 0: arrive empty"), 1),
    "a warp's one arrival": (("if warp == 1:", "    arrive empty"), 1),
    "a warp's arrival of its own": (("if warp == 2:", "    arrive empty, each = warp"), 1),
    "each thread of a warp": (("if warp == 1:", "    arrive empty, each = thread"), 32),
    "two warps": ((*ELECTED, "if warp == 3:", "    elect: arrive empty"), 2),
    "a thread by its number": (("if warp == 0 and lane == 0: arrive empty", "if thread == 70: arrive empty"), 2),
    "all but a warp": (
        ("if warp == 1:", "    elect: arrive empty", "else:", "    arrive empty, each = thread"),
        97,
    ),
    "threads below a number": (("if thread < 100: arrive empty, each = thread",), 100),
    "lanes of some warps": (("if lane < 16 and warp >= 2: arrive empty, each = thread",), 32),
    "threads at either end": (("if thread < 20 or thread >= 120: arrive empty, each = thread",), 28),
    "all, some of them elsewhere": (
        ("if not thread < 100: arrive empty, each = thread", "else: arrive empty, each = thread"), 128,
    ),
    "some of some": (("if thread < 100:", "    if thread % 2 == 0: arrive empty, each = thread"), 50),
    "a thread of some warps": (("if warp >= 1:", "    elect warp: arrive empty"), 3),
    "all, as a number says": (("if thread < 128: arrive empty, each = thread",), 128),
}  # fmt: skip
"""Who arrives, and how many arrivals that is."""


def given_back(lines: tuple[str, ...], count: int) -> str:
    return GIVEN_BACK.replace("ARRIVE", "\n".join(" " * 12 + line for line in lines)).replace(
        "COUNT", str(count)
    )


@pytest.mark.parametrize("form", FORMS)
def test_arrivals_are_those_of_the_threads_that_come(form: str) -> None:
    lines, count = FORMS[form]
    assert [d.message for d in said(given_back(lines, count), "sm_90a")] == []
    (wrong,) = said(given_back(lines, count + 1), "sm_90a")
    assert wrong.code == "TK305"
    assert f"needs {count + 1} arrivals, but an item gets {count} " in wrong.message


@pytest.mark.parametrize("test", ["warp == 5", "lane == 32", "warp == 0 and thread == 40"])
def test_nobody_arrives_where_no_thread_comes(test: str) -> None:
    found = said(given_back((f"if {test}: arrive empty",), 1), "sm_90a")
    (wrong,) = [d for d in found if d.code == "TK305"]
    assert "but an item gets 0 " in wrong.message


def test_an_elected_thread_of_a_warp_gives_back_what_all_have_read() -> None:
    """Without the barrier of the role it speaks for one warp alone."""
    text = changed(
        given_back(ELECTED, 1),
        (
            "            Y[m, n] <- read(v)\n",
            "            w = read(v)\n            fence proxy shared\n",
        ),
        ("arrive empty\n", "arrive empty\n            Y[m, n] <- w\n"),
    )
    assert [d.message for d in said(text, "sm_90a")] == []
    slip = changed(text, ("            sync role\n", ""))
    assert {d.code for d in said(slip, "sm_90a")} == {"TK309"}


@pytest.mark.parametrize("entry", [0, 2])
def test_a_ring_of_which_one_entry_is_used(entry: int) -> None:
    """What nobody uses needs no arrivals; an arrival at another entry is not this one's."""
    text = changed(
        given_back(ELECTED, 1),
        ("barrier empty, count", "barrier empty * 3, count"),
        ("wait empty,", f"wait empty[{entry}],"),
        ("arrive empty", f"arrive empty[{entry}]"),
    )
    assert [d.message for d in said(text, "sm_90a")] == []
    slip = changed(text, (f"arrive empty[{entry}]", "arrive empty[1]"))
    assert any(d.code == "TK305" for d in said(slip, "sm_90a"))


SOME_WRITE = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 100))
    shared v: vector[f32, 128]
    barrier full, count = 100
    barrier empty, count = 128
    role one, warps 4:
        phase = 0
        for m, n in work:
            wait empty, phase ^ 1
            if thread < 100:
                v[0][thread] <- read(X[m, n.index * 100 + thread])
            if thread < 100: arrive full, each = thread
            phase = phase ^ 1
    role two, warps 4:
        phase = 0
        for m, n in work:
            wait full, phase
            if thread < 100:
                Y[m, n.index * 100 + thread] <- read(v[0][99 - thread])
            arrive empty, each = thread
            phase = phase ^ 1
"""


def test_some_threads_tell_of_what_they_wrote() -> None:
    assert [d.message for d in said(SOME_WRITE, "sm_90a")] == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("if thread < 100: arrive full", "if thread >= 28: arrive full"), "TK301"),
        (("if thread < 100: arrive full", "if thread % 2 == 0 or thread >= 56: arrive full"), "TK301"),
        (("            arrive empty", "            if thread < 100: arrive empty"), "TK305"),
        (("v[0][99 - thread]", "v[0][100 - thread]"), "TK320"),
    ],
)  # fmt: skip
def test_others_as_many_tell_nothing_of_it(change: tuple[str, str], code: str) -> None:
    assert code in {d.code for d in said(changed(SOME_WRITE, change), "sm_90a")}
