"""Products that a program spells out, of tiles in a pipe whose slots the compiler numbers and releases."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from programs import changed

import tkc
from tkc.analysis.happens_before import check
from tkc.emulator import Report

IN_REGISTERS = """
kernel gemm(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    param BM = 128, BN = 64, BK = 64, STAGES = 3
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
        for m, n in work:
            for k in blocks(K, BK):
                get inputs:
                    fence products
                    mma d[0] += a @ b.T, k.index > 0
            C[m, n] <- read(d[0])
"""
"""Nothing closes the group of products: what releases the slots does."""

IN_TENSOR_MEMORY = """
kernel gemm(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    param BM = 128, BN = 64, BK = 64, STAGES = 3
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK] * STAGES
    shared b: tile[bf16, BN, BK] * STAGES
    accum d: tile[f32, BM, BN] * 2
    pipe inputs(a, b): load -> math
    barrier ready * 2, count = 1
    barrier free * 2, count = 4
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs: a <- A[m, k]; b <- B[n, k]
    role math:
        slot = 0
        phase = 0
        for m, n in work:
            wait free[slot], phase ^ 1
            fence tcgen05 after
            for k in blocks(K, BK):
                get inputs:
                    mma d[slot] += a @ b.T, k.index > 0
            commit ready[slot]
            slot = slot ^ 1
            if slot == 0: phase = phase ^ 1
    role store, warps 4:
        slot = 0
        phase = 0
        for m, n in work:
            wait ready[slot], phase
            fence tcgen05 after
            C[m, n] <- read(d[slot])
            fence tcgen05 before
            arrive free[slot], each = warp
            slot = slot ^ 1
            if slot == 0: phase = phase ^ 1
"""

SPELLED = {"sm_90a": IN_REGISTERS, "sm_100a": IN_TENSOR_MEMORY, "sm_107a": IN_TENSOR_MEMORY}
ENDED = (
    "k.index > 0\n",
    "k.index > 0\n                    commit products\n                    wait products\n",
)


def run(text: str, target: str, seed: int, **params: int) -> tuple[tkc.Kernel, float, Report]:
    """The kernel, the largest mistake of a launch, and what the emulator saw."""
    kernel = tkc.compile(text, target=target, params=params)
    kernel.cubin()
    m, n, k = 136, 72, 200
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    c = np.full((m, n), np.nan, np.float32)
    report = kernel.emulate(a, b, c, sm_count=2, schedule="random", seed=seed)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    return kernel, float(np.abs(c - exact).max()), report


@pytest.mark.parametrize(
    ("target", "bm"),
    [("sm_90a", 128), pytest.param("sm_100a", 128, marks=pytest.mark.soak), ("sm_107a", 128)],
)
def test_a_pipe_is_released_behind_products_that_are_spelled_out(
    target: str, bm: int, seed: int
) -> None:
    kernel, wrong, report = run(SPELLED[target], target, seed, BM=bm)
    assert wrong < 1e-4
    assert not report.findings, report.findings[0]
    assert check(kernel.module(after="eliminate-fences")) == []
    if target == "sm_90a":
        assert kernel.ptx.count("wgmma.commit_group") == 1
        assert kernel.ptx.count("wgmma.wait_group") == 1
        ended = tkc.compile(changed(IN_REGISTERS, ENDED), target=target)
        assert ended.ptx.count("wgmma.wait_group") == 1  # the program's own


def test_products_of_another_thread_than_the_one_that_releases_are_found(seed: int) -> None:
    """Of the second warp: the commit that releases the slots does not know them."""
    text = changed(
        IN_TENSOR_MEMORY,
        ("mma d[slot]", "if warp == 1: mma d[slot]"),
        ("role math:", "role math, warps 2:"),
    )
    kernel, _, report = run(text, "sm_100a", seed)
    told = [h.message for h in check(kernel.module(after="eliminate-fences"))]
    assert any("nothing orders the async write of a" in t for t in told), told
    assert any("are not ordered" in f.message for f in report.findings)


@pytest.mark.parametrize(
    ("old", "new", "code", "told"),
    [
        (
            "k.index > 0", "k.index > 0, pair", "TK110", "a pipe's are released in one CTA alone",
        ),
        (
            "b <- B[n, k]", "b <- B[n, k]; mma d[0] += a @ b.T", "TK110", "a product of `a` inside the put",
        ),
        ("a @ b.T", "a @ b", "TK104", "`@` contracts the last axis of [128, 64] with the first of [64, 64]"),
        ("a @ b.T", "a[0] @ b.T", "TK108", "`mma` alone takes those of a get"),
    ],
)  # fmt: skip
def test_what_a_product_of_an_open_pipe_cannot_be_is_said(
    old: str, new: str, code: str, told: str
) -> None:
    text = changed(IN_TENSOR_MEMORY, (old, new), ("persistent", "persistent, cluster(2)"))
    if code == "TK104":
        text = changed(text, ("BN = 64, BK = 64", "BN = 64, BK = 32"), ("STAGES = 3", "STAGES = 2"))
        told = "`@` contracts the last axis of [128, 32] with the first of [64, 32]"
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_100a")
    assert [(d.code, told in d.message) for d in caught.value.diagnostics] == [(code, True)], (
        caught.value
    )
