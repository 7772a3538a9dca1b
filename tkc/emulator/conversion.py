"""Conversions: `cvt` between integers, floats and packed narrow formats (PTX 9.7.9.22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tkc.emulator.elementwise import DType
from tkc.emulator.follow import extended
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
from tkc.emulator.rounding import (
    bf16_to_f32,
    canonical,
    exact64,
    f32_to_bf16,
    flush,
    narrow,
    narrow_odd,
    odd_sum,
    rectify,
    saturate,
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


def _float_to_int(mode: str, source: str, dtype: DType) -> Callable[[Vec], Vec]:
    integral = _TO_INTEGRAL[mode]
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    # The largest float64 that is not above the range, where the range's end is none.
    top = float(high) if high < 1 << 53 else np.nextafter(float(high), 0.0)
    # NaN becomes 0 on the short path, and the top bit alone on the long one.
    long = source == "f64" or dtype.itemsize == 8
    nan_bits = 1 << (8 * dtype.itemsize - 1) if long else 0
    nan_value = np.array([nan_bits], UNSIGNED[8 * dtype.itemsize]).view(dtype)[0]

    def run(x: Vec) -> Vec:
        wide = integral(x.astype(F64))
        nan = np.isnan(wide)
        over = wide >= float(high)
        clipped = np.clip(np.where(nan, 0.0, wide), float(low), top)
        result = clipped.astype(S64).astype(dtype) if dtype is not U64 else clipped.astype(U64)
        result = np.where(over, dtype.type(high), result)
        return np.where(nan, nan_value, result)

    return run


def _int_to_float(kind: str, mode: str) -> Callable[[Vec], Vec]:
    def run(x: Vec) -> Vec:
        if mode == "rn":
            if kind == "f64":
                return x.astype(F64)
            if kind == "f32":
                return x.astype(F32)
        # Split so that both parts are exact, and rounded to odd when they are joined.
        if x.dtype.itemsize < 8:
            exact = x.astype(F64)
        else:
            low = x & x.dtype.type(0xFFFF)
            high = (x - low).astype(F64)
            if kind == "f64":
                return exact64("add", mode)(high, low.astype(F64))
            exact = odd_sum(high, low.astype(F64))
        if kind == "f64":
            return exact
        if kind == "bf16":
            odd = narrow_odd(exact)
            return f32_to_bf16(odd) if mode == "rn" else _directed_bf16(odd, mode)
        return narrow(exact, _FLOATS[kind], mode)

    return run


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
        x = rectify(x)
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


def _double_to_half(x: Vec, kind: str, mode: str) -> Vec:
    """Float64 to bits of f16 or bf16, rounded once; a NaN keeps its sign and the top of its payload."""
    if kind == "f16":
        result = narrow(x, F16, mode).view(U16)
        quiet, shift = 0x7E00, 42
    else:
        odd = narrow_odd(x)
        result = f32_to_bf16(odd) if mode == "rn" else _directed_bf16(odd, mode)
        quiet, shift = 0x7FC0, 45
    nan = np.isnan(x)
    if not nan.any():
        return result
    bits = x.view(U64)
    payload = (bits & np.uint64((1 << 52) - 1)) >> np.uint64(shift)
    kept = ((bits >> np.uint64(48)) & np.uint64(0x8000)) | payload | np.uint64(quiet)
    return np.where(nan, kept.astype(U16), result)


def _float_to_float(i: Instruction, to: str, source: str) -> Callable[[Vec], Vec]:
    mode = i.mod("round")
    rounding = mode if mode in ("rz", "rm", "rp") else "rn"
    ftz, sat, relu = i.has("ftz"), i.has("sat"), i.has("relu")
    satfinite = i.has("satfinite")

    def to_half(value: Vec) -> Vec:
        if value.dtype is F64:
            bits = _double_to_half(value, to, rounding)
        else:
            bits = f32_to_half(value.astype(F32), to, rounding, satfinite, relu)
        if not sat:
            return bits
        again = bf16_to_f32(bits) if to == "bf16" else bits.view(F16).astype(F32)
        clipped = saturate(again)
        return f32_to_bf16(clipped) if to == "bf16" else clipped.astype(F16)

    def run(x: Vec) -> Vec:
        value = _to_float(x, source)
        if ftz and value.dtype is F32:
            value = canonical(flush(value))
        if mode in _TO_INTEGRAL:
            value = canonical(_TO_INTEGRAL[mode](value))
        if to in ("f16", "bf16"):
            return to_half(value)
        target = _FLOATS[to]
        if target.itemsize < value.dtype.itemsize:
            result = narrow(value, target, rounding)
        else:
            result = value.astype(target)
            if source == "f16":
                result = canonical(result)
        if ftz and target is F32:
            result = flush(result)
        return saturate(result) if sat else result

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
        inner = _float_to_int(mode, source, _int_dtype(to))
        ftz = i.has("ftz")

        def fn(x: Vec) -> Vec:
            value = _to_float(x, source)
            return inner(flush(value) if ftz and value.dtype is F32 else value)

    else:
        fn = _int_to_int(to, source, i.has("sat"))
    d, bits = i.dst_wide("d")
    a, _ = i.src_wide("a", source_dtype)
    if not _is_float(to) and not _is_float(source) and not i.has("sat"):
        narrow_bits = min(int(to[1:]), int(source[1:]))
        i.follow = extended(a, d, narrow_bits, source[0] == "s")

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


_TF32_NAN = np.array([0x7FFFE000], U32)


def to_tf32(x: Vec, mode: str) -> Vec:
    """Float32 to bits with 10 bits of mantissa; `rna` only cuts off what is no number."""
    bits = x.view(U32)
    low = np.uint32(0x1FFF)
    special = (bits & np.uint32(0x7F800000)) == 0x7F800000
    if mode == "rna":
        return np.where(special, bits, bits + np.uint32(0x1000)) & ~low
    if mode == "rz":
        result = bits & ~low
    else:
        result = (bits + np.uint32(0x0FFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & ~low
    return np.where(special, np.where(np.isnan(x), _TF32_NAN, bits), result)


def _cvt_tf32(i: Instruction) -> Step:
    mode, relu, satfinite = i.mod("round"), i.has("relu"), i.has("satfinite")
    d, a = i.dst("d", 32), i.src("a", F32)

    def run(w: Any) -> None:
        x = view(w.R[a], F32)
        result = to_tf32(rectify(x) if relu else x, mode)
        if satfinite:
            # One step of tf32 below infinity, and below whatever has its exponent.
            special = (result & np.uint32(0x7F800000)) == 0x7F800000
            result = np.where(special, result - np.uint32(0x2000), result)
        w.put(d, result)

    return run


SEMANTICS: dict[str, Builder] = {
    "cvt": _cvt,
    "cvt.x2": _cvt_x2,
    "cvt.tf32": _cvt_tf32,
}
