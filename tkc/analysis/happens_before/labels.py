"""One thing known of an access at an event, and positions compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tkc.analysis.happens_before.automaton import State
from tkc.analysis.happens_before.clocks import Position
from tkc.analysis.happens_before.graph import Node


@dataclass(eq=False, slots=True)
class Label:
    """One thing known, how it came about, and the label that it came from. `dead`: a better one took its place."""

    node: Node
    state: State
    position: Position
    rule: str
    before: Label | None
    dead: bool = False

    def chain(self) -> list[tuple[Node, Node, str]]:
        """The steps on the way, first to last: from a node to the next, and the rule."""
        found: list[tuple[Node, Node, str]] = []
        label = self
        while label.before is not None:
            found.append((label.before.node, label.node, label.rule))
            label = label.before
        found.reverse()
        return found


def as_early(one: Position, other: Position) -> bool:
    """Whether one position of two of equal clocks is nowhere later."""
    if len(one) == 1:
        return one[0][1] <= other[0][1]
    return all(o[1] <= p[1] for o, p in zip(one, other, strict=True))


def worst(choices: list[list[Position]]) -> Iterator[Position]:
    """The positions that hold whichever of several sites an item came by: the latest of each, of alike clocks."""
    if not all(choices):
        return
    found: list[Position] = list(choices[0])
    for others in choices[1:]:
        found = [
            tuple((c, max(a, b)) for (c, a), (_, b) in zip(p, q, strict=True))
            for p in found
            for q in others
            if [c for c, _ in p] == [c for c, _ in q]
        ]
    yield from dict.fromkeys(found)
