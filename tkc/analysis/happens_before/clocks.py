"""How far apart two moments of loops are: positions relative to an access, over nested loops without unrolling.

A `Clock` counts the iterations of a loop since the kernel began, through all iterations of the loops round it. A
position is a chain of (clock, offset) and stands for a moment relative to a source access X whose own counts are x:

    ((K, s),)            count of K ≥ x(K) + s
    ((T, w), (K, s))     count of K ≥ first(x(T) + w) + s,  first(t) = the count of K when T's iteration t begins

Each function gives the earliest moment of which the statement holds for every X, or None where there is none for all
trip counts: memory model sheet, S1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf

Position = tuple[tuple["Clock", int], ...]


@dataclass(eq=False, slots=True)
class Clock:
    """Iterations of a loop, alike in all roles: `low` to `high` for each iteration of `parent`.

    `parent` is None for the kernel itself and where roles disagree about the loop round it; `agreed`: nothing says that
    they turn differently often.
    """

    name: str
    low: int = 0
    high: float = inf
    parent: Clock | None = None
    agreed: bool = True

    def __repr__(self) -> str:
        return self.name

    @property
    def span(self) -> float:
        """How many counts there are in the kernel's life, at most."""
        if self.high == inf or (self.parent is None and self.name != "kernel"):
            return inf
        return self.high * (1 if self.parent is None else self.parent.span)


def next_iteration(position: Position, clock: Clock) -> Position | None:
    """From the last event of a loop's body to its first one; what holds for whole outer iterations needs no step."""
    last, offset = position[-1]
    if last is not clock:
        inner = refine(position, clock) if clock.high == 1 else None
        return None if inner is None else shift(inner, 1)
    return (*position[:-1], (last, offset + 1))


def leave(position: Position, clock: Clock) -> Position | None:
    """From the last event of a loop's body to what follows the loop.

    A loop that may have no iteration proves nothing for what follows it, save of its own accesses.
    """
    last, offset = position[-1]
    if last is not clock:
        return position if clock.low >= 1 else None
    if len(position) > 1:
        if clock.low < 1:
            return None
        outer, count = position[-2]
        return (*position[:-2], (outer, count + max(0, offset) // clock.low))
    if clock.parent is None:
        return None
    if offset <= 0:
        return ((clock.parent, 0),)
    if clock.low < 1:
        return None
    return ((clock.parent, -(-offset // clock.low)),)


def refine(position: Position, clock: Clock) -> Position | None:
    """The same moment as a count of an inner clock."""
    last = position[-1][0]
    if last is clock:
        return position
    steps: list[Clock] = []
    at: Clock | None = clock
    while at is not None and at is not last:
        steps.append(at)
        at = at.parent
    return None if at is None else (*position, *((c, 0) for c in reversed(steps)))


def shift(position: Position, by: int) -> Position:
    """The same moment some counts of its last clock later."""
    last, offset = position[-1]
    return (*position[:-1], (last, offset + by))


def coarsen(position: Position, clock: Clock) -> Position | None:
    """The position as a count of `clock`, which is the last one or one round it."""
    while position[-1][0] is not clock:
        last = position[-1][0]
        outer = leave(position, last)
        if outer is None or outer == position:
            return None
        position = outer
    return position


def outward(position: Position, path: tuple[Clock, ...], later: int) -> Position | None:
    """The end of a turn as a count of a loop of `path`, beside whose inner loops something stands, `later` turns on."""
    while position[-1][0] not in path:
        outer = leave(position, position[-1][0])
        if outer is None or outer == position:
            return None
        position = outer
    return shift(position, later)


def bound(position: Position, clock: Clock, counted: bool, path: tuple[Clock, ...] = ()) -> float:
    """The least d such that the position holds at every count of `clock` from x(clock) + d on; inf where there is none.

    `counted`: whether X is inside the loop of `clock`, so that x(clock) is its own iteration. `path`: the loops that X
    is known to be in.
    """
    last, offset = position[-1]
    while (
        last is not clock and len(position) == 1 and offset == 0 and last.high <= 1 and last in path
    ):
        if last.parent is None:  # X's own turn of a condition is X's own turn of the loop round it
            break
        position = ((last.parent, 0),)
        last = last.parent
    if last is clock:
        if len(position) == 1:
            return offset
        if not counted:
            return inf
        total: float = offset
        for (_, count), (inner, _) in pairwise(position):
            if count > 0:
                total += count * inner.high
                if inner is not clock:
                    return inf
        return total
    inner = refine(position, clock)
    if inner is not None:
        return bound(inner, clock, counted)
    # the position counts a loop inside that of `clock`
    while last.parent is not clock:
        if last.parent is None:
            return inf
        coarser = bound(position, last.parent, counted)
        if coarser == inf:
            return inf
        position = ((last.parent, int(coarser)),)
        last, offset = position[-1]
    if len(position) == 2 and position[-2][0] is clock:
        outer = position[-2][1]
        if offset <= 0:
            return outer
        return outer + -(-offset // last.low) if last.low else inf
    if len(position) > 1:
        return inf
    if offset <= 1:
        return 1
    return 1 + -(-(offset - 1) // last.low) if last.low else inf
