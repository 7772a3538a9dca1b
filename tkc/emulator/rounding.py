"""Floating-point numbers on vectors: narrow formats, every rounding mode, and the NaNs that the hardware makes.

f32 and f64 `.rn` are the host's own. Other modes and fused operations go through a float64 that is rounded to odd:
rounding that to the narrower format gives the correctly rounded result (Boldo and Melquiond).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tkc.emulator.elementwise import DType
from tkc.emulator.lanes import F16, F32, F64, S64, U16, U32, U64, Vec

_EXPONENT = np.array([0x7F800000], U32)
_SIGN = np.array([0x80000000], U32)
_EXPONENT16 = np.array([0x7C00], U16)
_SIGN16 = np.array([0x8000], U16)
_SIXTEEN = np.array([16], U32)
_ONE = np.array([1], U32)
_BIAS = np.array([0x7FFF], U32)
_ONE64 = np.array([1], S64)
_LOW29 = np.array([0x1FFFFFFF], U64)
_TIE = np.array([0x10000000], U64)

TINY32 = 2.0**-126
"""The least normal number of f32 (and of bf16)."""

NAN32 = np.array([0x7FFFFFFF], U32).view(F32)[0]
NAN16 = np.array([0x7FFF], U16).view(F16)[0]
"""The NaNs that arithmetic makes, whatever the operands' payloads were (so found on an H200)."""


def canonical(r: Vec) -> Vec:
    """Every NaN of f32 or f16 values becomes the hardware's; f64 keeps payloads."""
    if r.dtype is F32:
        # A sum of squares is NaN exactly where a term is.
        total = r.dot(r) if r.ndim == 1 else np.nan
        if total == total:
            return r
        return np.where(r != r, NAN32, r)
    if r.dtype is F16:
        nan = r != r
        return np.where(nan, NAN16, r) if np.count_nonzero(nan) else r
    return r


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
    """Subnormal float32 or float16 values become zeros of their sign."""
    if x.dtype is F16:
        half = x.view(U16)
        return np.where((half & _EXPONENT16) == 0, half & _SIGN16, half).view(F16)
    bits = x.view(U32)
    exponent = bits & _EXPONENT
    if np.count_nonzero(exponent) == x.size:
        return x
    return np.where(exponent == 0, bits & _SIGN, bits).view(F32)


def saturate(r: Vec) -> Vec:
    """To [0, 1]; NaN and -0 become +0."""
    zero, one = r.dtype.type(0), r.dtype.type(1)
    return np.where(r > zero, np.minimum(r, one), zero)


def rectify(r: Vec) -> Vec:
    """Negative values and -0 become +0; NaN stays."""
    return np.where((r > 0) | (r != r), r, r.dtype.type(0))


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
    # A step away from zero starts with the sign of what is rounded.
    start = np.where(nearest == 0, np.copysign(nearest, x.astype(F64)), nearest).astype(dtype)
    return np.where(wrong, np.nextafter(start, toward), nearest)


def narrow_odd(x: Vec) -> Vec:
    """Float64 to float32, rounded to odd, so that it can be rounded again."""
    r = narrow(x, F32, "rz")
    inexact = (r.astype(F64) != x) & np.isfinite(r)
    return np.where(inexact, r.view(U32) | _ONE, r.view(U32)).view(F32)


def _fma32(x: Vec, y: Vec, z: Vec) -> Vec:
    s = np.multiply(x, y, dtype=F64) + z
    r = s.astype(F32)
    # Rounding twice errs only where the first result lies on a tie, or the second has fewer bits than normal.
    tie = np.count_nonzero((s.view(U64) & _LOW29) == _TIE)
    if tie or np.count_nonzero(r.view(U32) & _EXPONENT) != r.size:
        return odd_sum(np.multiply(x, y, dtype=F64), z.astype(F64)).astype(F32)
    return r


