"""Whether a wait may come after itself, by who tells whom in which turns alone: whatever is known on the way, and by
whom. Most kernels have no such circle, so that `moments.deadlocks` need not look at what is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.crossings import awaiting
from tkc.analysis.happens_before.events import Arrive, Complete, Meet
from tkc.analysis.happens_before.graph import Graph, Node, Site
from tkc.analysis.happens_before.nodes import NEXT, PLAIN

Told = list[tuple[Node, Clock, int]]
"""The nodes that hear of one, by the count of which clock, and how many counts later."""


@dataclass(eq=False, slots=True)
class Circles:
    """The ways of a graph on which no count of a loop passes. `told`: who hears of a node; None: that is not known."""

    graph: Graph
    told: dict[Node, Told | None] = field(default_factory=dict)

    def may_have(self, wait: Site) -> bool:
        """Whether a way may lead from a wait back to it that takes no turn of a loop round it.

        A way that goes on by a turn stays behind for good, where none goes back (`graph.back`). Beyond a loop, what its
        turns are is open again: a later one of them may be in the same turn of the loop round it.
        """
        if self.graph.back or wait.after:
            return True
        start: tuple[Node, tuple[Clock, ...]] = (wait.node, wait.node.path)
        todo, seen = [start], set[tuple[Node, int]]()
        while todo:
            node, round_it = todo.pop()
            ways = self._ways(node, round_it)
            if ways is None:
                return True
            for after, left in ways:
                if after is wait.node:
                    return True
                if (after, len(left)) not in seen:
                    seen.add((after, len(left)))
                    todo.append((after, left))
        return False

    def _ways(
        self, node: Node, round_it: tuple[Clock, ...]
    ) -> list[tuple[Node, tuple[Clock, ...]]] | None:
        """The nodes that come next in one turn of all loops of `round_it`, and which of these loops are not left."""
        found: list[tuple[Node, tuple[Clock, ...]]] = []
        for after, kind, clock in node.next:
            if kind == PLAIN or clock not in round_it:
                found.append((after, round_it))
            elif kind != NEXT:
                found.append((after, round_it[: round_it.index(clock)]))
        if node.does is None:
            return found
        told = self._told(node)
        if told is None:
            return None
        for other, clock, later in told:
            if clock in round_it:
                if not later:
                    found.append((other, round_it[: round_it.index(clock) + 1]))
            elif round_it and _inside(clock, round_it[-1]):
                found.append((other, round_it))
            else:
                return None
        return found

    def _told(self, node: Node) -> Told | None:
        if node not in self.told:
            told = list(self._hearers(node))
            known = [(other, clock, later) for other, clock, later in told if later is not None]
            self.told[node] = known if len(known) == len(told) else None
        return self.told[node]

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
