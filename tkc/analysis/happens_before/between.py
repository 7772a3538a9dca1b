"""Whether a read between two writes orders them: one that comes after the first, and before the second (S2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, lcm

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.events import Access
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.meetings import LONGEST
from tkc.analysis.happens_before.rules import RULES
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Pair, Place, Step, steps_of

Distance = Callable[[Place, Place, Clock], tuple[float, Label | None, str]]
"""From how many counts of a clock on one access comes after another, as far as it is looked for."""


def read_between(
    judge: Judge, pair: Pair, others: list[Place], distance: Distance
) -> Hazard | None:
    """Two writes with a read between them that sees the first and comes before the second."""
    first, second, clock = pair.first, pair.second, pair.clock
    for read in others:
        access = read.access
        if not _reads_all(access) or read.node.path[-1] is not clock:
            continue
        if not access.buffer == first.access.buffer == second.access.buffer:
            continue
        reads = _copies(judge, read, others)
        ways = [_through(judge, first, r, second, clock, distance) for r in reads]
        here = there = max(ways, key=lambda way: way[0])
        if first is not second:
            ways = [_through(judge, second, r, first, clock, distance) for r in reads]
            here = max(ways, key=lambda way: way[0])
        if pair.gap(there[0], here[0]) is None:
            steps = there[1] if there[0] < inf else ()
            steps += here[1] if first is not second and here[0] < inf else ()
            used = frozenset(a for s in steps for a in s.assumptions)
            return replace(pair.ordered(), chain=steps, assumptions=used)
    return None


def _copies(judge: Judge, read: Place, others: list[Place]) -> list[Place]:
    """A read with those of the role's other copies, each of which may read rows of its own."""
    role, shapes = read.node.role, judge.graph.symmetry.shapes
    return [
        o
        for o in others
        if o is read
        or (
            shapes[o.node.role] == shapes[role]
            and o.node.role.cta == role.cta
            and (o.node.number, o.index) == (read.node.number, read.index)
            and o.turns == read.turns
        )
    ]


def _through(
    judge: Judge, first: Place, read: Place, second: Place, clock: Clock, distance: Distance
) -> tuple[float, tuple[Step, ...]]:
    """From a write to a later one by a read of the first's value that comes before the second: it has to stand in a
    turn from the one's to the other's, which there is, and to meet the first in whichever turn that is."""
    if read.turns is not None:
        return inf, ()
    there, a, rule_a = distance(first, read, clock)
    if there == inf:
        return inf, ()
    back, b, rule_b = distance(read, second, clock)
    if back == inf:
        return inf, ()
    at = _met_from(judge, first, read, clock, max(0, int(there)))
    if at is None:
        return inf, ()
    between = Step(str(read), str(read), "read-between", RULES["read-between"].section, ())
    return at + max(0, back), (
        *steps_of(a, rule_a, first, read),
        between,
        *steps_of(b, rule_b, read, second),
    )


def _met_from(judge: Judge, first: Place, read: Place, clock: Clock, least: int) -> int | None:
    """The fewest counts, from `least` on, within which a read surely meets what a write has left in its slot."""
    one = judge.row(first.access.slot, clock)
    two = judge.row(read.access.slot, clock)
    if one is None or two is None or first.access.ring != read.access.ring:
        return None
    before = max(len(one.before), len(two.before))
    period = lcm(len(one.period), len(two.period))
    if before + period > LONGEST:
        return None
    length = before + period
    latest, following = least, dict[int, int]()  # where each slot is read next
    for n in range(least + 2 * length - 1, least - 1, -1):
        following[two.at(n)] = n
        count = n - least
        if count < length:
            met = following.get(one.at(count))
            if met is None:
                return None
            latest = max(latest, met - count)
    return latest


def _reads_all(access: Access) -> bool:
    """Whether an access reads a whole slot."""
    parts = access.region, access.lines, access.share, access.area
    return not access.write and not access.element and all(p is None for p in parts)
