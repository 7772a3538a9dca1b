"""Where program order leads from a node to what adds to the knowledge of an access, past all that does not."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.graph import CHOICE, PLAIN, Node
from tkc.analysis.happens_before.matters import Kinds, Matters

Steps = tuple[tuple[str, Clock | None], ...]
"""The loops left and turned on the way from one node to another."""


@dataclass(eq=False, slots=True)
class Way:
    """To the next node that matters, past some that touch; `choice`: it ends a branch of one."""

    to: Node
    steps: Steps
    choice: bool
    past: tuple[tuple[Node, Steps], ...]


@dataclass(eq=False, slots=True)
class Ways:
    """All ways past what does not matter, found as they are asked for.

    `past`: the accesses that stand on them: from which node, and by which steps.
    """

    matters: Kinds | Matters
    doing: dict[Hashable, bool] = field(default_factory=lambda: {None: False})
    """Which kinds of acts matter, as far as they have been met."""
    found: dict[Node, list[Way]] = field(default_factory=dict)
    past: dict[Node, list[tuple[Node, Steps]]] = field(default_factory=dict)

    def on(self, node: Node) -> list[Way]:
        """The ways from a node."""
        here = self.found.get(node)
        if here is None:
            here = self.found[node] = self._from(node)
        return here

    def _matters(self, node: Node) -> bool:
        found = self.doing[node.does] = self.matters.by(node.event, node.role.cta)
        return found

    def _from(self, node: Node) -> list[Way]:
        found, doing = list[Way](), self.doing
        for after, kind, clock in node.next:
            steps = [] if kind in (PLAIN, CHOICE) else [(kind, clock)]
            past: list[tuple[Node, Steps]] = []
            while (
                kind != CHOICE
                and len(after.next) == 1
                and after.next[0][1] != CHOICE
                and not (doing[after.does] if after.does in doing else self._matters(after))
            ):
                if after.event is not None and after.event.accesses:
                    past.append((after, tuple(steps)))
                after, step, inner = after.next[0]
                if step != PLAIN:
                    steps.append((step, inner))
            found.append(Way(after, tuple(steps), kind == CHOICE, tuple(past)))
            for touching, before in past:
                self.past.setdefault(touching, []).append((node, before))
        return found
