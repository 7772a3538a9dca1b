"""Runs stage programs on integers: what each role does, in order, with the numbers that its operands have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp

ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "cdiv": lambda a, b: (a + b - 1) // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "select": lambda p, a, b: a if p else b,
}


@dataclass(frozen=True)
class Event:
    """One execution of an operation: its operands' values (None where one is no number), and its guards."""

    op: Operation
    operands: tuple[Any, ...]
    under: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        """The value of the operand called `name`."""
        return self.operands[list(self.op.operands).index(getattr(self.op, name))]


@dataclass
class Machine:
    """Warpgroup `group` of one work unit of `units`; conditions on an election are taken, and remembered as guards."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    unit: int = 0
    units: int = 1
    group: int = 0
    values: dict[SSAValue, Any] = field(default_factory=dict)

    def kernel(self, kernel: s.KernelOp) -> dict[str, list[Event]]:
        """The events of each role by its name."""
        events: dict[str, list[Event]] = {}
        for op in kernel.body.block.ops:
            if isinstance(op, s.RoleOp):
                continue
            list(self.step(op, ()))
        for op in kernel.body.block.ops:
            if isinstance(op, s.RoleOp):
                events[op.sym_name.data] = list(self.block(op.body.block, ()))
        return events

    def block(self, block: Block, under: tuple[str, ...]) -> Iterator[Event]:
        for op in block.ops:
            yield from self.step(op, under)

    def step(self, op: Operation, under: tuple[str, ...]) -> Iterator[Event]:
        match op:
            case ConstOp():
                assert isinstance(op.constant, IntegerAttr | FloatAttr)
                self.values[op.value] = op.constant.value.data
            case SizeOp():
                self.values[op.value] = self.sizes[op.symbol.data]
            case ArithOp():
                inputs = [self.values[v] for v in op.inputs]
                self.values[op.value] = ARITHMETIC[op.kind.data](*inputs)
            case s.UnitOp():
                self.values[op.value] = self.unit if op.which.data == "index" else self.units
            case s.GroupOp():
                self.values[op.value] = self.group
            case s.ElectedOp():
                self.values[op.value] = op.scope.data
            case s.ForOp():
                yield from self.loop(op, under)
            case s.IfOp():
                condition = self.values[op.condition]
                if isinstance(condition, str):
                    yield from self.block(op.then.block, (*under, condition))
                elif condition:
                    yield from self.block(op.then.block, under)
                elif op.otherwise is not None:
                    yield from self.block(op.otherwise.block, under)
            case s.YieldOp():
                pass
            case _:
                yield Event(op, tuple(self.values.get(v) for v in op.operands), under)

    def loop(self, op: s.ForOp, under: tuple[str, ...]) -> Iterator[Event]:
        first, last, step = (self.values[v] for v in (op.lower, op.upper, op.step))
        carried = [self.values.get(v) for v in op.inits]
        body = op.body.block
        for i in range(first, last, step):
            self.values.update(zip(body.args, [i, *carried], strict=True))
            yield from self.block(body, under)
            end = body.last_op
            assert isinstance(end, s.YieldOp)
            carried = [self.values.get(v) for v in end.values]
        self.values.update(zip(op.results, carried, strict=True))
