"""Whether loops of roles that handle the items of one barrier are sure to turn differently often.

Where the bounds of a loop are known turn by turn of the loop round it, so is how many items it handles in so many of
these turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, lcm
from typing import NamedTuple

from tkc.analysis.happens_before.events import Loop
from tkc.analysis.happens_before.graph import Site


class Rate(NamedTuple):
    """Items at a site, in some turns of the loop round its own."""

    site: Site
    items: int


def unequal(sites: Iterable[Site]) -> tuple[Rate, Rate, int] | None:
    """Two sites in loops under one clock that handle different numbers of items in as many of its turns; and the
    turns."""
    rows = [(site, row) for site in sites if (row := _row(site)) is not None]
    for site, row in rows[1:]:
        first, other = rows[0]
        if first.node.path[-2] is not site.node.path[-2]:
            continue
        turns = lcm(len(row), len(other))
        mine, theirs = (sum(r) * (turns // len(r)) for r in (row, other))
        if mine * site.rate != theirs * first.rate:
            return Rate(site, mine * site.rate), Rate(first, theirs * first.rate), turns
    return None


def _row(site: Site) -> list[int] | None:
    """How often a site's own loop turns in each turn of the loop round it, which has no end, as that repeats; None
    where it is not known."""
    node = site.node
    if not site.every or len(node.loops) < 2 or node.path[-2].span < inf:
        return None
    return _turns(*node.loops[-2:])


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
