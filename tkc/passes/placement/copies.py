"""Copies: boxes between global and shared memory, and register tiles stored slice by slice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tkc.analysis.roles import Rows
from tkc.analysis.swizzle import Use, choose
from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.ir.stage.types import BufferType, FragmentLayout, Home, RingType
from tkc.ir.syntax import segments
from tkc.ir.tile import ops as t
from tkc.ir.tile.types import BlockType, RegsType, SharedType, SliceType
from tkc.passes.placement.fragments import Piece, fragment, matrix, rows_over_threads
from tkc.passes.placement.state import Placement, Slot, Staging, integer, names

STORE_SLOTS = 2
"""Staging slots of a store (rule R22): one is filled while the copy engine drains the other."""

TMA_ALIGN = 128
"""Alignment of a box in shared memory, in bytes (PTX: cp.async.bulk.tensor)."""

TMA_BOX = 256
"""The copy engine's limit on each extent of a box (cuTensorMapEncodeTiled)."""


def copy(p: Placement, op: t.CopyOp) -> None:
    """`destination <- source`, in each of the ways that the memories at its ends allow."""
    source, destination = op.source, op.destination
    match source.type, destination.type:
        case SliceType(), SharedType():
            slot = p.role.slots[destination]
            check_box(slot.type, op)
            box = box_of(p, source, slot.type.shape)
            slot.touch(How.TMA, slot.type.slot_bytes)
            p.emit.add(
                s.TmaLoadOp.create(
                    operands=[box.tensor, slot.buffer, slot.slot, *box.starts],
                    properties={"box": box.extents, **segments(1, 1, 1, len(box.starts), 0)},
                )
            )
        case SharedType(), SliceType():
            slot = p.role.slots[source]
            check_box(slot.type, op)
            box = box_of(p, destination, slot.type.shape)
            slot.touch(How.BULK)
            p.role.bulk = True
            p.emit.add(
                s.TmaStoreOp.create(
                    operands=[slot.buffer, slot.slot, box.tensor, *box.starts],
                    properties={"box": box.extents},
                )
            )
            p.emit.add(s.BulkCommitOp.create(properties={"id": p.id("store")}))
        case RegsType(), SliceType():
            _store(p, op)
        case RegsType(), SharedType():
            _fill(p, op)
        case _:
            raise TkcError.at(
                "TK110",
                f"a copy from {source.type} to {destination.type} is not supported yet",
                location_of(op),
            )


# Boxes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """A box of a tensor: where it starts and how far it goes on each axis, in elements, outermost axis first."""

    tensor: SSAValue
    starts: tuple[SSAValue, ...]
    extents: ArrayAttr[IntegerAttr]


def box_of(p: Placement, slice: SSAValue, shape: Sequence[int]) -> Box:
    """The box of a piece of `shape` at the start of a slice."""
    op = slice.owner
    assert isinstance(op, t.SliceOp)
    starts: list[SSAValue] = []
    box: list[int] = []
    extents = list(shape)
    for index in op.indices:
        value = p.values[index]
        if isinstance(index.type, BlockType):
            if index.type.size.data != 1:
                value = p.emit.arith("mul", value, p.emit.const(index.type.size.data))
            box.append(extents.pop(0))
        else:
            box.append(1)
        starts.append(value)
    return Box(p.values[op.tensor], tuple(starts), ArrayAttr([integer(n) for n in box]))


def check_box(buffer: BufferType, op: Operation) -> None:
    """TK207 where the copy engine has no boxes for a tile."""
    shape = list(buffer.shape)
    for extent in buffer.shape[:-1]:
        if extent > TMA_BOX:
            raise TkcError.at(
                "TK207",
                f"a tile of shape {shape} has an extent of {extent}; the tensor copy engine takes "
                f"boxes of at most {TMA_BOX} on each axis but the last",
                location_of(op),
            )
    span = SWIZZLES[buffer.swizzle.data].span
    rows = buffer.elements // buffer.shape[-1]
    if buffer.slot_bytes > rows * span and rows * span % TMA_ALIGN:
        raise TkcError.at(
            "TK207",
            f"a tile of shape {shape} is copied in spans of {span} bytes of {rows} rows; the tensor "
            f"copy engine writes at multiples of {TMA_ALIGN} bytes, so rows must be a multiple of "
            f"{TMA_ALIGN // math.gcd(TMA_ALIGN, span)}",
            location_of(op),
        )


# Register tiles to global memory -------------------------------------------------------------------------------------


def _store(p: Placement, op: t.CopyOp) -> None:
    """`C[m, n] <- r` in slices of one span of columns, through staging slots that the copy engine drains (R22)."""
    tile = op.source.type
    assert isinstance(tile, RegsType)
    height, width = matrix(tile, op)
    rows = rows_over_threads(p, op.source, height, op)
    choice = choose(tile.dtype.data, (height, width), frozenset({Use.COPY, Use.THREADS}))
    if choice is None:
        raise TkcError.at(
            "TK207",
            f"rows of {width} {tile.dtype.data} are no multiple of 16 bytes; the tensor copy engine "
            "stores no such tile",
            location_of(op),
        )
    columns = choice.span * 8 // DTYPES[tile.dtype.data].bits
    type = BufferType.of(
        tile.dtype.data,
        (rows.unit, columns),
        STORE_SLOTS * rows.groups,
        Home.SHARED,
        choice.swizzle,
    )
    staging = _staging(p, type)
    box = box_of(p, op.destination, type.shape)
    p.role.bulk = True
    for block in range(rows.blocks):

        def one(column: SSAValue, block: int = block) -> None:
            _store_slice(p, op, Piece(rows, block, columns, column), staging, box)

        _slices(p, rows, width, columns, one)


