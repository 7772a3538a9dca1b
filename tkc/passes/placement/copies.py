"""Copies: boxes between global and shared memory, and register tiles stored slice by slice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tkc.analysis.boxes import ATOM_ROWS, row_parts, split_axis
from tkc.analysis.roles import Rows, slot_owner
from tkc.analysis.sharing import shares_place
from tkc.analysis.swizzle import Use, choose
from tkc.diagnostics import TkcError
from tkc.ir.interned import integer
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SCALE_ATOM_ROWS, SCALE_ATOM_SCALES, SWIZZLES, swizzle_of
from tkc.ir.isa.tensormap import MAX_BOX
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.ir.stage.types import BufferType, FragmentLayout, Home, RingType
from tkc.ir.syntax import segments
from tkc.ir.tile import ops as t
from tkc.ir.tile.explicit import PartAtOp
from tkc.ir.tile.loops import PartOp, ShareOp
from tkc.ir.tile.types import (
    AccumType,
    BlockType,
    RegsType,
    ScaleAttr,
    SharedType,
    SliceType,
    scale_shape,
)
from tkc.ir.tile.vectors import ReshapeOp, TransposeOp
from tkc.passes.placement.columns import fill_elements, store_elements
from tkc.passes.placement.fragments import (
    Piece,
    fragment,
    is_column,
    is_row,
    matrix,
    reads,
    rows_over_threads,
    slices,
)
from tkc.passes.placement.places import first_row
from tkc.passes.placement.state import Placement, Slot, Staging, names
from tkc.passes.placement.vectors import held, store

STORE_SLOTS = 2
"""Staging slots of a store (rule R22): one is filled while the copy engine drains the other."""

WRITTEN = 64
"""Columns of an accumulator that are written at once."""

TURNED = 64
"""Columns of a register tile that become rows of one slot, where it is stored transposed; and columns of 8-bit elements
in one slice, which are held as 32-bit values before."""

MATRIX = 16
"""Columns of bytes that the matrices of one instruction have."""

TMA_ALIGN = 128
"""Alignment of a box in shared memory, in bytes (PTX: cp.async.bulk.tensor)."""


def copy(p: Placement, op: t.CopyOp) -> None:
    """`destination <- source`, in each of the ways that the memories at its ends allow."""
    source, destination = op.source, op.destination
    match source.type, destination.type:
        case SliceType(), SharedType():
            check_once(p, op, "loads")
            slot = p.role.slots[destination]
            check_box(slot.type, op)
            box = box_of(p, source, slot.type.shape)
            how = {**_multicast(p, op, box, slot.type), **_hinted(op)}
            _load(p, slot, slot.buffer, box, how)
            if slot.tile in p.scales:
                _load_scales(p, slot, source, op)
        case SharedType(), SliceType():
            if isinstance(source.type.scale, ScaleAttr):
                raise TkcError.at(
                    "TK110", "storing a block-scaled tile is not supported yet", location_of(op)
                )
            if op.add is not None:
                check_once(p, op, "adds")
            slot = p.role.slots[source]
            check_box(slot.type, op)
            box = box_of(p, destination, slot.type.shape)
            slot.touch(How.BULK)
            p.role.bulk = True
            p.emit.add(
                s.TmaStoreOp.create(
                    operands=[slot.buffer, slot.slot, box.tensor, *box.starts],
                    properties=_stored(op, box),
                )
            )
            p.emit.add(s.BulkCommitOp.create(properties={"id": p.id("store")}))
        case RegsType(), SliceType():
            _store(p, op)
        case RegsType(), AccumType():
            _write(p, op)
        case RegsType(), SharedType():
            _fill(p, op)
        case _:
            raise TkcError.at(
                "TK110",
                f"a copy from {source.type} to {destination.type} is not supported yet",
                location_of(op),
            )


def _multicast(p: Placement, op: t.CopyOp, box: Box, type: BufferType) -> dict[str, Attribute]:
    """The axis along which each CTA loads its share, for all; TK207 where the rows have no such shares."""
    if op.multicast is None:
        return {}
    ctas, rows = p.pairs or p.ctas, type.shape[0]
    if rows > MAX_BOX:
        raise TkcError.at(
            "TK207",
            f"a tile of {rows} rows takes several boxes of the tensor copy engine, which have at most {MAX_BOX}; "
            "it cannot be loaded for all CTAs of a cluster",
            location_of(op),
        )
    if len(type.shape) == 1 or rows % (ctas * ATOM_ROWS):
        fits = f"rows must be a multiple of {ctas * ATOM_ROWS}"
        raise TkcError.at(
            "TK207",
            f"a tile of shape {list(type.shape)} is loaded for {ctas} CTAs in shares of whole blocks of {ATOM_ROWS} "
            "rows; " + (fits if len(type.shape) > 1 else "a vector has none"),
            location_of(op),
        )
    return {"multicast": integer(box.axes[0])}


def check_once(p: Placement, op: Operation, does: str) -> None:
    """A role in two warpgroups starts a copy in each of them: TK110 where that is not the same as once."""
    if p.role.plan.groups > 1:
        raise TkcError.at(
            "TK110",
            f"role {p.role.name} runs in {p.role.plan.groups} warpgroups that share an accumulator's rows on "
            f"this target, and {does} a whole tile: not supported yet; a role of its own fits",
            location_of(op),
        )


def _load(p: Placement, slot: Slot, buffer: SSAValue, box: Box, how: dict[str, Attribute]) -> None:
    type = buffer.type
    assert isinstance(type, BufferType)
    slot.touch(How.TMA, type.copied_bytes)
    p.emit.add(
        s.TmaLoadOp.create(
            operands=[box.tensor, buffer, slot.slot, *box.starts],
            properties={"box": box.extents, **segments(1, 1, 1, len(box.starts), 0), **how},
        )
    )


def _load_scales(p: Placement, slot: Slot, source: SSAValue, op: t.CopyOp) -> None:
    _load(p, slot, p.scales[slot.tile], box_of_scales(p, slot, source, op), _hinted(op))


def box_of_scales(p: Placement, slot: Slot, source: SSAValue, op: Operation) -> Box:
    """The atoms of a tile's block scales: a box whose rows and columns are counted in atoms."""
    tile = slot.tile.type
    assert isinstance(tile, SharedType)
    assert isinstance(tile.scale, ScaleAttr)
    unit = (SCALE_ATOM_ROWS, SCALE_ATOM_SCALES * tile.scale.block.data)
    rows, scales = scale_shape(tile.shape, tile.scale)
    atoms = [rows // SCALE_ATOM_ROWS, scales // SCALE_ATOM_SCALES]
    for extent in atoms:
        if extent > MAX_BOX:
            raise TkcError.at(
                "TK207",
                f"the scales of a tile of shape {list(tile.shape)} are a box of {atoms} atoms; the tensor copy "
                f"engine takes boxes of at most {MAX_BOX} on each axis",
                location_of(op),
            )
    return box_of(p, source, atoms, unit, whole=rows > tile.shape[0])


# Boxes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """A box of a tensor: where it starts and how far it goes on each axis, in elements, outermost axis first."""

    tensor: SSAValue
    starts: tuple[SSAValue, ...]
    extents: ArrayAttr[IntegerAttr]
    axes: tuple[int, ...]
    """The tensor's axes that the piece has, in order."""


def box_of(
    p: Placement,
    slice: SSAValue,
    shape: Sequence[int],
    unit: Sequence[int] = (),
    whole: bool = False,
) -> Box:
    """The box of a piece of `shape` at the start of a slice, both in units of so many elements an axis (1).

    `whole`: of all CTAs' shares of the first block, not of this one's alone.
    """
    op = slice.owner
    assert isinstance(op, t.SliceOp)
    starts: list[SSAValue] = []
    box: list[int] = []
    axes: list[int] = []
    extents, units = list(shape), list(unit)
    for axis, index in enumerate(op.indices):
        if whole and not axes and isinstance(index.owner, ShareOp | PartOp | PartAtOp):
            index = index.owner.operands[0]
        value = p.values[index]
        if isinstance(index.type, BlockType):
            size = index.type.size.data // (units.pop(0) if units else 1)
            if size != 1:
                value = p.emit.arith("mul", value, p.emit.const(size))
            box.append(extents.pop(0))
            axes.append(axis)
        else:
            box.append(1)
        starts.append(value)
    return Box(
        p.values[op.tensor], tuple(starts), ArrayAttr([integer(n) for n in box]), tuple(axes)
    )


def check_box(buffer: BufferType, op: Operation) -> None:
    """TK207 where the copy engine has no boxes for a tile."""
    shape = list(buffer.shape)
    if len(shape) == 1:
        if shape[0] > MAX_BOX and shape[0] % MAX_BOX:
            raise TkcError.at(
                "TK207",
                f"a vector of {shape[0]} elements is no whole number of the tensor copy engine's boxes, "
                f"which have at most {MAX_BOX} elements on an axis",
                location_of(op),
            )
        return
    axis = split_axis(shape[:-1])
    if axis is not None and (math.prod(shape[:axis]) > 1 or row_parts(shape[axis]) is None):
        raise TkcError.at(
            "TK207",
            f"a tile of shape {shape} has an extent of {shape[axis]}; the tensor copy engine takes boxes of at most "
            f"{MAX_BOX} on each axis but the last, into which only the first is cut, in parts of a multiple of "
            f"{ATOM_ROWS}",
            location_of(op),
        )
    span = SWIZZLES[swizzle_of(buffer.swizzle.data)].span
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
    if len(tile.shape) == 1:
        column = one_a_row(op.source)
        if column is None and (op.add is not None or _one_a_column(op.source)):
            store_elements(p, op, op.source)
        elif column is None:
            _store_vector(p, op, tile)
        elif op.hint is not None:
            raise TkcError.at(
                "TK110",
                f"`{op.hint.data}` at a store of one value a row is not supported yet",
                location_of(op),
            )
        else:
            store(p, op, column)
        return
    turned = op.source.owner if isinstance(op.source.owner, TransposeOp) else None
    value = op.source if turned is None else turned.source
    assert isinstance(value.type, RegsType)
    height, width = matrix(value.type, op)
    rows = rows_over_threads(p, height, op)
    across = rows.unit if turned is not None else width
    if turned is None and DTYPES[tile.dtype.data].bits == 8:
        across = math.gcd(width, TURNED)
    choice = choose(tile.dtype.data, (height, across), frozenset({Use.COPY, Use.THREADS}))
    if choice is None:
        raise TkcError.at(
            "TK207",
            f"rows of {across} {tile.dtype.data} are no multiple of 16 bytes; the tensor copy engine "
            "stores no such tile",
            location_of(op),
        )
    columns = choice.span * 8 // DTYPES[tile.dtype.data].bits
    if turned is not None:
        columns = math.gcd(width, TURNED)
        rows = _as_bytes(value, rows, columns)
    shape = (rows.unit, columns) if turned is None else (columns, rows.unit)
    depth = STORE_SLOTS * rows.groups
    type = BufferType.of(tile.dtype.data, shape, depth, Home.SHARED, choice.swizzle)
    staging = _staging(p, type)
    box = box_of(p, op.destination, type.shape)
    p.role.bulk = True
    for block in range(rows.blocks):

        def one(column: SSAValue, block: int = block) -> None:
            piece = Piece(rows, block, columns, column)
            _store_slice(p, op, value, piece, staging, box, turned is not None)

        slices(p, value, rows, width, columns, one)


def one_a_row(vector: SSAValue) -> SSAValue | None:
    """The value of one element a row that a vector is another shape of."""
    owner = vector.owner
    if isinstance(owner, ReshapeOp) and is_column(owner.source.type):
        return owner.source
    return None


def _one_a_column(vector: SSAValue) -> bool:
    """Whether a vector is one value for each column of a tile."""
    return isinstance(vector.owner, ReshapeOp) and is_row(vector.owner.source.type)


def _store_vector(p: Placement, op: t.CopyOp, tile: RegsType) -> None:
    """`Y[n] <- r` of a vector whose elements are spread over the threads, 16 bytes of the narrowest dtype each."""
    bits = [DTYPES[tile.dtype.data].bits]
    bits += [DTYPES[r.value.type.dtype.data].bits for r in reads(op.source)]  # type: ignore[attr-defined]
    each, threads, count = 128 // min(bits), 32 * p.role.plan.warps, int(tile.shape[0])
    if count % (each * threads):
        store_elements(p, op, op.source)
        return
    rows = Rows(threads, 1, count // (each * threads), FragmentLayout.ROWS)
    type = BufferType.of(tile.dtype.data, (each * threads,), STORE_SLOTS, Home.SHARED, "none")
    staging = _staging(p, type)
    box = box_of(p, op.destination, type.shape)
    p.role.bulk = True
    for block in range(rows.blocks):
        value = fragment(p, op.source, Piece(rows, block, each, p.emit.const(0)))
        slot = p.emit.value(s.AcquireOp.create(operands=[staging.ring], result_types=[i32]), "slot")
        zero = p.emit.const(0)
        p.emit.add(s.StoreSharedOp.create(operands=[value, staging.buffer, slot, zero]))
        first = p.emit.const(each * threads * block)
        _send(p, op, staging, slot, slot, box, box.starts, box.axes[-1], first)


def _store_slice(
    p: Placement,
    op: t.CopyOp,
    tile: SSAValue,
    piece: Piece,
    staging: Staging,
    box: Box,
    turned: bool,
) -> None:
    """One slice: registers to a free staging slot, all threads meet, one starts the copy of the slot."""
    value = fragment(p, tile, piece)
    slot = p.emit.value(s.AcquireOp.create(operands=[staging.ring], result_types=[i32]), "slot")
    rows = piece.rows
    axis, last = (box.axes[1], box.axes[0]) if turned else box.axes
    place = slot
    starts = list(box.starts)
    if rows.groups > 1:
        group = p.emit.value(s.GroupOp.create(result_types=[i32]), "group")
        place = p.emit.arith("add", p.emit.arith("mul", slot, p.emit.const(rows.groups)), group)
        first = p.emit.arith("mul", group, p.emit.const(rows.unit * rows.blocks))
        starts[axis] = p.emit.arith("add", starts[axis], first)
    if piece.block:
        known = p.emit.const(rows.unit * piece.block)
        starts[axis] = p.emit.arith("add", starts[axis], known)
    properties: dict[str, Attribute] = {"transposed": UnitAttr()} if turned else {}
    p.emit.add(
        s.StoreSharedOp.create(
            operands=[value, staging.buffer, place, p.emit.const(0)], properties=properties
        )
    )
    _send(p, op, staging, slot, place, box, starts, last, piece.column)


def _stored(op: t.CopyOp, box: Box) -> dict[str, Attribute]:
    """What a store of the box says of itself."""
    added: dict[str, Attribute] = {} if op.add is None else {"reduce": StringAttr("add")}
    return {"box": box.extents, **added, **_hinted(op)}


def _hinted(op: t.CopyOp) -> dict[str, Attribute]:
    return {} if op.hint is None else {"hint": op.hint}


def _send(
    p: Placement,
    op: t.CopyOp,
    staging: Staging,
    slot: SSAValue,
    place: SSAValue,
    box: Box,
    starts: Sequence[SSAValue],
    axis: int,
    column: SSAValue,
) -> None:
    """All threads have filled `place`; one starts its copy, which the staging ring counts."""
    p.emit.add(s.RoleBarrierOp.create(properties={"id": p.id("filled")}))
    moved = p.emit.arith("add", starts[axis], column)
    starts = [*starts[:axis], moved, *starts[axis + 1 :]]
    p.emit.add(
        s.TmaStoreOp.create(
            operands=[staging.buffer, place, box.tensor, *starts], properties=_stored(op, box)
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
    """`a <- r`, `a <- r.T`: a register tile into a slot of a put, slice by slice."""
    tile = op.source.type
    assert isinstance(tile, RegsType)
    slot = p.role.slots[op.destination]
    slot.touch(How.GENERIC)
    if len(tile.shape) == 1:
        _fill_vector(p, op, slot)
        return
    turned = isinstance(op.source.owner, TransposeOp)
    value = op.source.owner.source if isinstance(op.source.owner, TransposeOp) else op.source
    assert isinstance(value.type, RegsType)
    height, width = matrix(value.type, op)
    rows = rows_over_threads(p, height, op)
    columns = math.gcd(width, TURNED) if turned else _slice_columns(slot, width)
    rows = _as_bytes(value, rows, columns) if turned else rows
    properties: dict[str, Attribute] = {"transposed": UnitAttr()} if turned else {}
    for block in range(rows.blocks):

        def one(column: SSAValue, block: int = block) -> None:
            part = fragment(p, value, Piece(rows, block, columns, column))
            row = first_row(p, rows, block)
            operands = [part, slot.buffer, slot.slot, column, *([row] if row else [])]
            p.emit.add(s.StoreSharedOp.create(operands=operands, properties=properties))

        apart = turned or shares_place(slot_owner(op.destination))
        slices(p, value, rows, width, columns, one, known=apart)


def _as_bytes(value: SSAValue, rows: Rows, columns: int) -> Rows:
    """How the rows of a tile that is turned fall on threads: of bytes straight from a slot, as matrices of them."""
    assert isinstance(value.type, RegsType)
    straight = isinstance(value.owner, t.ReadOp) and isinstance(value.owner.tile.type, SharedType)
    if (
        not straight
        or DTYPES[value.type.dtype.data].bits != 8
        or rows.layout is not FragmentLayout.ROWS
        or columns % MATRIX
    ):
        return rows
    return replace(rows, layout=FragmentLayout.TURNED)


def _write(p: Placement, op: t.CopyOp) -> None:
    """`d[i] <- r`: a register tile into an accumulator, slice by slice."""
    tile = op.source.type
    assert isinstance(tile, RegsType)
    key = p.role.key(op.destination)
    p.role.slots[key].touch(How.TENSOR)
    height, width = matrix(tile, op)
    rows = rows_over_threads(p, height, op)
    columns = math.gcd(WRITTEN, width)
    for block in range(rows.blocks):

        def one(column: SSAValue, block: int = block) -> None:
            value = fragment(p, op.source, Piece(rows, block, columns, column))
            source = p.role.accumulators[key]
            made = s.WriteAccumulatorOp.create(
                operands=[source, value, column],
                properties={"row_block": integer(block)},
                result_types=[source.type],
            )
            written = p.emit.value(made)
            if rows.layout is FragmentLayout.WGMMA:
                p.role.accumulators[key] = written

        slices(p, op.source, rows, width, columns, one, known=shares_place(slot_owner(key)))


def _fill_vector(p: Placement, op: t.CopyOp, slot: Slot) -> None:
    """A vector, or one value a row, into a shared vector."""
    column = one_a_row(op.source)
    if column is None:
        fill_elements(p, op.source, slot)
        return
    rows = rows_over_threads(p, int(op.source.type.shape[0]), op)  # type: ignore[attr-defined]
    for block, value in enumerate(held(p, column, op)):
        row = first_row(p, rows, block)
        operands = [value, slot.buffer, slot.slot, p.emit.const(0), *([row] if row else [])]
        p.emit.add(s.StoreSharedOp.create(operands=operands))


def _slice_columns(slot: Slot, width: int) -> int:
    """Columns of one span of the slot."""
    span = SWIZZLES[slot.type.swizzle.data].span
    return min(width, span * 8 // DTYPES[slot.type.dtype.data].bits)
