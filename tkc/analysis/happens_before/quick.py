"""Verdicts alone, without the chains that show them: any proof will do, so that fewer steps are followed.

What is followed is the direction in which instances are still unordered; a way to an access that one search has found
is a way for every search that comes by; and what a role's own steps order is in order in every role that does the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from math import inf

from tkc.analysis.happens_before.automaton import Part, State, home_of, within
from tkc.analysis.happens_before.between import read_between
from tkc.analysis.happens_before.chains import SILENT
from tkc.analysis.happens_before.clocks import Clock, Position
from tkc.analysis.happens_before.distance import distance, own
from tkc.analysis.happens_before.events import Arrive, Meet, Role, Wait
from tkc.analysis.happens_before.graph import CHOICE, Node, loops_of
from tkc.analysis.happens_before.labels import Label
from tkc.analysis.happens_before.lasting import behind, entered
from tkc.analysis.happens_before.symmetry import alone
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Pair, Place, Verdict, common
from tkc.ir.isa.memory import Space

Stop = tuple[Node, tuple[State, tuple[Clock, ...]], Position]
"""What a label says: where, what, and from when on."""

SOON = 9
"""Rounds of a search between two writes before a read is looked for that stands between them."""
OUTWARD = 3
"""Rounds after which the clocks of loops further out are asked."""


@dataclass(eq=False, slots=True)
class Found:
    """A way to an access: from how many turns of `clock` on it comes after what the way began with, and what was known
    on it, each of which leads there."""

    clock: Clock
    turns: float
    stops: list[Stop]


@dataclass(eq=False, slots=True)
class Quick(Judge):
    """The verdicts of a `Judge`, with other chains, or none. `found`: ways from accesses of one kind to one access;
    `local`: pairs of one role that its own steps order."""

    found: dict[Hashable, list[Found]] = field(default_factory=dict)
    local: dict[Hashable, Hazard] = field(default_factory=dict)
    alone: dict[Role, int] = field(default_factory=dict)
    """Equal for roles that do the same, whoever their peers are."""

    def __post_init__(self) -> None:
        self.hasty = True
        symmetry = self.graph.symmetry
        if not self.without and not symmetry.swaps and any(r.cta for r in self.graph.program.roles):
            numbers: dict[Hashable, int] = {}
            likely = Counter(symmetry.drawn.values())
            for role, drawn in symmetry.drawn.items():
                if likely[drawn] == 1:
                    continue
                loops = (loop for loop, _, _ in loops_of(role))
                clocks = tuple([self.graph.clock_of[loop] for loop in loops])
                shape = alone(role), role.copy, clocks
                self.alone[role] = numbers.setdefault(shape, len(numbers))

    def hazard(self, first: Place, second: Place, others: list[Place] = []) -> Hazard:  # noqa: B006
        clocks = common(first.node, second.node)
        inner = Pair(self, first, second, next(clocks))
        if inner.never:
            return inner.ordered()
        key = self._alike(first, second, inner.meetings)
        known = self.alike.get(key) if key is not None else None
        if known is None:
            pairs = [inner, *(Pair(self, first, second, clock) for clock in clocks)]
            known = self._judged(pairs, others)
            if key is not None:
                self.alike[key] = known
        return known

    def _judged(self, pairs: list[Pair], others: list[Place]) -> Hazard:
        first, second = pairs[0].first, pairs[0].second
        key = self._in_one_role(pairs)
        known = self.local.get(key)
        if known is not None:
            return replace(known, first=first, second=second)
        ways = [_Way(self, first, second)]
        if first is not second:
            ways.append(_Way(self, second, first))
        proved = self._searched(pairs, ways, others)
        if proved is None:
            return self._settled(pairs, others)
        if isinstance(proved, Hazard):
            return proved
        forward, back = _known(proved, ways)
        there, here = proved.known()
        for way, (turns, label, _) in zip(ways, (there, here), strict=False):
            if label is not None:
                way.tell(proved.clock, turns, label)
        hazard = Hazard(
            first, second, Verdict.ORDERED, proved.clock, forward, back, proved.meetings.period
        )
        if key is not None and all(w.local(x) for w, x in zip(ways, (there, here), strict=False)):
            self.local[key] = hazard
        return hazard

    def _searched(
        self, pairs: list[Pair], ways: list[_Way], others: list[Place]
    ) -> Pair | Hazard | None:
        """The pair by whose clock the two accesses are in order; what is said of two writes with a read between."""

        inner, rounds, news = pairs[0], 0, -1
        wanted = [True] * len(ways)
        writes = inner.first.access.write and inner.second.access.write
        while True:
            rounds += 1
            if rounds == SOON and writes:
                for pair in pairs:
                    found = read_between(self, pair, others, self._soon)
                    if found is not None:
                        return found
            now = sum([len(way.labels) for way in ways])
            if any([way.met() for way in ways]) or now != news:
                news = now
                forward, back = _known(inner, ways)
                if inner.gap_of(forward, back) is None:
                    return inner
                if len(ways) > 1:
                    wanted = inner.open_of(forward, back)
            went = [way.advance() for way, more in zip(ways, wanted, strict=True) if more]
            if not any(went) and not any([way.advance() for way in ways]):
                return next((pair for pair in pairs if _in_order(pair, ways)), None)
            if rounds % OUTWARD == 0:  # rarely is it a clock of a loop further out
                for pair in pairs[1:]:
                    if _in_order(pair, ways):
                        return pair

    def _soon(self, first: Place, second: Place, clock: Clock) -> tuple[float, Label | None, str]:
        """From how many counts on the second comes after the first, by what a short search finds first."""
        reach, role = self.reach(first), second.node.role
        for _ in range(2 * SOON):
            way = distance(reach, first, second, clock)
            if way[0] < inf or not reach.advance(role, 2):
                return way
        return distance(reach, first, second, clock)

    def _in_one_role(self, pairs: list[Pair]) -> Hashable:
        """What pairs of roles that do the same have in common, as far as a role orders them by itself."""
        first, second = pairs[0].first, pairs[0].second
        role, x, y = first.node.role, first.access, second.access
        if second.node.role is not role or role not in self.alone:
            return None
        slots = [(s.before, s.period) if s is not None else None for s in (x.slot, y.slot)]
        return (
            self.alone[role],
            first.node.number, first.index, first.turns,
            second.node.number, second.index, second.turns, first is second,
            x.owner ^ role.cta, y.owner ^ role.cta, x.part == y.part, own(x, y), own(y, x), *slots,
            *(pair.meetings.all for pair in pairs),
        )  # fmt: skip


def _known(pair: Pair, ways: list[_Way]) -> tuple[float, float]:
    """The distances there and back of a pair by what is known so far, and by ways that other searches have found."""
    there, here = pair.known()
    clock = pair.clock
    return min(there[0], ways[0].turns(clock)), min(here[0], ways[-1].turns(clock))


def _in_order(pair: Pair, ways: list[_Way]) -> bool:
    return pair.never or pair.gap_of(*_known(pair, ways)) is None


class _Way:
    """The search from one access to another."""

    def __init__(self, judge: Quick, start: Place, end: Place) -> None:
        self.start, self.end = start, end
        self.reach = judge.reach(start)
        self.role = end.node.role
        self.labels = self.reach.at(end.node)
        node, access = start.node, end.access
        key = (
            self.reach.alike, node.role, node.path, node.loops, node.turns, start.turns,
            end.node, access.proxy, home_of(access, self.role.cta, judge.assumed),
        )  # fmt: skip
        self.found = judge.found.setdefault(key, [])
        self.known: dict[Clock, float] = {}

    def advance(self) -> bool:
        return self.reach.advance(self.role, 2)

    def turns(self, clock: Clock) -> float:
        """From how many turns on the end comes after the start, by a way that another search has found."""
        return self.known.get(clock, inf)

    def met(self) -> bool:
        """Whether this search has come to a way that another has found."""
        news = False
        for way in self.found:
            if way.clock not in self.known and any(self._has(stop) for stop in way.stops):
                self.known[way.clock] = way.turns
                news = True
        return news

    def _has(self, stop: Stop) -> bool:
        node, key, position = stop
        here = self.reach.labels.get(node)
        kept = here.get(key) if here is not None else None
        return kept is not None and any([label.position == position for label in kept])

    def tell(self, clock: Clock, turns: float, label: Label) -> None:
        """Keeps a way for other searches, as far as each label of it follows from the one before it alone."""
        state, tensor = label.state, self.start.access.space is Space.TENSOR
        if state.part != Part.FULL or not within(self.end.node.threads, state.who):
            return  # it counts whose parts these are
        if tensor and state.name != "done":
            return
        if clock not in self.known and all(way.clock is not clock for way in self.found):
            if (first := entered(label)) is not None and behind(self.reach, first) is not None:
                return  # it holds because of what other branches say
            stops = list(self._stops(label))
            if stops:
                self.found.append(Found(clock, turns, stops))

    def _stops(self, label: Label) -> Iterator[Stop]:
        at: Label | None = label
        while at is not None and at.before is not None:
            yield at.node, (at.state, tuple([c for c, _ in at.position])), at.position
            if at.rule == CHOICE or self._gathered(at.before.node):
                return
            at = at.before

    def _gathered(self, node: Node) -> bool:
        """Whether an arrival makes up the items of its barrier only together with others."""
        act = node.event.act if node.event is not None else None
        if not isinstance(act, Arrive):
            return False
        return not all(s.every or s.sometimes for _, s in self.reach.graph.sites_of.get(node, ()))

    def local(self, way: tuple[float, Label | None, str]) -> bool:
        """Whether the way to the end is one of the role's own steps."""
        turns, label, _ = way
        if turns == inf:
            return not self.known
        return own_steps(label, self.role)


def own_steps(label: Label | None, role: Role) -> bool:
    """Whether what led to a label are steps of one role, so that each role that does the same has them (`alone`)."""
    while label is not None and label.before is not None:
        act = label.node.event.act if label.node.event is not None else None
        told = isinstance(act, Wait) or (isinstance(act, Meet) and act.barrier is not None)
        if (
            label.node.role is not role
            or label.rule == CHOICE
            or (told and label.rule not in SILENT)
        ):
            return False
        label = label.before
    return True
