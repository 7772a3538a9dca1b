"""Where program order leads from a node to what adds to the knowledge of an access, past all that does not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, field

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.matters import Deed, Kinds, Matters
from tkc.analysis.happens_before.nodes import CHOICE, LEAVE, NEXT, PLAIN, Edge, Node, Segment

Steps = tuple[tuple[str, Clock | None], ...]
"""The loops left and turned on the way from one node to another."""
Part = tuple[Segment, int, int, Steps]
"""Nodes of a segment, from one on and up to another, and the steps that lead there."""
Passed = dict[Segment, tuple[int, int]]
"""From where on a way has passed a segment, and after how many steps."""
Walk = tuple[Segment, int, Steps, Passed]


@dataclass(eq=False, slots=True)
class Way:
    """To the next node where a search stops, if it comes to one; `choice`: it ends a branch of one. `past`: what it
    passes; `tells`: the events there that tell others, and add nothing to what their own threads know."""

    to: Node | None
    steps: Steps
    choice: bool
    past: list[Part]
    tells: list[tuple[Node, Steps]]


@dataclass(eq=False, slots=True)
class Ways:
    """All ways past what does not matter, found as they are asked for.

    `past`: those that pass a segment: from which node, which nodes of it, and by which steps.
    """

    matters: Kinds | Matters
    doing: dict[Hashable, Deed] = field(default_factory=lambda: {None: Deed.NOTHING})
    """What kinds of acts do, as far as they have been met."""
    deeds: dict[Segment, tuple[list[int], list[tuple[int, Node]]]] = field(default_factory=dict)
    """Where in a segment a search stops, and where others are told."""
    found: dict[Node, list[Way]] = field(default_factory=dict)
    past: dict[Segment, list[tuple[Node, int, int, Steps]]] = field(default_factory=dict)

    def on(self, node: Node) -> list[Way]:
        """The ways from a node."""
        here = self.found.get(node)
        if here is None:
            here = self.found[node] = self._from(node)
            for way in here:
                for segment, first, behind, steps in way.past:
                    self.past.setdefault(segment, []).append((node, first, behind, steps))
        return here

    def _from(self, node: Node) -> list[Way]:
        """Past all that does not stop a search, and on both ways from the end of a loop's body."""
        segment, at = node.segment, node.place + 1
        if at < len(segment.nodes):
            stops, telling = self.deeds.get(segment) or self._sorted(segment)
            if stops and stops[-1] >= at:  # within the segment
                behind = stops[bisect_left(stops, at)]
                past = [(segment, at, behind, ())] if at < behind else []
                tells = [(other, ()) for i, other in telling if at <= i < behind]
                return [Way(segment.nodes[behind], (), False, past, tells)]
            walks: list[Walk] = [(segment, at, (), {})]
            return self._walked(walks, [])
        found, walks = list[Way](), list[Walk]()
        passed: Passed = {segment: (len(segment.nodes), 0)}
        for after, kind, clock in node.next:
            if kind == CHOICE:
                found.append(Way(after, (), True, [], []))
            else:
                steps = () if kind == PLAIN else ((kind, clock),)
                walks.append((after.segment, after.place, steps, passed))
        return self._walked(walks, found)

    def _walked(self, walks: list[Walk], found: list[Way]) -> list[Way]:
        """Each walk as far as it goes; where it parts, the other part is left for later."""
        for segment, at, steps, passed in walks:
            past, tells = list[Part](), list[tuple[Node, Steps]]()
            to: Node | None = None
            while True:
                stops, telling = self.deeds.get(segment) or self._sorted(segment)
                nodes = segment.nodes
                behind = length = len(nodes)
                if stops and stops[-1] >= at:
                    behind = stops[bisect_left(stops, at)]
                again, before = passed.get(segment, (behind, 0))
                if again < behind:
                    behind = max(at, again)
                    if any([step == LEAVE for step, _ in steps[before:]]):
                        to = nodes[behind]
                elif behind < length:
                    to, again = nodes[behind], behind
                elif not self._goes_on(nodes[-1]):
                    again = behind = length - 1
                    to = nodes[-1]
                if at < behind:
                    past.append((segment, at, behind, steps))
                    if telling:
                        tells += [(node, steps) for i, node in telling if at <= i < behind]
                if to is not None or again < length:
                    break  # without a stop, what is said of later turns is less than what has been said
                passed = {**passed, segment: (at, len(steps))}
                ends = nodes[-1].next
                if len(ends) > 1:
                    others = ends[1:]
                    walks += [(n.segment, n.place, (*steps, (k, c)), passed) for n, k, c in others]
                after, kind, clock = ends[0]
                if kind != PLAIN:
                    steps = *steps, (kind, clock)
                segment, at = after.segment, after.place
            if to is not None or past:
                found.append(Way(to, steps, False, past, tells))
        return found

    def _sorted(self, segment: Segment) -> tuple[list[int], list[tuple[int, Node]]]:
        doing, stops, telling = self.doing, list[int](), list[tuple[int, Node]]()
        for place, node in segment.acts:
            deed = doing.get(node.does) or self._deed(node)
            if deed is Deed.STOPS:
                stops.append(place)
            elif deed is Deed.TELLS:
                telling.append((place, node))
        self.deeds[segment] = stops, telling
        return stops, telling

    def _deed(self, node: Node) -> Deed:
        found = self.doing[node.does] = self.matters.by(node.event, node.role.cta)
        return found

    def _goes_on(self, node: Node) -> bool:
        """Whether a search does not stop at the end of a segment."""
        ends = node.next
        if len(ends) == 1:
            return ends[0][1] != CHOICE
        return isinstance(self.matters, Matters) and _turns(ends)


def _turns(ends: list[Edge]) -> bool:
    """Whether a node ends the body of a loop."""
    return len(ends) == 2 and ends[0][1] == NEXT and ends[0][2] is not None and ends[0][2].high > 1
