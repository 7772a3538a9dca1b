"""TMA: what the copy engine cannot do is split, or refused with the numbers, before anything is launched."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cases.products import BF16, BOTH, COPY, GEMM, Array, check_copy, poison, uniform
from programs import changed

import tkc
from tkc.emulator import emulate

VECTOR = """
kernel k(X: global[f32, N], Y: global[f32, N]):
    param B = 512
    launch persistent
    schedule work: n in blocks(N, B)
    shared x: vector[f32, B] * 2
    pipe p(x): load -> math
    role load:
        for n in work:
            put p: x <- X[n]
    role math, warps 4:
        for n in work:
            get p: Y[n] <- read(x)
"""


def refused(kernel: tkc.Kernel, *arrays: Array) -> str:
    with pytest.raises(tkc.TkcError) as caught:
        kernel.emulate(*arrays)
    return str(caught.value)


def test_TMA_1_a_pitch_of_1022_bytes_is_refused_and_a_padded_one_taken() -> None:
    kernel = tkc.compile(GEMM, target="sm_90a")
    a, b, c = uniform(100, 511), uniform(72, 511), poison(100, 72)
    said = refused(kernel, a, b, c)
    assert (
        "A: axis 0 has a stride of 1022 bytes; the tensor copy engine needs a multiple of 16"
        in said
    )
    assert "[TK405]" in said
    wide_a, wide_b = (np.zeros((rows, 512), BF16) for rows in (100, 72))
    wide_a[:, :511], wide_b[:, :511] = a, b
    assert not kernel.emulate(wide_a[:, :511], wide_b[:, :511], c, sm_count=1).findings
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) < 3e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize(
    ("rows", "columns", "box"),
    [(512, 64, [64, 256]), (384, 32, [32, 192]), (264, 128, [64, 88]), (1024, 8, [8, 256])],
)
def test_TMA_3_more_than_256_rows_are_several_boxes(
    rows: int, columns: int, box: list[int], target: str
) -> None:
    """The barrier expects their bytes together, or the ring would hang."""
    kernel = check_copy(COPY, target, 1100, 200, BM=rows, BN=columns, STAGES=2)
    maps = [a["box"] for a in kernel.contract["args"] if a["kind"] == "tensormap"]
    assert maps == [box, box]


def test_TMA_3_a_vector_of_1024_is_several_boxes() -> None:
    kernel = tkc.compile(VECTOR, target="sm_90a", params={"B": 1024})
    x, y = uniform(1500, dtype=np.float32), poison(1500, dtype=np.float32)
    assert not kernel.emulate(x, y, sm_count=2).findings
    assert (x == y).all()
    assert {a["box"][0] for a in kernel.contract["args"] if a["kind"] == "tensormap"} == {256}


def test_TMA_3_what_cannot_be_cut_is_refused_with_the_numbers() -> None:
    with pytest.raises(tkc.TkcError, match=r"an extent of 257; .* at most 256"):
        tkc.compile(COPY, params={"BM": 257})
    six = changed(
        COPY,
        ("X: global[bf16, M, N]", "X: global[bf16, 2, 2, 2, 2, M, N]"),
        ("X[m, n]", "X[0, 0, 0, 0, m, n]"),
    )
    with pytest.raises(tkc.TkcError, match=r"6 axes|rank"):
        tkc.compile(six)


@pytest.mark.parametrize("count", [5, 6, 7])
def test_TMA_5_bytes_that_are_no_multiple_of_16_are_refused(count: int) -> None:
    bytes = 4 * count
    with pytest.raises(
        tkc.TkcError, match=rf"rows of tile x are {bytes} bytes \({count} f32\); .* multiple of 16"
    ):
        tkc.compile(VECTOR, params={"B": count})


def test_TMA_5_an_output_that_ends_inside_16_bytes_is_refused() -> None:
    """The copy engine writes whole 16 bytes, so that it would write beside the tensor."""
    kernel = tkc.compile(VECTOR, target="sm_90a")
    x, y = uniform(1001, dtype=np.float32), poison(1001, dtype=np.float32)
    assert "the last axis must be a multiple of 4 [TK414]" in refused(kernel, x, y)


def test_TMA_7_a_view_that_begins_4_bytes_on_is_refused() -> None:
    kernel = tkc.compile(COPY, target="sm_90a")
    x, y = uniform(64, 80), poison(64, 64)
    assert "4 bytes past a multiple of 16" in refused(kernel, x[:, 2:66], y)
    assert "Y starts at" in refused(kernel, x[:, :64], poison(64, 72)[:, 1:65])


def test_TMA_9_a_misaligned_base_is_refused_with_its_address() -> None:
    kernel = tkc.compile(COPY, target="sm_90a")
    raw = np.zeros(64 * 64 * 2 + 64, np.uint8)
    start = -raw.ctypes.data % 16 + 8
    x: Any = raw[start : start + 64 * 64 * 2].view(BF16).reshape(64, 64)
    said = refused(kernel, x, poison(64, 64))
    assert re.search(r"X starts at 0x[0-9a-f]+, 8 bytes past a multiple of 16", said)
    assert "[TK406]" in said


def test_TMA_9_the_emulator_refuses_the_map_itself() -> None:
    """Were the launch not to look, the map would: cuTensorMapEncodeTiled fails."""
    raw = np.zeros(64 * 64 * 2 + 64, np.uint8)
    start = -raw.ctypes.data % 16 + 8
    x: Any = raw[start : start + 64 * 64 * 2].view(BF16).reshape(64, 64)
    kernel = tkc.compile(COPY, target="sm_90a")
    how = kernel.emulation(uniform(64, 64), poison(64, 64), sm_count=1)
    how["args"][0] = tkc.TensorMap(x, dtype="bf16", sizes=[64, 64], strides=[128], box=[64, 64])
    with pytest.raises(tkc.TkcError, match=r"address 0x\w+ is not aligned to 16 bytes"):
        emulate(kernel.ptx, **how)
