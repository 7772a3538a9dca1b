"""Which loops are sure to touch other elements of a tensor in each of their turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tkc.ir.nest import outward
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp


def loops_apart(indices: Sequence[SSAValue], widths: Sequence[int]) -> Iterator[Operation]:
    """The loops no two of whose turns touch a common element, at indices of so many elements along each axis: where
    two did, the indices would be equal, and so what they are made from, down to a counter that each turn changes."""
    equal = [v for i, w in zip(indices, widths, strict=True) for v in _multiplied(i, w)]
    known = _Known()
    seen: set[SSAValue] = set()
    while equal:
        value = equal.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.owner
        if isinstance(op, Block):
            if _counts(value, op):
                loop = op.parent_op()
                assert loop is not None
                yield loop
        elif isinstance(op, ArithOp):
            equal += known.made_from(op)


def _multiplied(index: SSAValue, width: int) -> Iterator[SSAValue]:
    """What equal boxes have equal: a block's number, or the index of what is one element wide."""
    op = index.owner
    if width == 1:
        yield index
    elif isinstance(op, ArithOp) and op.kind.data == "mul":
        x, y = op.inputs
        for block, by in ((x, y), (y, x)):
            times = _constant(by)
            if times is not None and times >= width:
                yield block


@dataclass
class _Known:
    """What is equal where two results of an operation are, as far as it takes several of them to tell."""

    quotients: set[tuple[str, SSAValue, SSAValue]] = field(
        default_factory=set[tuple[str, SSAValue, SSAValue]]
    )
    banded: dict[tuple[SSAValue, SSAValue], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, SSAValue], SSAValue]
    )
    """Items whose row in a grouped order is equal, by their number inside a band and the band's height."""

    def made_from(self, op: ArithOp) -> Iterator[SSAValue]:
        """What is equal where an operation's result is."""
        kind, inputs = op.kind.data, op.inputs
        if kind in ("add", "sub", "mul"):
            for x, y in (inputs, inputs[::-1]):
                times = _constant(y)
                if times is not None and (kind != "mul" or times):
                    yield x
            if (band := _in_bands(op)) is not None:
                inside, height, item = band
                self.banded[inside, height] = item
                if ("div", inside, height) in self.quotients:
                    yield item
        elif kind in ("div", "mod"):
            x, y = inputs
            self.quotients.add((kind, x, y))
            if {("div", x, y), ("mod", x, y)} <= self.quotients and _stays(y):
                yield x
            if kind == "div" and (x, y) in self.banded:
                yield self.banded[x, y]


def _in_bands(row: ArithOp) -> tuple[SSAValue, SSAValue, SSAValue] | None:
    """Of a row in a grouped order, band · size + inside mod height: the number inside the band, the band's height, and
    the item. A height is at most the size, so that an equal row is in an equal band, of an equal height; an equal
    column, inside div height, then is an equal item (`schedules/order.py`)."""
    for first, offset in (row.inputs, row.inputs[::-1]):
        above, below = _parts(first, "mul"), _parts(offset, "mod")
        if row.kind.data != "add" or above is None or below is None:
            continue
        (band, size), (inside, height) = above, below
        divided, left, least = _parts(band, "div"), _parts(inside, "sub"), _parts(height, "min")
        if divided is None or left is None or least is None or _constant(size) is None:
            continue
        (item, width), rest = divided, _parts(least[0], "sub")
        whole = left[0] is item and _parts(left[1], "mul") == (band, width)
        low = least[1] is size and rest is not None and rest[1] is first and _stays(rest[0])
        if whole and low and _stays(width):
            return inside, height, item
    return None


def _parts(value: SSAValue, kind: str) -> tuple[SSAValue, ...] | None:
    """What a result of arithmetic of this kind is made of."""
    op = value.owner
    return tuple(op.inputs) if isinstance(op, ArithOp) and op.kind.data == kind else None


def _stays(value: SSAValue) -> bool:
    """Whether a value is computed outside of every loop, or from nothing but such values."""
    seen: set[SSAValue] = set()
    todo = [value]
    while todo:
        one = todo.pop()
        if one in seen or not _in_loop(one):
            continue
        seen.add(one)
        if not isinstance(one.owner, ArithOp | ConstOp | SizeOp):
            return False
        todo += one.owner.operands
    return True


def _in_loop(value: SSAValue) -> bool:
    at = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    round_it = takewhile(lambda o: not isinstance(o, s.RoleOp | s.KernelOp), outward(at) if at else ())
    return any(o.regions and not isinstance(o, s.IfOp) for o in round_it)


def _counts(value: SSAValue, body: Block) -> bool:
    """Whether each turn of a counted loop has another number: its counter, or what it carries and adds to."""
    loop, last = body.parent_op(), body.last_op
    if not isinstance(loop, s.ForOp) or loop.stolen is not None:
        return False
    assert isinstance(value, BlockArgument)
    if value.index == 0:
        return True
    assert last is not None
    following = last.operands[value.index - 1].owner
    if not isinstance(following, ArithOp) or following.kind.data != "add":
        return False
    x, y = following.inputs
    more = _constant(y if x is value else x)
    return value in (x, y) and more is not None and more > 0


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, ConstOp) and isinstance(op.constant, IntegerAttr):
        return op.constant.value.data
    return None
