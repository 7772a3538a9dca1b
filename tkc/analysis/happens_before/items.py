"""Which item of a ring a slot and a phase stand for, as a function of how often a loop has turned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from tkc.analysis.happens_before.events import Turns
from tkc.analysis.happens_before.values import Chain, Table


def fit(
    slots: Table,
    parities: Table | None,
    depth: int,
    late: int = 0,
    turns: Turns | None = None,
    likely: Sequence[tuple[int, int]] = (),
) -> tuple[Chain | None, int, int] | None:
    """Loop, rate and offset of the items that a row of slots (and parities, of a wait) numbers.

    The item of turn i is rate · i + offset: its slot is that modulo `depth`, and a wait's parity that of its round. A
    wait is for one of the two rounds that its parity may mean: the round under way or the one before (offset < 0). An
    arrival under a condition may be for an earlier item (`late`, as in `_offsets`), no other. `turns`: those that are
    asked about. `likely`: rates and offsets to be tried first, where several fit.
    """
    loop = (
        slots.loop if slots.loop is not None else (parities.loop if parities is not None else None)
    )
    if (
        parities is not None
        and parities.loop is not None
        and slots.loop is not None
        and parities.loop != slots.loop
    ):
        return None
    if loop is None:
        if parities is None:
            return None
        slot, parity = slots.period[0], parities.period[0]
        return None, 1, slot if parity == 0 else slot - depth
    first = max(len(slots.before), len(parities.before) if parities else 0)
    longest = 2 * max(depth, len(slots.period), len(parities.period) if parities else 1) + 2
    asked = range(first, first + longest * (turns.period if turns is not None else 1))
    if turns is not None:
        asked = [i for i in asked if i % turns.period in turns.rest]
    tried = (
        (rate, offset)
        for rate in range(1, 9)
        for offset in _offsets(rate, depth, parities is not None, late)
    )
    rounds = [(i, slots.at(i), None if parities is None else parities.at(i)) for i in asked]
    for rate, offset in chain(likely, tried):
        for i, slot, parity in rounds:
            item = rate * i + offset
            if item % depth != slot or (parity is not None and item // depth % 2 != parity):
                break
        else:
            return loop, rate, offset
    return None


def _offsets(rate: int, depth: int, wait: bool, late: int) -> list[int]:
    """Offsets that an item may have, likeliest first; `late`: 1 under a condition, 2 where it is an earlier one."""
    if wait:
        return sorted(range(-depth, depth), key=lambda o: (abs(o), o))
    earlier = {0: range(0), 1: range(0, -depth, -1), 2: range(-1, -depth - 1, -1)}[late]
    return [*earlier, *range(depth + rate - 1)]
