"""A certificate of what has been done to a kernel: the pairs that it might have concerned, with their proofs, and what
became of each synchronisation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from tkc.analysis.happens_before.chains import orders
from tkc.analysis.happens_before.proofs import Proofs
from tkc.analysis.happens_before.rests import steps_of
from tkc.analysis.happens_before.verdicts import Hazard, Verdict
from tkc.ir import certificates as c
from tkc.ir.locations import location_of
from tkc.passes.fencing.sites import spelled

Rested = dict[Operation, set[tuple[Operation, Operation]]]
"""The pairs whose first proof names a fence or a wait."""


class Changes(NamedTuple):
    """What became of synchronisations; `before`: what each was, in words, of all that are told of."""

    before: Mapping[Operation, str]
    gone: Collection[Operation]
    waits: Collection[Operation]
    weakened: Collection[Operation]
    moved: Collection[Operation]
    inserted: Collection[Operation]

    @property
    def all(self) -> list[Operation]:
        return [*self.gone, *self.waits, *self.weakened, *self.inserted]

    def verdict(self, op: Operation) -> str:
        if op in self.gone or op in self.waits:
            return "removed"
        if op in self.inserted:
            return "inserted"
        return "moved" if op in self.moved else "weakened" if op in self.weakened else "kept"


def rested(proofs: Proofs) -> Rested:
    return {f: {pair_of(h) for h in proofs.resting(f)} for f in proofs.events}


def pair_of(hazard: Hazard) -> tuple[Operation, Operation]:
    return hazard.first.event.op, hazard.second.event.op


def lost(before: Sequence[Hazard], after: Sequence[Hazard]) -> str:
    """Two accesses that are in order by the first verdicts and not by the second; there must be none."""
    for was, now in zip(before, after, strict=True):
        if was.verdict is Verdict.ORDERED and now.verdict is not Verdict.ORDERED:
            return " and ".join(c.label(op) for op in pair_of(was))
    return ""


def certificate(proofs: Proofs, changes: Changes, rests: Rested) -> c.Certificate:
    """`proofs`: of the kernel as it then is."""
    changed = changes.all
    made: list[c.Order] = []
    guarded: dict[Operation, list[int]] = {op: [] for op in changed}
    mine: dict[Operation, list[int]] = {op: [] for op in changed}
    for hazard, judge in proofs.proved():
        if hazard.verdict is not Verdict.ORDERED:
            continue
        guards = [op for op in changed if _may_guard(proofs, op, hazard, changes, rests)]
        if not guards:
            continue
        pair = hazard.first, hazard.second
        entries = orders(judge, hazard, proofs.others[pair], proofs.models[pair])
        numbers = range(len(made), len(made) + len(entries))
        made += entries
        for op in guards:
            guarded[op] += numbers
            if pair_of(hazard) in rests.get(op, ()):
                mine[op] += numbers
    sites = [
        _site(op, changes, guarded.get(op, []), mine.get(op, []))
        for op in changes.before
        if op in guarded or op in proofs.events
    ]
    return c.Certificate(proofs.kernel.sym_name.data, proofs.profile, tuple(made), tuple(sites))


def _may_guard(
    proofs: Proofs, op: Operation, hazard: Hazard, changes: Changes, rests: Rested
) -> bool:
    """Whether an operation may be what orders a pair: a fence of its kind, a wait that its proof used, or a step of its
    chain."""
    if op in proofs.events:
        return proofs.may_guard(op, hazard)
    if op in changes.waits:
        return pair_of(hazard) in rests[op]
    return any(event.op is op for event in steps_of(hazard))


def _site(op: Operation, changes: Changes, orders: list[int], rested: list[int]) -> c.Site:
    verdict, id, place = changes.verdict(op), c.label(op), location_of(op)
    after = spelled(op) + " by one thread" * (verdict == "moved")
    return c.Site(
        id,
        op.name,
        c.origin(id),
        verdict,
        changes.before[op],
        "" if verdict == "removed" else after,
        str(place or ""),
        tuple(orders),
        tuple(rested),
    )
