"""Roles in which one thread issues products and all read tiles: one election, right answers, no loop over lanes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from programs import GEMM, changed

import tkc
from tkc.backend.sass import serial_loops
from tkc.backend.tools import find
from tkc.diagnostics import TkcError

COPY = "E[m, k] <- bf16(f32(read(a)))"
ARGUMENT = ("C: global[bf16, M, N])", "C: global[bf16, M, N], E: global[bf16, M, K])")
PRODUCT = "d += a @ b.T"
STAGES = ("STAGES = 4", "STAGES = 3")

PROGRAMS = {
    "two warps": (("role math:", "role math, warps 2:"),),
    "four warps": (("role math:", "role math, warps 4:"),),
    "reads after": (ARGUMENT, STAGES, (PRODUCT, f"{PRODUCT}; {COPY}")),
    "reads before": (ARGUMENT, STAGES, (PRODUCT, f"{COPY}; {PRODUCT}")),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_of_a_mixed_role_are_issued_once(name: str) -> None:
    kernel = tkc.compile(changed(GEMM, *PROGRAMS[name]), target="sm_100a")
    rng = np.random.default_rng()
    m, n, k = 200, 264, 136
    a, b = (rng.uniform(-1, 1, (x, k)).astype(ml_dtypes.bfloat16) for x in (m, n))
    c = np.full((m, n), np.nan, ml_dtypes.bfloat16)
    arrays = [a, b, c]
    if ARGUMENT in PROGRAMS[name]:
        arrays.append(np.full((m, k), np.nan, ml_dtypes.bfloat16))
    report = kernel.emulate(*arrays, sm_count=2, schedule="random", seed=int(rng.integers(1000)))
    assert report.clean
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) < 3e-3 * np.linalg.norm(exact)
    for copy in arrays[3:]:
        assert (copy == a).all()
    if find("ptxas") and find("nvdisasm"):
        assert serial_loops(kernel.sass()) == []


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_clear_after_a_product_is_refused(target: str) -> None:
    text = GEMM.replace(PRODUCT, PRODUCT + "\n                d = 0")
    with pytest.raises(TkcError, match="clearing an accumulator after a product"):
        tkc.compile(text, target=target)
