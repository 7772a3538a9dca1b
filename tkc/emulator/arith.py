"""Integer arithmetic and moves between registers (PTX 9.7.1, 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tkc.emulator import float as floating
from tkc.emulator.elementwise import DType, binary, halves, ternary, unary
from tkc.emulator.follow import bytewise, packed, unpacked
from tkc.emulator.instruction import Builder, Instruction, Semantic, Step
from tkc.emulator.lanes import (
    DTYPE,
    FULL,
    LANES,
    S64,
    SIGNED,
    U8,
    U16,
    U32,
    U64,
    UNSIGNED,
    Vec,
    constant,
    view,
)
from tkc.emulator.special import CLOCKS
from tkc.emulator.syntax import Name

# Moves


def _mov(i: Instruction) -> Step:
    if i.type == "pred":
        return _mov_predicate(i)
    dtype = DTYPE[i.type]
    source = i.one("a")
    if isinstance(source, Name) and source.text in CLOCKS:
        return _mov_clock(i, dtype)
    d = i.dst("d", 8 * dtype.itemsize)
    a = i.src("a", dtype)
    i.follow = bytewise(i.sources, d)

    def run(w: Any) -> None:
        R = w.R
        if w.full:
            R[d] = R[a]
        else:
            w.put(d, R[a])

    return run


def _mov_predicate(i: Instruction) -> Step:
    d = i.dst("d", 1)
    a, negated = i.predicate("a")

    def run(w: Any) -> None:
        p = w.R[a]
        w.put_predicate(d, p ^ FULL if negated else p)

    return run


def _mov_clock(i: Instruction, dtype: DType) -> Step:
    d = i.dst("d", 8 * dtype.itemsize)

    def run(w: Any) -> None:
        # Time passes with the steps of the whole machine.
        w.machine.steps += 1
        w.put(d, constant(w.machine.steps, dtype))

    return run


def _pack(i: Instruction) -> Step:
    total = DTYPE[i.type].itemsize * 8 if i.type != "b128" else 128
    d = i.dst("d", total)
    parts = i.srcs("parts", UNSIGNED[total // len(i.many("parts"))])
    bits = total // len(parts)
    for _, have in parts:
        if have != bits:
            raise ValueError(f"a part has {have} bits, expected {bits}")
    slots = [slot for slot, _ in parts]
    i.follow = packed(slots, d, bits)
    small, big = UNSIGNED[bits], UNSIGNED[min(total, 64)]
    if len(slots) == 2 and total < 128:
        lo, hi = slots
        shift = constant(bits, big)

        def pair(w: Any) -> None:
            R = w.R
            x = R[lo]
            y = R[hi]
            if x.dtype is not small:
                x = x.view(small)
            if y.dtype is not small:
                y = y.view(small)
            w.put(d, y.astype(big) << shift | x)

        return pair

    def run(w: Any) -> None:
        stacked = np.stack([view(w.R[s], small) for s in slots], axis=1)
        joined = np.ascontiguousarray(stacked).view(big)
        w.put(d, joined if total == 128 else joined[:, 0])

    return run


def _unpack(i: Instruction) -> Step:
    total = DTYPE[i.type].itemsize * 8 if i.type != "b128" else 128
    slots = [slot for slot, _ in i.dsts("parts")]
    bits = total // len(slots)
    for slot, have in i.dsts("parts"):
        if slot >= 0 and have != bits:
            raise ValueError(f"a part has {have} bits, expected {bits}")
    a, have = i.src_wide("a", UNSIGNED[min(total, 64)])
    if have != total:
        raise ValueError(f"operand a has {have} bits, expected {total}")
    small = UNSIGNED[bits]
    count = len(slots)
    i.follow = unpacked(a, slots, bits)

    def run(w: Any) -> None:
        x = w.R[a]
        if not x.flags.c_contiguous:
            x = np.ascontiguousarray(x)
        parts = x.view(small).reshape(LANES, count)
        for k, slot in enumerate(slots):
            if slot >= 0:
                w.put(slot, parts[:, k])

    return run


# Integer arithmetic

_INT_KINDS = {"u": UNSIGNED, "s": SIGNED, "b": UNSIGNED}


def integer(type_text: str) -> tuple[DType, int]:
    """(dtype, bits) of an integer type."""
    bits = int(type_text[1:])
    return _INT_KINDS[type_text[0]][bits], bits


def mul_high(dtype: DType, bits: int) -> Callable[[Vec, Vec], Vec]:
    """The high half of a product."""
    if bits < 64:
        wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[2 * bits]
        shift = constant(bits, wide)
        return lambda x, y: (x.astype(wide) * y.astype(wide) >> shift).astype(dtype)

    low, half = constant(0xFFFFFFFF, U64), constant(32, U64)

    def unsigned(x: Vec, y: Vec) -> Vec:
        x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
        middle = x1 * y0 + (x0 * y0 >> half)
        other = x0 * y1 + (middle & low)
        return x1 * y1 + (middle >> half) + (other >> half)

    if dtype.kind == "u":
        return unsigned
    sign = constant(63, S64)

    def signed(x: Vec, y: Vec) -> Vec:
        high = unsigned(x.view(U64), y.view(U64)).view(S64)
        return high - ((x >> sign) & y) - ((y >> sign) & x)

    return signed


def _wide(dtype: DType, bits: int) -> Callable[[Vec, Vec], Vec]:
    wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[2 * bits]
    return lambda x, y: x.astype(wide) * y.astype(wide)


def _mul(kind: str) -> Builder:
    def build(i: Instruction) -> Step:
        dtype, bits = integer(i.type)
        if kind == "lo":
            return binary(i, np.multiply, UNSIGNED[bits])
        if kind == "hi":
            return binary(i, mul_high(dtype, bits), dtype)
        return binary(i, _wide(dtype, bits), dtype, UNSIGNED[2 * bits])

    return build


def _saturate32(x: Vec) -> Vec:
    return np.clip(x, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def _mad(kind: str) -> Builder:
    def build(i: Instruction) -> Step:
        dtype, bits = integer(i.type)
        if kind == "lo":
            return ternary(i, lambda x, y, z: x * y + z, UNSIGNED[bits])
        if kind == "hi":
            high = mul_high(dtype, bits)
            if i.has("sat"):
                return ternary(
                    i, lambda x, y, z: _saturate32(high(x, y).astype(S64) + z.astype(S64)), dtype
                )
            return ternary(i, lambda x, y, z: high(x, y) + z, dtype)
        product = _wide(dtype, bits)
        wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[2 * bits]
        return ternary(i, lambda x, y, z: product(x, y) + z, dtype, wide, c_dtype=wide)

    return build


def int_sum(i: Instruction, subtract: bool) -> Step:
    """add and sub on integers; `.sat` clamps s32."""
    kind = i.type
    if kind.endswith("x2"):
        fn = np.subtract if subtract else np.add
        return binary(i, lambda x, y: fn(halves(x, U16), halves(y, U16)).view(U32), U32)
    if kind.endswith("x4"):
        fn = np.subtract if subtract else np.add
        return binary(i, lambda x, y: fn(halves(x, U8), halves(y, U8)).view(U32), U32)
    dtype, bits = integer(kind)
    if i.has("sat"):

        def saturated(x: Vec, y: Vec) -> Vec:
            a, b = x.astype(S64), y.astype(S64)
            return _saturate32(a - b if subtract else a + b)

        return binary(i, saturated, dtype)
    return binary(i, np.subtract if subtract else np.add, UNSIGNED[bits])


def int_divide(i: Instruction) -> Step:
    """Toward zero; by zero it gives all ones, as NVIDIA's code does for unsigned types."""
    dtype, _ = integer(i.type)
    ones = constant(-1, dtype)

    def divide(x: Vec, y: Vec) -> Vec:
        zero = y == 0
        safe = np.where(zero, ones, y) if zero.any() else y
        if dtype.kind == "u":
            quotient = x // safe
        else:
            quotient = x // safe
            exact = quotient * safe == x
            quotient = quotient + ((~exact) & ((x < 0) != (safe < 0))).astype(dtype)
        return np.where(zero, ones, quotient)

    return binary(i, divide, dtype)


