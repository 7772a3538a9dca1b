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
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from tkc.analysis.happens_before.chains import orders
from tkc.analysis.happens_before.paths import Unfollowed
from tkc.analysis.happens_before.proofs import Proofs, steps_of, within_the_cta
from tkc.analysis.happens_before.verdicts import Hazard, Judge, Verdict
from tkc.analysis.items import role_of
from tkc.diagnostics import Diagnostic, Severity, report
from tkc.ir import certificates as c
from tkc.ir.effects import effects_of
from tkc.ir.isa.fences import PROXY_FENCES, form
from tkc.ir.isa.memory import Proxy, Scope, Space, Touch
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import FenceOp
from tkc.ir.stage.ops import By
from tkc.ir.stage.types import BufferType


@dataclass(frozen=True)
class EliminateFencesPass(ModulePass):
    """`eliminate-fences`. `fences`: `minimal`, or `as-written`, which leaves a program's own as they are; `model`: what
    proofs may rest on."""

    name = "eliminate-fences"
    fences: str = "minimal"
    model: str = "practice"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        made: list[c.Certificate] = []
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            if any(fences_of(kernel)):
                made.append(Elimination(kernel, self.fences == "as-written", self.model).run())
        c.write(op, made)


def fences_of(kernel: s.KernelOp) -> Iterator[Operation]:
    """The operations whose only work is to order: every fence but those of wgmma's registers."""
    for op in kernel.walk():
        if isinstance(op, s.ProxyFenceOp | s.Tcgen05FenceOp | FenceOp):
            yield op


def cost(fence: Operation) -> int:
    """What a fence costs the role: its row's cost, for each warp that executes it, and tenfold in each loop."""
    role, depth = role_of(fence), 0
    assert role is not None
    at = fence.parent_op()
    while at is not None and at is not role:
        depth += isinstance(at, s.ForOp)
        at = at.parent_op()
    row = form(fence.space.data) if isinstance(fence, s.ProxyFenceOp) else None
    each = row.cost if row is not None else 0
    warps = (
        1 if isinstance(fence, s.StageOp) and fence.executed_by is By.ONE else role.warps.value.data
    )
    return each * warps * 10**depth


def spelled(op: Operation) -> str:
    """A synchronisation in the words of PTX, without operands."""
    match op:
        case s.ProxyFenceOp():
            space = op.space.data
            if space in ("acquire", "release"):
                return f"fence.proxy.async::generic.{space}"
            return "fence.proxy.async" + (f".{space}" if space else "")
        case s.Tcgen05FenceOp():
            return f"tcgen05.fence::{op.side.data}"
        case FenceOp():
            return f"fence.{op.sem.data}.{op.scope.data}"
        case _:
            words = [op.name.removeprefix("stage.")]
            for name in ("sem", "scope"):
                word = op.properties.get(name)
                words += [word.data] if isinstance(word, StringAttr) else []
            return ".".join(words)


MOST_PAIRS = 1000
"""Pairs of conflicting accesses up to which a kernel's fences are judged: the work grows faster than they do, and a
kernel that writes its tiles in hundreds of pieces keeps its fences rather than take minutes."""

Change = Callable[[], Callable[[], None]]
"""Changes something, and gives the way back."""


