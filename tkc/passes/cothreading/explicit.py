"""Copies of block scales between barriers that a program spells out: their role's work done by the one that multiplies.

A move is made on a copy of the module first, and the order of all accesses looked at there: what the barriers that go
have ordered, the order of tcgen05 operations in one thread must order without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure

from tkc.analysis.items import comes_before, counters_of, role_of, same
from tkc.diagnostics import report
from tkc.ir.effects import effects_of
from tkc.ir.isa.assumptions import ACROSS
from tkc.ir.isa.memory import Done, Touch
from tkc.ir.stage import ops as s
from tkc.ir.stage.structure import StageOp, remove_role
from tkc.ir.stage.types import BarriersType
from tkc.passes.cothreading.reasons import Stays, remark

NEXT = ("lower-schedules", "lower-pipes", "insert-fences")
"""The passes between this one and the level at which the order of accesses is looked at."""


def cothread_explicit(module: ModuleOp, kernel: s.KernelOp) -> None:
    """Moves the copies of each role of a kernel that copies scales for another; a role with nothing else goes."""
    for name in [r.sym_name.data for r in _roles(kernel)]:
        role = _role(kernel, name)
        copies = _copies(role)
        if not copies:
            continue
        try:
            told = Move.of(kernel, role, copies).told()
            without_fences = _proved(module, kernel, name)
            Move.of(kernel, role, copies).perform(without_fences)
        except Stays as reason:
            report(
                remark(
                    f"copies of role {name}", f"are not moved to the products: {reason}", copies[0]
                )
            )
        else:
            report(remark(f"copies of role {name}", told, kernel))


def _roles(kernel: s.KernelOp) -> list[s.RoleOp]:
    return [op for op in kernel.body.block.ops if isinstance(op, s.RoleOp)]


def _role(kernel: s.KernelOp, name: str) -> s.RoleOp:
    return next(r for r in _roles(kernel) if r.sym_name.data == name)


def _copies(role: s.RoleOp) -> list[s.CopyScalesOp]:
    """Copies into columns that no pipe carries, of which the role takes none itself."""
    found = [op for op in role.walk() if isinstance(op, s.CopyScalesOp)]
    uses = [use.operation for copy in found for use in copy.destination.uses]
    own = any(isinstance(op, s.ScaledMmaOp) and role_of(op) is role for op in uses)
    return [] if own or any(isinstance(op, s.PipeOp) for op in uses) else found


def _proved(module: ModuleOp, kernel: s.KernelOp, name: str) -> bool:
    """Whether fences behind the waits that go may go, too; Stays where the move leaves an access out of order."""
    at = list(module.body.block.ops).index(kernel)
    before = _findings(module, at, name, None)
    new: list[str] = []
    for without_fences in (True, False):
        new = [f for f in _findings(module, at, name, without_fences) if f not in before]
        if not new:
            return without_fences
    raise Stays(f"without their barriers, {new[0]}")


def _findings(module: ModuleOp, at: int, name: str, without_fences: bool | None) -> list[str]:
    """What documents do not say to be in order, with the move or (None) without it."""
    from tkc.analysis.happens_before import check
    from tkc.passes import PASSES

    trial = module.clone()
    kernel = list(trial.body.block.ops)[at]
    assert isinstance(kernel, s.KernelOp)
    if without_fences is not None:
        role = _role(kernel, name)
        Move.of(kernel, role, _copies(role)).perform(without_fences)
    for each in NEXT:
        PASSES[each]()().apply(Context(), trial)
    found = check(trial, ACROSS)
    for finding in found:
        if finding.second is None:  # then accesses may not have been looked at
            raise Stays(f"the order of accesses is not known: {finding.message}")
    return [finding.message for finding in found]


@dataclass
class Move:
    """A role that copies, the one that multiplies, and what becomes of the barriers of the first."""

    giver: s.RoleOp
    taker: s.RoleOp
    copies: list[s.CopyScalesOp]
    first: s.ScaledMmaOp
    same: dict[SSAValue, SSAValue]
    """The multiplying role's value for each number that moves."""
    ready: s.MbarrierWaitOp
    """The multiplying role's wait for the copies."""
    waits: list[s.MbarrierWaitOp]
    """Waits that the multiplying role must take over."""
    gone: list[s.BarriersOp] = field(default_factory=list[s.BarriersOp])
    fewer: list[s.BarriersOp] = field(default_factory=list[s.BarriersOp])
    """Barriers that both roles commit to: they count one arrival less."""
    left: list[Operation] | None = None
    """Of a role that does more than copy, what it does for its copies alone; None where the whole role goes."""

    @classmethod
    def of(cls, kernel: s.KernelOp, giver: s.RoleOp, copies: list[s.CopyScalesOp]) -> Move:
        """The move of a role's copies, or Stays with the reason against it; nothing is changed yet."""
        taker, products = _taker(kernel, copies)
        source, target = _elected(copies), _elected(products)
        left = _for_copies(giver, copies, source)
        if len({op.pair is not None for op in (*copies, *products)}) > 1:
            raise Stays(
                "copies and products are of different CTA groups, one of a CTA and one of a pair"
            )
        names = giver.sym_name.data, taker.sym_name.data
        counters = counters_of(source, target)
        if counters is None:
            raise Stays(
                f"the loops or conditions round those of role {names[0]} and the products of role {names[1]} differ"
            )
        signals = _signals(giver)
        waits = [op for op in left or giver.walk() if isinstance(op, s.MbarrierWaitOp)]
        found = Finder(counters, _numbers(taker), names[1])
        ready = _ready(signals, taker, products[0], target, found)
        move = cls(giver, taker, copies, products[0], found.made, ready, [], left=left)
        for copy in copies:
            for number in (copy.source_slot, copy.destination_slot):
                found.find(number)
        for signal in signals:
            move._lose_signal(signal, products[-1], target, found)
        for wait in waits:
            move._lose_wait(wait, source, target, found)
        return move

    def _lose_signal(
        self, signal: s.Tcgen05CommitOp, last: Operation, target: Block, found: Finder
    ) -> None:
        declared = _declared(signal.barriers)
        if signal.barriers is self.ready.barriers:
            self.gone.append(declared)
            return
        others = [
            op
            for op in _users(signal.barriers)
            if op is not signal and not isinstance(op, s.MbarrierWaitOp)
        ]
        if (
            len(others) != 1
            or not isinstance(others[0], s.Tcgen05CommitOp)
            or role_of(others[0]) is not self.taker
            or not self._behind(last, others[0], target)
            or not found.equal(signal.slot, others[0].slot)
            or declared.count.value.data != 2
        ):
            raise Stays(
                f"role {self.giver.sym_name.data} also says on barrier {declared.sym_name.data} that they are done"
            )
        self.fewer.append(declared)

    def _behind(self, first: Operation, second: Operation, around: Block) -> bool:
        """Whether an operation stands behind another, in their election or round it."""
        inner = self.first.parent_block()
        assert inner is not None
        return comes_before(first, second, inner) or comes_before(first, second, around)

    def _lose_wait(
        self, wait: s.MbarrierWaitOp, source: Block, target: Block, found: Finder
    ) -> None:
        declared = _declared(wait.barriers)
        users = _users(wait.barriers)
        waits = [op for op in users if isinstance(op, s.MbarrierWaitOp)]
        told = all(role_of(op) is self.taker for op in users if op not in waits)
        if told and waits == [wait]:  # for columns that the products have left
            self.gone.append(declared)
            return
        if not comes_before(wait, self.copies[0], source):
            raise Stays(
                f"role {self.giver.sym_name.data} waits for barrier {declared.sym_name.data} elsewhere"
            )
        if any(
            role_of(op) is self.taker
            and self._behind(op, self.first, target)
            and found.equal(wait.slot, op.slot)
            and found.equal(wait.parity, op.parity)
            for op in waits
        ):
            return
        found.find(wait.slot)
        found.find(wait.parity)
        self.waits.append(wait)

    def told(self) -> str:
        """What becomes of the copies, for the remark."""
        names = " and ".join(b.sym_name.data for b in self.gone)
        many = "barriers" if len(self.gone) > 1 or self.gone[0].depth.value.data > 1 else "barrier"
        gone = f"{many} {names} {'are' if many == 'barriers' else 'is'} gone"
        if self.left is None:
            gone = f"{many} {names} and role {self.giver.sym_name.data} are gone"
        return f"move to the products of role {self.taker.sym_name.data}: {gone}"

    def perform(self, without_fences: bool) -> None:
        """Rewrites the kernel; everything was checked. `without_fences`: without those behind the wait that goes."""
        block, at = self.first.parent_block(), self._front()
        assert block is not None
        for copy in self.copies:
            block.insert_op_before(self._moved(copy), at)
        around = self.ready.parent_block()
        assert around is not None
        for wait in self.waits:
            moved = self._moved(wait)
            moved.properties["id"] = self.ready.id
            around.insert_op_before(moved, self.ready)
        behind = self.ready.next_op
        if without_fences and isinstance(behind, s.Tcgen05FenceOp):
            _erase(behind)
        _erase(self.ready)
        if self.left is None:
            remove_role(self.giver)
        else:
            self._leave()
        for barriers in self.gone:
            for op in _users(barriers.barriers):
                _erase(op)
            _erase(barriers)
        for barriers in self.fewer:
            barriers.count = IntegerAttr(barriers.count.value.data - 1, barriers.count.type)

    def _leave(self) -> None:
        """The copying role without its copies and what it did for them alone."""
        assert self.left is not None
        block = self.copies[0].parent_block()
        for op in (*self.left, *self.copies):
            _erase(op)
        chosen = block.parent_op() if block is not None else None
        while isinstance(chosen, s.IfOp) and not chosen.results and _empty(chosen):
            around, condition = chosen.parent_op(), chosen.condition
            _erase(chosen)
            _erase_unused(condition)
            chosen = around

    def _front(self) -> Operation:
        """The first operation round the products that what the copies need is in front of."""
        block = self.first.parent_block()
        assert block is not None
        needed = {v.owner for v in self.same.values()}
        ops = list(block.ops)
        before = ops[: ops.index(self.first)]
        taken = [
            i for i, op in enumerate(before) if op in needed or isinstance(op, s.MbarrierWaitOp)
        ]
        return ops[taken[-1] + 1] if taken else ops[0]

    def _moved(self, op: Operation) -> Operation:
        """The operation on the multiplying role's numbers."""
        return op.clone({v: self.same[v] for v in op.operands if v in self.same})


