"""Register tiles: out of accumulators and shared memory, arithmetic on them, and back into shared memory.

Where an element lies is `isa.fragments`'s and `isa.layouts`'s to say; here the part of it that depends on the thread
becomes an address computed once, and the rest offsets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xdsl.ir import SSAValue

from tkc.diagnostics import Bug, TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.targets import Feature
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At
from tkc.ir.ptx.registers import reg, type_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType, FragmentLayout, FragmentType
from tkc.passes.lowering.state import Accumulator, Fragment, Kernel, lowers

CHUNK = 16
"""Bytes of one vector access, and the unit that a swizzle moves."""

PACKED = {"bf16": ".bf16x2", "f16": ".f16x2"}
"""The 16-bit dtypes and the conversion that makes a pair of them."""


def fragment_type(value: SSAValue) -> FragmentType:
    assert isinstance(value.type, FragmentType)
    return value.type


def wide(k: Kernel, whole: SSAValue, start: int, count: int) -> tuple[SSAValue, SSAValue]:
    """Elements `start` up of a tuple of 32-bit values, as (even, odd)."""
    half = count // 2
    return k.emit.slice(whole, start, half, 2), k.emit.slice(whole, start + 1, half, 2)


# Accumulators --------------------------------------------------------------------------------------------------------


def _finish(k: Kernel, op: s.ReadAccumulatorOp, even: SSAValue, odd: SSAValue) -> None:
    """Zero instead, where the item had no product."""
    if op.nonzero is not None:
        some: SSAValue | bool = k.number(op.nonzero)
        if some is False:
            raise Bug("lower-stage-to-ptx", "an accumulator that never counts")
        if isinstance(some, SSAValue):
            even, odd = (k.emit("selp", ".f32", v, 0.0, some) for v in (even, odd))
    k.values[op.value] = Fragment("f32", ((even, odd),))


@lowers(s.ReadAccumulatorOp, Feature.TCGEN05)
def read_tensor(k: Kernel, op: s.ReadAccumulatorOp) -> None:
    """One load of 32 lanes by each warp: a thread gets one row (PTX: tcgen05.ld.32x32b)."""
    accumulator: Accumulator = k.values[op.accumulator]
    columns = fragment_type(op.value).shape[1]
    width = op.accumulator.type
    assert isinstance(width, AccumulatorType)
    lanes = k.emit("shl", ".b32", k.bit_and(k.warp, 3), 21)
    address = k.add(k.add(accumulator.address, lanes), k.number(op.column))
    address = k.add(address, op.row_block.value.data * width.shape[1])
    loaded = k.emit("tcgen05.ld", ".32x32b", f".x{columns}", address, results=reg("f32", columns))
    k.emit("tcgen05.wait::ld")
    _finish(k, op, *wide(k, loaded, 0, columns))


@lowers(s.ReadAccumulatorOp, Feature.WGMMA)
def read_registers(k: Kernel, op: s.ReadAccumulatorOp) -> None:
    """Columns of a wgmma accumulator are its registers in order: four values for each eight columns."""
    accumulator: Accumulator = k.values[op.accumulator]
    columns, first = fragment_type(op.value).shape[1], k.number(op.column)
    if not isinstance(first, int):
        raise Bug("lower-stage-to-ptx", "registers are not found at run time")
    _finish(
        k, op, *wide(k, accumulator.registers[op.row_block.value.data], first // 2, columns // 2)
    )


# Arithmetic ----------------------------------------------------------------------------------------------------------


@lowers(s.CastOp)
def cast(k: Kernel, op: s.CastOp) -> None:
    source: Fragment = k.values[op.source]
    to = fragment_type(op.value).dtype.data
    if source.dtype == to:
        k.values[op.value] = source
    elif source.dtype == "f32" and to in PACKED:
        k.values[op.value] = Fragment(
            to,
            tuple((k.emit("cvt.x2", ".rn", PACKED[to], odd, even),) for even, odd in source.parts),
        )
    elif source.dtype == "bf16" and to == "f32":
        k.values[op.value] = Fragment(to, tuple(_from_bf16(k, pair) for (pair,) in source.parts))
    elif source.dtype == "f16" and to == "f32":
        k.values[op.value] = Fragment(to, tuple(_from_f16(k, pair) for (pair,) in source.parts))
    else:
        raise TkcError.at(
            "TK110", f"converting {source.dtype} to {to} is not supported yet", location_of(op)
        )


def _from_bf16(k: Kernel, pairs: SSAValue) -> tuple[SSAValue, SSAValue]:
    """bf16 is the upper half of an f32: exact."""
    return k.emit("shl", ".b32", pairs, 16), k.emit("and", ".b32", pairs, 0xFFFF0000)


def _from_f16(k: Kernel, pairs: SSAValue) -> tuple[SSAValue, SSAValue]:
    low = k.emit("cvt", ".u16", ".u32", pairs)
    high = k.emit("cvt", ".u16", ".u32", k.emit("shr", ".u32", pairs, 16))
    return k.emit("cvt", ".f32", ".f16", low), k.emit("cvt", ".f32", ".f16", high)


LOG2_E = math.log2(math.e)

UNARY: dict[str, Callable[[Kernel, Any], Any]] = {
    "neg": lambda k, a: k.emit("neg", ".f32", a),
    "abs": lambda k, a: k.emit("abs", ".f32", a),
    "exp": lambda k, a: k.emit(
        "ex2.approx", ".ftz", ".f32", k.emit("mul", ".rn", ".f32", a, LOG2_E)
    ),
    "exp2": lambda k, a: k.emit("ex2.approx", ".ftz", ".f32", a),
    "log": lambda k, a: k.emit("mul", ".rn", ".f32", k.emit("lg2.approx", ".f32", a), math.log(2)),
    "log2": lambda k, a: k.emit("lg2.approx", ".f32", a),
    "sqrt": lambda k, a: k.emit("sqrt", ".rn", ".f32", a),
    "rsqrt": lambda k, a: k.emit("rsqrt.approx", ".f32", a),
    "rcp": lambda k, a: k.emit("rcp", ".rn", ".f32", a),
    "tanh": lambda k, a: k.emit("tanh.approx", ".f32", a),
}
"""exp, exp2, log, log2, rsqrt and tanh are the hardware's approximations (PTX 9.7.3 gives their errors)."""

