"""Launching block-scaled arguments: pairs of arrays, and every mistake with the numbers that were meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc import scales
from tkc.backend.contract import check_kernel
from tkc.diagnostics import TkcError

EXAMPLES = Path(__file__).parents[2] / "examples"
RNG = np.random.default_rng()


@pytest.fixture(scope="module")
def nvfp4() -> tkc.Kernel:
    return tkc.compile(EXAMPLES / "gemm_nvfp4.tk")


@pytest.fixture(scope="module")
def mxfp4() -> tkc.Kernel:
    return tkc.compile(EXAMPLES / "gemm_mxfp4.tk")


def data(rows: int, k: int) -> Any:
    return RNG.integers(0, 256, (rows, k // 2), dtype=np.uint8)


def packed(rows: int, k: int, block: int = 16) -> Any:
    plain = RNG.integers(1, 120, (rows, -(-k // block)), dtype=np.uint8)
    return scales.interleave(plain, "ue4m3")


def out(m: int, n: int) -> Any:
    return np.zeros((m, n), ml_dtypes.bfloat16)


def said(kernel: tkc.Kernel, *arrays: Any, **named: Any) -> list[tuple[str, str]]:
    with pytest.raises(TkcError) as raised:
        kernel.emulation(*arrays, **named)
    return [(d.code, d.message) for d in raised.value.diagnostics]


def maps(launch: Any) -> list[Any]:
    """The operands of the tensor maps of a launch, in the order of its parameters."""
    return [a.tiled for a in launch["args"] if isinstance(a, tkc.TensorMap)]


def test_a_pair_may_come_in_one_or_two_and_by_name(nvfp4: tkc.Kernel) -> None:
    a, sa, b, sb, c = data(130, 96), packed(130, 96), data(8, 96), packed(8, 96), out(130, 8)
    ways = [
        nvfp4.emulation((a, sa), (b, sb), c, 1.0),
        nvfp4.emulation([a, sa], b, sb, c, 1.0),
        nvfp4.emulation(a, sa, (b, sb), c, alpha=1.0),
        nvfp4.emulation((a, sa), C=c, alpha=1.0, B=(b, sb)),
        nvfp4.emulation(**{"A": a, "A.scales": sa, "B": (b, sb), "C": c, "alpha": 1.0}),
    ]
    for way in ways:
        assert way is not None
        assert maps(way) == maps(ways[0])


def test_the_maps_are_of_whole_atoms(nvfp4: tkc.Kernel) -> None:
    launch = nvfp4.emulation(
        (data(130, 96), packed(130, 96)), (data(8, 96), packed(8, 96)), out(130, 8), 1.0
    )
    assert launch is not None
    elements, atoms = maps(launch)[:2]
    assert (elements.type.name, elements.sizes, elements.strides) == (
        "16U4_ALIGN8B",
        (96, 130),
        (48,),
    )
    assert (atoms.sizes, atoms.strides, atoms.box) == ((128, 2, 2), (512, 1024), (128, 4, 1))
    assert atoms.transaction_bytes == 4 * 512


def test_bsc_1_scales_that_are_not_padded(nvfp4: tkc.Kernel) -> None:
    found = said(
        nvfp4,
        (data(130, 96), np.ones(130 * 6, np.uint8)),
        (data(8, 96), packed(8, 96)),
        out(130, 8),
        1.0,
    )
    assert found == [
        (
            "TK407",
            "A.scales holds 780 scales; A has 130 rows of 6 (96 elements in blocks of 16), which are padded to "
            "256 x 8 = 2048: tkc.scales.interleave does so",
        )
    ]


def test_bsc_5_ninety_scales_to_a_row_become_ninety_two(mxfp4: tkc.Kernel) -> None:
    made = scales.quantise(RNG.standard_normal((64, 2880)), "e2m1")
    pair = (made.data, scales.interleave(made.scales))
    assert pair[1].shape == (128 * 92,)
    assert mxfp4.emulation(pair, pair, out(64, 64)) is not None
    ((code, message),) = said(mxfp4, pair, (made.data, np.ones(64 * 90, np.uint8)), out(64, 64))
    assert code == "TK407"
    assert (
        "64 rows of 90 (2880 elements in blocks of 32), which are padded to 128 x 92 = 11776"
        in message
    )


def test_row_major_scales_are_refused(nvfp4: tkc.Kernel) -> None:
    """Also where their number would be right: the order would not."""
    made = scales.quantise(RNG.standard_normal((128, 64)), "e2m1", scale="ue4m3", block=16)
    right = (made.data, scales.interleave(made.scales, "ue4m3"))
    assert right[1].size == made.scales.size
    ((code, message),) = said(nvfp4, (made.data, made.scales), right, out(128, 128), 1.0)
    assert code == "TK402"
    assert (
        "A.scales has rank 2 (shape (128, 4)), as row-major scales have; expected rank 1" in message
    )
    ((code, message),) = said(nvfp4, made, right, out(128, 128), 1.0)
    assert code == "TK401"
    assert "A is block-scaled: expected its data and its scales" in message
    assert "tkc.scales.interleave(q.scales)" in message


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e8m0fnu, np.float32, ml_dtypes.float8_e5m2])
def test_scales_of_another_dtype(nvfp4: tkc.Kernel, dtype: Any) -> None:
    wrong = packed(8, 96).astype(dtype)
    found = said(nvfp4, (data(130, 96), packed(130, 96)), (data(8, 96), wrong), out(130, 8), 1.0)
    assert [code for code, _ in found] == ["TK403"]
    assert found[0][1].startswith("B.scales holds ")
    assert "expected ue4m3" in found[0][1]


def test_arguments_that_are_missing_or_too_many(nvfp4: tkc.Kernel) -> None:
    a, sa, c = data(8, 96), packed(8, 96), out(8, 8)
    ((code, message),) = said(nvfp4, a, (a, sa), c, 1.0)
    assert code == "TK401"
    ((code, message),) = said(nvfp4, (a, sa), (a, sa), c)
    assert (code, "alpha missing" in message) == ("TK401", True)
    ((code, message),) = said(nvfp4, (a, sa), (a, sa), (c, sa), 1.0)
    assert (code, "C has no block scales" in message) == ("TK401", True)
    ((code, message),) = said(nvfp4, (a, sa), (a, sa), c, 1.0, 2.0)
    assert (code, "takes 6 arguments" in message) == ("TK401", True)
    ((code, message),) = said(nvfp4, (a, sa), (a, sa), c, 1.0, A=(a, sa))
    assert (code, "A is given twice" in message) == ("TK401", True)


def test_strides_of_packed_rows(nvfp4: tkc.Kernel) -> None:
    """Rows of 4-bit elements begin at multiples of 16 bytes: K is a multiple of 32, or rows are apart."""
    a, b = data(130, 80), data(8, 96)
    found = said(nvfp4, (a, packed(130, 80)), (b[:, :40], packed(8, 80)), out(130, 8), 1.0)
    assert [code for code, _ in found] == ["TK405"]
    assert "A: axis 0 has a stride of 40 bytes" in found[0][1]


def test_a_contract_with_scales_of_nothing_is_refused(nvfp4: tkc.Kernel) -> None:
    contract = dict(nvfp4.contract)
    arguments = [dict(a) for a in contract["arguments"]]
    for of, told in (
        ("Z", "no array before it"),
        ("alpha", "no array before it"),
        ("B", "no array before it"),
    ):
        arguments[1] = {**arguments[1], "scales": {"of": of, "block": 16}}
        with pytest.raises(TkcError, match=told):
            check_kernel({**contract, "arguments": arguments})
