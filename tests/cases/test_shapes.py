"""SHP: odd shapes, nothing at all, strides, and offsets beyond 32 bits."""

from __future__ import annotations

import numpy as np
import pytest
from cases.products import BF16, BOTH, COPY, EXAMPLES, GEMM, check_product, poison, uniform
from programs import changed

import tkc


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("bk", [8, 24, 40])
def test_SHP_1_a_k_that_the_products_steps_do_not_divide_is_refused(bk: int, target: str) -> None:
    with pytest.raises(
        tkc.TkcError,
        match=rf"rows of tile a are {2 * bk} bytes \({bk} bf16\).*32 bytes \(16 bf16\)",
    ):
        tkc.compile(GEMM, target=target, params={"BK": bk})


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("k", [8, 24, 72, 136])
def test_SHP_1_a_ragged_k_is_summed_whole(k: int, target: str) -> None:
    check_product(GEMM, target, 64, 64, k, BM=64, BN=64, BK=32)


def test_SHP_3_a_width_of_104_is_covered_whole_or_refused() -> None:
    check_product(GEMM, "sm_90a", 16, 104, 136, BN=104)
    with pytest.raises(
        tkc.TkcError, match=r"no bf16 product of 128 rows and 104 columns.*nearest: 96, 112"
    ):
        tkc.compile(GEMM, target="sm_100a", params={"BN": 104})


@pytest.mark.parametrize("target", BOTH)
def test_SHP_3_a_ragged_n_of_104_is_covered_whole(target: str) -> None:
    check_product(GEMM, target, 16, 104, 136, BN=64)


@pytest.mark.parametrize("target", BOTH)
def test_SHP_5_k_of_0_gives_zeros(target: str) -> None:
    kernel = tkc.compile(GEMM, target=target)
    c = poison(72, 136)
    report = kernel.emulate(uniform(72, 0), uniform(136, 0), c, sm_count=1)
    assert not report.findings
    assert (c.view(np.uint16) == 0).all(), "zeros, and no negative ones"


@pytest.mark.parametrize(("m", "n"), [(0, 136), (72, 0), (0, 0)])
def test_SHP_5_an_empty_result_is_no_launch(m: int, n: int) -> None:
    kernel = tkc.compile(GEMM, target="sm_90a")
    assert kernel.emulate(uniform(m, 64), uniform(n, 64), poison(m, n)).ended


@pytest.mark.parametrize("pitch", [2**30 - 8, 2**30, 2**30 + 8])
def test_SHP_7_elements_before_at_and_beyond_2_to_the_31(pitch: int) -> None:
    """Rows 2^30 elements apart: row 2 begins at element 2^31. Only the pages that are touched exist."""
    whole_x, whole_y = (np.empty(2 * pitch + 64, BF16) for _ in range(2))
    x, y = (np.lib.stride_tricks.as_strided(w, (3, 64), (2 * pitch, 2)) for w in (whole_x, whole_y))
    x[:], y[:] = uniform(3, 64), poison(3, 64)
    kernel = tkc.compile(COPY, target="sm_90a")
    assert not kernel.emulate(x, y, sm_count=1).findings
    assert (x == y).all()


def test_SHP_9_a_transposed_view_is_refused_and_a_strided_one_is_taken() -> None:
    """(B, H, S, D) as a view of (B, S, H, D): rows H * D apart."""
    text = COPY.replace("[bf16, M, N]", "[bf16, H, M, N]").replace("for m, n", "for h, m, n")
    text = text.replace("[m, n]", "[h, m, n]").replace(
        "work: m, n in tiles(", "work: h, m, n in tiles(H, "
    )
    kernel = tkc.compile(text, target="sm_90a")
    x, y = uniform(70, 3, 64), poison(3, 70, 64)
    assert not kernel.emulate(x.transpose(1, 0, 2), y, sm_count=1).findings
    assert (x.transpose(1, 0, 2) == y).all()
    with pytest.raises(tkc.TkcError, match="X: axis 2 must be contiguous"):
        kernel.emulate(uniform(3, 64, 70).transpose(0, 2, 1), y, sm_count=1)


def test_SHP_11_a_part_that_lies_outside_is_refused_with_its_numbers() -> None:
    with pytest.raises(tkc.TkcError, match=r"block m of 128 has no part 2 of 2 \[TK117\]"):
        tkc.compile(changed(GEMM, ("C[m, n] <-", "C[m.part(2, 2), n] <-")))


def test_SHP_11_columns_that_reach_outside_are_refused_with_their_numbers() -> None:
    text = (EXAMPLES / "gemm_bf16_level2.tk").read_text(encoding="utf-8")
    beyond = changed(text, ("read(d[i], j * WIDTH, WIDTH)", "read(d[i], BN - WIDTH // 2, WIDTH)"))
    with pytest.raises(
        tkc.TkcError, match=r"columns 224 to 288 lie outside d, which has 256 \[TK104\]"
    ):
        tkc.compile(beyond)
