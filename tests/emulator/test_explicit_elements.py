"""Single elements, run: plain and ordered loads and stores of global and shared memory, atomics, identities."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc.analysis.happens_before import check
from tkc.diagnostics import Severity
from tkc.emulator import Report

BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])

REVERSE = """
kernel reverse(X: global[f32, M, N], Y: global[f32, M, N], seen: global[i32, M]):
    launch persistent
    schedule work: m in tiles(M)
    shared v: vector[f32, 128] * 2
    shared flag: vector[i32, 1]
    role all, warps 4:
        slot = 0
        for m in work:
            x = read(X[m, thread]) if thread < N else 0.0
            v[slot][127 - thread] <- x * 2
            if thread == 0: flag[0][0] <- m * 3
            sync role
            if thread < N: Y[m, thread] <- read(v[slot][127 - thread]) + 1
            if thread == 5: seen[m] <- read(flag[0][0])
            sync role
            slot = slot ^ 1
"""


def clean(report: Report) -> None:
    assert not report.findings, "\n".join(map(str, report.findings))


@BOTH
def test_elements_go_through_shared_memory(target: str, seed: int) -> None:
    kernel = tkc.compile(REVERSE, target=target)
    kernel.cubin()
    x = np.random.default_rng(seed).uniform(-1, 1, (5, 100)).astype(np.float32)
    y, seen = np.full_like(x, np.nan), np.full(5, -1, np.int32)
    clean(kernel.emulate(x, y, seen, sm_count=2, schedule="random", seed=seed))
    assert np.array_equal(y, 2 * x + 1)
    assert np.array_equal(seen, 3 * np.arange(5))


COUNT = """
kernel count(X: global[f32, M], total: global[f32, 1], turns: global[i32, A], order: global[i32, M], n: i32):
    launch persistent
    schedule work: m in tiles(M)
    shared best: vector[i32, 1]
    barrier done, count = 1
    role all, warps 2:
        if thread == 0: best[0][0] <- -1
        sync role
        for m in work:
            if thread == 0:
                atomic_add(total[0], read(X[m]))
                order[m] <- atomic_add(turns[0], 1, acq_rel, gpu)
                atomic_max(turns[1], m)
                atomic_or(turns[2], 1 << (m % 8))
                atomic_xor(turns[3], m)
                atomic_min(turns[4], 0 - m)
            atomic_max(best[0][0], m * 64 + thread, relaxed, cta)
        sync role
        if thread == 63: atomic_max(turns[5], read(best[0][0]))
        if thread == 1: swapped = atomic_exch(turns[6], 7)
        if thread == 2:
            old = atomic_cas(turns[7], 0, n)
"""


@BOTH
def test_atomics_lose_nothing(target: str, seed: int) -> None:
    kernel = tkc.compile(COUNT, target=target)
    kernel.cubin()
    count = 37
    x = np.random.default_rng(seed).integers(-50, 50, count).astype(np.float32)
    total, turns, order = (
        np.zeros(1, np.float32),
        np.zeros(8, np.int32),
        np.full(count, -1, np.int32),
    )
    clean(kernel.emulate(x, total, turns, order, 11, sm_count=4, schedule="random", seed=seed))
    assert total[0] == x.sum()
    assert sorted(order) == list(range(count))
    wanted = [
        count,
        count - 1,
        255,
        np.bitwise_xor.reduce(np.arange(count)),
        1 - count,
        (count - 1) * 64 + 63,
        7,
        11,
    ]
    assert list(turns) == wanted


HISTOGRAM = Path(__file__).parents[2] / "examples" / "histogram.tk"


@BOTH
def test_a_histogram_counts_all(target: str, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 32, (7, 300)).astype(np.int32)
    counts = np.arange(32, dtype=np.int32)
    kernel = tkc.compile(HISTOGRAM, target=target, params={"BINS": 32})
    clean(kernel.emulate(x, counts, sm_count=3, schedule="random", seed=seed))
    assert np.array_equal(counts, np.arange(32) + np.bincount(x.ravel(), minlength=32))


FLAG = """
kernel relay(X: global[f32, M], Y: global[f32, M], flag: global[i32, M]):
    launch persistent, cluster(2)
    schedule work: m in tiles(blocks(M, 1))
    role all, warps 1:
        if rank == 0 and lane == 0:
            Y[0] <- read(X[0]) * 2
            flag[0] <- 1, release, gpu
        if rank == 1 and lane == 0:
            while read(flag[0], acquire, gpu) == 0:
                WAIT
            Y[1] <- read(Y[0], relaxed) + 1
