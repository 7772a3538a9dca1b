"""An accumulator in registers that goes to and fro: one value that flows through the joined role, from its start, round
its loops and out of its conditions. What each block finds is what the one before it left, in whichever turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, Region, SSAValue

from tkc.analysis.items import role_of
from tkc.diagnostics import Bug, TkcError
from tkc.ir.locations import at, location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import const
from tkc.ir.syntax import segments
from tkc.passes.fusing.ready import ready


@dataclass
class AccumulatorFlow:
    """One buffer's accumulator on its way through a role."""

    buffer: SSAValue
    states: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that are a state of it."""

    def run(self) -> None:
        """Replaces what blocks open by what flows to them."""
        opens = [u.operation for u in self.buffer.uses if isinstance(u.operation, s.OpenOp)]
        roles = {role_of(op): op for op in opens}
        if len(roles) > 1:
            raise Bug("fuse-roles", f"{len(roles)} roles use an accumulator in registers")
        for role, first in roles.items():
            assert role is not None
            self._find_states(opens)
            slot = const(0)
            start = s.OpenOp.create(
                operands=[self.buffer, slot.value], result_types=[first.value.type]
            )
            self._block(role.body.block, start.value)
            head = role.body.block.first_op
            assert head is not None
            for op in (slot, at(first, start)):
                role.body.block.insert_op_before(op, head)

    def _find_states(self, opens: list[s.OpenOp]) -> None:
        """All that is made of what blocks open, through loops and conditions that carry it already."""
        todo: list[SSAValue] = [op.value for op in opens]
        while todo:
            value = todo.pop()
            if value in self.states:
                continue
            self.states.add(value)
            for use in value.uses:
                todo += _made(use.operation, use.index)

    def _block(self, block: Block, value: SSAValue) -> SSAValue:
        """The state behind a block that begins with `value`."""
        for op in list(block.ops):
            if isinstance(op, s.OpenOp) and op.buffer is self.buffer:
                op.value.replace_all_uses_with(ready(value, op))
                op.detach()
                op.erase()
            elif self._opens_in(op):
                value = self._round(op, value)
            else:
                made = [r for r in op.results if r in self.states]
                value = made[0] if made else value
        return value

    def _opens_in(self, op: Operation) -> bool:
        return bool(op.regions) and any(
            isinstance(o, s.OpenOp) and o.buffer is self.buffer for o in op.walk()
        )

    def _round(self, op: Operation, value: SSAValue) -> SSAValue:
        """Through a loop or condition in which blocks open it: it takes the state in, and hands on the last."""
        if any(r in self.states for r in op.results) or not isinstance(
            op, s.ForOp | s.WorkLoopOp | s.IfOp
        ):
            raise TkcError.at(
                "TK213",
                "an accumulator that goes to and fro lives in registers on this target; it flows through counted loops "
                "and conditions that stand inside none of its puts and gets",
                location_of(op),
            )
        if isinstance(op, s.IfOp):
            if len(op.regions) < 2 or not op.regions[1].blocks:
                if len(op.regions) > 1:
                    op.detach_region(op.regions[1])
                op.add_region(Region(Block([s.YieldOp.create(operands=[])])))
            for region in op.regions:
                self._end(region.block, self._block(region.block, value))
        else:
            arg = op.body.block.insert_arg(value.type, len(op.body.block.args))
            self._end(op.body.block, self._block(op.body.block, arg))
        return _with_result(op, value)

    @staticmethod
    def _end(block: Block, value: SSAValue) -> None:
        last = block.last_op
        assert isinstance(last, s.YieldOp)
        last.operands = [*last.operands, ready(value, last)]


def _made(op: Operation, index: int) -> list[SSAValue]:
    """The states that an operation makes of one that is its operand of that number."""
    name = op.STATE_OF if isinstance(op, s.StageOp) else None
    if name is not None:
        return [*op.results] if getattr(op, name) is op.operands[index] else []
    if isinstance(op, s.ForOp | s.WorkLoopOp):
        number = index - (len(op.operands) - len(op.inits))
        counters = len(op.body.block.args) - len(op.inits)
        return [op.body.block.args[counters + number], op.results[number]] if number >= 0 else []
    parent = op.parent_op()
    if isinstance(op, s.YieldOp) and isinstance(parent, s.IfOp):
        return [parent.results[index]]
    return []


def _with_result(op: s.ForOp | s.WorkLoopOp | s.IfOp, value: SSAValue) -> SSAValue:
    """The operation with one result more, which a loop begins with `value`."""
    block = op.parent_block()
    assert block is not None
    operands, properties = [*op.operands], dict(op.properties)
    if not isinstance(op, s.IfOp):
        operands.append(value)
    if isinstance(op, s.WorkLoopOp):
        properties.update(segments(len(op.extents), len(op.inits) + 1))
    new = type(op).create(
        operands=operands,
        properties=properties,
        regions=[op.detach_region(region) for region in list(op.regions)],
        result_types=[*(r.type for r in op.results), value.type],
    )
    block.insert_op_before(at(op, new), op)
    for old, result in zip(op.results, new.results[:-1], strict=True):
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    op.detach()
    op.erase()
    return new.results[-1]
