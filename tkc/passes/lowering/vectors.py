"""One value a row or a column: reductions, and accesses of global memory by threads."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from xdsl.ir import SSAValue

from tkc.diagnostics import Bug
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.ptx.emit import At
from tkc.ir.ptx.registers import reg, type_of
from tkc.ir.stage import vectors as v
from tkc.ir.stage.types import FragmentLayout
from tkc.ir.tile.types import TensorType
from tkc.passes.lowering.fragments import (
    BINARY,
    WHOLE,
    Parts,
    fragment_type,
    halved,
    in_columns,
    kind_of,
    singles,
    split,
)
from tkc.passes.lowering.shared import once_a_row
from tkc.passes.lowering.state import Fragment, Kernel, lowers
from tkc.passes.lowering.threads import lane_column, rows_of_thread

NEUTRAL = {"add": 0.0, "max": -math.inf, "min": math.inf}

ALL_LANES = 0xFFFFFFFF


@lowers(v.FillOp)
def fill(k: Kernel, op: v.FillOp) -> None:
    """The number in a register of each element; a tile takes one register many times."""
    type = fragment_type(op.value)
    number = k.register(op.scalar)
    if type.a_row:
        count = len(rows_of_thread(k, type))
        k.values[op.value] = Fragment("f32", ((number,) * count,))
        return
    each = {FragmentLayout.WGMMA: 4 if type.a_column else 2}.get(
        FragmentLayout(type.layout.data), 1
    )
    thread = type.shape[1] // each
    halves = [k.emit("mov", ".f32", number, results=reg("f32", thread // 2)) for _ in range(2)]
    k.values[op.value] = Fragment("f32", (tuple(halves),))


@lowers(v.MaskOp)
def mask(k: Kernel, op: v.MaskOp) -> None:
    """Selects element by element behind a branch, which fragments that keep all of themselves skip."""
    type = fragment_type(op.source)
    if type.a_row:
        _mask_rows(k, op)
        return
    two = type.layout.data == FragmentLayout.WGMMA

    def apart(value: SSAValue) -> Fragment:
        fragment: Fragment = k.values[value]
        return split(k, halved(k, fragment) if two else fragment, 1)

    source = apart(op.source)
    registers = [x for part in source.parts for x in part]
    others: list[Any] = [op.fill.value.data] * len(registers)
    if op.otherwise is not None:
        others = [x for part in apart(op.otherwise).parts for x in part]
    by_row, by_column = op.rows.value.data, op.columns.value.data
    if op.positions is not None:
        k.values[op.value] = _positions(k, op, source)
        return
    most = max(0, by_row * (type.shape[0] - 1)) + max(0, by_column * (type.shape[1] - 1))
    limit = k.register(op.limit)

    def kept() -> list[SSAValue]:
        limits = [_less(k, limit, by_row, row) for row in rows_of_thread(k, type)]
        if two:
            limits = [_less(k, x, by_column, lane_column(k)) for x in limits]
        found: list[SSAValue] = []
        for i, part in enumerate(source.parts):
            first, row = divmod(i, len(limits))
            for odd, x in enumerate(part):
                column = first * (8 if two else 2) + odd
                inside = k.emit("setp", ".gt", ".s32", limits[row], by_column * column)
                found.append(k.emit("selp", ".f32", x, others[len(found)], inside))
        return found

    whole = k.emit("setp", ".gt", ".s32", limit, most)
    values = list(k.emit.if_(whole, lambda: registers, kept))
    pairs = tuple(zip(values[::2], values[1::2], strict=True))
    k.values[op.value] = Fragment("f32", pairs, source.halves)


def _mask_rows(k: Kernel, op: v.MaskOp) -> None:
    """Of one value a row, which has no columns."""
    limit = k.register(op.limit)
    (values,), fill = k.values[op.source].parts, op.fill.value.data
    others = [fill] * len(values) if op.otherwise is None else k.values[op.otherwise].parts[0]
    found: list[SSAValue] = []
    for x, other, row in zip(
        values, others, rows_of_thread(k, fragment_type(op.source)), strict=True
    ):
        inside = k.emit("setp", ".gt", ".s32", _less(k, limit, op.rows.value.data, row), 0)
        found.append(k.emit("selp", ".f32", x, other, inside))
    k.values[op.value] = Fragment("f32", (tuple(found),))


def _positions(k: Kernel, op: v.MaskOp, like: Fragment) -> Fragment:
    """`rows · r + columns · c - limit` of each element; whole numbers up to 2²⁴ are exact."""
    type = fragment_type(op.source)
    two = type.layout.data == FragmentLayout.WGMMA
    by_row, by_column = op.rows.value.data, op.columns.value.data
    limits = [_less(k, k.register(op.limit), by_row, row) for row in rows_of_thread(k, type)]
    if two:
        limits = [_less(k, x, by_column, lane_column(k)) for x in limits]
    parts: Parts = []
    for i, part in enumerate(like.parts):
        first, row = divmod(i, len(limits))
        columns = [first * (8 if two else 2) + odd for odd in range(len(part))]
        wholes = [k.emit("sub", ".s32", by_column * column, limits[row]) for column in columns]
        parts.append(tuple(k.emit("cvt", ".rn", ".f32", ".s32", x) for x in wholes))
    return Fragment("f32", tuple(parts), like.halves)


def _less(k: Kernel, limit: SSAValue, factor: int, position: Any) -> SSAValue:
    """`limit - factor * position`."""
    if factor == 1:
        return k.emit("sub", ".s32", limit, position)
    return k.add(limit, k.mul(position, -factor)) if factor else limit


@lowers(v.PartOp)
def part(k: Kernel, op: v.PartOp) -> None:
    """The registers of some columns: registers of a tuple under another value."""
    source: Fragment = k.values[op.source]
    type = fragment_type(op.value)
    two = type.layout.data == FragmentLayout.WGMMA
    each = 2 if not two else 8 if source.halves or type.a_column else 4
    first, count = op.start.value.data // each, type.shape[1] // each
    step = 2 if source.halves else 1
    parts: Parts = []
    at = 0
    for index in range(0, len(source.parts), step):
        here = type_of(source.parts[index][0]).count or 1
        low, high = max(first, at), min(first + count, at + here)
        if low < high:
            parts += [
                tuple(k.emit.slice(x, low - at, high - low) if type_of(x).count else x for x in one)
                for one in source.parts[index : index + step]
            ]
        at += here
    k.values[op.value] = Fragment(source.dtype, tuple(parts), source.halves)


# Reductions ----------------------------------------------------------------------------------------------------------


@lowers(v.ReduceOp)
def reduce(k: Kernel, op: v.ReduceOp) -> None:
    """A tree over the thread's registers of each row; whole blocks skip the branch that replaces ragged columns."""
    type = fragment_type(op.source)
    source: Fragment = k.values[op.source]
    carry: Fragment = k.values[op.carry]
    kind = op.kind.data
    two = type.layout.data == FragmentLayout.WGMMA
    if two:
        source = halved(k, source)
    rows = 2 if two else 1
    by_row = [list(source.parts[row::rows]) for row in range(rows)]

    def plain() -> list[SSAValue]:
        return [
            _tree(k, kind, [x for one in parts for x in one], start)
            for parts, start in zip(by_row, carry.parts[0], strict=True)
        ]

    def ragged() -> list[SSAValue]:
        assert op.valid is not None
        valid = k.number(op.valid)
        if two:
            valid = k.emit("sub", ".s32", valid, lane_column(k))
        return [
            _tree(k, kind, _masked(k, kind, parts, valid, 8 if two else 2), start)
            for parts, start in zip(by_row, carry.parts[0], strict=True)
        ]

    if op.valid is None:
        values = plain()
    else:
        valid = k.number(op.valid)
        if isinstance(valid, int):
            values = plain() if valid >= type.shape[1] else ragged()
        else:
            whole = k.emit("setp", ".ge", ".s32", valid, type.shape[1])
            values = list(k.emit.if_(whole, plain, ragged))
    k.values[op.value] = Fragment("f32", (tuple(values),))


