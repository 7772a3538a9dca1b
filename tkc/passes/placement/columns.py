"""One value a column: reductions over the rows of a tile, and vectors of which each thread has elements of its own.

Lanes fold the rows that their warp holds, each warp writes a row of partial results to shared memory, the role's
threads meet, and each of them reduces columns of its own. Behind a second meeting all may read the result, which stays
where it is until the same statement runs again: nobody writes before all have come to its first meeting.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import StringAttr, UnitAttr, f32, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tkc.analysis.roles import Rows
from tkc.diagnostics import TkcError
from tkc.ir.interned import integer
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage import vectors as v
from tkc.ir.stage.elements import LoadElementOp, StoreElementOp
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.types import BufferType, FragmentLayout, FragmentType, Home
from tkc.ir.tile import ops as t
from tkc.ir.tile import vectors as tv
from tkc.ir.tile.types import BlockType, RegsType
from tkc.passes.placement.fragments import (
    Piece,
    fragment,
    matrix,
    oriented,
    rows_over_threads,
    slices,
)
from tkc.passes.placement.places import coordinates, extent_of, first_row, limit_of
from tkc.passes.placement.state import Placement, Slot

SLICE = 64
"""Columns of a tile that are folded at once."""

LANES = v.FoldRowsOp.COLUMNS


def reduce(p: Placement, op: tv.ReduceOp) -> None:
    """`col_sum(x)`, here and now: its result lies in shared memory, where its uses find it."""
    source = op.source.type
    assert isinstance(source, RegsType)
    height, width = matrix(source, op)
    rows = rows_over_threads(p, height, op)
    padded = -(-width // LANES) * LANES
    partial = _scratch(p, "partial", (p.role.plan.warps, padded))
    columns = math.gcd(SLICE, width)
    warp = identity(p, "warp")

    def one(column: SSAValue) -> None:
        parts = [
            fragment(p, op.source, Piece(rows, b, columns, column)) for b in range(rows.blocks)
        ]
        numbers = _fold(p, _joined(p, op.kind, parts), op.kind)
        _store_numbers(p, numbers, partial, (warp,), column, columns, rows.layout)

    slices(p, op.source, rows, width, columns, one)
    _meet(p, "partial")
    result = _scratch(p, "columns", (_spread(p, width).each * p.role.plan.groups,), own=True)
    _reduce_partials(p, op.kind.data, partial, padded, result)
    _meet(p, "columns")
    p.role.columns[op.value] = result


def total(p: Placement, op: tv.TotalOp, blocks: list[SSAValue]) -> None:
    """`tile_sum(x)`, here and now: each warp folds the rows that it holds, the role's threads meet, and each of them
    reduces the numbers of all warps. They met before, too, so that all have read those of the time before."""
    folded = v.FoldWarpOp.create(
        operands=[_joined(p, op.kind, blocks)], properties={"kind": op.kind}, result_types=[f32]
    )
    number = p.emit.value(folded)
    warps = p.role.plan.warps
    if warps > 1:
        zero = p.emit.const(0)
        partial = _scratch(p, "total", (warps,))
        _meet(p, "total.free")
        store = StoreElementOp.create(operands=[number, partial, zero, identity(p, "warp")])
        _where(p, p.emit.arith("eq", identity(p, "lane"), zero), store)
        _meet(p, "total")
        found: SSAValue | None = None
        for warp in range(warps):
            each = LoadElementOp.create(
                operands=[partial, zero, p.emit.const(warp)], result_types=[f32]
            )
            number = p.emit.value(each)
            found = number if found is None else p.emit.arith(op.kind.data, found, number)
        assert found is not None
        number = found
    p.values[op.number] = number


def _joined(p: Placement, kind: StringAttr, parts: list[SSAValue]) -> SSAValue:
    """Row blocks as one: each thread has the same columns of all of them."""
    made = parts[0]
    for part in parts[1:]:
        joined = s.MapOp.create(
            operands=[made, part], properties={"kind": kind}, result_types=[made.type]
        )
        made = p.emit.value(joined)
    return made


def _reduce_partials(
    p: Placement, kind: str, partial: SSAValue, padded: int, result: SSAValue
) -> None:
    """Each thread reduces columns of its own over the warps; beyond the last column it repeats that one."""
    threads = 32 * p.role.plan.warps
    assert isinstance(result.type, BufferType)
    width = result.type.elements
    for first in range(0, width, threads):
        column = p.emit.arith("add", identity(p, "thread"), p.emit.const(first))
        inside = column
        if first + threads > padded:
            inside = p.emit.arith("min", column, p.emit.const(padded - 1))
        total: SSAValue | None = None
        for warp in range(p.role.plan.warps):
            at = [p.emit.const(0), p.emit.const(warp), inside]
            number = p.emit.value(LoadElementOp.create(operands=[partial, *at], result_types=[f32]))
            total = number if total is None else p.emit.arith(kind, total, number)
        assert total is not None
        store = StoreElementOp.create(operands=[total, result, p.emit.const(0), column])
        if first + threads <= width:
            p.emit.add(store)
        else:
            _where(p, p.emit.arith("lt", column, p.emit.const(width)), store)


def _fold(p: Placement, source: SSAValue, kind: StringAttr | None) -> list[SSAValue]:
    """Each lane's numbers of a tile's rows as one, or with no kind of what all hold alike."""
    type = source.type
    assert isinstance(type, FragmentType)
    properties: dict[str, Attribute] = {} if kind is None else {"kind": kind}
    op = v.FoldRowsOp.create(
        operands=[source],
        properties=properties,
        result_types=[f32] * -(-type.shape[1] // LANES),
    )
    return list(p.emit.add(op).numbers)


def _store_numbers(
    p: Placement,
    numbers: list[SSAValue],
    buffer: SSAValue,
    row: tuple[SSAValue, ...],
    first: SSAValue,
    columns: int,
    layout: FragmentLayout,
) -> None:
    """The numbers of each lane to the elements from `first` on of a row; those past the last column are dropped."""
    mine = _lane_column(p, layout)
    for index, number in enumerate(numbers):
        left = columns - LANES * index
        at = p.emit.arith("add", p.emit.arith("add", first, mine), p.emit.const(LANES * index))
        store = StoreElementOp.create(operands=[number, buffer, p.emit.const(0), *row, at])
        if left >= LANES:
            p.emit.add(store)
        else:
            _where(p, p.emit.arith("lt", mine, p.emit.const(left)), store)


def _where(p: Placement, condition: SSAValue, op: Operation) -> None:
    """The operation where a condition holds."""
    body = Block()
    with p.emit.inside(body):
        p.emit.add(op)
        p.emit.add(s.YieldOp.create(operands=[]))
    p.emit.add(s.IfOp.create(operands=[condition], regions=[Region(body)], result_types=[]))


def _lane_column(p: Placement, layout: FragmentLayout) -> SSAValue:
    """The column of each 32 of which a lane gets the number.

    In the wgmma layout lane 4 q + r has columns 8 i + 2 r and the next (D fragment), of which it keeps number q.
    """
    lane = identity(p, "lane")
    if layout is not FragmentLayout.WGMMA:
        return lane

    def bits(count: int, mask: int) -> SSAValue:
        moved = p.emit.arith("shr", lane, p.emit.const(count)) if count else lane
        return p.emit.arith("and", moved, p.emit.const(mask))

    eight = p.emit.arith("mul", bits(3, 3), p.emit.const(8))
    pair = p.emit.arith("mul", bits(0, 3), p.emit.const(2))
    return p.emit.arith("add", p.emit.arith("add", eight, pair), bits(2, 1))


def identity(p: Placement, which: str) -> SSAValue:
    made = IdentityOp.create(properties={"which": StringAttr(which)}, result_types=[i32])
    return p.emit.value(made, which)


def _meet(p: Placement, what: str) -> None:
    """All threads of the role meet, those of all its warpgroups."""
    p.emit.add(s.RoleBarrierOp.create(properties={"id": p.id(what), "whole": UnitAttr()}))


def _scratch(p: Placement, what: str, shape: tuple[int, ...], *, own: bool = False) -> SSAValue:
    """Shared memory of the compiler's: the role's of that name and shape, or one of a place's own."""
    number = str(len(p.role.scratch) or "")
    key = (what + number if own else what, shape)
    if key not in p.role.scratch:
        type = BufferType.of("f32", shape, 1, Home.SHARED, "128B" if len(shape) > 1 else "none")
        properties = {
            "sym_name": StringAttr(f"{p.role.name}.{what}{number}"),
            "staging": UnitAttr(),
        }
        with p.emit.inside(p.top):
            made = s.BufferOp.create(properties=properties, result_types=[type])
            p.role.scratch[key] = p.emit.value(made, what)
    return p.role.scratch[key]


