"""The event graph of a program: program order with loops, and which arrival meets which wait, by item numbers.

Nodes are static events; an edge holds for all iterations. Loops of several roles share a clock where they turn equally
often: by their keys, or because a barrier counts them one to one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from math import inf, lcm
from typing import Any

from tkc.analysis.happens_before.automaton import MOST_GROUPS
from tkc.analysis.happens_before.clocks import (
    Clock,
    Position,
    coarsen,
    leave,
    next_iteration,
    refine,
)
from tkc.analysis.happens_before.events import (
    Arrive,
    AwaitGroup,
    Barrier,
    Beside,
    Choice,
    Complete,
    Event,
    Index,
    Item,
    Loop,
    Meet,
    Program,
    ProxyFence,
    Role,
    Sometimes,
    Threads,
    Turns,
    Wait,
    Who,
)
from tkc.analysis.happens_before.nodes import CHOICE as CHOICE
from tkc.analysis.happens_before.nodes import LEAVE as LEAVE
from tkc.analysis.happens_before.nodes import NEXT, PLAIN, Edge, straighten
from tkc.analysis.happens_before.nodes import Node as Node
from tkc.analysis.happens_before.rules import PRACTICE
from tkc.analysis.happens_before.symmetry import Symmetry

Hearers = Role | tuple[Role, ...]
"""A role, or those that wait for what one tells them."""


@dataclass(frozen=True, slots=True)
class Site:
    """A node that arrives at a barrier, waits for it, or whose copy completes bytes of it.

    Its item is `rate` · count of `clock` + `offset`. `after`: the node is beside the loop of `clock`, whose iterations
    so far are all counted; `ahead`: that loop comes behind it.
    """

    node: Node
    clock: Clock
    rate: int
    offset: int
    after: bool = False
    ahead: bool = False

    @property
    def every(self) -> bool:
        """Whether it has an item in every iteration of its clock."""
        return not self.after and self.node.path[-1] is self.clock and self.node.turns is None

    @property
    def sometimes(self) -> bool:
        """Whether it has an item in some iterations of its clock, which are known."""
        return not self.after and self.node.path[-1] is self.clock and self.node.turns is not None

    def has(self, item: int) -> bool:
        """Whether an item is one of its own."""
        turn, rest = divmod(item - self.offset, self.rate)
        turns = self.node.turns
        return not rest and (
            turns is None or not self.sometimes or turn % turns.period in turns.rest
        )

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
    branches: dict[Node, list[Node]] = field(default_factory=dict)
    """The last nodes of a choice's branches, by the node after it."""
    after_choice: dict[Loop, Node] = field(default_factory=dict)
    """The node after a choice, by its branches."""
    moments: dict[Hashable, Any] = field(default_factory=dict)
    back: int = 0
    """By how many counts a path may go back: how much earlier an arrival's items are than its turns."""
    assumed: frozenset[str] = PRACTICE
    ways: dict[Hashable, Any] = field(default_factory=dict)
    """Where program order leads from a node to what matters, by what does (`ways`)."""
    alike: dict[Hashable, Any] = field(default_factory=dict)
    """What accesses that become known by the same steps have in common (`paths.Alike`)."""
    symmetry: Symmetry = field(init=False)
    one_way: bool = field(init=False)
    """Whether there are one-way proxy fences, which ask whose access it is."""
    closed: int = field(init=False)
    """So many groups behind one are as good as more: no wait leaves more under way."""
    entries: dict[Node, tuple[Node, list[Node]]] = field(default_factory=dict)
    tells: dict[Role, set[Role]] = field(default_factory=dict)
    """The roles that one of another's waits may have been told by."""
    steps_to: dict[Role, dict[Hearers, int]] = field(default_factory=dict)
    heard: dict[Node, tuple[Role, ...]] = field(default_factory=dict)
    awaiting: dict[Hashable, list[tuple[Site, int, Turns | None]]] = field(default_factory=dict)
    """The waits for items that come by a node (`paths`)."""
    waiting: list[Node] = field(default_factory=list)
    """The nodes that wait for a barrier."""
    periods: dict[Clock, tuple[Loop, int]] = field(default_factory=dict)
    """Clocks of loops that have parts which run in some turns: a loop, and after how many turns they run again."""
    followed: dict[tuple[Hashable, Role, bool, int], list[list[Site]] | None] = field(
        default_factory=dict
    )
    places: Any = None
    """Accesses by space and buffer (`verdicts.places`)."""
    visited: int = 0
    """Labels that have been followed."""
    bounded: bool = False
    """Whether following many of them is given up (`paths.Unfollowed`)."""

    def cases(
        self, barrier: Hashable, role: Role, item: int, copies: bool = False
    ) -> list[list[Site]] | None:
        """The arrivals (or `copies`) of a role under conditions, by the case that an item may be; None where they leave
        one out. Of several items a turn, those of the place that `item` has among them."""
        ring = self.rings[barrier]
        sites = ring.arrivals.get(role, [])
        if copies:
            sites = [s for s in ring.copies if s.node.role is role]
        sites = [s for s in sites if not s.every and not s.sometimes]
        rate = sites[0].rate if sites else 1
        key = (barrier, role, copies, item % rate)
        if key not in self.followed:
            alike = all(s.rate == rate for s in sites)
            mine = [s for s in sites if (s.offset - item) % rate == 0]
            self.followed[key] = covers_all(mine) if alike else None
        return self.followed[key]

    def __post_init__(self) -> None:
        self.symmetry = Symmetry(self.program)
        acts = [e.act for role in self.program.roles for e in role.events()]
        self.one_way = has_halves(self.program)
        pending = [act.pending for act in acts if isinstance(act, AwaitGroup)]
        self.closed = min(MOST_GROUPS, max(pending, default=0) + 1)

    def toward(self, role: Role) -> dict[Hearers, int]:
        """From each role, or roles, by how many arrivals or meetings at least one comes to this role."""
        if not self.tells:
            for ring in self.rings.values():
                tell = {s.node.role for s in ring.copies} | set(ring.arrivals)
                for wait in ring.waits:
                    self.tells.setdefault(wait.node.role, set()).update(tell)
            for sites in self.meetings.values():
                meet = {s.node.role for s in sites}
                for one in meet:
                    self.tells.setdefault(one, set()).update(meet)
        found = self.steps_to.get(role)
        if found is None:
            found: dict[Hearers, int] | None = {role: 0}
            last, far = [role], 0
            while last:
                far += 1
                told = (other for one in last for other in self.tells.get(one, ()))
                last = list(dict.fromkeys(o for o in told if found.setdefault(o, far) == far))
            self.steps_to[role] = found
        return found

    def hearers(self, node: Node) -> tuple[Role, ...]:
        """The roles that wait for what a node arrives at, or copies."""
        found = self.heard.get(node)
        if found is None:
            rings = [self.rings[k] for k, _ in self.sites_of.get(node, ()) if k in self.rings]
            roles = dict.fromkeys(w.node.role for ring in rings for w in ring.waits)
            found = self.heard[node] = tuple(roles)
        return found

    def entry(self, node: Node) -> tuple[Node, list[Node]]:
        """The first node from one on that does more than touch, as far as program order is one way, in one turn; and
        those between the two."""
        known = self.entries.get(node)
        if known is None:
            at, between = node, list[Node]()
            while at.event is None or at.event.act is None:
                if len(at.next) != 1:
                    break
                after, kind, _ = at.next[0]
                if kind != PLAIN or after.path != node.path or after.turns is not node.turns:
                    break
                at = after
                between.append(at)
            known = self.entries[node] = at, between[:-1]
        return known