def _masked(k: Kernel, kind: str, parts: Parts, valid: Any, step: int) -> list[SSAValue]:
    """Each register, or the neutral element where its column is not valid; registers are `step` columns apart."""
    found: list[SSAValue] = []
    column = 0
    for part in parts:
        for neighbours in zip(*(singles(k, x) for x in part), strict=True):
            for odd, value in enumerate(neighbours):
                inside = k.emit("setp", ".gt", ".s32", valid, column + odd)
                found.append(k.emit("selp", ".f32", value, NEUTRAL[kind], inside))
            column += step
    return found


def _tree(k: Kernel, kind: str, values: list[SSAValue], start: SSAValue) -> SSAValue:
    """All registers of the tuples and the start in one, halving tuples as long as they are even."""
    row = BINARY[kind]
    like = [i for i, x in enumerate(values) if type_of(x).count == type_of(values[0]).count][:2]
    if len(like) == 2:
        joined = k.emit(*row, *[values[i] for i in like])
        values = [*(x for i, x in enumerate(values) if i not in like), joined]
        values.sort(key=lambda x: -type_of(x).count)
        longest = deque(x for x in values if type_of(x).count == type_of(values[0]).count)
        values = values[len(longest) :]
        while len(longest) > 1:
            longest.append(k.emit(*row, longest.popleft(), longest.popleft()))
        values.insert(0, longest[0])
    singles: list[SSAValue] = []
    for x in values:
        count = type_of(x).count
        while count > 1 and count % 2 == 0:
            count //= 2
            x = k.emit(*row, k.emit.slice(x, 0, count), k.emit.slice(x, count, count))
        singles += [k.emit.slice(x, i) for i in range(count)] if count else [x]
    for x in singles:
        start = k.emit(*row, start, x)
    return start


