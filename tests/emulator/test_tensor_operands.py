"""First operands of products in tensor memory, which registers write: at both levels, and in attention."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from programs import changed

import tkc
from tkc.analysis.happens_before import check

DECLARED = """
kernel converted(A: global[f32, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    param BM = 128, BN = 64, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[f32, BM, BK] * 2
    shared b: tile[bf16, BN, BK] * 2
    accum p: tile[bf16, BM, BK] * 2
    accum d: tile[f32, BM, BN]
    pipe raw(a): load -> convert
    pipe inputs(b): load -> math
    pipe left(p): convert -> math
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put raw: a <- A[m, k]
                put inputs: b <- B[n, k]
    role convert, warps 4:
        for m, n in work:
            for k in blocks(K, BK):
                get raw, put left: p <- bf16(read(a))
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, BK):
                    get left, inputs: d += p @ b.T
    role store, warps 4:
        for m, n in work:
            get result: C[m, n] <- read(d)
"""
"""A is rounded to bf16 on its way to the tensor core, and does not come back to shared memory."""

SPELLED = """
kernel spelled(A: global[f32, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    param BM = 128, BN = 64, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[f32, BM, BK] * 2
    shared b: tile[bf16, BN, BK] * 2
    accum p: tile[bf16, BM, BK]
    pipe raw(a): load -> convert
    pipe inputs(b): load -> math
    barrier written, count = 4
    barrier taken, count = 1
    accum e: tile[f32, BM, BN]
    barrier done, count = 1
    barrier free, count = 4
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put raw: a <- A[m, k]
                put inputs: b <- B[n, k]
    role convert, warps 4:
        phase = 0
        for m, n in work:
            for k in blocks(K, BK):
                get raw:
                    wait taken, phase ^ 1
                    fence tcgen05 after
                    p <- bf16(read(a))
                    fence tcgen05 before
                    sync warp
                    arrive written, each = warp
                    phase = phase ^ 1
    role math:
        phase = 0
        turn = 0
        for m, n in work:
            wait free, turn ^ 1
            fence tcgen05 after
            for k in blocks(K, BK):
                wait written, phase
                fence tcgen05 after
                get inputs: mma e[0] += p[0] @ b.T, k.index > 0
                commit taken
                phase = phase ^ 1
            commit done
            turn = turn ^ 1
    role store, warps 4:
        turn = 0
        for m, n in work:
            wait done, turn
            fence tcgen05 after
            C[m, n] <- read(e[0])
            fence tcgen05 before
            arrive free, each = warp
            turn = turn ^ 1
"""

ATTENTION = changed(
    (Path(__file__).parents[2] / "lit_tests" / "run" / "attention.tk").read_text(),
    ("    shared p: tile[bf16, BM, BN]\n", ""),
    ("    accum  o:", "    accum  p: tile[bf16, BM, BN]\n    accum  o:"),
)


@pytest.mark.parametrize(
    ("text", "target", "bm"),
    [
        (DECLARED, "sm_100a", 128),
        pytest.param(DECLARED, "sm_107a", 256, marks=pytest.mark.soak),
        (SPELLED, "sm_100f", 128),
    ],
)
def test_products_take_what_registers_wrote(text: str, target: str, bm: int, seed: int) -> None:
    kernel = tkc.compile(text, target=target, params={"BM": bm})
    kernel.cubin()
    rng, m, n, k = np.random.default_rng(seed), 136, 72, 136
    a = rng.uniform(-1, 1, (m, k)).astype(np.float32)
    b = rng.uniform(-1, 1, (n, k)).astype(ml_dtypes.bfloat16)
    c = np.full((m, n), np.nan, np.float32)
    report = kernel.emulate(a, b, c, sm_count=2, schedule="random", seed=seed)
    assert not report.findings, report.findings[0]
    exact = a.astype(ml_dtypes.bfloat16).astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(c - exact).max() < 1e-4
    assert check(kernel.module(after="eliminate-fences")) == []


def test_probabilities_stay_in_tensor_memory(seed: int) -> None:
    kernel = tkc.compile(ATTENTION, target="sm_100a")
    kernel.cubin()
    rng = np.random.default_rng(seed)
    q, k, v = (rng.uniform(-1, 1, (1, n, 64)).astype(ml_dtypes.bfloat16) for n in (24, 140, 140))
    o = np.full(q.shape, np.nan, ml_dtypes.bfloat16)
    report = kernel.emulate(q, k, v, o, 0.25, sm_count=1, schedule="random", seed=seed)
    assert not report.findings, report.findings[0]
    p = np.exp2(0.25 * q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1))
    exact = p @ v.astype(np.float64) / p.sum(axis=2, keepdims=True)
    assert np.abs(o.astype(np.float64) - exact).max() < 4e-3
    assert check(kernel.module(after="eliminate-fences")) == []


def test_lanes_that_do_not_meet_before_they_tell_are_found() -> None:
    """Each lane has waited for its own stores alone."""
    kernel = tkc.compile(
        changed(SPELLED, ("                    sync warp\n", "")), target="sm_100a"
    )
    assert [h.message for h in check(kernel.module(after="eliminate-fences"))] == [
        "nothing orders the tensor-memory write of p by a copy to an accumulator in role convert and the "
        "tensor-memory read of p by a matrix product in role math"
    ]


ADDED, WRITTEN = "d += p @ b.T", "p <- bf16(read(a))"


@pytest.mark.parametrize(
    ("edits", "target", "code", "told"),
    [
        ((), "sm_90a", "TK202", "registers write it to a `shared` tile there"),
        ((("BM = 128", "BM = 64"),), "sm_100a", "TK203", "128 rows or a multiple"),
        ((("BM = 128", "BM = 256"), ("persistent", "persistent, pair")), "sm_100a", "TK110", "the product of a pair"),
        (((ADDED, "d += p.T @ b.T"),), "sm_100a", "TK106", "`.T` is of shared tiles"),
        (((ADDED, "d += b @ p"),), "sm_100a", "TK106", "is the first operand, as it is"),
        (((ADDED, "x = read(p); d += p @ b.T"),), "sm_100a", "TK110", "back into registers"),
        (((WRITTEN, "p = bf16(read(a))"),), "sm_100a", "TK105", "an accumulator is f32"),
        (((WRITTEN, WRITTEN + ".T"), ("BK = 64", "BK = 128")), "sm_100a", "TK110", "a transpose written to"),
        (((WRITTEN, "p <- B[n, k]"),), "sm_100a", "TK106", "the copy engine fills shared memory"),
    ],
)  # fmt: skip
def test_what_an_operand_in_tensor_memory_cannot_be_is_said(
    edits: tuple[tuple[str, str], ...], target: str, code: str, told: str
) -> None:
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(changed(DECLARED, *edits), target=target)
    assert [(d.code, told in d.message) for d in caught.value.diagnostics] == [(code, True)], (
        caught.value
    )
