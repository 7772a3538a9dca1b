"""Accumulators that threads write, in tensor memory and in registers; values that outlive what they are read of."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import tkc

BF16 = ml_dtypes.bfloat16

pytestmark = pytest.mark.share(3)

PROGRAM = """
kernel scaled(A: global[bf16, M, K], B: global[bf16, N, K], C: global[bf16, M, N], rows: global[f32, M], alpha: f32):
    param BM = 128, BN = 96, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK]
    shared b: tile[bf16, BN, BK]
    shared c: tile[bf16, BM, BN]
    accum d: tile[f32, BM, BN]
    barrier full, count = 1
    barrier done, count = 1
    role load:
        phase = 0
        for m, n in work:
            for k in blocks(K, BK):
                elect:
                    expect full, bytes(a, b)
                    load a <- A[m, k], full
                    load b <- B[n, k], full
                wait done, phase
                phase = phase ^ 1
    role all, warps WARPS:
        phase = 0
        for m, n in work:
            d[0] <- START
            MEET
            for k in blocks(K, BK):
                wait full, phase
                PRODUCT
                d[0] <- read(d) SCALED
                MEET
                phase = phase ^ 1
            x = read(d)
            elect:
                wait stores, read
            d[0] <- 7
            sync role
            c <- bf16(x)
            fence proxy shared
            sync role
            elect:
                store C[m, n] <- c
                commit stores
        elect:
            wait stores
"""

WAYS = {
    "sm_100a": {
        "WARPS": "4",
        "MEET": "fence tcgen05 before; sync role; fence tcgen05 after",
        "PRODUCT": (
            "sync role\n"
            "                fence tcgen05 after\n"
            "                elect: mma d += a @ b.T; commit done\n"
            "                wait done, phase\n"
            "                fence tcgen05 after"
        ),
    },
    "sm_90a": {
        "WARPS": "4",
        "MEET": "sync warp",
        "PRODUCT": (
            "fence products\n"
            "                mma d += a @ b.T\n"
            "                commit products; wait products\n"
            "                sync role\n"
            "                arrive done"
        ),
    },
}


@cache
def compiled(target: str, start: str, scaled: str) -> tkc.Kernel:
    text = PROGRAM.replace("START", start).replace("SCALED", scaled)
    for word, code in WAYS[target].items():
        text = text.replace(word, code)
    if target == "sm_90a":
        text = text.replace("BM = 128", "BM = 64")
    return tkc.compile(text, target=target)


@pytest.mark.parametrize(("m", "n", "k"), [(136, 200, 200), (64, 8, 64), (128, 96, 0)])
@pytest.mark.parametrize("start", ["0", "1.5"])
@pytest.mark.parametrize("scaled", ["* alpha", "* column(read(rows[m]))"])
@pytest.mark.parametrize("target", WAYS)
def test_a_sum_is_scaled_between_products(
    target: str, scaled: str, start: str, m: int, n: int, k: int, seed: int
) -> None:
    kernel = compiled(target, start, scaled)
    kernel.cubin()
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (m, k)).astype(BF16)
    b = rng.uniform(-1, 1, (n, k)).astype(BF16)
    rows = rng.uniform(0.25, 1, m).astype(np.float32)
    c = np.full((m, n), np.nan, BF16)
    report = kernel.emulate(a, b, c, rows, 0.75, sm_count=2, schedule="random", seed=seed)
    assert not report.findings, "\n".join(map(str, report.findings))
    wide, across = a.astype(np.float64), b.astype(np.float64)
    by = rows[:, None].astype(np.float64) if "rows" in scaled else 0.75
    total = np.full((m, n), float(start))
    for first in range(0, k, 64):
        total = (total + wide[:, first : first + 64] @ across[:, first : first + 64].T) * by
    assert np.abs(c.astype(np.float64) - total).max() <= 0.01 * max(1, np.abs(total).max())