# Vectors, an element a thread ----------------------------------------------------------------------------------------


def _spread(p: Placement, count: int) -> Rows:
    """A vector over the role's threads: each warpgroup has a share, element by element, as often as it takes."""
    groups = p.role.plan.groups
    unit, share = 32 * p.role.plan.warps // groups, -(-count // groups)
    return Rows(unit, groups, -(-share // unit), FragmentLayout.ROWS, share)


def _each(p: Placement, vector: SSAValue, rows: Rows, block: int) -> SSAValue:
    """A piece of a vector as one value for each thread."""
    type = vector.type
    assert isinstance(type, RegsType)
    of = FragmentType.of(type.dtype.data, (rows.unit, 1), rows.layout)
    return oriented(p, vector, of, Piece(rows, block, 1, p.emit.const(0)))


def store_elements(p: Placement, op: t.CopyOp, vector: SSAValue) -> None:
    """`Y[n] <- v` of a vector that is no value a row: each thread writes elements of its own."""
    slice = op.destination.owner
    assert isinstance(slice, t.SliceOp)
    if op.hint is not None:
        raise TkcError.at(
            "TK110",
            f"`{op.hint.data}` at a store of one value a column is not supported yet",
            location_of(op),
        )
    axis = next(i for i, x in enumerate(slice.indices) if isinstance(x.type, BlockType))
    count = _count(vector)
    rows = _spread(p, count)
    for block in range(rows.blocks):
        value = _each(p, vector, rows, block)
        starts = coordinates(p, slice)
        extent = extent_of(p, slice, axis)
        if count % rows.groups:
            end = p.emit.arith("add", starts[axis], p.emit.const(count))
            extent = p.emit.arith("min", end, extent)
        offset = first_row(p, rows, block)
        if offset is not None:
            starts[axis] = p.emit.arith("add", starts[axis], offset)
        p.emit.add(
            v.StoreGlobalOp.create(
                operands=[value, p.values[slice.tensor], extent, *starts],
                properties={"axis": integer(axis), **limit_of(rows, block), **added(op)},
            )
        )


def added(op: t.CopyOp) -> dict[str, Attribute]:
    """What a store of a vector says where it adds."""
    return {} if op.add is None else {"add": UnitAttr()}


def fill_elements(p: Placement, vector: SSAValue, slot: Slot) -> None:
    """`v <- x`: a vector into a slot of one."""
    rows = _spread(p, _count(vector))
    for block in range(rows.blocks):
        value = _each(p, vector, rows, block)
        row = first_row(p, rows, block)
        operands = [value, slot.buffer, slot.slot, p.emit.const(0), *([row] if row else [])]
        p.emit.add(s.StoreSharedOp.create(operands=operands, properties=limit_of(rows, block)))


def _count(vector: SSAValue) -> int:
    type = vector.type
    assert isinstance(type, RegsType)
    return max(int(n) for n in type.shape)


def spill(p: Placement, value: SSAValue, whole: SSAValue) -> None:
    """One value a column that registers hold is written to shared memory, by the first warp."""
    type = whole.type
    assert isinstance(type, FragmentType)
    if type.dtype.data != "f32":
        raise TkcError.at(
            "TK110",
            f"one value a column of {type.dtype.data}, which a loop or a get hands on and which goes to a vector, is "
            "not supported yet: hand it on as f32 and convert it there",
            location_of(value.owner) if isinstance(value.owner, Operation) else None,
        )
    buffer = _scratch(p, "handed", (type.shape[1],), own=True)
    numbers = _fold(p, whole, None)
    _meet(p, "free")
    first = p.emit.arith("eq", identity(p, "warp"), p.emit.const(0))
    body = Block()
    with p.emit.inside(body):
        layout = FragmentLayout(type.layout.data)
        _store_numbers(p, numbers, buffer, (), p.emit.const(0), type.shape[1], layout)
        p.emit.add(s.YieldOp.create(operands=[]))
    p.emit.add(s.IfOp.create(operands=[first], regions=[Region(body)], result_types=[]))
    _meet(p, "handed")
    p.role.columns[value] = buffer