@dataclass
class Elimination:
    """What is done to one kernel."""

    kernel: s.KernelOp
    as_written: bool
    model: str
    before: dict[Operation, str] = field(default_factory=dict[Operation, str])
    weakened: list[Operation] = field(default_factory=list[Operation])
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
        if len(proofs.others) > MOST_PAIRS:
            return self._left()
        candidates = sorted(
            (f for f in proofs.events if self._may_go(f, proofs)), key=cost, reverse=True
        )
        gone = proofs.removable(candidates)
        self.before = {f: spelled(f) for f in proofs.events}
        self.weakened = self._weaken(proofs, gone)
        return self._certified(proofs, gone)

    def _left(self) -> c.Certificate:
        """Every fence stays."""
        report(
            Diagnostic(
                "TK223",
                f"kernel {self.kernel.sym_name.data} has more accesses to be ordered than are followed, so every fence "
                "stays",
                location_of(self.kernel),
                Severity.REMARK,
            )
        )
        return c.Certificate(self.kernel.sym_name.data, self.model, (), ())

    def _may_go(self, fence: Operation, proofs: Proofs) -> bool:
        if self.as_written and c.origin(c.label(fence)) == "user":
            return False
        if isinstance(fence, s.ProxyFenceOp) and form(fence.space.data) is None:
            return False  # one-way fences work in pairs
        if ordered_by(fence) & self.hidden:
            return False
        return within_the_cta(proofs.events[fence][0].act) or not self.crossed  # pyright: ignore

    # Cheaper forms ---------------------------------------------------------------------------------------------------

    def _weaken(self, proofs: Proofs, gone: list[Operation]) -> list[Operation]:
        """Takes the cheapest form of each fence that stays, and the narrowest scope of each arrival and wait."""
        if proofs.broken or proofs.unproved:
            return []
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
            return []
        undo = [ways[0]() for _, ways in changes]
        if self._still_proved(gone):
            return [op for op, _ in changes]
        for back in undo:
            back()
        return [op for op, ways in changes if any(self._holds(way, gone) for way in ways)]

    def _holds(self, change: Change, gone: list[Operation]) -> bool:
        """Makes a change, if all is in order with it."""
        undo = change()
        if self._still_proved(gone):
            return True
        undo()
        return False

    def _still_proved(self, gone: list[Operation]) -> bool:
        again = Proofs(self.kernel, self.model)
        return not again.broken and not again.unproved and _in_order(again, gone)

    def _cheaper(self, op: Operation) -> Iterator[Change]:
        """Changes of one operation, the one that saves most first; each gives the way back."""
        if isinstance(op, s.ProxyFenceOp) and (row := form(op.space.data)) is not None:
            if row.covers & self.hidden or (row.covers != {Space.SHARED} and self.crossed):
                return
            for other in PROXY_FENCES:
                if other.cost < row.cost and other.covers <= row.covers:
                    yield _setting(op, "space", StringAttr(other.word))
        elif isinstance(op, s.MbarrierArriveOp | s.MbarrierWaitOp):
            if op.scope is not None and op.scope.data == Scope.CLUSTER:
                yield _setting(op, "scope", None)

    # Certificates ----------------------------------------------------------------------------------------------------

    def _certified(self, proofs: Proofs, gone: list[Operation]) -> c.Certificate:
        """Takes the fences out, and puts those back whose certificate the checker does not accept."""
        from tkc.analysis.certificates import wrong

        rested = {f: {_pair(h) for h in hazards} for f, hazards in proofs.resting.items()}
        if self.weakened:
            proofs = Proofs(self.kernel, self.model)
        judges = proofs.judges(gone)
        final = [proofs.again(judges, h) for h in proofs.hazards]
        if lost := _lost(proofs.hazards, final):
            _own_fault(gone[0], f"without it {lost} would not be in order, so every fence stays")
            return self._certified(proofs, [])
        certificate = self._certificate(proofs, gone, rested, judges, final)
        places = [(f, f.parent_block(), f.next_op) for f in gone]
        for fence in gone:
            fence.detach()
        bad = wrong(certificate, self.kernel)
        if not bad:
            for fence in gone:
                fence.erase()
            return certificate
        return self._put_back(certificate, bad, places)

    def _put_back(
        self,
        certificate: c.Certificate,
        bad: dict[int, str],
        places: list[tuple[Operation, Block | None, Operation | None]],
    ) -> c.Certificate:
        """The fences of every pair that the checker does not accept stay; it says why."""
        sites: list[c.Site] = []
        by_id = {site.id: site for site in certificate.sites}
        doubtful = [
            by_id[c.label(f)] for f, _, _ in places if set(by_id[c.label(f)].orders) & set(bad)
        ]
        for fence, block, following in reversed(places):
            site = by_id[c.label(fence)]
            if site not in doubtful:
                continue
            assert block is not None
            while following is not None and following.parent is None:
                following = next((n for f, _, n in places if f is following), None)
            if following is None:
                block.add_op(fence)
            else:
                block.insert_op_before(fence, following)
            first = min(set(site.orders) & set(bad))
            _own_fault(
                fence, f"the certificate of {site.id} does not hold, so it stays: {bad[first]}"
            )
        for site in certificate.sites:
            sites.append(
                site._replace(verdict="kept", after=site.before) if site in doubtful else site
            )
        return certificate._replace(sites=tuple(sites))

    def _certificate(
        self,
        proofs: Proofs,
        gone: list[Operation],
        rested: dict[Operation, set[tuple[Operation, Operation]]],
        judges: dict[str, Judge],
        final: list[Hazard],
    ) -> c.Certificate:
        changed = [*gone, *self.weakened]
        made: list[c.Order] = []
        guarded: dict[Operation, list[int]] = {op: [] for op in changed}
        mine: dict[Operation, list[int]] = {op: [] for op in changed}
        for hazard in final:
            guards = [
                op
                for op in changed
                if hazard.verdict is Verdict.ORDERED and _may_guard(proofs, op, hazard)
            ]
            if not guards:
                continue
            pair = hazard.first, hazard.second
            model = proofs.models[pair]
            entries = orders(judges[model], hazard, proofs.others[pair], model)
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
        verdict = "removed" if op in gone else "weakened" if op in self.weakened else "kept"
        after = "" if op in gone else spelled(op)
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


def _in_order(proofs: Proofs, gone: list[Operation]) -> bool:
    return all(h.verdict is Verdict.ORDERED for h in proofs.without(gone))


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


EVERYTHING = frozenset({Space.SHARED, Space.GLOBAL, Space.TENSOR})


def ordered_by(fence: Operation) -> frozenset[Space]:
    """The spaces whose accesses a fence may order."""
    if isinstance(fence, s.Tcgen05FenceOp):
        return frozenset({Space.TENSOR})
    row = form(fence.space.data) if isinstance(fence, s.ProxyFenceOp) else None
    return row.covers if row is not None else EVERYTHING - {Space.TENSOR}


def hidden_spaces(kernel: s.KernelOp) -> frozenset[Space]:
    """Spaces with accesses that the analysis does not follow: of single elements, and of operations without rows."""
    found: set[Space] = set()
    for op in kernel.walk():
        rows = effects_of(op)
        if rows is None and not op.regions and not op.has_trait(Pure):
            return EVERYTHING
        for row in rows or ():
            if isinstance(row, Touch) and row.space is Space.GENERIC:
                shared = isinstance(getattr(op, row.operand).type, BufferType)
                found.add(Space.SHARED if shared else Space.GLOBAL)
    return frozenset(found)


def tensors_cross(kernel: s.KernelOp) -> bool:
    """Whether threads and the copy engine both touch tensors, in this CTA or another that the analysis does not see."""
    rows = [
        r
        for op in kernel.walk()
        for r in effects_of(op) or ()
        if isinstance(r, Touch) and r.space is Space.GLOBAL
    ]
    return {Proxy.GENERIC, Proxy.ASYNC} <= {r.proxy for r in rows}


def _own_fault(op: Operation, message: str) -> None:
    report(Diagnostic("TK902", message, location_of(op), Severity.WARNING))
