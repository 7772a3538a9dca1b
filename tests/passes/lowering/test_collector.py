"""Products that share B take turns where the target keeps B, and nowhere else."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cases.products import EXAMPLES, poison, uniform
from programs import changed

import tkc

DUAL = (EXAMPLES / "gemm_dual.tk").read_text(encoding="utf-8")
FILLED = ["fill", "lastuse"]


def hints(text: str, target: str = "sm_107a", **params: int) -> list[str]:
    """What each product says of B: a hint, or nothing."""
    ptx = tkc.compile(text, target=target, params=params).ptx
    return re.findall(r"tcgen05\.mma[\w.:]*?(?:\.collector::b::(\w+))? \[", ptx)


def test_two_accumulators_take_turns_at_each_step() -> None:
    assert hints(DUAL) == FILLED * 4
    assert hints(DUAL, "sm_103a") == [""] * 8


@pytest.mark.soak
def test_blocks_of_rows_of_both_take_turns() -> None:
    assert hints(DUAL, BM=256, BN=64, STAGES=2) == ["fill", "use", "use", "lastuse"] * 4


def test_sums_into_one_accumulator_keep_their_order() -> None:
    """Of three products, those that share no accumulator take turns."""
    first, second = "d0 += a0 @ b.T\n", "d1 += a1 @ b.T\n"
    late = changed(DUAL, (first, "d0 += a0 @ b.T; d1 += a0 @ b.T\n"), (second, "d0 += a1 @ b.T\n"))
    assert hints(late) == [*FILLED * 4, *[""] * 4]
    early = changed(DUAL, (second, "d0 += a1 @ b.T; d1 += a1 @ b.T\n"))
    assert hints(early) == [*[""] * 4, *FILLED * 4]


@pytest.mark.soak
def test_other_tiles_of_b_are_not_shared() -> None:
    text = changed(
        DUAL,
        ("shared b:", "shared c: tile[bf16, BN, BK] * STAGES\n    shared b:"),
        ("inputs(a0, a1, b)", "inputs(a0, a1, b, c)"),
        ("b <- B[n, k]\n", "b <- B[n, k]\n                    c <- B[n, k]\n"),
        ("d1 += a1 @ b.T", "d1 += a1 @ c.T"),
    )
    assert hints(text, STAGES=2) == [""] * 8


@pytest.mark.soak
def test_scales_between_products_are_copied_before_both() -> None:
    ptx = tkc.compile(EXAMPLES / "gemm_nvfp4_2cta.tk", target="sm_107a").ptx
    words = re.findall(r"tcgen05\.(cp|mma)\b", ptx)
    assert words == ["cp"] * 12 + ["mma"] * 4


def test_the_sums_are_right() -> None:
    a, b, c = uniform(300, 136), uniform(136, 136), poison(300, 136)
    report = tkc.compile(DUAL, target="sm_107a").emulate(a, b, c, sm_count=2, schedule="random")
    assert not report.findings
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
