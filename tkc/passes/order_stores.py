"""Let a store to global memory wait for those of its role before it to the same place, which are not ordered otherwise.

Before: copies to global memory stand as the program has them; the copy engine may complete them in any order.
After: between two stores of one role that may touch an element in common, of which one at least is no addition, the
first is waited for, complete and not only read. It is not asked whether a role writes a place again in another item of
its schedule: other work units have items, too, and nothing orders these.
Here because: at the tile level a store says its place by blocks; how it is made, in how many steps, is not yet settled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.slices import Slices, loops_round
from tkc.ir.locations import at
from tkc.ir.stage import ops as s
from tkc.ir.tile import ops as t
from tkc.ir.tile.types import RegsType, SliceType


@dataclass(frozen=True)
class OrderStoresPass(ModulePass):
    """`order-stores`."""

    name = "order-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, t.KernelOp)]:
            for role in [r for r in kernel.body.block.ops if isinstance(r, t.RoleOp)]:
                order(role)


def order(role: t.RoleOp) -> None:
    """Waits between the stores of one role, each in the outermost block that has both stores in it."""
    stores: dict[SSAValue, list[t.CopyOp]] = {}
    for op in role.walk():
        if isinstance(op, t.CopyOp) and isinstance(op.destination.type, SliceType):
            stores.setdefault(_slice(op).tensor, []).append(op)
    waits = Waits(role)
    for same in stores.values():
        for i, second in enumerate(same):
            for first in same[:i]:
                waits.here(first, second)
        for first in same:
            for second in same:
                waits.around(first, second)


def _slice(store: t.CopyOp) -> t.SliceOp:
    slice = store.destination.owner
    assert isinstance(slice, t.SliceOp)
    return slice


@dataclass
class Waits:
    """The waits of one role so far: each is the operation at which one stands."""

    role: t.RoleOp
    ahead: set[Operation] = field(default_factory=set[Operation])
    """Operations with a wait just before them."""
    slices: Slices = field(default_factory=Slices)

    def here(self, first: t.CopyOp, second: t.CopyOp) -> None:
        """In one turn of all loops round both, where the first comes before the second."""
        if _commute(first, second) or self.slices.apart_here(_slice(first), _slice(second)):
            return
        before, after = _parting(first, second)
        if before.parent_block() is not after.parent_block():
            return  # in two branches of one condition
        at: Operation | None = after
        while at is not None and at is not before:
            if at in self.ahead:
                return
            at = at.prev_op
        self._wait(after, first, second)

    def around(self, first: t.CopyOp, second: t.CopyOp) -> None:
        """In a later turn of a loop round both than the first; each item of a schedule is another place."""
        if _commute(first, second):
            return
        outer = {*loops_round(second)}
        for loop in loops_round(first):
            if loop not in outer or isinstance(loop, t.ForTilesOp):
                continue
            once = self.slices.in_one_turn(loop, first, second)
            if not once and not self.slices.apart_around(loop, _slice(first), _slice(second)):
                self._round(loop, first, second)

    def _round(self, loop: Operation, first: t.CopyOp, second: t.CopyOp) -> None:
        """At the top of a loop's body, unless all ways from the one to the other in the next turn have a wait."""
        body = loop.regions[-1].block
        left, reached = _child(first, loop), _child(second, loop)
        behind, ahead = left.next_op, reached
        while behind is not None:
            if behind in self.ahead:
                return
            behind = behind.next_op
        while ahead is not None:
            if ahead in self.ahead:
                return
            ahead = ahead.prev_op
        assert body.first_op is not None
        self._wait(body.first_op, first, second)

    def _wait(self, op: Operation, first: t.CopyOp, second: t.CopyOp) -> None:
        """The first store is complete, and all threads of the role know it, before the operation."""
        block = op.parent_block()
        assert block is not None
        by_threads = any(isinstance(store.source.type, RegsType) for store in (first, second))
        ops: list[Operation] = [
            s.BulkWaitOp.create(
                properties={"pending": IntegerAttr(0, i32), "id": self._id("stored")}
            )
        ]
        if _by_threads(first):
            guards = {"space": StringAttr("global"), "guards": ArrayAttr([])}
            ops.append(s.ProxyFenceOp.create(properties={**guards, "id": self._id("fence")}))
        if by_threads:
            meet = {"id": self._id("settled"), "whole": UnitAttr()}
            ops.append(s.RoleBarrierOp.create(properties=meet))
        for new in ops:
            block.insert_op_before(at(second, new), op)
        self.ahead.add(op)

    def _id(self, what: str) -> StringAttr:
        """A name for a synchronisation site, which every later pass keeps."""
        number = len(self.ahead)
        return StringAttr(f"{self.role.sym_name.data}.{what}{f'.{number + 1}' if number else ''}")


def _commute(first: t.CopyOp, second: t.CopyOp) -> bool:
    """Whether both add to what is there, which they may do in any order."""
    return first.add is not None and second.add is not None


def _by_threads(store: t.CopyOp) -> bool:
    """Whether threads may store it themselves, without the copy engine: values of one axis."""
    return isinstance(store.source.type, RegsType) and len(store.source.type.shape) == 1


def _parting(first: Operation, second: Operation) -> tuple[Operation, Operation]:
    """The operations that hold the one and the other, in the innermost operation that holds both."""
    outer = [second]
    while (parent := outer[-1].parent_op()) is not None:
        outer.append(parent)
    held = set(outer)
    at = first
    while (parent := at.parent_op()) is not None and parent not in held:
        at = parent
    return at, outer[outer.index(parent) - 1] if parent is not None else second


def _child(op: Operation, of: Operation) -> Operation:
    """The operation directly in `of` that holds another, or is it."""
    while (parent := op.parent_op()) is not of:
        assert parent is not None
        op = parent
    return op
