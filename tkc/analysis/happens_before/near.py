"""Whether two accesses are surely in no order, which the nearest instances that meet tell: nothing orders these that
comes in later turns than theirs, so that little has to be followed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.distance import distance
from tkc.analysis.happens_before.exclusion import exclusive
from tkc.analysis.happens_before.graph import Graph, Node
from tkc.analysis.happens_before.verdicts import Judge, Pair, Place, common


@dataclass(eq=False, slots=True)
class Near:
    """Looks where a judge would, but not far."""

    judge: Judge
    judges: dict[Hashable, Judge] = field(default_factory=dict[Hashable, Judge])
    """Those who follow so many counts of clocks only."""

    def parts(self, first: Place, second: Place) -> bool:
        """Whether nothing orders the nearest instances that meet, by no clock; False where that is not known.

        Between two writes a read may stand that orders them, which is not looked for.
        """
        if first.access.write and second.access.write:
            return False
        graph = self.judge.graph
        branched = _branched(graph, first.node) or _branched(graph, second.node)
        left = [Pair(self.judge, first, second, clock) for clock in common(first.node, second.node)]
        for sign in (0, 1, -1):
            near = [(pair, d) for pair in left if (d := _nearest(pair, sign)) is not None]
            judge = self._within([(pair.clock, abs(d)) for pair, d in near], branched)
            for pair, d in near:
                if not _in_order(judge, self._within([], branched), pair, d):
                    left.remove(pair)
        return not left

    def _within(self, apart: list[tuple[Clock, int]], branched: bool) -> Judge:
        """A judge who follows ways to so many counts of some clocks; `branched`: and to the next turn."""
        graph, least = self.judge.graph, int(branched)
        caps: dict[Clock, tuple[int, int]] = {}
        for clock in {clock for node in graph.nodes for clock in node.path}:
            turns = [(d, _turns(clock, of)) for of, d in apart] or [(0, 1)]
            first = max([d * many for d, many in turns])
            later = max([(d + 1) * many - 1 for d, many in turns])
            caps[clock] = max(first, least) + graph.back, max(later, least) + graph.back
        key = tuple(caps.values())
        if key not in self.judges:
            new = replace(self.judge, caps=caps, near=None, reached={}, reach_of={}, alike={})
            self.judges[key] = new
        return self.judges[key]


def _branched(graph: Graph, node: Node) -> bool:
    """Whether another branch of a choice than that of a node arrives for the same items: a way by the next turn of that
    one may come to the item of the node's own turn (`Reach._group`)."""
    return any(
        exclusive(node, other, site.clock)
        for other, sites in graph.sites_of.items()
        if other.role is node.role
        for _, site in sites
        if not (site.every or site.sometimes)
    )


def _in_order(judge: Judge, here: Judge, pair: Pair, d: int) -> bool:
    """Whether the second access comes after the first `d` counts later, or before it; `here`: who follows ways within
    a turn."""
    first, second = (pair.first, pair.second) if d >= 0 else (pair.second, pair.first)
    if _comes_after(judge, first, second, pair.clock, abs(d)):
        return True
    return _comes_after(here, second, first, pair.clock, -abs(d))


def _turns(clock: Clock, of: Clock) -> int:
    """How many counts of a clock there are in each count of one round it, at least; 1 where it is none."""
    many, at = 1, clock
    while at is not of:
        many *= max(1, at.low)
        if at.parent is None:
            break
        at = at.parent
    return many


def _comes_after(judge: Judge, first: Place, second: Place, clock: Clock, turns: int) -> bool:
    """Whether the second access comes after the first from so many counts on."""
    reach, going = judge.reach(first), True
    while distance(reach, first, second, clock)[0] > turns:
        if not going:
            return False
        going = reach.advance(second.node.role)
    return True


def _nearest(pair: Pair, sign: int) -> int | None:
    """The least distance at which two accesses meet: in the same turn, from the one to the other, or back."""
    meetings = pair.meetings
    if not sign:
        return 0 if meetings.meets(0) and not pair.apart else None
    most = int(min(meetings.before + meetings.period + 1, pair.clock.span))
    return next((sign * d for d in range(1, most) if meetings.meets(sign * d)), None)
