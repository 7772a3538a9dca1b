"""Which conflicting accesses are ordered, and of the others whether a synchronisation is missing or a proxy fence."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from tkc.analysis.happens_before.areas import apart, together
from tkc.analysis.happens_before.automaton import GROUPS, PENDING, Source, home_of, memory_of
from tkc.analysis.happens_before.clocks import Clock, bound
from tkc.analysis.happens_before.conditions import asked_of
from tkc.analysis.happens_before.distance import distance, known_at, own
from tkc.analysis.happens_before.events import (
    CONSTANT,
    Access,
    CloseGroup,
    Event,
    Slot,
    Turns,
    first_operand,
)
from tkc.analysis.happens_before.exclusion import contrary, exclusive
from tkc.analysis.happens_before.graph import Graph, Node
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.meetings import NEVER, TOGETHER, Meetings, meetings_of
from tkc.analysis.happens_before.mirrored import Images, images_of, judged_before
from tkc.analysis.happens_before.paths import Caps, Reach
from tkc.analysis.happens_before.rules import RULES
from tkc.ir.isa.memory import Done, Space

LONG = 12
"""Rounds of a search, of three steps from an access, after which a proof is taken to be unlikely."""


class Verdict(StrEnum):
    ORDERED = "ordered"
    WRONG_PROXY = "wrong proxy"
    UNORDERED = "unordered"


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of a chain, by the ids of its events; `distance` in counts of `clock`."""

    start: str
    end: str
    rule: str
    section: str
    assumptions: tuple[str, ...]
    nodes: tuple[Node, Node] | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """An access of an event: which node, and the access; `turns`: of its loop, where it stands for these only."""

    node: Node
    access: Access
    turns: Turns | None = None
    index: int = 0
    """Which access of its event it is."""

    @property
    def event(self) -> Event:
        assert self.node.event is not None
        return self.node.event

    def __str__(self) -> str:
        return f"{self.node.role.name}.{self.event.name}"