BINARY: dict[str, tuple[str, ...]] = {
    "add": ("add", ".rn", ".f32"),
    "sub": ("sub", ".rn", ".f32"),
    "mul": ("mul", ".rn", ".f32"),
    "div": ("div", ".full", ".f32"),
    "min": ("min", ".NaN", ".f32"),
    "max": ("max", ".NaN", ".f32"),
}
"""div.full is within 2 ulp; min and max pass a NaN on."""


@lowers(s.MapOp)
def elementwise(k: Kernel, op: s.MapOp) -> None:
    type = fragment_type(op.value)
    if type.dtype.data != "f32":
        raise TkcError.at(
            "TK110",
            f"arithmetic on {type.dtype.data} register tiles is not supported yet; convert with f32(x) first",
            location_of(op),
        )
    inputs = [k.values[v] for v in op.inputs]
    fragments = [f for f in inputs if isinstance(f, Fragment)]
    if len({tuple(_width(p) for p in f.parts) for f in fragments}) > 1:
        pairs = math.gcd(*(type_of(part[0]).count for f in fragments for part in f.parts))
        inputs = [_split(k, f, pairs) if isinstance(f, Fragment) else f for f in inputs]
    count = len(next(f for f in inputs if isinstance(f, Fragment)).parts)
    parts: list[tuple[SSAValue, ...]] = []
    for part in range(count):
        halves: list[SSAValue] = []
        for half in range(2):
            values = [f.parts[part][half] if isinstance(f, Fragment) else f for f in inputs]
            if op.kind.data in UNARY:
                halves.append(UNARY[op.kind.data](k, values[0]))
            else:
                halves.append(
                    k.emit(
                        *BINARY[op.kind.data],
                        *(float(v) if isinstance(v, int) else v for v in values),
                    )
                )
        parts.append(tuple(halves))
    k.values[op.value] = Fragment("f32", tuple(parts))


def _width(part: tuple[SSAValue, ...]) -> int:
    return sum(type_of(v).count for v in part)


def _split(k: Kernel, fragment: Fragment, pairs: int) -> Fragment:
    """The fragment in parts of so many pairs, so that fragments of different origin fit."""
    parts: list[tuple[SSAValue, ...]] = []
    for part in fragment.parts:
        for first in range(0, type_of(part[0]).count, pairs):
            parts.append(tuple(k.emit.slice(v, first, pairs) for v in part))
    return Fragment(fragment.dtype, tuple(parts))


# Shared memory -------------------------------------------------------------------------------------------------------


def _thread(k: Kernel) -> Any:
    """The thread's number in its role."""
    first = 32 * k.current_role().first_warp.value.data
    return k.emit("sub", ".u32", k.thread, first) if first else k.thread


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


@lowers(s.LoadSharedOp)
def load_shared(k: Kernel, op: s.LoadSharedOp) -> None:
    """Whole rows, 16 bytes at a time; eight neighbouring threads touch all banks once under a 128-byte swizzle."""
    type = fragment_type(op.value)
    dtype = type.dtype.data
    if type.layout.data != FragmentLayout.ROWS or DTYPES[dtype].bits not in (16, 32):
        raise TkcError.at(
            "TK110",
            f"reading a shared tile of {dtype} into this layout is not supported yet",
            location_of(op),
        )
    at = _row_chunks(k, op.buffer, op.slot, op.column, _thread(k))
    total = type.shape[1] * DTYPES[dtype].bits // 8
    parts: list[tuple[SSAValue, ...]] = []
    for byte in range(0, total, CHUNK):
        if DTYPES[dtype].bits == 16:
            words = k.emit("ld.vec", ".shared::cta", ".v4", ".b32", at(byte), results=reg("b32", 4))
            parts.append((words,))
        else:
            words = k.emit("ld.vec", ".shared::cta", ".v4", ".f32", at(byte), results=reg("f32", 4))
            parts.append(wide(k, words, 0, 4))
    k.values[op.value] = Fragment(dtype, tuple(parts))


