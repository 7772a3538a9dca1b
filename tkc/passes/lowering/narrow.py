"""Register tiles of 8-bit elements: conversions, and accesses of shared memory.

A register holds two neighbouring elements of a row in its lower half, so that 8-bit tiles have the form of 16-bit ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.ptx.emit import At
from tkc.ir.ptx.registers import reg, type_of
from tkc.passes.lowering.state import Fragment, Kernel
from tkc.passes.lowering.threads import lane_column, matrix_row

FLOATS = {"e4m3": ".e4m3x2", "e5m2": ".e5m2x2"}
INTEGERS = {"s8": (-128, 127), "u8": (0, 255)}
NARROW = {*FLOATS, *INTEGERS}
CHUNK = 16
"""Bytes of one vector access."""

Part = tuple[SSAValue, ...]


# Conversions ---------------------------------------------------------------------------------------------------------


def pack(k: Kernel, dtype: str, part: Part) -> Part:
    """Rounds to nearest even; beyond the largest value, the largest. A NaN is 0 in an integer."""
    even, odd = part
    if dtype in FLOATS:
        return (k.emit("cvt", ".u32", ".u16", k.emit("cvt.fp8x2", FLOATS[dtype], odd, even)),)
    low, high = (_rounded(k, dtype, x) for x in part)
    return (k.emit("or", ".b32", k.emit("and", ".b32", low, 0xFF), _upper(k, high)),)


def _upper(k: Kernel, value: SSAValue) -> SSAValue:
    return k.emit("shl", ".b32", k.emit("and", ".b32", value, 0xFF), 8)


def _rounded(k: Kernel, dtype: str, x: SSAValue) -> SSAValue:
    least, most = INTEGERS[dtype]
    whole = k.emit("cvt", ".rni", ".s32", ".f32", x)
    return k.emit("min", ".s32", k.emit("max", ".s32", whole, least), most)


def unpack(k: Kernel, dtype: str, part: Part) -> Part:
    """Exact."""
    (pairs,) = part
    if dtype in FLOATS:
        low = k.emit("cvt", ".u16", ".u32", pairs)
        halves = k.emit("cvt.half.fp8x2", ".f16x2", FLOATS[dtype], low)
        return tuple(
            k.emit("cvt", ".f32", ".f16", k.emit("cvt", ".u16", ".u32", x))
            for x in (halves, k.emit("shr", ".u32", halves, 16))
        )
    shift = ".s32" if dtype == "s8" else ".u32"
    return tuple(
        k.emit(
            "cvt", ".rn", ".f32", shift, k.emit("shr", shift, k.emit("shl", ".b32", pairs, n), 24)
        )
        for n in (24, 16)
    )


def pack_single(k: Kernel, dtype: str, part: Part) -> Part:
    """Each value in the lowest byte of a register."""
    if dtype in FLOATS:
        return tuple(
            k.emit("cvt", ".u32", ".u16", k.emit("cvt.fp8x2", FLOATS[dtype], 0.0, x)) for x in part
        )
    return tuple(k.emit("and", ".b32", _rounded(k, dtype, x), 0xFF) for x in part)


def unpack_single(k: Kernel, dtype: str, part: Part) -> Part:
    """Exact."""
    return tuple(unpack(k, dtype, (x,))[0] for x in part)


# Shared memory -------------------------------------------------------------------------------------------------------


def load_rows(k: Kernel, dtype: str, columns: int, at: Callable[[int], At]) -> Fragment:
    """Whole rows, 16 elements at a time."""
    pairs: list[SSAValue] = []
    for byte in range(0, columns, CHUNK):
        words = k.emit("ld.vec", ".shared::cta", ".v4", ".b32", at(byte), results=reg("b32", 4))
        low, high = k.emit("and", ".b32", words, 0xFFFF), k.emit("shr", ".u32", words, 16)
        pairs += [k.emit.slice(half, i) for i in range(4) for half in (low, high)]
    return Fragment(dtype, ((k.emit.join(pairs, "b32"),),))


def store_rows(k: Kernel, fragment: Fragment, at: Callable[[int], At]) -> None:
    pairs = registers(k, fragment)
    words = [
        k.emit("or", ".b32", low, k.emit("shl", ".b32", high, 16))
        for low, high in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    for first in range(0, len(words), 4):
        place = at(CHUNK * first // 4)
        k.emit("st.vec", ".shared::cta", ".v4", ".b32", place, words[first : first + 4])


def registers(k: Kernel, fragment: Fragment) -> list[SSAValue]:
    """The registers of a fragment one by one; of the wgmma layout rows 8 apart in turn."""
    step = 2 if fragment.halves else 1
    found: list[SSAValue] = []
    for index in range(0, len(fragment.parts), step):
        here = [one for (one,) in fragment.parts[index : index + step]]
        count = type_of(here[0]).count
        if not count:
            found += here
        for i in range(count):
            found += [k.emit.slice(one, i) for one in here]
    return found


def pairs(
    k: Kernel, base: Callable[[Any, Any], Callable[[int], At]], swizzle: str, start: Any
) -> Callable[[int], At]:
    """Where pair `index` of a thread lies in the wgmma layout: rows 8 apart in turn, 8 columns further each two."""
    row = k.add(matrix_row(k, k.shift_right(k.lane, 2)), start)
    at = base(row, 0)
    column = lane_column(k)
    below = 8 * SWIZZLES[swizzle].span

    def pair(index: int) -> At:
        eight, lower = divmod(index, 2)
        chunk, half = divmod(eight, 2)
        place = at(CHUNK * chunk)
        return At(k.add(place.base, column), place.offset + 8 * half + below * lower)

    return pair


def load_pairs(k: Kernel, dtype: str, columns: int, at: Callable[[int], At]) -> Fragment:
    loaded = [
        k.emit("cvt", ".u32", ".u16", k.emit("ld", ".shared::cta", ".b16", at(i)))
        for i in range(columns // 4)
    ]
    halves = tuple((k.emit.join(loaded[row::2], "b32"),) for row in range(2))
    return Fragment(dtype, halves, halves=True)


def store_pairs(k: Kernel, fragment: Fragment, at: Callable[[int], At]) -> None:
    for index, value in enumerate(registers(k, fragment)):
        k.emit("st", ".shared::cta", ".b16", at(index), k.emit("cvt", ".u16", ".u32", value))
