"""Floating-point arithmetic (PTX 9.7.3 - 9.7.4): every operation rounds once, in the mode that it says.

Approximate functions are computed by the host, in float64 where its own are no better, which is inside of every
documented error; they do not give the hardware's very bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tkc.emulator.elementwise import DType, binary, halves, ternary, unary
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import F16, F32, F64, U16, U32, U64, Vec
from tkc.emulator.rounding import (
    NAN32,
    bf16_fma,
    bf16_to_f32,
    canonical,
    directed32,
    exact64,
    f16_fma,
    f16_fma_flushed,
    f32_to_bf16,
    flush,
    fma32,
    fma64,
    narrow,
    quotient32,
    rectify,
    root32,
    saturate,
    to_f16_flushed,
)

_PLAIN = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def finish(i: Instruction, fn: Callable[..., Vec], ftz: bool) -> Callable[..., Vec]:
    """Adds what `.ftz`, `.sat` and `.relu` say, and makes NaNs the hardware's."""
    if ftz:
        inner = fn
        plain: Callable[..., Vec] = lambda *v: canonical(flush(inner(*(flush(x) for x in v))))  # noqa: E731
    else:
        plain = lambda *v: canonical(fn(*v))  # noqa: E731
    if i.has("sat"):
        return lambda *v: saturate(plain(*v))
    if i.has("relu"):
        return lambda *v: rectify(plain(*v))
    return plain


def packed(kind: str, fn: Callable[..., Vec]) -> tuple[DType, Callable[..., Vec]]:
    """(dtype of the registers, function on them) for a function on the values; bf16 values are float32."""
    if kind == "f32":
        return F32, fn
    if kind == "f64":
        return F64, fn
    if kind == "f16":
        return F16, fn
    if kind == "bf16":
        return U16, lambda *v: f32_to_bf16(fn(*(bf16_to_f32(x) for x in v)))
    if kind == "f16x2":
        return U32, lambda *v: fn(*(halves(x, F16) for x in v)).view(U32)
    if kind == "bf16x2":
        return U32, lambda *v: f32_to_bf16(fn(*(bf16_to_f32(halves(x, U16)) for x in v))).view(U32)
    if kind == "f32x2":
        return U64, lambda *v: fn(*(halves(x, F32) for x in v)).view(U64)
    raise ValueError(f"type .{kind} is not covered")


def _base(kind: str) -> str:
    return kind.removesuffix("x2")


def _flushes(i: Instruction, kind: str) -> bool:
    """Whether subnormal numbers are flushed: bf16 has the range of f32 and takes no `.ftz`, but ex2."""
    return i.has("ftz") and _base(kind) in ("f32", "f16")


def _flushed_half(plain: Callable[..., Vec]) -> Callable[..., Vec]:
    """An operation on f16 that flushes what is subnormal before it is rounded."""
    return lambda x, y: to_f16_flushed(plain(x.astype(F32), y.astype(F32)))


def _rough_quotient(x: Vec, y: Vec) -> Vec:
    """div.approx: a divisor from 2^126 on gives 0, and NaN with an infinite dividend."""
    q = x / y
    large = (np.abs(y) > np.float32(2.0**126)) & np.isfinite(y)
    if not np.count_nonzero(large):
        return q
    return np.where(large, np.where(np.isinf(x), NAN32, np.copysign(np.float32(0), q)), q)


def _arith(name: str) -> Builder:
    def build(i: Instruction) -> Step:
        kind = i.type
        mode = i.mod("round", "rn")
        fn: Callable[..., Vec]
        if _base(kind) == "f16" and i.has("ftz"):
            fn = _flushed_half(_PLAIN[name])
        elif mode == "approx":
            fn = _rough_quotient
        elif mode in ("full", "rn"):
            fn = _PLAIN[name]
        elif _base(kind) == "f32":
            fn = directed32(name, mode, i.has("ftz"))
        elif kind == "f64":
            fn = exact64(name, mode)
        else:
            raise ValueError(f"rounding .{mode} of .{kind} is not covered")
        dtype, whole = packed(kind, finish(i, fn, _flushes(i, kind)))
        return binary(i, whole, dtype)

    return build


add, subtract, multiply, divide = (_arith(n) for n in ("add", "sub", "mul", "div"))


def _fma(i: Instruction) -> Step:
    kind, mode = i.type, i.mod("round", "rn")
    base = _base(kind)
    fn: Callable[..., Vec]
    if base == "f32":
        fn = fma32(mode)
    elif kind == "f64" and mode != "rn":
        fn = exact64("fma", mode)
    elif mode != "rn":
        raise ValueError(f"rounding .{mode} of .{kind} is not covered")
    else:
        half = f16_fma_flushed if i.has("ftz") else f16_fma
        fn = {"f64": fma64, "f16": half, "bf16": bf16_fma}[base]
    dtype, whole = packed(kind, finish(i, fn, _flushes(i, kind)))
    return ternary(i, whole, dtype)


def _sign(negate: bool) -> Builder:
    def build(i: Instruction) -> Step:
        kind = i.type
        fn: Callable[[Vec], Vec] = np.negative if negate else np.abs
        if kind in ("f32", "f64"):
            dtype = F32 if kind == "f32" else F64
            return unary(i, (lambda x: fn(flush(x))) if i.has("ftz") else fn, dtype)
        dtype, whole = packed(kind, lambda x: canonical(fn(flush(x) if i.has("ftz") else x)))
        return unary(i, whole, dtype)

    return build


absolute, negate = _sign(False), _sign(True)


