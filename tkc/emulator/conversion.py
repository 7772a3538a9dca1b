"""Conversions: `cvt` between integers, floats and packed narrow formats (PTX 9.7.9.22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tkc.emulator.elementwise import DType
from tkc.emulator.float import bf16_to_f32, f32_to_bf16, flush, narrow
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import (
    F16,
    F32,
    F64,
    LANES,
    S64,
    SIGNED,
    U16,
    U32,
    U64,
    UNSIGNED,
    Vec,
    constant,
    view,
)

_FLOATS = {"f16": F16, "f32": F32, "f64": F64, "bf16": U16}
_TO_INTEGRAL: dict[str, Callable[[Vec], Vec]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


def _is_float(kind: str) -> bool:
    return kind in _FLOATS


def _int_dtype(kind: str) -> DType:
    return (SIGNED if kind[0] == "s" else UNSIGNED)[int(kind[1:])]


def _low(x: Vec, dtype: DType) -> Vec:
    """The low bits of a register that may be wider than the type."""
    if x.dtype.itemsize == dtype.itemsize:
        return x if x.dtype is dtype else x.view(dtype)
    return x.view(UNSIGNED[8 * x.dtype.itemsize]).astype(UNSIGNED[8 * dtype.itemsize]).view(dtype)


def widen(x: Vec, bits: int) -> Vec:
    """A value in a register that is wider than its type: integers extend by their sign."""
    if 8 * x.dtype.itemsize == bits:
        return x
    return x.astype((SIGNED if x.dtype.kind == "i" else UNSIGNED)[bits])


def _to_float(x: Vec, kind: str) -> Vec:
    """A register as float values: bf16 becomes float32."""
    return bf16_to_f32(x) if kind == "bf16" else view(x, _FLOATS[kind])


def _float_to_int(mode: str, dtype: DType) -> Callable[[Vec], Vec]:
    integral = _TO_INTEGRAL[mode]
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    # The largest float64 that is not above the range, where the range's end is none.
    top = float(high) if high < 1 << 53 else np.nextafter(float(high), 0.0)

    def run(x: Vec) -> Vec:
        wide = integral(x.astype(F64))
        over = wide >= float(high)
        clipped = np.clip(np.where(np.isnan(wide), 0.0, wide), float(low), top)
        result = clipped.astype(S64).astype(dtype) if dtype is not U64 else clipped.astype(U64)
        return np.where(over, dtype.type(high), result)

    return run


def _int_to_float(kind: str, mode: str) -> Callable[[Vec], Vec]:
    def run(x: Vec) -> Vec:
        if mode == "rn":
            if kind == "f64":
                return x.astype(F64)
            if kind == "f32":
                return x.astype(F32)
        # Split so that both parts are exact, and rounded to odd when they are joined.
        from tkc.emulator.float import odd_sum

        if x.dtype.itemsize < 8:
            exact = x.astype(F64)
        else:
            low = x & x.dtype.type(0xFFFF)
            exact = odd_sum((x - low).astype(F64), low.astype(F64))
        if kind == "f64":
            raise ValueError(f"rounding .{mode} of an integer to .f64 is not covered")
        if kind == "bf16":
            return f32_to_bf16(narrow_odd(exact))
        return narrow(exact, _FLOATS[kind], mode)

    return run


def narrow_odd(x: Vec) -> Vec:
    """Float64 to float32, rounded to odd."""
    r = narrow(x, F32, "rz")
    inexact = (r.astype(F64) != x) & np.isfinite(r)
    return np.where(inexact, r.view(U32) | np.uint32(1), r.view(U32)).view(F32)


def _directed_bf16(x: Vec, mode: str) -> Vec:
    bits = x.view(U32)
    low = bits & np.uint32(0xFFFF)
    cut = bits - low
    up = (low != 0) & (((x > 0) & (mode == "rp")) | ((x < 0) & (mode == "rm")))
    result = (np.where(up & np.isfinite(x), cut + np.uint32(0x10000), cut) >> np.uint32(16)).astype(
        U16
    )
    return np.where(np.isnan(x), np.uint16(0x7FFF), result)


def f32_to_half(x: Vec, kind: str, mode: str, satfinite: bool, relu: bool) -> Vec:
    """Float32 to bits of f16 or bf16 in a mode; NaN becomes 0x7fff."""
    if relu:
        x = np.where(x < 0, F32.type(0), np.where(x == 0, F32.type(0), x))
    if kind == "f16":
        result = (x.astype(F16) if mode == "rn" else narrow(x.astype(F64), F16, mode)).view(U16)
        result = np.where(np.isnan(x), np.uint16(0x7FFF), result)
        infinity, largest = 0x7C00, 0x7BFF
    else:
        result = f32_to_bf16(x) if mode == "rn" else _directed_bf16(x, mode)
        infinity, largest = 0x7F80, 0x7F7F
    if satfinite:
        over = result & np.uint16(0x7FFF) == infinity
        result = np.where(over, (result & np.uint16(0x8000)) | np.uint16(largest), result)
    return result


def _float_to_float(i: Instruction, to: str, source: str) -> Callable[[Vec], Vec]:
    mode = i.mod("round")
    ftz, sat, relu = i.has("ftz"), i.has("sat"), i.has("relu")
    satfinite = i.has("satfinite")

    def run(x: Vec) -> Vec:
        value = _to_float(x, source)
        if ftz and value.dtype is F32:
            value = flush(value)
        if mode in _TO_INTEGRAL:
            value = _TO_INTEGRAL[mode](value)
        if to in ("f16", "bf16"):
            if value.dtype is F64:
                value = narrow_odd(value) if mode != "rz" else narrow(value, F32, "rz")
            bits = f32_to_half(
                value.astype(F32), to, mode if mode in ("rz", "rm", "rp") else "rn", satfinite, relu
            )
            if not sat:
                return bits
            again = bf16_to_f32(bits) if to == "bf16" else bits.view(F16).astype(F32)
            clipped = np.where(np.isnan(again), F32.type(0), np.clip(again, 0, 1)).astype(F32)
            return f32_to_bf16(clipped) if to == "bf16" else clipped.astype(F16)
        target = _FLOATS[to]
        if target.itemsize < value.dtype.itemsize:
            result = narrow(value, target, mode or "rn")
        else:
            result = value.astype(target)
        if ftz and target is F32:
            result = flush(result)
        if sat:
            result = np.where(np.isnan(result), target.type(0), np.clip(result, 0, 1)).astype(
                target
            )
        return result

    return run


def _int_to_int(to: str, source: str, sat: bool) -> Callable[[Vec], Vec]:
    dtype = _int_dtype(to)
    if not sat:
        return lambda x: x.astype(dtype)
    info = np.iinfo(dtype)

    def run(x: Vec) -> Vec:
        low = max(int(info.min), int(np.iinfo(x.dtype).min))
        high = min(int(info.max), int(np.iinfo(x.dtype).max))
        return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(dtype)

    return run


def _cvt(i: Instruction) -> Step:
    to, source = i.type, i.mod("from")
    source_dtype = _FLOATS[source] if _is_float(source) else _int_dtype(source)
    mode = i.mod("round")
    fn: Callable[[Vec], Vec]
    if _is_float(to) and _is_float(source):
        fn = _float_to_float(i, to, source)
    elif _is_float(to):
        fn = _int_to_float(to, mode or "rn")
    elif _is_float(source):
        inner = _float_to_int(mode, _int_dtype(to))
        ftz = i.has("ftz")

        def fn(x: Vec) -> Vec:
            value = _to_float(x, source)
            return inner(flush(value) if ftz and value.dtype is F32 else value)

    else:
        fn = _int_to_int(to, source, i.has("sat"))
    d, bits = i.dst_wide("d")
    a, _ = i.src_wide("a", source_dtype)

    def run(w: Any) -> None:
        x = w.R[a]
        if x.dtype is not source_dtype:
            x = _low(x, source_dtype)
        result = fn(x)
        if bits and 8 * result.dtype.itemsize != bits:
            result = widen(result, bits)
        if w.full:
            w.R[d] = result
        else:
            w.put(d, result)

    if d < 0:
        return lambda w: None
    return run


def _cvt_x2(i: Instruction) -> Step:
    kind = i.type.removesuffix("x2")
    mode, relu, satfinite = i.mod("round", "rn"), i.has("relu"), i.has("satfinite")
    d, hi, lo = i.dst("d", 32), i.src("hi", F32), i.src("lo", F32)
    shift = constant(16, U32)

    def run(w: Any) -> None:
        R = w.R
        high, low = view(R[hi], F32), view(R[lo], F32)
        if kind == "bf16" and mode == "rn" and not relu and not satfinite:
            # The usual case of an epilogue, on both halves at once.
            both = f32_to_bf16(np.concatenate((low, high))).astype(U32)
            w.put(d, both[LANES:] << shift | both[:LANES])
            return
        top = f32_to_half(high, kind, mode, satfinite, relu).astype(U32)
        w.put(d, top << shift | f32_to_half(low, kind, mode, satfinite, relu))

    return run


def to_tf32(x: Vec, mode: str) -> Vec:
    """Float32 rounded to 10 bits of mantissa."""
    bits = x.view(U32)
    low = np.uint32(0x1FFF)
    if mode == "rz":
        result = bits & ~low
    elif mode == "rna":
        result = (bits + np.uint32(0x1000)) & ~low
    else:
        result = (bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & ~low
    special = (bits & np.uint32(0x7F800000)) == 0x7F800000
    return np.where(special, np.where(np.isnan(x), np.uint32(0x7FFFFFFF), bits), result).view(F32)


def _cvt_tf32(i: Instruction) -> Step:
    mode, relu, satfinite = i.mod("round"), i.has("relu"), i.has("satfinite")
    d, a = i.dst("d", 32), i.src("a", F32)

    def run(w: Any) -> None:
        x = view(w.R[a], F32)
        result = to_tf32(x, mode)
        if relu:
            result = np.where(result < 0, F32.type(0), result)
        if satfinite:
            largest = np.uint32(0x7F7FE000).view(F32)
            result = np.where(np.isinf(result), np.copysign(largest, result), result)
        w.put(d, result)

    return run


SEMANTICS: dict[str, Builder] = {
    "cvt": _cvt,
    "cvt.x2": _cvt_x2,
    "cvt.tf32": _cvt_tf32,
}
