"""Every tensor-core GEMM for sm_100a in every form: operands, accumulators, CTAs, scheduler, stages, sizes, schedules.

All of it: `pytest -m soak tests/emulator/test_gemm_matrix.py`, and `TKC_SLICE=3/16` before it for the third of 16 parts.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from programs import changed
from rounding import allowed

import tkc
from tkc import scales

EXAMPLES = Path(__file__).parents[2] / "examples"
BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng()
Array = np.ndarray[Any, Any]


class Operands(NamedTuple):
    """A kernel's file and its launch, the elements of A and B, their scales if any, columns of K in a stage."""

    file: str
    launch: str
    dtype: str
    scale: str = ""
    block: int = 0
    alpha: type | None = None


STEALING = "launch clc, pair, cluster(2, preferred = 4), dependent"
OPERANDS = {
    "bf16": Operands("gemm_bf16_clc", STEALING, "bf16"),
    "e4m3": Operands("gemm_e4m3_clc", STEALING, "e4m3", alpha=np.ndarray),
    "MXFP8": Operands("gemm_mxfp8_clc", STEALING, "e4m3", "ue8m0", 32),
    "MXFP4": Operands("gemm_mxfp4_clc", STEALING, "e2m1", "ue8m0", 32),
    "NVFP4": Operands("gemm_nvfp4_2cta", "launch persistent, pair", "e2m1", "ue4m3", 16, float),
}
LAUNCHES = {
    "one CTA": "launch persistent",
    "pair": "launch persistent, pair",
    "one CTA, stealing": "launch clc",
    "pair, stealing": STEALING,
}
STAGES = {1: (1, 2, 3, 4, 5), 2: (1, 2, 3)}
"""As many as fit in shared memory, by tiles of A in one."""
SIZES = ((1, 8, 32), (530, 136, 288), (1030, 264, 544), (300, 520, 0), (260, 136, 1824))
SCHEDULES = ("eager", "lazy", "random", "pct")


class Case(NamedTuple):
    operands: str
    launch: str
    halves: int
    stages: int
    turn: int
    """Chooses sizes and schedule: every two of them come with every launch."""

    def __str__(self) -> str:
        return f"{self.operands}, {self.launch}, {self.halves} halves, {self.stages} stages, {self.turn}"

    @property
    def sizes(self) -> tuple[int, int, int]:
        return SIZES[self.turn]

    @property
    def schedule(self) -> str:
        return SCHEDULES[(self.turn + self.stages) % len(SCHEDULES)]


ALL = [
    Case(operands, launch, halves, stages, turn)
    for operands, launch, halves in product(OPERANDS, LAUNCHES, STAGES)
    for stages, turn in product(STAGES[halves], range(len(SIZES)))
]
SHORT = [
    Case("bf16", "pair", 2, 2, 1),
    Case("e4m3", "one CTA, stealing", 1, 3, 4),
    Case("MXFP8", "pair, stealing", 2, 3, 1),
    Case("MXFP4", "pair, stealing", 1, 2, 3),
    Case("MXFP8", "one CTA", 1, 5, 1),
    Case("NVFP4", "pair", 1, 4, 1),
]
"""What every run of the suite does: each kind of operands, each launch and both forms once."""


def part() -> list[Case]:
    """The part of all cases that the environment asks for."""
    index, _, count = os.environ.get("TKC_SLICE", "1/1").partition("/")
    return ALL[int(index) - 1 :: int(count)]


