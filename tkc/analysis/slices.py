"""Whether two places of a tensor, at the tile level, have no element in common: in one turn of the loops round them, or
in different turns of one of them. A place is a slice, or a few elements in a row of the last axis."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.ops import ForOp, IfOp
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.tile.explicit import BlockAtOp, BlockNumberOp, PartAtOp
from tkc.ir.tile.loops import ForPartsOp, ForSpanOp, IndexOp, PartOp, ShareOp
from tkc.ir.tile.ops import ForBlocksOp, ForTilesOp
from tkc.ir.tile.types import BlockType

Loop = ForTilesOp | ForBlocksOp | ForPartsOp | ForSpanOp | ForOp | WhileOp
COUNTED = (ForBlocksOp, ForPartsOp, ForSpanOp, ForOp)
"""Loops whose first argument is another number in each turn."""

MOST = 64
"""Terms of an index that are followed; one of more may be any number."""


@dataclass(frozen=True)
class Form:
    """An integer as a number and multiples of leaves, and the values that each leaf is made of."""

    number: int = 0
    terms: dict[int, int] = field(default_factory=dict[int, int])
    of: dict[int, frozenset[SSAValue]] = field(default_factory=dict[int, frozenset[SSAValue]])

    def times(self, by: int) -> Form:
        terms = {k: c * by for k, c in self.terms.items() if by}
        return Form(self.number * by, terms, self.of)

    def plus(self, other: Form, sign: int = 1) -> Form:
        keys = dict.fromkeys((*self.terms, *other.terms))
        terms = {k: self.terms.get(k, 0) + sign * other.terms.get(k, 0) for k in keys}
        kept = {k: c for k, c in terms.items() if c}
        of = {**self.of, **other.of}
        return Form(self.number + sign * other.number, kept, {k: of[k] for k in kept})

    @property
    def values(self) -> frozenset[SSAValue]:
        return frozenset().union(*self.of.values())


@dataclass(frozen=True)
class Place:
    """Where something touches a tensor: a block or an index along each axis; of the last, `elements` from there on."""

    indices: tuple[SSAValue, ...]
    elements: int = 1


class Slices:
    """Places of one role; integers are written out once each, and equal ones have equal leaves."""

    def __init__(self) -> None:
        self.known: dict[SSAValue, Form] = {}
        self.leaves: dict[Hashable, int] = {}

    def number(self, value: SSAValue) -> Form:
        """An integer, or the number of a block, as far as it is a sum."""
        stack = [value]
        while stack:  # not by recursion: sums can be longer than Python's stack is deep
            more = [v for v in _parts(stack[-1]) if v not in self.known]
            if more:
                stack += more
                continue
            now = stack.pop()
            self.known[now] = self._made(now)
        return self.known[value]

    def leaf(self, key: Hashable, values: Iterable[SSAValue]) -> Form:
        """Something of which only equality with itself is known."""
        number = self.leaves.setdefault(key, len(self.leaves))
        return Form(0, {number: 1}, {number: frozenset(values)})

    def _made(self, value: SSAValue) -> Form:
        op = value.owner
        match op:
            case ConstOp() if isinstance(op.constant, IntegerAttr):
                return Form(op.constant.value.data)
            case SizeOp():
                return self.leaf(("size", op.symbol.data), ())
            case IndexOp() | BlockNumberOp():
                return self.known[op.block]
            case PartOp():
                count = _size(op.whole) // _size(op.part)
                return self.known[op.whole].times(count).plus(Form(op.index.value.data))
            case PartAtOp():
                return self.known[op.block].times(op.count.value.data).plus(self.known[op.index])
            case BlockAtOp():
                return self.known[op.index]
            case ShareOp():
                count = _size(op.whole) // _size(op.part)
                rank = self.leaf(("rank", op.of and op.of.data), ())
                return self.known[op.whole].times(count).plus(rank)
            case ArithOp():
                return self._arith(op, value)
            case _:
                return self.leaf(value, (value,))

    def _arith(self, op: ArithOp, value: SSAValue) -> Form:
        forms = [self.known[v] for v in op.inputs]
        kind, made = op.kind.data, None
        if len(forms) == 2 and kind in ("add", "sub"):
            made = forms[0].plus(forms[1], 1 if kind == "add" else -1)
        elif len(forms) == 2 and kind == "mul":
            a, b = forms if not forms[1].terms else forms[::-1]
            made = a.times(b.number) if not b.terms else None
        if made is not None and len(made.terms) <= MOST:
            return made
        keys = [(f.number, frozenset(f.terms.items())) for f in forms]
        return self.leaf((kind, *keys), frozenset().union(*(f.values for f in forms)))

    def _axes(self, place: Place) -> list[_Axis]:
        sizes = [_size(index) for index in place.indices]
        found = [
            _Axis(self.number(i).times(n), n) for i, n in zip(place.indices, sizes, strict=True)
        ]
        if place.elements > 1:
            found[-1] = _Axis(found[-1].start, place.elements)
        return found

    def apart_here(self, first: Place, second: Place) -> bool:
        """Whether two places of one tensor are apart in the same turn of all loops round both."""
        for a, b in zip(self._axes(first), self._axes(second), strict=True):
            moved = b.start.plus(a.start, -1)
            if _clear(gcd(*moved.terms.values()), moved.number, a.width, b.width):
                return True
        return False

    def same_here(self, first: Place, second: Place) -> bool:
        """Whether two places of one tensor are the same elements in the same turn of all loops round both."""
        axes = zip(self._axes(first), self._axes(second), strict=True)
        return all(a.width == b.width and a.start == b.start for a, b in axes)

    def apart_around(self, loop: Loop, first: Place, second: Place) -> bool:
        """Whether two places of one tensor are apart in any two different turns of a loop round both, while all loops
        round it are in the same turn."""
        axes = zip(self._axes(first), self._axes(second), strict=True)
        return any(self._axis_apart(loop, a, b) for a, b in axes)

    def in_one_turn(self, loop: Loop, first: Operation, second: Operation) -> bool:
        """Whether two operations in a loop come to run in one turn of it at most, the same for both: conditions round
        them compare its counter to what is the same in all turns."""
        return bool(self._turns(loop, first) & self._turns(loop, second))

    def _turns(self, loop: Loop, op: Operation) -> set[Hashable]:
        """Turns in one of which alone an operation runs, each as a difference that is 0 there."""
        found: set[Hashable] = set()
        region, at = op.parent_region(), op.parent_op()
        while at is not None and at is not loop:
            if isinstance(at, IfOp) and region is at.then:
                for condition in _conjuncts(at.condition):
                    found |= {*self._turn(loop, condition)}
            region, at = at.parent_region(), at.parent_op()
        return found

    def _turn(self, loop: Loop, condition: SSAValue) -> Iterator[Hashable]:
        op, counted = condition.owner, self._counted(loop)
        if not isinstance(op, ArithOp) or op.kind.data != "eq" or counted is None:
            return
        a, b = (self.number(v) for v in op.inputs)
        where = a.plus(b, -1)
        loose = any(inside(v, loop) for k in where.terms if k != counted for v in where.of[k])
        if where.terms.get(counted) and not loose:
            where = where.times(1 if where.terms[counted] > 0 else -1)
            yield where.number, frozenset(where.terms.items())

    def _counted(self, loop: Loop) -> int | None:
        """The leaf that is the loop's counter."""
        if not isinstance(loop, COUNTED):
            return None
        return next(iter(self.number(loop.body.block.args[0]).terms))

    def _axis_apart(self, loop: Loop, a: _Axis, b: _Axis) -> bool:
        counted = self._counted(loop)
        fixed, turn, loose = dict[int, int](), [0, 0], 0
        for n, (sign, start) in enumerate(((-1, a.start), (1, b.start))):
            for key, c in start.terms.items():
                if key == counted:
                    turn[n] = c
                elif any(inside(v, loop) for v in start.of[key]):
                    loose = gcd(loose, c)
                else:
                    fixed[key] = fixed.get(key, 0) + sign * c
        offset = b.start.number - a.start.number
        if loose or any(fixed.values()) or turn[0] != turn[1] or not turn[0]:
            step = gcd(loose, *turn, *fixed.values())
            return _clear(step, offset, a.width, b.width)
        each = abs(turn[0])
        return offset + each >= a.width and offset - each <= -b.width


