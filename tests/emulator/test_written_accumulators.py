"""`d = e`: accumulators that registers are written to (R11)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc

RNG = np.random.default_rng()

ALONE = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, 32))
    shared x: tile[f32, BM, 32] * 2
    accum  d: tile[f32, BM, 32] * 2
    pipe p(x): load -> write
    pipe r(d): write -> store
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role write:
        for m, n in work:
            get p, put r: d = read(x) * 2
    role store:
        for m, n in work:
            get r: Y[m, n] <- read(d) + 1
"""

BEGUN = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared a: tile[bf16, 128, 64] * 2
    shared b: tile[bf16, 32, 64] * 2
    shared x: tile[f32, 128, 32] * 2
    accum  d: tile[f32, 128, 32]
    pipe q(x):    load -> math
    pipe p(a, b): load -> math
    pipe r(d):    math -> store
    role load:
        for m, n in work:
            put q: x <- X[m, n]
            for k in blocks(K, 64):
                put p: a <- A[m, k]; b <- B[n, k]
    role math:
        for m, n in work:
            put r:
                get q: d = read(x)
                for k in blocks(K, 64):
                    get p: d += a @ b.T
    role store:
        for m, n in work:
            get r: Y[m, n] <- read(d)
"""


def run(text: str, target: str, *arguments: Any) -> None:
    report = tkc.compile(text, target=target).emulate(*arguments, sm_count=2, schedule="random")
    assert not report.findings, "\n".join(map(str, report.findings))


@pytest.mark.share(2)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("rows", [64, 128, 256])
def test_registers_through_an_accumulator(target: str, rows: int) -> None:
    x = RNG.normal(size=(300, 72)).astype(np.float32)
    y = np.full((300, 72), 77, np.float32)
    run(ALONE.replace("BM", str(rows)), target, x, y)
    np.testing.assert_array_equal(y, x * 2 + 1)


def test_a_sum_that_begins_with_registers() -> None:
    m, n, k = 200, 72, 136
    a, b = (RNG.normal(size=(rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    x, y = RNG.normal(size=(m, n)).astype(np.float32), np.full((m, n), 77, np.float32)
    run(BEGUN, "sm_90a", a, b, x, y)
    np.testing.assert_allclose(
        y, x + a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-3
    )
    with pytest.raises(tkc.TkcError, match="registers are written to in the same block"):
        tkc.compile(BEGUN, target="sm_100a")
