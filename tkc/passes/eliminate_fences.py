"""Remove each fence that causality already gives, take the cheapest form of the rest, and write the proof on the
module.

Before: barriers, waits and fences are explicit.
After: no fence is left whose every hazard is in order without it; what stays is in its cheapest form. The module has a
certificate for all of it, checked on the program as it then is.
Here because: proofs need every synchronisation to be there; elections come after, which group what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.happens_before.paths import Unfollowed
from tkc.analysis.happens_before.proofs import Proofs, within_the_cta
from tkc.analysis.happens_before.rests import steps_of
from tkc.analysis.happens_before.verdicts import Hazard
from tkc.analysis.items import role_of
from tkc.analysis.unseen import hidden_spaces, ordered_by, tensors_cross
from tkc.diagnostics import Diagnostic, Severity, report
from tkc.ir import certificates as c
from tkc.ir.isa.assumptions import granted
from tkc.ir.isa.fences import NEWEST, PROXY_FENCES, RELAXED, form, halves
from tkc.ir.isa.memory import Scope, Sem, Space
from tkc.ir.isa.targets import Version
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import By
from tkc.ir.target import target_of
from tkc.passes.fencing import record
from tkc.passes.fencing.changes import Change, Undo, setting
from tkc.passes.fencing.halves import Halves, issuers
from tkc.passes.fencing.sites import cost, fences_of, spelled
from tkc.passes.fencing.waits import Waits, is_last, waits_of

TELLING = (s.MbarrierArriveOp, s.MbarrierWaitOp, s.BulkWaitOp)
"""What tells other threads of accesses of any space."""


@dataclass(frozen=True)
class EliminateFencesPass(ModulePass):
    """`eliminate-fences`. `fences`: `minimal`, or `as-written`, which leaves a program's own as they are; `model`: what
    proofs may rest on; `move`: whether one thread fences for a role behind its barrier where that is proved (A11);
    `newest`: whether forms may be taken that want a later PTX version than the target does."""

    name = "eliminate-fences"
    fences: str = "minimal"
    model: str = "practice"
    move: bool = False
    newest: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        made: list[c.Certificate] = []
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            if any(fences_of(kernel)) or any(waits_of(kernel)):
                as_written = self.fences == "as-written"
                ptx = NEWEST if self.newest else target_of(op).ptx
                made.append(Elimination(kernel, as_written, self.model, self.move, ptx).run())
        c.write(op, made)


@dataclass
class Elimination:
    """What is done to one kernel."""

    kernel: s.KernelOp
    as_written: bool
    model: str
    move: bool
    ptx: Version
    before: dict[Operation, str] = field(default_factory=dict[Operation, str])
    weakened: dict[Operation, Undo] = field(default_factory=dict[Operation, Undo])
    followed: dict[Operation, Operation | None] = field(
        default_factory=dict[Operation, Operation | None]
    )
    moved: list[Operation] = field(default_factory=list[Operation])
    halves: Halves = field(default_factory=Halves)
    waits: Waits = field(init=False)
    hidden: frozenset[Space] = frozenset()
    crossed: bool = False
    waited: bool = False
    unsure: bool = False

    def run(self) -> c.Certificate:
        for role in [r for r in self.kernel.body.block.ops if isinstance(r, s.RoleOp)]:
            c.name_sites(
                role.sym_name.data,
                [op for op in role.walk() if op is not role and isinstance(op, s.StageOp)],
            )
        self.hidden, self.crossed = hidden_spaces(self.kernel), tensors_cross(self.kernel)
        self.waited = any(waits_of(self.kernel))
        try:
            proofs = self._proofs()
        except Unfollowed:
            return self._left()
        self.unsure = bool(proofs.unsure)
        _say_unjudged(self.kernel, proofs)
        candidates = sorted(
            (f for f in proofs.events if self._may_go(f, proofs)), key=cost, reverse=True
        )
        gone, left = proofs.removable(candidates)
        _say_untried(proofs)
        if lost := record.lost(proofs.hazards, left.hazards):
            told = f"without it {lost} would not be in order, so every fence stays"
            report(_own_fault(gone[0], told))
            gone, left = [], proofs
        self.before = {f: spelled(f) for f in proofs.events}
        rested = record.rested(proofs)
        if self._without_waits(proofs, gone, rested):
            left = self._proofs().without(gone)
        self.weakened, proofs = self._weaken(left, gone)
        if self.move and (ways := self._behind_barriers(proofs, gone)):
            self.moved = list(ways)
            self.weakened |= ways
            proofs = self._proofs().without(gone)
        ways, proofs = self._halved(proofs, gone)
        self.weakened |= ways
        self.before |= dict.fromkeys(self.halves.wanted, "")
        certificate = self._certified(proofs, gone, rested)
        proofs.let_go()
        return certificate

    def _proofs(self) -> Proofs:
        """The proofs of the kernel as it now is."""
        return Proofs(self.kernel, self.model, self.waited)

    def _left(self) -> c.Certificate:
        """Every fence stays."""
        name = self.kernel.sym_name.data
        told = (
            f"kernel {name} has more accesses to be ordered than are followed, so every fence stays"
        )
        report(_kept(self.kernel, told))
        return c.Certificate(name, self.model, (), ())

    def _may_go(self, fence: Operation, proofs: Proofs) -> bool:
        if self.as_written and c.origin(c.label(fence)) == "user":
            return False
        if ordered_by(fence) & self.hidden:
            return False
        return within_the_cta(proofs.events[fence][0].act) or not self.crossed  # pyright: ignore

    def _without_waits(self, proofs: Proofs, gone: list[Operation], rested: record.Rested) -> bool:
        """Takes a program's needless waits out; says whether there were any. `proofs`: with all fences."""
        self.waits = Waits(self.kernel)
        settled = proofs.settled and not proofs.untried
        if (
            self.as_written
            or self.hidden
            or self.crossed
            or proofs.unplaced
            or not (settled and self._plainly(proofs))
        ):
            return False
        awaits = [w for w in waits_of(self.kernel) if self._may_give_way(w)]
        self.waits.take(awaits, proofs, gone, lambda: self._still_proved(proofs, gone))
        for wait, told in self.waits.told.items():
            self.before[wait] = spelled(wait)
            rested[wait] = {record.pair_of(h) for h in told}
        return bool(self.waits.told)

    # Cheaper forms ---------------------------------------------------------------------------------------------------

    def _weaken(
        self, proofs: Proofs, gone: list[Operation]
    ) -> tuple[dict[Operation, Undo], Proofs]:
        """Takes the cheapest form of each fence that stays, and the narrowest scope of each arrival and wait; gives the
        way back from each change, and the proofs after them."""
        if not proofs.settled:
            return {}, proofs
        tells = not (self.hidden or self.crossed) and self._plainly(proofs) and self._holds_within()
        changes: list[tuple[Operation, list[Change]]] = []
        for op in list(self.kernel.walk()):
            if op in gone or (self.as_written and c.origin(c.label(op)) == "user"):
                continue
            if isinstance(op, TELLING) and not tells:
                continue  # it may tell of what is not followed, or of what strict rules do not prove
            if ways := list(self._cheaper(op)):
                self.before.setdefault(op, spelled(op))
                changes.append((op, ways))
        if not changes:
            return {}, proofs
        undo = {op: ways[0]() for op, ways in changes}
        again = proofs.restated(undo, hopeful=True)
        if again is not None:
            return undo, again
        for back in undo.values():
            back()
        proofs.restate(undo)
        undo.clear()
        for op, ways in changes:
            proofs = self._first_that_holds(op, ways, proofs, undo)
        return undo, proofs

    def _plainly(self, proofs: Proofs) -> bool:
        """Whether the model that was asked for proves every pair."""
        return set(proofs.models.values()) <= {self.model}

    def _holds_within(self) -> bool:
        """Whether a narrower arrival from another CTA hides none of its own CTA's that came before it (A15)."""
        alone = self.kernel.cluster is None or self.kernel.cluster.value.data == 1
        return alone or "A15" in granted(self.model)

    def _first_that_holds(
        self,
        op: Operation,
        ways: list[Change],
        proofs: Proofs,
        undo: dict[Operation, Undo],
    ) -> Proofs:
        """Makes the first change of an operation with which all is in order; gives the proofs after it."""
        for change in ways:
            back = change()
            again = proofs.restated((op,))
            if again is not None:
                undo[op] = back
                return again
            back()
            proofs.restate((op,))
        return proofs

    def _still_proved(self, proofs: Proofs, gone: list[Operation]) -> bool:
        """Whether all is in order in the kernel as it now is, on no more assumptions than before."""
        again = self._proofs().without(gone)
        return again.rest_on_no_more(proofs) and again.settled

    def _cheaper(self, op: Operation) -> Iterator[Change]:
        """Changes of one operation, the one that saves most first; each gives the way back."""
        if isinstance(op, s.ProxyFenceOp) and (row := form(op.space.data)) is not None:
            if row.covers & self.hidden or (row.covers != {Space.SHARED} and self.crossed):
                return
            for other in PROXY_FENCES:
                if other.cost < row.cost and other.covers <= row.covers:
                    yield setting(op, "space", StringAttr(other.word))
        elif isinstance(op, s.MbarrierArriveOp | s.MbarrierWaitOp):
            if self.kernel.most_ctas is not None and _of_several_units(op.barriers):
                return  # what is proved of one unit says nothing of another in its cluster
            if op.scope is not None and op.scope.data == Scope.CLUSTER:
                if not _relaxed_elsewhere(op):
                    yield setting(op, "scope", None)
                if op.sem is None and self.ptx >= RELAXED:
                    yield setting(op, "sem", StringAttr(Sem.RELAXED))
        elif isinstance(op, s.BulkWaitOp) and op.read is None and c.origin(c.label(op)) == "user":
            if self._may_give_way(op):
                yield setting(op, "read", UnitAttr())

    def _may_give_way(self, wait: Operation) -> bool:
        """Whether a wait may be asked about: where stores may come to one place in no order that is followed, one that
        awaits what they write is what orders them, unless nothing comes after it."""
        awaits = isinstance(wait, s.BulkWaitOp) and wait.read is None
        return not (awaits and self.unsure) or is_last(wait)

    def _halved(
        self, proofs: Proofs, gone: list[Operation]
    ) -> tuple[dict[Operation, Undo], Proofs]:
        """Takes a one-way form of fences for which it is enough; gives the ways back, and the proofs after them."""
        found: dict[Operation, Undo] = {}
        if not proofs.settled or proofs.unplaced:
            return found, proofs
        ways = list(self._one_way(proofs, gone))
        if not ways:
            return found, proofs
        halves = self.halves.may_stand(op for _, _, issuing in ways for op in issuing)
        proofs = proofs.preceded(halves)
        for fence, word, issuing in ways:
            if fence in found:
                continue
            undo = self.halves.of(fence, word, issuing)()
            again = proofs.restated((fence,), [halves[op] for op in issuing])
            if again is not None:
                found[fence], proofs = undo, again
            else:
                undo()
                proofs.restate((fence,))
        return found, proofs

    def _one_way(
        self, proofs: Proofs, gone: list[Operation]
    ) -> Iterator[tuple[s.ProxyFenceOp, str, list[Operation]]]:
        """Fences with the one-way forms that each may get, and the operations before which the other half is needed."""
        fences = [f for f in proofs.events if f not in gone and self._may_halve(f)]
        if not fences:
            return
        rest: dict[Operation, list[Hazard]] = {}
        for hazard in proofs.hazards:
            for fence in dict.fromkeys(e.op for e in steps_of(hazard)):
                rest.setdefault(fence, []).append(hazard)
        for fence in fences:
            for word in halves(fence.space.data, self.ptx):
                if issuing := issuers(word, rest.get(fence, ())):
                    yield fence, word, issuing

    def _may_halve(self, fence: Operation) -> TypeGuard[s.ProxyFenceOp]:
        if not isinstance(fence, s.ProxyFenceOp) or fence in self.moved:
            return False
        if self.as_written and c.origin(c.label(fence)) == "user":
            return False
        return not ordered_by(fence) & self.hidden and any(halves(fence.space.data, self.ptx))

    # Other places ----------------------------------------------------------------------------------------------------

    def _behind_barriers(self, proofs: Proofs, gone: list[Operation]) -> dict[Operation, Undo]:
        """Lets one thread, behind the role's next barrier, fence for all that did so before it; gives the ways back."""
        found: dict[Operation, Undo] = {}
        if not proofs.settled or proofs.unplaced:
            return found
        for fence in [f for f in proofs.events if f not in gone and self._may_move(f)]:
            barrier = _next_barrier(fence)
            if barrier is None:
                continue
            self.before.setdefault(fence, spelled(fence))
            undo = self._behind(fence, barrier)
            if self._still_proved(proofs, gone):
                found[fence] = undo
            else:
                undo()
        return found

    def _may_move(self, fence: Operation) -> bool:
        role = role_of(fence)
        if not isinstance(fence, s.ProxyFenceOp) or form(fence.space.data) is None or role is None:
            return False
        if self.as_written and c.origin(c.label(fence)) == "user":
            return False
        everyone = fence.executed_by is not By.ONE and role.warps.value.data > 1
        return everyone and not ordered_by(fence) & self.hidden

    def _behind(self, fence: Operation, barrier: Operation) -> Undo:
        block, following = fence.parent_block(), fence.next_op
        assert block is not None
        role = barrier.parent_block()
        assert role is not None
        by = setting(fence, "by", StringAttr(By.ONE))()
        fence.detach()
        role.insert_op_after(fence, barrier)

        def back() -> None:
            by()
            fence.detach()
            self._put_back([(fence, block, following)])

        return back

    # Certificates ----------------------------------------------------------------------------------------------------

    def _certified(
        self, proofs: Proofs, gone: list[Operation], rested: record.Rested
    ) -> c.Certificate:
        """Takes the fences out, and puts those back whose certificate the checker does not accept."""
        changes = record.Changes(
            self.before, gone, self.waits.told, self.weakened, self.moved, self.halves.wanted
        )
        certificate = record.certificate(proofs, changes, rested)
        places = [(f, f.parent_block(), f.next_op) for f in gone]
        self.followed = {f: following for f, _, following in places}
        for fence in gone:
            fence.detach()
        doubtful = self._doubtful(certificate)
        if not self.waits.told.keys().isdisjoint(doubtful):
            return self._with_waits(doubtful, places, gone)
        if moved := [
            op for op in doubtful if op in self.moved
        ]:  # what is left in place may be proved
            self._put_back(places)
            for op in moved:
                self.moved.remove(op)
                self.weakened.pop(op)()
            proofs = self._proofs()
            return self._certified(proofs.without(gone), gone, record.rested(proofs))
        for diagnostic in dict.fromkeys(doubtful.values()):
            report(diagnostic)
        self._put_back([p for p in places if p[0] in doubtful])
        added = {c.label(half): half for half in self.halves.wanted}
        undone = [f for op in doubtful for f in [*self.halves.wanted.get(op, ()), op]]
        for op in dict.fromkeys(undone):
            if op in self.weakened:
                self.weakened.pop(op)()
        for fence in gone:
            if fence not in doubtful:
                fence.erase()
        ids = {c.label(op) for op in undone} - set(added)
        away = {id for id, half in added.items() if half not in self.halves.wanted}
        sites = tuple(
            site._replace(verdict="kept", after=site.before) if site.id in ids else site
            for site in certificate.sites
            if site.id not in away
        )
        return certificate._replace(sites=sites)

    def _with_waits(
        self,
        doubtful: dict[Operation, Diagnostic],
        places: list[tuple[Operation, Block | None, Operation | None]],
        gone: list[Operation],
    ) -> c.Certificate:
        """The same with all waits where they were: the checker does not accept that they are not needed."""
        for diagnostic in dict.fromkeys(d for op, d in doubtful.items() if op in self.waits.told):
            report(diagnostic)
        self._put_back(places)
        for wait in self.waits.told:
            del self.before[wait]
        self.waits.put_back()
        proofs = self._proofs()
        return self._certified(proofs.without(gone), gone, record.rested(proofs))

    def _doubtful(self, certificate: c.Certificate) -> dict[Operation, Diagnostic]:
        """The changed operations with a pair that the checker does not accept, and what is to be said of it."""
        from tkc.analysis.certificates import wrong
        from tkc.analysis.instances import Unknown

        by_id = {c.label(op): op for op in self.before}
        changed = [site for site in certificate.sites if site.verdict != "kept"]
        try:
            bad = wrong(certificate, self.kernel)
        except Unknown as error:
            told = _kept(self.kernel, f"proofs cannot be checked on small numbers: {error}")
            return {by_id[site.id]: told for site in changed}
        doubtful: dict[Operation, Diagnostic] = {}
        for site in changed:
            if found := set(site.orders) & set(bad):
                op = by_id[site.id]
                why = f"the certificate of {site.id} does not hold, so it stays: {bad[min(found)]}"
                doubtful[op] = _own_fault(op, why)
        return doubtful

    def _put_back(self, places: list[tuple[Operation, Block | None, Operation | None]]) -> None:
        """Fences where they stood; the last first, so that each finds what followed it."""
        for fence, block, following in reversed(places):
            assert block is not None
            while following is not None and following.parent is None:
                following = self.followed[following]
            if following is None:
                block.add_op(fence)
            else:
                block.insert_op_before(fence, following)


