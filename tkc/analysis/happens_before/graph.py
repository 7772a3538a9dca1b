"""The event graph of a program: program order with loops, and which arrival meets which wait, by item numbers.

Nodes are static events; an edge holds for all iterations. Loops of several roles share a clock where they turn equally
often: by their keys, or because a barrier counts them one to one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from math import inf

from tkc.analysis.happens_before.clocks import Clock, Position, coarsen, leave, next_iteration, refine
from tkc.analysis.happens_before.events import (
    Arrive,
    Barrier,
    Complete,
    Event,
    Index,
    Loop,
    Meet,
    Program,
    Role,
    Threads,
    Wait,
)

NEXT, LEAVE, PLAIN = "loop", "leave", "po"


@dataclass(eq=False, slots=True)
class Node:
    """An event of a role, or (event None) the beginning of a loop's body, what follows one, or the role's end."""

    role: Role
    event: Event | None
    path: tuple[Clock, ...]
    threads: Threads = Threads.ALL
    loops: tuple[Loop, ...] = ()
    next: list[tuple[Node, str, Clock | None]] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.role.name}.{self.event.name}" if self.event else f"{self.role.name}.·"


@dataclass(frozen=True, slots=True)
class Site:
    """A node that arrives at a barrier, waits for it, or whose copy completes bytes of it.

    Its item is `rate` · count of `clock` + `offset`. `after`: the node follows the loop of `clock`, whose iterations are
    all counted.
    """

    node: Node
    clock: Clock
    rate: int
    offset: int
    after: bool = False

    @property
    def every(self) -> bool:
        """Whether it has an item in every iteration of its clock."""
        return not self.after and self.node.path[-1] is self.clock

    @property
    def guard(self) -> tuple[str, Loop] | None:
        """The condition that the node stands under, where it is one that can be followed."""
        loops = self.node.loops
        return loops[-1].guard if loops else None


@dataclass(eq=False, slots=True)
class Ring:
    """What is known of a barrier: who waits for it, who arrives, and which of them cannot be followed."""

    barrier: Barrier
    waits: list[Site] = field(default_factory=list)
    arrivals: dict[Role, list[Site]] = field(default_factory=dict)
    copies: list[Site] = field(default_factory=list)
    unknown: list[Node] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Graph:
    """All of it. `clock_of` gives a loop's clock; `end_of` a role's last node."""

    program: Program
    kernel: Clock
    nodes: list[Node]
    clock_of: dict[Loop, Clock]
    rings: dict[Hashable, Ring]
    meetings: dict[Hashable, list[Site]]
    end_of: dict[Role, Node]
    node_of: dict[Event, Node]
    sites_of: dict[Node, list[tuple[Hashable, Site]]]
    limit: int


def build(program: Program) -> Graph:
    kernel = Clock("kernel", 1, 1)
    clocks = _clocks(program, kernel)
    graph = Graph(program, kernel, [], clocks, {}, {}, {}, {}, {}, 0)
    for role in program.roles:
        begin = Node(role, None, (kernel,))
        graph.nodes.append(begin)
        last = _block(graph, role, role.body, (kernel,), (), [(begin, PLAIN, None)])
        end = Node(role, None, (kernel,))
        _link(last, end)
        graph.nodes.append(end)
        graph.end_of[role] = end
    for key, barrier in program.barriers.items():
        graph.rings[key] = Ring(barrier)
    for node in graph.nodes:
        _sites(graph, node)
    depth = max((b.depth for b in program.barriers.values()), default=1)
    graph.limit = 4 * depth + 12
    return graph


# Clocks --------------------------------------------------------------------------------------------------------------


def _loops(role: Role) -> Iterator[tuple[Loop, Loop | None, Hashable]]:
    """Each loop with the one round it and its key in the role: its own, that of the loop round it, and which it is of
    those that are alike."""

    def walk(body: list[Event | Loop], outer: Loop | None, outer_key: Hashable) -> Iterator[tuple[Loop, Loop | None, Hashable]]:
        seen: dict[Hashable, int] = {}
        for item in body:
            if isinstance(item, Loop):
                base = (outer_key, item.key) if item.key is not None else (id(item),)
                seen[base] = seen.get(base, -1) + 1
                key = (*base, seen[base])
                yield item, outer, key
                yield from walk(item.body, item, key)

    yield from walk(role.body, None, None)


def _clocks(program: Program, kernel: Clock) -> dict[Loop, Clock]:
    """One clock for the loops that turn equally often.

    Two loops linked by a barrier have equal counts, but where the loops round them differ nothing is known of these.
    """
    found = [(loop, outer, key) for role in program.roles for loop, outer, key in _loops(role)]
    group: dict[Loop, Loop] = {loop: loop for loop, _, _ in found}

    def top(loop: Loop) -> Loop:
        while group[loop] is not loop:
            group[loop] = group[group[loop]]
            loop = group[loop]
        return loop

    first: dict[Hashable, Loop] = {}
    for loop, _, key in found:
        group[top(loop)] = top(first.setdefault(key, loop))
    linked: dict[tuple[Hashable, int], Loop] = {}
    for role in program.roles:
        for event in role.events():
            for barrier, index in _indices(event):
                if index is not None and index.loop is not None:
                    known = linked.setdefault((barrier, index.rate), index.loop)
                    group[top(index.loop)] = top(known)
    made: dict[Loop, Clock] = {}
    for loop, _, _ in found:
        if top(loop) not in made:
            made[top(loop)] = Clock(loop.name, loop.low, loop.high)
    clocks = {loop: made[top(loop)] for loop, _, _ in found}
    outers: dict[Clock, set[Clock]] = {}
    for loop, outer, _ in found:
        clock = clocks[loop]
        outers.setdefault(clock, set()).add(kernel if outer is None else clocks[outer])
        clock.low, clock.high = min(clock.low, loop.low), max(clock.high, loop.high)
    for clock, parents in outers.items():
        if len(parents) == 1:
            clock.parent = parents.pop()
        else:
            clock.low, clock.high = 0, inf
    return clocks


def _indices(event: Event) -> Iterator[tuple[Hashable, Index | None]]:
    act = event.act
    if isinstance(act, Wait | Arrive | Complete) or (isinstance(act, Meet) and act.barrier is not None):
        yield act.barrier, act.index


# Program order -------------------------------------------------------------------------------------------------------

Pending = list[tuple[Node, str, Clock | None]]


def _link(pending: Pending, node: Node) -> None:
    for before, kind, clock in pending:
        before.next.append((node, kind, clock))


def _block(
    graph: Graph,
    role: Role,
    body: list[Event | Loop],
    path: tuple[Clock, ...],
    loops: tuple[Loop, ...],
    pending: Pending,
) -> Pending:
    """Adds a body's nodes; gives the edges that lead out of it."""
    for item in body:
        if isinstance(item, Event):
            threads = item.threads
            if role.warps == 1:
                threads = {Threads.LANE: Threads.ONE, Threads.WARP: Threads.ALL}.get(threads, threads)
            node = Node(role, item, path, threads, loops)
            graph.nodes.append(node)
            graph.node_of[item] = node
            _link(pending, node)
            pending = [(node, PLAIN, None)]
            continue
        clock = graph.clock_of[item]
        head = Node(role, None, (*path, clock))
        after = Node(role, None, path)
        graph.nodes += (head, after)
        _link(pending, head)
        [(last, _, _)] = _block(
            graph, role, item.body, (*path, clock), (*loops, item), [(head, PLAIN, None)]
        )
        if item.high > 1:
            last.next.append((head, NEXT, clock))
        _link([*pending, (last, LEAVE, clock)], after)
        pending = [(after, PLAIN, None)]
    return pending


