"""Whether two accesses are surely in no order, which the nearest instances that meet tell: nothing orders these that
comes in later turns than theirs, so that little has to be followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.distance import distance
from tkc.analysis.happens_before.graph import Graph
from tkc.analysis.happens_before.verdicts import Judge, Pair, Place, common


@dataclass(eq=False, slots=True)
class Near:
    """Looks where a judge would, but not far."""

    judge: Judge
    judges: dict[int, Judge] = field(default_factory=dict[int, Judge])
    """Those who follow so many counts only."""

    def parts(self, first: Place, second: Place) -> bool:
        """Whether nothing orders the nearest instances that meet; False where that is not known.

        Between two writes a read may stand that orders them, which is not looked for.
        """
        if first.access.write and second.access.write:
            return False
        clocks = common(first.node, second.node)
        return all(self._parts(Pair(self.judge, first, second, clock)) for clock in clocks)

    def _parts(self, pair: Pair) -> bool:
        return any(not self._in_order(pair, d) for d in _nearest(pair))

    def _in_order(self, pair: Pair, d: int) -> bool:
        """Whether the second access comes after the first `d` counts later, or before it; or that is not known."""
        first, second = (pair.first, pair.second) if d >= 0 else (pair.second, pair.first)
        near, here = self._within(abs(d)), self._within(0)
        return (
            near is None
            or here is None
            or _comes_after(near, first, second, pair.clock, abs(d))
            or _comes_after(here, second, first, pair.clock, -abs(d))
        )

    def _within(self, turns: int) -> Judge | None:
        """A judge who follows ways to so many turns of a loop; None where that is no shorter."""
        most = _most(self.judge.graph, turns)
        if most >= self.judge.graph.limit:
            return None
        if most not in self.judges:
            self.judges[most] = replace(
                self.judge, most=most, near=None, reached={}, reach_of={}, alike={}
            )
        return self.judges[most]


def _comes_after(judge: Judge, first: Place, second: Place, clock: Clock, turns: int) -> bool:
    """Whether the second access comes after the first from so many counts on."""
    reach, going = judge.reach(first), True
    while distance(reach, first, second, clock)[0] > turns:
        if not going:
            return False
        going = reach.advance(second.node.role)
    return True


def _nearest(pair: Pair) -> Iterator[int]:
    """The least distances at which two accesses meet: in the same turn, from the one to the other, and back."""
    meets = pair.meetings.meets
    if meets(0) and not pair.apart:
        yield 0
    later = range(1, int(min(pair.meetings.before + pair.meetings.period + 1, pair.clock.span)))
    for sign in (1, -1):
        yield from [sign * d for d in later if meets(sign * d)][:1]


def _most(graph: Graph, turns: int) -> int:
    """The counts within which ways to so many turns of a loop stay: these may go back, also from the next turn in another
    branch to the access's own item, and come out of loops that turn so often at least."""
    turns = max(turns, int(bool(graph.branches)))
    paths = {node.path for node in graph.nodes}
    inner = max(prod([max(1, clock.low) for clock in path]) for path in paths)
    return (turns + graph.back + 1) * inner - 1
