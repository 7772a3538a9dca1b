"""Which integers of a role differ between the CTAs and warpgroups that run it, so that all others are followed once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.scalar import ArithOp


def differing(ops: Iterable[Operation]) -> set[SSAValue]:
    """The values that are made of the number of a warpgroup or CTA, which one of these operations asks for, or are
    chosen by it."""
    found: set[SSAValue] = set()
    stack: list[SSAValue] = []
    for op in ops:
        kind = type(op)  # many operations are looked at, each of one class
        if kind is s.GroupOp or (kind is s.UnitOp and op.which.data in s.RANKS):
            stack += op.results
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            for use in value.uses:
                stack += _made_by(use.operation)
    return found


def _made_by(op: Operation) -> list[SSAValue]:
    """What an operation makes of its operands: results, what its blocks begin with, and what the operation round it
    hands on."""
    block = op.parent_block()
    last = block is not None and block.last_op is op and not op.results
    round_it = op.parent_op() if last else None
    made = list(op.results)
    for one in (op, round_it):
        if one is not None and not isinstance(one, s.RoleOp):
            made += one.results if one is not op else ()
            made += (a for region in one.regions for b in region.blocks for a in b.args)
    return made


def alike(ops: Sequence[Operation], differ: set[SSAValue]) -> bool:
    """Whether all that loops carry, and how often they turn, is the same in all copies of a role."""
    for op in ops:
        kind = type(op)
        if kind is s.IfOp and op.results and op.condition in differ:
            return False
        if kind is s.ForOp or kind is WhileOp:
            blocks: list[Block] = [b for region in op.regions for b in region.blocks]
            carried = [*op.operands, *op.results, *(a for b in blocks for a in b.args)]
            if any(v in differ for v in carried):
                return False
        elif kind is ArithOp and op.kind.data in DIVIDES and op.inputs[1] in differ:
            return False
    return True


def chosen(ops: Sequence[Operation], differ: set[SSAValue]) -> list[SSAValue]:
    """Conditions that differ, with loops under them. What these carry is the same in all copies that turn them, and
    which do is known where the conditions are."""
    return [
        op.condition
        for op in ops
        if type(op) is s.IfOp and op.condition in differ and any(_counts(o) for o in op.walk())
    ]


def _counts(op: Operation) -> bool:
    return isinstance(op, s.ForOp | WhileOp) or (isinstance(op, s.IfOp) and bool(op.results))


def apart(differ: set[SSAValue]) -> set[Operation]:
    """Operations that ask for what differs, and all under conditions that do."""
    found = {use.operation for value in differ for use in value.uses}
    for op in [op for op in found if type(op) is s.IfOp]:
        found.update(op.walk())
    return found


DIVIDES = frozenset({"div", "mod", "and", "shr"})
"""Arithmetic that makes a counter repeat."""
