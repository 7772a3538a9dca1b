"""What an arrival hands on, which waits are for its items, and what those who wait know then."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from tkc.analysis.happens_before import automaton
from tkc.analysis.happens_before.automaton import PENDING, Part, Source, State
from tkc.analysis.happens_before.clocks import Clock, Position, refine, shift
from tkc.analysis.happens_before.events import Arrive, Complete, Threads, Turns, Wait, first_operand
from tkc.analysis.happens_before.graph import Graph, Node, Site
from tkc.ir.isa.memory import Scope, Sem, Space


def released(
    source: Source, moment: bool, state: State, act: Arrive
) -> Iterator[tuple[State, str]]:
    """The states that an arrival hands on, whoever waits for it."""
    if act.copies and not moment:
        if state.name == "cp" and automaton.whole(state, source.threads):
            for name, rule in automaton.completed(source, "copies"):
                yield State(name, 0, 0, Part.FULL, Threads.ALL), rule
        return
    if act.commit and not moment:
        if act.reads and not first_operand(source.access):
            return
        if state.name in PENDING or automaton.known_complete(state, source):
            for name, rule in automaton.tracked(state, source):
                if automaton.whole(state, source.threads):
                    yield State(name, 0, 0, Part.FULL, Threads.ALL), rule
        return
    if state.name not in PENDING and automaton.whole(state, source.threads):
        yield state, "release"


def learned(
    graph: Graph,
    source: Source,
    moment: bool,
    given: tuple[State, str],
    act: Arrive | Complete,
    from_: Node,
    to: Node,
) -> tuple[State, str] | None:
    """The state of the waiting threads, of what an arrival or a copy hands on by a rule."""
    state, rule = given
    if moment:
        return State("gen", 0, 0, Part.FULL, Threads.ALL), rule
    assert to.event is not None
    wait = to.event.act
    assert isinstance(wait, Wait)
    crossing = from_.role.cta != to.role.cta
    sem = wait.sem
    if "A15" not in source.assumed and hides(graph, act, from_, to):
        if source.access.space is Space.TENSOR:
            sem = Sem.RELAXED  # in time it comes after all the same, which tcgen05.fence asks for
        elif state.name != "half":
            return None
    if rule == "release":
        assert isinstance(act, Arrive)
        return automaton.release(state, source, act.sem, act.scope, sem, wait.scope, crossing)
    narrow = crossing and wait.scope.value == "cta"
    if narrow and "A2" not in source.assumed:
        return None
    return automaton.acquired(state, source, rule, sem, crossing, narrow)


def hides(graph: Graph, act: Arrive | Complete, from_: Node, to: Node) -> bool:
    """Whether a wait may read an arrival through another one of its phase, and not morally strongly all the way.

    8.9.2: each arrival reads the one before. Two of different CTAs are morally strong where both scopes reach (8.7).
    """
    ring = graph.rings[act.barrier]
    others = [s.node for sites in (*ring.arrivals.values(), ring.copies) for s in sites]
    chain = [from_, to]
    chain += [n for n in (*others, *ring.unknown) if not _always_before(graph, act, n, from_)]
    return len({n.role.cta for n in chain}) > 1 and any(_of_cta_scope(n) for n in chain)


def _of_cta_scope(node: Node) -> bool:
    """Whether an arrival or a wait reaches no further than its CTA: no completion does, of copies or products."""
    assert node.event is not None
    act = node.event.act
    if isinstance(act, Arrive) and act.commit:
        return False
    return isinstance(act, Arrive | Wait) and act.scope is Scope.CTA


def _always_before(graph: Graph, act: Arrive | Complete, node: Node, from_: Node) -> bool:
    """Whether one thread arrives by a node before it comes to another, at the same item."""
    if (node.role, node.path, node.loops, node.turns) != (
        from_.role, from_.path, from_.loops, from_.turns,
    ):  # fmt: skip
        return False
    one = node.threads == from_.threads == Threads.ONE
    return (
        one and node.number < from_.number and _items(graph, node, act) == _items(graph, from_, act)
    )


def _items(graph: Graph, node: Node, act: Arrive | Complete) -> list[tuple[Clock, int, int]]:
    sites = [s for key, s in graph.sites_of.get(node, ()) if key == act.barrier]
    return [(s.clock, s.rate, s.offset) for s in sites]


def awaiting(
    graph: Graph, barrier: object, node: Node, clock: Clock, rate: int, offset: int
) -> list[tuple[Site, int, Turns | None]]:
    """The waits for items of a barrier that come by a node at a clock, how many turns later, and in which turns."""
    key = (node, clock, rate, offset)  # a node's act has one barrier
    found = graph.awaiting.get(key)
    if found is None:
        found = graph.awaiting[key] = []
        ring = graph.rings.get(barrier)  # pyright: ignore
        for wait in ring.waits if ring is not None else ():
            if clock is not wait.clock or wait.rate != rate:
                continue
            # beside its loop, a wait is for an item of the last turn: at the end of that turn, it is the same turn
            later, rest = divmod(offset - wait.offset - rate * wait.after, rate)
            if rest or (clock is graph.kernel and offset != wait.offset):
                continue
            given = _given(node, wait, later)
            if given is None or given.rest:
                found.append((wait, later, given))
    return found


def _given(node: Node, wait: Site, later: int) -> Turns | None:
    """The turns of a wait whose items come by a node that arrives in some turns only; None: all."""
    turns, mine = node.turns, wait.node.turns if wait.sometimes else None
    if turns is None or node.path[-1] is not wait.clock:
        return mine
    period = lcm(turns.period, mine.period if mine is not None else 1)
    rest = {
        t % period
        for t in range(later, later + period)
        if (t - later) % turns.period in turns.rest
        and (mine is None or t % mine.period in mine.rest)
    }
    return Turns(turns.loop, period, frozenset(rest))


def rounded(graph: Graph, own: Turns | None, position: Position, turns: Turns) -> Position:
    """The first of some turns of a loop at a position, or after it wherever the access is, in its `own` turns."""
    clock = graph.clock_of[turns.loop]
    inner = refine(position, clock)
    if inner is None or inner[-1][0] is not clock:
        return position
    offset = inner[-1][1]
    starts = list(range(turns.period))
    if own is not None and len(inner) == 1 and graph.clock_of[own.loop] is clock:
        starts = [t for t in range(lcm(turns.period, own.period)) if t % own.period in own.rest]
    late = max(
        next(n for n in range(turns.period) if (t + offset + n) % turns.period in turns.rest)
        for t in starts
    )
    return shift(inner, late) if late else position
