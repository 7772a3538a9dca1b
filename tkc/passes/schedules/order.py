"""Which block of each axis an item of a schedule is: the order in which a launch walks its tiles (rasterisation)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from tkc.ir.emit import Emitter
from tkc.ir.stage import ops as s


def block_numbers(
    emit: Emitter, item: SSAValue, extents: list[SSAValue], group: int, serpentine: bool = False
) -> list[SSAValue]:
    """The block number on each axis of item `item`: last axis fastest; the last two in bands of `group` rows.

    A band is walked column by column, so that neighbouring items share blocks of both axes (better hits in L2); the
    last band may be lower. With `serpentine` every second band is walked from its last column to its first, so that
    what the end of one band has brought into L2 is used by the next.
    """
    if len(extents) == 1 or (group == 1 and not serpentine):
        return _plain(emit, item, extents)
    rows, columns = extents[-2:]
    outer: list[SSAValue] = []
    if extents[:-2]:
        plane = emit.arith("mul", rows, columns)
        outer = _plain(emit, emit.arith("div", item, plane), extents[:-2])
        item = emit.arith("mod", item, plane)
    size = emit.const(group)  # the launch checks that group * columns fits 32 bits
    width = emit.arith("mul", size, columns)
    band = emit.arith("div", item, width)
    first = emit.arith("mul", band, size)
    height = emit.arith("min", emit.arith("sub", rows, first), size)
    inside = emit.arith("sub", item, emit.arith("mul", band, width))
    row = emit.arith("add", first, emit.arith("mod", inside, height))
    column = emit.arith("div", inside, height)
    if serpentine:
        one = emit.const(1)
        back = emit.arith("sub", emit.arith("sub", columns, one), column)
        odd = emit.arith("eq", emit.arith("and", band, one), one)
        column = emit.arith("select", odd, back, column)
    return [*outer, row, column]


def ordered_numbers(
    emit: Emitter, item: SSAValue, extents: list[SSAValue], axis: int, descending: bool
) -> list[SSAValue]:
    """The block numbers where all items of one block of an axis come before those of the next, or of the one before."""
    outer, *rest = _plain(emit, item, [extents[axis], *extents[:axis], *extents[axis + 1 :]])
    if descending:
        last = emit.arith("sub", extents[axis], emit.const(1))
        outer = emit.arith("sub", last, outer)
    return [*rest[:axis], outer, *rest[axis:]]


def _plain(emit: Emitter, item: SSAValue, extents: list[SSAValue]) -> list[SSAValue]:
    """Last axis fastest."""
    numbers: list[SSAValue] = []
    for extent in reversed(extents[1:]):
        numbers.insert(0, emit.arith("mod", item, extent))
        item = emit.arith("div", item, extent)
    return [item, *numbers]


def take_body(loop: s.WorkLoopOp, body: Block, values: Sequence[SSAValue]) -> None:
    """Moves the operations of a work loop to the end of `body`, with `values` for its block's arguments."""
    old = loop.body.block
    for arg, new in zip(old.args, values, strict=True):
        if new.name_hint is None or new.name_hint.startswith("c"):
            new.name_hint = arg.name_hint
        arg.replace_all_uses_with(new)
    for op in list(old.ops):
        op.detach()
        body.add_op(op)
