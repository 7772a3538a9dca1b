"""Bits: logic, shifts, permutations and bit fields (PTX 9.7.8), and comparisons and selections (PTX 9.7.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tkc.emulator.arith import integer
from tkc.emulator.elementwise import DType, binary, ternary, unary
from tkc.emulator.follow import bytewise, permuted, shifted, spread
from tkc.emulator.follow import put as put_taint
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import (
    BOOLS,
    DTYPE,
    FULL,
    LANES,
    SIGNED,
    U8,
    U16,
    U32,
    U64,
    UNSIGNED,
    Vec,
    constant,
    mask_of,
    view,
)
from tkc.emulator.rounding import bf16_to_f32, flush

_LOGIC: dict[str, tuple[Callable[[Vec, Vec], Vec], Callable[[int, int], int]]] = {
    "and": (np.bitwise_and, lambda p, q: p & q),
    "or": (np.bitwise_or, lambda p, q: p | q),
    "xor": (np.bitwise_xor, lambda p, q: p ^ q),
}


def _logic(name: str) -> Builder:
    fn, on_masks = _LOGIC[name]

    def build(i: Instruction) -> Step:
        if i.type != "pred":
            step = binary(i, fn, DTYPE[i.type])
            constants = [k for n in ("a", "b") if (k := i.known(n)) is not None]
            # Where the constant of an `and` is 0, the result is 0 whatever the other operand holds.
            keep = constants[0] if name == "and" and constants else -1
            i.follow = bytewise(i.sources, i.dests[0], keep)
            return step
        d = i.dst("d", 1)
        (a, not_a), (b, not_b) = i.predicate("a"), i.predicate("b")
        flip_a, flip_b = FULL if not_a else 0, FULL if not_b else 0

        def run(w: Any) -> None:
            w.put_predicate(d, on_masks(w.R[a] ^ flip_a, w.R[b] ^ flip_b))

        return run

    return build


def _not(i: Instruction) -> Step:
    if i.type != "pred":
        step = unary(i, np.invert, DTYPE[i.type])
        i.follow = bytewise(i.sources, i.dests[0])
        return step
    d = i.dst("d", 1)
    a, negated = i.predicate("a")

    def run(w: Any) -> None:
        p = w.R[a]
        w.put_predicate(d, p if negated else p ^ FULL)

    return run


def _shift(left: bool) -> Builder:
    fn = np.left_shift if left else np.right_shift

    def build(i: Instruction) -> Step:
        dtype, bits = integer(i.type)
        if left:
            dtype = UNSIGNED[bits]
        count = i.known("b")
        if count is not None and dtype.kind == "u" and i.reads("a"):
            step = binary(i, fn, dtype, b_dtype=U32) if bits == 32 else None
            step = step or binary(i, lambda x, y: fn(x, y.astype(dtype)), dtype, b_dtype=U32)
            i.follow = shifted(i.sources[0], i.dests[0], count if left else -count, bits)
            return step
        if bits == 32 and dtype is U32:
            return binary(i, fn, U32, b_dtype=U32)
        amount = UNSIGNED[bits] if dtype.kind == "u" else dtype
        most = constant(bits, U32)
        return binary(i, lambda x, y: fn(x, np.minimum(y, most).astype(amount)), dtype, b_dtype=U32)

    return build


def _shf(i: Instruction) -> Step:
    left, clamp = i.mod("side") == "l", i.mod("mode") == "clamp"
    limit, width = constant(32, U32), constant(32, U64)
    wrap = constant(31, U32)

    def funnel(lo: Vec, hi: Vec, amount: Vec) -> Vec:
        n = (np.minimum(amount, limit) if clamp else amount & wrap).astype(U64)
        both = hi.astype(U64) << width | lo
        return ((both << n) >> width if left else both >> n).astype(U32)

    return ternary(i, funnel, U32)


def lop3_function(table: int) -> Callable[[Vec, Vec, Vec], Vec]:
    """The function of three bits that a table names: bit 4a + 2b + c of it is the result."""

    def look_up(a: Vec, b: Vec, c: Vec) -> Vec:
        result = np.zeros(len(a), U32)
        na, nb, nc = ~a, ~b, ~c
        for bit in range(8):
            if table >> bit & 1:
                result |= (a if bit & 4 else na) & (b if bit & 2 else nb) & (c if bit & 1 else nc)
        return result

    return _KNOWN_TABLES.get(table, look_up)


_KNOWN_TABLES: dict[int, Callable[[Vec, Vec, Vec], Vec]] = {
    0xC0: lambda a, b, c: a & b,
    0xFC: lambda a, b, c: a | b,
    0x3C: lambda a, b, c: a ^ b,
    0x80: lambda a, b, c: a & b & c,
    0xFE: lambda a, b, c: a | b | c,
    0x96: lambda a, b, c: a ^ b ^ c,
    0xEA: lambda a, b, c: (a & b) | c,
    0xF8: lambda a, b, c: a | (b & c),
    0xE2: lambda a, b, c: (a & b) | (c & ~b),
    0xE8: lambda a, b, c: (a & b) | (c & (a | b)),
    0x6A: lambda a, b, c: (a & b) ^ c,
    0x78: lambda a, b, c: a ^ (b & c),
}
"""The usual ones, spelled with fewer steps."""


def _lop3(i: Instruction) -> Step:
    step = ternary(i, lop3_function(i.immediate("table")), U32)
    i.follow = bytewise(i.sources, i.dests[0])
    return step


_PRMT_BYTES = {
    "f4e": lambda s: [(s + k) % 8 for k in range(4)],
    "b4e": lambda s: [(s - k) % 8 for k in range(4)],
    "rc8": lambda s: [s] * 4,
    "ecl": lambda s: [max(k, s) for k in range(4)],
    "ecr": lambda s: [min(k, s) for k in range(4)],
    "rc16": lambda s: [0, 1, 0, 1] if s % 2 == 0 else [2, 3, 2, 3],
}


def _prmt(i: Instruction) -> Step:
    mode = i.mod("mode")
    eight = np.arange(LANES)[:, None]
    shifts = np.array([0, 4, 8, 12], U32)
    if mode:
        table = np.array([_PRMT_BYTES[mode](s) for s in range(4)])

        def special(a: Vec, b: Vec, c: Vec) -> Vec:
            source = np.stack([a, b], axis=1).view(U8)
            return np.ascontiguousarray(source[eight, table[c & np.uint32(3)]]).view(U32)[:, 0]

        return ternary(i, special, U32)

    def permute(a: Vec, b: Vec, c: Vec) -> Vec:
        source = np.stack([a, b], axis=1).view(U8)
        nibbles = c[:, None] >> shifts
        picked = source[eight, nibbles & np.uint32(7)]
        spread = np.where(picked & 0x80, 0xFF, 0).astype(U8)
        chosen = np.where(nibbles & np.uint32(8), spread, picked)
        return np.ascontiguousarray(chosen).view(U32)[:, 0]

    step = ternary(i, permute, U32)
    selector = i.known("c")
    if selector is not None and i.reads("a") and i.reads("b") and not selector & 0x8888:
        i.follow = permuted(i.sources[0], i.sources[1], i.dests[0], selector)
    return step


def _bfe(i: Instruction) -> Step:
    dtype, bits = integer(i.type)
    d, a = i.dst("d", bits), i.src("a", dtype)
    start, length = i.src("start", U32), i.src("length", U32)
    wide = SIGNED[64] if dtype.kind == "i" else U64
    byte = constant(0xFF, U32)

    def run(w: Any) -> None:
        R = w.R
        x = view(R[a], dtype)
        at = (view(R[start], U32) & byte).astype(np.int64)
        size = (view(R[length], U32) & byte).astype(np.int64)
        size = np.minimum(size, np.maximum(bits - at, 0)) if dtype.kind == "u" else size
        value = x.astype(wide).view(U64)
        if dtype.kind == "i":
            # The sign bit of a field that reaches beyond the top is the top bit.
            top = np.minimum(at + size - 1, bits - 1)
            sign = (value >> np.maximum(top, 0).astype(U64)) & np.uint64(1)
            size_in = np.minimum(size, np.maximum(bits - at, 0))
            ones = (np.uint64(1) << np.minimum(size_in, 63).astype(U64)) - np.uint64(1)
            ones = np.where(size_in >= 64, ~np.uint64(0), ones)
            field = np.where(at < bits, (value >> np.minimum(at, 63).astype(U64)) & ones, 0)
            result = np.where(sign.astype(bool), field | ~ones, field)
            result = np.where(size == 0, 0, result)
        else:
            ones = (np.uint64(1) << np.minimum(size, 63).astype(U64)) - np.uint64(1)
            ones = np.where(size >= 64, ~np.uint64(0), ones)
            result = np.where(at < bits, (value >> np.minimum(at, 63).astype(U64)) & ones, 0)
        w.put(d, result.astype(U64).astype(UNSIGNED[bits]))

    return run


def _bfi(i: Instruction) -> Step:
    bits = int(i.type[1:])
    dtype = UNSIGNED[bits]
    d, a, b = i.dst("d", bits), i.src("a", dtype), i.src("b", dtype)
    start, length = i.src("start", U32), i.src("length", U32)
    byte = constant(0xFF, U32)

    def run(w: Any) -> None:
        R = w.R
        at = view(R[start], U32) & byte
        size = view(R[length], U32) & byte
        ones = np.where(
            size >= bits,
            ~dtype.type(0),
            (dtype.type(1) << np.minimum(size, bits - 1).astype(dtype)) - dtype.type(1),
        )
        field = ones << np.minimum(at, bits).astype(dtype)
        inserted = view(R[a], dtype) << np.minimum(at, bits).astype(dtype)
        w.put(d, (view(R[b], dtype) & ~field) | (inserted & field))

    return run


# Comparison and selection

_ORDERED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def comparison(name: str, floating: bool) -> Callable[[Vec, Vec], Vec]:
    """The comparison called `name`; ordered ones are false where an operand is NaN, `...u` ones true."""
    name = _UNSIGNED_NAMES.get(name, name)
    if not floating:
        return _ORDERED[name]
    if name == "num":
        return lambda x, y: ~(np.isnan(x) | np.isnan(y))
    if name == "nan":
        return lambda x, y: np.isnan(x) | np.isnan(y)
    if name == "ne":
        return lambda x, y: (x != y) & ~(np.isnan(x) | np.isnan(y))
    if name in _ORDERED:
        return _ORDERED[name]
    plain = _ORDERED[name[:-1]]
    return lambda x, y: plain(x, y) | np.isnan(x) | np.isnan(y)


def compare_operands(i: Instruction) -> tuple[DType, bool, Callable[[Vec], Vec] | None]:
    """(dtype of the registers, whether floats are compared, what makes a register comparable)."""
    kind = i.type
    if kind == "bf16":
        return U16, True, bf16_to_f32
    dtype = DTYPE[kind]
    floating = dtype.kind == "f"
    return dtype, floating, flush if i.has("ftz") and kind == "f32" else None


def _setp(i: Instruction) -> Step:
    dtype, floating, prepare = compare_operands(i)
    name = i.mod("compare")
    fn = comparison(name, floating)
    p = i.dst("p", 1)
    q = i.dst("q", 1) if i.given("q") else -1
    a, b = i.src("a", dtype), i.src("b", dtype)
    joined = i.mod("bool")
    c, flip = -1, 0
    if joined:
        c, negated = i.predicate("c")
        flip = FULL if negated else 0
        join = _LOGIC[joined][1]

    def run(w: Any) -> None:
        R = w.R
        x = R[a]
        y = R[b]
        if x.dtype is not dtype:
            x = x.view(dtype)
        if y.dtype is not dtype:
            y = y.view(dtype)
        if prepare is not None:
            x, y = prepare(x), prepare(y)
        result = mask_of(fn(x, y))
        opposite = result ^ FULL
        if joined:
            third = R[c] ^ flip
            result, opposite = join(result, third), join(opposite, third)
        if w.full:
            if p >= 0:
                R[p] = result
        else:
            w.put_predicate(p, result)
        if q >= 0:
            w.put_predicate(q, opposite)

    return run


def _selp(i: Instruction) -> Step:
    dtype = DTYPE[i.type]
    d, a, b = i.dst("d", 8 * dtype.itemsize), i.src("a", dtype), i.src("b", dtype)
    p, negated = i.predicate("p")
    i.follows = True

    def run(w: Any) -> None:
        R = w.R
        chosen = R[p]
        if negated:
            chosen ^= FULL
        if w.taint:
            t, first = w.taint, spread(chosen)
            bad = (t.get(a, 0) & first) | (t.get(b, 0) & ~first) | spread(w.tainted(p))
            put_taint(w, d, bad)
        active = w.mask
        if chosen & active == active:
            w.put(d, R[a])
        elif not chosen & active:
            w.put(d, R[b])
        else:
            x = R[a]
            y = R[b]
            if x.dtype is not y.dtype:
                x, y = x.view(dtype), y.view(dtype)
            w.put(d, np.where(BOOLS[chosen], x, y))

    return run


SEMANTICS: dict[str, Builder] = {
    **{name: _logic(name) for name in _LOGIC},
    "not": _not,
    "shl": _shift(True),
    "shr": _shift(False),
    "shf": _shf,
    "lop3": _lop3,
    "prmt": _prmt,
    "bfe": _bfe,
    "bfi": _bfi,
    **dict.fromkeys(("setp", "setp.bool", "setp.both", "setp.bool.both"), _setp),
    "selp": _selp,
}
