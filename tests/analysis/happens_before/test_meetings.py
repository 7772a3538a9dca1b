"""At which distances two rows of slots meet: against every pair of counts."""

from __future__ import annotations

import random
from math import inf

import pytest

import tkc
from tkc.analysis.happens_before import check
from tkc.analysis.happens_before.events import Loop, Slot, Turns
from tkc.analysis.happens_before.meetings import LONGEST, meetings_of
from tkc.analysis.happens_before.verdicts import _gap  # pyright: ignore[reportPrivateUsage]

FAR = 40


def row(rng: random.Random, most: int) -> Slot:
    slots = rng.choice((2, 4, 6))
    period = tuple(rng.randrange(slots) for _ in range(rng.randint(1, 4)))
    return Slot(None, period, tuple(rng.randrange(slots) for _ in range(rng.randint(0, most))))


def some_turns(rng: random.Random, loop: Loop) -> Turns | None:
    period = rng.randint(1, 4)
    rest = frozenset(n for n in range(period) if rng.random() < 0.5)
    return Turns(loop, period, rest) if rest and rng.random() < 0.5 else None


def by_hand(one: Slot | None, two: Slot | None, turns: tuple[Turns | None, ...]) -> set[int]:
    def counts(t: Turns | None) -> list[int]:
        return [n for n in range(2 * FAR) if t is None or n % t.period in t.rest]

    return {
        j - i for i in counts(turns[0]) for j in counts(turns[1])
        if abs(j - i) <= FAR and (one is None or two is None or one.at(i) == two.at(j))
    }  # fmt: skip


@pytest.mark.parametrize("conditional", [False, True])
def test_rows_meet_where_some_pair_of_counts_does(conditional: bool) -> None:
    """Rows of up to 9 slots before a repetition of up to 12: 2 * FAR counts show all of each distance up to FAR."""
    rng, loop = random.Random(20), Loop("loop", [])
    far = False
    for _ in range(250):
        one, two = row(rng, 9), row(rng, 9)
        turns = (some_turns(rng, loop), some_turns(rng, loop)) if conditional else (None, None)
        meet = meetings_of(one, two, turns)
        real = by_hand(one, two, turns)
        assert {d for d in range(-FAR, FAR + 1) if meet.meets(d)} == real, (one, two, turns)
        assert meet.apart == bool(real - {0})
        for forward, back in ((inf, inf), (inf, -9), (-9, inf), (6, 6), (inf, 3)):
            left = {d for d in real if -back < d < forward}
            found = _gap(forward, back, meet, False, inf)
            assert (found is None) == (not left), (one, two, turns, forward, back)
            assert found is None or abs(found[1] - found[0]) == min(map(abs, left))
        far |= bool(real) and min(map(abs, real)) > meet.period
    assert far  # some meet only further apart than one repetition


def test_slots_that_repeat_too_late_are_taken_to_meet() -> None:
    one, two = Slot(None, tuple(range(LONGEST))), Slot(None, (0, 0, 1))
    assert all(meetings_of(one, two).meets(d) for d in (-2, 0, 1, 5))


FAR_APART = """
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 32))
    shared x: tile[f32, 64, 32] * 8
    role all, warps 2:
        x[7] <- full(2.0)
        fence proxy shared
        sync role
        s = 0
        for m, n in work:
            x[s] <- full(1.0)
            FENCE
            sync role
            r = 0 if s == 5 else 7
            elect:
                store Y[m, n] <- x[r]
                commit stores
                wait stores
            sync role
            if s < 6: s = s + 1
        elect: wait stores
"""


@pytest.mark.parametrize("fence", [True, False])
def test_a_store_reads_what_was_written_five_turns_ago(fence: bool) -> None:
    text = FAR_APART.replace("FENCE", "fence proxy shared" if fence else "sync warp")
    module = tkc.compile(text, target="sm_90a").module("insert-fences")
    found = {f.code for f in check(module)}
    assert found == (set() if fence else {"TK302"})
