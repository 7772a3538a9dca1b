"""Where slices of tensors start, which rows a warpgroup has, and blocks of tensors loaded straight into registers."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from tkc.analysis.roles import Rows
from tkc.ir.interned import integer
from tkc.ir.stage import ops as s
from tkc.ir.stage import vectors as v
from tkc.ir.stage.types import FragmentType
from tkc.ir.tile import ops as t
from tkc.ir.tile import vectors as tv
from tkc.ir.tile.types import BlockType, TensorType
from tkc.passes.placement.state import Placement


def coordinates(p: Placement, slice: t.SliceOp) -> list[SSAValue]:
    """Where a slice starts, in elements."""
    starts: list[SSAValue] = []
    for index in slice.indices:
        value = p.values[index]
        if isinstance(index.type, BlockType) and index.type.size.data != 1:
            value = p.emit.arith("mul", value, p.emit.const(index.type.size.data))
        starts.append(value)
    return starts


def first_row(p: Placement, rows: Rows, block: int) -> SSAValue | None:
    """The first row that this warpgroup has of a row block; None where that is row 0."""
    row: SSAValue | None = None
    if rows.groups > 1:
        group = p.emit.value(s.GroupOp.create(result_types=[p.emit.const(0).type]), "group")
        row = p.emit.arith("mul", group, p.emit.const(rows.each))
    if block:
        known = p.emit.const(rows.unit * block)
        row = known if row is None else p.emit.arith("add", row, known)
    return row


def limit_of(rows: Rows, block: int) -> dict[str, Attribute]:
    """How many rows of a block there are, where the last block of a warpgroup's share is cut short."""
    left = rows.each - rows.unit * block
    return {"limit": integer(left)} if left < rows.unit else {}


def extent_of(p: Placement, slice: t.SliceOp, axis: int) -> SSAValue:
    """The extent of a tensor's axis as a scalar of the kernel's own level, found once."""
    tensor = slice.tensor.type
    assert isinstance(tensor, TensorType)
    return p.extent(tensor.shape[axis])


def load(
    p: Placement, op: tv.LoadOp, type: FragmentType, rows: Rows, block: int, column: SSAValue
) -> SSAValue:
    """A block of a tensor as one value for each row of a row block, or for each column from `column` on."""
    slice = op.slice.owner
    assert isinstance(slice, t.SliceOp)
    axis = next(i for i, x in enumerate(slice.indices) if isinstance(x.type, BlockType))
    starts = coordinates(p, slice)
    offset = column if type.a_column else first_row(p, rows, block)
    if offset is not None:
        starts[axis] = p.emit.arith("add", starts[axis], offset)
    return p.emit.value(
        v.LoadGlobalOp.create(
            operands=[p.values[slice.tensor], extent_of(p, slice, axis), *starts],
            properties={"axis": integer(axis)},
            result_types=[type],
        )
    )