def _parts(value: SSAValue) -> Sequence[SSAValue]:
    """The values that one is made of, where that is followed."""
    op = value.owner
    match op:
        case IndexOp() | BlockNumberOp():
            return [op.block]
        case PartOp() | ShareOp():
            return [op.whole]
        case PartAtOp():
            return [op.block, op.index]
        case BlockAtOp():
            return [op.index]
        case ArithOp():
            return op.inputs
        case _:
            return []


def _conjuncts(condition: SSAValue) -> Iterator[SSAValue]:
    """What must hold for a condition to."""
    todo = [condition]
    while todo:
        now = todo.pop()
        if isinstance(now.owner, ArithOp) and now.owner.kind.data == "and":
            todo += now.owner.inputs
        else:
            yield now


def _size(value: SSAValue) -> int:
    return value.type.size.data if isinstance(value.type, BlockType) else 1


@dataclass(frozen=True)
class _Axis:
    """One index of a slice: the first element, and how many there are."""

    start: Form
    width: int


def _clear(step: int, offset: int, a: int, b: int) -> bool:
    """Whether `a` elements from 0 and `b` from `offset` and any multiple of `step` have none in common."""
    if not step:
        return offset >= a or offset <= -b
    return offset % step >= a and offset % step + b <= step


def inside(value: SSAValue, loop: Operation) -> bool:
    """Whether a value is made in a loop, so that it may be another in each turn."""
    at: Operation | Block | None = value.owner
    while at is not None:
        if at is loop:
            return True
        at = at.parent_op()
    return False


def loops_round(op: Operation) -> Sequence[Loop]:
    """The loops round an operation, the innermost first."""
    found: list[Loop] = []
    at = op.parent_op()
    while at is not None:
        if isinstance(at, Loop):
            found.append(at)
        at = at.parent_op()
    return found
