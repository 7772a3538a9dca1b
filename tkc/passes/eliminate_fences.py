"""Remove each fence that causality already gives, take the cheapest form of the rest, and write the proof on the
module.

Before: barriers, waits and fences are explicit.
After: no fence is left whose every hazard is in order without it; what stays is in its cheapest form. The module has a
certificate for all of it, checked on the program as it then is.
Here because: proofs need every synchronisation to be there; elections come after, which group what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.happens_before.chains import orders
from tkc.analysis.happens_before.paths import Unfollowed
from tkc.analysis.happens_before.proofs import Proofs, steps_of, within_the_cta
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Verdict
from tkc.analysis.items import role_of
from tkc.analysis.unseen import hidden_spaces, ordered_by, tensors_cross
from tkc.diagnostics import Diagnostic, Severity, report
from tkc.ir import certificates as c
from tkc.ir.isa.fences import PROXY_FENCES, form
from tkc.ir.isa.memory import Scope, Space
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import By
from tkc.passes.fencing.sites import cost, fences_of, spelled


@dataclass(frozen=True)
class EliminateFencesPass(ModulePass):
    """`eliminate-fences`. `fences`: `minimal`, or `as-written`, which leaves a program's own as they are; `model`: what
    proofs may rest on; `move`: whether one thread fences for a role behind its barrier where that is proved (A11)."""

    name = "eliminate-fences"
    fences: str = "minimal"
    model: str = "practice"
    move: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        made: list[c.Certificate] = []
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            if any(fences_of(kernel)):
                made.append(
                    Elimination(kernel, self.fences == "as-written", self.model, self.move).run()
                )
        c.write(op, made)


Change = Callable[[], Callable[[], None]]
"""Changes something, and gives the way back."""
Rested = dict[Operation, set[tuple[Operation, Operation]]]
"""The pairs whose first proof names a fence."""


@dataclass
class Elimination:
    """What is done to one kernel."""

    kernel: s.KernelOp
    as_written: bool
    model: str
    move: bool
    before: dict[Operation, str] = field(default_factory=dict[Operation, str])
    weakened: dict[Operation, Callable[[], None]] = field(
        default_factory=dict[Operation, Callable[[], None]]
    )
    followed: dict[Operation, Operation | None] = field(
        default_factory=dict[Operation, Operation | None]
    )
    moved: list[Operation] = field(default_factory=list[Operation])
    hidden: frozenset[Space] = frozenset()
    crossed: bool = False

    def run(self) -> c.Certificate:
        for role in [r for r in self.kernel.body.block.ops if isinstance(r, s.RoleOp)]:
            c.name_sites(
                role.sym_name.data,
                [op for op in role.walk() if op is not role and isinstance(op, s.StageOp)],
            )
        self.hidden, self.crossed = hidden_spaces(self.kernel), tensors_cross(self.kernel)
        try:
            proofs = Proofs(self.kernel, self.model)
        except Unfollowed:
            return self._left()
        _say_unjudged(self.kernel, proofs)
        candidates = sorted(
            (f for f in proofs.events if self._may_go(f, proofs)), key=cost, reverse=True
        )
        gone = proofs.removable(candidates)
        _say_untried(proofs)
        self.before = {f: spelled(f) for f in proofs.events}
        rested = _rested(proofs)
        self.weakened, proofs = self._weaken(proofs, gone)
        if self.move and (ways := self._behind_barriers(proofs, gone)):
            self.moved = list(ways)
            self.weakened |= ways
            proofs = Proofs(self.kernel, self.model)
        return self._certified(proofs, gone, rested)

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

    # Cheaper forms ---------------------------------------------------------------------------------------------------

    def _weaken(
        self, proofs: Proofs, gone: list[Operation]
    ) -> tuple[dict[Operation, Callable[[], None]], Proofs]:
        """Takes the cheapest form of each fence that stays, and the narrowest scope of each arrival and wait; gives the
        way back from each change, and the proofs after them."""
        if proofs.broken or proofs.unproved or proofs.unjudged:
            return {}, proofs
        plainly = set(proofs.models.values()) == {self.model}
        changes: list[tuple[Operation, list[Change]]] = []
        for op in list(self.kernel.walk()):
            if op in gone or (self.as_written and c.origin(c.label(op)) == "user"):
                continue
            if isinstance(op, s.MbarrierArriveOp | s.MbarrierWaitOp) and not plainly:
                continue  # what strict rules do not prove is not to rest on more assumptions still
            if ways := list(self._cheaper(op)):
                self.before.setdefault(op, spelled(op))
                changes.append((op, ways))
        if not changes:
            return {}, proofs
        undo = {op: ways[0]() for op, ways in changes}
        again = proofs.restated(undo)
        if _in_order(again, gone):
            return undo, again
        for back in undo.values():
            back()
        proofs.restated(undo)
        undo.clear()
        for op, ways in changes:
            proofs = self._first_that_holds(op, ways, proofs, gone, undo)
        return undo, proofs

    def _first_that_holds(
        self,
        op: Operation,
        ways: list[Change],
        proofs: Proofs,
        gone: list[Operation],
        undo: dict[Operation, Callable[[], None]],
    ) -> Proofs:
        """Makes the first change of an operation with which all is in order; gives the proofs after it."""
        for change in ways:
            back = change()
            again = proofs.restated((op,))
            if _in_order(again, gone):
                undo[op] = back
                return again
            back()
            proofs.restated((op,))
        return proofs

    def _cheaper(self, op: Operation) -> Iterator[Change]:
        """Changes of one operation, the one that saves most first; each gives the way back."""
        if isinstance(op, s.ProxyFenceOp) and (row := form(op.space.data)) is not None:
            if row.covers & self.hidden or (row.covers != {Space.SHARED} and self.crossed):
                return
            for other in PROXY_FENCES:
                if other.cost < row.cost and other.covers <= row.covers:
                    yield _setting(op, "space", StringAttr(other.word))
        elif isinstance(op, s.MbarrierArriveOp | s.MbarrierWaitOp):
            if self.kernel.most_ctas is not None and _of_several_units(op.barriers):
                return  # what is proved of one unit says nothing of another in its cluster
            if op.scope is not None and op.scope.data == Scope.CLUSTER:
                yield _setting(op, "scope", None)

    # Other places ----------------------------------------------------------------------------------------------------

    def _behind_barriers(
        self, proofs: Proofs, gone: list[Operation]
    ) -> dict[Operation, Callable[[], None]]:
        """Lets one thread, behind the role's next barrier, fence for all that did so before it; gives the ways back."""
        found: dict[Operation, Callable[[], None]] = {}
        if proofs.broken or proofs.unproved or proofs.unjudged:
            return found
        for fence in [f for f in proofs.events if f not in gone and self._may_move(f)]:
            barrier = _next_barrier(fence)
            if barrier is None:
                continue
            self.before.setdefault(fence, spelled(fence))
            undo = self._behind(fence, barrier)
            if _in_order(Proofs(self.kernel, self.model), gone):
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

    def _behind(self, fence: Operation, barrier: Operation) -> Callable[[], None]:
        block, following = fence.parent_block(), fence.next_op
        assert block is not None
        role = barrier.parent_block()
        assert role is not None
        by = _setting(fence, "by", StringAttr(By.ONE))()
        fence.detach()
        role.insert_op_after(fence, barrier)

        def back() -> None:
            by()
            fence.detach()
            self._put_back([(fence, block, following)])

        return back

    # Certificates ----------------------------------------------------------------------------------------------------

    def _certified(self, proofs: Proofs, gone: list[Operation], rested: Rested) -> c.Certificate:
        """Takes the fences out, and puts those back whose certificate the checker does not accept."""
        final = list(proofs.finally_without(gone))
        if lost := _lost(proofs.hazards, [hazard for hazard, _ in final]):
            report(
                _own_fault(
                    gone[0], f"without it {lost} would not be in order, so every fence stays"
                )
            )
            return self._certified(proofs, [], rested)
        certificate = self._certificate(proofs, gone, rested, final)
        places = [(f, f.parent_block(), f.next_op) for f in gone]
        self.followed = {f: following for f, _, following in places}
        for fence in gone:
            fence.detach()
        doubtful = self._doubtful(certificate)
        if moved := [
            op for op in doubtful if op in self.moved
        ]:  # what is left in place may be proved
            self._put_back(places)
            for op in moved:
                self.moved.remove(op)
                self.weakened.pop(op)()
            proofs = Proofs(self.kernel, self.model)
            return self._certified(proofs, gone, _rested(proofs))
        for diagnostic in dict.fromkeys(doubtful.values()):
            report(diagnostic)
        self._put_back([p for p in places if p[0] in doubtful])
        for op in doubtful:
            if op in self.weakened:
                self.weakened.pop(op)()
        for fence in gone:
            if fence not in doubtful:
                fence.erase()
        ids = {c.label(op) for op in doubtful}
        sites = tuple(
            site._replace(verdict="kept", after=site.before) if site.id in ids else site
            for site in certificate.sites
        )
        return certificate._replace(sites=sites)

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

    def _certificate(
        self,
        proofs: Proofs,
        gone: list[Operation],
        rested: Rested,
        final: list[tuple[Hazard, Judge]],
    ) -> c.Certificate:
        changed = [*gone, *self.weakened]
        made: list[c.Order] = []
        guarded: dict[Operation, list[int]] = {op: [] for op in changed}
        mine: dict[Operation, list[int]] = {op: [] for op in changed}
        for hazard, judge in final:
            guards = [
                op
                for op in changed
                if hazard.verdict is Verdict.ORDERED and _may_guard(proofs, op, hazard)
            ]
            if not guards:
                continue
            pair = hazard.first, hazard.second
            model = proofs.models[pair]
            entries = orders(judge, hazard, proofs.others[pair], model)
            numbers = range(len(made), len(made) + len(entries))
            made += entries
            for op in guards:
                guarded[op] += numbers
                if _pair(hazard) in rested.get(op, ()):
                    mine[op] += numbers
        sites = [
            self._site(op, gone, guarded.get(op, []), mine.get(op, []))
            for op in self.before
            if op in changed or op in proofs.events
        ]
        return c.Certificate(self.kernel.sym_name.data, self.model, tuple(made), tuple(sites))

    def _site(
        self, op: Operation, gone: list[Operation], orders: list[int], rested: list[int]
    ) -> c.Site:
        moved = op in self.moved
        changed = "moved" if moved else "weakened" if op in self.weakened else "kept"
        verdict = "removed" if op in gone else changed
        after = "" if op in gone else spelled(op) + " by one thread" * moved
        place = location_of(op)
        id = c.label(op)
        return c.Site(
            id,
            op.name,
            c.origin(id),
            verdict,
            self.before[op],
            after,
            str(place or ""),
            tuple(orders),
            tuple(rested),
        )