@dataclass(frozen=True, slots=True)
class Hazard:
    """Two accesses that conflict, and what is known of their order.

    `forward`: the second comes after the first from so many counts of `clock` on; `back`: the first after the second.
    `witness`: counts of the smallest pair of instances that nothing orders.
    """

    first: Place
    second: Place
    verdict: Verdict
    clock: Clock
    forward: float
    back: float
    period: int
    chain: tuple[Step, ...] = ()
    witness: tuple[int, int] | None = None
    assumptions: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class Judge:
    """Verdicts on one graph under one set of assumptions. `without`: events taken as absent; `wary`: pairs of places of
    tensors of which nothing is taken for granted about where they meet."""

    graph: Graph
    assumed: frozenset[str]
    without: frozenset[Event] = frozenset()
    wary: Collection[tuple[Place, Place]] = ()
    reached: dict[Hashable, Reach] = field(default_factory=dict)
    reach_of: dict[Place, Reach] = field(default_factory=dict)
    alike: dict[Hashable, Hazard] = field(default_factory=dict)
    hasty: bool = False
    """Whether any proof will do (`quick`)."""
    rows: dict[Hashable, Meetings] = field(default_factory=dict)
    """When two slots meet, by their repetitions."""
    caps: Caps | None = None
    """Counts of clocks beyond which nothing is followed (`near`)."""
    near: dict[Hashable, Judge] | None = None
    """Where pairs whose proof takes long are looked at nearby first, the judges who do (`near`)."""

    def reach(self, place: Place) -> Reach:
        """The labels of an access, as far as they are followed; accesses that go one way share them."""
        found = self.reach_of.get(place)
        if found is None:
            key, entry = self._way(place)
            found = self.reached.get(key)
            if found is None:
                node, cta = place.node, place.node.role.cta
                home = home_of(place.access, cta, self.assumed)
                source = Source(place.access, place.event, node.threads, cta, home, self.assumed)
                found = self.reached[key] = Reach(
                    self.graph, source, node, self.without, most=self.graph.limit, entry=entry, turns=place.turns,
                    hasty=self.hasty, caps=self.caps,
                )  # fmt: skip
            self.reach_of[place] = found
        return found

    def _way(self, place: Place) -> tuple[Hashable, Node]:
        """What accesses have in common that become known in one way, and where that begins: at the next event that does
        something, or where their copies are complete."""
        access, node = place.access, place.node
        entry = self.graph.entry(node)[0]
        begins: Hashable = (entry, entry is node)
        if access.done is Done.MBARRIER_TX:
            begins = tuple(
                [
                    (key, s.clock, s.rate, s.offset, s.after)
                    for key, s in self.graph.sites_of.get(node, ())
                ]
            )
        key = (
            begins, node.role, node.path, node.loops, node.turns, place.turns, node.threads,
            access.space, access.proxy, access.done, home_of(access, node.role.cta, self.assumed), access.write,
            first_operand(access), memory_of(access),
            (access.buffer, access.slot) if access.space is Space.MAP else None,
        )  # fmt: skip
        return key, entry

    def distance(
        self, first: Place, second: Place, clock: Clock
    ) -> tuple[float, Label | None, str]:
        """From how many counts on the second comes after the first, by all labels."""
        return distance(self.reach(first).run(), first, second, clock)

    # Hazards ---------------------------------------------------------------------------------------------------------

    def hazard(self, first: Place, second: Place, others: list[Place] = []) -> Hazard:  # noqa: B006
        """The verdict on a pair; `others` are the accesses of the same buffer, among which a read may stand between.

        What holds of one pair holds of every pair of roles that do the same whose slots meet at the same counts.
        """
        key = self._alike(first, second)
        if key is None:
            return self._judge(first, second, others)
        if key not in self.alike:
            self.alike[key] = self._judge(first, second, others)
        return self.alike[key]

    def _alike(self, first: Place, second: Place, inner: Meetings | None = None) -> Hashable:
        one, other = first.node.role, second.node.role
        symmetry = self.graph.symmetry
        if one.copies == other.copies == 1 and not symmetry.swaps:
            return None
        same = one.copy == other.copy if one.copies > 1 and other.copies > 1 else None
        clocks = common(first.node, second.node)
        meetings: list[Hashable] = []
        if inner is not None:  # those by the innermost clock are known
            next(clocks)
            meetings.append(inner.all)
        meetings += [self.meetings(first, second, clock).all for clock in clocks]
        x, y = first.access, second.access
        owners = (x.owner, y.owner) if x.space is not Space.GLOBAL else (0, 0)
        slots: Hashable = None
        if x.write and y.write:  # a third access may stand between
            slots = [(s.before, s.period) if s is not None else None for s in (x.slot, y.slot)]
            slots = tuple(slots)
        return (
            symmetry.shapes[one], first.node.number, first.index, first.turns,
            symmetry.shapes[other], second.node.number, second.index, second.turns,
            same, symmetry.ctas(one.cta, other.cta, *owners), first is second,
            x.part == y.part, own(x, y), own(y, x), slots, *meetings,
        )  # fmt: skip

    def _judge(self, first: Place, second: Place, others: list[Place]) -> Hazard:
        pairs = [Pair(self, first, second, clock) for clock in common(first.node, second.node)]
        if pairs[0].never:
            return pairs[0].ordered()
        there, here = self.reach(first), self.reach(second)
        ways = [(there, second.node.role), (here, first.node.role)][: 1 if first is second else 2]
        news, rounds, wanted = -1, 0, [True] * len(ways)
        while True:  # what is known only grows, so that a proof found on the way is one
            now = len(there.at(second.node)) + len(here.at(first.node))
            if now != news:
                news = now
                for pair in pairs:
                    if pair.gap() is None:
                        return pair.ordered()
                if first is not second:
                    wanted = pairs[0].open_of(*[way[0] for way in pairs[0].known()])
            went = [
                r.advance(role, 3) for (r, role), more in zip(ways, wanted, strict=True) if more
            ]
            if not any(went) and not any([r.advance(role) for r, role in ways]):
                break
            rounds += 1
            if rounds == LONG and self.near is not None and self._parts(first, second):
                return pairs[0].unordered()
        for pair in pairs:  # what is known after a choice may have come last
            if pair.gap() is None:
                return pair.ordered()
        return self._settled(pairs, others)

    def _parts(self, first: Place, second: Place) -> bool:
        from tkc.analysis.happens_before.near import Near

        return self.near is not None and Near(self, self.near).parts(first, second)

    def _settled(self, pairs: list[Pair], others: list[Place]) -> Hazard:
        """The verdict on a pair all of whose labels have been followed, and none proves it."""
        first, second = pairs[0].first, pairs[0].second
        if first.access.write and second.access.write:
            from tkc.analysis.happens_before.between import read_between

            for pair in pairs:
                found = read_between(self, pair, others, self.distance)
                if found is not None:
                    return found
        worst = pairs[0].unordered()
        one_proxy = first.access.space is not Space.TENSOR
        if one_proxy and any(self._plainly(pair) for pair in pairs):
            return replace(worst, verdict=Verdict.WRONG_PROXY)
        return worst

    def _plainly(self, pair: Pair) -> bool:
        """Whether the two would be ordered if there were one proxy."""
        first, second, clock = pair.first, pair.second, pair.clock
        forward = distance(self.reach(first), first, second, clock, plain=True)[0]
        back = distance(self.reach(second), second, first, clock, plain=True)[0]
        return pair.gap_of(forward, back) is None

    def never_awaited(self, place: Place) -> bool:
        """Whether nothing in the access's own role says that it is complete."""
        return all(
            state.name in PENDING
            for node, kept in self.reach(place).run().labels.items()
            if node.role is place.node.role
            for state, _ in kept
        )

    def never_closed(self, place: Place) -> bool:
        """Whether no thread closes the group that the access is of, be it another than its own."""
        labels = self.reach(place).run().labels
        states = [s for kept in labels.values() for s, _ in kept]
        return (
            bool(states)
            and all(s.name in GROUPS.values() and not s.n for s in states)
            and not any(
                isinstance(act, CloseGroup) and GROUPS[act.done] == states[0].name
                for act in (n.event.act for n in labels if n.event is not None)
            )
        )

    def only_under_way(self, first: Place, second: Place) -> bool:
        """Whether what is known of the first where the second comes is only that it is under way."""
        labels = known_at(self.reach(first), first, second)
        return bool(labels) and all(x.state.name in PENDING for x in labels)

    def known_in_time(self, hazard: Hazard, first: Place, second: Place) -> bool:
        """Whether some thread, though not all that have to, knows that the first is complete."""
        reach, apart = (
            self.reach(first),
            abs((hazard.witness or (0, 0))[1] - (hazard.witness or (0, 0))[0]),
        )
        return any(
            x.state.name not in PENDING
            and bound(x.position, hazard.clock, hazard.clock in first.node.path) <= apart
            for x in known_at(reach, first, second)
        )

    def meetings(self, here: Place, there: Place, clock: Clock) -> Meetings:
        """Which differences of counts of a clock a pair's slots may be equal at."""
        one = two = None
        if here.access.ring == there.access.ring:
            one, two = self.row(here.access.slot, clock), self.row(there.access.slot, clock)
        # else nothing says which slots of the one lie in which of the other
        turns = self._turns(here, clock), self._turns(there, clock)
        if turns != (None, None):
            return self._rows_meet(one, two, turns)
        if clock is self.graph.kernel or self._in_one_turn(here, there, clock):
            return TOGETHER if self._rows_meet(one, two).meets(0) else NEVER
        return self._rows_meet(one, two)

    def _in_one_turn(self, here: Place, there: Place, clock: Clock) -> bool:
        """Whether two accesses touch the same elements in the same turn of a clock's loop only."""
        first, second = here.access, there.access
        if first.area is None and second.area is None and not first.distinct:
            return False
        wary = (here, there) in self.wary
        areas = first.area, second.area
        asked = all([area is not None and area.asked for area in areas])
        if asked and not wary and first.write and second.write:
            return True  # of others nothing says that both come
        for access in (first, second):
            loops = access.apart if wary else access.distinct
            if not any([self.graph.clock_of[x] is clock for x in loops]):
                return False
        return (not wary or first.part == second.part) and _alike(first, second)

    def _rows_meet(
        self,
        one: Slot | None,
        two: Slot | None,
        turns: tuple[Turns | None, Turns | None] = (None, None),
    ) -> Meetings:
        key = (
            one and (one.before, one.period), two and (two.before, two.period), *turns,
        )  # fmt: skip
        if key not in self.rows:
            self.rows[key] = meetings_of(one, two, turns)
        return self.rows[key]

    def _turns(self, place: Place, clock: Clock) -> Turns | None:
        """The turns of a clock's loop that a place stands for, where these are some only."""
        turns = place.turns
        return turns if turns is not None and self.graph.clock_of[turns.loop] is clock else None

    def row(self, slot: Slot | None, clock: Clock) -> Slot | None:
        if slot is None:
            return None
        if slot.loop is not None and self.graph.clock_of[slot.loop] is not clock:
            return None
        return slot