@dataclass
class Finder:
    """Which numbers of the multiplying role those of the copying role are."""

    counters: dict[SSAValue, SSAValue]
    candidates: Sequence[SSAValue]
    name: str
    made: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def equal(self, here: SSAValue, there: SSAValue) -> bool:
        return same(here, there, self.counters)

    def find(self, number: SSAValue) -> None:
        """Notes the number's equal; Stays where there is none."""
        if number not in self.made:
            equal = next((c for c in self.candidates if self.equal(number, c)), None)
            if equal is None:
                raise Stays(
                    f"role {self.name} has no number of the same slot or phase at the products"
                )
            self.made[number] = equal


def _taker(
    kernel: s.KernelOp, copies: list[s.CopyScalesOp]
) -> tuple[s.RoleOp, list[s.ScaledMmaOp]]:
    """The one role that multiplies by what is copied, and its products."""
    products: dict[s.ScaledMmaOp, None] = {}
    for buffer in dict.fromkeys(c.destination for c in copies):
        for use in buffer.uses:
            match use.operation:
                case s.CopyScalesOp() as copy if copy in copies:
                    pass
                case s.ScaledMmaOp() as product:
                    products[product] = None
                case other:
                    raise Stays(f"{other.name} touches them too, not only copies and products")
    reading = {role_of(p) for p in products}
    roles = [r for r in _roles(kernel) if r in reading]
    if len(roles) != 1:
        names = " and ".join(r.sym_name.data for r in roles)
        raise Stays(f"roles {names} read them" if roles else "there is no product that takes them")
    (role,) = roles
    order = {op: i for i, op in enumerate(role.walk())}
    return role, sorted(products, key=lambda p: order[p])


