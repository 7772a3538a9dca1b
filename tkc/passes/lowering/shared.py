"""Register tiles out of shared memory and back into it.

Where an element lies is `isa.fragments`'s and `isa.layouts`'s to say; here the part of it that depends on the thread
becomes an address computed once, and the rest offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from tkc.analysis.banks import predict
from tkc.diagnostics import Bug, Diagnostic, Severity, TkcError, report
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At
from tkc.ir.ptx.registers import reg, type_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import FragmentLayout, FragmentType
from tkc.passes.lowering import narrow
from tkc.passes.lowering.fragments import WHOLE, fragment_type, kind_of, singles, wide
from tkc.passes.lowering.state import Fragment, Kernel, lowers
from tkc.passes.lowering.threads import (
    half_row,
    lane_column,
    matrix_row,
    rows_of_thread,
    thread_of_rows,
)
from tkc.passes.lowering.transposes import (
    in_order,
    load_bytes,
    store_transposed,
    turned_source,
    warp_of_rows,
)

CHUNK = 16
"""Bytes of one vector access, and the unit that a swizzle moves."""


class Addresses:
    """Addresses of one thread in a swizzled slot: `row` and `inside` (bytes in a span) may depend on the thread.

    A swizzle XORs bits of the row number onto the 16-byte chunk within a span, so that a known chunk is one XOR away.
    """

    def __init__(self, k: Kernel, buffer: SSAValue, slot: SSAValue, column: SSAValue) -> None:
        self.k = k
        _, type = k.buffer(buffer)
        self.tile = k.tile(type)
        self.span = self.tile.span
        self.place = k.slot_address(buffer, slot)
        self.row_bytes = DTYPES[type.dtype.data].bits * type.shape[-1] // 8
        bits = DTYPES[type.dtype.data].bits
        self.first = k.mul(k.number(column), bits // 8) if bits >= 8 else 0
        self.swizzle = SWIZZLES[type.swizzle.data]

    def base(self, row: Any, inside: Any) -> Callable[[int], At]:
        """`at(bytes)`: the address `bytes` (known, a multiple of 16) further along the row than `inside` on row
        `row`."""
        k = self.k
        along = k.mul(row, self.span)
        term: Any = 0
        for shift, mask in self.swizzle.terms:
            term = k.bit_xor(term, k.bit_and(k.shift_right(along, shift), mask))
        start = self.first
        if isinstance(start, int):
            spans, within = divmod(start, self.span)
            moved: Any = spans * self.tile.block
        elif self.row_bytes <= self.span:
            moved, within = 0, start
        else:
            within = k.bit_and(start, self.span - 1)
            moved = k.mul(k.shift_right(start, self.span.bit_length() - 1), self.tile.block)
        fixed = k.add(k.add(self.place.base, along), moved)
        chunk = k.bit_xor(inside, term)
        known = isinstance(within, int)
        if not known:
            chunk = k.bit_xor(chunk, within)

        def at(bytes: int) -> At:
            spans, rest = divmod(bytes + (within if known else 0), self.span)
            offset = self.place.offset + spans * self.tile.block
            if isinstance(chunk, int):
                return At(fixed, offset + (chunk ^ rest))
            return At(k.add(fixed, k.bit_xor(chunk, rest)), offset)

        return at


def _row_chunks(
    k: Kernel, buffer: SSAValue, slot: SSAValue, column: SSAValue, row: Any
) -> Callable[[int], At]:
    return Addresses(k, buffer, slot, column).base(row, 0)


def _linear(k: Kernel, buffer: SSAValue, slot: SSAValue, bytes: Any) -> Callable[[int], At]:
    """Addresses in a vector: `at(further)` is `bytes + further` from its start."""
    place = k.slot_address(buffer, slot)
    base = k.add(place.base, bytes)
    return lambda further: At(base, place.offset + further)


def _is_vector(k: Kernel, buffer: SSAValue) -> bool:
    return len(k.buffer(buffer)[1].shape) == 1


def _remark(k: Kernel, op: s.LoadSharedOp | s.StoreSharedOp, type: FragmentType) -> None:
    """Says once for a buffer and a way to access it how that meets the banks."""
    buffer, held = k.buffer(op.buffer)
    store = isinstance(op, s.StoreSharedOp)
    turned = isinstance(op, s.StoreSharedOp) and op.transposed is not None
    found = predict(held, type, store=store, transposed=turned)
    if found is None:
        return
    done = "written" if store else "read"
    text = f"tile {buffer.sym_name.data} ({held.swizzle.data}) is {done} by {found}"
    if text not in k.told:
        k.told.add(text)
        report(Diagnostic("TK218", text, location_of(op), Severity.REMARK))


def _first(k: Kernel, row: SSAValue | None) -> Any:
    """The row that an access starts from."""
    return 0 if row is None else k.number(row)


# Loads ---------------------------------------------------------------------------------------------------------------


@lowers(s.LoadSharedOp)
def load_shared(k: Kernel, op: s.LoadSharedOp) -> None:
    type = fragment_type(op.value)
    dtype = type.dtype.data
    if DTYPES[dtype].bits < 16 and dtype not in narrow.NARROW:
        raise TkcError.at(
            "TK110",
            f"reading a shared tile of {dtype} into registers is not supported yet; "
            f"dtypes of 16 bits and more and {', '.join(sorted(narrow.NARROW))} are",
            location_of(op),
        )
    _remark(k, op, type)
    if _is_vector(k, op.buffer):
        k.values[op.value] = _load_vector(k, op, type)
        return
    first = _first(k, op.row)
    match FragmentLayout(type.layout.data):
        case FragmentLayout.ROWS:
            at = _row_chunks(k, op.buffer, op.slot, op.column, k.add(thread_of_rows(k), first))
            k.values[op.value] = _load_chunks(k, type, at)
        case FragmentLayout.HALF_ROWS:
            at = _row_chunks(k, op.buffer, op.slot, op.column, k.add(half_row(k), first))
            k.values[op.value] = _load_chunks(k, type, at)
        case FragmentLayout.TURNED:
            row = k.add(k.add(warp_of_rows(k), turned_source(k)), first)
            at = _row_chunks(k, op.buffer, op.slot, op.column, row)
            k.values[op.value] = load_bytes(k, dtype, type.shape[1], at)
        case FragmentLayout.WGMMA if dtype in narrow.NARROW:
            at = _narrow_pairs(k, op.buffer, op.slot, op.column, first)
            k.values[op.value] = narrow.load_pairs(k, dtype, type.shape[1], at)
        case FragmentLayout.WGMMA:
            load = _load_matrices if DTYPES[dtype].bits == 16 else _load_pairs
            k.values[op.value] = load(k, op, type, first)


def _load_chunks(k: Kernel, type: FragmentType, at: Callable[[int], At]) -> Fragment:
    """Whole rows, 16 bytes at a time; eight neighbouring threads touch all banks once under a 128-byte swizzle."""
    dtype = type.dtype.data
    if dtype in narrow.NARROW:
        return narrow.load_rows(k, dtype, type.shape[1], at)
    total = type.shape[1] * DTYPES[dtype].bits // 8
    parts: list[tuple[SSAValue, ...]] = []
    for byte in range(0, total, CHUNK):
        if DTYPES[dtype].bits == 16:
            words = k.emit("ld.vec", ".shared::cta", ".v4", ".b32", at(byte), results=reg("b32", 4))
            parts.append((words,))
        else:
            count = CHUNK * 8 // DTYPES[dtype].bits
            parts.append(wide(k, _load_vector_of(k, dtype, count, at(byte)), 0, count))
    return Fragment(dtype, tuple(parts))


def _load_vector_of(k: Kernel, dtype: str, count: int, place: At) -> SSAValue:
    """So many neighbours that have a register each."""
    kind = kind_of(dtype)
    return k.emit(
        "ld.vec", ".shared::cta", f".v{count}", f".{kind}", place, results=reg(kind, count)
    )


def _load_matrices(k: Kernel, op: s.LoadSharedOp, type: FragmentType, first: Any) -> Fragment:
    """ldmatrix.x4, the mirror of `_store_matrices`."""
    row = k.add(matrix_row(k, k.bit_and(k.lane, 15)), first)
    inside = k.emit("and", ".b32", k.lane, 16)
    at = Addresses(k, op.buffer, op.slot, op.column).base(row, inside)
    parts: list[tuple[SSAValue, ...]] = []
    left, byte = type.shape[1] // 4, 0
    while left:
        count = min(4, left)
        loaded = k.emit(
            "ldmatrix", f".x{count}", ".shared::cta", at(byte), results=reg("b32", count)
        )
        parts.append((loaded,))
        byte += count // 2 * CHUNK
        left -= count
    return Fragment(type.dtype.data, tuple(parts))


def _load_pairs(k: Kernel, op: s.LoadSharedOp, type: FragmentType, first: Any) -> Fragment:
    """Two columns at a time, the mirror of `_store_pairs`: each pair of registers is of one half of the rows."""
    at = _pairs(k, op.buffer, op.slot, op.column, first)
    parts: list[tuple[SSAValue, ...]] = []
    for index in range(type.shape[1] // 4):
        parts.append(wide(k, _load_vector_of(k, type.dtype.data, 2, at(index)), 0, 2))
    return Fragment(type.dtype.data, tuple(parts), halves=True)


def _load_vector(k: Kernel, op: s.LoadSharedOp, type: FragmentType) -> Fragment:
    """One value a row or a column, or a thread's own piece of a vector that is spread over the threads."""
    size, first = DTYPES[type.dtype.data].bits // 8, _first(k, op.row)
    if type.a_row:
        rows = rows_of_thread(k, type)
        if op.limit is not None:
            rows = [k.emit("min", ".u32", row, op.limit.value.data - 1) for row in rows]
        places = [_linear(k, op.buffer, op.slot, k.mul(k.add(row, first), size))(0) for row in rows]
        values = tuple(_load_one(k, type.dtype.data, place) for place in places)
        return Fragment(type.dtype.data, (values,))
    if not type.a_column:
        row = k.add(thread_of_rows(k), first)
        return _load_chunks(
            k, type, _linear(k, op.buffer, op.slot, k.mul(row, size * type.shape[1]))
        )
    start = k.mul(k.number(op.column), size)
    if type.layout.data != FragmentLayout.WGMMA:
        return _load_chunks(k, type, _linear(k, op.buffer, op.slot, start))
    at = _linear(k, op.buffer, op.slot, k.add(start, k.mul(lane_column(k), size)))
    parts: list[tuple[SSAValue, ...]] = []
    for eight in range(type.shape[1] // 8):
        place = at(8 * size * eight)
        if size == 1:
            parts.append((k.emit("ld", ".shared::cta", ".u16", place, results=reg("b32")),))
        elif size == 2:
            parts.append((k.emit("ld", ".shared::cta", ".b32", place),))
        else:
            pair = _load_vector_of(k, type.dtype.data, 2, place)
            parts.append(tuple(k.emit.slice(pair, i, 1) for i in range(2)))
    return Fragment(type.dtype.data, tuple(parts))


def _load_one(k: Kernel, dtype: str, place: At) -> SSAValue:
    if dtype in WHOLE:
        return k.emit("ld", ".shared::cta", f".{kind_of(dtype)}", place)
    if dtype in narrow.NARROW:
        return k.emit("ld", ".shared::cta", ".u8", place, results=reg("b32"))
    return k.emit("cvt", ".u32", ".u16", k.emit("ld", ".shared::cta", ".b16", place))


# Stores --------------------------------------------------------------------------------------------------------------


@lowers(s.StoreSharedOp)
def store_shared(k: Kernel, op: s.StoreSharedOp) -> None:
    type = fragment_type(op.source)
    fragment: Fragment = k.values[op.source]
    first = _first(k, op.row)
    _remark(k, op, type)
    if op.transposed is not None:
        store_transposed(k, op, type, fragment)
        return
    if _is_vector(k, op.buffer):
        limit = None if op.limit is None else op.limit.value.data
        _store_vector(k, op, type, fragment, first, limit)
        return
    match FragmentLayout(type.layout.data):
        case FragmentLayout.ROWS:
            row = k.add(thread_of_rows(k), first)
            _store_chunks(k, type, fragment, _row_chunks(k, op.buffer, op.slot, op.column, row))
        case FragmentLayout.HALF_ROWS:
            lane = k.lane
            row = k.add(matrix_row(k, lane), first)
            holds = k.emit("setp", ".lt", ".u32", lane, 16)

            def store() -> None:
                at = _row_chunks(k, op.buffer, op.slot, op.column, row)
                _store_chunks(k, type, fragment, at)

            k.emit.if_(holds, store)
        case FragmentLayout.WGMMA:
            if type.dtype.data in narrow.NARROW:
                at = _narrow_pairs(k, op.buffer, op.slot, op.column, first)
                narrow.store_pairs(k, fragment, at)
            elif DTYPES[type.dtype.data].bits == 16:
                _store_matrices(k, op, fragment, first)
            else:
                _store_pairs(k, op, fragment, first)
        case FragmentLayout.TURNED:
            raise Bug("lower-stage-to-ptx", "what is turned is stored so")


def _store_vector(
    k: Kernel,
    op: s.StoreSharedOp,
    type: FragmentType,
    fragment: Fragment,
    first: Any,
    limit: int | None,
) -> None:
    """One value a row, or a thread's own piece of a vector."""
    size = DTYPES[type.dtype.data].bits // 8
    if not type.a_row:
        row = k.add(thread_of_rows(k), first)
        at = _linear(k, op.buffer, op.slot, k.mul(row, size * type.shape[1]))
        _store_chunks(k, type, fragment, at)
        return

    def one(row: Any, value: SSAValue) -> None:
        place = _linear(k, op.buffer, op.slot, k.mul(row, size))(0)
        if type.dtype.data in WHOLE:
            k.emit("st", ".shared::cta", f".{kind_of(type.dtype.data)}", place, value)
        elif size == 1:
            k.emit("st", ".shared::cta", ".b8", place, value)
        else:
            k.emit("st", ".shared::cta", ".b16", place, k.emit("cvt", ".u16", ".u32", value))

    def store() -> None:
        for row, value in zip(rows_of_thread(k, type), fragment.parts[0], strict=True):
            index = k.add(row, first)
            if limit is None:
                one(index, value)
            else:
                inside = k.emit("setp", ".lt", ".u32", row, limit)
                k.emit.if_(inside, lambda i=index, x=value: one(i, x))

    once_a_row(k, type, store)


def once_a_row(k: Kernel, type: FragmentType, write: Callable[[], None]) -> None:
    """Where several lanes hold a row's value, the first of them writes it."""
    match FragmentLayout(type.layout.data):
        case FragmentLayout.ROWS:
            write()
        case FragmentLayout.HALF_ROWS:
            k.emit.if_(k.emit("setp", ".lt", ".u32", k.lane, 16), write)
        case FragmentLayout.WGMMA:
            k.emit.if_(k.emit("setp", ".eq", ".u32", k.bit_and(k.lane, 3), 0), write)


def _narrow_pairs(
    k: Kernel, buffer: SSAValue, slot: SSAValue, column: SSAValue, first: Any
) -> Callable[[int], At]:
    swizzle = k.buffer(buffer)[1].swizzle.data
    return narrow.pairs(k, Addresses(k, buffer, slot, column).base, swizzle, first)


def _store_chunks(
    k: Kernel, type: FragmentType, fragment: Fragment, at: Callable[[int], At]
) -> None:
    if type.dtype.data in narrow.NARROW:
        narrow.store_rows(k, fragment, at)
        return
    if DTYPES[type.dtype.data].bits == 16 and all(
        type_of(p).count and type_of(p).count % 4 == 0 for (p,) in fragment.parts
    ):
        values: list[Any] = [
            k.emit.slice(pairs, first, 4)
            for (pairs,) in fragment.parts
            for first in range(0, type_of(pairs).count, 4)
        ]
        kind = ".b32"
    else:
        each = [
            register
            for part in fragment.parts
            for neighbours in zip(*(singles(k, half) for half in part), strict=True)
            for register in neighbours
        ]
        many = 2 if type.dtype.data == "i64" else 4
        values = [each[first : first + many] for first in range(0, len(each), many)]
        kind = f".{kind_of(type.dtype.data)}"
    count = 2 if kind == ".b64" else 4
    for chunk, value in enumerate(values):
        k.emit("st.vec", ".shared::cta", f".v{count}", kind, at(CHUNK * chunk), value)


def _store_matrices(k: Kernel, op: s.StoreSharedOp, fragment: Fragment, start: Any) -> None:
    """stmatrix.x4: 16 rows and 16 columns at a time; lanes 8 i up give the rows of matrix i (rows, then columns).

    An odd eight columns at the end go by stmatrix.x2, which asks the first 16 lanes alone for rows.
    """
    lane = k.lane
    row = k.add(matrix_row(k, k.bit_and(lane, 15)), start)
    inside = k.emit("and", ".b32", lane, 16)
    at = Addresses(k, op.buffer, op.slot, op.column).base(row, inside)
    byte = 0
    if fragment.halves or not all(type_of(pairs).count for (pairs,) in fragment.parts):
        registers = in_order(k, fragment)
        for first in range(0, len(registers), 4):
            some = registers[first : first + 4]
            k.emit("stmatrix", f".x{len(some)}", ".shared::cta", at(byte), some)
            byte += len(some) // 2 * CHUNK
        return
    for (pairs,) in fragment.parts:
        count = type_of(pairs).count
        for first in range(0, count, 4):
            matrices = min(4, count - first)
            values = k.emit.slice(pairs, first, matrices)
            k.emit("stmatrix", f".x{matrices}", ".shared::cta", at(byte), values)
            byte += matrices // 2 * CHUNK


def _pairs(
    k: Kernel, buffer: SSAValue, slot: SSAValue, column: SSAValue, start: Any
) -> Callable[[int], At]:
    """32- or 64-bit values of a D fragment: `at(index)` is where pair `index` lies, rows 8 apart in turn."""
    lane = k.lane
    row = k.add(matrix_row(k, k.shift_right(lane, 2)), start)
    both = 2 * DTYPES[k.buffer(buffer)[1].dtype.data].bits // 8
    quarter = k.mul(k.bit_and(lane, 3), both)
    addresses = Addresses(k, buffer, slot, column)
    span = addresses.span
    at = addresses.base(row, k.bit_and(quarter, min(4 * both, span) - CHUNK))
    low = k.bit_and(quarter, CHUNK - both)
    if span < 4 * both:
        over = k.shift_right(quarter, span.bit_length() - 1)
        low = k.add(low, k.mul(over, addresses.tile.block))
    below = 8 * span

    def pair(index: int) -> At:
        place = at(4 * both * (index // 2))
        return At(k.add(place.base, low), place.offset + below * (index % 2))

    return pair


def _store_pairs(k: Kernel, op: s.StoreSharedOp, fragment: Fragment, start: Any) -> None:
    at = _pairs(k, op.buffer, op.slot, op.column, start)
    index = 0
    step = 2 if fragment.halves else 1
    for number in range(0, len(fragment.parts), step):
        parts = fragment.parts[number : number + step]
        for first in range(type_of(parts[0][0]).count or 1):
            for even, odd in parts:
                values = [singles(k, even)[first], singles(k, odd)[first]]
                kind = f".{kind_of(fragment.dtype)}"
                k.emit("st.vec", ".shared::cta", ".v2", kind, at(index), values)
                index += 1