def _rem(i: Instruction) -> Step:
    dtype, _ = integer(i.type)
    one = constant(1, dtype)

    def remainder(x: Vec, y: Vec) -> Vec:
        zero = y == 0
        return np.where(zero, x, np.fmod(x, np.where(zero, one, y)))

    return binary(i, remainder, dtype)


def int_minmax(i: Instruction, larger: bool) -> Step:
    """min and max on integers, also packed; with `.relu` negative results become 0."""
    pick: Callable[[Vec, Vec], Vec] = np.maximum if larger else np.minimum
    fn = (lambda x, y: np.maximum(pick(x, y), 0)) if i.has("relu") else pick
    if i.type.endswith("x2"):
        half = np.dtype(np.int16) if i.type[0] == "s" else U16
        return binary(i, lambda x, y: fn(halves(x, half), halves(y, half)).view(U32), U32)
    dtype, _ = integer(i.type)
    return binary(i, fn, dtype)


def int_abs(i: Instruction) -> Step:
    dtype, _ = integer(i.type)
    return unary(i, np.abs, dtype)


def int_neg(i: Instruction) -> Step:
    _, bits = integer(i.type)
    return unary(i, np.negative, UNSIGNED[bits])


def _by_type(on_int: Builder, on_float: Builder) -> Builder:
    def build(i: Instruction) -> Semantic:
        kind = i.type
        return on_int(i) if kind[0] in "us" else on_float(i)

    return build


SEMANTICS: dict[str, Builder] = {
    "mov": _mov,
    "mov.pack": _pack,
    "mov.unpack": _unpack,
    "add": _by_type(lambda i: int_sum(i, False), floating.add),
    "sub": _by_type(lambda i: int_sum(i, True), floating.subtract),
    "mul.lo": _mul("lo"),
    "mul.hi": _mul("hi"),
    "mul.wide": _mul("wide"),
    "mul.wide.16": _mul("wide"),
    "mad.lo": _mad("lo"),
    "mad.hi": _mad("hi"),
    "mad.wide": _mad("wide"),
    "mad.wide.16": _mad("wide"),
    "div": _by_type(int_divide, floating.divide),
    "rem": _rem,
    "abs": _by_type(int_abs, floating.absolute),
    "neg": _by_type(int_neg, floating.negate),
    "min": _by_type(lambda i: int_minmax(i, False), floating.minimum),
    "max": _by_type(lambda i: int_minmax(i, True), floating.maximum),
}
