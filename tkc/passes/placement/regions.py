"""Loops and conditions: through them flow the accumulators that they change, then register values and scalars."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tkc.ir.stage import ops as s
from tkc.passes.placement import vectors
from tkc.passes.placement.state import Placement


def changed(p: Placement, op: Operation) -> list[SSAValue]:
    """The open accumulators that an operation's regions change, in order."""
    found: dict[SSAValue, None] = {}
    for inner in op.walk():
        for operand in getattr(inner, "CHANGES", ()):
            if operand == "*":
                found |= dict.fromkeys(p.role.known.values())
            else:
                found[p.role.key(getattr(inner, operand))] = None
    return [a for a in found if a in p.role.accumulators]


class Flow:
    """What flows through one operation: what its regions take as arguments, yield, and leave behind as results.

    `given` are the register values and scalars that go in; a condition has none, and its regions take no arguments.
    """

    def __init__(self, p: Placement, op: Operation, given: Sequence[SSAValue] = ()) -> None:
        self.p = p
        self.op = op
        self.accumulators = changed(p, op)
        held = [vectors.held(p, value, op) for value in given]
        self.counts = [len(one) for one in held]
        self.inits = [*self._accumulators(), *(v for one in held for v in one)]
        self.types: list[Attribute] = [v.type for v in self.inits]

    def _accumulators(self) -> list[SSAValue]:
        return [self.p.role.accumulators[a] for a in self.accumulators]

    def region(
        self, block: Block, counters: int = 0, *, takes: bool = True, hands: bool = True
    ) -> Region:
        """A placed region: it `takes` arguments, counters first, and `hands` on accumulators and what it yields."""
        from tkc.passes.placement.statements import statements

        p, role = self.p, self.p.role
        outer, held, columns = dict(role.accumulators), dict(role.held), dict(role.columns)
        body = Block(arg_types=[*[i32] * counters, *(self.types if takes else ())])
        if takes:
            for old, new in zip(block.args[:counters], body.args, strict=False):
                p.values[old] = new
                new.name_hint = old.name_hint
            after = counters + len(self.accumulators)
            role.accumulators.update(zip(self.accumulators, body.args[counters:after], strict=True))
            self._bind(block.args[counters:], body.args[after:])
        last = block.last_op
        assert last is not None
        with p.emit.inside(body):
            statements(p, block)
            given = [vectors.held(p, value, self.op) for value in last.operands]
            flowing = self._accumulators() if hands else []
            p.emit.add(s.YieldOp.create(operands=[*flowing, *(v for one in given for v in one)]))
        if hands:
            self.counts = [len(one) for one in given]
        role.accumulators, role.held, role.columns = outer, held, columns
        return Region(body)

    def otherwise(self) -> Region:
        """The region of a condition that does nothing: accumulators stay as they are."""
        return Region(Block([s.YieldOp.create(operands=self._accumulators())]))

    def leave(self, made: Operation, results: Sequence[SSAValue]) -> None:
        """What the accumulators, and the tile level's `results`, are after it."""
        count = len(self.accumulators)
        self.p.role.accumulators.update(zip(self.accumulators, made.results[:count], strict=True))
        self._bind(results, made.results[count:])

    def _bind(self, values: Sequence[SSAValue], stage: Sequence[SSAValue]) -> None:
        """Each register value has become the next `count` stage values."""
        left = list(stage)
        for value, count in zip(values, self.counts, strict=True):
            vectors.bind(self.p, value, left[:count])
            for one in left[:count]:
                one.name_hint = value.name_hint
            left = left[count:]
