"""Register tiles into shared memory with rows and columns exchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from tkc.diagnostics import Bug
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.ptx.emit import At
from tkc.ir.ptx.registers import reg, type_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import FragmentLayout, FragmentType
from tkc.passes.lowering.fragments import kind_of, singles
from tkc.passes.lowering.state import Fragment, Kernel
from tkc.passes.lowering.threads import half_row, lane_column, lane_row, matrix_row, thread_of_rows


class Turned:
    """Addresses of a slot in which the fragment's column c is row c, and its row r is element r of that row.

    `at(c)` with a known c is a register and an offset: the swizzle repeats, so that few registers serve all columns.
    """

    def __init__(self, k: Kernel, op: s.StoreSharedOp, row: Any, column: Any = 0) -> None:
        """`row` is the thread's; `column` the part of c that depends on the thread, a multiple of 8 plus it being c."""
        self.k = k
        _, type = k.buffer(op.buffer)
        tile = k.tile(type)
        self.span = tile.span
        self.place = k.slot_address(op.buffer, op.slot)
        first = k.number(op.column)
        if not isinstance(first, int):
            raise Bug("lower-stage-to-ptx", "rows of a turned tile are known numbers")
        self.first = first
        if op.row is not None:
            row = k.add(row, k.number(op.row))
        bytes = k.mul(row, DTYPES[type.dtype.data].bits // 8)
        spans = k.shift_right(bytes, self.span.bit_length() - 1)
        self.inside = k.bit_and(bytes, self.span - 1)
        self.base = k.add(self.place.base, k.mul(spans, tile.block))
        self.along = k.mul(column, self.span)
        self.terms = SWIZZLES[type.swizzle.data].terms
        self.known: dict[Any, SSAValue] = {}

    def at(self, column: int) -> At:
        k, along = self.k, (self.first + column) * self.span
        if isinstance(self.along, int):
            along += self.along
            key: Any = 0
            for shift, mask in self.terms:
                key ^= (along >> shift) & mask
            if key not in self.known:
                self.known[key] = k.add(self.base, k.bit_xor(self.inside, key))
            return At(self.known[key], self.place.offset + along)
        if not self.known:
            term: Any = self.inside
            for shift, mask in self.terms:
                term = k.bit_xor(term, k.bit_and(k.shift_right(self.along, shift), mask))
            self.known[0] = k.add(k.add(self.base, self.along), term)
        return At(self.known[0], self.place.offset + along)


def store_transposed(
    k: Kernel, op: s.StoreSharedOp, type: FragmentType, fragment: Fragment
) -> None:
    """A thread's row becomes a column, element by element: neighbouring threads write neighbouring elements."""
    match FragmentLayout(type.layout.data):
        case FragmentLayout.ROWS:
            _store_row(k, op, fragment, thread_of_rows(k))
        case FragmentLayout.HALF_ROWS:
            holds = k.emit("setp", ".lt", ".u32", k.lane, 16)
            k.emit.if_(holds, lambda: _store_row(k, op, fragment, half_row(k)))
        case FragmentLayout.WGMMA:
            if DTYPES[type.dtype.data].bits == 16:
                _store_matrices(k, op, fragment)
            else:
                _store_elements(k, op, fragment)
        case FragmentLayout.TURNED:
            _store_bytes(k, op, fragment)


def _store_row(k: Kernel, op: s.StoreSharedOp, fragment: Fragment, row: Any) -> None:
    turned = Turned(k, op, row)
    column = 0
    for part in fragment.parts:
        for registers in zip(*(singles(k, x) for x in part), strict=True):
            for value in _elements(k, fragment, registers):
                _store(k, fragment, turned.at(column), value)
                column += 1


def _elements(k: Kernel, fragment: Fragment, registers: tuple[SSAValue, ...]) -> list[SSAValue]:
    """Two neighbouring elements, in a register each or both in one."""
    if len(registers) == 2:
        return list(registers)
    bits = DTYPES[fragment.dtype].bits
    both = (registers[0], k.emit("shr", ".u32", registers[0], bits))
    return [k.emit("cvt", ".u16", ".u32", x) for x in both] if bits == 16 else list(both)


def _store(k: Kernel, fragment: Fragment, place: At, value: SSAValue) -> None:
    bits = DTYPES[fragment.dtype].bits
    kind = kind_of(fragment.dtype) if bits >= 32 else f"b{bits}"
    k.emit("st", ".shared::cta", f".{kind}", place, value)


def _store_matrices(k: Kernel, op: s.StoreSharedOp, fragment: Fragment) -> None:
    """stmatrix.trans: lanes 8 i up give the columns of matrix i, which are rows of the slot."""
    lane = k.lane
    half = k.bit_and(lane, 8)
    column = k.add(k.bit_and(lane, 7), k.shift_right(k.bit_and(lane, 16), 1))
    turned = Turned(k, op, matrix_row(k, half), column)
    registers = in_order(k, fragment)
    for first in range(0, len(registers), 4):
        some = registers[first : first + 4]
        k.emit("stmatrix", f".x{len(some)}", ".trans", ".shared::cta", turned.at(4 * first), some)


def in_order(k: Kernel, fragment: Fragment) -> list[SSAValue]:
    """Registers of 16-bit pairs of a fragment in the wgmma layout: each eight columns' upper rows, then its lower."""
    if not fragment.halves:
        return [register for (pairs,) in fragment.parts for register in singles(k, pairs)]
    return [
        register
        for upper, lower in zip(fragment.parts[::2], fragment.parts[1::2], strict=True)
        for both in zip(singles(k, upper[0]), singles(k, lower[0]), strict=True)
        for register in both
    ]


# Tiles of bytes ------------------------------------------------------------------------------------------------------

BY_COLUMNS, OTHER_ROWS, OTHER_COLUMNS = 0x6420, 0x2064, 0x1111
"""Selectors of prmt: bytes of even columns of two registers of ldmatrix.trans, with two rows each; those of lanes whose
lower rows are in the second register; what makes the columns odd."""


def warp_of_rows(k: Kernel) -> Any:
    """The first row of a warp that has 32."""
    return k.mul(k.shift_right(thread_of_rows(k), 5), 32)


def turned_source(k: Kernel) -> Any:
    """`isa.fragments.turned_source` of the lane."""
    swapped = k.bit_and(k.shift_right(k.bit_xor(k.lane, k.shift_right(k.lane, 1)), 1), 2)
    return k.add(k.add(k.bit_and(k.lane, 17), k.mul(k.bit_and(k.lane, 6), 2)), swapped)


def load_bytes(k: Kernel, dtype: str, columns: int, at: Callable[[int], At]) -> Fragment:
    """16 columns of 32 rows at a time: neighbours of two rows in a register, sorted into four rows of one column."""
    later = k.emit("setp", ".ne", ".u32", k.bit_and(k.lane, 2), 0)
    even = k.emit("selp", ".b32", OTHER_ROWS, BY_COLUMNS, later)
    shifted = k.mul(k.shift_right(k.lane, 4), OTHER_COLUMNS)
    selectors = [k.bit_xor(even, shifted)]
    selectors.append(k.bit_xor(selectors[0], OTHER_COLUMNS))
    words: list[SSAValue] = []
    for byte in range(0, columns, 16):
        loaded = k.emit(
            "ldmatrix", ".x4", ".trans", ".shared::cta", at(byte), results=reg("b32", 4)
        )
        matrices = singles(k, loaded)
        words += [k.emit("prmt", *matrices[h : h + 2], s) for h in (0, 2) for s in selectors]
    return Fragment(dtype, ((k.emit.join(words, "b32"),),))


def _store_bytes(k: Kernel, op: s.StoreSharedOp, fragment: Fragment) -> None:
    """stmatrix.x4: 16 rows of 32 bytes at a time."""
    lane = k.lane
    swapped = k.bit_and(k.shift_right(k.bit_xor(lane, k.shift_right(lane, 1)), 2), 1)
    column = k.add(k.mul(k.bit_and(lane, 7), 2), swapped)
    turned = Turned(k, op, k.add(warp_of_rows(k), k.bit_and(lane, 16)), column)
    registers = in_order(k, fragment)
    for first in range(0, len(registers), 4):
        some = registers[first : first + 4]
        k.emit("stmatrix", ".x4", ".shared::cta", turned.at(4 * first), some)


# Elements one by one -------------------------------------------------------------------------------------------------


def _store_elements(k: Kernel, op: s.StoreSharedOp, fragment: Fragment) -> None:
    """Each element of 8, 32 or 64 bits by itself; columns 8 apart have one register for their address."""
    turned = [
        [Turned(k, op, k.add(lane_row(k), 8 * h), k.add(lane_column(k), odd)) for odd in range(2)]
        for h in range(2)
    ]
    index, step = 0, 2 if fragment.halves else 1
    for number in range(0, len(fragment.parts), step):
        parts = fragment.parts[number : number + step]
        for i in range(type_of(parts[0][0]).count or 1):
            for part in parts:
                registers = tuple(singles(k, half)[i] for half in part)
                for odd, value in enumerate(_elements(k, fragment, registers)):
                    _store(k, fragment, turned[index % 2][odd].at(8 * (index // 2)), value)
                index += 1
