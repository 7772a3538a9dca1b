"""Which fences causality already gives: a fence is redundant if every hazard is still in order without it.

Two fences may each be redundant because of the other, so that a set of deletions is judged as a whole (S9).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.ir import Operation

from tkc.analysis.happens_before.events import Event, ProxyFence, TensorFence
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import Graph, build
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Verdict, hazards
from tkc.ir.stage.ops import KernelOp


@dataclass(frozen=True, slots=True)
class Redundancy:
    """The answer for some fences taken away together.

    `proofs`: the hazards whose order rested on one of them, proved without; each has its chain, the rules with their
    sections, and the assumptions. `counterexample`: one that is not in order without them, None where all are.
    """

    fences: tuple[Operation, ...]
    proofs: tuple[Hazard, ...]
    counterexample: Hazard | None = None

    @property
    def redundant(self) -> bool:
        return self.counterexample is None

    @property
    def assumptions(self) -> frozenset[str]:
        return frozenset().union(*(h.assumptions for h in self.proofs))


@dataclass(eq=False)
class Fences:
    """The fences of a kernel at the stage level, and what each is needed for. Its accesses must be in order."""

    kernel: KernelOp
    profile: str = "practice"
    graph: Graph = field(init=False)
    whole: list[Hazard] = field(init=False)

    def __post_init__(self) -> None:
        self.graph = build(program(self.kernel))
        self.whole = list(hazards(Judge(self.graph, PROFILES[self.profile])))
        self._events: dict[Operation, list[Event]] = {}
        for role in self.graph.program.roles:
            for event in role.events():
                if isinstance(event.act, ProxyFence | TensorFence):
                    self._events.setdefault(event.op, []).append(event)

    @property
    def sites(self) -> list[Operation]:
        """Every fence, in order."""
        return list(self._events)

    def redundant(self, *fences: Operation, gone: Iterable[Operation] = ()) -> Redundancy:
        """Whether some fences may be taken away together, where those of `gone` already are."""
        away = frozenset(e for f in (*fences, *gone) for e in self._events[f])
        judge = Judge(self.graph, PROFILES[self.profile], away)
        proofs: list[Hazard] = []
        for hazard in self.whole:
            if not self._rests_on(hazard, away):
                continue
            others = [
                p
                for h in self.whole
                for p in (h.first, h.second)
                if p.access.buffer == hazard.first.access.buffer
            ]
            again = judge.hazard(hazard.first, hazard.second, list(dict.fromkeys(others)))
            if again.verdict is not Verdict.ORDERED:
                return Redundancy(fences, tuple(proofs), again)
            proofs.append(again)
        return Redundancy(fences, tuple(proofs))

    def _rests_on(self, hazard: Hazard, away: frozenset[Event]) -> bool:
        """Whether a hazard has no proof, or one that uses an event that is taken away."""
        return hazard.verdict is not Verdict.ORDERED or any(
            node.event in away
            for step in hazard.chain
            if step.nodes is not None
            for node in step.nodes
        )

    def all_redundant(self) -> list[Operation]:
        """A largest set of fences, taken in order, that may go together."""
        gone: list[Operation] = []
        for fence in self.sites:
            if self.redundant(fence, gone=gone).redundant:
                gone.append(fence)
        return gone