@lowers(s.StoreSharedOp)
def store_shared(k: Kernel, op: s.StoreSharedOp) -> None:
    type = fragment_type(op.source)
    fragment: Fragment = k.values[op.source]
    match FragmentLayout(type.layout.data):
        case FragmentLayout.ROWS:
            _store_rows(k, op, type, fragment, _thread(k))
        case FragmentLayout.HALF_ROWS:
            lane = k.lane
            row = k.add(k.mul(k.bit_and(k.warp, 3), 16), lane)
            holds = k.emit("setp", ".lt", ".u32", lane, 16)
            k.emit.if_(holds, lambda: _store_rows(k, op, type, fragment, row))
        case FragmentLayout.WGMMA:
            if DTYPES[type.dtype.data].bits == 16:
                _store_matrices(k, op, type, fragment)
            else:
                _store_pairs(k, op, type, fragment)


def _store_rows(
    k: Kernel, op: s.StoreSharedOp, type: FragmentType, fragment: Fragment, row: Any
) -> None:
    at = _row_chunks(k, op.buffer, op.slot, op.column, row)
    bits = DTYPES[type.dtype.data].bits
    if bits == 16:
        for i, words in enumerate(_packed_chunks(k, fragment)):
            k.emit("st.vec", ".shared::cta", ".v4", ".b32", at(CHUNK * i), words)
        return
    byte = 0
    for part in fragment.parts:
        for first in range(0, type_of(part[0]).count, 2):
            values = _interleaved(k, part, first, 2)
            k.emit("st.vec", ".shared::cta", ".v4", ".f32", at(byte), values)
            byte += CHUNK


def _packed_chunks(k: Kernel, fragment: Fragment) -> Iterator[SSAValue | list[SSAValue]]:
    """Packed pairs four at a time: of one part, or one by one of several where a part holds fewer (f32 tiles do)."""
    waiting: list[SSAValue] = []
    for (pairs,) in fragment.parts:
        count = type_of(pairs).count
        if not waiting and count % 4 == 0:
            yield from (k.emit.slice(pairs, first, 4) for first in range(0, count, 4))
            continue
        for i in range(count):
            waiting.append(k.emit.slice(pairs, i))
            if len(waiting) == 4:
                yield waiting
                waiting = []


def _interleaved(k: Kernel, part: Sequence[SSAValue], first: int, count: int) -> list[SSAValue]:
    """Elements in order, of `count` (even, odd) pairs."""
    return [k.emit.slice(half, first + i) for i in range(count) for half in part]


def _matrix_row(k: Kernel, lane_rows: Any) -> Any:
    """Rows of a warp start at 16 times its number in the warpgroup (D fragment of wgmma)."""
    return k.add(k.mul(k.bit_and(k.warp, 3), 16), lane_rows)


def _store_matrices(k: Kernel, op: s.StoreSharedOp, type: FragmentType, fragment: Fragment) -> None:
    """stmatrix.x4: 16 rows and 16 columns at a time; lanes 8 i up give the rows of matrix i (rows, then columns).

    An odd eight columns at the end go by stmatrix.x2, which asks the first 16 lanes alone for rows.
    """
    lane = k.lane
    row = _matrix_row(k, k.bit_and(lane, 15))
    inside = k.emit("and", ".b32", lane, 16)
    at = Addresses(k, op.buffer, op.slot, op.column).base(row, inside)
    byte = 0
    for (pairs,) in fragment.parts:
        count = type_of(pairs).count
        for first in range(0, count, 4):
            matrices = min(4, count - first)
            values = k.emit.slice(pairs, first, matrices)
            k.emit("stmatrix", f".x{matrices}", ".shared::cta", at(byte), values)
            byte += matrices // 2 * CHUNK


def _store_pairs(k: Kernel, op: s.StoreSharedOp, type: FragmentType, fragment: Fragment) -> None:
    """32-bit values of a D fragment: two columns at a time, rows 8 apart in turn."""
    lane = k.lane
    row = _matrix_row(k, k.shift_right(lane, 2))
    quarter = k.mul(k.bit_and(lane, 3), 8)
    inside = k.bit_and(quarter, CHUNK)
    at = Addresses(k, op.buffer, op.slot, op.column).base(row, inside)
    low = k.bit_and(quarter, 8)
    below = 8 * SWIZZLES[k.buffer(op.buffer)[1].swizzle.data].span
    index = 0
    for even, odd in fragment.parts:
        for first in range(type_of(even).count):
            place = at(32 * (index // 2))
            address = At(k.add(place.base, low), place.offset + below * (index % 2))
            values = [k.emit.slice(even, first), k.emit.slice(odd, first)]
            k.emit("st.vec", ".shared::cta", ".v2", ".f32", address, values)
            index += 1