@dataclass(eq=False, slots=True)
class Pair:
    """Two accesses over one clock."""

    judge: Judge
    first: Place
    second: Place
    clock: Clock
    meetings: Meetings = field(init=False)
    _apart: bool | None = None

    def __post_init__(self) -> None:
        self.meetings = self.judge.meetings(self.first, self.second, self.clock)

    @property
    def apart(self) -> bool:
        """Whether the two meet in one count of the clock, of which none has both."""
        if self._apart is None:
            self._apart = self.meetings.meets(0) and self._never_in_one_count()
        return self._apart

    @property
    def never(self) -> bool:
        """Whether they never meet."""
        return not self.meetings.apart and (self.apart or not self.meetings.meets(0))

    def _never_in_one_count(self) -> bool:
        """Whether no count of the clock has both."""
        one, other, clock = self.first.node, self.second.node, self.clock
        if one.role is not other.role:
            return False
        # one count of an outer clock has many instances of an access in an inner loop
        inner = one.path[one.path.index(clock) + 1 :]
        if self.first is self.second and all([c.high <= 1 for c in inner]):
            return True
        if not inner or other.path[-1] is clock:  # no condition within a turn is round the one
            return False
        return exclusive(one, other, clock) or contrary(one, other, clock)

    def known(self) -> tuple[tuple[float, Label | None, str], tuple[float, Label | None, str]]:
        """The distances there and back by what is known so far."""
        first, second, reach = self.first, self.second, self.judge.reach
        there = distance(reach(first), first, second, self.clock)
        if first is second:
            return there, there
        return there, distance(reach(second), second, first, self.clock)

    def gap(self, forward: float = inf, back: float = inf) -> tuple[int, int] | None:
        """The nearest instances that nothing orders, with these distances beside the known ones."""
        if self.never:
            return None
        there, here = self.known()
        return self.gap_of(min(forward, there[0]), min(back, here[0]))

    def gap_of(self, forward: float, back: float) -> tuple[int, int] | None:
        return _gap(forward, back, self.meetings, self.apart, self.clock.span)

    def open_of(self, forward: float, back: float) -> list[bool]:
        """Whether some instances that nothing orders, with these distances, have the second in a later turn, and in an
        earlier one; both, where they are of one turn."""
        meetings, span = self.meetings, self.clock.span
        far = meetings.before + meetings.period + 1
        later = range(int(max(1, 1 - back)) if back < inf else 1, int(min(forward, far + 1, span)))
        earlier = range(
            int(max(1, 1 - forward)) if forward < inf else 1, int(min(back, far + 1, span))
        )
        found = [any(meetings.meets(d) for d in later), any(meetings.meets(-d) for d in earlier)]
        return found if any(found) else [True, True]

    def ordered(self) -> Hazard:
        if self.never:
            return Hazard(
                self.first, self.second, Verdict.ORDERED, self.clock, -inf, -inf, self.meetings.period
            )  # fmt: skip
        there, here = self.known()
        steps = steps_of(*there[1:], self.first, self.second)
        if self.first is not self.second:
            steps += steps_of(*here[1:], self.second, self.first)
        used = frozenset(a for s in steps for a in s.assumptions)
        return Hazard(
            self.first, self.second, Verdict.ORDERED, self.clock, there[0], here[0], self.meetings.period,
            steps, None, used,
        )  # fmt: skip

    def unordered(self) -> Hazard:
        there, here = self.known()
        return Hazard(
            self.first, self.second, Verdict.UNORDERED, self.clock, there[0], here[0], self.meetings.period,
            (), self.gap(),
        )  # fmt: skip


