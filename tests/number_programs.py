"""Kernels of small and large numbers, with arguments, and what they make by NumPy: for the emulator and for a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
    "u32": np.uint32, "i64": np.int64,
}  # fmt: skip


BYTES = ("e4m3", "e5m2", "s8", "u8")


class Case(NamedTuple):
    """A program, its arguments in order, and by position what its outputs then are, bit by bit."""

    text: str
    arguments: tuple[Any, ...]
    exact: Mapping[int, Array]


def narrowed(x: Array, dtype: str) -> Array:
    """The nearest values of a dtype of 8 bits: half to even, beyond the largest the largest."""
    kind = np.dtype(TYPES[dtype])
    limits: Any = np.iinfo(kind) if kind.kind in "iu" else ml_dtypes.finfo(kind)
    inside = np.clip(x, float(limits.min), float(limits.max))
    return (np.rint(inside) if kind.kind in "iu" else inside.astype(np.float32)).astype(kind)


def poisoned(shape: Any, kind: Any) -> Array:
    made = np.empty(shape, kind)
    made.view(np.uint8)[...] = 0xA5
    return made


ELEMENTS = """
kernel elements(X: global[{dtype}, M, N], Y: global[{dtype}, M, N], Z: global[{wide}, M, N]):
    launch persistent
    schedule work: m in tiles(M)
    shared v: vector[{dtype}, 128] * 2
    shared t: tile[{dtype}, 64, 128]
    role all, warps 4:
        slot = 0
        for m in work:
            if thread < N:
                v[slot][127 - thread] <- read(X[m, thread])
                t[0][m % 64, thread] <- read(X[m, thread])
            sync role
            if thread < N:
                Z[m, thread] <- read(v[slot][127 - thread])
                x = read(t[0][m % 64, thread])
                Y[m, thread] <- {expression}
            sync role
            slot = slot ^ 1
"""
"""Through memory of the GPU, a vector and a swizzled tile; a number is as wide as `wide` says."""

FORMULAS = {
    "e4m3": "x * 3", "e5m2": "x * 3", "s8": "x * 0.75", "u8": "x * 2 - 100",
    "u32": "(x * 1000003 ^ 77) // 3 + (x >> 5) + x % 10", "i64": "max(x - 5, m) >> 3 if x % 2 == 0 else -x",
}  # fmt: skip


def elements(dtype: str, rng: np.random.Generator) -> Case:
    shape, kind = (5, 99), np.dtype(TYPES[dtype])
    if dtype in ("e4m3", "e5m2"):
        x = (rng.uniform(-3, 3, shape) * 2.0 ** rng.integers(-9, 12, shape)).astype(np.float32)
        x = narrowed(x, dtype)
    else:
        ends = np.iinfo(kind)
        x = rng.integers(ends.min, ends.max, shape, kind, endpoint=True)
    match dtype:
        case "u32":
            high = (x * np.uint32(1000003)) ^ np.uint32(77)
            y = high // np.uint32(3) + (x >> np.uint32(5)) + x % np.uint32(10)
        case "i64":
            least = np.maximum(x - 5, np.arange(shape[0])[:, None]) >> 3
            y = np.where(np.fmod(x, 2) == 0, least, -x)
        case "u8":
            y = narrowed(x.astype(int) * 2 - 100, dtype)
        case _:
            y = narrowed(x.astype(np.float32) * np.float32(0.75 if dtype == "s8" else 3), dtype)
    wide = {"u32": "u32", "i64": "i64", "s8": "i32", "u8": "i32"}.get(dtype, "f32")
    text = ELEMENTS.format(dtype=dtype, wide=wide, expression=FORMULAS[dtype])
    z = x.astype({"f32": np.float32, "i32": np.int32}.get(wide, kind))
    return Case(text, (x, poisoned(shape, kind), poisoned(shape, z.dtype)), {1: y, 2: z})


NUMBERS = """
kernel numbers(ids: const global[i64, M], X: global[f32, R, N], Y: global[f32, M, N], tally: global[u32, 8],
               long: global[i64, 8], back: global[i64, M], seed: u32, base: i64, alpha: bf16, beta: f16,
               gain: global[e4m3], most: global[i64]):
    launch persistent
    schedule work: m in tiles(1)
    shared s: vector[i64, 2]
    role all, warps 4:
        total = 0
        hash = seed
        for m in work:
            for i in range(M):
                pick = i32(read(ids[i]))
                if thread < N: Y[i, thread] <- read(X[pick, thread]) * alpha + beta * gain
                for j in unroll(3): hash = hash * 1664525 + u32(i) + 1013904223
                total = total + read(ids[i]) * base
                if thread == 0:
                    atomic_xor(tally[0], hash)
                    atomic_max(tally[1], hash)
                    atomic_add(tally[2], hash)
                    atomic_min(tally[3], hash)
                    atomic_add(long[0], base + i)
                    atomic_max(long[1], total)
                    atomic_min(long[2], -total)
                    back[i] <- min(i64(hash), most)
        if thread == 1:
            old = atomic_exch(s[0][0], base)
            found = atomic_cas(s[0][0], base, base * 2)
            long[3] <- found if total > 0 else 0
        if thread == 2 and total > base: long[4] <- i64(-1) if base < 0 else i64(u32(1) << 31)
        if thread == 3:
            tally[4] <- u32(i64(-5))
            tally[5] <- u32(3.5e9)
            tally[6] <- u32(f32(seed) / 3)
            tally[7] <- u32(base)
            long[5] <- i64(-2.5)
            long[6] <- i32(base * 1000000)
            long[7] <- i64(1) << 40
