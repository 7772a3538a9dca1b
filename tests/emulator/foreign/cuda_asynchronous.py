"""Problems for the kernels of `cuda/asynchronous.cu`."""

from __future__ import annotations

import numpy as np
from emulator.foreign.problem import (
    F32,
    I32,
    Expected,
    Problem,
    poisoned,
)
from emulator.foreign.references import Rng, integers_in, uniform, updated, wide


def groups(rng: Rng) -> Problem:
    blocks = 2
    x = integers_in(rng, (blocks * 2, 32), 0, 100)
    eight = x.reshape(-1, 4, 8)
    sums = x.sum(1, keepdims=True) + 1000 * np.repeat(eight.max(2), 8, 1)
    scans = np.cumsum(x, 1) - (np.cumsum(eight, 2) - eight).reshape(x.shape)
    sizes = np.zeros(x.shape, np.int64)
    for row, out in zip(x, sizes, strict=True):
        odd = row & 1 == 1
        out[odd] = row[odd][0] if odd.any() else 0
        for rest in range(3):
            part = ~odd & (row % 3 == rest)
            out[part] = part.sum()
    args = {
        "x": x, "sums": poisoned(x.shape, I32), "scans": poisoned(x.shape, I32), "counter": np.array([4], I32),
        "sizes": poisoned(x.shape, I32),
    }  # fmt: skip
    expected = {
        "sums": Expected(sums), "scans": Expected(scans), "counter": Expected(np.array([4 + (x & 1).sum()])),
        "sizes": Expected(sizes),
    }  # fmt: skip
    return Problem((blocks,), args, expected, frozenset({"counter"}))


def cluster_histogram(rng: Rng) -> Problem:
    n, per = 700, 24
    x = rng.integers(0, 4 * per, n, dtype=np.int32)
    bins = rng.integers(1, 5, 4 * per, dtype=np.int32)
    want = Expected(bins + np.bincount(x, minlength=4 * per))
    args = {"x": x, "bins": bins, "n": np.int32(n), "per": np.int32(per)}
    return updated((2,), args, {"bins": want})


def stencil(rng: Rng) -> Problem:
    x = uniform(rng, (2, 3, 128), F32)
    v = np.pad(wide(x), ((0, 0), (0, 0), (1, 1)))
    want = 0.25 * v[..., :-2] + 0.5 * v[..., 1:-1] + 0.25 * v[..., 2:]
    args = {"x": x, "out": poisoned(x.shape, F32), "tiles": np.int32(3)}
    return Problem((2,), args, {"out": Expected(want, 0, 1e-6)})


def bulk_copy(rng: Rng) -> Problem:
    x = rng.integers(-50, 50, (5, 256)).astype(F32)
    sums = rng.integers(-50, 50, 256).astype(F32)
    args = {"x": x, "out": poisoned(x.shape, F32), "sums": sums, "n": np.int32(x.size)}
    expected = {"out": Expected(2 * x + 1), "sums": Expected(sums + (2 * x + 1).sum(0))}
    return Problem((2,), args, expected, frozenset({"sums"}))


def roles(rng: Rng) -> Problem:
    x = integers_in(rng, (5, 64))
    want = (x * np.arange(1, 6)[:, None]).sum(0)
    return Problem(
        (1,), {"x": x, "out": poisoned(64, I32), "rounds": np.int32(5)}, {"out": Expected(want)}
    )


def remote(rng: Rng) -> Problem:
    x = integers_in(rng, (4, 64))
    want = x[[1, 0, 3, 2]] + 64 * 65 // 2
    return Problem((2,), {"x": x, "out": poisoned(x.shape, I32)}, {"out": Expected(want)})


def dependent(rng: Rng) -> Problem:
    n = 200
    x = uniform(rng, n, F32)
    want = Expected(wide(x) ** 2, 2.0**-24)
    return Problem((2,), {"x": x, "out": poisoned(n, F32), "n": np.int32(n)}, {"out": want})