def _next_barrier(fence: Operation) -> Operation | None:
    """The role's next barrier, in the same block."""
    at = fence.next_op
    while at is not None and not isinstance(at, s.RoleBarrierOp):
        at = at.next_op
    return at


def _say_unjudged(kernel: s.KernelOp, proofs: Proofs) -> None:
    for space, buffer, accesses in proofs.unjudged:
        name = getattr(buffer, "name_hint", None) or "a buffer"
        told = f"{name} has {accesses} accesses, too many to compare: fences of {space} memory stay"
        report(_kept(kernel, told))


def _say_untried(proofs: Proofs) -> None:
    for fence in proofs.untried:
        report(
            _kept(fence, f"{c.label(fence)} stays: no time is left to prove that it is not needed")
        )


def _kept(op: Operation, message: str) -> Diagnostic:
    return Diagnostic("TK223", message, location_of(op), Severity.REMARK)


def _own_fault(op: Operation, message: str) -> Diagnostic:
    return Diagnostic("TK902", message, location_of(op), Severity.WARNING)


def _relaxed_elsewhere(op: Operation) -> bool:
    """Whether an arrival on another CTA's barrier publishes nothing, which PTX says of the cluster's scope alone."""
    if not isinstance(op, s.MbarrierArriveOp) or op.rank is None:
        return False
    return op.sem is not None and op.sem.data == Sem.RELAXED


def _of_several_units(barriers: SSAValue) -> bool:
    """Whether all units of a cluster arrive there."""
    op = barriers.owner
    return isinstance(op, s.BarriersOp) and op.shared is not None