def has_halves(program: Program) -> bool:
    """Whether a program has one-way proxy fences."""
    acts = (event.act for role in program.roles for event in role.events())
    return any(isinstance(act, ProxyFence) and act.half for act in acts)


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
    counts: dict[Role, int] = {}
    for node in graph.nodes:
        node.number = counts[node.role] = counts.get(node.role, -1) + 1
    for turns in {node.turns for node in graph.nodes if node.turns is not None}:
        clock = clocks[turns.loop]
        known = graph.periods.get(clock, (turns.loop, 1))[1]
        graph.periods[clock] = (turns.loop, lcm(known, turns.period))
    straighten(graph.nodes)
    passed: set[Loop] = set()
    for node in graph.nodes:
        passed.update(node.loops)
        _sites(graph, node, passed)
    graph.back = _back(graph)
    depth = max((b.depth for b in program.barriers.values()), default=1)
    graph.limit = 4 * depth + 12
    return graph


def _back(graph: Graph) -> int:
    """The sum of all steps back that a chain of arrivals and waits may take."""
    total = 0
    for ring in graph.rings.values():
        arrivals = [s.offset for sites in ring.arrivals.values() for s in sites]
        arrivals += [s.offset for s in ring.copies]
        waits = [s.offset for s in ring.waits]
        if arrivals and waits:
            total += max(0, max(waits) - min(arrivals))
    return total


# Clocks --------------------------------------------------------------------------------------------------------------


