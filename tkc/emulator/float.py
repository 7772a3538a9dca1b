"""Floating-point arithmetic (PTX 9.7.3 - 9.7.4): every operation rounds once, in the mode that it says.

f32 and f64 `.rn` are the host's own. Other modes and fused operations go through a float64 that is rounded to odd:
rounding that to the narrower format gives the correctly rounded result (Boldo and Melquiond). Approximate functions are
computed in float64 and rounded, which is inside of every documented error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tkc.emulator.elementwise import DType, binary, halves, ternary, unary
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import F16, F32, F64, LANES, S64, U16, U32, U64, Vec

_EXPONENT = np.array([0x7F800000], U32)
_SIGN = np.array([0x80000000], U32)
_SIXTEEN = np.array([16], U32)
_ONE = np.array([1], U32)
_BIAS = np.array([0x7FFF], U32)
_ONE64 = np.array([1], S64)
_LOW29 = np.array([0x1FFFFFFF], U64)
_TIE = np.array([0x10000000], U64)


def bf16_to_f32(x: Vec) -> Vec:
    """Bits of bf16 to float32, exactly."""
    if x.dtype is not U16:
        x = x.view(U16)
    return (x.astype(U32) << _SIXTEEN).view(F32)


def f32_to_bf16(x: Vec) -> Vec:
    """Float32 to bits of bf16, to nearest even; NaN becomes 0x7fff."""
    bits = x.view(U32)
    rounded = (bits + _BIAS + ((bits >> _SIXTEEN) & _ONE)) >> _SIXTEEN
    result = rounded.astype(U16)
    nan = x != x
    if np.count_nonzero(nan):
        result = np.where(nan, np.uint16(0x7FFF), result)
    return result


def flush(x: Vec) -> Vec:
    """Subnormal float32 values become zeros of their sign."""
    bits = x.view(U32)
    exponent = bits & _EXPONENT
    if np.count_nonzero(exponent) == x.size:
        return x
    return np.where(exponent == 0, bits & _SIGN, bits).view(F32)


def odd_sum(p: Vec, c: Vec) -> Vec:
    """p + c in float64, rounded to odd."""
    s = p + c
    b = s - p
    error = (p - (s - b)) + (c - b)
    inexact = (error != 0) & np.isfinite(s)
    if not inexact.any():
        return s
    bits = s.view(S64)
    even = (bits & _ONE64) == 0
    away = (error > 0) == (s > 0)
    step = np.where(away, _ONE64, -_ONE64)
    return np.where(inexact & even, bits + step, bits).view(F64)


def narrow(x: Vec, dtype: DType, mode: str) -> Vec:
    """Float64 (rounded to odd, or exact) to float32 or float16 in mode rn, rz, rm or rp."""
    nearest = x.astype(dtype)
    if mode == "rn":
        return nearest
    back = nearest.astype(F64)
    if mode == "rz":
        wrong = np.abs(back) > np.abs(x)
        toward = np.zeros_like(nearest)
    elif mode == "rm":
        wrong = back > x
        toward = np.full_like(nearest, -np.inf)
    else:
        wrong = back < x
        toward = np.full_like(nearest, np.inf)
    return np.where(wrong, np.nextafter(nearest, toward), nearest)


def _fma32(x: Vec, y: Vec, z: Vec) -> Vec:
    s = np.multiply(x, y, dtype=F64) + z
    r = s.astype(F32)
    # Rounding twice errs only where the first result lies on a tie, or the second has fewer bits than normal.
    if (
        np.count_nonzero((s.view(U64) & _LOW29) == _TIE)
        or np.count_nonzero(r.view(U32) & _EXPONENT) != r.size
    ):
        return odd_sum(np.multiply(x, y, dtype=F64), z.astype(F64)).astype(F32)
    return r


def fma32(mode: str) -> Callable[[Vec, Vec, Vec], Vec]:
    """x * y + z on float32, rounded once."""
    if mode == "rn":
        return _fma32
    return lambda x, y, z: narrow(odd_sum(np.multiply(x, y, dtype=F64), z.astype(F64)), F32, mode)


def _fma64(x: Vec, y: Vec, z: Vec) -> Vec:
    """x * y + z on float64, by exact fractions where the product is not exact."""
    p = x * y
    split = 134217729.0
    xh = x * split
    xh = xh - (xh - x)
    xl = x - xh
    yh = y * split
    yh = yh - (yh - y)
    yl = y - yh
    e = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl
    easy = (e == 0) | ~np.isfinite(p) | ~np.isfinite(z)
    s = p + z
    if easy.all():
        return s
    from fractions import Fraction

    result = s.copy()
    for k in np.flatnonzero(~easy):
        exact = Fraction(float(x[k])) * Fraction(float(y[k])) + Fraction(float(z[k]))
        result[k] = float(exact) if exact else 0.0
    return result


def f16_fma(x: Vec, y: Vec, z: Vec) -> Vec:
    return odd_sum(np.multiply(x, y, dtype=F64), z.astype(F64)).astype(F16)


def _odd_to_f32(x: Vec) -> Vec:
    """Float64 to float32 rounded to odd, so that it can be rounded again."""
    r = narrow(x, F32, "rz")
    inexact = r.astype(F64) != x
    return np.where(inexact & np.isfinite(r), r.view(U32) | _ONE, r.view(U32)).view(F32)


def bf16_fma(x: Vec, y: Vec, z: Vec) -> Vec:
    """On float32 values of bf16; the result is rounded to odd for the rounding to bf16 that follows."""
    return _odd_to_f32(odd_sum(np.multiply(x, y, dtype=F64), z.astype(F64)))


def _directed(name: str, mode: str) -> Callable[[Vec, Vec], Vec]:
    """An operation on float32 in a mode other than rn."""

    def run(x: Vec, y: Vec) -> Vec:
        a, b = x.astype(F64), y.astype(F64)
        if name == "add":
            exact = odd_sum(a, b)
        elif name == "sub":
            exact = odd_sum(a, -b)
        elif name == "mul":
            exact = a * b
        else:
            return _directed_quotient(x, y, mode)
        return narrow(exact, F32, mode)

    return run


def _directed_quotient(x: Vec, y: Vec, mode: str) -> Vec:
    q = x / y
    remainder = np.multiply(q, y, dtype=F64) - x
    # q * y is exact in float64, so the sign of the remainder says on which side of the quotient q lies.
    above = np.where(y > 0, remainder > 0, remainder < 0) & np.isfinite(q)
    below = np.where(y > 0, remainder < 0, remainder > 0) & np.isfinite(q)
    down = np.nextafter(q, np.float32(-np.inf))
    up = np.nextafter(q, np.float32(np.inf))
    if mode == "rm":
        return np.where(above, down, q)
    if mode == "rp":
        return np.where(below, up, q)
    return np.where(above & (q > 0), down, np.where(below & (q < 0), up, q))


_PLAIN = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


def finish(i: Instruction, fn: Callable[..., Vec], ftz: bool) -> Callable[..., Vec]:
    """Adds what `.ftz`, `.sat` and `.relu` say."""
    result = fn
    if ftz:
        inner = result
        result = lambda *v: flush(inner(*(flush(x) for x in v)))  # noqa: E731
    if i.has("sat"):
        before_sat = result

        def saturated(*v: Vec) -> Vec:
            r = before_sat(*v)
            return np.where(r != r, r.dtype.type(0), np.clip(r, r.dtype.type(0), r.dtype.type(1)))

        result = saturated
    if i.has("relu"):
        before_relu = result

        def rectified(*v: Vec) -> Vec:
            r = before_relu(*v)
            return np.where(r < 0, r.dtype.type(0), r)

        result = rectified
    return result


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


def _arith(name: str) -> Builder:
    def build(i: Instruction) -> Step:
        kind = i.type
        mode = i.mod("round", "rn")
        if mode in ("approx", "full", "rn"):
            fn: Callable[..., Vec] = _PLAIN[name]
        elif _base(kind) == "f32":
            fn = _directed(name, mode)
        else:
            raise ValueError(f"rounding .{mode} of .{kind} is not covered")
        dtype, whole = packed(kind, finish(i, fn, i.has("ftz") and _base(kind) == "f32"))
        return binary(i, whole, dtype)

    return build


add, subtract, multiply, divide = (_arith(n) for n in ("add", "sub", "mul", "div"))


def _fma(i: Instruction) -> Step:
    kind, mode = i.type, i.mod("round", "rn")
    base = _base(kind)
    fn: Callable[..., Vec]
    if base == "f32":
        fn = fma32(mode)
    elif mode != "rn":
        raise ValueError(f"rounding .{mode} of .{kind} is not covered")
    else:
        fn = {"f64": _fma64, "f16": f16_fma, "bf16": bf16_fma}[base]
    dtype, whole = packed(kind, finish(i, fn, i.has("ftz") and base == "f32"))
    return ternary(i, whole, dtype)


def absolute(i: Instruction) -> Step:
    dtype, fn = packed(i.type, np.abs)
    if _base(i.type) == "bf16":
        # On bits, so that a NaN keeps its payload.
        mask = np.array([0x7FFF if i.type == "bf16" else 0x7FFF7FFF], dtype)
        return unary(i, lambda x: x & mask, dtype)
    if i.has("ftz") and _base(i.type) == "f32":
        return unary(i, lambda x: np.abs(flush(x)), dtype)
    return unary(i, fn, dtype)


def negate(i: Instruction) -> Step:
    dtype, fn = packed(i.type, np.negative)
    if _base(i.type) == "bf16":
        mask = np.array([0x8000 if i.type == "bf16" else 0x80008000], dtype)
        return unary(i, lambda x: x ^ mask, dtype)
    if i.has("ftz") and _base(i.type) == "f32":
        return unary(i, lambda x: -flush(x), dtype)
    return unary(i, fn, dtype)


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
        dtype, whole = packed(kind, finish(i, fn, i.has("ftz") and _base(kind) == "f32"))
        if i.given("c"):
            return ternary(i, whole, dtype)
        return binary(i, whole, dtype)

    return build


minimum, maximum = _minmax(False), _minmax(True)


def _wide(fn: Callable[[Vec], Vec]) -> Callable[[Vec], Vec]:
    """A function computed in float64 and rounded to the type of its argument."""
    return lambda x: fn(x.astype(F64)).astype(x.dtype)


_FUNCTIONS: dict[str, Callable[[Vec], Vec]] = {
    "ex2": np.exp2,
    "lg2": _wide(np.log2),
    "rcp": lambda x: x.dtype.type(1) / x,
    "rsqrt": _wide(lambda x: 1 / np.sqrt(x)),
    "sqrt": np.sqrt,
    "sin": _wide(np.sin),
    "cos": _wide(np.cos),
    "tanh": np.tanh,
}


def _approx(name: str) -> Builder:
    def build(i: Instruction) -> Step:
        kind = i.type
        fn = _FUNCTIONS[name]
        ftz = i.has("ftz") and _base(kind) == "f32"
        dtype, whole = packed(kind, finish(i, fn, ftz))
        return unary(i, whole, dtype)

    return build


def _root(x: Vec, mode: str) -> Vec:
    s = np.sqrt(x)
    remainder = np.multiply(s, s, dtype=F64) - x
    down = np.nextafter(s, np.float32(-np.inf))
    up = np.nextafter(s, np.float32(np.inf))
    if mode == "rp":
        return np.where((remainder < 0) & np.isfinite(s), up, s)
    return np.where((remainder > 0) & np.isfinite(s), down, s)


def _rounded(name: str) -> Builder:
    """sqrt and rcp with a rounding mode."""

    def build(i: Instruction) -> Step:
        kind, mode = i.type, i.mod("round", "rn")
        fn = _FUNCTIONS[name]
        if mode != "rn":
            if kind != "f32":
                raise ValueError(f"rounding .{mode} of .{kind} is not covered")
            if name == "sqrt":
                fn = lambda x: _root(x, mode)  # noqa: E731
            else:
                fn = lambda x: _directed_quotient(np.ones(LANES, F32), x, mode)  # noqa: E731
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
