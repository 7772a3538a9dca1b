"""A value as a row of operations on numbers: what is evaluated for every turn of a loop is read from the IR once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp


class Straight(NamedTuple):
    """Numbers by position: `start` has the constants, `leaves` are given, and each step puts one more."""

    start: list[int]
    leaves: list[tuple[SSAValue, int]]
    steps: list[tuple[int, Callable[..., int], tuple[int, ...]]]
    inner: frozenset[SSAValue]
    result: int

    def of(self, given: Mapping[SSAValue, int]) -> int | None:
        """The integer; None where a leaf is not given, an inner value is, or a divisor is 0."""
        numbers = self.start.copy()
        for leaf, at in self.leaves:
            if leaf not in given:
                return None
            numbers[at] = given[leaf]
        if any(v in self.inner for v in given):
            return None
        try:
            for at, row, inputs in self.steps:
                numbers[at] = row(*[numbers[i] for i in inputs])
        except ZeroDivisionError:
            return None
        return int(numbers[self.result])


def straight(value: SSAValue) -> Straight:
    """A value down to constants, and to what no arithmetic makes, which has to be given."""
    places: dict[SSAValue, int] = {}
    made = Straight([], [], [], frozenset(), 0)
    inner: set[SSAValue] = set()
    stack = [value]
    while stack:
        now = stack[-1]
        op = now.owner
        if now not in places and isinstance(op, ArithOp):
            more = [v for v in op.inputs if v not in places]
            if more:
                stack += more
                continue
        stack.pop()
        if now in places:
            continue
        places[now] = len(made.start)
        made.start.append(0)
        if isinstance(op, ConstOp) and isinstance(op.constant, IntegerAttr):
            made.start[-1] = op.constant.value.data
        elif isinstance(op, ArithOp):
            inner.add(now)
            inputs = tuple(places[v] for v in op.inputs)
            made.steps.append((places[now], SCALARS[op.kind.data].of, inputs))
        else:
            made.leaves.append((now, places[now]))
    return made._replace(inner=frozenset(inner), result=places[value])
