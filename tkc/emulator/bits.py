"""Bit counting, carries, small dot products, and the rarer arithmetic (PTX 9.7.1, 9.7.2, 9.7.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tkc.emulator.arith import integer, mul_high
from tkc.emulator.elementwise import DType, binary, halves, ternary, unary
from tkc.emulator.float import finish
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import (
    BOOLS,
    DTYPE,
    F16,
    F32,
    F64,
    FULL,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    UNSIGNED,
    Vec,
    mask_of,
    view,
)
from tkc.emulator.logic import comparison
from tkc.emulator.rounding import bf16_to_f32, flush, fma32, narrow, odd_sum


def _bit_table(x: Vec) -> Vec:
    """(32, bits) booleans, bit 0 first."""
    raw = np.ascontiguousarray(x)
    return np.unpackbits(raw.view(U8).reshape(len(x), -1), axis=1, bitorder="little")


def _highest(x: Vec) -> Vec:
    """The place of the highest bit that is set, -1 where none is."""
    table = _bit_table(x)[:, ::-1]
    found = table.shape[1] - 1 - table.argmax(axis=1)
    return np.where(x == 0, -1, found)


def _count(fn: Callable[[Vec], Vec]) -> Builder:
    def build(i: Instruction) -> Step:
        dtype = DTYPE[i.type]
        return unary(i, lambda x: fn(x).astype(U32), dtype, U32)

    return build


def _clz(x: Vec) -> Vec:
    return 8 * x.dtype.itemsize - 1 - _highest(x)


def _bfind(i: Instruction) -> Step:
    dtype, bits = integer(i.type)
    shift = i.has("shiftamt")

    def run(x: Vec) -> Vec:
        if dtype.kind == "i":
            x = np.where(x < 0, ~x, x)
        found = _highest(x.view(UNSIGNED[bits]))
        if shift:
            found = np.where(found < 0, found, bits - 1 - found)
        return found.astype(S32).view(U32)

    return unary(i, run, dtype, U32)


def _brev(i: Instruction) -> Step:
    dtype = DTYPE[i.type]

    def run(x: Vec) -> Vec:
        table = np.ascontiguousarray(_bit_table(x)[:, ::-1])
        return np.packbits(table, axis=1, bitorder="little").view(dtype)[:, 0]

    return unary(i, run, dtype)


def _fns(i: Instruction) -> Step:
    """The place of the n-th set bit from bit `base` on, upwards for positive n, downwards for negative ones."""

    def run(mask: Vec, base: Vec, offset: Vec) -> Vec:
        found = np.full(len(mask), 0xFFFFFFFF, U32)
        for k, (m, b, n) in enumerate(
            zip(mask.tolist(), base.tolist(), offset.view(S32).tolist(), strict=True)
        ):
            if n == 0:
                if m >> b & 1:
                    found[k] = b
                continue
            places = [p for p in range(32) if m >> p & 1 and (p >= b if n > 0 else p <= b)]
            if n < 0:
                places.reverse()
            if abs(n) <= len(places):
                found[k] = places[abs(n) - 1]
        return found

    return ternary(i, run, U32, names=("mask", "base", "offset"))


def _bmsk(i: Instruction) -> Step:
    clamp = i.mod("mode") == "clamp"

    def run(start: Vec, width: Vec) -> Vec:
        low, count = start.astype(U64), width.astype(U64)
        if clamp:
            low, count = np.minimum(low, 32), np.minimum(count, 32)
        else:
            low, count = low & np.uint64(31), count & np.uint64(31)
        ones = (np.uint64(1) << count) - np.uint64(1)
        return (ones << low).astype(U32)

    return binary(i, run, U32)


def _szext(i: Instruction) -> Step:
    clamp, signed = i.mod("mode") == "clamp", i.type == "s32"

    def run(x: Vec, bits: Vec) -> Vec:
        n = (
            np.minimum(bits, 32).astype(np.int64)
            if clamp
            else (bits & np.uint32(31)).astype(np.int64)
        )
        low = x.astype(np.int64) & ((1 << n) - 1)
        if signed:
            sign = np.where(n > 0, low >> np.maximum(n - 1, 0) & 1, 0)
            low = low - (sign << n)
        return low.astype(S64).astype(U32)

    return binary(i, run, U32)


def _cnot(i: Instruction) -> Step:
    dtype = DTYPE[i.type]
    return unary(i, lambda x: (x == 0).astype(dtype), dtype)


def _lop3_bool(i: Instruction) -> Step:
    from tkc.emulator.logic import lop3_function

    fn = lop3_function(i.immediate("table"))
    joins_or = i.mod("op") == "or"
    p = i.dst("p", 1)
    inner = ternary(i, fn, U32)
    q, negated = i.predicate("q")
    names = [i.src(n, U32) for n in ("a", "b", "c")]

    def run(w: Any) -> None:
        values = [view(w.R[s], U32) for s in names]
        result = mask_of(fn(*values) != 0)
        other = w.R[q] ^ FULL if negated else w.R[q]
        inner(w)
        w.put_predicate(p, result | other if joins_or else result & other)

    return run


def _sad(i: Instruction) -> Step:
    dtype, bits = integer(i.type)

    def run(a: Vec, b: Vec, c: Vec) -> Vec:
        far = np.where(
            a < b,
            b.view(UNSIGNED[bits]) - a.view(UNSIGNED[bits]),
            a.view(UNSIGNED[bits]) - b.view(UNSIGNED[bits]),
        )
        return (c.view(UNSIGNED[bits]) + far).view(dtype)

    return ternary(i, run, dtype)


def _mul24(adds: bool) -> Builder:
    def build(i: Instruction) -> Step:
        dtype, _ = integer(i.type)
        high = i.mod("part") == "hi"
        wide = S64 if dtype.kind == "i" else U64

        def low24(x: Vec) -> Vec:
            if dtype.kind == "i":
                return ((x << np.int32(8)) >> np.int32(8)).astype(wide)
            return (x & np.uint32(0xFFFFFF)).astype(wide)

        def product(a: Vec, b: Vec) -> Vec:
            full = low24(a) * low24(b)
            return (full >> wide.type(16) if high else full).astype(dtype)

        if adds:
            return ternary(i, lambda a, b, c: product(a, b) + c, dtype)
        return binary(i, product, dtype)

    return build


def _dot_bytes(i: Instruction) -> Step:
    a_type, b_type = i.mod("atype"), i.mod("btype")
    two = i.row.name == "dp2a"
    first = 0 if i.mod("part") != "hi" else 2

    def run(a: Vec, b: Vec, c: Vec) -> Vec:
        second = halves(b, S8 if b_type == "s32" else U8).reshape(-1, 4).astype(S32)
        if two:
            x = halves(a, S16 if a_type == "s32" else U16).reshape(-1, 2).astype(S32)
            second = second[:, first : first + 2]
        else:
            x = halves(a, S8 if a_type == "s32" else U8).reshape(-1, 4).astype(S32)
        return (x * second).sum(axis=1, dtype=S32).view(U32) + c

    return ternary(i, run, U32)


# Carries: a flag of each thread that only these instructions see


def _carry(i: Instruction, operation: str) -> Step:
    """add, sub and mad (lo or hi) that read the carry flag (names with c), set it (`.cc`), or both."""
    _, bits = integer(i.type)
    dtype = UNSIGNED[bits]
    reads = i.row.name in ("addc", "subc", "madc")
    sets = i.has("cc") or ".cc" in i.row.name
    part = i.mod("part")
    d, a, b = i.dst("d", bits), i.src("a", dtype), i.src("b", dtype)
    c = i.src("c", dtype) if operation == "mad" else -1
    signed_type, _ = integer(i.type)
    high = mul_high(signed_type, bits)

    def run(w: Any) -> None:
        R = w.R
        x, y = view(R[a], dtype), view(R[b], dtype)
        if operation == "mad":
            x = (
                x * y
                if part == "lo"
                else high(view(R[a], signed_type), view(R[b], signed_type)).view(dtype)
            )
            y = view(R[c], dtype)
        before = BOOLS[w.groups.get("carry", 0)].astype(dtype) if reads else dtype.type(0)
        if operation == "sub":
            first = x - y
            result = first - before
            out = (x < y) | (first < before)
        else:
            first = x + y
            result = first + before
            out = (first < x) | (result < first)
        w.put(d, result)
        if sets:
            old = w.groups.get("carry", 0)
            w.groups["carry"] = (old & ~w.mask) | (mask_of(out) & w.mask)

    return run


def _slct(i: Instruction) -> Step:
    dtype = DTYPE[i.type]
    floating = i.mod("ctype") == "f32"
    ftz = i.has("ftz")

    def run(a: Vec, b: Vec, c: Vec) -> Vec:
        chooser = flush(c) if ftz else c
        return np.where(chooser >= 0, a, b)

    return ternary(i, run, dtype, c_dtype=F32 if floating else S32)


def _compare_type(kind: str) -> tuple[DType, bool, Callable[[Vec], Vec] | None]:
    """(dtype of the registers, whether floats are compared, what makes a register comparable)."""
    if kind == "bf16":
        return U16, True, bf16_to_f32
    if kind in ("f16x2", "bf16x2"):
        if kind == "f16x2":
            return U32, True, lambda x: halves(x, F16)
        return U32, True, lambda x: bf16_to_f32(halves(x, U16))
    dtype = DTYPE[kind]
    return dtype, dtype.kind == "f", None


def _set(i: Instruction) -> Step:
    kind, to = i.mod("from"), i.type
    dtype, floating, prepare = _compare_type(kind)
    fn = comparison(i.mod("compare"), floating)
    ftz = i.has("ftz") and kind == "f32"
    bits = 32 if to.endswith("x2") else int("".join(c for c in to if c.isdigit()))
    packed = kind.endswith("x2")
    ones = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C00, "bf16x2": 0x3F80}
    one = ones.get(to, 0xFFFF if packed or bits == 16 else 0xFFFFFFFF)
    out = U32 if bits == 32 else U16

    def run(x: Vec, y: Vec) -> Vec:
        if prepare is not None:
            x, y = prepare(x), prepare(y)
        if ftz:
            x, y = flush(x), flush(y)
        holds = fn(x, y)
        if packed:
            return np.where(holds, np.uint16(one), np.uint16(0)).view(U32)
        return np.where(holds, out.type(one), out.type(0))

    return binary(i, run, dtype, out)


def _setp_pair(i: Instruction) -> Step:
    """setp on packed halves: p for the lower ones, q for the upper ones."""
    dtype, _, prepare = _compare_type(i.type)
    assert prepare is not None
    fn = comparison(i.mod("compare"), True)
    p, q = i.dst("p", 1), i.dst("q", 1)
    a, b = i.src("a", dtype), i.src("b", dtype)
    join = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}.get(i.mod("bool"))
    c, negated = i.predicate("c") if join is not None else (-1, False)

    def run(w: Any) -> None:
        holds = fn(prepare(view(w.R[a], dtype)), prepare(view(w.R[b], dtype))).reshape(-1, 2)
        for slot, part in ((p, 0), (q, 1)):
            result = mask_of(np.ascontiguousarray(holds[:, part]))
            if join is not None:
                third = w.R[c] ^ FULL if negated else w.R[c]
                result = join(result, third)
            w.put_predicate(slot, result)

    return run


def _copysign(i: Instruction) -> Step:
    dtype = DTYPE[i.type]
    return binary(i, lambda a, b: np.copysign(b, a), dtype)


def _testp(i: Instruction) -> Step:
    what, dtype = i.mod("what"), DTYPE[i.type]
    p, a = i.dst("p", 1), i.src("a", dtype)
    tiny = np.finfo(dtype).tiny
    tests: dict[str, Callable[[Vec], Vec]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        # Zero counts as normal.
        "normal": lambda x: np.isfinite(x) & ((np.abs(x) >= tiny) | (x == 0)),
        "subnormal": lambda x: (np.abs(x) < tiny) & (x != 0),
    }
    fn = tests[what]
    return lambda w: w.put_predicate(p, mask_of(fn(view(w.R[a], dtype))))


# Operands of two widths


def _half_reader(kind: str) -> tuple[DType, Callable[[Vec], Vec]]:
    if kind.startswith("bf16"):
        return U16, bf16_to_f32
    return F16, lambda x: x.astype(F32)


def _mixed_sum(subtract: bool) -> Builder:
    def build(i: Instruction) -> Step:
        dtype, widen = _half_reader(i.mod("from"))
        mode = i.mod("round", "rn")
        d, a, c = i.dst("d", 32), i.src("a", dtype), i.src("c", F32)

        def total(x: Vec, y: Vec) -> Vec:
            y = -y if subtract else y
            return (
                x + y if mode == "rn" else narrow(odd_sum(x.astype(F64), y.astype(F64)), F32, mode)
            )

        fn = finish(i, total, False)
        return lambda w: w.put(d, fn(widen(view(w.R[a], dtype)), view(w.R[c], F32)))

    return build


def _mixed_fma(i: Instruction) -> Step:
    dtype, widen = _half_reader(i.mod("from"))
    fn = finish(i, fma32(i.mod("round", "rn")), False)
    d, a, b, c = i.dst("d", 32), i.src("a", dtype), i.src("b", dtype), i.src("c", F32)
    return lambda w: w.put(
        d, fn(widen(view(w.R[a], dtype)), widen(view(w.R[b], dtype)), view(w.R[c], F32))
    )


def _pair_with_halves(i: Instruction) -> Step:
    """f32x2 arithmetic whose first operand is a pair of halves."""
    dtype, widen = _half_reader(i.mod("from"))
    d, a, b = i.dst("d", 64), i.src("a", U32), i.src("b", U64)
    c = i.src("c", U64) if i.given("c") else -1
    multiply = fma32("rn")

    def run(w: Any) -> None:
        R = w.R
        x = widen(halves(view(R[a], U32), dtype))
        y = halves(view(R[b], U64), F32)
        if c < 0:
            w.put(d, (x + y).view(U64))
        else:
            w.put(d, multiply(x, y, halves(view(R[c], U64), F32)).view(U64))

    return run


def _add_bytes(i: Instruction) -> Step:
    return binary(i, lambda x, y: (halves(x, U8) + halves(y, U8)).view(U32), U32)


SEMANTICS: dict[str, Builder] = {
    "popc": _count(lambda x: _bit_table(x).sum(axis=1)),
    "clz": _count(_clz),
    "bfind": _bfind,
    "fns": _fns,
    "brev": _brev,
    "bmsk": _bmsk,
    "szext": _szext,
    "cnot": _cnot,
    "lop3.bool": _lop3_bool,
    "sad": _sad,
    "mul24": _mul24(False),
    "mad24": _mul24(True),
    "dp4a": _dot_bytes,
    "dp2a": _dot_bytes,
    "add.cc": lambda i: _carry(i, "add"),
    "sub.cc": lambda i: _carry(i, "sub"),
    "addc": lambda i: _carry(i, "add"),
    "subc": lambda i: _carry(i, "sub"),
    "mad.cc": lambda i: _carry(i, "mad"),
    "madc": lambda i: _carry(i, "mad"),
    "slct": _slct,
    "set": _set,
    "set.x2": _set,
    "setp.x2": _setp_pair,
    "setp.bool.x2": _setp_pair,
    "copysign": _copysign,
    "testp": _testp,
    "add.mixed": _mixed_sum(False),
    "sub.mixed": _mixed_sum(True),
    "fma.mixed": _mixed_fma,
    "add.u8x4": _add_bytes,
    "add.f32x2.half": _pair_with_halves,
    "fma.f32x2.half": _pair_with_halves,
}