"""
"""Arguments, tensors of one number, arithmetic that wraps, what loops carry, conversions that saturate, atomics."""


def numbers(rng: np.random.Generator) -> Case:
    m, r, n = 13, 7, 101
    ids = rng.integers(0, r, m).astype(np.int64)
    ids[0] = 3
    x = rng.uniform(-1, 1, (r, n)).astype(np.float32)
    seed, base, most = 4_000_000_123, 5_000_000_017, 3_000_000_000
    tally, long = np.zeros(8, np.uint32), np.zeros(8, np.int64)
    tally[3], long[1:3] = 2**32 - 1, (-(2**62), 2**62)
    gain = np.array(1.25, ml_dtypes.float8_e4m3fn)
    alpha, beta = 0.375, 1.5
    hash, total, hashes, totals = seed, 0, [], []
    for i in range(m):
        for _ in range(3):
            hash = (hash * 1664525 + i + 1013904223) % 2**32
        total += int(ids[i]) * base
        hashes.append(hash)
        totals.append(total)
    third = int(np.rint(np.float32(seed) / np.float32(3)))
    exact = {
        2: x[ids] * np.float32(alpha) + np.float32(beta * 1.25),
        3: np.array(
            [np.bitwise_xor.reduce(hashes), max(hashes), sum(hashes) % 2**32, min(hashes), 0, 3_500_000_000,
             third, 2**32 - 1], np.uint32),
        4: np.array(
            [base * m + sum(range(m)), max(totals), -max(totals), base, 2**31, -2, 2**31 - 1, 2**40], np.int64),
        5: np.minimum(hashes, most),
    }  # fmt: skip
    given = (
        ids, x, poisoned((m, n), np.float32), tally, long, poisoned(m, np.int64), seed, base, alpha, beta, gain,
        np.array(most, np.int64),
    )  # fmt: skip
    return Case(NUMBERS, given, exact)


VECTORS = """
kernel vectors(A: global[bf16, M, K], B: global[bf16, N, K], bias: global[{dtype}, N], scale: global[{dtype}, M],
               C: global[f32, M, N], top: global[{dtype}, M], X: global[{dtype}, L], Y: global[{dtype}, L]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    schedule flat: l in tiles(blocks(L, 2048))
    shared a: tile[bf16, 128, 64] * 2
    shared b: tile[bf16, 64, 64] * 2
    shared x: vector[{dtype}, 2048]
    accum  d: tile[f32, 128, 64]
    pipe inputs(a, b): load -> math
    pipe result(d):    math -> store
    pipe pieces(x):    load -> scale2
    role load:
        for m, n in work:
            for k in blocks(K, 64):
                put inputs: a <- A[m, k]; b <- B[n, k]
        for l in flat:
            put pieces: x <- X[l]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, 64):
                    get inputs: d += a @ b.T
    role store:
        for m, n in work:
            get result:
                v = read(d) + f32(row(read(bias[n]))) * f32(column(read(scale[m])))
                C[m, n] <- v
                top[m] <- {dtype}(row_max(v))
    role scale2, warps 4:
        for l in flat:
            get pieces: Y[l] <- {dtype}(f32(read(x)) * 2 - 1)
"""
"""Vectors of 8-bit elements in registers: one value a row, one a column, a piece for each thread."""


def vectors(dtype: str, rng: np.random.Generator) -> Case:
    m, n, k, flat = 130, 64, 40, 2064
    a, b = (rng.integers(-4, 5, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    bias, scale = (narrowed(rng.integers(0, 8, size), dtype) for size in (n, m))
    x = narrowed(rng.uniform(-60, 100, flat), dtype)
    c = a.astype(np.float32) @ b.astype(np.float32).T
    c = c + bias.astype(np.float32)[None] * scale.astype(np.float32)[:, None]
    kind = TYPES[dtype]
    given = (
        a, b, bias, scale, poisoned((m, n), np.float32), poisoned(m, kind), x, poisoned(flat, kind),
    )  # fmt: skip
    exact = {
        4: c,
        5: narrowed(c.max(axis=1), dtype),
        7: narrowed(x.astype(np.float32) * 2 - 1, dtype),
    }
    return Case(VECTORS.format(dtype=dtype), given, exact)


TURNED = """
kernel turned(A: global[{dtype}, M, K], W: global[{dtype}, K, N], C: global[{out}, N, M]):
    param BM = 128, BN = 128, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[{dtype}, BM, BK] * 2
    shared w: tile[{dtype}, BK, BN] * 2
    shared u: tile[{dtype}, BN, BK] * 2
    shared c: tile[{out}, BN, BM]
    accum d: tile[{sum}, BM, BN]
    pipe inputs(a): load -> math
    pipe raw(w): load -> turn
    pipe ready(u): turn -> math
    pipe result(d): math -> back
    pipe out(c): back -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs: a <- A[m, k]
                put raw: w <- W[k, n]
    role turn, warps 2:
        for m, n in work:
            for k in blocks(K, BK):
                get raw, put ready: u <- w.T
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, BK):
                    get inputs, ready: d += a @ u.T
    role back:
        for m, n in work:
            get result:
                put out: c <- {out}(f32(read(d)) * 0.0625).T
    role store:
        for m, n in work:
            get out: C[n, m] <- c
