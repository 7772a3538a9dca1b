"""LAY: descriptors, swizzles, and where buffers stand in shared memory."""

from __future__ import annotations

import numpy as np
import pytest
from cases.products import BOTH, GEMM, check_product, poison, uniform
from programs import changed

import tkc
from tkc.emulator import emulate
from tkc.ir.isa.layouts import SWIZZLES, TCGEN05_DESCRIPTOR, WGMMA_DESCRIPTOR, Major, SharedTile
from tkc.ir.stage import ops as s

PADDED = """
kernel k(V: global[f32, N], X: global[bf16, M, N], Y: global[bf16, M, N]):
    param BM = 128, BN = 64, PAD = {pad}
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared v: vector[f32, PAD] * 3
    shared x: tile[bf16, BM, BN] * 2
    shared w: vector[f32, PAD]
    pipe first(v): load -> math
    pipe second(x): load -> math
    pipe third(w): load -> math
    role load:
        for m, n in work:
            for p in blocks(N, PAD):
                put first:
                    v <- V[p]
                put third:
                    w <- V[p]
            put second:
                x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            for p in blocks(N, PAD):
                get first:
                    f = row(read(v))
                get third:
                    g = row(read(w))
            get second:
                Y[m, n] <- read(x)
"""
"""Small buffers before and after a swizzled tile that threads read."""


@pytest.mark.parametrize("pad", [32, 48, 36])
@pytest.mark.parametrize("target", BOTH)
def test_LAY_1_LAY_9_a_swizzled_tile_stands_at_its_period_whatever_stands_before_it(
    pad: int, target: str
) -> None:
    """128-byte and odd-sized buffers beside a tile of 128-byte rows; swizzles are of absolute addresses."""
    kernel = tkc.compile(PADDED.format(pad=pad), target=target)
    for op in kernel.module("assign-shared").walk():
        if isinstance(op, s.BufferOp):
            type = op.buffer.type
            assert op.offset.value.data % SWIZZLES[type.swizzle.data].align == 0  # type: ignore[union-attr]
    v, x = uniform(144, dtype=np.float32), uniform(100, 144)
    y = poison(100, 144)
    report = kernel.emulate(v, x, y, sm_count=1)
    assert not report.findings, report.findings
    assert (x == y).all()


@pytest.mark.parametrize("form", [WGMMA_DESCRIPTOR, TCGEN05_DESCRIPTOR], ids=lambda f: f.name)
def test_LAY_3_offsets_in_a_descriptor_count_16_bytes(form: object) -> None:
    """K-major bf16 under 128-byte swizzle: 8 rows are 1024 bytes apart, which is 64; leading is 1, and ignored."""
    word = form.encode(SharedTile(64, 64, 16, "128B").descriptor(Major.K, 2048))  # type: ignore[attr-defined]
    assert word & 0x3FFF == 2048 >> 4
    assert word >> 16 & 0x3FFF == 1
    assert word >> 32 & 0x3FFF == 1024 >> 4


@pytest.mark.parametrize("target", BOTH)
def test_LAY_5_192_columns_of_an_n_major_operand(target: str) -> None:
    """Warpgroups share rows of A between them and use all of B, so that no swizzle atom has two owners."""
    text = changed(GEMM, ("B: global[bf16, N, K]", "B: global[bf16, K, N]"),
                   ("tile[bf16, BN, BK]", "tile[bf16, BK, BN]"), ("B[n, k]", "B[k, n]"), ("b.T", "b"))  # fmt: skip
    check_product(text, target, 136, 200, 136, b_rows_are_k=True, BN=192)


@pytest.mark.parametrize("bk", [48, 80])
@pytest.mark.parametrize("target", BOTH)
def test_LAY_7_rows_of_96_and_160_bytes(bk: int, target: str) -> None:
    """Narrower spans are chosen, never an internal error."""
    check_product(GEMM, target, 136, 200, 232, BK=bk, BN=128)


def test_LAY_11_a_product_of_tiles_that_do_not_fit_is_refused() -> None:
    """A is loaded in slices of 16 columns, and multiplied as if it had 128."""
    text = changed(GEMM, ("shared a: tile[bf16, BM, BK]", "shared a: tile[bf16, BM, 16]"),
                   ("a <- A[m, k]", "for q in blocks(k, 16): a <- A[m, q]"))  # fmt: skip
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text)
    assert any("16" in d.message and "64" in d.message for d in caught.value.diagnostics)


def test_LAY_11_the_emulator_sees_a_descriptor_that_reaches_beyond_what_was_written() -> None:
    """A box of 16 of A's 64 columns, and as many bytes expected: the product reads what nobody wrote."""
    kernel = tkc.compile(GEMM, target="sm_90a", params={"BM": 64, "BN": 64})
    a, b, c = uniform(64, 64), uniform(64, 64), poison(64, 64)
    how = kernel.emulation(a, b, c, sm_count=1)
    fewer = kernel.ptx.replace(", 16384;", ", 10240;")
    assert fewer != kernel.ptx, "64 rows of A and of B are 8192 bytes each"
    for at, argument in enumerate(kernel.contract["args"]):
        if argument["kind"] == "tensormap" and argument["argument"] == "A":
            how["args"][at] = tkc.TensorMap(
                a, dtype="bf16", sizes=[64, 64], strides=[128], box=[16, 64], swizzle="128B"
            )
    report = emulate(fewer, **how)
    assert {f.code for f in report.findings} & {"TK320", "TK321"}, report.findings