def loops_of(role: Role) -> Iterator[tuple[Loop, Loop | None, Hashable]]:
    """Each loop with the one round it and its key in the role: its own, that of the loop round it, and which it is of
    those that are alike."""

    def walk(
        body: list[Item], outer: Loop | None, outer_key: Hashable
    ) -> Iterator[tuple[Loop, Loop | None, Hashable]]:
        seen: dict[Hashable, int] = {}
        for item in _flat(body):
            base = (outer_key, item.key) if item.key is not None else (id(item),)
            seen[base] = seen.get(base, -1) + 1
            key = (*base, seen[base])
            yield item, outer, key
            yield from walk(item.body, item, key)

    yield from walk(role.body, None, None)


def _flat(body: list[Item]) -> Iterator[Loop]:
    """A body's loops, those of choices too."""
    for item in body:
        if type(item) is Event:
            continue
        if isinstance(item, Loop):
            yield item
        elif isinstance(item, Choice):
            yield from item.branches
        elif isinstance(item, Beside):
            yield from _flat([*item.one, *item.other])
        else:
            yield from _flat(item.body)


def _clocks(program: Program, kernel: Clock) -> dict[Loop, Clock]:
    """One clock for the loops that turn equally often.

    Two loops linked by a barrier have equal counts, but where the loops round them differ nothing is known of these.
    """
    found = [(loop, outer, key) for role in program.roles for loop, outer, key in loops_of(role)]
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
    counted = [_counted(event) for role in program.roles for event in role.events()]
    items = [item for item in counted if item is not None]
    # of barriers some of whose items are not numbered the numbers of others say nothing
    uncounted = {b for b, index in items if index is None and b in program.barriers}
    for barrier, index in items:
        if index is not None and index.loop is not None and barrier not in uncounted:
            known = linked.setdefault((barrier, index.rate), index.loop)
            group[top(index.loop)] = top(known)
    made: dict[Loop, Clock] = {}
    for loop, _, _ in found:
        if top(loop) not in made:
            made[top(loop)] = Clock(loop.name, loop.low, loop.high)
    clocks = {loop: made[top(loop)] for loop, _, _ in found}
    outers: dict[Clock, set[tuple[Clock, Hashable]]] = {}
    for loop, outer, key in found:
        clock = clocks[loop]
        outers.setdefault(clock, set()).add((kernel if outer is None else clocks[outer], key))
        clock.low, clock.high = min(clock.low, loop.low), max(clock.high, loop.high)
    totals = _totals(found)
    turned: dict[Clock, set[int | None]] = {}
    for loop, clock in clocks.items():
        turned.setdefault(clock, set()).add(totals[loop])
    for clock, parents in outers.items():
        counts = turned[clock]
        clock.agreed = len({key for _, key in parents}) == 1 or (
            len(counts) == 1 and None not in counts
        )
        if len(parents) == 1:
            clock.parent = parents.pop()[0]
        elif all(outer is kernel for outer, _ in parents):
            clock.parent = kernel
        else:
            clock.low, clock.high = 0, inf
    return clocks


def _totals(found: list[tuple[Loop, Loop | None, Hashable]]) -> dict[Loop, int | None]:
    """How often each loop turns in the kernel's life, where that is a constant."""
    totals: dict[Loop, int | None] = {}
    for loop, outer, _ in found:  # outer ones come first
        times = 1 if outer is None else totals[outer]
        constant = loop.low == loop.high and loop.high < inf
        totals[loop] = int(loop.high) * times if constant and times is not None else None
    return totals


def _counted(event: Event) -> tuple[Hashable, Index | None] | None:
    """The barrier that an event waits for or tells, and the item; None where it does neither."""
    act = event.act
    if act is None or type(act) not in (Wait, Arrive, Complete, Meet):
        return None
    assert isinstance(act, Wait | Arrive | Complete | Meet)
    return (act.barrier, act.index) if act.barrier is not None else None


# Program order -------------------------------------------------------------------------------------------------------

Pending = list[Edge]


def _link(pending: Pending, node: Node) -> None:
    for before, kind, clock in pending:
        before.next.append((node, kind, clock))


_IN_ONE_WARP: dict[Who, Who] = {Threads.LANE: Threads.ONE, Threads.WARP: Threads.ALL}


