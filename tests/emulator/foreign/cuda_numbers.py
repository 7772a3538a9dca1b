"""Problems for the kernels of `cuda/numbers.cu`."""

from __future__ import annotations

from math import erf
from typing import Any

import ml_dtypes
import numpy as np
from emulator.foreign.problem import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Expected,
    Problem,
    poisoned,
)
from emulator.foreign.references import Rng, int32, uniform, updated, wide


def math_float(rng: Rng) -> Problem:
    n = 150
    x = uniform(rng, n, F32, 4)
    v, a = wide(x), abs(wide(x))
    want = [
        np.sin(v), np.cos(v), np.tan(v), np.exp(v), np.log(a), np.log10(a), np.log1p(a), np.expm1(v),
        np.tanh(v), np.sinh(v), np.arcsin(v / 8), np.arctan2(v, 2), np.sqrt(a), 1 / np.sqrt(a), np.cbrt(v),
        a**1.5, np.array([erf(t) for t in v]), np.fmod(x, np.float32(0.7)), np.floor(v), np.rint(v), np.trunc(v),
        v * 8, np.copysign(2, v), np.hypot(v, 3),
    ]  # fmt: skip
    args = {"x": x, "out": poisoned((24, n), F32), "n": np.int32(n)}
    return Problem((2,), args, {"out": Expected(np.stack(want), 1e-6, 1e-8)})


def math_large(rng: Rng) -> Problem:
    n = 64
    x = uniform(rng, n, F32, 1e30)
    # Reduced exactly, by many digits of pi.
    from fractions import Fraction

    digits = "3141592653589793238462643383279502884197169399375105820974944592307816406286208998628034825342117067"
    pi = Fraction(int(digits), 10 ** (len(digits) - 1))
    rest = np.array([float(Fraction(float(t)) % (2 * pi)) for t in x])
    args = {"x": x, "out": poisoned(n, F32), "n": np.int32(n)}
    return Problem((1,), args, {"out": Expected(np.sin(rest) + np.cos(rest), 0, 1e-6)})


def math_double(rng: Rng) -> Problem:
    n = 100
    x = uniform(rng, n, F64, 4)
    x[3] = 1e9
    a = abs(x)
    from fractions import Fraction

    fma = np.array([float(Fraction(float(t)) ** 2 - 1) for t in x])
    with np.errstate(over="ignore"):
        want = [np.sin(x), np.cos(x), np.exp(x), np.log(a), np.sqrt(a), 1 / x, x / 3.7, fma, a**0.3,
                np.floor(x), np.rint(x), np.tanh(x)]  # fmt: skip
    args = {"x": x, "out": poisoned((12, n), F64), "n": np.int32(n)}
    return Problem((1,), args, {"out": Expected(np.stack(want), 1e-15, 1e-300)})


def _directed(value: Any, mode: str) -> np.float32:
    """An exact fraction to float32: toward zero (z), up (u) or down (d), or to nearest (n)."""
    from fractions import Fraction

    near = np.float32(float(value))
    if mode == "n" or Fraction(float(near)) == value:
        return near
    above = Fraction(float(near)) > value
    if mode == "u" or (mode == "z" and value < 0):
        return near if above else np.nextafter(near, np.float32(np.inf))
    return np.nextafter(near, np.float32(-np.inf)) if above else near


def rounding(rng: Rng) -> Problem:
    from fractions import Fraction as Q

    n = 60
    x, y = uniform(rng, n, F32, 3), uniform(rng, n, F32, 3)
    rows: list[list[Any]] = []
    for p, q in zip(x, y, strict=True):
        a, b = Q(float(p)), Q(float(q))
        root = np.sqrt(np.float64(abs(p)))
        up = np.float32(root)
        if Q(float(up)) ** 2 < abs(a):
            up = np.nextafter(up, np.float32(np.inf))
        rows.append(
            [_directed(a + b, m) for m in "nzud"]
            + [_directed(a * b, m) for m in "zud"]
            + [_directed(a * b + a, m) for m in "zu"]
            + [_directed(a / b, m) for m in "nzu"]
            + [_directed(1 / b, "d"), up, np.sqrt(abs(p)), np.clip(p, 0, 1)]
        )
    args = {"x": x, "y": y, "out": poisoned((16, n), F32), "n": np.int32(n)}
    return Problem((1,), args, {"out": Expected(np.array(rows).T)})


def math_half(rng: Rng) -> Problem:
    n = 40
    x = uniform(rng, (n, 2), F16, 3)
    v = wide(x)
    want = [
        v * v + 1, v * v, np.clip(v + 1, 0, 1), np.maximum(v, 1), np.maximum(2 * v, 0), np.exp2(v), np.sqrt(abs(v)),
        1 / (abs(v) + 1), np.sin(v), np.tanh(v), -v, v[:, ::-1],
    ]  # fmt: skip
    args = {"x": x, "out": poisoned((12, n, 2), F16), "n": np.int32(n)}
    return Problem((1,), args, {"out": Expected(np.stack(want), 2.0**-10, 2e-5)})


