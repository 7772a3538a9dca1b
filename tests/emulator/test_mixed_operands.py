"""Products of operands of two types, where the tensor core mixes them, against float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from programs import EXAMPLES, changed

import tkc

RNG = np.random.default_rng()
TYPES: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
EXAMPLE = {"e4m3": "gemm_e4m3", "e5m2": "gemm_e4m3", "bf16": "gemm_bf16", "f16": "gemm_bf16"}


def text(a: str, b: str) -> str:
    """A GEMM of operands of these types."""
    name = EXAMPLE.get(a, "gemm_int8")
    was = name.removeprefix("gemm_").replace("int8", "s8")
    return changed(
        (EXAMPLES / f"{name}.tk").read_text(encoding="utf-8"),
        (f"A: global[{was}", f"A: global[{a}"),
        (f"B: global[{was}", f"B: global[{b}"),
        (f"a: tile[{was}", f"a: tile[{a}"),
        (f"b: tile[{was}", f"b: tile[{b}"),
    )


def values(rows: int, k: int, dtype: str) -> Any:
    if dtype in ("s8", "u8"):
        return RNG.integers(0 if dtype == "u8" else -128, 128, (rows, k)).astype(TYPES[dtype])
    return RNG.standard_normal((rows, k)).astype(TYPES[dtype])


@pytest.mark.parametrize(
    ("a", "b", "target"),
    [
        ("e4m3", "e5m2", "sm_100a"),
        ("e5m2", "e4m3", "sm_90a"),
        ("bf16", "f16", "sm_100a"),
        ("s8", "u8", "sm_100a"),
        ("u8", "s8", "sm_90a"),
    ],
)
def test_operands_of_two_types(a: str, b: str, target: str) -> None:
    m, n, k = 200, 72, 144
    kernel = tkc.compile(text(a, b), target=target, params={"BN": 64, "STAGES": 2})
    left, right, c = values(m, k, a), values(n, k, b), np.full((m, n), np.nan, TYPES["bf16"])
    factor = [0.5] if a in ("s8", "u8") else []
    report = kernel.emulate(
        left, right, c, *factor, sm_count=4, schedule="random", seed=int(RNG.integers(1 << 30))
    )
    assert not report.findings, report.findings[0]
    exact = left.astype(np.float64) @ right.astype(np.float64).T * (0.5 if factor else 1)
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)


def test_what_no_target_mixes_is_refused_and_so_is_what_this_one_does_not() -> None:
    with pytest.raises(tkc.TkcError, match="`@` of bf16 and e4m3: operands have one dtype, or two"):
        tkc.compile(text("bf16", "e4m3"))
    with pytest.raises(tkc.TkcError, match="sm_90a has no product of bf16 and f16 into f32"):
        tkc.compile(text("bf16", "f16"), target="sm_90a")
