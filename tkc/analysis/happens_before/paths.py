"""From one access to every event that comes after it: shortest paths in the product of the event graph with what is
known of the access.

A label (node, state, position) says that every instance of the node from the position on comes after the access, which
is then known as the state says. Positions are partial: a node keeps those that none other is better than.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from tkc.analysis.happens_before import automaton
from tkc.analysis.happens_before.automaton import PENDING, Part, Source, State
from tkc.analysis.happens_before.clocks import Clock, Position, bound, refine, shift
from tkc.analysis.happens_before.events import Access, Arrive, Complete, Event, Meet, Threads, Wait
from tkc.analysis.happens_before.graph import Graph, Node, Site, follow, items_of


@dataclass(eq=False, slots=True)
class Label:
    """One thing known, how it came about, and the label that it came from."""

    node: Node
    state: State
    position: Position
    rule: str
    before: Label | None

    def chain(self) -> list[tuple[Node, str]]:
        """The events on the way, first to last, each with the rule that leads to it; plain steps are joined."""
        found: list[tuple[Node, str]] = []
        label: Label | None = self
        while label is not None:
            found.append((label.node, label.rule))
            label = label.before
        found.reverse()
        return found


Key = tuple[State, tuple[Clock, ...]]


@dataclass(eq=False, slots=True)
class Reach:
    """All labels of one access. `without`: an event that is taken as absent."""

    graph: Graph
    source: Source
    origin: Node
    without: Event | None = None
    any_site: bool = False
    labels: dict[Node, dict[Key, list[Label]]] = field(default_factory=dict)
    queue: deque[Label] = field(default_factory=deque)
    groups: dict[tuple[int, str, str], dict[Site, list[tuple[State, str, Position, Label]]]] = field(default_factory=dict)

    def run(self) -> Reach:
        origin = self.origin
        position: Position = ((origin.path[-1], 0),)
        first = Label(origin, State("", 0, 0, 0, origin.threads), position, "start", None)
        for state in automaton.start(self.source):
            label = Label(origin, state, position, "start", None)
            self._act(label, self._following(label))
        if isinstance(origin.event.act if origin.event else None, Complete):
            self._copy(first)
        while self.queue:
            label = self.queue.popleft()
            if label.position and not self._kept(label):
                continue
            self._visit(label)
        return self

    # Labels ----------------------------------------------------------------------------------------------------------

    def _add(self, node: Node, state: State, position: Position | None, rule: str, before: Label) -> None:
        if position is None:
            return
        offsets = [o for _, o in position]
        if max(offsets) > self.graph.limit or min(offsets) < -self.graph.limit:
            return
        key = (state, tuple([c for c, _ in position]))
        known = self.labels.setdefault(node, {}).setdefault(key, [])
        for other in known:
            if all(o[1] <= p[1] for o, p in zip(other.position, position, strict=True)):
                return
        label = Label(node, state, position, rule, before)
        known[:] = [
            o for o in known if not all(p[1] <= q[1] for p, q in zip(position, o.position, strict=True))
        ]
        known.append(label)
        self.queue.append(label)

    def _kept(self, label: Label) -> bool:
        key = (label.state, tuple([c for c, _ in label.position]))
        return any(label is o for o in self.labels[label.node][key])

    def _visit(self, label: Label) -> None:
        following = self._following(label)
        event = label.node.event
        if event is None or event is self.without:
            self._pass(label, [(label.state, "po")])
            return
        self._act(label, following)

    def _following(self, label: Label) -> list[tuple[State, str]]:
        """What holds after the node: what was known, and what its event adds."""
        node, state = label.node, label.state
        states = [(state, "po")]
        event = node.event
        if event is None or event.act is None or event is self.without:
            return states
        if isinstance(event.act, Meet):
            states += self._meet(label, event.act)
            return states
        added = list(automaton.step(state, event, node.threads, self.source, node.role.cta))
        if added and state.name in ("bulk", "wgmma", "cp") and added[0][1] == "group" and added[0][0].who == state.who:
            return added
        return states + added

    def _pass(self, label: Label, states: Iterable[tuple[State, str]]) -> None:
        """Along program order."""
        for node, kind, clock in label.node.next:
            position = follow(label.position, kind, clock)
            if position is None:
                continue
            for state, rule in states:
                self._add(node, state, position, rule if rule != "po" else kind, label)

    def _act(self, label: Label, states: list[tuple[State, str]]) -> None:
        """Along program order, and to those who wait for the node's arrival."""
        event = label.node.event
        if event is not None and event is not self.without:
            act = event.act
            if isinstance(act, Arrive):
                self._arrive(label, act)
            elif isinstance(act, Complete) and automaton.known_complete(label.state, self.source):
                for _, site in self.graph.sites_of.get(label.node, ()):
                    self._to_waits(act.barrier, site, label, State("raw", 0, 0, Part.FULL, Threads.ALL), "bytes-known")
        self._pass(label, states)

    # Crossings -------------------------------------------------------------------------------------------------------

    def _copy(self, first: Label) -> None:
        """The bytes of the access itself complete on a barrier."""
        event = self.origin.event
        assert event is not None and isinstance(event.act, Complete)
        for _, site in self.graph.sites_of.get(self.origin, ()):
            for name, rule in automaton.completed(self.source, "bytes"):
                state = State(name, 0, 0, Part.FULL, Threads.ALL)
                self._to_waits(event.act.barrier, site, first, state, rule)

    def _arrive(self, label: Label, act: Arrive) -> None:
        node = label.node
        who = automaton.both(label.state.who, node.threads)
        if who is None:
            return
        state = label.state._replace(who=who)
        ring = self.graph.rings.get(act.barrier)
        if ring is None:
            return
        for _, site in self.graph.sites_of.get(node, ()):
            peers = ring.arrivals.get(node.role, [])
            some = [p for p in peers if not p.every]
            if site.every or len(some) <= 1 or self.any_site:
                if not site.every and not self.any_site:
                    continue
                for after, rule in self._released(state, act, None):
                    self._to_waits(act.barrier, site, label, after, rule)
            elif covers_all(some):
                self._group(label, act, site, some, state)

    def _released(self, state: State, act: Arrive, wait: Site | None) -> Iterator[tuple[State, str]]:
        """The states that an arrival hands on; where it meets a wait is decided by `_to_waits`."""
        if act.commit:
            if state.name in PENDING or automaton.known_complete(state, self.source):
                for name, rule in automaton.tracked(state, self.source):
                    if automaton.whole(state, self.source.threads):
                        yield State(name, 0, 0, Part.FULL, Threads.ALL), rule
            return
        if state.name not in PENDING and automaton.whole(state, self.source.threads):
            yield state, "release"

    def _group(self, label: Label, act: Arrive, site: Site, some: list[Site], state: State) -> None:
        """Several arrivals share the items of a barrier: a wait knows what each of them would have told it."""
        items = items_of(label.position, site, self._counted(site.clock))
        if items is None:
            return
        for after, rule in self._released(state, act, None):
            after = after._replace(part=Part.FULL, who=Threads.ALL) if after.name not in PENDING else after
            store = self.groups.setdefault((id(site.node.role), str(act.barrier), after.name), {})
            item = shift(items, 0 if site.after else site.offset)
            store.setdefault(site, []).append((after, rule, item, label))
            for position in _worst([[i for _, _, i, _ in store.get(s, [])] for s in some]):
                self._to_items(act.barrier, site.rate, position, label, after, rule, act)

    def _counted(self, clock: Clock) -> bool:
        return clock in self.origin.path

    def _to_waits(self, barrier: object, site: Site, label: Label, state: State, rule: str) -> None:
        items = items_of(label.position, site, self._counted(site.clock))
        if items is None:
            return
        event = label.node.event
        assert event is not None
        self._to_items(barrier, site.rate, (items if site.after else items), label, state, rule, event.act, 0 if site.after else site.offset)

    def _to_items(self, barrier: object, rate: int, items: Position, label: Label, state: State, rule: str, act: object, offset: int = 0) -> None:
        ring = self.graph.rings.get(barrier)  # pyright: ignore
        if ring is None:
            return
        for wait in ring.waits:
            if wait.after or wait.node.event is self.without or items[-1][0] is not wait.clock:
                continue
            if wait.rate != rate or (offset - wait.offset) % rate:
                continue
            if wait.clock is self.graph.kernel and offset != wait.offset:
                continue
            event = wait.node.event
            assert event is not None and isinstance(event.act, Wait)
            made = self._meets(state, rule, act, event.act, label.node, wait.node)
            if made is None:
                continue
            after, why = made
            position = shift(items, (offset - wait.offset) // rate)
            self._add(wait.node, after._replace(who=wait.node.threads), position, why, label)

    def _meets(self, state: State, rule: str, act: object, wait: Wait, from_: Node, to: Node) -> tuple[State, str] | None:
        """The state of the waiting threads."""
        crossing = from_.role.cta != to.role.cta
        if rule == "release":
            assert isinstance(act, Arrive)
            return automaton.release(state, self.source, act.sem, act.scope, wait.sem, wait.scope, crossing)
        if crossing and "A2" not in self.source.assumed and wait.scope.value == "cta":
            return None
        return automaton.acquired(state, self.source, rule, wait.sem, crossing)

    # Meetings --------------------------------------------------------------------------------------------------------

    def _meet(self, label: Label, act: Meet) -> list[tuple[State, str]]:
        node = label.node
        who = automaton.both(label.state.who, node.threads)
        if who is None:
            return []
        state = label.state._replace(who=who)
        if act.among == "warp":
            return list(automaton.meet_warp(state, self.source))
        met = list(automaton.meet_role(state, self.source)) if not act.relaxed else []
        if act.barrier is None:
            return met
        for _, site in self.graph.sites_of.get(node, ()):
            items = items_of(label.position, site, self._counted(site.clock))
            if items is None:
                continue
            for other in self.graph.meetings.get(act.barrier, ()):
                if other.node.role is node.role or other.clock is not items[-1][0] or other.rate != site.rate:
                    continue
                if (site.offset - other.offset) % site.rate or (site.clock is self.graph.kernel and site.offset != other.offset):
                    continue
                position = shift(items, (site.offset - other.offset) // site.rate)
                for after, rule in met:
                    self._handed(other.node, after, position, rule, label)
        return met

    def _handed(self, node: Node, state: State, position: Position, rule: str, label: Label) -> None:
        """Another role leaves the meeting knowing what this one knew."""
        known = Label(node, state, position, rule, label)
        self._pass(known, [(state, rule)])


def covers_all(sites: list[Site]) -> bool:
    """Whether arrivals under conditions reach each item once: in each iteration but an outer iteration's first the one
    before, and after the loop, if it had any, the last."""
    late = [s for s in sites if s.after]
    inside = [s for s in sites if not s.after]
    if len(late) != 1 or len(inside) != 1 or late[0].clock is not inside[0].clock:
        return False
    first, last = inside[0], late[0]
    loops = first.node.loops
    return (
        (first.rate, first.offset, last.rate, last.offset) == (1, -1, 1, -1)
        and len(loops) >= 2
        and first.guard == ("not-first", loops[-2])
        and first.node.path[-2] is first.clock
        and (last.clock.low >= 1 or last.guard == ("nonempty", loops[-2]))
    )


def _worst(choices: list[list[Position]]) -> Iterator[Position]:
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


# Questions -----------------------------------------------------------------------------------------------------------


def distance(
    reach: Reach, node: Node, access: Access, clock: Clock, plain: bool = False
) -> tuple[float, Label | None, str]:
    """The least d such that the access of every instance of `node` from d counts of `clock` on comes after the source;
    with the label and the rule that say so. `plain`: as if there were one proxy."""

    best: tuple[float, Label | None, str] = (inf, None, "")
    event = node.event
    assert event is not None
    same = reach.source.access.part is not None and reach.source.access.part == access.part and node.role is reach.origin.role
    for kept in reach.labels.get(node, {}).values():
        for label in kept:
            state = label.state
            if not automaton.within(node.threads, state.who):
                continue
            if state.part != Part.FULL and not (same and automaton.within(reach.source.threads, state.who)):
                continue
            if plain:
                rule = "po" if state.name not in PENDING and state.fence != 2 else None
            else:
                rule = automaton.accepts(state, reach.source, access, event, node.role.cta)
            if rule is None:
                continue
            d = bound(label.position, clock, clock in reach.origin.path)
            if d < best[0]:
                best = (d, label, rule)
    return best


__all__ = ["Label", "Reach", "distance", "refine"]