def common(first: Node, second: Node) -> Iterator[Clock]:
    """The clocks of loops that both stand in, innermost first."""
    for clock in reversed(first.path):
        if clock in second.path:
            yield clock


def _gap(
    forward: float, back: float, meetings: Meetings, same: bool, span: float
) -> tuple[int, int] | None:
    """The counts of the nearest instances in conflict that nothing orders; None: all are ordered."""
    if forward + back <= 1:  # no distance is between the two
        return None
    reach = int(max([x for x in (abs(forward), abs(back)) if x < inf], default=0))
    reach += meetings.before + meetings.period + 1
    if forward < inf and back < inf:
        reach = min(reach, int(max(forward, back)) - 1)
    for far in range(reach + 1):
        for d in (-far, far) if far else (0,):
            if (d == 0 and same) or far >= span:
                continue
            if -back < d < forward and meetings.meets(d):
                return (max(0, -d), max(0, -d) + d)
    return None


def steps_of(label: Label | None, rule: str, begin: Place, end: Place) -> tuple[Step, ...]:
    """A label's chain without its plain steps."""
    if label is None:
        return ()
    found: list[Step] = []
    last = label.node
    for start, node, how in label.chain(begin.node):
        if how not in ("po", "loop", "leave", "choice"):
            found.append(_step(start, node, how))
    found.append(_step(last, end.node, rule))
    return tuple(found)


def _step(start: Node, end: Node, rule: str) -> Step:
    row = RULES[rule]
    return Step(repr(start), repr(end), rule, row.section, row.assumes, (start, end))