def fma32(mode: str) -> Callable[[Vec, Vec, Vec], Vec]:
    """x * y + z on float32, rounded once."""
    if mode == "rn":
        return _fma32

    def run(x: Vec, y: Vec, z: Vec) -> Vec:
        product, addend = np.multiply(x, y, dtype=F64), z.astype(F64)
        result = narrow(odd_sum(product, addend), F32, mode)
        return _zero_of_sum(product, addend, result) if mode == "rm" else result

    return run


def _zero_of_sum(a: Vec, b: Vec, result: Vec) -> Vec:
    """Rounding down, a sum that is exactly zero is -0, unless both terms are +0."""
    zero = (a + b == 0) & ~((a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b))
    return np.where(zero, result.dtype.type(-0.0), result) if np.count_nonzero(zero) else result


_TINY16 = 2.0**-14
"""The least normal number of f16."""


def to_f16_flushed(x: Vec) -> Vec:
    """A wider result to float16; one that is subnormal before it is rounded becomes a zero of its sign."""
    small = np.abs(x) < x.dtype.type(_TINY16)
    return np.where(small, np.copysign(x.dtype.type(0), x), x).astype(F16)


def f16_fma_flushed(x: Vec, y: Vec, z: Vec) -> Vec:
    """As `f16_fma`, with `.ftz`."""
    return to_f16_flushed(odd_sum(np.multiply(x, y, dtype=F64), z.astype(F64)))


def f16_fma(x: Vec, y: Vec, z: Vec) -> Vec:
    """x * y + z on float16, rounded once."""
    return odd_sum(np.multiply(x, y, dtype=F64), z.astype(F64)).astype(F16)


def bf16_fma(x: Vec, y: Vec, z: Vec) -> Vec:
    """On float32 values of bf16; the result is rounded to odd for the rounding to bf16 that follows."""
    return narrow_odd(odd_sum(np.multiply(x, y, dtype=F64), z.astype(F64)))


_LARGEST32 = np.float32(3.4028234663852886e38)


def directed32(name: str, mode: str, ftz: bool) -> Callable[[Vec, Vec], Vec]:
    """add, sub, mul or div on float32 in a mode other than rn."""

    def run(x: Vec, y: Vec) -> Vec:
        if name == "div":
            return quotient32(x, y, mode, ftz)
        a, b = x.astype(F64), y.astype(F64)
        if name == "mul":
            return narrow(a * b, F32, mode)
        b = -b if name == "sub" else b
        result = narrow(odd_sum(a, b), F32, mode)
        return _zero_of_sum(a, b, result) if mode == "rm" else result

    return run


def quotient32(x: Vec, y: Vec, mode: str, ftz: bool = False) -> Vec:
    """x / y on float32 in mode rz, rm or rp."""
    q = x / y
    # q * y is exact in float64, so the sign of the remainder says on which side of the quotient q lies.
    remainder = np.multiply(q, y, dtype=F64) - x
    over = np.isinf(q) & np.isfinite(x) & (y != 0)
    q = np.where(over, np.copysign(_LARGEST32, q), q)
    above = np.where(y > 0, remainder > 0, remainder < 0) & np.isfinite(q) & ~over
    below = np.where(y > 0, remainder < 0, remainder > 0) & np.isfinite(q) & ~over
    down = np.nextafter(q, np.float32(-np.inf))
    up = np.nextafter(q, np.float32(np.inf))
    inward = np.where(above & (q > 0), down, np.where(below & (q < 0), up, q))
    if mode == "rm":
        result = np.where(above, down, np.where(over & (q < 0), np.float32(-np.inf), q))
    elif mode == "rp":
        result = np.where(below, up, np.where(over & (q > 0), np.float32(np.inf), q))
    else:
        result = inward
    if ftz:
        # What is subnormal before it is rounded is flushed, even if it would round up to a normal number.
        small = (np.abs(inward) < np.float32(TINY32)) & (above | below)
        result = np.where(small, np.copysign(np.float32(0), inward), result)
    return result


def root32(x: Vec, mode: str) -> Vec:
    """The square root of float32 in mode rz, rm or rp."""
    s = np.sqrt(x)
    remainder = np.multiply(s, s, dtype=F64) - x
    down = np.nextafter(s, np.float32(-np.inf))
    up = np.nextafter(s, np.float32(np.inf))
    if mode == "rp":
        return np.where((remainder < 0) & np.isfinite(s), up, s)
    return np.where((remainder > 0) & np.isfinite(s), down, s)


