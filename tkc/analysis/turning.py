"""Whether a loop turns at least once wherever it is come to: by a condition round it, or by what its bounds can be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Operation, OpResult, SSAValue

from tkc.analysis.items import handed
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp

DEEP = 50
"""Through so many operations numbers are followed."""


class Span(NamedTuple):
    """The least and the most that a number can be."""

    least: int
    most: int


ANY = Span(-(2**31), 2**31 - 1)


def must_turn(loop: s.ForOp) -> bool:
    """Whether a loop counts up, and from less than its end."""
    spans = Spans()
    by = loop.step.owner
    counted = isinstance(by, s.UnitOp) and by.which.data == "count"
    if not (counted or spans.of(loop.step).least > 0):
        return False
    if spans.of(loop.lower).most < spans.of(loop.upper).least:
        return True
    return any(
        least is loop.lower and most is loop.upper
        for condition in _holding(loop)
        for least, most in _less(condition)
    )


@dataclass
class Spans:
    """What 32-bit numbers can be, whatever the launch and the turn: of constants, and of what they bound."""

    known: dict[SSAValue, Span] = field(default_factory=dict[SSAValue, Span])

    def of(self, value: SSAValue, deep: int = 0) -> Span:
        found = self.known.get(value)
        if found is None:
            follows = deep < DEEP and value.type == i32
            found = self.known[value] = self._of(value, deep + 1) if follows else ANY
        return found

    def _of(self, value: SSAValue, deep: int) -> Span:
        match value.owner:
            case ConstOp(constant=IntegerAttr() as constant):
                return Span(constant.value.data, constant.value.data)
            case ArithOp(kind=StringAttr(data="select"), inputs=(_, *sides)):
                return _either([self.of(v, deep) for v in sides])
            case ArithOp(kind=StringAttr(data=kind), inputs=inputs):
                return _reckoned(kind, [self.of(v, deep) for v in inputs])
            case s.IfOp() as op if isinstance(value, OpResult):
                return _either([self.of(v, deep) for v in handed(op, value)])
            case _:
                return ANY


def _reckoned(kind: str, inputs: list[Span]) -> Span:
    """What arithmetic gives; sums and products that may not fit wrap, so that they are anything."""
    match kind, inputs:
        case "mod", [_, (least, most)] if least > 0:  # of numbers without a sign
            return Span(0, most - 1)
        case "div", [_, (least, _)] if least > 1:
            return Span(0, (2**32 - 1) // least)
        case (("add" | "mul" | "min" | "max"), _):
            every = [SCALARS[kind].of(*each) for each in product(*inputs)]
        case "sub", [x, y]:
            every = [x.least - y.most, x.most - y.least]
        case _:
            return ANY
    found = Span(min(every), max(every))
    return found if ANY.least <= found.least and found.most <= ANY.most else ANY


def _either(spans: list[Span]) -> Span:
    return Span(min(x.least for x in spans), max(x.most for x in spans))


def _holding(op: Operation) -> Iterator[SSAValue]:
    """The conditions that hold wherever an operation is."""
    inner, outer = op, op.parent_op()
    while outer is not None:
        if isinstance(outer, s.IfOp) and inner.parent_region() is outer.then:
            yield outer.condition
        inner, outer = outer, outer.parent_op()


def _less(condition: SSAValue) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Which number is less than which where a condition holds, as far as it says so."""
    match condition.owner:
        case ArithOp(kind=StringAttr(data="and"), inputs=inputs):
            for part in inputs:
                yield from _less(part)
        case ArithOp(kind=StringAttr(data="lt"), inputs=(x, y)):
            yield x, y
        case ArithOp(kind=StringAttr(data="gt"), inputs=(x, y)):
            yield y, x
        case _:
            pass
