"""Whether a wait may come after itself, by who tells whom in which turns alone: whatever is known on the way, and by
whom. Most kernels have no such circle, so that `moments.deadlocks` need not look at what is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.crossings import awaiting
from tkc.analysis.happens_before.events import Arrive, Complete, Meet
from tkc.analysis.happens_before.graph import Graph, Node, Site
from tkc.analysis.happens_before.nodes import NEXT, PLAIN, Segment

Told = list[tuple[int, Node, Clock, int]]
"""The nodes that hear of those of a segment: from which place in it, by the count of which clock, and how many counts
later."""
At = tuple[Segment, int, tuple[Clock, ...]]
"""From where on in a segment, and which of the loops round a wait have not been left."""


@dataclass(eq=False, slots=True)
class Circles:
    """The ways of a graph on which no count of a loop passes. `told`: who hears of a segment; None: that is not
    known."""

    graph: Graph
    told: dict[Segment, Told | None] = field(default_factory=dict)

    def may_have(self, wait: Site) -> bool:
        """Whether a way may lead from a wait back to it that takes no turn of a loop round it.

        A way that goes on by a turn stays behind for good, where none goes back (`graph.back`). Beyond a loop, what its
        turns are is open again: a later one of them may be in the same turn of the loop round it.
        """
        if self.graph.back or wait.after:
            return True
        home, place = wait.node.segment, wait.node.place
        todo: list[At] = [(home, place + 1, wait.node.path)]
        seen: dict[tuple[Segment, int], int] = {}
        while todo:
            segment, start, round_it = todo.pop()
            if segment is home and start <= place:
                return True
            key = segment, len(round_it)
            if start < seen.get(key, start + 1):
                seen[key] = start
                ways = self._ways(segment, start, round_it)
                if ways is None:
                    return True
                todo += ways
        return False

    def _ways(self, segment: Segment, start: int, round_it: tuple[Clock, ...]) -> list[At] | None:
        """Where ways go on from a part of a segment in one turn of all loops of `round_it`; None: that is not known."""
        found: list[At] = []
        for after, kind, clock in segment.nodes[-1].next:
            if kind == PLAIN or clock not in round_it:
                found.append((after.segment, after.place, round_it))
            elif kind != NEXT:
                found.append((after.segment, after.place, round_it[: round_it.index(clock)]))
        told = self.told[segment] if segment in self.told else self._told(segment)
        if told is None:
            return None
        for place, other, clock, later in told:
            if place < start:
                continue
            if clock in round_it:
                if not later:
                    left = round_it[: round_it.index(clock) + 1]
                    found.append((other.segment, other.place, left))
            elif round_it and _inside(clock, round_it[-1]):
                found.append((other.segment, other.place, round_it))
            else:
                return None
        return found

    def _told(self, segment: Segment) -> Told | None:
        told: Told = []
        for place, node in segment.acts:
            for other, clock, later in self._hearers(node):
                if later is None:
                    self.told[segment] = None
                    return None
                told.append((place, other, clock, later))
        self.told[segment] = told
        return told

    def _hearers(self, node: Node) -> Iterator[tuple[Node, Clock, int | None]]:
        """Who hears of a node, how many counts later; None: that is not known, or earlier."""
        graph, act = self.graph, node.event.act if node.event is not None else None
        for key, site in graph.sites_of.get(node, ()):
            clock = site.clock
            if isinstance(act, Arrive | Complete):
                offset = 0 if site.after else site.offset
                for wait, later, _ in awaiting(graph, key, node, clock, site.rate, offset):
                    yield wait.node, clock, None if site.after or wait.after else later
            elif isinstance(act, Meet):
                for other in graph.meetings.get(act.barrier, ()):
                    later = (site.offset - other.offset) // site.rate
                    if other.clock is clock:
                        yield other.node, clock, None if site.after or later < 0 else later


def _inside(clock: Clock | None, outer: Clock) -> bool:
    """Whether the loop of a clock stands inside that of another."""
    while clock is not None and clock is not outer:
        clock = clock.parent
    return clock is not None
