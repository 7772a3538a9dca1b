"""From one access to every event that comes after it: shortest paths in the product of the event graph with what is
known of the access.

A label (node, state, position) says that every instance of the node from the position on comes after the access, which
is then known as the state says. Positions are partial: a node keeps those that none other is better than.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation

from tkc.analysis.happens_before import automaton
from tkc.analysis.happens_before.automaton import Part, Source, State
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
    first_operand,
)
from tkc.analysis.happens_before.exclusion import exclusive
from tkc.analysis.happens_before.follows import Alike, Told, known_to_all
from tkc.analysis.happens_before.graph import (
    LEAVE,
    Graph,
    Hearers,
    Node,
    Site,
    follow,
    items_of,
)
from tkc.analysis.happens_before.labels import Group, Label, as_early, worst
from tkc.analysis.happens_before.nodes import Segment
from tkc.analysis.happens_before.ways import Steps, Ways
from tkc.ir.isa.memory import Done, Space

Key = tuple[State, tuple[Clock, ...]]
Caps = Mapping[Clock, tuple[int, int]]
"""The latest counts of a clock that are looked at: where it is the first of a position, and where a later one."""
FAR = 100
"""Between roles of which neither tells the other."""
MOST_LABELS = 100_000
"""Labels that are followed for one kernel: a second or two. The work grows with the square of a kernel's items, so that
without a bound a hundred loops in a row would take hours; the largest of the examples takes half of this."""

Given = dict[Node, list[tuple[Position, Label]]]
"""What the branches of a choice say of one state, by their last nodes."""


Stage = tuple[Hearers, int]
Tell = tuple[Label, State, str, Node, Steps]
"""A label on its way, by a rule, as the state that it has come to; and the node past which it tells others of that."""


class Unfollowed(Exception):
    """A kernel is too large for its order to be followed: nothing is known of it."""


@dataclass(eq=False, slots=True)
class Reach:
    """All labels of one access.

    Accesses that go one way share them: `entry` is the first node behind them all that acts, or the access's own one.
    `without`: events that are taken as absent. `any_site`: an item may come by any of several arrivals. `moment`: the
    source is the event itself, not an access. `whoever`: that of any of its threads. Positions later than `most` counts
    are not looked at, nor those beyond `caps`. `turns`: those of its innermost loop in which the access is.
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
    caps: Caps | None = None
    chains: bool = False
    """Whether chains are asked for, whose steps end where a label stands: always of accesses, unless `hasty`."""
    brief: bool = field(init=False)
    labels: dict[Node, dict[Key, list[Label]]] = field(default_factory=dict)
    choices: dict[tuple[Node, tuple[Clock, ...]], dict[State, Given]] = field(default_factory=dict)
    queue: dict[Stage, deque[Label | Tell]] = field(default_factory=dict)
    """What is still to be followed: labels by their role, what is to be told by the roles that hear of it, and by how
    many roles they have gone through."""
    groups: dict[Group, dict[Site, list[tuple[Position, Label]]]] = field(default_factory=dict)
    alike: Alike = field(init=False)
    """What is the same for all accesses that become known by the same steps."""
    sent: dict[Ways, dict[Node, list[tuple[Label, State, str]]]] = field(default_factory=dict)
    """What has gone on along program order from a node."""
    asked: dict[Node, list[Label]] = field(default_factory=dict)
    """What is known at the nodes that are asked about."""
    asking: dict[Segment, list[Node]] = field(default_factory=dict)
    """These nodes, by segment."""
    measured: dict[Hashable, Any] = field(default_factory=dict)
    """How far apart accesses are by the labels looked at so far (`distance`)."""
    rests: dict[tuple[Label, Node], frozenset[Operation]] = field(default_factory=dict)
    """What the chains of labels rest on, from one of the accesses that share them (`rests`)."""
    begun: tuple[Label, ...] = ()
    """What is known right behind the access."""

    def __post_init__(self) -> None:
        origin, access, source = self.origin, self.source.access, self.source
        self.brief = not self.chains and (self.hasty or self.moment or self.whoever)
        key = (
            access.space, access.proxy, access.done, access.write, first_operand(access), source.threads, source.cta,
            source.home, automaton.memory_of(access), source.assumed, self.graph.assumed,
            self.moment, self.any_site, self.hasty, self.brief,
            (access.buffer, access.slot) if access.space is Space.MAP else None,
        )  # fmt: skip
        self.alike = self.graph.alike.setdefault(
            key, Alike(self.graph, source, self.moment, self.any_site, self.hasty, self.brief)
        )
        position: Position = ((origin.path[-1], 0),)
        first = Label(origin, State("", 0, 0, 0, origin.threads), position, "start", None)
        for state in automaton.start(self.source):
            if self.any_site or self.whoever:
                state = state._replace(who=origin.threads)
            label = Label(origin, state, position, "start", None)
            self.begun += (label,)
            if self.moment:  # after the event itself
                self._pass(label, [(state, "po", self.alike.way(state))])
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
                steps = far.get(at[0])
                ahead = at[1] + (self._far(far, at[0]) if steps is None else steps)
                if place is None or ahead < least or (ahead == least and at[1] > place[1]):
                    place, least = at, ahead
            assert place is not None
            labels = queue[place]
            while labels and count:
                label = labels.popleft()
                if isinstance(label, tuple):
                    self._told_past(*label)
                    count -= 1
                elif not label.dead:
                    self._visit(label)
                    count -= 1
            if not labels:
                del queue[place]
        return went

    def _far(self, far: dict[Hearers, int], roles: Hearers) -> int:
        """From roles, by how many arrivals at least one comes to where `far` is counted from."""
        one = [roles] if isinstance(roles, Role) else roles
        found = far[roles] = min([far.get(role, FAR) for role in one], default=FAR)
        return found

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
        if self.caps is not None and self._beyond(position):
            return
        here = self.labels.get(node)
        if here is None:
            here = self.labels[node] = {}
        if state.part != Part.FULL or state.who is not Threads.ALL:
            best = here.get((known_to_all(state), clocks))
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
        if node.next or not self.brief:
            queue = self.queue.get((node.role, crossed))
            if queue is None:
                self.queue[node.role, crossed] = deque([label])
            else:
                queue.append(label)
        asked = self.asked.get(node)
        if asked is not None:
            asked.append(label)

    def _beyond(self, position: Position) -> bool:
        caps = self.caps or {}
        clock, offset = position[0]
        return offset > caps[clock][0] or any([o > caps[c][1] for c, o in position[1:]])

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
                for start, first, behind, steps in ways.past.get(node.segment, ()):
                    if first <= node.place < behind:
                        for before, state, rule in sent.get(start, ()):
                            self._passing(found, node, steps, before, state, rule)
            self.asking.setdefault(node.segment, []).append(node)
        return found

    def _passing(
        self, found: list[Label], node: Node, steps: Steps, before: Label, state: State, rule: str
    ) -> None:
        """A label of a node that labels only pass."""
        label = self._past(node, steps, before, state, rule)
        if label is not None:
            found.append(label)

    def _past(
        self, node: Node, steps: Steps, before: Label, state: State, rule: str
    ) -> Label | None:
        """What is known at a node that a label passes."""
        position, last = self._along(before, steps) if steps else (before.position, "po")
        if position is None:
            return None
        if node.turns is not None:
            position = rounded(self.graph, self.turns, position, node.turns)
        limit, most = self.graph.limit, self.most
        if self.caps is not None and self._beyond(position):
            return None
        if not all([-limit <= offset <= most for _, offset in position]):
            return None
        how = rule if rule != "po" else last
        return Label(node, state, position, how, before, False, before.crossed)

    def _told_past(self, before: Label, state: State, rule: str, node: Node, steps: Steps) -> None:
        """What a node tells others of a label that passes it."""
        graph = self.graph
        graph.visited += 1
        if graph.bounded and graph.visited > MOST_LABELS:
            raise Unfollowed
        if before.dead or (self.without and node.event in self.without):
            return
        told = self.alike.tells(node, state)
        label = self._past(node, steps, before, state, rule) if told else None
        if label is not None:
            for each in told:
                if each.cases is None:
                    self._to_waits(each, label)
                else:
                    self._group(label, each)

    def _visit(self, label: Label) -> None:
        """What follows from a label: along program order, and at those who wait for the node's arrival."""
        graph, node, state = self.graph, label.node, label.state
        graph.visited += 1
        if graph.bounded and graph.visited > MOST_LABELS:
            raise Unfollowed
        if self.without and node.event in self.without:
            self._pass(label, [(state, "po", self.alike.way(state))])
            return
        step = self.alike.step(node, state)
        for told in step.told:
            if told.cases is None:
                self._to_waits(told, label)
            else:
                self._group(label, told)
        if step.met is not None:
            self._tell(label, step.met)
        self._pass(label, step.ways)

    def _pass(self, label: Label, states: list[tuple[State, str, Ways]]) -> None:
        """Along program order."""
        node, asking = label.node, self.asking
        for state, rule, ways in states:
            sent = self.sent.get(ways)
            if sent is None:
                sent = self.sent[ways] = {}
            sent.setdefault(node, []).append((label, state, rule))
            for way in ways.found.get(node) or ways.on(node):
                for segment, first, behind, steps in way.past if asking else ():
                    for past in asking.get(segment, ()):
                        if first <= past.place < behind:
                            self._passing(self.asked[past], past, steps, label, state, rule)
                for told, steps in way.tells:
                    stage = self.graph.hearers(told), label.crossed + 1
                    queue = self.queue.get(stage)
                    if queue is None:
                        queue = self.queue[stage] = deque()
                    queue.append((label, state, rule, told, steps))
                if way.to is None:
                    continue
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

    def _group(self, label: Label, told: Told) -> None:
        """Several arrivals, or copies, share the items of a barrier: a wait knows what each of them tells it."""
        act, site, state, cases = told.act, told.site, told.state, told.cases
        assert cases is not None
        items = items_of(label.position, site, self._counted(site.clock))
        if items is None:
            return
        if items == ((site.clock, 1),) and exclusive(self.origin, site.node, site.clock):
            items = ((site.clock, 0),)  # the access's own item is in its own branch
        several = site.rate > 1  # in one turn, all cases of the same place among them
        item = items if several else shift(items, 0 if site.after else site.offset)
        waits: dict[tuple[State, str], set[Node]] = {}
        handed = [(state, told.rule)]
        if isinstance(act, Arrive):
            handed = list(released(self.source, self.moment, state, act))
        for after, rule in handed:
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
                self._handed_to(nodes, act.barrier, site, position, label, known, rule)

    def _handed_to(
        self,
        nodes: Collection[Node],
        barrier: object,
        site: Site,
        items: Position,
        label: Label,
        known: State,
        rule: str,
    ) -> None:
        """Some waits know something from an item on, or, where a turn has several, from a turn on of the item."""
        rate, offset = site.rate, site.offset if site.rate > 1 else 0
        clock = items[-1][0]
        for wait, later, given in awaiting(self.graph, barrier, label.node, clock, rate, offset):
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
        for wait, later, given, state, rule in self.alike.waits(told, label.node, clock):
            if not (self.without and wait.node.event in self.without):
                self._add_at(wait, items, later, given, state, rule, label)

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
            own = other.node.role is site.node.role and not automaton.disjoint(
                other.node.threads, site.node.threads
            )
            if event.act.does == "arrive" or (own and event.act.does == act.does):
                continue
            if other.clock is not items[-1][0] or other.rate != site.rate or event in self.without:
                continue
            apart = site.offset - other.offset
            if apart % site.rate or (site.clock is self.graph.kernel and apart):
                continue
            position = shift(items, apart // site.rate)
            for after, rule in met:
                after = automaton.of(after, other.node.threads)
                self._handed(other.node, after, position, rule, label)

    def _handed(
        self, node: Node, state: State, position: Position, rule: str, label: Label
    ) -> None:
        """Another role leaves the meeting knowing what this one knew."""
        known = Label(node, state, position, rule, label, False, label.crossed + 1)
        self._pass(known, [(state, rule, self.alike.way(state))])
