"""Choices by several comparisons of elements, joined by `and`, `or` and `not`, against NumPy; NaNs among them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tkc

PROGRAM = """
kernel choices(X: global[f32, M, N], Y: global[f32, M, N], w: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 32), blocks(N, 32))
    shared t: tile[f32, 32, 32] * 2
    pipe loaded(t): load -> math
    role load:
        for m, n in work:
            put loaded: t <- X[m, n]
    role math, warps 1:
        for m, n in work:
            get loaded: x = read(t)
            y = full(0)
BODY
            Y[m, n] <- y
"""

CONDITIONS = {
    "x > 0 and x < 0.5": lambda x, n, w: (x > 0) & (x < 0.5),
    "x < -0.5 or x >= 0.5": lambda x, n, w: (x < -0.5) | (x >= 0.5),
    "not x > 0": lambda x, n, w: ~(x > 0),
    "not (x > 0 or x == 0)": lambda x, n, w: ~((x > 0) | (x == 0)),
    "x > 0 and w > 3": lambda x, n, w: (x > 0) & (w > 3),
    "w > 3 or x > 0.2 and x != 0.25": lambda x, n, w: (w > 3) | ((x > 0.2) & (x != 0.25)),
    "x > 0 and n < w": lambda x, n, w: (x > 0) & (n < w),
    "n < w or not x < 0": lambda x, n, w: (n < w) | ~(x < 0),
    "x > 0 and 2 > 1 and x < 0.75": lambda x, n, w: (x > 0) & (x < 0.75),
}


@pytest.mark.parametrize("w", [2, 40])
def test_conditions_on_elements_join(w: int, seed: int) -> None:
    lines = [
        f"            y = y + (x if {c} else {i + 2}) * {4**i}" for i, c in enumerate(CONDITIONS)
    ]
    kernel = tkc.compile(PROGRAM.replace("BODY", "\n".join(lines)), target="sm_90a")
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, (40, 72)).astype(np.float32) / 4
    y = np.full_like(x, np.nan)
    report = kernel.emulate(x, y, w, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    n = np.arange(72)[None, :]
    wanted = sum(
        np.where(holds(x, n, w), x, i + 2) * 4.0**i for i, holds in enumerate(CONDITIONS.values())
    )
    np.testing.assert_allclose(y, wanted, rtol=1e-6)


def test_a_nan_meets_no_comparison(seed: int) -> None:
    line = "            y = 1 if x > 0 and x < 1 else 2 if not x < 0 else 3"
    kernel = tkc.compile(PROGRAM.replace("BODY", line), target="sm_100a")
    x = np.random.default_rng(seed).choice(np.array([np.nan, 0.5, -1, 2], np.float32), (32, 32))
    y = np.full_like(x, np.nan)
    assert not kernel.emulate(x, y, 0, sm_count=1).findings
    np.testing.assert_array_equal(y, np.where((x > 0) & (x < 1), 1, np.where(x < 0, 3, 2)))


def test_sines_and_the_error_function_are_as_near_when_compiled(seed: int) -> None:
    """What the formulas rest on, sums that round to whole numbers and exact products, is still so in PTX."""
    kernel = tkc.compile(
        PROGRAM.replace("BODY", "            y = sin(x) + cos(x) * 4 + erf(x / 50) * 16")
    )
    x = np.random.default_rng(seed).uniform(-200, 200, (40, 72)).astype(np.float32)
    y = np.full_like(x, np.nan)
    assert not kernel.emulate(x, y, 0, sm_count=1).findings
    wide = x.astype(np.float64)
    wanted = np.sin(wide) + 4 * np.cos(wide) + 16 * np.vectorize(math.erf)(wide / 50)
    np.testing.assert_allclose(y, wanted, atol=1e-5)
