"""Warpgroups that share a role's rows, at numbered barriers of their own: by turns, and with what one wrote for the other."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from programs import changed

import tkc
from tkc.analysis.happens_before import check

BY_TURNS = """
kernel pingpong(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    param BM = 128, BN = 64, BK = 64, STAGES = 4
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK] * STAGES
    shared b: tile[bf16, BN, BK] * STAGES
    accum d: tile[f32, BM, BN]
    pipe inputs(a, b): load -> math
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs: a <- A[m, k]; b <- B[n, k]
    role math:
        if warp // 4 == 1: arrive 1, 256
        for m, n in work:
            for k in blocks(K, BK):
                get inputs:
                    if warp < 4: sync 1, 256
                    else: sync 2, 256
                    fence products
                    mma d[0] += a @ b.T, k.index > 0
                    commit products
                    if warp < 4: arrive 2, 256
                    else: arrive 1, 256
            C[m, n] <- read(d[0])
"""
"""Each warpgroup's products are issued when the other's are (FlashAttention-3's order, of a plain product)."""

EXCHANGE = """
kernel exchange(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N], Y: global[f32, T, 128]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared a: tile[bf16, 128, 64] * 2
    shared b: tile[bf16, 64, 64] * 2
    shared v: vector[f32, 128]
    accum d: tile[f32, 128, 64]
    pipe inputs(a, b): load -> math
    role load:
        for m, n in work:
            for k in blocks(K, 64):
                put inputs: a <- A[m, k]; b <- B[n, k]
    role math:
        i = 0
        for m, n in work:
            for k in blocks(K, 64):
                get inputs:
                    fence products
                    mma d[0] += a @ b.T, k.index > 0
                    commit products
            if warp < 4:
                v[0][thread] <- f32(thread)
                arrive 1, 256
                sync 2, 256
            else:
                sync 1, 256
                Y[i, thread - 128] <- read(v[0][255 - thread])
                arrive 2, 256
            C[m, n] <- read(d[0])
            i = i + 1
"""
"""The first warpgroup writes what the second reads, and goes on when it has."""


def operands(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    a, b = (
        rng.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16) for shape in ((136, 136), (72, 136))
    )
    return a, b, a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("bm", [128, pytest.param(256, marks=pytest.mark.soak)])
def test_warpgroups_take_turns(bm: int, seed: int) -> None:
    kernel = tkc.compile(BY_TURNS, target="sm_90a", params={"BM": bm})
    kernel.cubin()
    a, b, exact = operands(seed)
    c = np.full(exact.shape, np.nan, np.float32)
    report = kernel.emulate(a, b, c, sm_count=2, schedule="random", seed=seed)
    assert not report.findings, report.findings[0]
    assert np.abs(c - exact).max() < 1e-4
    assert check(kernel.module(after="eliminate-fences")) == []


def test_turns_that_nobody_starts_are_found(seed: int) -> None:
    text = changed(BY_TURNS, ("        if warp // 4 == 1: arrive 1, 256\n", ""))
    kernel = tkc.compile(text, target="sm_90a")
    assert [h.code for h in check(kernel.module(after="eliminate-fences"))] == ["TK314"]
    a, b, exact = operands(seed)
    c = np.full(exact.shape, np.nan, np.float32)
    assert kernel.emulate(a, b, c, sm_count=1, seed=seed).hang is not None


WITHOUT = {
    "as it is": ((), []),
    "the reader does not wait": (
        (("                sync 1, 256\n", ""), ("                arrive 1, 256\n", "")),
        ["nothing orders the write of v by a store of an element in role math[0] and the read of v by `read` in role math[1]"],
    ),
    "the writer does not wait": (
        (("                sync 2, 256\n", ""), ("                arrive 2, 256\n", "")),
        ["nothing orders the read of v by `read` in role math[1] and the write of v by a store of an element in role "
         "math[0], 1 iteration of item later"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", WITHOUT)
def test_what_one_warpgroup_writes_the_other_reads(which: str) -> None:
    edits, told = WITHOUT[which]
    kernel = tkc.compile(changed(EXCHANGE, *edits), target="sm_90a")
    assert [h.message for h in check(kernel.module(after="eliminate-fences"))] == told


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (("warp < 4: sync 1, 256", "warp < 4: sync role"), "`sync role` takes all threads of the role"),
        (("warp < 4: sync 1, 256", "thread < 128: sync 1, 256"), "which some threads of the role run alone"),
    ],
)  # fmt: skip
def test_what_all_threads_do_is_not_of_a_part_of_them(edit: tuple[str, str], told: str) -> None:
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(changed(BY_TURNS, edit), target="sm_90a")
    assert [(d.code, told in d.message) for d in caught.value.diagnostics] == [("TK121", True)], (
        caught.value
    )


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (("warp < 4: sync 1, 256", "warp < 3: sync 1, 256"), "but 224 of roles math[0], math[1] come to it"),
        (("BM = 128", "BM = 64"), "but 128 of role math come to it"),
    ],
)  # fmt: skip
def test_parts_that_are_too_few_are_told(edit: tuple[str, str], told: str) -> None:
    kernel = tkc.compile(changed(BY_TURNS, edit), target="sm_90a")
    found = check(kernel.module(after="eliminate-fences"))
    assert any(f.code == "TK305" and told in f.message for f in found), found