def follow(position: Position, kind: str, clock: Clock | None) -> Position | None:
    """A position carried over an edge of program order."""
    if kind == PLAIN:
        return position
    assert clock is not None
    return next_iteration(position, clock) if kind == NEXT else leave(position, clock)


# Barriers ------------------------------------------------------------------------------------------------------------


def _sites(graph: Graph, node: Node) -> None:
    event = node.event
    if event is None or event.act is None:
        return
    for key, index in _indices(event):
        if index is None:
            if key in graph.rings:
                graph.rings[key].unknown.append(node)
            continue
        clock = graph.kernel if index.loop is None else graph.clock_of[index.loop]
        site = Site(node, clock, index.rate, index.offset, clock not in node.path)
        graph.sites_of.setdefault(node, []).append((key, site))
        if isinstance(event.act, Meet):
            graph.meetings.setdefault(key, []).append(site)
        elif key in graph.rings:
            ring = graph.rings[key]
            if isinstance(event.act, Wait):
                ring.waits.append(site)
            elif isinstance(event.act, Arrive):
                ring.arrivals.setdefault(node.role, []).append(site)
            else:
                ring.copies.append(site)


def items_of(position: Position, site: Site, inside: bool) -> Position | None:
    """A position at an arriving site, as the earliest item from which on its items come later; `inside`: X is in the
    loop of the site's clock."""
    if not site.after:
        last = position[-1][0]
        if last in _round(site.clock):
            return refine(position, site.clock)
        return coarsen(position, site.clock)
    # the last items of each outer iteration: those of the position's iteration come after it
    if site.clock.parent is None or site.clock.parent not in site.node.path:
        return None
    if position[-1][0] in _round(site.clock.parent):
        whole = refine(position, site.clock.parent)
    else:
        whole = coarsen(position, site.clock.parent)
    if whole is None:
        return None
    position = whole
    _, offset = position[-1]
    if inside and len(position) == 1 and offset <= 0:
        return ((site.clock, 0),)
    return (*position, (site.clock, 0))


def _round(clock: Clock | None) -> Iterator[Clock]:
    while clock is not None:
        yield clock
        clock = clock.parent
