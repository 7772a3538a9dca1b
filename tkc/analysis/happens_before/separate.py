"""Which loops are sure to touch other elements of a tensor in each of their turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp


def loops_apart(indices: Sequence[SSAValue], widths: Sequence[int]) -> Iterator[Operation]:
    """The loops no two of whose turns touch a common element, at indices of so many elements along each axis: where
    two did, the indices would be equal, and so what they are made from, down to a counter that each turn changes."""
    equal = [v for i, w in zip(indices, widths, strict=True) for v in _multiplied(i, w)]
    quotients: dict[tuple[str, SSAValue, SSAValue], None] = {}
    seen: set[SSAValue] = set()
    while equal:
        value = equal.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.owner
        if isinstance(op, Block):
            if _counts(value, op):
                loop = op.parent_op()
                assert loop is not None
                yield loop
        elif isinstance(op, ArithOp):
            equal += _made_from(op, quotients)


def _multiplied(index: SSAValue, width: int) -> Iterator[SSAValue]:
    """What equal boxes have equal: a block's number, or the index of what is one element wide."""
    op = index.owner
    if width == 1:
        yield index
    elif isinstance(op, ArithOp) and op.kind.data == "mul":
        x, y = op.inputs
        for block, by in ((x, y), (y, x)):
            times = _constant(by)
            if times is not None and times >= width:
                yield block


def _made_from(
    op: ArithOp, quotients: dict[tuple[str, SSAValue, SSAValue], None]
) -> Iterator[SSAValue]:
    """What is equal where an operation's result is."""
    kind, inputs = op.kind.data, op.inputs
    if kind in ("add", "sub", "mul"):
        for x, y in (inputs, inputs[::-1]):
            times = _constant(y)
            if times is not None and (kind != "mul" or times):
                yield x
    elif kind in ("div", "mod"):
        x, y = inputs
        quotients[kind, x, y] = None
        if {("div", x, y), ("mod", x, y)} <= quotients.keys() and _stays(y):
            yield x


def _stays(value: SSAValue) -> bool:
    """Whether a value is computed outside of every loop."""
    at = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    while at is not None and not isinstance(at, s.RoleOp | s.KernelOp):
        if at.regions and not isinstance(at, s.IfOp):
            return False
        at = at.parent_op()
    return True


def _counts(value: SSAValue, body: Block) -> bool:
    """Whether each turn of a counted loop has another number: its counter, or what it carries and adds to."""
    loop, last = body.parent_op(), body.last_op
    if not isinstance(loop, s.ForOp) or loop.stolen is not None:
        return False
    assert isinstance(value, BlockArgument)
    if value.index == 0:
        return True
    assert last is not None
    following = last.operands[value.index - 1].owner
    if not isinstance(following, ArithOp) or following.kind.data != "add":
        return False
    x, y = following.inputs
    more = _constant(y if x is value else x)
    return value in (x, y) and more is not None and more > 0


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, ConstOp) and isinstance(op.constant, IntegerAttr):
        return op.constant.value.data
    return None