@lowers(v.CombineLanesOp)
def combine_lanes(k: Kernel, op: v.CombineLanesOp) -> None:
    """Four lanes share a row of the wgmma layout: two exchanges."""
    source: Fragment = k.values[op.source]
    values = list(source.parts[0])
    for distance in (1, 2):
        values = [
            k.emit(
                *BINARY[op.kind.data],
                x,
                k.emit("shfl.sync", ".bfly", k.emit("mov.f32_to_b32", x), distance, 31, ALL_LANES),
            )
            for x in values
        ]
    k.values[op.value] = Fragment(source.dtype, (tuple(values),))


@lowers(v.FoldRowsOp)
def fold_rows(k: Kernel, op: v.FoldRowsOp) -> None:
    """Lanes that differ in a bit send each other the half of the columns that they do not keep, bit by bit."""
    type = fragment_type(op.source)
    layout = FragmentLayout(type.layout.data)
    source: Fragment = k.values[op.source]
    kind = None if op.kind is None else op.kind.data
    bits = LANE_BITS[layout]
    columns = _by_column(k, source, kind, layout)
    each = 1 << len(bits)
    neutral = k.emit("mov", ".f32", NEUTRAL[kind or "add"], results=reg("f32"))
    for first, number in zip(range(0, len(columns), each), op.numbers, strict=True):
        some = columns[first : first + each]
        some += [neutral] * (each - len(some))
        for bit in bits:
            some = _exchange(k, kind, bit, some)
        (k.values[number],) = some


