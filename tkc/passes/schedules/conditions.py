"""A loop over items inside a condition becomes a loop that all turn, with the condition inside it.

Items that are handed out are taken by every role of a unit, or given to nobody: so a CTA that has nothing to do for
them still takes its answers, and passes them by.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region
from xdsl.traits import Pure

from tkc.ir.stage import ops as s


def turn_outside(loop: s.WorkLoopOp) -> None:
    """Moves the loop out of the conditions round it that hand nothing on and have no other side, as far as these stand
    in one another alone; the condition is the same for every item, since it is known before the first."""
    while isinstance(around := loop.parent_op(), s.IfOp) and _moves(loop, around):
        _turn(loop, around)


def _moves(loop: s.WorkLoopOp, around: s.IfOp) -> bool:
    """Whether nothing but numbers comes before the loop, on the side that runs where the condition holds."""
    if around.results or loop.parent_block() is not around.then.block or _has_other_side(around):
        return False
    before = [op for op in around.then.block.ops if _precedes(op, loop)]
    return all(op.has_trait(Pure) for op in before)


def _has_other_side(condition: s.IfOp) -> bool:
    return any(
        not op.has_trait(Pure)
        for region in condition.regions[1:]
        for block in region.blocks
        for op in block.ops
    )


def _precedes(op: Operation, other: Operation) -> bool:
    block = other.parent_block()
    assert block is not None
    ops = list(block.ops)
    return ops.index(op) < ops.index(other)


def _turn(loop: s.WorkLoopOp, around: s.IfOp) -> None:
    outside, inside = around.parent_block(), around.then.block
    assert outside is not None
    for op in [op for op in inside.ops if op is loop or _precedes(op, loop)]:
        op.detach()
        outside.insert_op_before(op, around)
    _under(loop, around)
    if all(op.has_trait(Pure) for op in inside.ops):
        around.detach()
        around.erase()


def _under(loop: s.WorkLoopOp, around: s.IfOp) -> None:
    """The body under the condition; where it does not hold, what the loop carries stays."""
    body = loop.body.block
    carried = body.args[len(body.args) - len(loop.results) :]
    then = Block()
    for op in list(body.ops):
        op.detach()
        then.add_op(op)
    otherwise = Block([s.YieldOp.create(operands=[*carried])])
    chosen = s.IfOp.create(
        operands=[around.condition],
        regions=[Region(then), *([Region(otherwise)] if carried else [])],
        result_types=[v.type for v in carried],
    )
    chosen.location = around.location
    body.add_op(chosen)
    end = s.YieldOp.create(operands=[*chosen.results])
    end.location = loop.location
    body.add_op(end)
