"""One thing known of an access at an event, and positions compared."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tkc.analysis.happens_before.automaton import State
from tkc.analysis.happens_before.clocks import Clock, Position
from tkc.analysis.happens_before.events import Role
from tkc.analysis.happens_before.graph import Node


@dataclass(eq=False, slots=True)
class Label:
    """One thing known, how it came about, and the label that it came from. `dead`: a better one took its place;
    `crossed`: how often it has gone from one role to another."""

    node: Node
    state: State
    position: Position
    rule: str
    before: Label | None
    dead: bool = False
    crossed: int = 0

    def chain(self, origin: Node) -> list[tuple[Node, Node, str]]:
        """The steps on the way from one of the accesses that share it, first to last: from a node to the next, and the
        rule."""
        found: list[tuple[Node, Node, str]] = []
        label = self
        while label.before is not None:
            before = label.before
            start = before.node if before.before is not None else origin
            found.append((start, label.node, label.rule))
            label = before
        found.reverse()
        return found


class Group(NamedTuple):
    """Arrivals of a role at a barrier that make up its items only together, and what waits of one kind know of each:
    it has to be the same, whichever of them an item came by."""

    role: Role
    barrier: Hashable
    known: tuple[str, int, int]
    """Name, number and fence of the state."""


def as_early(one: Position, other: Position) -> bool:
    """Whether one position of two of equal clocks is nowhere later."""
    if len(one) == 1:
        return one[0][1] <= other[0][1]
    return all(o[1] <= p[1] for o, p in zip(one, other, strict=True))


def earliest(positions: Iterable[Position]) -> list[Position]:
    """The positions without those that another of the same clocks is nowhere later than."""
    best: dict[tuple[Clock, ...], list[Position]] = {}
    for position in positions:
        here = best.setdefault(tuple([c for c, _ in position]), [])
        if not any(as_early(p, position) for p in here):
            here[:] = [p for p in here if not as_early(position, p)]
            here.append(position)
    return [p for here in best.values() for p in here]


def worst(choices: list[list[Position]]) -> list[Position]:
    """The positions that hold whichever of several sites an item came by: the latest of each, of alike clocks."""
    if not all(choices):
        return []
    found = earliest(choices[0])
    for others in choices[1:]:
        found = earliest(
            tuple([(c, max(a, b)) for (c, a), (_, b) in zip(p, q, strict=True)])
            for p in found
            for q in earliest(others)
            if [c for c, _ in p] == [c for c, _ in q]
        )
    return found