def _block(
    graph: Graph,
    role: Role,
    body: list[Item],
    path: tuple[Clock, ...],
    loops: tuple[Loop, ...],
    pending: Pending,
    turns: Turns | None = None,
) -> Pending:
    """Adds a body's nodes; gives the edges that lead out of it."""
    for item in body:
        if isinstance(item, Event):
            threads = item.threads
            if role.warps == 1:
                threads = _IN_ONE_WARP.get(threads, threads)
            node = Node(role, item, path, threads, loops, turns)
            graph.nodes.append(node)
            graph.node_of[item] = node
            _link(pending, node)
            pending = [(node, PLAIN, None)]
            continue
        if isinstance(item, Choice):
            pending = _choice(graph, role, item, path, loops, pending)
            continue
        if isinstance(item, Sometimes):
            passed = list(pending)
            pending = _block(graph, role, item.body, path, loops, pending, item.turns)
            after = Node(role, None, path)
            graph.nodes.append(after)
            _link([*passed, *(p for p in pending if p not in passed)], after)
            pending = [(after, PLAIN, None)]
            continue
        if isinstance(item, Beside):
            ends = [
                _block(graph, role, part, path, loops, list(pending))
                for part in (item.one, item.other)
            ]
            after = Node(role, None, path)
            graph.nodes.append(after)
            for end in ends:
                _link(end, after)
            pending = [(after, PLAIN, None)]
            continue
        clock = graph.clock_of[item]
        head = Node(role, None, (*path, clock))
        after = Node(role, None, path)
        graph.nodes += (head, after)
        _link(pending, head)
        [(last, _, _)] = _block(
            graph, role, item.body, (*path, clock), (*loops, item), [(head, PLAIN, None)]
        )
        if item.high > 1 or loops:
            last.next.append((head, NEXT, clock))
        _link([*pending, (last, LEAVE, clock)], after)
        pending = [(after, PLAIN, None)]
    return pending


def _choice(
    graph: Graph,
    role: Role,
    choice: Choice,
    path: tuple[Clock, ...],
    loops: tuple[Loop, ...],
    pending: Pending,
) -> Pending:
    """What every branch gives holds after them."""
    after = Node(role, None, path)
    graph.nodes.append(after)
    for branch in choice.branches:
        clock = graph.clock_of[branch]
        head = Node(role, None, (*path, clock))
        graph.nodes.append(head)
        _link(pending, head)
        [(last, _, _)] = _block(
            graph, role, branch.body, (*path, clock), (*loops, branch), [(head, PLAIN, None)]
        )
        last.next.append((after, CHOICE, clock))
        if loops:
            last.next.append((head, NEXT, clock))
        graph.branches.setdefault(after, []).append(last)
        graph.after_choice[branch] = after
    return [(after, PLAIN, None)]


def follow(position: Position, kind: str, clock: Clock | None) -> Position | None:
    """A position carried over an edge of program order."""
    if kind == PLAIN:
        return position
    assert clock is not None
    return next_iteration(position, clock) if kind == NEXT else leave(position, clock)


# Barriers ------------------------------------------------------------------------------------------------------------


def _sites(graph: Graph, node: Node, passed: set[Loop]) -> None:
    """What a node is to the rings; `passed`: the loops that stand before it, or round it."""
    event = node.event
    item = _counted(event) if event is not None else None
    if event is None or item is None:
        return
    key, index = item
    ring = graph.rings.get(key)
    if index is None:
        if ring is not None:
            ring.unknown.append(node)
        return
    clock = graph.kernel if index.loop is None else graph.clock_of[index.loop]
    after = clock not in node.path
    ahead = after and index.loop not in passed
    site = Site(node, clock, index.rate, index.offset, after, ahead)
    graph.sites_of.setdefault(node, []).append((key, site))
    if isinstance(event.act, Meet):
        graph.meetings.setdefault(key, []).append(site)
    elif ring is not None:
        if isinstance(event.act, Wait):
            ring.waits.append(site)
            graph.waiting.append(node)
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


def covers_all(sites: list[Site]) -> list[list[Site]] | None:
    """Arrivals under conditions that reach each item once, by the case that an item may be; None where they may not.

    Either in each iteration but an outer iteration's first the one before and, after the loop, if it had any, the last;
    or one in each branch of a choice in the loop's body.
    """
    late = [s for s in sites if s.after]
    inside = [s for s in sites if not s.after]
    clocks = {s.clock for s in sites}
    if len(clocks) != 1 or len({s.rate for s in sites}) != 1:
        return None
    if not late:
        branches: dict[Loop, list[Site]] = {}
        for site in inside:
            if len(site.node.loops) < 2 or site.node.path[-2] is not site.clock:
                return None
            branches.setdefault(site.node.loops[-1], []).append(site)
        whole = inside[0].node.loops[-2].body
        alike = len({s.offset for s in sites}) == 1
        if alike and any(
            isinstance(item, Choice) and set(item.branches) == set(branches) for item in whole
        ):
            return list(branches.values())
        return None
    if len(late) != 1 or len(inside) != 1:
        return None
    first, last = inside[0], late[0]
    loops = first.node.loops
    follows = (
        (first.rate, first.offset, last.rate, last.offset) == (1, -1, 1, -1)
        and len(loops) >= 2
        and first.guard == ("not-first", loops[-2])
        and first.node.path[-2] is first.clock
        and (last.clock.low >= 1 or last.guard == ("nonempty", loops[-2]))
    )
    return [[first], [last]] if follows else None