"""


@BOTH
def test_a_flag_in_global_memory_orders_what_it_guards(target: str, seed: int) -> None:
    kernel = tkc.compile(FLAG.replace("WAIT", "i = 0"), target=target)
    assert "ld.acquire.gpu.global" in kernel.ptx
    assert "st.release.gpu.global" in kernel.ptx
    kernel.cubin()
    x, y, flag = np.array([4, 5], np.float32), np.zeros(2, np.float32), np.zeros(2, np.int32)
    clean(kernel.emulate(x, y, flag, sm_count=2, schedule="random", seed=seed))
    assert list(y) == [8, 9]


UNITS = """
kernel units(Y: global[i32, A, B]):
    launch persistent, cluster(2)
    schedule work: a in tiles(blocks(A, 1))
    role one, warps 1:
        if lane < 1:
            Y[2 * unit + rank, 0] <- units
            Y[2 * unit + rank, 1] <- warp + 10 * thread
    role two, warps 2:
        if lane == 31 and warp == 1:
            Y[2 * unit + rank, 2] <- thread
"""


def test_threads_and_ctas_have_numbers(seed: int) -> None:
    y = np.full((8, 3), -1, np.int32)
    clean(tkc.compile(UNITS, target="sm_90a").emulate(y, sm_count=8, seed=seed))
    assert np.array_equal(y, np.tile([4, 0, 63], (8, 1)))


@pytest.mark.parametrize("program", [REVERSE, COUNT, UNITS])
def test_the_static_check_has_nothing_against_them(program: str) -> None:
    kernel = tkc.compile(program, target="sm_90a")
    assert not check(kernel.module(after="insert-fences"))


def test_the_static_check_says_that_it_does_not_follow_a_flag() -> None:
    kernel = tkc.compile(FLAG.replace("WAIT", "i = 0"), target="sm_90a")
    (found,) = check(kernel.module(after="insert-fences"))
    assert (found.code, found.severity) == ("TK325", Severity.WARNING)


TILES = """
kernel tiles(X: global[{dtype}, M, N], Y: global[f32, M, N], v: global[{dtype}, N]):
    param BM = 32, BN = {bn}
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[{dtype}, BM, BN] * 2
    shared y: tile[f32, BM, BN]
    barrier full * 2, count = 1
    role all, warps 4:
        slot = 0
        phase = 0
        for m, n in work:
            elect:
                wait stores, read
                expect full[slot], bytes(x)
                load x[slot] <- X[m, n], full[slot]
            wait full[slot], phase
            sync role
            j = thread
            while j < BM * BN:
                y[0][j // BN, j % BN] <- read(x[slot][BM - 1 - j // BN, j % BN]) * 3 + 0.25
                j = j + 128
            sync role
            j = thread
            while j < BM * BN:
                x[slot][j // BN, j % BN] <- read(y[0][j // BN, j % BN])
                j = j + 128
            fence proxy shared
            sync role
            if thread == 0 and n.index == 0: v[3] <- read(x[slot][5, 1]) + read(v[2])
            elect:
                store Y[m, n] <- y
                store X[m, n] <- x[slot]
                commit stores
            slot = slot ^ 1
            if slot == 0: phase = phase ^ 1
        elect:
            wait stores
"""
"""Rows of each block the other way round, by elements of swizzled tiles; known places, and 16 bits of a tensor."""


@pytest.mark.parametrize(
    ("dtype", "bn", "target"),
    [
        ("bf16", 64, "sm_100a"),
        ("f16", 32, "sm_90a"),
        ("bf16", 16, "sm_90a"),
        ("f16", 24, "sm_100a"),
        ("bf16", 128, "sm_90a"),
    ],
)
def test_elements_of_tiles_lie_where_the_copy_engine_puts_them(
    dtype: str, bn: int, target: str, seed: int
) -> None:
    kernel = tkc.compile(TILES.format(dtype=dtype, bn=bn), target=target)
    kernel.cubin()
    of = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[dtype]
    rng = np.random.default_rng(seed)
    x, v = rng.uniform(-1, 1, (32, 136)).astype(of), rng.uniform(-1, 1, 136).astype(of)
    y = np.full((32, 136), np.nan, np.float32)
    exact = x[::-1].astype(np.float32) * np.float32(3) + np.float32(0.25)
    last = (exact.astype(of)[5, 1].astype(np.float32) + v[2].astype(np.float32)).astype(of)
    clean(kernel.emulate(x, y, v, sm_count=1, schedule="random", seed=seed))
    assert np.array_equal(y, exact)
    assert np.array_equal(x, exact.astype(of))
    assert v[3] == last
