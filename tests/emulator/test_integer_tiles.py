"""Register tiles of i32, u32 and i64: copied, turned, converted to and from each other and floats, beside products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from number_programs import CONVERTED, WHOLE, converted, nearest

import tkc

pytestmark = pytest.mark.share(6)

INTEGERS = ("i32", "u32", "i64")
RNG = np.random.default_rng()
BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])

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


@BOTH
@pytest.mark.parametrize(("source", "to"), CONVERTED)
def test_conversions_give_the_nearest(target: str, source: str, to: str, seed: int) -> None:
    case = converted(source, to, np.random.default_rng(seed))
    run(case.text, target, *case.arguments)
    for at, exact in case.exact.items():
        np.testing.assert_array_equal(case.arguments[at], exact)


@BOTH
@pytest.mark.parametrize("dtype", INTEGERS)
def test_beside_an_accumulator(target: str, dtype: str) -> None:
    """In the layout that products leave, with one value a row and one a column."""
    import ml_dtypes

    m, n, k = 200, 72, 72
    a, b = (RNG.integers(-4, 5, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    low = 0 if dtype == "u32" else -1000
    r, s, t = (RNG.integers(low, 1000, shape, WHOLE[dtype]) for shape in ((m, n), (m,), (n,)))
    c = np.full((m, n), 77, WHOLE[dtype])
    run(PRODUCT.replace("TYPE", dtype), target, a, b, r, s, t, c)
    sums = a.astype(np.float64) @ b.astype(np.float64).T + r + s[:, None] + t
    np.testing.assert_array_equal(c, nearest(sums.astype(np.float32), dtype))
