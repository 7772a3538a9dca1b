"""Accumulators in registers whose products are done, where another's operations come next."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tkc.ir.locations import at
from tkc.ir.stage import ops as s


def ready(value: SSAValue, before: Operation) -> SSAValue:
    """The accumulator once its products are done: as it is where a wait has been passed, else a wait is added."""
    if _settled(value):
        return value
    wait = s.MmaWaitOp.create(
        operands=[value],
        properties={"pending": IntegerAttr(0, 32), "id": StringAttr("fused.products")},
        result_types=[value.type],
    )
    block = before.parent_block()
    assert block is not None
    block.insert_op_before(at(before, wait), before)
    return wait.value


def _settled(value: SSAValue, taken: frozenset[SSAValue] = frozenset()) -> bool:
    """Whether no product of an accumulator is under way. `taken`: values that are taken to be so on the way."""
    owner: Operation | Block = value.owner
    if value in taken:
        return True
    match owner:
        case s.OpenOp() | s.ZeroOp() | s.WriteAccumulatorOp():
            return True
        case s.MmaWaitOp():
            return owner.pending.value.data == 0
        case s.ForOp() | s.WorkLoopOp():
            assert isinstance(value, OpResult)
            args = owner.body.block.args
            return _settled(args[len(args) - len(owner.inits) + value.index], taken)
        case s.IfOp():
            assert isinstance(value, OpResult)
            ends = [r.block.last_op for r in owner.regions if r.blocks]
            return all(e is not None and _settled(e.operands[value.index], taken) for e in ends)
        case Block():
            assert isinstance(value, BlockArgument)
            return _carried_settled(value, taken | {value})
        case _:
            return False


def _carried_settled(value: BlockArgument, taken: frozenset[SSAValue]) -> bool:
    """Of what a loop carries: as it is taken in and handed on. A loop without an end for it yet is given such a one."""
    loop, last = value.block.parent_op(), value.block.last_op
    if not isinstance(loop, s.ForOp | s.WorkLoopOp) or last is None:
        return False
    counters = len(loop.extents) if isinstance(loop, s.WorkLoopOp) else 1
    number = value.index - counters
    if number >= len(last.operands):
        return True
    return all(
        _settled(v, taken) for v in (last.operands[number], *loop.inits[number : number + 1])
    )
