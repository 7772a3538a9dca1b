"""Copies by each thread (cp.async), run: in groups, and with arrivals on mbarriers; what is left out is found."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from programs import changed

import tkc
from tkc.analysis.happens_before import check
from tkc.diagnostics import Severity
from tkc.emulator import Report, emulate

BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])

GROUPS = """
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N], v: global[f32, N], S: global[f32, N]):
    param BM = 64, BN = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[bf16, BM, BN] * 2
    shared w: vector[f32, BN]
    role all, warps 4:
        i = 0
        for m, n in work:
            j = thread
            while j < BM * BN // 8:
                r = j // (BN // 8)
                q = j % (BN // 8) * 8
                load x[i][r, q] <- X[m.index * BM + r, n.index * BN + q], 16
                j = j + 128
            commit copies
            if thread < BN: load w[0][thread] <- v[n.index * BN + thread], 4
            commit copies
            wait copies <= 1
            fence proxy shared
            wait copies
            sync role
            if m.index == 0:
                if thread < BN: S[n.index * BN + thread] <- read(w[0][thread]) * 2
            elect:
                store Y[m, n] <- x[i]
                commit stores
                wait stores <= 1, read
            sync role
            i = i ^ 1
        elect: wait stores
"""

ARRIVALS = """
kernel k(X: global[bf16, M, N], Y: global[f32, M, N]):
    param BM = 64, BN = 32, STAGES = 2
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[bf16, BM, BN] * STAGES
    barrier full * STAGES, count = 64
    barrier empty * STAGES, count = 128
    role load, warps 2:
        s = 0
        phase = 0
        for m, n in work:
            wait empty[s], phase ^ 1
            for q in 0, 8, 16, 24:
                load x[s][thread, q] <- X[m.index * BM + thread, n.index * BN + q], 16
            arrive full[s], copies
            s = s ^ 1
            if s == 0: phase = phase ^ 1
        commit copies
        wait copies
    role math, warps 4:
        s = 0
        phase = 0
        for m, n in work:
            wait full[s], phase
            q = thread % 32
            r = thread // 32
            while r < BM:
                Y[m.index * BM + r, n.index * BN + q] <- read(x[s][r, q]) + 1
                r = r + 4
            arrive empty[s], each = thread
            s = s ^ 1
            if s == 0: phase = phase ^ 1
"""
UNCOUNTED = (
    ("barrier full * STAGES, count = 64", "barrier full * STAGES, count = 2"),
    ("arrive full[s], copies", "arrive full[s], copies, uncounted; sync warp; arrive full[s], each = warp"),
)  # fmt: skip


def grouped(text: str, target: str, seed: int) -> Report:
    """Runs a form of GROUPS; what is right must be."""
    kernel = tkc.compile(text, target=target)
    rng = np.random.default_rng(seed)
    x, v = (
        rng.uniform(-1, 1, (128, 192)).astype(ml_dtypes.bfloat16),
        rng.uniform(-1, 1, 192).astype(np.float32),
    )
    y, s = np.full_like(x, np.nan), np.full_like(v, np.nan)
    report = kernel.emulate(x, y, v, s, sm_count=1, schedule="random", seed=seed)
    assert report.findings or ((x == y).all() and (s == 2 * v).all())
    return report


@BOTH
def test_groups_of_copies(target: str, seed: int) -> None:
    tkc.compile(GROUPS, target=target).cubin()
    report = grouped(GROUPS, target, seed)
    assert not report.findings, report.findings
    assert not check(tkc.compile(GROUPS, target=target).module("insert-fences"))


@pytest.mark.parametrize(
    "gone", ["            wait copies <= 1\n", "            fence proxy shared\n"]
)
def test_a_wait_or_a_fence_that_is_left_out_is_found(gone: str, seed: int) -> None:
    text = changed(GROUPS, (gone, ""))
    assert grouped(text, "sm_90a", seed).findings
    assert check(tkc.compile(text, target="sm_90a").module("insert-fences"))


@BOTH
@pytest.mark.parametrize("form", [(), UNCOUNTED], ids=["counted", "uncounted"])
def test_copies_arrive(form: tuple[tuple[str, str], ...], target: str, seed: int) -> None:
    kernel = tkc.compile(changed(ARRIVALS, *form), target=target)
    kernel.cubin()
    x = np.random.default_rng(seed).uniform(-1, 1, (128, 160)).astype(ml_dtypes.bfloat16)
    y = np.full(x.shape, np.nan, np.float32)
    report = kernel.emulate(x, y, sm_count=1, schedule="random", seed=seed)
    assert not report.findings, report.findings
    assert (y == x.astype(np.float32) + 1).all()


def test_a_slot_that_is_filled_too_early_is_found(seed: int) -> None:
    text = changed(
        ARRIVALS,
        ("            arrive empty[s], each = thread\n", ""),
        ("            wait empty[s], phase ^ 1\n", ""),
    )
    kernel = tkc.compile(text, target="sm_90a")
    x = np.random.default_rng(seed).uniform(-1, 1, (128, 160)).astype(ml_dtypes.bfloat16)
    assert kernel.emulate(x, np.zeros(x.shape, np.float32), sm_count=1, seed=seed).findings


FED = (
    ("barrier full * STAGES, count = 1", "barrier full * STAGES, count = 128"),
    ("    role load:\n", "    role load, warps 4:\n"),
    (
        """                elect:
                    expect full[slot], bytes(a, b)
                    load a[slot] <- A[m, k], full[slot]
                    load b[slot] <- B[n, k], full[slot]
""",
        """                j = thread
                while j < BM * BK // 8:
                    r = j // (BK // 8)
                    q = j % (BK // 8) * 8
                    load a[slot][r, q] <- A[m.index * BM + r, k.index * BK + q], 16
                    load b[slot][r, q] <- B[n.index * BN + r, k.index * BK + q], 16
                    j = j + 128
                commit copies
                wait copies
                arrive full[slot], each = thread
""",
    ),
)
"""The GEMM of warpgroups with tiles that threads copy, and proxy fences in the role of the products."""


def test_no_fence_is_left_out_for_what_foreign_kernels_rely_on(seed: int) -> None:
    """A27 is for foreign text: the analysis asks for the fence, and eliminate-fences keeps one."""
    path = Path(__file__).parents[2] / "examples" / "gemm_bf16_level2_sm90.tk"
    text = changed(path.read_text(), *FED)
    how = {"target": "sm_90a", "params": {"BN": 64, "WIDTH": 32, "STAGES": 2}}
    kernel = tkc.compile(text, **how)
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (64, 192)).astype(ml_dtypes.bfloat16) for _ in "ab")
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    bare = kernel.ptx.replace("fence.proxy.async.shared::cta;", "")
    assert bare != kernel.ptx
    for ptx, model, errors in (
        (kernel.ptx, "strict", False),
        (bare, "strict", True),
        (bare, "practice", False),
    ):
        c = np.full((64, 64), np.nan, ml_dtypes.bfloat16)
        launch = kernel.emulation(a, b, c, sm_count=1)
        report = emulate(ptx, **launch, seed=seed, model=model)
        reads = [f for f in report.findings if f.code == "TK302" and "read at" in f.message]
        products = [f for f in reads if "(wgmma)" in f.message]
        assert bool(products) == (ptx is bare), report.findings
        assert all(f.severity is (Severity.ERROR if errors else Severity.WARNING) for f in products)
        np.testing.assert_allclose(c.astype(np.float64), exact, rtol=2.0**-7, atol=2.0**-6)
    module = kernel.module(after="insert-fences")
    for op in list(module.walk()):
        if op.name == "stage.proxy_fence":
            op.detach()
    said = [d.message for d in check(module) if d.code == "TK302"]
    assert sum("by a matrix product in role math" in message for message in said) == 2, said