@lowers(v.FoldWarpOp)
def fold_warp(k: Kernel, op: v.FoldWarpOp) -> None:
    """A thread's rows as one, then lane by lane, between lanes that hold other rows."""
    layout = FragmentLayout(fragment_type(op.source).layout.data)
    source: Fragment = k.values[op.source]
    kind = op.kind.data
    first, *more = [x for part in source.parts for x in part]
    number = _tree(k, kind, more, first)
    if layout is FragmentLayout.HALF_ROWS:
        holds = k.emit("setp", ".lt", ".u32", k.lane, 16)
        number = k.emit("selp", ".f32", number, NEUTRAL[kind], holds)
    for bit in LANE_BITS[layout]:
        bits = k.emit("mov.f32_to_b32", number)
        sent = k.emit("shfl.sync", ".bfly", bits, bit, 31, ALL_LANES)
        number = k.emit(*BINARY[kind], number, sent)
    k.values[op.number] = number


LANE_BITS = {
    FragmentLayout.ROWS: (16, 8, 4, 2, 1),
    FragmentLayout.HALF_ROWS: (16, 8, 4, 2, 1),
    FragmentLayout.WGMMA: (16, 8, 4),
}
"""Bits of the lane's number by which lanes that hold the same columns differ: as many halvings leave one column."""


def _by_column(
    k: Kernel, source: Fragment, kind: str | None, layout: FragmentLayout
) -> list[SSAValue]:
    """The thread's registers by column, its two rows as one; what lanes hold that repeat others counts as nothing."""
    if kind is None:
        return in_columns(k, source)
    if layout is FragmentLayout.WGMMA:
        halves = halved(k, source)
        upper, lower = (
            in_columns(k, Fragment("f32", halves.parts[row::2], True)) for row in range(2)
        )
        return [k.emit(*BINARY[kind], a, b) for a, b in zip(upper, lower, strict=True)]
    found = in_columns(k, source)
    if layout is FragmentLayout.HALF_ROWS:
        holds = k.emit("setp", ".lt", ".u32", k.lane, 16)
        found = [k.emit("selp", ".f32", x, NEUTRAL[kind], holds) for x in found]
    return found


def _exchange(k: Kernel, kind: str | None, bit: int, columns: list[SSAValue]) -> list[SSAValue]:
    """Half of the columns: lanes with the bit keep the upper ones, and reduce what the others send of them."""
    half = len(columns) // 2
    upper = k.emit("setp", ".ne", ".u32", k.bit_and(k.lane, bit), 0)
    kept: list[SSAValue] = []
    for low, high in zip(columns[:half], columns[half:], strict=True):
        mine = k.emit("selp", ".f32", high, low, upper)
        if kind is not None:
            other = k.emit("mov.f32_to_b32", k.emit("selp", ".f32", low, high, upper))
            sent = k.emit("shfl.sync", ".bfly", other, bit, 31, ALL_LANES)
            mine = k.emit(*BINARY[kind], mine, sent)
        kept.append(mine)
    return kept


# Global memory -------------------------------------------------------------------------------------------------------


class Line:
    """Elements of one axis of a tensor: `at(index)` is the address of an element of it."""

    def __init__(self, k: Kernel, tensor: SSAValue, axis: int, coordinates: list[Any]) -> None:
        self.k = k
        type = tensor.type
        assert isinstance(type, TensorType)
        self.dtype = type.dtype.data
        self.size = DTYPES[self.dtype].bits // 8
        strides = [self._stride(type, i) for i in range(len(type.shape))]
        base = k.pointer(tensor)
        for i, (x, stride) in enumerate(zip(coordinates, strides, strict=True)):
            if i != axis:
                base = self._moved(base, x, stride)
        self.base, self.stride, self.first = base, strides[axis], coordinates[axis]

    def _stride(self, type: TensorType, axis: int) -> list[Any]:
        """Factors of the distance between elements of an axis of a tensor without gaps, in bytes."""
        return [self.size, *(self._extent(n) for n in type.shape[axis + 1 :])]

    def _extent(self, n: int | str) -> Any:
        return n if isinstance(n, int) else self.k.symbol(n)

    def _moved(self, base: SSAValue, index: Any, factors: list[Any]) -> SSAValue:
        """`base + index * product of factors`, in 64 bits."""
        k = self.k
        known = math.prod(f for f in factors if isinstance(f, int))
        distance: Any = k.emit("mul.wide", ".u32", index, known)
        for factor in factors:
            if not isinstance(factor, int):
                distance = k.emit("mul.lo", ".u64", distance, k.emit("cvt", ".u64", ".u32", factor))
        return k.emit("add", ".u64", base, distance)

    def at(self, index: Any) -> SSAValue:
        return self._moved(self.base, index, self.stride)