def _lost(before: Sequence[Hazard], after: Sequence[Hazard]) -> str:
    """Two accesses that are in order by the first verdicts and not by the second; there must be none."""
    for was, now in zip(before, after, strict=True):
        if was.verdict is Verdict.ORDERED and now.verdict is not Verdict.ORDERED:
            return " and ".join(c.label(op) for op in _pair(was))
    return ""


def _pair(hazard: Hazard) -> tuple[Operation, Operation]:
    return hazard.first.event.op, hazard.second.event.op


def _may_guard(proofs: Proofs, op: Operation, hazard: Hazard) -> bool:
    """Whether an operation may be what orders a pair: a fence of its kind, or a step of its chain."""
    if op in proofs.events:
        return proofs.may_guard(op, hazard)
    return any(event.op is op for event in steps_of(hazard))


def _rested(proofs: Proofs) -> Rested:
    return {f: {_pair(h) for h in proofs.resting(f)} for f in proofs.events}


def _in_order(proofs: Proofs, gone: list[Operation]) -> bool:
    """Whether all is proved, also without some fences."""
    if proofs.broken or proofs.unproved or proofs.unjudged:
        return False
    return all(h.verdict is Verdict.ORDERED for h, _ in proofs.finally_without(gone))


def _next_barrier(fence: Operation) -> Operation | None:
    """The role's next barrier, in the same block."""
    at = fence.next_op
    while at is not None and not isinstance(at, s.RoleBarrierOp):
        at = at.next_op
    return at


def _setting(
    op: Operation, name: str, value: StringAttr | None
) -> Callable[[], Callable[[], None]]:
    """A change of one property."""

    def put(new: object) -> None:
        if new is None:
            op.properties.pop(name, None)
        else:
            op.properties[name] = new  # pyright: ignore

    def change() -> Callable[[], None]:
        old = op.properties.get(name)
        put(value)
        return lambda: put(old)

    return change


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


def _of_several_units(barriers: SSAValue) -> bool:
    """Whether all units of a cluster arrive there."""
    op = barriers.owner
    return isinstance(op, s.BarriersOp) and op.shared is not None
