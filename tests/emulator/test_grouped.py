"""Grouped GEMMs: how many rows a group has, the kernel alone knows; on fresh random data, against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc import scales
from tkc.emulator.machine import SCHEDULES

EXAMPLES = Path(__file__).parents[2] / "examples"
GROUPED = (EXAMPLES / "gemm_grouped.tk").read_text(encoding="utf-8")
BF16 = ml_dtypes.bfloat16
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng()
BOUND = 3e-3
ROWS = [0, 130, 1, 128]
"""Of 200: none, a block and a bit, one, a block."""


def check_groups(c: Array, before: Array, wanted: list[Array], rows: list[int], bm: int) -> None:
    """Rows of a group are right, and blocks beyond them untouched."""
    for i, count in enumerate(rows):
        error = np.linalg.norm(c[i, :count].astype(np.float64) - wanted[i][:count])
        assert error <= BOUND * (np.linalg.norm(wanted[i][:count]) or 1), f"group {i}: {error}"
        untouched = slice(-(-count // bm) * bm, None)
        assert (c[i, untouched].view(np.uint16) == before[i, untouched].view(np.uint16)).all()


def launched(kernel: tkc.Kernel, *arguments: Any) -> None:
    schedule, seed = str(RNG.choice(SCHEDULES)), int(RNG.integers(1 << 30))
    report = kernel.emulate(*arguments, sm_count=2, schedule=schedule, seed=seed)
    found = "\n".join(map(str, report.findings))
    assert not report.findings, f"{schedule}, seed {seed}\n{found}"


@pytest.mark.parametrize(
    ("target", "k"),
    [
        ("sm_90a", 72),
        ("sm_100a", 72),
        ("sm_100a", 0),
        pytest.param("sm_90a", 0, marks=pytest.mark.soak),
    ],
)
def test_gemm_grouped(target: str, k: int) -> None:
    """SHP-5, too: empty groups, groups that end inside a block, K of 0."""
    rows = [int(r) for r in RNG.permutation(ROWS)]
    a = RNG.uniform(-1, 1, (4, 200, k)).astype(BF16)
    b = RNG.uniform(-1, 1, (4, 136, k)).astype(BF16)
    c = np.full((4, 200, 136), np.nan, BF16)
    before = c.copy()
    kernel = tkc.compile(GROUPED, target=target, params={"STAGES": 2})
    launched(kernel, np.array(rows, np.int32), a, b, c)
    wanted = list(a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1))
    check_groups(c, before, wanted, rows, 128)


@pytest.mark.parametrize("target", ["sm_100a", pytest.param("sm_90a", marks=pytest.mark.soak)])
def test_rows_of_all_groups_in_a_row(target: str) -> None:
    """Blocks of rows say which group they are of, or that they are of none; an element is an index, too."""
    text = GROUPED
    for old, new in (
        (
            "rows: const global[i32, G], A: global[bf16, G, M, K]",
            "of: const global[i32, BLOCKS], A: global[bf16, M, K]",
        ),
        ("C: global[bf16, G, M, N]", "C: global[bf16, M, N]"),
        ("g, m, n in tiles(G, ", "m, n in tiles("),
        ("for g, m, n in", "for m, n in"),
        ("if m.index * BM < read(rows[g]):", "if read(of[m.index]) >= 0:"),
        ("A[g, m, k]", "A[m, k]"),
        ("B[g, n, k]", "B[read(of[m.index]), n, k]"),
        ("C[g, m, n]", "C[m, n]"),
    ):
        assert old in text
        text = text.replace(old, new)
    groups = np.array([2, -1, 0, 2], np.int32)
    a = RNG.uniform(-1, 1, (500, 136)).astype(BF16)
    b = RNG.uniform(-1, 1, (3, 136, 136)).astype(BF16)
    c = np.full((500, 136), np.nan, BF16)
    launched(tkc.compile(text, target=target, params={"STAGES": 2}), groups, a, b, c)
    for block, group in zip(range(0, 500, 128), groups, strict=True):
        made = c[block : block + 128].astype(np.float64)
        if group < 0:
            assert np.isnan(made).all()
            continue
        wanted = a[block : block + 128].astype(np.float64) @ b[group].astype(np.float64).T
        assert np.linalg.norm(made - wanted) <= BOUND * np.linalg.norm(wanted)


def test_block_scaled_groups() -> None:
    text = GROUPED
    for old, new in (
        ("A: global[bf16, G, M, K]", "A: global[e2m1, G, M, K, scale = ue4m3 / 16]"),
        ("B: global[bf16, G, N, K]", "B: global[e2m1, G, N, K, scale = ue4m3 / 16]"),
        ("a: tile[bf16, BM, BK]", "a: tile[e2m1, BM, BK, scale = ue4m3 / 16]"),
        ("b: tile[bf16, BN, BK]", "b: tile[e2m1, BN, BK, scale = ue4m3 / 16]"),
        ("BK = 64, STAGES = 4", "BK = 256, STAGES = 2"),
    ):
        assert old in text
        text = text.replace(old, new)

    def operand(count: int) -> tuple[tuple[Array, Array], Array]:
        made = [
            scales.quantise(RNG.standard_normal((count, 288)), "e2m1", scale="ue4m3", block=16)
            for _ in ROWS
        ]
        real = [scales.dequantise(q.data, q.scales, "e2m1", scale="ue4m3", block=16) for q in made]
        parts = (
            np.stack([q.data for q in made]),
            np.stack([scales.interleave(q.scales, "ue4m3") for q in made]),
        )
        return parts, np.stack(real)

    rows = [int(r) for r in RNG.permutation(ROWS)]
    (a, real_a), (b, real_b) = operand(200), operand(136)
    c = np.full((4, 200, 136), np.nan, BF16)
    before = c.copy()
    launched(tkc.compile(text, target="sm_100a"), np.array(rows, np.int32), a, b, c)
    check_groups(c, before, list(real_a @ real_b.transpose(0, 2, 1)), rows, 128)
