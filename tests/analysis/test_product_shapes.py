"""Rows and columns that no product of a kind takes: said at the product, whatever else would not fit."""

from __future__ import annotations

import pytest
from programs import EXAMPLES

import tkc


@pytest.mark.parametrize(
    ("name", "params", "line", "told"),
    [
        ("gemm_nvfp4", {"BN": 384}, "d += a @ b.T", "e2m1 product of 128 rows and 384 columns; it takes 16 to 256"),
        ("gemm_nvfp4_2cta", {"BN": 512}, "d[i] += a[i]", "e2m1 product of 256 rows and 512 columns"),
        ("gemm_mxfp8_clc", {"BN": 384}, "d[i] += a[i]", "in steps of 16 (nearest: 256, 240, 224)"),
        ("gemm_bf16_clc", {"BN": 24}, "d[i] += a[i]", "bf16 product of 256 rows and 24 columns"),
        ("gemm_nvfp4_level2", {"BN": 512}, "mma d[i]", "e2m1 product of 128 rows and 512 columns"),
        ("gemm_nvfp4_2cta", {"BM": 128}, "accum  d[HALVES]", "a pair's product takes a multiple of 256"),
        ("gemm_bf16_clc", {"BM": 384}, "accum  d[HALVES]", "has 384 rows; a pair's product takes a multiple of 256"),
    ],
)  # fmt: skip
def test_columns_that_no_product_takes(
    name: str, params: dict[str, int], line: str, told: str
) -> None:
    path = EXAMPLES / f"{name}.tk"
    with pytest.raises(tkc.TkcError) as raised:
        tkc.compile(path, target="sm_100a", params=params)
    (said,) = raised.value.diagnostics
    assert said.code == "TK203"
    assert told in said.message
    assert said.location is not None
    assert line in path.read_text(encoding="utf-8").splitlines()[said.location.line - 1]
