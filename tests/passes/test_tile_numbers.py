"""`tile_sum`, `tile_max`, `tile_min`: a tile as one number, over all warps of a role, against NumPy's float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tkc
from tkc.analysis.happens_before import check
from tkc.diagnostics import TkcError

Array = np.ndarray[Any, Any]

LOSS = """
kernel loss(X: global[f32, M, N], T: global[f32, M, N], L: global[f32, 4], P: global[f32, Q]):
    param R = 64, W = 2
    launch persistent
    schedule work: m, n in tiles(blocks(M, R), blocks(N, 32))
    shared x: tile[f32, R, 32] * 2
    shared t: tile[f32, R, 32] * 2
    pipe rows(x, t): load -> math
    role load:
        for m, n in work:
            put rows:
                x <- X[m, n]
                t <- T[m, n]
    role math, warps W:
        total = 0
        most = -inf
        seen = 0
        for m, n in work:
            get rows: e = read(x) - read(t) + 1
            mask e where n < 29
            s = tile_sum(e * e)
            total = total + s
            most = max(most, tile_max(e))
            low = tile_min(row_max(e))
            if s > 100:
                seen = seen + 1
            elect: P[m.index] <- low
        elect:
            atomic_add(L[0], total)
            atomic_add(L[1], f32(seen))
            L[2 + unit] <- most
"""
"""A sum that loops carry, a condition on it, and what is masked: rows and columns beyond the arrays, and columns from 29."""


@pytest.mark.parametrize(
    ("target", "rows", "warps", "shape"),
    [("sm_90a", 64, 2, (130, 24)), ("sm_100a", 32, 1, (70, 32)), ("sm_90a", 256, 4, (300, 28)), ("sm_100a", 96, 3, (40, 32))],
)  # fmt: skip
def test_numbers_of_tiles_of_any_rows(
    target: str, rows: int, warps: int, shape: tuple[int, int]
) -> None:
    rng = np.random.default_rng()
    x, t = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    found = np.zeros(4, np.float32)
    low = np.full(-(-shape[0] // rows), np.nan, np.float32)
    kernel = tkc.compile(LOSS, target=target, params={"R": rows, "W": warps})
    report = kernel.emulate(x, t, found, low, sm_count=1, schedule="random")
    assert not report.findings
    e = (x.astype(np.float64) - t + 1)[:, :29]
    blocks = [e[i : i + rows] for i in range(0, shape[0], rows)]
    sums = [(b * b).sum() for b in blocks]
    assert all(abs(s - 100) > 0.01 for s in sums), "a sum that near says nothing: run again"
    np.testing.assert_allclose(found[0], sum(sums), rtol=1e-5)
    assert found[1] == sum(s > 100 for s in sums)
    np.testing.assert_allclose(found[2], e.max(), rtol=1e-6)
    np.testing.assert_allclose(low, [b.max(1).min() for b in blocks], rtol=1e-5, atol=1e-6)
    assert check(kernel.module("insert-fences")) == []


SMALL = """
kernel k(X: global[f32, M, N], S: global[f32, M], V: global[f32, 32]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared x: tile[f32, 128, 32] * 2
    pipe rows(x): load -> math
    role load:
        for m in work:
            for j in blocks(N, 32):
                put rows: x <- X[m, j]
    role math, warps 4:
        for m in work:
            for j in blocks(N, 32):
                get rows: v = read(x)
                {}
"""


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("y = tile_sum(3)", "TK106", "`tile_sum` takes a tile, or one value a row, not the number 3"),
        ("y = tile_max(col_max(v))", "TK106", "`tile_max` takes a tile, or one value a row"),
        ("y = tile_min(bf16(v))", "TK110", "make it f32"),
        ("y = tile_summ(v)", "TK102", "did you mean `tile_sum`"),
        ("elect: S[0] <- tile_sum(v)", "TK121", "`tile_sum` stands in an election"),
        ("elect: y = col_sum(v)", "TK121", "`col_sum` stands in an election"),
        ("if warp == 0: S[0] <- tile_sum(row_sum(v))", "TK121", "takes all threads of the role"),
    ],
)  # fmt: skip
def test_what_takes_no_number_says_what_does(statement: str, code: str, said: str) -> None:
    with pytest.raises(TkcError) as caught:
        tkc.compile(SMALL.format(statement), target="sm_90a")
    found = caught.value.diagnostics[0]
    assert found.code == code
    assert said in found.message
    assert found.location is not None
    assert found.location.line == 15


def test_a_put_on_a_number_of_data_is_refused() -> None:
    source = SMALL.format("if tile_sum(v) > 0:\n                    get rows: w = read(x)")
    with pytest.raises(TkcError) as caught:
        tkc.compile(source, target="sm_90a")
    assert caught.value.diagnostics[0].code == "TK109"
