"""Register values that are held: one value a row, and tiles that a loop carries or a get hands on."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from tkc.analysis.roles import Rows
from tkc.ir.interned import integer
from tkc.ir.stage import ops as s
from tkc.ir.stage import vectors as v
from tkc.ir.stage.scalar import ConstOp
from tkc.ir.stage.types import FragmentLayout
from tkc.ir.tile import ops as t
from tkc.ir.tile import vectors as tv
from tkc.ir.tile.types import BlockType, RegsType
from tkc.passes.placement import columns
from tkc.passes.placement.fragments import (
    Piece,
    fragment,
    fragment_type,
    held_whole,
    is_column,
    is_row,
    matrix,
    rows_of_columns,
    rows_over_threads,
)
from tkc.passes.placement.places import coordinates, extent_of, first_row
from tkc.passes.placement.state import Placement

NEUTRAL = {"add": 0.0, "max": -math.inf, "min": math.inf}
SLICE = 64
"""Columns of a tile that a reduction takes at once."""


def hold(p: Placement, value: SSAValue, op: Operation) -> None:
    """Makes a register value now, once for each row block, so that its uses find it."""
    if not isinstance(value.type, RegsType) or (value, 0) in p.role.held:
        return
    op = _origin(value, op)
    height, width = matrix(value.type, op)
    if is_row(value.type):
        piece = Piece(rows_of_columns(p), 0, width, p.emit.const(0))
        p.role.held[value, 0] = fragment(p, value, piece)
        return
    rows = rows_over_threads(p, height, op)
    for block in range(rows.blocks):
        piece = Piece(rows, block, width, p.emit.const(0))
        made = reduce(p, value.owner, piece) if isinstance(value.owner, tv.ReduceOp) else None
        p.role.held[value, block] = made if made is not None else fragment(p, value, piece)


def oriented_of(value: SSAValue) -> list[SSAValue]:
    """What is held of a register value: itself, and of a vector what it becomes beside a tile, where nothing else
    uses it: one value a row, one a column."""
    if not isinstance(value.type, RegsType) or len(value.type.shape) != 1:
        return [value]
    found: list[SSAValue] = []
    for op in (use.operation for use in value.uses):
        if isinstance(op, t.CastOp):
            found += oriented_of(op.results[0])
        else:
            found.append(op.results[0] if isinstance(op, tv.ReshapeOp) else value)
    return found


def _origin(value: SSAValue, op: Operation) -> Operation:
    """Where a mistake about a value that is held belongs: to what made it, not to the loop that carries it."""
    return value.owner if isinstance(value.owner, Operation) else op


def statement(p: Placement, op: Operation) -> None:
    """Values of one element a row are made where they stand; tiles are made where they are used."""
    result = op.results[0]
    if isinstance(op, tv.TotalOp):
        columns.total(p, op, held(p, op.source, op))
    elif isinstance(op, tv.ReduceOp) and op.axis == 0:
        columns.reduce(p, op)
    elif is_column(result.type):
        hold(p, result, op)


def held(p: Placement, value: SSAValue, op: Operation) -> list[SSAValue]:
    """The stage values of a register value or scalar, held whole."""
    if not isinstance(value.type, RegsType):
        return [p.values[value]]
    hold(p, value, op)
    if is_row(value.type):
        return [p.role.held[value, 0]]
    rows = rows_over_threads(p, matrix(value.type, op)[0], op)
    return [p.role.held[value, block] for block in range(rows.blocks)]


def bind(p: Placement, value: SSAValue, stage: list[SSAValue]) -> None:
    """Takes stage values as what a register value or scalar has become."""
    if not isinstance(value.type, RegsType):
        p.values[value] = stage[0]
        return
    for block, one in enumerate(stage):
        one.name_hint = value.name_hint
        p.role.held[value, block] = one


# Reductions ----------------------------------------------------------------------------------------------------------


def reduce(p: Placement, op: tv.ReduceOp, piece: Piece) -> SSAValue:
    """One row block of a reduction, slice by slice of the columns, then over the lanes that share a row."""
    source = op.source.type
    assert isinstance(source, RegsType)
    assert isinstance(op.value.type, RegsType)
    _, width = matrix(source, op)
    type = fragment_type(op.value.type, piece.rows, 1)
    with p.emit.at(op.location):
        neutral = p.emit.value(
            ConstOp.create(
                properties={"constant": FloatAttr(NEUTRAL[op.kind.data], f32)}, result_types=[f32]
            )
        )
        start = p.emit.value(v.FillOp.create(operands=[neutral], result_types=[type]))
        valid = _valid(p, op)
        columns = math.gcd(SLICE, width)

        def one(column: SSAValue, carry: SSAValue) -> SSAValue:
            taken = fragment(p, op.source, Piece(piece.rows, piece.block, columns, column))
            left = [] if valid is None else [p.emit.arith("sub", valid, column)]
            return p.emit.value(
                v.ReduceOp.create(
                    operands=[taken, carry, *left],
                    properties={"kind": op.kind},
                    result_types=[type],
                )
            )

        result = over_columns(p, op.source, piece.rows, width, columns, one, start)
        if piece.rows.layout is FragmentLayout.WGMMA:
            result = p.emit.value(
                v.CombineLanesOp.create(
                    operands=[result], properties={"kind": op.kind}, result_types=[type]
                )
            )
    return result


def _valid(p: Placement, op: tv.ReduceOp) -> SSAValue | None:
    """Columns of the block that are inside its axis: more than it has where the block is whole."""
    if op.block is None or op.extent is None:
        return None
    size = op.block.type
    assert isinstance(size, BlockType)
    before = p.emit.arith("mul", p.values[op.block], p.emit.const(size.size.data))
    return p.emit.arith("sub", p.values[op.extent], before)


def over_columns(
    p: Placement,
    value: SSAValue,
    rows: Rows,
    width: int,
    columns: int,
    body: Callable[[SSAValue, SSAValue], SSAValue],
    start: SSAValue,
) -> SSAValue:
    """`body(column, carry)` for each slice, in a loop where the columns of `value` may be found at run time."""
    if rows.layout is FragmentLayout.WGMMA or width == columns or held_whole(p, value):
        for first in range(0, width, columns):
            start = body(p.emit.const(first), start)
        return start
    bounds = (p.emit.const(0), p.emit.const(width), p.emit.const(columns))
    loop = Block(arg_types=[bounds[0].type, start.type])
    loop.args[0].name_hint = "column"
    with p.emit.inside(loop):
        made = body(loop.args[0], loop.args[1])
        p.emit.add(s.YieldOp.create(operands=[made]))
    return p.emit.value(
        s.ForOp.create(operands=[*bounds, start], regions=[Region(loop)], result_types=[start.type])
    )


# Rows straight to global memory --------------------------------------------------------------------------------------


def store(p: Placement, op: t.CopyOp, column: SSAValue) -> None:
    """`Y[m] <- r` of one value a row: each thread that holds a row's value writes it, or one of those that do."""
    slice = op.destination.owner
    assert isinstance(slice, t.SliceOp)
    assert isinstance(column.type, RegsType)
    rows = rows_over_threads(p, int(column.type.shape[0]), op)
    axis = next(i for i, x in enumerate(slice.indices) if isinstance(x.type, BlockType))
    for block, value in enumerate(held(p, column, op)):
        starts = coordinates(p, slice)
        offset = first_row(p, rows, block)
        if offset is not None:
            starts[axis] = p.emit.arith("add", starts[axis], offset)
        p.emit.add(
            v.StoreGlobalOp.create(
                operands=[value, p.values[slice.tensor], extent_of(p, slice, axis), *starts],
                properties={"axis": integer(axis), **columns.added(op)},
            )
        )