# All pairs -----------------------------------------------------------------------------------------------------------


def places(graph: Graph) -> dict[Hashable, list[Place]]:
    """Accesses by space and buffer, in order."""
    if graph.places is None:
        graph.places = _places(graph)
    return graph.places


def _places(graph: Graph) -> dict[Hashable, list[Place]]:
    found: dict[Hashable, list[Place]] = {}
    for node in graph.nodes:
        if node.event is not None:
            for index, access in enumerate(node.event.accesses):
                if access.space in (Space.SHARED, Space.TENSOR, Space.GLOBAL, Space.MAP):
                    owner = access.owner if access.space is not Space.GLOBAL else 0
                    here = found.setdefault((access.space, access.place, owner), [])
                    here += [Place(node, access, turns, index) for turns in turns_of(graph, node)]
    return found


def turns_of(graph: Graph, node: Node) -> Iterator[Turns | None]:
    """The turns of its loop that a node is looked at in: one by one where the loop has parts that run in some."""
    if node.turns is None and node.path[-1] in graph.periods:
        loop, period = graph.periods[node.path[-1]]
        yield from (Turns(loop, period, frozenset({n})) for n in range(period))
    else:
        yield node.turns


def conflicts(
    here: list[Place], vague: bool = False, images: Images | None = None
) -> Iterator[tuple[Place, Place]]:
    """Pairs of accesses of one buffer of which one writes, apart from those that touch different bytes; those that may
    never be at the same place only if asked for (`vague`), and those that are `images` of others not."""
    for i, first in enumerate(here):
        for j, second in enumerate(here[i:], i):
            if images is not None and judged_before(images, i, j):
                continue
            a, b = first.access, second.access
            if (a.write or b.write) and not _no_race(a, b) and not _apart(a, b):
                if vague or not is_vague(first, second):
                    yield first, second


def _no_race(a: Access, b: Access) -> bool:
    """Whether two accesses of one place need no order: both atomic, one value stored again (A16), or a read whose value
    is only a guess (A18)."""
    if (a.atomic and b.atomic) or (a is b and a.what == CONSTANT):
        return True
    if a.what == "cas" and b.element and not b.write:
        return True
    return b.what == "cas" and a.element and not a.write


def _alike(a: Access, b: Access) -> bool:
    """Whether two accesses of a tensor, whose indices both go on with a loop, meet in the same turn of it only."""
    if a.part == b.part or a.area is None or b.area is None:
        return True
    return together(a.area, b.area)


def is_vague(first: Place, second: Place) -> bool:
    """Whether too little is known of two writes of a tensor to say that they are at the same place, or in the same
    launch: their conditions may exclude one another."""
    a, b = first.access, second.access
    if a.space is not Space.GLOBAL or not (a.write and b.write):
        return False
    if a.area is None or b.area is None:
        return True
    if a.area.asked and b.area.asked and not _in_one_turn(first, second):
        return True
    return (a is b or a.part != b.part) and (a.area.vague or b.area.vague)


def _in_one_turn(first: Place, second: Place) -> bool:
    """Whether two accesses under conditions come in the same turns: all that one asks, the other does."""
    if first is second or first.node.role is not second.node.role:
        return False
    one, other = _asked_of(first), _asked_of(second)
    return one <= other or other <= one


def _asked_of(place: Place) -> frozenset[Hashable]:
    """The conditions round an access that ask more than who a thread is, with whether each has to hold; equal for ifs
    that ask the same."""
    keys = {x.op: x.key for x in place.node.loops if x.high <= 1 and x.key is not None}
    return frozenset(keys.get(op, (op, holds)) for op, holds in asked_of(place.event.op))


def _apart(a: Access, b: Access) -> bool:
    """Whether two accesses of a buffer touch different bytes of any slot."""
    if a.buffer != b.buffer:
        return False
    if a.share is not None and b.share is not None and a.share != b.share:
        return True
    if a.area is not None and b.area is not None and apart(a.area, b.area):
        return True
    for one, other in ((a.region, b.region), (a.lines, b.lines)):
        if one is not None and other is not None:
            if one[1] <= other[0] or other[1] <= one[0]:
                return True
    return False


def hazards(judge: Judge) -> Iterator[Hazard]:
    """A verdict on every pair in conflict, those that only the numbers of CTAs tell apart once."""
    found = places(judge.graph)
    images = images_of(judge.graph, found)
    for key, here in found.items():
        for first, second in conflicts(here, images=images.get(key)):
            yield judge.hazard(first, second, here)
