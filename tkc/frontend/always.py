"""Conditions that hold always, or never: ids and sizes are not negative, and counters of loops stay in their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.ir import Block, SSAValue

from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.tile import explicit as T
from tkc.ir.tile import loops as L
from tkc.ir.tile.types import BlockType

LEAST, MOST = -(2**31), 2**31 - 1
DEEPEST = 24
"""Operations that a number is looked through, one inside the other; of more nothing is known."""


class Numbers(NamedTuple):
    """The least and the largest number that a value may be."""

    low: int = LEAST
    high: int = MOST


Counters = Mapping[SSAValue, tuple[SSAValue, SSAValue]]
"""Counters of loops that count up, with the first and the end of their numbers."""

ANY, COUNT, TRUTH = Numbers(), Numbers(0), Numbers(0, 1)
_CONTRARY = {"ge": "lt", "gt": "le", "ne": "eq"}


def known(condition: SSAValue, counters: Counters) -> bool | None:
    """Whether a condition holds, where that is so whenever it is asked."""
    low, high = _numbers(condition, counters, 0)
    return bool(low) if low == high else None


def _numbers(value: SSAValue, counters: Counters, depth: int) -> Numbers:
    if value.type not in (i1, i32) or depth > DEEPEST:
        return ANY
    if value in counters:
        lower, upper = (_numbers(v, counters, depth + 1) for v in counters[value])
        return Numbers(lower.low, max(lower.low, upper.high - 1))
    match op := value.owner:
        case ConstOp() if isinstance(op.constant, IntegerAttr):
            number = op.constant.value.data
            return (
                Numbers(abs(number), abs(number)) if value.type == i1 else Numbers(number, number)
            )
        case SizeOp() | T.BlockNumberOp() | L.IndexOp() | s.UnitOp() | IdentityOp():
            return COUNT  # of threads no end: that none has such a number is told later
        case ArithOp():
            return _arith(op, counters, depth)
        case _:
            return TRUTH if value.type == i1 else ANY


def _arith(op: ArithOp, counters: Counters, depth: int) -> Numbers:
    kind, inputs = op.kind.data, op.inputs
    if kind in ("lt", "eq", "le", *_CONTRARY):
        a, b = inputs
        holds = _compared(_CONTRARY.get(kind, kind), a, b, counters, depth)
        if holds is None:
            return TRUTH
        return Numbers(*[int(holds is not (kind in _CONTRARY))] * 2)
    if kind == "select":
        one, other = (_numbers(v, counters, depth + 1) for v in inputs[1:])
        return Numbers(min(one.low, other.low), max(one.high, other.high))
    if len(inputs) != 2:
        return ANY
    found = _of(kind, *(_numbers(v, counters, depth + 1) for v in inputs))
    return found if LEAST <= found.low and found.high <= MOST else ANY


def _compared(kind: str, a: SSAValue, b: SSAValue, counters: Counters, depth: int) -> bool | None:
    """`a < b`, `a <= b` or `a == b`, where it always holds or never does."""
    if a.type != i32 or b.type != i32:
        return None
    if _same(a, b, depth):
        return kind != "lt"
    for one, other, first in ((a, b, True), (b, a, False)):
        lower, upper = counters.get(one, (None, None))
        if _ends(one, other) or (upper is not None and _same(other, upper, depth)):  # one < other
            return kind != "eq" and first
        if kind == "lt" and lower is not None and _same(other, lower, depth) and first:
            return False  # one >= other
        if kind == "le" and lower is not None and _same(other, lower, depth) and not first:
            return True
    x, y = _numbers(a, counters, depth + 1), _numbers(b, counters, depth + 1)
    if kind == "eq":
        return False if x.high < y.low or y.high < x.low else None
    if x.high < y.low or (kind == "le" and x.high <= y.low):
        return True
    return False if x.low > y.high or (kind == "lt" and x.low >= y.high) else None


def _ends(counter: SSAValue, end: SSAValue) -> bool:
    """Whether a value is an element's number in the axis of a loop, and another one the axis's extent."""
    one, other = counter.owner, end.owner
    if not (isinstance(one, L.IndexOp) and isinstance(other, SizeOp)):
        return False
    block = one.block
    whole = isinstance(block.owner, Block) and isinstance(block.type, BlockType)
    return whole and (block.type.size.data, block.type.extent.data) == (1, other.symbol.data)


def _same(a: SSAValue, b: SSAValue, depth: int) -> bool:
    """Whether two values are computed alike, of the same."""
    if a is b:
        return True
    one, other = a.owner, b.owner
    match one, other:
        case ConstOp(), ConstOp():
            return one.constant == other.constant
        case SizeOp(), SizeOp():
            return one.symbol == other.symbol
        case T.BlockNumberOp(), T.BlockNumberOp():
            return one.block is other.block
        case ArithOp(), ArithOp():
            return (
                depth <= DEEPEST
                and one.kind == other.kind
                and len(one.inputs) == len(other.inputs)
                and all(
                    _same(x, y, depth + 1) for x, y in zip(one.inputs, other.inputs, strict=True)
                )
            )
        case _:
            return False


# What arithmetic gives -----------------------------------------------------------------------------------------------


def _of(kind: str, a: Numbers, b: Numbers) -> Numbers:
    """What an operation gives; bits, quotients and rests of numbers below 0 are not looked at."""
    match kind:
        case "add":
            return Numbers(a.low + b.low, a.high + b.high)
        case "sub":
            return Numbers(a.low - b.high, a.high - b.low)
        case "mul":
            found = [x * y for x in a for y in b]
            return Numbers(min(found), max(found))
        case "min":
            return Numbers(min(a.low, b.low), min(a.high, b.high))
        case "max":
            return Numbers(max(a.low, b.low), max(a.high, b.high))
        case _ if a.low < 0 or b.low < 0:
            return ANY
        case "and":
            alike = a.low == a.high and b.low == b.high
            return Numbers(a.low & b.low if alike else 0, min(a.high, b.high))
        case "or":
            return Numbers(max(a.low, b.low), _bits(a.high | b.high))
        case "xor":
            if a.low == a.high and b.low == b.high:
                return Numbers(a.low ^ b.low, a.low ^ b.low)
            return Numbers(0, _bits(a.high | b.high))
        case "shr" if b.low == b.high < 32:
            return Numbers(a.low >> b.low, a.high >> b.low)
        case "div" if b.low:
            return Numbers(a.low // b.high, a.high // b.low)
        case "cdiv" if b.low:
            return Numbers(-(-a.low // b.high), -(-a.high // b.low))
        case "mod" if b.low:
            return Numbers(0, min(a.high, b.high - 1))
        case _:
            return ANY


def _bits(number: int) -> int:
    """The largest number of as many bits."""
    return (1 << number.bit_length()) - 1
