"""Which operation opened the slot of an accumulator that is handed on from product to product."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tkc.ir.stage import ops as s


def opened_by(accumulator: SSAValue) -> s.OpenOp | None:
    """The operation that opened an accumulator's slot, back through products, loops and conditions."""
    seen: set[SSAValue] = set()
    value = accumulator
    while value not in seen:
        seen.add(value)
        op = value.owner
        if isinstance(op, s.OpenOp):
            return op
        before = _before(value, op)
        if before is None:
            return None
        value = before
    return None


def _before(value: SSAValue, op: Operation | Block) -> SSAValue | None:
    """The accumulator that one was before its operation, or before the loop that carries it."""
    if isinstance(op, Block):
        loop = op.parent_op()
        number: int = value.index  # pyright: ignore
        if isinstance(loop, s.ForOp):
            return loop.inits[number - 1]
        return loop.operands[number] if loop is not None else None
    if isinstance(op, s.ForOp):
        return op.inits[op.results.index(value)]
    if isinstance(op, s.IfOp):
        last = op.then.block.last_op
        return last.operands[op.results.index(value)] if last is not None else None
    if op.name == "stage.while":
        return op.operands[op.results.index(value)]
    if isinstance(op, s.WriteAccumulatorOp):
        return op.accumulator
    return getattr(op, "source", None)
