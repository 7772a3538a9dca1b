"""Vectors in slots that the program numbers: beside a tile where they are used, and held where something comes between."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc
from tests.analysis.bug_cases import changed

SOURCE = """\
kernel k(X: global[f32, M, D], S: global[bf16, M], G: global[f32, D], Y: global[f32, M, D]):
    param D = 96, BM = 64
    launch persistent
    schedule work: m in tiles(blocks(M, BM))
    shared x: tile[f32, BM, D]
    shared s: vector[bf16, BM]
    shared g: vector[f32, D]
    barrier full, count = 1
    barrier empty, count = 2
    role load:
        phase = 0
        for m in work:
            for d in blocks(D, D):
                wait empty, phase ^ 1
                elect:
                    expect full, bytes(x, s, g)
                    load x <- X[m, d], full
                    load s <- S[m], full
                    load g <- G[d], full
                phase = phase ^ 1
    role math, warps 2:
        phase = 0
        for m in work:
            for d in blocks(D, D):
                wait full, phase
                MADE
                Y[m, d] <- read(x) * ROWS + COLUMNS
                fence proxy shared
                sync warp
                arrive empty, each = warp
                phase = phase ^ 1
"""
ROWS, COLUMNS = "column(f32(read(s)))", "row(read(g))"
WAYS = {
    "where they are used": ("pass_ = 0", ROWS, COLUMNS),
    "ahead": (f"r = {ROWS}; c = {COLUMNS}; sync role", "r", "c"),
    "ahead, beside a tile of their shape": (
        f"s_ = f32(read(s)); c = {COLUMNS}; sync role",
        "column(s_)",
        "c",
    ),
}


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("way", WAYS)
def test_what_a_slot_holds_is_spread_over_rows_and_columns(way: str, target: str) -> None:
    made, rows, columns = WAYS[way]
    text = changed(SOURCE, ("MADE", made), ("ROWS", rows), ("COLUMNS", columns))
    rng = np.random.default_rng(5)
    x: Any = rng.normal(size=(100, 96)).astype(np.float32)
    s: Any = rng.normal(size=100).astype(ml_dtypes.bfloat16)
    g: Any = rng.normal(size=96).astype(np.float32)
    y = np.full_like(x, np.nan)
    report = tkc.compile(text, target=target).emulate(x, s, g, y, sm_count=1)
    assert not report.findings
    right = x.astype(np.float64) * s.astype(np.float64)[:, None] + g.astype(np.float64)
    np.testing.assert_allclose(y, right, rtol=1e-6, atol=1e-6)
