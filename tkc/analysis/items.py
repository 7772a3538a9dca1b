"""Which items of rings correspond: where a role takes and gives one back, and whether two roles' loops run alike."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp

Loop = s.WorkLoopOp | s.ForOp
Take = s.AcquireOp | s.WaitOp
Give = s.CommitOp | s.ReleaseOp


class Item(NamedTuple):
    """The one place of a role where it has an item of a ring: `take` and `give` stand in the same block."""

    take: Take
    give: Give

    @property
    def slot(self) -> SSAValue:
        return self.take.slot

    @property
    def block(self) -> Block:
        block = self.take.parent_block()
        assert block is not None
        return block


def item_of(role: s.RoleOp, ring: SSAValue, end: type[s.CommitOp | s.ReleaseOp]) -> Item | None:
    """The role's item at an end of a ring (`CommitOp`: it fills it); None where it has none, or several."""
    begin = s.AcquireOp if end is s.CommitOp else s.WaitOp
    uses = [use.operation for use in ring.uses if role_of(use.operation) is role]
    takes = [op for op in uses if isinstance(op, begin)]
    gives = [op for op in uses if isinstance(op, end)]
    if len(takes) != 1 or len(gives) != 1 or gives[0].slot is not takes[0].slot:
        return None
    if takes[0].parent_block() is not gives[0].parent_block():
        return None
    return Item(takes[0], gives[0])


def role_of(op: Operation) -> s.RoleOp | None:
    """The role in which an operation stands."""
    parent: Operation | None = op
    while parent is not None and not isinstance(parent, s.RoleOp):
        parent = parent.parent_op()
    return parent


def run_alike(one: Block, two: Block) -> bool:
    """Whether blocks of two roles run equally often and in the same order: they stand in the same nest of loops.

    Loops over a schedule are the same by its name, counted loops by their bounds.
    """
    first, second = _nest(one), _nest(two)
    if first is None or second is None or len(first) != len(second):
        return False
    counters: dict[SSAValue, SSAValue] = {}
    for a, b in zip(first, second, strict=True):
        if isinstance(a, s.WorkLoopOp) and isinstance(b, s.WorkLoopOp):
            heads = zip(a.extents, b.extents, strict=True) if a.schedule == b.schedule else None
        elif isinstance(a, s.ForOp) and isinstance(b, s.ForOp):
            heads = zip(a.operands[:3], b.operands[:3], strict=True)
        else:
            return False
        if heads is None or not all(same(x, y, counters) for x, y in heads):
            return False
        count = len(a.extents) if isinstance(a, s.WorkLoopOp) else 1
        counters.update(zip(a.body.block.args[:count], b.body.block.args[:count], strict=True))
    return True


def _nest(block: Block) -> list[Loop] | None:
    """The loops round a block in its role, outermost first; None where something else is round it."""
    found: list[Loop] = []
    parent = block.parent_op()
    while isinstance(parent, s.WorkLoopOp | s.ForOp):
        found.insert(0, parent)
        parent = parent.parent_op()
    return found if isinstance(parent, s.RoleOp) else None


def same(a: SSAValue, b: SSAValue, counters: dict[SSAValue, SSAValue] | None = None) -> bool:
    """Whether two scalars are the same arithmetic on the same sizes, constants and corresponding counters of loops."""
    if a is b:
        return True
    if isinstance(a, BlockArgument):
        return counters is not None and counters.get(a) is b
    x, y = a.owner, b.owner
    return (
        isinstance(x, ConstOp | ArithOp)
        and type(x) is type(y)
        and x.properties == y.properties
        and len(x.operands) == len(y.operands)
        and all(same(i, j, counters) for i, j in zip(x.operands, y.operands, strict=True))
    )


def ancestor(op: Operation, block: Block) -> Operation | None:
    """The operation of a block that `op` is or is in."""
    found: Operation | None = op
    while found is not None and found.parent_block() is not block:
        found = found.parent_op()
    return found


def comes_before(first: Operation, second: Operation, block: Block) -> bool:
    """Whether what stands in `first` is over when `second` begins, both in a block or in something in it."""
    a, b = ancestor(first, block), ancestor(second, block)
    if a is None or b is None or a is b:
        return False
    for op in block.ops:
        if op is a:
            return True
        if op is b:
            return False
    return False
