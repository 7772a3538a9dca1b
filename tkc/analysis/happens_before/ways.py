"""Where program order leads from a node to what adds to the knowledge of an access, past all that does not."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache

from tkc.analysis.happens_before.automaton import PENDING
from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.events import (
    Arrive,
    AwaitGroup,
    CloseGroup,
    Complete,
    Event,
    MapFence,
    Meet,
    ProxyFence,
    TensorFence,
    Wait,
)
from tkc.analysis.happens_before.graph import CHOICE, PLAIN, Node
from tkc.ir.isa.memory import Done, Proxy, Space

Steps = tuple[tuple[str, Clock | None], ...]
"""The loops left and turned on the way from one node to another."""

Known = tuple[str, bool, bool]
"""What is known, as far as ways go by it: a state's name, whether all threads know all parts, and whether that is told
on as what a proxy fence makes of it, too."""


@dataclass(frozen=True, slots=True)
class Matters:
    """Which acts add to what is known of an access. `moment`: of an event's moment, whatever proxies; `meet`: meetings
    of one role or warp; `products`: products of a warpgroup; `groups`: groups of these kinds."""

    moment: bool
    products: bool
    meet: bool
    complete: bool
    groups: frozenset[Done]
    tensor: bool
    proxy: bool
    maps: bool

    def by(self, event: Event | None) -> bool:
        """Whether what an event does adds to what is known."""
        act = event.act if event is not None else None
        if self.products and event is not None and event.products:
            return True
        if self.moment and self.groups:
            return isinstance(act, CloseGroup | AwaitGroup) and act.done in self.groups
        match act:
            case None:
                return False
            case Arrive():
                return True
            case Meet():
                return self.meet or act.barrier is not None
            case Complete():
                return self.complete
            case _ if self.moment:
                return isinstance(act, Wait)
            case Wait():
                return False
            case CloseGroup() | AwaitGroup():
                return act.done in self.groups
            case TensorFence():
                return self.tensor
            case ProxyFence():
                return self.proxy
            case MapFence():
                return self.maps
            case _:
                return True


@cache
def matters(
    space: Space, proxy: Proxy, done: Done, known: Known, moment: bool, met: bool
) -> Matters:
    """What adds to such knowledge of an access. `met`: meetings of a role hand on what it has awaited of tensor
    memory as it is (A20)."""
    name, full, fenced = known
    tensor, groups = space is Space.TENSOR, set[Done]()
    if name in PENDING:
        groups = {Done.WGMMA_GROUP if moment else done}
        if done is Done.BULK_GROUP_READ:
            groups.add(Done.BULK_GROUP)
    return Matters(
        moment=moment,
        products=moment and not full and name not in PENDING,
        meet=not full or (tensor and not (met and name == "done" and done is Done.TCGEN05_WAIT)),
        complete=moment or (name == "raw" and proxy is Proxy.ASYNC),
        groups=frozenset(groups),
        tensor=tensor and not moment,
        proxy=not tensor and not moment and not fenced and name in ("gen", "raw", "half"),
        maps=space is Space.MAP and not moment,
    )


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

    matters: Matters
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
        found = self.doing[node.does] = self.matters.by(node.event)
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
