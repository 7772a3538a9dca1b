"""Whether loops of roles that handle the items of one barrier are sure to turn differently often.

Where the bounds of a loop are known turn by turn of the loop round it, so is how many items it handles in so many of
these turns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations
from math import inf, lcm
from typing import NamedTuple

from tkc.analysis.happens_before.events import Loop
from tkc.analysis.happens_before.graph import Site

Keys = tuple[Hashable, ...]


class Rate(NamedTuple):
    """Items at a site and its like, in some turns of the loop round their own."""

    site: Site
    items: int


def unequal(sites: Iterable[Site]) -> tuple[Rate, Rate, int] | None:
    """Two roles, or a role that waits and arrives, that handle different numbers of items in as many turns of the loop
    round theirs; and the turns."""
    ends: dict[Hashable, list[Site]] = {}
    for site in sites:
        ends.setdefault(_end(site), []).append(site)
    rows = [(end[0], *found) for end in ends.values() for found in _rows(end)]
    for (first, round_it, row), (site, round_its, other) in combinations(rows, 2):
        if round_it != round_its or None in round_it:
            continue
        turns = lcm(len(row), len(other))
        mine, theirs = (sum(r) * (turns // len(r)) for r in (other, row))
        if mine != theirs:
            return Rate(site, mine), Rate(first, theirs), turns
    return None


def _rows(end: list[Site]) -> Iterator[tuple[Keys, list[int]]]:
    """The items of one end in each turn of an endless loop round it, by the keys of the loops down to that: the loop
    that it stands in, if all stand in one, or the loop round theirs."""
    loops = end[0].node.loops
    if loops and loops[-1].high == inf and all(s.every and s.node.loops == loops for s in end):
        yield tuple([x.key for x in loops]), [end[0].rate]
    row = _items(end)
    if row is not None:
        yield tuple([x.key for x in loops[:-1]]), row


def _end(site: Site) -> Hashable:
    """Equal for sites at one end of a barrier: what a role does alike to its items."""
    return site.node.role, type(site.node.event.act if site.node.event is not None else None)


def _items(end: list[Site]) -> list[int] | None:
    """How many items some sites of one end handle together, loop after loop, in each turn of the loop round them."""
    if len({id(s.node.path[-2]) for s in end if len(s.node.path) > 1}) != 1:
        return None
    loops: dict[Hashable, list[Site]] = {}
    for site in end:
        loops.setdefault(site.node.loops[-1] if site.node.loops else None, []).append(site)
    found: list[list[int]] = []
    for here in loops.values():
        each = [s for s in here if s.every] or here
        row = _row(each[0])
        if row is None or any(s.node.turns != each[0].node.turns for s in each):
            return None
        found.append([n * each[0].rate for n in row])
    length = lcm(*(len(row) for row in found))
    return [sum(row[n % len(row)] for row in found) for n in range(length)]


def _row(site: Site) -> list[int] | None:
    """In how many turns of its own loop a site has an item, in each turn of the loop round it, which has no end, as
    that repeats; None where it is not known."""
    node = site.node
    if not (site.every or site.sometimes) or len(node.loops) < 2 or node.path[-2].span < inf:
        return None
    row, some = _turns(*node.loops[-2:]), node.turns
    if row is None or some is None:
        return row
    whole = all(n % some.period == 0 for n in row)
    return [n // some.period * len(some.rest) for n in row] if whole else None


def _turns(outer: Loop, loop: Loop) -> list[int] | None:
    """The turns of a counted loop by its bounds, where these are known turn by turn of the loop round it."""
    key = loop.key
    if not isinstance(key, tuple) or len(key) != 4 or key[0] != "for":
        return None
    tables: list[tuple[int, ...]] = []
    for bound in key[1:]:
        if not isinstance(bound, tuple) or bound[0] != "table":
            return None
        _, loops, before, period = bound
        if before or any(not isinstance(x, tuple) or x[1:] != (outer.key,) for x in loops):
            return None
        tables.append(period)
    found: list[int] = []
    for turn in range(lcm(*(len(t) for t in tables))):
        lower, upper, step = (t[turn % len(t)] for t in tables)
        if step <= 0:
            return None
        found.append(max(0, -(-(upper - lower) // step)))
    return found
