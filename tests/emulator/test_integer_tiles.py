"""Register tiles of i32, u32 and i64: copied, turned, converted to and from each other and floats, beside products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tkc

pytestmark = pytest.mark.share(6)

TYPES: dict[str, Any] = {"i32": np.int32, "u32": np.uint32, "i64": np.int64, "f32": np.float32}
INTEGERS = ("i32", "u32", "i64")
RNG = np.random.default_rng()
BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])

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

PRODUCT = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], R: global[TYPE, M, N], S: global[TYPE, M], T: global[TYPE, N],
         C: global[TYPE, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared a: tile[bf16, 128, 64] * 2
    shared b: tile[bf16, 32, 64] * 2
    shared r: tile[TYPE, 128, 32]
    accum d: tile[f32, 128, 32]
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    pipe extra(r): load -> store
    role load:
        for m, n in work:
            put extra: r <- R[m, n]
            for k in blocks(K, 64):
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, 64):
                    get inputs: d += a @ b.T
    role store:
        for m, n in work:
            get extra, get result:
                C[m, n] <- TYPE(read(d) + f32(read(r)) + column(f32(read(S[m]))) + row(f32(read(T[n]))))
"""


def run(text: str, target: str, *arguments: Any) -> None:
    report = tkc.compile(text, target=target).emulate(*arguments, sm_count=2, schedule="random")
    assert not report.findings, "\n".join(map(str, report.findings))


def nearest(x: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """What `dtype(x)` gives: the nearest that it has, of f32 rounded to nearest even, of a NaN 0."""
    if dtype == "f32":
        return x.astype(np.float32)
    limits = np.iinfo(TYPES[dtype])
    if x.dtype == np.float32:
        made = np.zeros(x.shape, TYPES[dtype])
        whole = np.rint(x.astype(np.float64))
        high, low = whole >= float(limits.max), whole <= float(limits.min)
        inside = ~(high | low | np.isnan(whole))
        made[inside] = whole[inside].astype(TYPES[dtype])
        made[high], made[low] = limits.max, limits.min
        return made
    wide = x.astype(np.int64)
    return np.clip(wide, limits.min, limits.max).astype(TYPES[dtype])


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Random ones of every size that the dtype has."""
    if dtype == "f32":
        x = RNG.normal(size=shape) * 10.0 ** RNG.integers(-1, 20, shape)
        x.flat[:8] = (0.5, 1.5, -0.5, 2.5, np.nan, np.inf, -np.inf, -0.0)
        return x.astype(np.float32)
    limits = np.iinfo(TYPES[dtype])
    bits = RNG.integers(0, limits.bits, shape)
    x = RNG.integers(limits.min, limits.max, shape, TYPES[dtype], endpoint=True) >> bits.astype(
        TYPES[dtype]
    )
    x.flat[:4] = (limits.min, limits.max, 0, 1)
    return x


@BOTH
@pytest.mark.parametrize(
    ("source", "to"), [(a, b) for a in TYPES for b in TYPES if (a, b) != ("f32", "f32")]
)
def test_conversions_give_the_nearest(target: str, source: str, to: str) -> None:
    m, n = 132, 36
    x = values(source, (m, n))
    y = np.full((m, n), 77, TYPES[to])
    z, w = np.full((n, m), 78, TYPES[to]), np.full(m, 79, TYPES[to])
    text = CONVERT.replace("FROM", source).replace("TO", to)
    run(text, target, x, y, z, w)
    want = nearest(x, to)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(z, want.T)
    tops = x[:, :32].astype(np.float32).max(axis=1)
    np.testing.assert_array_equal(w, nearest(tops, to))


@BOTH
@pytest.mark.parametrize("dtype", INTEGERS)
def test_beside_an_accumulator(target: str, dtype: str) -> None:
    """In the layout that products leave, with one value a row and one a column."""
    import ml_dtypes

    m, n, k = 200, 72, 72
    a, b = (RNG.integers(-4, 5, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    low = 0 if dtype == "u32" else -1000
    r, s, t = (RNG.integers(low, 1000, shape, TYPES[dtype]) for shape in ((m, n), (m,), (n,)))
    c = np.full((m, n), 77, TYPES[dtype])
    run(PRODUCT.replace("TYPE", dtype), target, a, b, r, s, t, c)
    sums = a.astype(np.float64) @ b.astype(np.float64).T + r + s[:, None] + t
    np.testing.assert_array_equal(c, nearest(sums.astype(np.float32), dtype))
