"""Values of the stage level written out, so that equal computations in different roles are found equal."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import takewhile

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tkc.analysis.happens_before.properties import written
from tkc.ir.nest import around
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp


class Expressions:
    """Values written out and numbered: equal numbers are equal computations, also in different roles.

    `loops` names loops by how deep they stand and by their bounds, so that their counters are equal, too.
    """

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.known: dict[SSAValue, int] = {}
        self.loops: dict[Block, Hashable] = {}
        self.parts: dict[int, frozenset[Hashable]] = {}
        self.writes: dict[SSAValue, bool] = {}

    def __call__(self, value: SSAValue) -> int:
        key = value
        if key not in self.known:
            written, uses = self._write(value)
            number = self.numbers.setdefault(written, len(self.numbers))
            self.known[key] = number
            self.parts[number] = uses
        return self.known[key]

    def written(self, tensor: SSAValue) -> bool:
        """Whether anything in the kernel writes a tensor, or an array of a list."""
        if tensor not in self.writes:
            self.writes[tensor] = written(tensor)
        return self.writes[tensor]

    def counters(self, number: int) -> frozenset[Hashable]:
        """The loops whose counters an expression has, and `group` and `rank` where it has these."""
        return self.parts[number]

    def _write(self, value: SSAValue) -> tuple[Hashable, frozenset[Hashable]]:
        op = value.owner
        if type(op) is Block:
            if (
                op in self.loops
                and isinstance(op.parent_op(), s.ForOp)
                and isinstance(value, BlockArgument)
                and value.index == _counter(op)
            ):
                return ("index", self.loops[op]), frozenset({self.loops[op]})
            return self._carried(value, op) or (("opaque", id(value)), frozenset())
        if isinstance(op, ArithOp):
            inputs = [self(v) for v in op.inputs]
            return (op.kind.data, *inputs), frozenset().union(*(self.parts[i] for i in inputs))
        if isinstance(op, LoadElementOp) and op.constant is not None:
            inputs = [self(v) for v in op.indices]
            parts = frozenset[Hashable]().union(*(self.parts[i] for i in inputs))
            return ("element", id(op.place), *inputs), parts
        if isinstance(op, ConstOp):
            number = op.constant
            if isinstance(number, IntegerAttr):
                return ("const", number.value.data, number.type), frozenset()
            return ("const", str(number)), frozenset()
        if isinstance(op, SizeOp):
            return ("size", op.symbol.data), frozenset()
        if isinstance(op, s.UnitOp):
            ranks = op.which.data in s.RANKS
            return ("unit", op.which.data), frozenset({"rank"} if ranks else ())
        if isinstance(op, s.GroupOp):
            return ("group",), frozenset({"group"})
        return ("opaque", id(value)), frozenset()

    def _carried(self, value: SSAValue, body: Block) -> tuple[Hashable, frozenset[Hashable]] | None:
        """What a counted loop carries, told by what it begins with and how each turn makes the next of it: loops that
        turn alike carry equal values. Nothing says that turns differ in it."""
        loop = body.parent_op()
        if body not in self.loops or not isinstance(loop, s.ForOp) or loop.stolen is not None:
            return None
        assert isinstance(value, BlockArgument)
        last = body.last_op
        assert isinstance(last, s.YieldOp)
        inner = Expressions()
        inner.numbers, inner.parts, inner.loops = self.numbers, self.parts, self.loops
        itself: Hashable = ("itself", self.loops[body])
        inner.known = {value: self.numbers.setdefault(itself, len(self.numbers))}
        self.parts.setdefault(inner.known[value], frozenset())
        following = inner(last.values[value.index - 1])
        first = self(loop.inits[value.index - 1])
        return ("carried", self.loops[body], first, following), frozenset()


def depth_of(loop: Operation) -> int:
    """How many loops stand round one."""
    inside = takewhile(lambda at: not isinstance(at, s.RoleOp), around(loop))
    return sum(not isinstance(at, s.IfOp) for at in inside)


def _counter(body: Block) -> int:
    """Which argument of a loop's body is another number in each turn: the count, or the item where items are stolen."""
    loop = body.parent_op()
    return 2 if isinstance(loop, s.ForOp) and loop.stolen is not None else 0