"""
"""An operand of bytes whose contracted axis is not contiguous, and a result that is turned from registers."""


def turned(dtype: str, out: str, rng: np.random.Generator) -> Case:
    m, n, k = 48, 144, 80
    least = 0 if dtype == "u8" else -8
    a, w = (rng.integers(least, 9, shape).astype(TYPES[dtype]) for shape in ((m, k), (k, n)))
    c = (a.astype(np.float32) @ w.astype(np.float32)).T * np.float32(0.0625)
    text = TURNED.format(dtype=dtype, out=out, sum="i32" if dtype in ("s8", "u8") else "f32")
    return Case(text, (a, w, poisoned((n, m), TYPES[out])), {2: narrowed(c, out)})


WHOLE: Mapping[str, Any] = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "f32": np.float32}
CONVERTED = [(a, b) for a in WHOLE for b in WHOLE if (a, b) != ("f32", "f32")]
"""Dtypes of which a register holds one element, and the ways between them."""

CONVERT = """\
kernel k(X: global[FROM, M, N], Y: global[TO, M, N], Z: global[TO, N, M], W: global[TO, M]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared x: tile[FROM, 128, 32] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p:
                v = read(x)
                Y[m, n] <- TO(v)
                Z[n, m] <- TO(v).T
                if n.index == 0:
                    W[m] <- TO(f32(row_max(f32(v))))
"""

"""A register tile made one of another dtype, turned, and one value a row of it."""


def nearest(x: Array, dtype: str) -> Array:
    """What `dtype(x)` gives: the nearest that it has, of f32 rounded to nearest even, of a NaN 0."""
    if dtype == "f32":
        return x.astype(np.float32)
    limits = np.iinfo(WHOLE[dtype])
    if x.dtype == np.float32:
        made = np.zeros(x.shape, WHOLE[dtype])
        whole = np.rint(x.astype(np.float64))
        high, low = whole >= float(limits.max), whole <= float(limits.min)
        inside = ~(high | low | np.isnan(whole))
        made[inside] = whole[inside].astype(WHOLE[dtype])
        made[high], made[low] = limits.max, limits.min
        return made
    wide = x.astype(np.int64)
    return np.clip(wide, limits.min, limits.max).astype(WHOLE[dtype])


def of_every_size(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random ones of every size that the dtype has."""
    if dtype == "f32":
        x = rng.normal(size=shape) * 10.0 ** rng.integers(-1, 20, shape)
        x.flat[:8] = (0.5, 1.5, -0.5, 2.5, np.nan, np.inf, -np.inf, -0.0)
        return x.astype(np.float32)
    limits = np.iinfo(WHOLE[dtype])
    bits = rng.integers(0, limits.bits, shape)
    x = rng.integers(limits.min, limits.max, shape, WHOLE[dtype], endpoint=True) >> bits.astype(
        WHOLE[dtype]
    )
    x.flat[:4] = (limits.min, limits.max, 0, 1)
    return x


def converted(source: str, to: str, rng: np.random.Generator) -> Case:
    m, n = 132, 36
    x = of_every_size(source, (m, n), rng)
    want = nearest(x, to)
    tops = nearest(x[:, :32].astype(np.float32).max(axis=1), to)
    outputs = (poisoned(shape, WHOLE[to]) for shape in ((m, n), (n, m), (m,)))
    text = CONVERT.replace("FROM", source).replace("TO", to)
    return Case(text, (x, *outputs), {1: want, 2: np.ascontiguousarray(want.T), 3: tops})


def cases(rng: np.random.Generator) -> dict[str, Case]:
    """All of them, by name."""
    return {
        **{f"elements_{d}": elements(d, rng) for d in TYPES},
        "numbers": numbers(rng),
        **{f"vectors_{d}": vectors(d, rng) for d in BYTES},
        **{f"converted_{a}_{b}": converted(a, b, rng) for a, b in CONVERTED},
        **{
            f"turned_{d}": turned(d, out, rng)
            for d, out in zip(BYTES, BYTES[1:] + BYTES[:1], strict=True)
        },
    }
