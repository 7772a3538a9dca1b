"""How many counts of a clock apart two accesses may touch the same slot."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import lcm

from tkc.analysis.happens_before.events import Slot, Turns

LONGEST = 16384
"""Counts looked at; slots that take longer to repeat are taken to meet always."""


@dataclass(eq=False, slots=True)
class Meetings:
    """Whether two accesses may touch the same slot so many counts apart.

    Bit d of `ahead`: where the second is d counts behind the first; of `behind`: where the first is behind the second;
    for d < `before` + `period`. From `before` on that repeats every `period`.
    """

    period: int
    ahead: int
    behind: int
    before: int = 0
    apart: bool = field(init=False)
    """Whether they may in different counts."""

    def __post_init__(self) -> None:
        # where all is repetition, distance 0 comes again after a period
        self.apart = bool((self.ahead | self.behind) >> min(self.before, 1))

    def meets(self, distance: int) -> bool:
        bits, far = (self.ahead, distance) if distance >= 0 else (self.behind, -distance)
        if far >= self.before + self.period:
            far = self.before + (far - self.before) % self.period
        return bool(bits >> far & 1)

    @property
    def all(self) -> tuple[int, ...]:
        """Equal for two that say the same: at every distance, not only at short ones."""
        return self.period, self.before, self.ahead, self.behind


ALWAYS = Meetings(1, 1, 1)
TOGETHER = Meetings(1, 1, 1, before=1)
NEVER = Meetings(1, 0, 0)


def meetings_of(
    one: Slot | None, two: Slot | None, turns: tuple[Turns | None, Turns | None] = (None, None)
) -> Meetings:
    """When two rows of slots (None: any), in some turns of their loop only, may have the same one.

    At distance d >= `before`, the later of the two is in its repetition, so that d + `period` is like d; and the
    earlier one need be followed through one repetition only.
    """
    if one is None or two is None:
        if turns == (None, None):
            return ALWAYS
        one = two = Slot(None, (0,))
    before = max(len(one.before), len(two.before))
    period = lcm(len(one.period), len(two.period), *(t.period for t in turns if t is not None))
    length = before + period
    if length > LONGEST:
        return ALWAYS
    counts = [
        [(n, row.at(n)) for n in range(2 * length) if t is None or n % t.period in t.rest]
        for row, t in zip((one, two), turns, strict=True)
    ]
    return Meetings(period, _later(*counts, length), _later(*reversed(counts), length), before)


def _later(first: list[tuple[int, int]], second: list[tuple[int, int]], length: int) -> int:
    """Distances below `length` at which the second's slot is one that the first's was, as bits."""
    where: dict[int, int] = {}
    for n, slot in second:
        where[slot] = where.get(slot, 0) | 1 << n
    found = 0
    for n, slot in first:
        if n < length:
            found |= where.get(slot, 0) >> n
    return found & (1 << length) - 1