def math_bf16(rng: Rng) -> Problem:
    n = 40
    x = uniform(rng, (n, 2), BF16, 3)
    v = wide(x)
    want = [
        v * v + 1,
        v * v,
        v + 1,
        np.minimum(v, 1),
        np.maximum(2 * v, 0),
        np.exp(v),
        abs(v),
        v - 1,
    ]
    args = {"x": x, "out": poisoned((8, n, 2), BF16), "n": np.int32(n)}
    return Problem((1,), args, {"out": Expected(np.stack(want), 2.0**-7, 1e-4)})


def narrow(rng: Rng) -> Problem:
    n = 90
    x = uniform(rng, (n, 2), F32, 10)
    e2m1 = np.clip(x, -6, 6).astype(ml_dtypes.float4_e2m1fn)
    e2m3 = np.clip(x, -7.5, 7.5).astype(ml_dtypes.float6_e2m3fn)
    e3m2 = np.clip(x, -28, 28).astype(ml_dtypes.float6_e3m2fn)
    packed = e2m1.view(np.uint8)
    exponents = np.ceil(np.log2(abs(wide(x)))) + 127
    back = np.stack([wide(x.astype(E4M3)), wide(e2m1)])
    outputs = {
        "e4m3": x.astype(E4M3).view(np.uint8), "e5m2": x.astype(E5M2).view(np.uint8), "e2m3": e2m3.view(np.uint8),
        "e3m2": e3m2.view(np.uint8), "e2m1": packed[:, 0] | packed[:, 1] << 4, "e8m0": exponents, "back": back,
    }  # fmt: skip
    args: dict[str, Any] = {"x": x}
    for name, want in outputs.items():
        args[name] = poisoned(want.shape, F16 if name == "back" else U8)
    args["n"] = np.int32(n)
    return Problem((1,), args, {name: Expected(want) for name, want in outputs.items()})


def conversions(rng: Rng) -> Problem:
    n = 60
    x = uniform(rng, n, F64, 300)
    f = x.astype(np.float32)
    positive = np.maximum(f, 0)
    ints = [np.rint(f), np.trunc(f), np.ceil(x), np.floor(f)]
    half = f.astype(F16)
    toward = np.where(abs(wide(half)) > abs(wide(f)), np.nextafter(half, F16.type(0)), half)
    bf16 = f.astype(BF16)
    bits = f.view(np.uint32)
    up = np.where(wide(bf16) >= wide(f), bf16.view(U16), 0)
    cut = (bits >> 16).astype(np.uint32)
    up = np.where((bits & 0xFFFF == 0) | (f < 0), cut, cut + 1)
    words = [np.rint(positive), np.trunc(np.maximum(wide(half), 0)), toward.view(U16), up,
             np.trunc(f).astype(np.int64) & 255]  # fmt: skip
    longs = [np.rint(x * 1e9), np.trunc((f * np.float32(1e9)).astype(F64)), x.view(np.int64)]
    wrapped = (ints[0].astype(np.int64) * 99991).astype(np.int32)
    from fractions import Fraction as Q

    floats = [
        np.array([_directed(Q(int(v)), "n") for v in longs[0]]),
        np.array([_directed(Q(int(v)), "z") for v in wrapped]),
        np.array([_directed(Q(float(v)), "u") for v in x]),
        np.array([_directed(Q(int(v)), "d") for v in x.view(np.uint64)]),
        (bits ^ 1).view(np.float32),
    ]
    args = {
        "x": x, "ints": poisoned((4, n), I32), "words": poisoned((5, n), U32), "longs": poisoned((3, n), I64),
        "floats": poisoned((5, n), F32), "n": np.int32(n),
    }  # fmt: skip
    expected = {
        "ints": ints,
        "words": words,
        "longs": [v.astype(np.int64) for v in longs],
        "floats": floats,
    }
    return Problem((1,), args, {k: Expected(np.stack(v)) for k, v in expected.items()})


