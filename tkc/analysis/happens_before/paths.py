"""From one access to every event that comes after it: shortest paths in the product of the event graph with what is
known of the access.

A label (node, state, position) says that every instance of the node from the position on comes after the access, which
is then known as the state says. Positions are partial: a node keeps those that none other is better than.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xdsl.ir import Operation

from tkc.analysis.happens_before import automaton
from tkc.analysis.happens_before.automaton import PENDING, Part, Source, State
from tkc.analysis.happens_before.clocks import Clock, Position, leave, outward, shift
from tkc.analysis.happens_before.crossings import awaiting, learned, released, rounded
from tkc.analysis.happens_before.events import (
    Arrive,
    Complete,
    Event,
    Meet,
    Role,
    Threads,
    Turns,
    Wait,
    first_operand,
)
from tkc.analysis.happens_before.exclusion import exclusive
from tkc.analysis.happens_before.follows import Alike, Follows, Told
from tkc.analysis.happens_before.graph import (
    LEAVE,
    Graph,
    Node,
    Site,
    follow,
    items_of,
)
from tkc.analysis.happens_before.labels import Group, Label, as_early, worst
from tkc.analysis.happens_before.ways import Steps, Ways, matters
from tkc.ir.isa.memory import Done, Space


@cache
def _known_to_all(state: State) -> State:
    """The state that says more: all parts, known to all threads."""
    return State(state.name, state.n, state.fence, Part.FULL, Threads.ALL)


Key = tuple[State, tuple[Clock, ...]]
FAR = 100
"""Between roles of which neither tells the other."""
MOST_LABELS = 100_000
"""Labels that are followed for one kernel: a second or two. The work grows with the square of a kernel's items, so that
without a bound a hundred loops in a row would take hours; the largest of the examples takes half of this."""

Given = dict[Node, list[tuple[Position, Label]]]
"""What the branches of a choice say of one state, by their last nodes."""


class Unfollowed(Exception):
    """A kernel is too large for its order to be followed: nothing is known of it."""


@dataclass(eq=False, slots=True)
class Reach:
    """All labels of one access.

    Accesses that go one way share them: `entry` is the first node behind them all that acts, or the access's own one.
    `without`: events that are taken as absent. `any_site`: an item may come by any of several arrivals. `moment`: the
    source is the event itself, not an access. `whoever`: that of any of its threads. Positions later than `most` counts
    are not looked at. `turns`: those of its innermost loop in which the access is.
    """

    graph: Graph
    source: Source
    origin: Node
    without: frozenset[Event] = frozenset()
    any_site: bool = False
    moment: bool = False
    most: int = 0
    whoever: bool = False
    entry: Node | None = None
    turns: Turns | None = None
    hasty: bool = False
    labels: dict[Node, dict[Key, list[Label]]] = field(default_factory=dict)
    choices: dict[tuple[Node, tuple[Clock, ...]], dict[State, Given]] = field(default_factory=dict)
    queue: dict[tuple[Role, int], deque[Label]] = field(default_factory=dict)
    """Labels still to be followed, by their role and by how many roles they have gone through."""
    groups: dict[Group, dict[Site, list[tuple[Position, Label]]]] = field(default_factory=dict)
    alike: Alike = field(init=False)
    """What is the same for all accesses that become known by the same steps."""
    sent: dict[Ways, dict[Node, list[tuple[Label, State, str]]]] = field(default_factory=dict)
    """What has gone on along program order from a node."""
    asked: dict[Node, list[Label]] = field(default_factory=dict)
    """What is known at the nodes that are asked about."""
    measured: dict[Hashable, Any] = field(default_factory=dict)
    """How far apart accesses are by the labels looked at so far (`distance`)."""
    rests: dict[tuple[Label, Node], frozenset[Operation] | None] = field(default_factory=dict)
    """What the chains of labels rest on, from one of the accesses that share them (`rests`)."""
    begun: tuple[Label, ...] = ()
    """What is known right behind the access."""

    def __post_init__(self) -> None:
        origin, access, source = self.origin, self.source.access, self.source
        key = (
            access.space, access.proxy, access.done, access.write, first_operand(access), source.threads, source.cta,
            source.home, source.assumed, self.graph.assumed, self.moment, self.any_site, self.hasty,
            (access.buffer, access.slot) if access.space is Space.MAP else None,
        )  # fmt: skip
        self.alike = self.graph.alike.setdefault(key, Alike())
        position: Position = ((origin.path[-1], 0),)
        first = Label(origin, State("", 0, 0, 0, origin.threads), position, "start", None)
        for state in automaton.start(self.source):
            if self.any_site or self.whoever:
                state = state._replace(who=origin.threads)
            label = Label(origin, state, position, "start", None)
            self.begun += (label,)
            if self.moment:  # after the event itself
                self._pass(label, [(state, "po", self._ways(state))])
            elif self.entry in (None, origin):
                self._visit(label)
            else:
                self._add(self.entry, state, position, "po", label)
        copies = access.done is Done.MBARRIER_TX
        if copies and origin.event is not None and isinstance(origin.event.act, Complete):
            self._copy(first)

    def advance(self, toward: Role | None = None, count: int = 6) -> bool:
        """Follows some labels further, first those with the fewest roles between them and one role; says whether there
        were any. What is known only grows."""
        queue, far = self.queue, self.graph.toward(toward) if toward is not None else {}
        went, least = bool(queue), 0
        while queue and count > 0:
            place = None
            for at in queue:
                ahead = at[1] + far.get(at[0], FAR)
                if place is None or ahead < least or (ahead == least and at[1] > place[1]):
                    place, least = at, ahead
            assert place is not None
            labels = queue[place]
            while labels and count:
                label = labels.popleft()
                if not label.dead:
                    self._visit(label)
                    count -= 1
            if not labels:
                del queue[place]
        return went

    def run(self) -> Reach:
        """Follows all labels to their ends."""
        while self.advance(count=1000):
            pass
        return self

    # Labels ----------------------------------------------------------------------------------------------------------

    def _add(self, node: Node, state: State, position: Position, rule: str, before: Label) -> None:
        limit, most = self.graph.limit, self.most
        if node.turns is not None:
            position = rounded(self.graph, self.turns, position, node.turns)
        if len(position) == 1:
            clock, offset = position[0]
            clocks: tuple[Clock, ...] = (clock,)
            if offset > most or offset < -limit:
                return
        else:
            clocks = tuple([c for c, _ in position])
            if any(o > most or o < -limit for _, o in position):
                return
        here = self.labels.get(node)
        if here is None:
            here = self.labels[node] = {}
        if state.part != Part.FULL or state.who is not Threads.ALL:
            best = here.get((_known_to_all(state), clocks))
            if best is not None and any([as_early(o.position, position) for o in best]):
                return
        key = (state, clocks)
        known = here.get(key)
        if known is None:
            crossed = before.crossed + (node.role is not before.node.role)
            label = Label(node, state, position, rule, before, False, crossed)
            here[key] = [label]
        else:
            for other in known:
                if as_early(other.position, position):
                    return
            for other in known:
                other.dead = as_early(position, other.position)
            crossed = before.crossed + (node.role is not before.node.role)
            label = Label(node, state, position, rule, before, False, crossed)
            known[:] = [*(o for o in known if not o.dead), label]
        queue = self.queue.get((node.role, crossed))
        if queue is None:
            self.queue[node.role, crossed] = deque([label])
        else:
            queue.append(label)
        asked = self.asked.get(node)
        if asked is not None:
            asked.append(label)

    def at(self, node: Node) -> list[Label]:
        """What is known at a node so far, also where it does nothing; of those on the way to `entry`, see `begun`.

        The list grows as labels are followed.
        """
        found = self.asked.get(node)
        if found is None:
            found = self.asked[node] = [
                x for kept in self.labels.get(node, {}).values() for x in kept
            ]
            for ways, sent in self.sent.items():
                for start, steps in ways.past.get(node, ()):
                    for before, state, rule in sent.get(start, ()):
                        self._passing(found, node, steps, before, state, rule)
        return found

    def _passing(
        self, found: list[Label], node: Node, steps: Steps, before: Label, state: State, rule: str
    ) -> None:
        """A label of a node that labels only pass."""
        position, last = self._along(before, steps)
        if position is None:
            return
        if node.turns is not None:
            position = rounded(self.graph, self.turns, position, node.turns)
        limit, most = self.graph.limit, self.most
        if all([-limit <= offset <= most for _, offset in position]):
            found.append(Label(node, state, position, rule if rule != "po" else last, before))

    def _visit(self, label: Label) -> None:
        """What follows from a label: along program order, and at those who wait for the node's arrival."""
        graph, node, state = self.graph, label.node, label.state
        graph.visited += 1
        if graph.bounded and graph.visited > MOST_LABELS:
            raise Unfollowed
        if self.without and node.event in self.without:
            self._pass(label, [(state, "po", self._ways(state))])
            return
        step = self.alike.steps.get((node, state))
        if step is None:
            step = self.alike.steps[node, state] = self._step(node, state)
        for told in step.told:
            if told.cases is None:
                self._to_waits(told, label)
            else:
                self._group(label, told)
        if step.met is not None:
            self._tell(label, step.met)
        self._pass(label, step.ways)

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
        if self.hasty and len(states) > 1:
            states, fenced = self._shortened(states)
        step.ways = [(after, rule, self._ways(after, fenced)) for after, rule in states]
        return step

    def _shortened(self, states: list[tuple[State, str]]) -> tuple[list[tuple[State, str]], bool]:
        """Without what the rest says, too; and whether no further proxy fence adds to that."""
        state, more = states[0][0], [after for after, _ in states[1:]]
        if (
            self.source.access.space is Space.TENSOR
            or self.graph.one_way
            or "A11" not in self.source.assumed
        ):
            return states, False
        full = _known_to_all(state)
        if state != full and full in more:
            return states[1:], False
        joined = state == full and state.name == "gen" and not state.fence
        return states, joined and any(s.name == "async" and s == _known_to_all(s) for s in more)

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
        if told:
            for _, site in self.graph.sites_of.get(node, ()):
                yield Told(act, site, known, "bytes-known")

    def _ways(self, state: State, fenced: bool = False) -> Ways:
        """Where program order leads what is known so."""
        known = (state.name, state.part == Part.FULL and state.who is Threads.ALL, fenced)
        ways = self.alike.ways.get(known)
        if ways is None:
            access, met = self.source.access, self.hasty and "A20" in self.source.assumed
            what = matters(access.space, access.proxy, access.done, known, self.moment, met)
            ways = self.alike.ways[known] = self.graph.ways.setdefault(what, Ways(what))
        return ways

    def _pass(self, label: Label, states: list[tuple[State, str, Ways]]) -> None:
        """Along program order."""
        node, asking = label.node, self.asked
        for state, rule, ways in states:
            sent = self.sent.get(ways)
            if sent is None:
                sent = self.sent[ways] = {}
            sent.setdefault(node, []).append((label, state, rule))
            for way in ways.found.get(node) or ways.on(node):
                if asking:
                    for past, before in way.past:
                        asked = asking.get(past)
                        if asked is not None:
                            self._passing(asked, past, before, label, state, rule)
                if not way.steps:
                    if way.choice:
                        self._chosen(way.to, label.position, label, state, rule)
                    else:
                        self._add(way.to, state, label.position, rule, label)
                    continue
                position, last = self._along(label, way.steps)
                if position is None:
                    continue
                if way.choice:
                    self._chosen(way.to, position, label, state, rule)
                else:
                    self._add(way.to, state, position, rule if rule != "po" else last, label)

    def _along(self, label: Label, steps: Steps) -> tuple[Position | None, str]:
        """A label's position carried over steps, and the last of them."""
        position: Position | None = label.position
        last = "po"
        for step, clock in steps:
            last = step
            position = follow(position, step, clock) or self._at_home(label, position, step, clock)
            if position is None:
                break
        return position, last

    def _at_home(
        self, label: Label, position: Position, kind: str, clock: Clock | None
    ) -> Position | None:
        """Out of a loop of the access's own role, whatever other roles have round theirs."""
        path = self.origin.path
        if kind != LEAVE or label.node.role is not self.origin.role or position[0][0] is not clock:
            return None
        if len(position) > 1 or position[0][1] > 0 or clock not in path:
            return None
        return ((path[path.index(clock) - 1], 0),)

    def _chosen(
        self, node: Node, position: Position, label: Label, state: State, rule: str
    ) -> None:
        """After a choice holds what each branch gives, and what the access's own branch gives."""
        branch = label.node.path[-1]
        if rule != "po":  # what the branch's last event does is a step of its own
            label = Label(label.node, state, label.position, rule, label, False, label.crossed)
        if position[-1][0] is branch:
            outside = leave(position, branch)
            if outside is not None:
                self._add(node, state, outside, "leave", label)
            if outside is not None or len(position) == 1 or position[-1][1] > 0:
                return
            position = position[
                :-1
            ]  # all of the branch's turns from that turn of the loop round it on
        store = self.choices.setdefault((node, tuple([c for c, _ in position])), {})
        store.setdefault(state, {}).setdefault(label.node, []).append((position, label))
        # what a branch says includes all that is less: `_add` may have kept no label of that
        for less in [s for s in store if automaton.implies(state, s)]:
            self._joined(node, less, store, label)

    def _joined(self, node: Node, state: State, store: dict[State, Given], last: Label) -> None:
        """What all branches of a choice say; told by a label of that very state, whose steps all turns have."""
        enough = [given for more, given in store.items() if automaton.implies(more, state)]
        before = last if last.state == state else next(reversed(store[state].values()))[-1][1]
        ends = self.graph.branches[node]
        for latest in worst([[p for given in enough for p, _ in given.get(e, ())] for e in ends]):
            self._add(node, state, latest, "choice", before)

    # Crossings -------------------------------------------------------------------------------------------------------

    def _copy(self, first: Label) -> None:
        """The bytes of the access itself complete on a barrier."""
        event = self.origin.event
        assert event is not None
        assert isinstance(event.act, Complete)
        for _, site in self.graph.sites_of.get(self.origin, ()):
            for name, rule in automaton.completed(self.source, "bytes"):
                state = State(name, 0, 0, Part.FULL, Threads.ALL)
                self._to_waits(Told(event.act, site, state, rule), first)

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
            cases = self.graph.cases(act.barrier, node.role)
            if cases is not None:
                yield Told(act, site, state, "", cases)

    def _group(self, label: Label, told: Told) -> None:
        """Several arrivals share the items of a barrier: a wait knows what each of them tells it."""
        act, site, state, cases = told.act, told.site, told.state, told.cases
        assert isinstance(act, Arrive)
        assert cases is not None
        items = items_of(label.position, site, self._counted(site.clock))
        if items is None:
            return
        if items == ((site.clock, 1),) and exclusive(self.origin, site.node, site.clock):
            items = ((site.clock, 0),)  # the access's own item is in its own branch
        item = shift(items, 0 if site.after else site.offset)
        waits: dict[tuple[State, str], set[Node]] = {}
        for after, rule in released(self.source, self.moment, state, act):
            for wait in self.graph.rings[act.barrier].waits:
                made = learned(
                    self.graph, self.source, self.moment, (after, rule), act, site.node, wait.node
                )
                if made is not None:
                    waits.setdefault(made, set()).add(wait.node)
        for (known, rule), nodes in waits.items():
            store = self.groups.setdefault(Group(site.node.role, act.barrier, known[:3]), {})
            store.setdefault(site, []).append((item, label))
            for position in worst(
                [[i for s in case for i, _ in store.get(s, [])] for case in cases]
            ):
                self._handed_to(nodes, act.barrier, site.rate, position, label, known, rule)

    def _handed_to(
        self,
        nodes: Collection[Node],
        barrier: object,
        rate: int,
        items: Position,
        label: Label,
        known: State,
        rule: str,
    ) -> None:
        """Some waits know something from an item on."""
        for wait, later, given in awaiting(self.graph, barrier, label.node, items[-1][0], rate, 0):
            if wait.node in nodes and wait.node.event not in self.without:
                self._add_at(wait, items, later, given, known, rule, label)

    def _counted(self, clock: Clock) -> bool:
        return clock in self.origin.path

    def _to_waits(self, told: Told, label: Label) -> None:
        """What an arrival or a copy hands on to those who wait for its items."""
        site = told.site
        items = items_of(label.position, site, site.clock in self.origin.path)
        if items is None:
            return
        clock = items[-1][0]
        waits = told.waits.get(clock)
        if waits is None:
            waits = told.waits[clock] = list(self._told(told, label.node, clock))
        for wait, later, given, state, rule in waits:
            if not (self.without and wait.node.event in self.without):
                self._add_at(wait, items, later, given, state, rule, label)

    def _told(
        self, told: Told, node: Node, clock: Clock
    ) -> Iterator[tuple[Site, int, Turns | None, State, str]]:
        """The waits for items counted by a clock that a node tells: how many turns later, and what they know."""
        site, act = told.site, told.act
        offset = 0 if site.after else site.offset
        for wait, later, given in awaiting(self.graph, act.barrier, node, clock, site.rate, offset):
            made = learned(
                self.graph, self.source, self.moment, (told.state, told.rule), act, node, wait.node
            )
            if made is not None:
                yield wait, later, given, automaton.of(made[0], wait.node.threads), made[1]

    def _add_at(
        self,
        wait: Site,
        items: Position,
        later: int,
        given: Turns | None,
        known: State,
        rule: str,
        label: Label,
    ) -> None:
        """What a wait knows from an item on."""
        position: Position | None = shift(items, later) if later else items
        if wait.after:
            position = outward(position, wait.node.path, int(wait.ahead))
        if position is None:
            return
        if given is not None:
            position = rounded(self.graph, self.turns, position, given)
        self._add(wait.node, automaton.of(known, wait.node.threads), position, rule, label)

    # Meetings --------------------------------------------------------------------------------------------------------

    def _meet(self, node: Node, state: State, act: Meet, step: Follows) -> list[tuple[State, str]]:
        """What the threads that meet know afterwards; those of other roles are told."""
        who = automaton.both(state.who, node.threads)
        if who is None or act.does == "wait":
            return []
        state = automaton.of(state, who)
        if act.among == "warp":
            return list(automaton.meet_warp(state, self.source, node.role.warps == 1))
        met = (
            [] if act.relaxed and not self.moment else list(automaton.meet_role(state, self.source))
        )
        if act.barrier is not None:
            step.met = act, met
        return met if act.does == "sync" else []

    def _tell(self, label: Label, meeting: tuple[Meet, list[tuple[State, str]]]) -> None:
        """Those of other roles that come to a meeting."""
        act, met = meeting
        for _, site in self.graph.sites_of.get(label.node, ()):
            self._tell_at(label, act, site, met)

    def _tell_at(self, label: Label, act: Meet, site: Site, met: list[tuple[State, str]]) -> None:
        items = items_of(label.position, site, self._counted(site.clock))
        if items is None:
            return
        for other in self.graph.meetings.get(act.barrier, ()):
            event = other.node.event
            assert event is not None
            assert isinstance(event.act, Meet)
            if event.act.does == "arrive" or (
                other.node.role is site.node.role and event.act.does == act.does
            ):
                continue
            if other.clock is not items[-1][0] or other.rate != site.rate or event in self.without:
                continue
            apart = site.offset - other.offset
            if apart % site.rate or (site.clock is self.graph.kernel and apart):
                continue
            position = shift(items, apart // site.rate)
            for after, rule in met:
                self._handed(other.node, after, position, rule, label)

    def _handed(
        self, node: Node, state: State, position: Position, rule: str, label: Label
    ) -> None:
        """Another role leaves the meeting knowing what this one knew."""
        known = Label(node, state, position, rule, label, False, label.crossed + 1)
        self._pass(known, [(state, rule, self._ways(state))])