def _extreme(larger: bool, keeps_nan: bool, xorsign: bool) -> Callable[..., Vec]:
    fn = (np.maximum if larger else np.minimum) if keeps_nan else (np.fmax if larger else np.fmin)

    def run(*v: Vec) -> Vec:
        values = [np.abs(x) for x in v] if xorsign else list(v)
        result = fn(values[0], values[1])
        # -0 is smaller than +0.
        zero = (values[0] == 0) & (values[1] == 0)
        if np.count_nonzero(zero):
            joined = values[0] + values[1] if larger else -(-values[0] - values[1])
            result = np.where(zero, joined, result)
        for more in values[2:]:
            result = fn(result, more)
        if xorsign:
            negative = np.signbit(v[0]) ^ np.signbit(v[1])
            result = np.where(negative, -result, result)
        return result

    return run


def _minmax(larger: bool) -> Builder:
    def build(i: Instruction) -> Step:
        fn = _extreme(larger, i.has("nan"), i.has("xorsign"))
        kind = i.type if "type" in i.modifiers else "f32"
        dtype, whole = packed(kind, finish(i, fn, _flushes(i, kind)))
        if i.given("c"):
            return ternary(i, whole, dtype)
        return binary(i, whole, dtype)

    return build


minimum, maximum = _minmax(False), _minmax(True)


def _wide(fn: Callable[[Vec], Vec]) -> Callable[[Vec], Vec]:
    """A function computed in float64 and rounded to the type of its argument."""
    return lambda x: fn(x.astype(F64)).astype(x.dtype)


_TURN = np.float32(0.15915494)
_PHASE_STEP = 2.0**25


def _phase(x: Vec) -> Vec:
    """How many turns an angle is, less whole ones: a product of f32 that is cut off, to 25 bits behind the point."""
    turns = narrow(x.astype(F64) * float(_TURN), F32, "rz").astype(F64)
    return np.fmod(np.trunc(turns * _PHASE_STEP) / _PHASE_STEP, 1.0)


def _sine(x: Vec) -> Vec:
    """The sine as the hardware rounds its argument; where it crosses zero downwards it is -0."""
    phase = _phase(x)
    result = np.sin(2 * np.pi * phase)
    half = np.abs(phase) == 0.5
    result = np.where(half | (phase == 0), np.copysign(0.0, np.where(half, -phase, x)), result)
    return result.astype(F32)


def _cosine(x: Vec) -> Vec:
    """The cosine as the hardware rounds its argument; where it crosses zero downwards it is -0."""
    phase = np.abs(_phase(x))
    result = np.cos(2 * np.pi * phase)
    result = np.where(phase == 0.25, -0.0, np.where(phase == 0.75, 0.0, result))
    return result.astype(F32)


def _exp2(x: Vec) -> Vec:
    """2 to the x; f16 results are cut off, but not to the largest number where they are too large."""
    wide = np.exp2(x.astype(F64))
    if x.dtype is not F16:
        return wide.astype(x.dtype)
    return narrow(np.where(wide > 65504, np.inf, wide), F16, "rz")


_FUNCTIONS: dict[str, Callable[[Vec], Vec]] = {
    "ex2": _exp2,
    "lg2": _wide(np.log2),
    "rcp": lambda x: x.dtype.type(1) / x,
    "rsqrt": _wide(lambda x: 1 / np.sqrt(x)),
    "sqrt": np.sqrt,
    "sin": _sine,
    "cos": _cosine,
    "tanh": np.tanh,
}


_HIGH_HALF = np.array([0xFFFFFFFF00000000], U64)
_EXPONENT64 = np.array([0x7FF0000000000000], U64)
_SIGN64 = np.array([0x8000000000000000], U64)
_ROUGH_NAN = np.array([0x7FFFFFFF00000000], U64).view(F64)


def _upper(x: Vec) -> Vec:
    """The upper half of float64 values, subnormal ones flushed."""
    bits = x.view(U64) & _HIGH_HALF
    return np.where(bits & _EXPONENT64 == 0, bits & _SIGN64, bits).view(F64)


def _upper_half(fn: Callable[[Vec], Vec]) -> Callable[[Vec], Vec]:
    """A rough function on float64: only the upper half of its argument counts, and of its result."""

    def run(x: Vec) -> Vec:
        r = _upper(fn(_upper(x)))
        return np.where(r != r, _ROUGH_NAN, r)

    return run


def _approx(name: str) -> Builder:
    def build(i: Instruction) -> Step:
        kind = i.type
        fn = _FUNCTIONS[name]
        if kind == "f64" and i.has("ftz"):
            fn = _upper_half(fn)
        ftz = i.has("ftz") and _base(kind) != "f64"
        dtype, whole = packed(kind, finish(i, fn, ftz))
        return unary(i, whole, dtype)

    return build


def _rounded(name: str) -> Builder:
    """sqrt and rcp with a rounding mode."""

    def build(i: Instruction) -> Step:
        kind, mode = i.type, i.mod("round", "rn")
        ftz = i.has("ftz")
        fn = _FUNCTIONS[name]
        if kind == "f64" and mode != "rn":
            fn = exact64(name, mode)
        elif mode != "rn" and name == "sqrt":
            fn = lambda x: root32(x, mode)  # noqa: E731
        elif mode != "rn":
            fn = lambda x: quotient32(np.ones(len(x), F32), x, mode, ftz)  # noqa: E731
        dtype, whole = packed(kind, finish(i, fn, i.has("ftz")))
        return unary(i, whole, dtype)

    return build


SEMANTICS: dict[str, Builder] = {
    "mul": multiply,
    "fma": _fma,
    "min3": minimum,
    "max3": maximum,
    **{f"{name}.approx": _approx(name) for name in _FUNCTIONS},
    "sqrt": _rounded("sqrt"),
    "rcp": _rounded("rcp"),
}
