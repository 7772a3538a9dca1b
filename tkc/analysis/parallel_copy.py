"""Puts copies that happen at once into an order, with temporaries where registers trade places."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Copy:
    """`source` goes to `target`, both names of registers that do not overlap unless equal; no source is a constant.

    `exact` says that the copy takes the whole source: then a copy of a register to itself is none.
    """

    target: Hashable
    source: Hashable | None
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """Copy number `index` is made, or, where `saves`, its source goes to a temporary that it is made from later."""

    index: int
    saves: bool = False


def in_order(copies: Sequence[Copy]) -> Iterator[Step]:
    """The steps that have the effect of all copies at once; targets differ from one another.

    A copy comes before another that overwrites its source; where that goes round in a ring, the first of the ring is
    saved to a temporary.
    """
    pending = {
        i: c
        for i, c in enumerate(copies)
        if not (c.exact and c.source is not None and c.source == c.target)
    }
    readers: dict[Hashable, int] = {}
    for copy in pending.values():
        if copy.source is not None:
            readers[copy.source] = readers.get(copy.source, 0) + 1
    saved: set[int] = set()
    while pending:
        ready = [i for i, c in pending.items() if not readers.get(c.target)]
        if not ready:
            index = next(i for i in pending if i not in saved)
            saved.add(index)
            readers[pending[index].source] -= 1
            yield Step(index, saves=True)
            continue
        for index in ready:
            copy = pending.pop(index)
            if copy.source is not None and index not in saved:
                readers[copy.source] -= 1
            yield Step(index)