def _slices(
    p: Placement, rows: Rows, width: int, columns: int, body: Callable[[SSAValue], None]
) -> None:
    """Runs `body(column)` for each slice: in a loop where columns may be found at run time, else one by one.

    Registers may not: an accumulator in registers is written out slice by slice.
    """
    if rows.layout is FragmentLayout.WGMMA or width == columns:
        for first in range(0, width, columns):
            body(p.emit.const(first))
        return
    loop = Block(arg_types=[i32])
    loop.args[0].name_hint = "column"
    bounds = (p.emit.const(0), p.emit.const(width), p.emit.const(columns))
    with p.emit.inside(loop):
        body(loop.args[0])
        p.emit.add(s.YieldOp.create(operands=[]))
    p.emit.add(s.ForOp.create(operands=bounds, regions=[Region(loop)]))


def _store_slice(p: Placement, op: t.CopyOp, piece: Piece, staging: Staging, box: Box) -> None:
    """One slice: registers to a free staging slot, all threads meet, one starts the copy of the slot."""
    value = fragment(p, op.source, piece)
    slot = p.emit.value(s.AcquireOp.create(operands=[staging.ring], result_types=[i32]), "slot")
    rows = piece.rows
    row, place = box.starts[0], slot
    if rows.groups > 1:
        group = p.emit.value(s.GroupOp.create(result_types=[i32]), "group")
        place = p.emit.arith("add", p.emit.arith("mul", slot, p.emit.const(rows.groups)), group)
        first = p.emit.arith("mul", group, p.emit.const(rows.unit * rows.blocks))
        row = p.emit.arith("add", row, first)
    if piece.block:
        row = p.emit.arith("add", row, p.emit.const(rows.unit * piece.block))
    zero = p.emit.const(0)
    p.emit.add(s.StoreSharedOp.create(operands=[value, staging.buffer, place, zero]))
    p.emit.add(s.RoleBarrierOp.create(properties={"id": p.id("filled")}))
    start = [row, *box.starts[1:-1], p.emit.arith("add", box.starts[-1], piece.column)]
    p.emit.add(
        s.TmaStoreOp.create(
            operands=[staging.buffer, place, box.tensor, *start], properties={"box": box.extents}
        )
    )
    p.emit.add(
        s.CommitOp.create(
            operands=[staging.ring, slot],
            properties={"how": names([How.BULK]), "bytes": integer(0)},
        )
    )


def _staging(p: Placement, type: BufferType) -> Staging:
    """The role's staging ring of this type, declared at kernel level on first use."""
    for known in p.role.stagings:
        if known.buffer.type == type:
            return known
    name = f"{p.role.name}.staging{len(p.role.stagings) or ''}"
    with p.emit.inside(p.top):
        buffer = p.emit.value(
            s.BufferOp.create(
                properties={"sym_name": StringAttr(name), "staging": UnitAttr()},
                result_types=[type],
            ),
            "staging",
        )
        ring = p.emit.value(
            s.PipeOp.create(
                operands=[buffer],
                properties={
                    "sym_name": StringAttr(name),
                    "kind": StringAttr("store"),
                    "depth": integer(STORE_SLOTS),
                    "producers": names([p.role.name]),
                    "consumers": names([]),
                },
                result_types=[RingType()],
            ),
            "staging_ring",
        )
    made = Staging(ring, buffer)
    p.role.stagings.append(made)
    return made


# Register tiles to shared tiles --------------------------------------------------------------------------------------


def _fill(p: Placement, op: t.CopyOp) -> None:
    """`a <- r`: a register tile into a slot of a put, slice by slice."""
    tile = op.source.type
    assert isinstance(tile, RegsType)
    height, width = matrix(tile, op)
    rows = rows_over_threads(p, op.source, height, op)
    slot = p.role.slots[op.destination]
    slot.touch(How.GENERIC)
    if rows.blocks * rows.groups > 1:
        raise TkcError.at(
            "TK110",
            f"writing a register tile of {height} rows into a shared tile is not supported yet; "
            f"{rows.unit} rows fit",
            location_of(op),
        )
    columns = _slice_columns(slot, width)

    def one(column: SSAValue) -> None:
        value = fragment(p, op.source, Piece(rows, 0, columns, column))
        p.emit.add(s.StoreSharedOp.create(operands=[value, slot.buffer, slot.slot, column]))

    _slices(p, rows, width, columns, one)


def _slice_columns(slot: Slot, width: int) -> int:
    """Columns of one span of the slot."""
    span = SWIZZLES[slot.type.swizzle.data].span
    return min(width, span * 8 // DTYPES[slot.type.dtype.data].bits)
