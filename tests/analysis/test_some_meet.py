"""Barriers that some warps of a role come to, and what the warps of a role exchange among their own lanes."""

from __future__ import annotations

import pytest

from tests.analysis.bug_cases import changed
from tests.analysis.test_bug_cases import said

PART = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    role all, warps 4:
        for m, n in work:
            if WHO:
                v[0][thread] <- read(X[m, n.index * 128 + thread])
                MEET
                Y[m, n.index * 128 + thread] <- read(v[0][OTHER])
                MEET
"""
WITHIN = "warp * 32 + 31 - lane"
MEETINGS = {
    "two warps": ("warp < 2", "sync 3, 64", "63 - thread"),
    "the first": ("warp == 0", "sync 3, 32", "31 - thread"),
    "another": ("warp == 2", "sync 3, 32", "159 - thread"),
    "the last two": ("warp >= 2", "sync 3, 64", "191 - thread"),
    "lanes": ("thread >= 0", "sync warp", WITHIN),
    "lanes of one": ("warp == 0", "sync warp", WITHIN),
    "lanes of another": ("warp == 2", "sync warp", WITHIN),
    "lanes of some": ("warp >= 1", "sync warp", WITHIN),
}


def meeting(what: str) -> str:
    who, meet, other = MEETINGS[what]
    return PART.replace("WHO", who).replace("MEET", meet).replace("OTHER", other)


@pytest.mark.parametrize("what", MEETINGS)
def test_those_who_meet_know_of_one_another(what: str) -> None:
    text, meet = meeting(what), f"                {MEETINGS[what][1]}\n"
    assert [d.message for d in said(text, "sm_90a")] == []
    first, second, third = text.split(meet)
    assert {d.code for d in said(first + second + meet + third, "sm_90a")} == {"TK301"}
    assert {d.code for d in said(first + meet + second + third, "sm_90a")} == {"TK309"}


@pytest.mark.parametrize(
    ("what", "change", "code"),
    [
        ("two warps", ("sync 3, 64", "sync 3, 96"), "TK305"),
        ("two warps", ("sync 3, 64", "sync warp"), "TK301"),
        ("two warps", ("warp < 2", "thread < 48"), "TK316"),
        ("lanes", (WITHIN, "127 - thread"), "TK301"),
        ("lanes of some", (WITHIN, "159 - thread"), "TK301"),
        ("lanes of one", ("warp == 0", "lane < 16"), "TK316"),
    ],
)
def test_others_know_nothing(what: str, change: tuple[str, str], code: str) -> None:
    assert code in {d.code for d in said(changed(meeting(what), change), "sm_90a")}


def test_those_who_have_not_met_know_nothing() -> None:
    text = meeting("two warps")
    read = "                Y[m, n.index * 128 + thread] <- read(v[0][63 - thread])\n                sync 3, 64\n"
    by_all = "            Y[m, n.index * 128 + thread] <- read(v[0][thread % 64])\n            sync role\n"
    assert "TK301" in {d.code for d in said(changed(text, (read, by_all)), "sm_90a")}


GUARDED = """\
kernel k(X: global[f32, N], Y: global[f32, N]):
    launch persistent
    schedule work: n in tiles(blocks(N, 128))
    shared x: vector[f32, 128]
    barrier full, count = 1
    barrier empty, count = 4
    role load:
        phase = 0
        for n in work:
            wait empty, phase ^ 1
            expect full, bytes(x)
            load x <- X[n], full
            phase = phase ^ 1
    role math, warps 4:
        phase = 0
        for n in work:
            wait full, phase
            if WHO:
                Y[n.index * 128 + thread] <- read(x[0][thread])
            fence proxy shared
            sync warp
            arrive empty, each = warp
            phase = phase ^ 1
"""


@pytest.mark.parametrize(
    "who", ["n.index * 128 + thread < N", "thread < 100", "warp < 3", "lane < 7"]
)
def test_each_lane_tells_what_those_of_its_warp_did_that_a_condition_let_through(who: str) -> None:
    text = GUARDED.replace("WHO", who)
    assert [d.message for d in said(text, "sm_90a")] == []
    assert {d.code for d in said(changed(text, ("            sync warp\n", "")), "sm_90a")} == {
        "TK309"
    }
    ahead = changed(
        text,
        ("            sync warp\n", ""),
        ("phase\n            if", "phase\n            sync warp\n            if"),
    )
    assert {d.code for d in said(ahead, "sm_90a")} == {"TK309"}
    one = changed(text, ("count = 4", "count = 1"), (", each = warp", ""))
    assert {d.code for d in said(one, "sm_90a")} == {"TK309"}
