"""Copies of bytes in a row, the copy engine's sums and extremes, prefetches, and the order of grids, run."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tkc

BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
DTYPES = {"f32": np.float32, "i32": np.int32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}

BULK = """
kernel bulk(X: global[DTYPE, M, N], Y: global[DTYPE, M, N], S: global[DTYPE, N]):
    param BN = 64
    launch persistent, dependent
    schedule work: m, n in tiles(M, blocks(N, BN))
    shared v: vector[DTYPE, BN] * 2
    barrier full * 2, count = 1
    role all, warps 1:
        i = 0
        phase = 0
        wait pdl
        for m, n in work:
            elect:
                prefetch X[m, n], evict_last
                wait stores <= 1, read
                expect full[i], bytes(v)
                load v[i] <- X[m, n], full[i], bulk, evict_first
            wait full[i], phase
            elect:
                store Y[m, n] <- v[i], bulk
                store S[n] COMBINE
                commit stores
            i = i ^ 1
            if i == 0:
                phase = phase ^ 1
        elect:
            wait stores
            arrive pdl
"""


def make(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(DTYPES[dtype])


CASES = [
    (dtype, way)
    for dtype in DTYPES
    for way in ("add", "min", "max")
    if (dtype, way) not in (("f32", "min"), ("f32", "max"))
]


@pytest.mark.share(2)
@BOTH
@pytest.mark.parametrize(("dtype", "way"), CASES)
@pytest.mark.parametrize("bulk", [", bulk", ""])
def test_vectors_are_copied_and_combined(
    target: str, dtype: str, way: str, bulk: str, seed: int
) -> None:
    combine = f"+= v[i]{bulk}" if way == "add" else f"<- v[i], {way}{bulk}"
    text = BULK.replace("DTYPE", dtype).replace("COMBINE", combine)
    kernel = tkc.compile(text, target=target)
    name = f"cp.reduce.async.bulk{'' if bulk else '.tensor'}."
    assert name in kernel.ptx
    assert "cp.async.bulk.prefetch.tensor" in kernel.ptx
    assert kernel.contract["attributes"] == {"dependent": True}
    kernel.cubin()
    x = make(dtype, (6, 192), seed)
    y, s = np.zeros_like(x), make(dtype, (192,), seed + 1)
    ways = {"add": np.add.reduce, "min": np.minimum.reduce, "max": np.maximum.reduce}
    wanted = ways[way](np.vstack([s[None], x]).astype(np.float64))
    report = kernel.emulate(x, y, s, sm_count=3, schedule="random", seed=seed)
    assert not report.findings, "\n".join(map(str, report.findings))
    assert (y == x).all()
    assert np.array_equal(s.astype(np.float64), wanted)


def test_a_bulk_copy_is_of_whole_blocks(seed: int) -> None:
    text = BULK.replace("DTYPE", "f32").replace("COMBINE", "<- v[i]")
    kernel = tkc.compile(text, target="sm_90a")
    x = make("f32", (2, 100), seed)
    with pytest.raises(tkc.TkcError, match="whole ones only"):
        kernel.emulate(x, x.copy(), x[0].copy(), sm_count=1)
    aside = make("f32", (4 * 64 + 1,), seed)[1:].reshape(4, 64)
    with pytest.raises(tkc.TkcError, match="16-byte aligned base"):
        kernel.emulate(aside, aside.copy(), aside[0].copy(), sm_count=1)
