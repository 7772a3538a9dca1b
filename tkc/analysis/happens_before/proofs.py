"""What each fence of a kernel is needed for: every hazard with its proof, and again without some of the fences.

Where a hazard has no proof with all fences in place, one that might order it is kept: the analysis may have missed why.
Where barriers do not keep their protocol nothing is proved, for every proof takes it for granted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from xdsl.ir import Operation

from tkc.analysis.dependent import check_dependent
from tkc.analysis.happens_before.events import (
    Access,
    Act,
    Event,
    ProxyFence,
    TensorFence,
    ThreadFence,
)
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import Graph, build
from tkc.analysis.happens_before.inserted import put_before, restate
from tkc.analysis.happens_before.paths import Unfollowed
from tkc.analysis.happens_before.rests import Fence, rests_on, steps_of
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import (
    Hazard,
    Judge,
    Place,
    Verdict,
    conflicts,
    is_vague,
    places,
)
from tkc.analysis.moments import deadlocks
from tkc.analysis.numbered_laps import check_numbered
from tkc.analysis.often import check_often
from tkc.analysis.protocol import check_barriers, check_laps, check_meetings
from tkc.ir.isa.assumptions import FENCED, STRICT, UNHIDDEN
from tkc.ir.isa.memory import Proxy, Scope, Space
from tkc.ir.stage.ops import KernelOp

WIDEST = "practice"
NARROWER = {STRICT: (UNHIDDEN, FENCED)}
"""By which models a pair is proved that a profile does not, before the widest."""
MOST_PAIRS = 4000
"""Pairs of conflicting accesses up to which a kernel is judged, buffer by buffer, the smallest first."""
MOST_TRIED = 50_000
"""Steps of following accesses without one fence or another, up to which more fences are tried."""


class Unjudged(NamedTuple):
    """A buffer with too many accesses to be compared: what might order them is kept."""

    space: Space
    buffer: Hashable
    accesses: int


@dataclass(eq=False)
class Proofs:
    """The hazards of a kernel under a profile. `broken`: its barriers do not keep their protocol; `waits`: whether
    waits of its own may go, so that what orders its accesses of tensors counts; `unsure`: pairs of those that nothing
    orders if they meet; `early`: accesses of tensors that may come before the grids ahead have ended, of which no pair
    tells. Raises `Unfollowed`."""

    kernel: KernelOp
    profile: str = "practice"
    waits: bool = False
    graph: Graph = field(init=False)
    broken: bool = field(init=False)
    hazards: list[Hazard] = field(init=False)
    events: dict[Operation, list[Event]] = field(init=False)
    absent: frozenset[Event] = frozenset()
    """Events that are in the graph and taken as not being there: of fences that are gone, or not put in yet."""

    def __post_init__(self) -> None:
        self.graph = build(program(self.kernel))
        self.graph.assumed = PROFILES[self.profile]
        self.graph.bounded = (
            True  # until it is judged: a change of the program is never left half made
        )
        checks = (
            check_meetings,
            check_barriers,
            deadlocks,
            check_laps,
            check_numbered,
            check_often,
        )
        self.broken = any([*check(self.graph)] for check in checks)
        self.models: dict[tuple[Place, Place], str] = {}
        self.rest: dict[int, frozenset[Operation] | None] = {}
        self.judge_of: dict[int, Judge] = {}
        self.seen: list[Hazard] = []  # so that no two have the same id
        self.untried: list[Operation] = []
        self.others: dict[tuple[Place, Place], list[Place]] = {}
        self.unjudged: list[Unjudged] = []
        self.wary: set[tuple[Place, Place]] = set()
        self.unsure: list[tuple[Place, Place]] = []
        self.hazards = [] if self.broken else self._judged()
        self.early = self._early(self.absent)
        self.graph.bounded = False
        self.events = {}
        for role in self.graph.program.roles:
            for event in role.events():
                if isinstance(event.act, Fence):
                    self.events.setdefault(event.op, []).append(event)
        self._guarded: dict[Hashable, list[Hazard]] = {}
        self._at_home: set[tuple[Place, Place, bool]] | None = None

    @property
    def ladder(self) -> tuple[str, ...]:
        """The models by which pairs are proved, from the profile's own to the widest."""
        return tuple(dict.fromkeys((self.profile, *NARROWER.get(self.profile, ()), WIDEST)))

    def let_go(self) -> None:
        """Cuts what its parts have of one another, when nobody asks any more: so all of it goes at once, where the
        collector of garbage would have to find it."""
        self.graph.alike.clear()

    @property
    def settled(self) -> bool:
        """Whether barriers keep their protocol, every pair was looked at, and each has a proof."""
        return not (self.broken or self.unproved or self.unjudged)

    def _judged(self) -> list[Hazard]:
        """The verdicts, buffer by buffer, those of alike pairs once."""
        self.with_all = self.judges(())
        made: dict[int, Hazard] = {}
        left = MOST_PAIRS
        for here in sorted(places(self.graph).values(), key=len):
            wary = self.waits and here[0].access.space is Space.GLOBAL
            pairs = list(islice(conflicts(here, vague=wary), left + 1))
            try:
                if len(pairs) > left:
                    raise Unfollowed
                if wary:
                    judged = [h for pair in pairs for h in self._warily(*pair, here)]
                else:
                    judged = [self._judge(*pair, here) for pair in pairs]
            except Unfollowed:
                access = here[0].access
                self.unjudged.append(Unjudged(access.space, access.buffer, len(here)))
                continue
            left -= len(pairs)
            made |= {id(h): h for h in judged}
        return list(made.values())

    def _warily(self, first: Place, second: Place, here: list[Place]) -> Iterator[Hazard]:
        """The verdict on a pair of a tensor that is in order wherever the two meet. Others are `unsure`, and judged as
        if turns of a loop were at places of their own, or not at all where too little is known."""
        pair = first, second
        self.wary.add(pair)
        hazard = self._judge(first, second, here)
        if hazard.verdict is Verdict.ORDERED:
            yield hazard
            return
        self.wary.remove(pair)
        self.unsure.append(pair)
        if not is_vague(first, second):
            yield self._judge(first, second, here)

    def _judge(self, first: Place, second: Place, here: list[Place]) -> Hazard:
        """The verdict on a pair; by a wider model where this profile has no proof with all fences there."""
        model, *wider = self.ladder
        hazard = self.with_all[model].hazard(first, second, here)
        while wider and hazard.verdict is not Verdict.ORDERED:
            model = wider.pop(0)
            hazard = self.with_all[model].hazard(first, second, here)
        if id(hazard) not in self.rest:
            self.seen.append(hazard)
            self.rest[id(hazard)] = rests_on(self.with_all[model], hazard, here)
            self.judge_of[id(hazard)] = self.with_all[model]
            pair = hazard.first, hazard.second
            self.models[pair], self.others[pair] = model, here
        return hazard

    def _early(self, absent: Set[Event]) -> frozenset[object]:
        return frozenset(f.first for f in check_dependent(self.graph, absent))

    @property
    def unproved(self) -> list[Hazard]:
        return [h for h in self.hazards if h.verdict is not Verdict.ORDERED]

    def rest_on_no_more(self, before: Proofs) -> bool:
        """Whether each pair is proved by the model that it was proved by before a change, or by a narrower one, no more
        pairs of a tensor's accesses are unsure, and none of these comes too early for the grids ahead."""
        if len(self.unsure) > len(before.unsure) or not self.early <= before.early:
            return False
        now, then = ([self.ladder.index(p.model_of(h)) for h in p.hazards] for p in (self, before))
        return len(now) == len(then) and all(m <= was for m, was in zip(now, then, strict=True))

    def guarded(self, fence: Operation) -> list[Hazard]:
        """The hazards that a fence could order."""
        act = self.act(fence)
        if act not in self._guarded:
            self._guarded[act] = [h for h in self.hazards if self.may_guard(fence, h)]
        return self._guarded[act]

    def resting(self, fence: Operation) -> list[Hazard]:
        """The hazards whose first chain names a fence."""
        events = set(self.events[fence])
        return [h for h in self.guarded(fence) if not events.isdisjoint(steps_of(h))]

    def judges(self, away: Iterable[Operation]) -> dict[str, Judge]:
        """The judge of each model for the kernel without some fences."""
        return self.judges_without(e for f in away for e in self.events[f])

    def judges_without(self, events: Iterable[Event]) -> dict[str, Judge]:
        gone = self.absent.union(events)
        return {m: Judge(self.graph, PROFILES[m], gone, self.wary) for m in self.ladder}

    def again(self, judges: dict[str, Judge], hazard: Hazard) -> Hazard:
        """The verdict on a hazard by other judges."""
        return self._by(judges[self.model_of(hazard)], hazard)

    def proved(self) -> Iterator[tuple[Hazard, Judge]]:
        """Each hazard with the judge that has its proof."""
        for hazard in self.hazards:
            yield hazard, self.judge_of[id(hazard)]

    def without(self, gone: Iterable[Operation]) -> Proofs:
        """The proofs without some fences: what rests on none of them stands."""
        absent = self.absent.union(e for f in gone for e in self.events[f])
        found = self._changed(absent)
        away = {e.op for e in absent - self.absent}
        found.hazards = list(found._again_judged(self.hazards, away, absent))
        return found

    def _rests_on(self, hazard: Hazard, judge: Judge) -> frozenset[Operation] | None:
        return rests_on(judge, hazard, self.others[hazard.first, hazard.second])

    def restated(
        self,
        changed: Iterable[Operation],
        present: Iterable[Operation] = (),
        hopeful: bool = False,
    ) -> Proofs | None:
        """The proofs now that some operations have another space or scope, and that fences of `preceded` have been put
        in: what uses none of the former stands. None where not everything is in order, on no more assumptions than
        before, and by each reading of A1; `hopeful`: most likely it is.

        Barriers keep their protocol as before, which asks for neither. Where the operations get back what they had,
        and `restate` is told so, the proofs from before are right again.
        """
        away, at_home = set(changed), self.at_home
        self.restate(away)
        absent = self.absent.difference(e for f in present for e in self.events[f])
        found = self._changed(absent, away)
        if not hopeful:
            give_up_early(found.with_all)
        for hazard in found._again_judged(self.hazards, away, frozenset()):
            if hazard.verdict is not Verdict.ORDERED:
                return None
            found.hazards.append(hazard)
        holds = found.rest_on_no_more(self) and found.settled
        return found if holds and at_home <= found.at_home else None

    def restate(self, changed: Iterable[Operation]) -> None:
        """Tells the graph that some operations have another space or scope."""
        restate(self.graph, changed)

    def preceded(self, fences: Mapping[Operation, Operation]) -> Proofs:
        """The same proofs in a graph that has a fence in front of some operations, absent until it is said to be there:
        a fence only adds to what is known."""
        made = put_before(self.graph, fences)
        found = copy(self)
        found.events, found._guarded = self.events | made, {}
        found.absent = self.absent.union(e for events in made.values() for e in events)
        return found

    def _changed(self, absent: frozenset[Event], changed: Set[Operation] = frozenset()) -> Proofs:
        """The same with other events absent and some operations changed, before any pair is judged."""
        found = copy(self)
        found.rest, found.models, found.others = (
            dict(self.rest),
            dict(self.models),
            dict(self.others),
        )
        found.absent, found.hazards = absent, []
        found.judge_of, found.with_all, found._guarded = dict(self.judge_of), found.judges(()), {}
        found._at_home = None
        if any(isinstance(e.act, ThreadFence) for e in absent ^ self.absent) or changed:
            found.early = self._early(absent)
        return found

    def _again_judged(
        self, hazards: Iterable[Hazard], away: Set[Operation], absent: Set[Event]
    ) -> Iterator[Hazard]:
        """The hazards of before a change, each judged again where it rests on an operation that is away."""
        for h in hazards:
            stands = self._stands(h, away, absent)
            yield h if stands else self._judge(h.first, h.second, self.others[h.first, h.second])

    def _stands(self, hazard: Hazard, away: Set[Operation], absent: Set[Event]) -> bool:
        """Whether a proof was found without some events, or uses none of some operations; what has been found since may
        be another way."""
        judge = self.judge_of[id(hazard)]
        if absent and absent <= judge.without:
            return True
        rest = self._rests_on(hazard, judge)
        return rest is not None and away.isdisjoint(rest)

    def may_guard(self, fence: Operation, hazard: Hazard) -> bool:
        """Whether a fence is of the kind that could order two accesses."""
        first, second = hazard.first.access, hazard.second.access
        act = self.act(fence)
        if isinstance(act, ProxyFence) and Proxy.ASYNC not in (first.proxy, second.proxy):
            return False
        return acts_in(act, first.space)

    def _might_order(self, fence: Operation, hazard: Hazard) -> bool:
        """Whether a fence may be why a pair that has no proof is in order: also in ways that are not followed.

        Behind a relaxed wait tcgen05.fence::after_thread_sync orders what the tensor core reads of shared memory, and a
        fence of threads what it does in tensor memory (9.7.18.6.3).
        """
        act, space = self.act(fence), hazard.first.access.space
        if isinstance(act, TensorFence | ThreadFence) and space is not Space.GLOBAL:
            return True
        return self.may_guard(fence, hazard)

    def removable(self, candidates: Sequence[Operation]) -> tuple[list[Operation], Proofs]:
        """A set of fences that may go together, none of the rest of which may go too; cheap ones stay for dear ones;
        and the proofs without them.

        `candidates` are in the order in which they should go. A pair is judged again only where a fence goes that its
        proof of the moment rests on.
        """
        if self.broken:
            return [], self
        doubtful = self._doubtful()
        tried = [f for f in candidates if not any(self._might_order(f, h) for h in doubtful)]
        tried = [f for f in tried if not any(acts_in(self.act(f), u.space) for u in self.unjudged)]
        gone: list[Operation] = []
        rest, until = dict(self.rest), self.graph.visited + MOST_TRIED
        now: dict[int, tuple[Hazard, Judge]] = {}
        for fence in tried:
            asked = [h for h in self.guarded(fence) if self._may_fall(h, rest[id(h)], fence)]
            if asked and self.graph.visited > until:
                self.untried.append(fence)
                continue
            if self._lets_start(gone, fence):
                continue
            judges = self.judges([*gone, fence])
            give_up_early(judges)
            new: dict[int, tuple[Hazard, Judge]] = {}
            for hazard in asked:
                again = self.again(judges, hazard)
                if again.verdict is not Verdict.ORDERED:
                    break
                new[id(hazard)] = again, judges[self.model_of(hazard)]
            else:
                gone.append(fence)
                now |= new
                rest |= {n: self._rests_on(*of) for n, of in new.items()}
        return gone, self._with(now).without(gone)

    def _lets_start(self, gone: Sequence[Operation], fence: Operation) -> bool:
        """Whether without a fence more accesses may come before the grids ahead have ended."""
        if not (self.graph.program.dependent and isinstance(self.act(fence), ThreadFence)):
            return False
        away = self.absent.union(e for f in (*gone, fence) for e in self.events[f])
        return not self._early(away) <= self.early

    def _with(self, now: Mapping[int, tuple[Hazard, Judge]]) -> Proofs:
        """The same with other proofs of some hazards."""
        found = copy(self)
        found.hazards = [now[id(h)][0] if id(h) in now else h for h in self.hazards]
        found.judge_of = self.judge_of | {id(h): judge for h, judge in now.values()}
        self.seen += [h for h, _ in now.values()]
        return found

    def model_of(self, hazard: Hazard) -> str:
        return self.models[hazard.first, hazard.second]

    def act(self, fence: Operation) -> Act | None:
        return self.events[fence][0].act

    def _may_fall(
        self, hazard: Hazard, rest: frozenset[Operation] | None, fence: Operation
    ) -> bool:
        return fence in rest if rest is not None else self.may_guard(fence, hazard)

    def _doubtful(self) -> list[Hazard]:
        """What has no proof even with every fence."""
        wrong = [h for h in self.hazards if h.verdict is not Verdict.ORDERED or self._elsewhere(h)]
        return wrong + self.unplaced

    @property
    def unplaced(self) -> list[Hazard]:
        """Pairs of what threads access and what the async proxy does in another CTA's memory: nothing says in which of
        the two CTAs a fence joins them (A1), so that one may be needed by either reading."""
        if "A1" in PROFILES[self.profile]:
            return []
        return [
            h
            for h in self.hazards
            if _generic_and_away(h.first.access, h.second)
            or _generic_and_away(h.second.access, h.first)
        ]

    @property
    def at_home(self) -> set[tuple[Place, Place, bool]]:
        """Which pairs in `unplaced` are in order by the other reading, strictly and by the widest model."""
        if self._at_home is None:
            models = {True: PROFILES[UNHIDDEN] | {"A1"}, False: PROFILES[WIDEST]}
            judges = {m: Judge(self.graph, of, self.absent, self.wary) for m, of in models.items()}
            self._at_home = {
                (h.first, h.second, strictly)
                for h in self.unplaced
                for strictly, judge in judges.items()
                if self._by(judge, h).verdict is Verdict.ORDERED
            }
        return self._at_home

    def _by(self, judge: Judge, hazard: Hazard) -> Hazard:
        return judge.hazard(hazard.first, hazard.second, self.others[hazard.first, hazard.second])

    def _elsewhere(self, hazard: Hazard) -> bool:
        """Whether tensor memory is in order by another model only: a fence may do what this one cannot follow."""
        other = self.model_of(hazard) != self.profile
        return other and hazard.first.access.space is Space.TENSOR


def give_up_early(judges: Mapping[str, Judge]) -> None:
    """Lets judges say of a pair that it is in no order as soon as that is sure; not how."""
    for judge in judges.values():
        judge.near = {}


def _generic_and_away(generic: Access, away: Place) -> bool:
    """Whether one access is of threads, and the other of the async proxy in another CTA's shared memory."""
    access = away.access
    elsewhere = access.space is Space.SHARED and access.owner != away.node.role.cta
    return elsewhere and access.proxy is Proxy.ASYNC and generic.proxy is Proxy.GENERIC


def acts_in(act: Act | None, space: Space) -> bool:
    """Whether a fence can order accesses of a space."""
    if isinstance(act, TensorFence):
        return space is Space.TENSOR
    if isinstance(act, ProxyFence):
        return space not in (Space.TENSOR, Space.MAP) and act.space in (None, space)
    return space is not Space.TENSOR


def within_the_cta(act: Fence) -> bool:
    """Whether a fence acts on nothing beyond the CTA and its cluster, so that the analysis sees all that it orders."""
    if isinstance(act, ThreadFence):
        return act.scope is Scope.CTA
    return not (isinstance(act, ProxyFence) and act.space is not Space.SHARED)
