"""Copies by each thread (cp.async), run: in groups, and with arrivals on mbarriers; what is left out is found."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from programs import changed

import tkc
from tkc.analysis.happens_before import check
from tkc.emulator import Report

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