def _elected(ops: Sequence[Operation]) -> Block:
    """The block round the one election in which all stand."""
    (first, *rest) = dict.fromkeys(op.parent_block() for op in ops)
    around = first.parent_op() if first is not None else None
    if (
        rest
        or not isinstance(around, s.IfOp)
        or not isinstance(around.condition.owner, s.ElectedOp)
    ):
        raise Stays(f"{ops[0].name} stands in several places, or in no election of one thread")
    block = around.parent_block()
    assert block is not None
    return block


def _for_copies(
    giver: s.RoleOp, copies: list[s.CopyScalesOp], around: Block
) -> list[Operation] | None:
    """What a role does for its copies alone: commits, which tell of nothing else, and waits and fences just in front of
    their election; None where that is all of it."""
    others = [op for op in giver.walk() if op is not giver and not _for_copies_alone(op)]
    if all(op.has_trait(Pure) for op in others):
        return None
    for op in others:
        if any(
            isinstance(r, Touch) and r.done is Done.TCGEN05_COMMIT for r in effects_of(op) or ()
        ):
            raise Stays(f"role {giver.sym_name.data} commits to more than copies ({op.name})")
    found: list[Operation] = [*_signals(giver)]
    election = next(op for op in around.ops if copies[0] in op.walk())
    before = election.prev_op
    while isinstance(before, s.MbarrierWaitOp | s.Tcgen05FenceOp) or (
        before is not None and before.has_trait(Pure)
    ):
        if not before.has_trait(Pure):
            found.append(before)
        before = before.prev_op
    return found


