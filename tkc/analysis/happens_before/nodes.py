"""The nodes of an event graph: events of roles in program order, and the straight segments of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.events import (
    Arrive,
    AwaitGroup,
    CloseGroup,
    Event,
    Loop,
    MapFence,
    Meet,
    ProxyFence,
    Role,
    TensorFence,
    Threads,
    Turns,
    Who,
)

Edge = tuple["Node", str, Clock | None]
NEXT, LEAVE, PLAIN, CHOICE = "loop", "leave", "po", "choice"


@dataclass(eq=False, slots=True)
class Segment:
    """Nodes of which each leads to the next one alone; `acts`: where in it those are that do more than touch."""

    nodes: list[Node]
    acts: list[tuple[int, Node]]


@dataclass(eq=False, slots=True)
class Node:
    """An event of a role, or (event None) the beginning of a loop's body, what follows one, or the role's end."""

    role: Role
    event: Event | None
    path: tuple[Clock, ...]
    threads: Who = Threads.ALL
    loops: tuple[Loop, ...] = ()
    turns: Turns | None = None
    """The turns of the innermost loop in which it runs, where these are some only."""
    number: int = 0
    """Which node of its role it is."""
    does: Hashable = field(init=False, default=None)
    """What kind of act its event has, and whether it issues products of a warpgroup; None: it only touches."""
    next: list[Edge] = field(default_factory=list)
    segment: Segment = field(init=False)
    place: int = field(init=False, default=0)
    """Where in its segment it is."""

    def __post_init__(self) -> None:
        self.restate()

    def restate(self) -> None:
        """Says again what kind of act its event has, which has got another one."""
        self.does = _kind(self.event, self.role.cta) if self.event is not None else None

    def __repr__(self) -> str:
        return f"{self.role.name}.{self.event.name}" if self.event else f"{self.role.name}.·"


def _kind(event: Event, cta: int) -> Hashable:
    """What of an act says whether it adds to what is known (`ways`); None: it never does."""
    act, products = event.act, event.products
    if act is None:
        return products or None
    match act:
        case Arrive():
            return Arrive, act.commit, act.copies, products
        case Meet():
            return Meet, act.among, act.barrier is None, act.does, products
        case ProxyFence():
            return ProxyFence, act.space, act.half, cta, products
        case CloseGroup() | AwaitGroup():
            return type(act), act.done, getattr(act, "pending", 0), products
        case TensorFence():
            return TensorFence, act.before, products
        case MapFence():
            return MapFence, act.half, products
        case _:
            return type(act), products


def straighten(nodes: Iterable[Node]) -> None:
    """Makes segments of program order."""
    done = set[Node]()
    for first in nodes:
        if first in done:
            continue
        at, segment = first, Segment([], [])
        while at not in done:
            done.add(at)
            at.segment, at.place = segment, len(segment.nodes)
            if at.does is not None:
                segment.acts.append((len(segment.nodes), at))
            segment.nodes.append(at)
            if len(at.next) == 1 and at.next[0][1] == PLAIN:
                at = at.next[0][0]
