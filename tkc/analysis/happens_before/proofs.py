"""What each fence of a kernel is needed for: every hazard with its proof, and again without some of the fences.

Where a hazard has no proof with all fences in place, one that might order it is kept: the analysis may have missed why.
Where barriers do not keep their protocol nothing is proved, for every proof takes it for granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tkc.analysis.happens_before.events import Event, ProxyFence, TensorFence, ThreadFence
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import Graph, build
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Place, Verdict, conflicts, places
from tkc.analysis.moments import deadlocks
from tkc.analysis.protocol import check_barriers, check_laps, check_meetings
from tkc.ir.isa.memory import Proxy, Scope, Space
from tkc.ir.stage.ops import KernelOp

WIDEST = "practice"
Fence = ProxyFence | TensorFence | ThreadFence


@dataclass(eq=False)
class Proofs:
    """The hazards of a kernel under a profile. `broken`: its barriers do not keep their protocol. Raises
    `Unfollowed`."""

    kernel: KernelOp
    profile: str = "practice"
    graph: Graph = field(init=False)
    broken: bool = field(init=False)
    hazards: list[Hazard] = field(init=False)
    events: dict[Operation, list[Event]] = field(init=False)

    def __post_init__(self) -> None:
        self.graph = build(program(self.kernel))
        self.graph.assumed = PROFILES[self.profile]
        self.graph.bounded = (
            True  # until it is judged: a change of the program is never left half made
        )
        checks = (check_meetings, check_barriers, deadlocks, check_laps)
        self.broken = any(check(self.graph) for check in checks)
        self.others: dict[tuple[Place, Place], list[Place]] = {}
        for here in places(self.graph).values():
            for first, second in conflicts(here):
                self.others[first, second] = here
        self.models: dict[tuple[Place, Place], str] = {}
        self.hazards = self._judged()
        self.graph.bounded = False
        self.events = {}
        for role in self.graph.program.roles:
            for event in role.events():
                if isinstance(event.act, Fence):
                    self.events.setdefault(event.op, []).append(event)
        self.resting: dict[Operation, list[Hazard]] = {op: [] for op in self.events}
        self.guarded: dict[Operation, list[Hazard]] = {op: [] for op in self.events}
        for hazard in self.hazards:
            for op in self.on_the_chain(hazard):
                self.resting[op].append(hazard)
            for op in self.guards(hazard):
                self.guarded[op].append(hazard)

    def _judged(self) -> list[Hazard]:
        """The verdicts, those of alike pairs once; under `practice` where this profile has no proof with all fences
        there."""
        judge = Judge(self.graph, PROFILES[self.profile])
        found = {
            id(h): h for h in (judge.hazard(a, b, here) for (a, b), here in self.others.items())
        }
        made: list[Hazard] = []
        wider = Judge(self.graph, PROFILES[WIDEST])
        for hazard in found.values():
            pair, model = (hazard.first, hazard.second), self.profile
            if hazard.verdict is not Verdict.ORDERED and self.profile != WIDEST:
                hazard, model = wider.hazard(*pair, self.others[pair]), WIDEST
            self.models[pair] = model
            made.append(hazard)
        return made

    @property
    def unproved(self) -> list[Hazard]:
        return [h for h in self.hazards if h.verdict is not Verdict.ORDERED]

    def guards(self, hazard: Hazard) -> list[Operation]:
        """The fences that could order a hazard. A chain shows one way of several: where branches meet, or arrivals are
        gathered, the others rest on fences that it does not name."""
        return [f for f in self.events if self.may_guard(f, hazard)]

    def on_the_chain(self, hazard: Hazard) -> list[Operation]:
        """The fences that a hazard's chain names."""
        used = [event.op for event in steps_of(hazard) if isinstance(event.act, Fence)]
        return list(dict.fromkeys(used))

    def judges(self, away: Iterable[Operation]) -> dict[str, Judge]:
        """The judge of each model for the kernel without some fences."""
        gone = frozenset(e for f in away for e in self.events[f])
        return {m: Judge(self.graph, PROFILES[m], gone) for m in (self.profile, WIDEST)}

    def again(self, judges: dict[str, Judge], hazard: Hazard) -> Hazard:
        """The verdict on a hazard by other judges."""
        pair = hazard.first, hazard.second
        return judges[self.models[pair]].hazard(*pair, self.others[pair])

    def without(self, away: Iterable[Operation]) -> list[Hazard]:
        """The verdicts without some fences on all hazards that one of them could order."""
        gone = list(dict.fromkeys(away))
        judges = self.judges(gone)
        return [
            self.again(judges, h) for h in dict.fromkeys(h for f in gone for h in self.guarded[f])
        ]

    def may_guard(self, fence: Operation, hazard: Hazard) -> bool:
        """Whether a fence is of the kind that could order two accesses."""
        act = self.events[fence][0].act
        first, second = hazard.first.access, hazard.second.access
        if isinstance(act, TensorFence):
            return first.space is Space.TENSOR
        if isinstance(act, ProxyFence):
            async_too = Proxy.ASYNC in (first.proxy, second.proxy)
            return (
                async_too and first.space is not Space.TENSOR and act.space in (None, first.space)
            )
        return first.space is not Space.TENSOR

    def removable(self, candidates: Sequence[Operation]) -> list[Operation]:
        """A set of fences that may go together, none of the rest of which may go too; cheap ones stay for dear ones.

        `candidates` are in the order in which they should go.
        """
        if self.broken:
            return []
        unproved = [*self.unproved, *(h for h in self.hazards if self._elsewhere(h))]
        gone = [f for f in candidates if not any(self.may_guard(f, h) for h in unproved)]
        back: list[Operation] = []
        while True:
            failed = [h for h in self.without(gone) if h.verdict is not Verdict.ORDERED]
            if not failed:
                break
            needed = {f for h in failed for f in self.guards(h)}
            back += [f for f in gone if f in needed]
            gone = [f for f in gone if f not in needed]
        for fence in [f for f in candidates if f in back]:
            if all(h.verdict is Verdict.ORDERED for h in self.without([*gone, fence])):
                gone.append(fence)
        return [f for f in candidates if f in gone]

    def _elsewhere(self, hazard: Hazard) -> bool:
        """Whether tensor memory is in order by another model only: a fence may do what this one cannot follow."""
        other = self.models[hazard.first, hazard.second] != self.profile
        return other and hazard.first.access.space is Space.TENSOR

    def counterexample(self, fence: Operation, gone: Iterable[Operation] = ()) -> Hazard | None:
        """A hazard that is not in order without a fence, where those of `gone` are gone already."""
        return next(
            (h for h in self.without([*gone, fence]) if h.verdict is not Verdict.ORDERED), None
        )


def steps_of(hazard: Hazard) -> list[Event]:
    """The events on a hazard's chain."""
    nodes = [n for step in hazard.chain if step.nodes is not None for n in step.nodes]
    return [n.event for n in nodes if n.event is not None]


def within_the_cta(act: Fence) -> bool:
    """Whether a fence acts on nothing beyond the CTA and its cluster, so that the analysis sees all that it orders."""
    if isinstance(act, ThreadFence):
        return act.scope is Scope.CTA
    return not (isinstance(act, ProxyFence) and act.space is not Space.SHARED)
