"""What follows from knowing something of an access at a node, whatever from when on: kept for all accesses alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tkc.analysis.happens_before import automaton
from tkc.analysis.happens_before.automaton import PENDING, Part, Source, State
from tkc.analysis.happens_before.clocks import Clock
from tkc.analysis.happens_before.crossings import awaiting, learned, released
from tkc.analysis.happens_before.events import Arrive, Complete, Meet, Threads, Turns, Wait
from tkc.analysis.happens_before.graph import Graph, Node, Site
from tkc.analysis.happens_before.matters import kinds, matters
from tkc.analysis.happens_before.ways import Ways
from tkc.ir.isa.memory import Space

Heard = tuple[Site, int, Turns | None, State, str]
"""A wait that hears of an item: how many turns later, in which of them, and what it knows then, by which rule."""


@dataclass(eq=False, slots=True)
class Told:
    """What an arrival or a copy hands on, and at which items; `cases`: with others, in each case that an item may be.

    `waits`: who hears of it, by the clock of the item.
    """

    act: Arrive | Complete
    site: Site
    state: State
    rule: str
    cases: list[list[Site]] | None = None
    waits: dict[Clock, list[Heard]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Follows:
    """What follows from knowing something at a node, whatever from when on."""

    ways: list[tuple[State, str, Ways]]
    told: list[Told]
    met: tuple[Meet, list[tuple[State, str]]] | None = None


@cache
def known_to_all(state: State) -> State:
    """The state that says more: all parts, known to all threads."""
    return State(state.name, state.n, state.fence, Part.FULL, Threads.ALL)


@dataclass(eq=False, slots=True)
class Alike:
    """What is the same for accesses that become known by the same steps, of which `source` is one.

    `moment`, `any_site`, `hasty` as in `paths.Reach`; `brief`: nobody asks for chains, whose steps end where a label
    stands.
    """

    graph: Graph
    source: Source
    moment: bool
    any_site: bool
    hasty: bool
    brief: bool
    steps: dict[tuple[Node, State], Follows] = field(default_factory=dict)
    ways: dict[tuple[State, bool], Ways] = field(default_factory=dict)
    told: dict[tuple[Node, State], list[Told]] = field(default_factory=dict)

    def step(self, node: Node, state: State) -> Follows:
        """What a label of a node and a state does, whatever its position."""
        found = self.steps.get((node, state))
        if found is None:
            found = self.steps[node, state] = self._step(node, state)
        return found

    def tells(self, node: Node, state: State) -> list[Told]:
        """What a node tells others of a state that it adds nothing to."""
        found = self.told.get((node, state))
        if found is None:
            act = node.event.act if node.event is not None else None
            found = self.told[node, state] = []
            if isinstance(act, Arrive):
                found += self._arrive(node, state, act)
            elif isinstance(act, Complete):
                found += self._next_copy(node, state, act)
        return found

    def waits(self, told: Told, node: Node, clock: Clock) -> list[Heard]:
        """The waits for items counted by a clock that a node tells."""
        found = told.waits.get(clock)
        if found is None:
            found = told.waits[clock] = list(self._told(told, node, clock))
        return found

    def way(self, state: State, fenced: bool = False) -> Ways:
        """Where program order leads what is known so."""
        ways = self.ways.get((state, fenced))
        if ways is None:
            if self.brief:
                met = self.hasty and "A20" in self.source.assumed
                what = matters(self.source, state, self.moment, met, fenced, self.graph.closed)
            else:
                what = kinds(self.source, state, self.moment)
            found = self.graph.ways
            ways = self.ways[state, fenced] = found.get(what) or found.setdefault(what, Ways(what))
        return ways

    def _step(self, node: Node, state: State) -> Follows:
        """What a label of a node and a state does, whatever its position."""
        step = Follows([], [])
        states = [(state, "po")]
        event = node.event
        if event is not None:
            act = event.act
            if self.moment and state.name not in PENDING and event.products:
                if node.role.warps == 4 and "A12" in self.graph.assumed:
                    states += automaton.issued(state, event, node.threads, self.source)
            elif act is None:
                pass
            elif isinstance(act, Meet):
                states += self._meet(node, state, act, step)
            elif isinstance(act, Arrive):
                step.told += self._arrive(node, state, act)
            elif isinstance(act, Complete):
                step.told += self._next_copy(node, state, act)
            elif not isinstance(act, Wait):
                added = list(automaton.step(state, event, node.threads, self.source, node.role.cta))
                counted = added and added[0][1] == "group" and added[0][0].who == state.who
                states = added if counted else states + added
        fenced = False
        if self.brief and len(states) > 1:
            states, fenced = self._shortened(states)
        step.ways = [(after, rule, self.way(after, fenced)) for after, rule in states]
        return step

    def _shortened(self, states: list[tuple[State, str]]) -> tuple[list[tuple[State, str]], bool]:
        """Without what the rest says, too; and whether no further proxy fence adds to that."""
        state, more = states[0][0], [after for after, _ in states[1:]]
        fences = not self.moment and (self.graph.one_way or "A11" not in self.source.assumed)
        if self.source.access.space is Space.TENSOR or fences:
            return states, False
        full = known_to_all(state)
        if state != full and full in more:
            return states[1:], False
        joined = state == full and state.name == "gen" and not state.fence
        return states, joined and any(s.name == "async" and s == known_to_all(s) for s in more)

    def _next_copy(self, node: Node, state: State, act: Complete) -> Iterator[Told]:
        """The bytes of a later copy also tell what its thread knew: in fact (`moment`), or by A5."""
        who = automaton.both(state.who, node.threads)
        if who is None:
            return
        state = automaton.of(state, who)
        known = State("gen" if self.moment else "raw", 0, 0, Part.FULL, Threads.ALL)
        told = (
            state.name not in PENDING and automaton.whole(state, self.source.threads)
            if self.moment
            else automaton.known_complete(state, self.source)
        )
        for _, site in self.graph.sites_of.get(node, ()) if told else ():
            if site.every or site.sometimes or self.any_site:
                yield Told(act, site, known, "bytes-known")
                continue
            cases = self.graph.cases(act.barrier, node.role, site.offset, copies=True)
            if cases is not None:  # in whichever branch an item's bytes came
                yield Told(act, site, known, "bytes-known", cases)

    def _arrive(self, node: Node, state: State, act: Arrive) -> Iterator[Told]:
        who = automaton.both(state.who, node.threads)
        if who is None:
            return
        state = automaton.of(state, who)
        if act.barrier not in self.graph.rings:
            return
        for _, site in self.graph.sites_of.get(node, ()):
            if site.every or site.sometimes or self.any_site:
                for after, rule in released(self.source, self.moment, state, act):
                    yield Told(act, site, after, rule)
                continue
            cases = self.graph.cases(act.barrier, node.role, site.offset)
            if cases is not None:
                yield Told(act, site, state, "", cases)

    def _told(self, told: Told, node: Node, clock: Clock) -> Iterator[Heard]:
        site, act = told.site, told.act
        offset = 0 if site.after else site.offset
        for wait, later, given in awaiting(self.graph, act.barrier, node, clock, site.rate, offset):
            made = learned(
                self.graph, self.source, self.moment, (told.state, told.rule), act, node, wait.node
            )
            if made is not None:
                yield wait, later, given, automaton.of(made[0], wait.node.threads), made[1]

    def _meet(self, node: Node, state: State, act: Meet, step: Follows) -> list[tuple[State, str]]:
        """What the threads that meet know afterwards; those of other roles are told."""
        who = automaton.both(state.who, node.threads)
        if who is None or act.does == "wait":
            return []
        state = automaton.of(state, who)
        if act.among == "warp":
            only = node.role.warps == 1
            return list(automaton.meet_warp(state, self.source, node.threads, only))
        met = (
            [] if act.relaxed and not self.moment else list(automaton.meet_role(state, self.source))
        )
        if act.barrier is not None:
            step.met = act, met
        here = node.threads  # of a numbered barrier's role some warps may come
        return [(automaton.of(s, here), rule) for s, rule in met] if act.does == "sync" else []