# float64, exactly by fractions where the host cannot say

_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
    "rcp": lambda x: 1 / x,
}
_HOST: dict[str, Callable[..., Vec]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "fma": lambda x, y, z: x * y + z,
    "rcp": lambda x: 1 / x,
    "sqrt": np.sqrt,
}


def _round64(exact: Fraction, mode: str, zero: float) -> float:
    """The float64 that a fraction rounds to."""
    if not exact:
        return zero
    sign = 1.0 if exact > 0 else -1.0
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = sign * math.inf
    if mode == "rn":
        return nearest
    inward = {"rz": True, "rm": exact > 0, "rp": exact < 0}[mode]
    if math.isinf(nearest):
        return sign * float(np.finfo(F64).max) if inward else nearest
    there = Fraction(nearest)
    if there == exact:
        return nearest
    larger = abs(there) > abs(exact)
    if inward:
        return math.nextafter(nearest, 0.0) if larger else nearest
    if larger:
        return nearest
    return math.nextafter(nearest, sign * math.inf)


def exact64(name: str, mode: str) -> Callable[..., Vec]:
    """An operation on float64 that rounds once, in any mode; lane by lane."""
    host = _HOST[name]

    def run(*v: Vec) -> Vec:
        result = host(*v).copy()
        finite = np.isfinite(v[0])
        for x in v[1:]:
            finite &= np.isfinite(x)
        if name in ("div", "rcp"):
            finite &= v[-1] != 0
        if name == "sqrt":
            finite &= v[0] > 0
        for k in np.flatnonzero(finite).tolist():
            values = [Fraction(float(x[k])) for x in v]
            if name == "sqrt":
                result[k] = _root64(values[0], float(result[k]), mode)
                continue
            zero = _zero64(name, [float(x[k]) for x in v], mode)
            result[k] = _round64(_EXACT[name](*values), mode, zero)
        return result

    return run


def _zero64(name: str, v: list[float], mode: str) -> float:
    """The zero that an operation with an exact result of 0 gives."""
    if name in ("mul", "div", "rcp"):
        return math.copysign(0.0, math.prod(math.copysign(1.0, x) for x in v))
    if name == "fma":
        a, b = math.copysign(0.0, math.copysign(1.0, v[0]) * math.copysign(1.0, v[1])), v[2]
        product_zero = v[0] == 0 or v[1] == 0
    else:
        a, b = v[0], -v[1] if name == "sub" else v[1]
        product_zero = a == 0
    both = product_zero and b == 0 and math.copysign(1.0, a) == math.copysign(1.0, b)
    if both:
        return math.copysign(0.0, a)
    return -0.0 if mode == "rm" else 0.0


def _root64(x: Fraction, nearest: float, mode: str) -> float:
    if mode == "rn":
        return nearest
    square = Fraction(nearest) ** 2
    if mode == "rp":
        return math.nextafter(nearest, math.inf) if square < x else nearest
    return math.nextafter(nearest, 0.0) if square > x else nearest


def fma64(x: Vec, y: Vec, z: Vec) -> Vec:
    """x * y + z on float64, rounded to nearest; by fractions where the product is not exact."""
    p = x * y
    split = 134217729.0
    xh = x * split
    xh = xh - (xh - x)
    xl = x - xh
    yh = y * split
    yh = yh - (yh - y)
    yl = y - yh
    e = ((xh * yh - p) + xh * yl + xl * yh) + xl * yl
    # A tiny product may have lost bits that this error does not show.
    easy = (e == 0) & ((np.abs(p) > 1e-280) | (x == 0) | (y == 0))
    easy |= ~np.isfinite(p) | ~np.isfinite(z)
    s = p + z
    if easy.all():
        return s
    hard = np.flatnonzero(~easy)
    result = s.copy()
    result[hard] = exact64("fma", "rn")(x[hard], y[hard], z[hard])
    return result