def _for_copies_alone(op: Operation) -> bool:
    return isinstance(op, StageOp) and op.FOR_COPIES


def _signals(giver: s.RoleOp) -> list[s.Tcgen05CommitOp]:
    return [op for op in giver.walk() if isinstance(op, s.Tcgen05CommitOp)]


def _ready(
    signals: list[s.Tcgen05CommitOp],
    taker: s.RoleOp,
    first: s.ScaledMmaOp,
    target: Block,
    found: Finder,
) -> s.MbarrierWaitOp:
    """The multiplying role's wait for a barrier that only the copies complete, which it alone waits for."""
    for signal in signals:
        users = [op for op in _users(signal.barriers) if op is not signal]
        if len(users) != 1 or not isinstance(users[0], s.MbarrierWaitOp):
            continue
        wait = users[0]
        inner = first.parent_block()
        assert inner is not None
        if (
            role_of(wait) is taker
            and (comes_before(wait, first, target) or comes_before(wait, first, inner))
            and found.equal(signal.slot, wait.slot)
        ):
            return wait
    raise Stays(f"role {taker.sym_name.data} waits for no barrier that they alone complete")


def _numbers(taker: s.RoleOp) -> list[SSAValue]:
    """Slots and phases that the products, and the waits in front of them, are given."""
    found: dict[SSAValue, None] = {}
    for op in taker.walk():
        if isinstance(op, s.ScaledMmaOp):
            found |= dict.fromkeys((op.a_slot, op.b_slot, op.scale_a_slot, op.scale_b_slot))
        elif isinstance(op, s.MbarrierWaitOp):
            found |= dict.fromkeys((op.slot, op.parity))
    return list(found)


def _declared(barriers: SSAValue) -> s.BarriersOp:
    assert isinstance(barriers.type, BarriersType)
    assert isinstance(barriers.owner, s.BarriersOp)
    return barriers.owner


def _users(barriers: SSAValue) -> list[Operation]:
    return list(dict.fromkeys(use.operation for use in barriers.uses))


def _empty(condition: s.IfOp) -> bool:
    """Whether nothing happens on either side of a condition."""
    return all(op.has_trait(Pure) for r in condition.regions if r.blocks for op in r.block.ops)


def _erase_unused(number: SSAValue) -> None:
    """A number that nothing takes any more, and what was computed for it alone."""
    op = number.owner
    if isinstance(op, Operation) and not any(r.uses for r in op.results):
        if isinstance(op, s.ElectedOp) or op.has_trait(Pure):
            taken = list(op.operands)
            _erase(op)
            for each in taken:
                _erase_unused(each)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