def _line(k: Kernel, op: v.LoadGlobalOp | v.StoreGlobalOp) -> Line:
    return Line(k, op.tensor, op.axis.value.data, [k.number(c) for c in op.coordinates])


def _load(k: Kernel, line: Line, index: Any, last: Any) -> SSAValue:
    """One element; of 8 and 16 bits in the lowest of a register."""
    place = At(line.at(k.emit("min", ".u32", index, last)), 0)
    if line.dtype in WHOLE:
        return k.emit("ld", ".global", f".{kind_of(line.dtype)}", place)
    if line.size == 1:
        return k.emit("ld", ".global", ".u8", place, results=reg("b32"))
    return k.emit("cvt", ".u32", ".u16", k.emit("ld", ".global", ".b16", place))


@lowers(v.LoadGlobalOp)
def load_global(k: Kernel, op: v.LoadGlobalOp) -> None:
    type = fragment_type(op.value)
    line = _line(k, op)
    extent = k.number(op.extent)
    last = extent - 1 if isinstance(extent, int) else k.emit("sub", ".u32", extent, 1)
    if type.a_row:
        rows = [k.add(line.first, row) for row in rows_of_thread(k, type)]
        loaded = tuple(_load(k, line, row, last) for row in rows)
        k.values[op.value] = Fragment(type.dtype.data, (loaded,))
        return
    if not type.a_column:
        raise Bug("lower-stage-to-ptx", "a tile straight from global memory")
    two = type.layout.data == FragmentLayout.WGMMA
    first, step = (k.add(line.first, lane_column(k)), 8) if two else (line.first, 2)
    parts: Parts = []
    for column in range(0, type.shape[1], step):
        pair = [_load(k, line, k.add(first, column + odd), last) for odd in range(2)]
        if line.size < 4:
            upper = k.emit("shl", ".b32", pair[1], 8 * line.size)
            parts.append((k.emit("or", ".b32", pair[0], upper),))
        else:
            parts.append(tuple(pair))
    k.values[op.value] = Fragment(type.dtype.data, tuple(parts))


@lowers(v.StoreGlobalOp)
def store_global(k: Kernel, op: v.StoreGlobalOp) -> None:
    type = fragment_type(op.source)
    fragment: Fragment = k.values[op.source]
    line = _line(k, op)
    extent = k.number(op.extent)

    def write() -> None:
        for row, value in zip(rows_of_thread(k, type), fragment.parts[0], strict=True):
            index = k.add(line.first, row)
            inside = k.emit("setp", ".lt", ".u32", index, extent)
            if op.limit is not None:
                counts = k.emit("setp", ".lt", ".u32", row, op.limit.value.data)
                inside = k.emit("and", ".pred", inside, counts)
            k.emit.if_(inside, lambda i=index, x=value: _store(k, line, i, x, op.add is not None))

    once_a_row(k, type, write)


def _store(k: Kernel, line: Line, index: Any, value: SSAValue, add: bool) -> None:
    place = At(line.at(index), 0)
    if add:
        k.emit("red", ".global", ".add", ".f32", place, value)
    elif line.dtype in WHOLE:
        k.emit("st", ".global", f".{kind_of(line.dtype)}", place, value)
    elif line.size == 1:
        k.emit("st", ".global", ".b8", place, value)
    else:
        k.emit("st", ".global", ".b16", place, k.emit("cvt", ".u16", ".u32", value))