def operand(rows: int, k: int, o: Operands) -> tuple[Any, Array, float]:
    """What is passed, what it stands for in float64, and its global scale. Blocks of scales differ by orders of
    magnitude, so that a scale in the wrong place shows."""
    values = RNG.standard_normal((rows, k))
    if not o.scale:
        given = values.astype({"bf16": BF16, "e4m3": ml_dtypes.float8_e4m3fn}[o.dtype])
        return given, given.astype(np.float64), 1.0
    spread = np.exp2(RNG.integers(-5, 5, (rows, -(-k // o.block)))).repeat(o.block, 1)[:, :k]
    made = scales.quantise(values * spread, o.dtype, scale=o.scale, block=o.block)
    real = scales.dequantise(made.data, made.scales, o.dtype, scale=o.scale, block=o.block)
    return (made.data, scales.interleave(made.scales, o.scale)), real, made.global_scale


def check(case: Case) -> None:
    """Against float64, on fresh numbers; every element is written and nothing is found."""
    o = OPERANDS[case.operands]
    text = (EXAMPLES / f"{o.file}.tk").read_text(encoding="utf-8")
    text = changed(text, (o.launch, LAUNCHES[case.launch]))
    rows = 256 if "pair" in case.launch else 128
    params = {"BM": rows, "BN": 128, "STAGES": case.stages, "HALVES": case.halves}
    kernel = tkc.compile(text, target="sm_100a", params=params)
    m, n, k = case.sizes
    (a, real_a, of_a), (b, real_b, of_b) = (operand(rows, k, o) for rows in (m, n))
    alpha = of_a * of_b * RNG.uniform(0.5, 2) if o.alpha else 1.0
    scalars = [np.array(alpha, np.float32) if o.alpha is np.ndarray else alpha] if o.alpha else []
    c = np.full((m, n), np.nan, BF16)
    seed = int(RNG.integers(1 << 30))
    report = kernel.emulate(a, b, c, *scalars, sm_count=4, schedule=case.schedule, seed=seed)
    assert not report.findings, f"{case}, seed {seed}: {report.findings[0]}"
    exact = real_a @ real_b.T * alpha
    error = np.linalg.norm(c.astype(np.float64) - exact)
    assert error <= allowed(exact, BF16, 3e-3), f"{case}, seed {seed}: {error:.2e}"


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_a_few_forms(case: Case) -> None:
    check(case)


@pytest.mark.soak
@pytest.mark.parametrize("launch", LAUNCHES)
@pytest.mark.parametrize("operands", OPERANDS)
def test_every_form(operands: str, launch: str) -> None:
    for case in part():
        if (case.operands, case.launch) == (operands, launch):
            check(case)


def test_the_parts_are_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[Case] = []
    for index in range(1, 17):
        monkeypatch.setenv("TKC_SLICE", f"{index}/16")
        parts += part()
    assert sorted(parts) == sorted(ALL)
    seen = {(c.operands, c.launch, c.sizes, c.schedule) for c in ALL}
    every = product(OPERANDS, LAUNCHES, SIZES, SCHEDULES)
    assert seen == set(every)


@pytest.mark.parametrize(("operands", "target"), [("bf16", "sm_100a"), ("NVFP4", "sm_107a")])
def test_one_tile_of_a_meets_two_of_b(operands: str, target: str) -> None:
    """Two accumulators the other way round: side by side."""
    o = OPERANDS[operands]
    text = changed(
        (EXAMPLES / f"{o.file}.tk").read_text(encoding="utf-8").replace(", evict_last", ""),
        ("blocks(M, HALVES * BM), blocks(N, BN)", "blocks(M, BM), blocks(N, HALVES * BN)"),
        ("a[HALVES]: tile", "a: tile"),
        ("b: tile", "b[HALVES]: tile"),
        ("a[i] <- A[m.part(i, HALVES), k]", "b[i] <- B[n.part(i, HALVES), k]"),
        ("b <- B[n, k]", "a <- A[m, k]"),
        ("a[i] @ b.T", "a @ b[i].T"),
        ("C[m.part(i, HALVES), n]", "C[m, n.part(i, HALVES)]"),
    )
    params = {"HALVES": 2, "BN": 128, "STAGES": 2}
    kernel = tkc.compile(text, target=target, params=params)
    (a, real_a, of_a), (b, real_b, of_b) = (operand(rows, 288, o) for rows in (530, 392))
    c, alpha = np.full((530, 392), np.nan, BF16), [of_a * of_b] if o.alpha else []
    seed = int(RNG.integers(1 << 30))
    report = kernel.emulate(a, b, c, *alpha, sm_count=4, schedule="random", seed=seed)
    assert not report.findings, f"seed {seed}: {report.findings[0]}"
    exact = real_a @ real_b.T * of_a * of_b
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
