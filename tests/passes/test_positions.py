"""`f32(n)`: where an element stands, as a number beside a tile; the largest element's place, and biases by distance."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tkc
from tests.programs import product

ROWS = """
kernel places(X: global[f32, M, N], P: global[f32, M], Y: global[f32, M, N], slope: f32):
    param BM = 64, BN = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared t: tile[f32, BM, BN] * 2
    pipe loaded(t): load -> math
    role load:
        for m, n in work:
            put loaded: t <- X[m, n]
    role math, warps 2:
        for m, n in work:
            get loaded: x = read(t)
            Y[m, n] <- x - slope * f32(m - 2 * n + 3)
            if n.first:
                P[m] <- row_min(f32(n) if x == row_max(x) else inf)
"""


@pytest.mark.parametrize(("target", "bn"), [("sm_90a", 64), ("sm_100a", 64), ("sm_100a", 32)])
def test_positions_are_numbers_beside_a_tile(target: str, bn: int, seed: int) -> None:
    """Where both axes have as many elements, too: a tile knows which block its rows are."""
    kernel = tkc.compile(ROWS, target=target, params={"BN": bn})
    rng = np.random.default_rng(seed)
    x = rng.permutation(90 * bn).reshape(90, bn).astype(np.float32)
    y, places = np.full_like(x, np.nan), np.full(90, np.nan, np.float32)
    report = kernel.emulate(x, places, y, 0.5, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    assert places.astype(int).tolist() == x.argmax(1).tolist()
    m, n = np.ogrid[:90, :bn]
    np.testing.assert_allclose(y, x - 0.5 * (m - 2 * n + 3))


PRODUCT = product(
    "get result: C[m, n] <- read(d) + exp2(f32(n - m) * 0.125) * 2",
    arguments="C: global[f32, M, N]",
    params="BM = 128, BN = 64, BK = 64",
)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_positions_stand_beside_a_product(target: str, seed: int) -> None:
    kernel = tkc.compile(PRODUCT, target=target)
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (rows, 72)).astype(ml_dtypes.bfloat16) for rows in (150, 136))
    c = np.full((150, 136), np.nan, np.float32)
    report = kernel.emulate(a, b, c, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    m, n = np.ogrid[:150, :136]
    wanted = a.astype(float) @ b.astype(float).T + 2 * np.exp2((n - m) / 8)
    np.testing.assert_allclose(c, wanted, rtol=1e-5, atol=1e-3)


STORE = "Y[m, n] <- x - slope * f32(m - 2 * n + 3)"
WRONG = [
    "z = f32(n) * slope", "Y[m, n] <- f32(n)", "z = row_sum(f32(n))", "print(f32(n))", "assert f32(n) > 3, \"no\"",
    "if f32(n) > 3: Y[m, n] <- x", "Y[m, n] <- x + full(f32(n))", "Y[m, n] <- bf16(f32(n))",
    "Y[m, n] <- x if f32(n) > 3 else 0",
]  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_positions_without_a_tile_are_refused(line: str) -> None:
    assert STORE in ROWS
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(ROWS.replace(STORE, line))
    said = raised.value.diagnostics[0]
    assert said.code == "TK106"
    assert "positions as numbers" in said.message
    assert said.location is not None
