"""Products and copies for tests of reported failures: run in the emulator on random data and compared with float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tkc
from tkc.emulator import Report

EXAMPLES = Path(__file__).parents[2] / "examples"
GEMM = (EXAMPLES / "gemm_bf16.tk").read_text(encoding="utf-8")
COPY = (EXAMPLES / "tma_copy.tk").read_text(encoding="utf-8")
BOTH = ("sm_90a", "sm_100a")
BF16: Any = ml_dtypes.bfloat16

Array = np.ndarray[Any, Any]


def uniform(*shape: int, dtype: Any = BF16) -> Array:
    return np.random.default_rng().uniform(-1, 1, shape).astype(dtype)


def poison(*shape: int, dtype: Any = BF16) -> Array:
    return np.full(shape, np.nan, dtype)


def check_product(
    text: str, target: str, m: int, n: int, k: int, *, b_rows_are_k: bool = False, **params: int
) -> tuple[tkc.Kernel, Report]:
    """Compiles and emulates a GEMM, and compares it with the exact product, every element of a poisoned C."""
    kernel = tkc.compile(text, target=target, params=params)
    a, b, c = uniform(m, k), uniform(*((k, n) if b_rows_are_k else (n, k))), poison(m, n)
    report = kernel.emulate(a, b, c, sm_count=2)
    assert not report.findings, report.findings
    exact = a.astype(np.float64) @ (b if b_rows_are_k else b.T).astype(np.float64)
    assert np.isfinite(c.astype(np.float32)).all()
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
    return kernel, report


def check_copy(text: str, target: str, m: int, n: int, **params: int) -> tkc.Kernel:
    """Compiles and emulates a copy of a bf16 tensor, bit for bit."""
    kernel = tkc.compile(text, target=target, params=params)
    x, y = uniform(m, n), poison(m, n)
    report = kernel.emulate(x, y, sm_count=2)
    assert not report.findings, report.findings
    assert (x == y).all()
    return kernel