def bits(rng: Rng) -> Problem:
    n = 50
    x, y = (rng.integers(0, 1 << 32, n, dtype=np.uint32) for _ in range(2))
    full, low = (1 << 64) - 1, 0xFFFFFFFF
    out: list[list[int]] = []
    long: list[list[int]] = []

    def lanes(v: int, size: int, signed: bool) -> list[int]:
        parts = [v >> k & ((1 << size) - 1) for k in range(0, 32, size)]
        return [p - (1 << size) if signed and p >> (size - 1) else p for p in parts]

    def joined(parts: list[int], size: int) -> int:
        return sum((p & ((1 << size) - 1)) << (size * k) for k, p in enumerate(parts))

    def trunc(p: int, q: int) -> int:
        return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)

    def signed64(v: int) -> int:
        return v - (1 << 64) if v >> 63 else v

    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        s, t = int32(a), int32(b)
        both = a.to_bytes(4, "little") + b.to_bytes(4, "little")
        shift, amount = a & 31, min(b & 63, 32)
        sb, tb, ub, vb = (
            lanes(a, 8, True),
            lanes(b, 8, True),
            lanes(a, 8, False),
            lanes(b, 8, False),
        )
        quotient = trunc(s, t | 1)

        def m24(v: int) -> int:
            v &= 0xFFFFFF
            return v - (1 << 24) if v >> 23 else v

        out.append([
            a.bit_count(), 32 - a.bit_length(), (a & -a).bit_length(), int(f"{a:032b}"[::-1], 2),
            int.from_bytes(bytes(both[k] for k in (3, 7, 5, 2)), "little"), (b << 32 | a) << shift >> 32,
            (b << 32 | a) >> amount, s + sum(p * q for p, q in zip(sb, tb, strict=True)),
            a + sum(p * q for p, q in zip(ub, vb, strict=True)), s * t >> 32, a * b >> 32,
            abs(s - t) + a, abs(a - b) + a, m24(s) * m24(t),
            joined([p + q for p, q in zip(lanes(a, 16, False), lanes(b, 16, False), strict=True)], 16),
            joined([max(p, q) for p, q in zip(sb, tb, strict=True)], 8),
            joined([abs(p - q) for p, q in zip(ub, vb, strict=True)], 8),
            a // (b | 1), a % (b | 1), quotient, s - quotient * (t | 1), a // 7, s - trunc(s, 10) * 10,
            max(int32(s + t), s), max(s, t, int32(-s)), a >> (b & 31) | a << (b & 7), a & ~b ^ (a | b), s >> (b & 31),
        ])  # fmt: skip
        p = a << 32 | b
        q = p * 0x9E3779B97F4A7C15 & full
        w = p * q + a
        high = signed64(p) * signed64(q) >> 64
        long.append([
            p * q, p * q >> 64, q // (b | 1), q % (p | 1), trunc(signed64(q), b - 1000003),
            q.bit_count() + 100 * (64 - p.bit_length()) + 10000 * (q & -q).bit_length(), w >> 37,
            int(f"{p:064b}"[::-1], 2) ^ q >> (a & 63) ^ high & full,
        ])  # fmt: skip
    args = {
        "x": x,
        "y": y,
        "out": poisoned((28, n), U32),
        "wide": poisoned((8, n), U64),
        "n": np.int32(n),
    }
    expected = {
        "out": Expected(np.array([[v & low for v in row] for row in out], np.uint32).T),
        "wide": Expected(np.array([[v & full for v in row] for row in long], np.uint64).T),
    }
    return Problem((1,), args, expected)


def atomics(rng: Rng) -> Problem:
    count = 3 * 64
    t = np.arange(count)
    i32 = np.array([1, 2, 3, 4, 5, 6, 7, 8], I32)
    u32 = np.array([3, 4, 0xFFFFFFFF, 0, 5, 9999, 6, 0], U32)
    u64 = np.array([1, 2, (1 << 64) - 1, 77], U64)
    s64 = np.array([1, 2], I64)
    want_i32 = [1 + t.sum(), 2 - t.sum(), min(3, -t.max()), max(4, 3 * t.max()), 5 + count, 6 + 2 * count,
                7 + 2 * count, 99]  # fmt: skip
    inc, dec = 3, 4
    for _ in range(count):
        inc = 0 if inc >= 17 else inc + 1
        dec = 9 if dec == 0 or dec > 9 else dec - 1
    want_u32 = [
        inc,
        dec,
        0,
        0xFFFFFFFF,
        5 ^ int(np.bitwise_xor.reduce(t)),
        5000 - t.max(),
        7 * t.max(),
        8,
    ]
    want_u64 = [1 + (int(t.sum()) << 30), int(t.max()) << 33, 0, 77 ^ int(np.bitwise_xor.reduce(t))]
    args = {
        "i32": i32, "u32": u32, "u64": u64, "s64": s64, "f32": np.array([1.5, -3], F32), "f64": np.array([0.25], F64),
        "h2": np.array([3, 4], F16), "b2": np.array([5, 6], BF16), "f4": np.ones(4, F32),
    }  # fmt: skip
    expected = {
        "i32": np.array(want_i32), "u32": np.array(want_u32), "u64": np.array(want_u64, np.uint64),
        "s64": np.array([-t.max(), t.max() - 5]), "f32": np.array([1.5 + count, ((t * 37) % 101).max()]),
        "f64": np.array([0.25 + count / 2]), "h2": np.array([3 + count, 4 + 2 * count]),
        "b2": np.array([5 + count, 6 - count]), "f4": 1 + count * np.array([1, 2, 3, 4]),
    }  # fmt: skip
    found = {name: Expected(want) for name, want in expected.items()}
    found["b2"] = Expected(expected["b2"], 0.02)
    return updated((3,), args, found)
