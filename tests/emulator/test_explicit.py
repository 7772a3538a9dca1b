"""Kernels whose synchronisation is spelled out, run: the bits of declared ones, and what shows when one is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc.emulator import Report

pytestmark = pytest.mark.share(3)

EXAMPLES = Path(__file__).parents[2] / "examples"
BF16 = ml_dtypes.bfloat16
LEVEL2 = {"sm_100a": "gemm_bf16_level2", "sm_90a": "gemm_bf16_level2_sm90"}
SMALL = {"BN": 128, "STAGES": 2}
BOTH = pytest.mark.parametrize("target", LEVEL2)


def source(target: str, *changes: tuple[str, str]) -> str:
    text = (EXAMPLES / f"{LEVEL2[target]}.tk").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def gemm(
    kernel: tkc.Kernel, m: int, n: int, k: int, seed: int, schedule: str = "random"
) -> tuple[Report, Any, Any]:
    """The report, the result and NumPy's, on fresh data."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (m, k)).astype(BF16)
    b = rng.uniform(-1, 1, (n, k)).astype(BF16)
    c = np.full((m, n), np.nan, BF16)
    report = kernel.emulate(a, b, c, sm_count=2, schedule=schedule, seed=seed)
    return report, c, a.astype(np.float64) @ b.astype(np.float64).T


@BOTH
@pytest.mark.parametrize(("m", "n", "k"), [(136, 136, 200), (300, 72, 64), (8, 8, 8), (136, 72, 0)])
def test_the_bits_are_those_of_the_declared_kernel(
    target: str, m: int, n: int, k: int, seed: int
) -> None:
    results = []
    for name in (LEVEL2[target], "gemm_bf16"):
        kernel = tkc.compile(EXAMPLES / f"{name}.tk", target=target, params=SMALL)
        report, c, wanted = gemm(kernel, m, n, k, seed)
        assert not report.findings, "\n".join(map(str, report.findings))
        assert np.abs(c.astype(np.float64) - wanted).max() <= 0.01 * max(1, np.abs(wanted).max())
        results.append(c)
    assert (results[0].view(np.uint16) == results[1].view(np.uint16)).all()


@pytest.mark.parametrize("schedule", ["eager", "lazy"])
@BOTH
def test_it_runs_under_every_schedule(target: str, schedule: str, seed: int) -> None:
    kernel = tkc.compile(EXAMPLES / f"{LEVEL2[target]}.tk", target=target)
    report, c, wanted = gemm(kernel, 136, 264, 136, seed, schedule)
    assert not report.findings, "\n".join(map(str, report.findings))
    assert np.abs(c.astype(np.float64) - wanted).max() <= 0.01 * np.abs(wanted).max()


@pytest.mark.parametrize(
    "guard",
    [
        "if lane == 0:",
        "if thread % 32 == 0:",
        "if (thread & 31) == 0:",
        "if lane < 1:",
        "if warp == 0 and lane == 0:",
        "if thread == 0 and K > 0:",
        "if warp == 0:",
    ],
)
def test_a_guard_is_an_election_however_it_is_written(guard: str, seed: int) -> None:
    text = source(
        "sm_100a",
        (
            "                elect:\n                    expect",
            f"                {guard}\n                    expect",
        ),
    )
    kernel = tkc.compile(text, target="sm_100a", params=SMALL)
    elected = kernel.ptx.count("elect.sync")
    assert elected == tkc.compile(source("sm_100a"), target="sm_100a", params=SMALL).ptx.count(
        "elect.sync"
    )
    report, c, wanted = gemm(kernel, 136, 72, 136, seed)
    assert not report.findings, "\n".join(map(str, report.findings))
    assert np.abs(c.astype(np.float64) - wanted).max() <= 0.01 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("target", "old", "new"),
    [
        ("sm_100a", "                    commit empty[slot]\n", ""),
        ("sm_100a", "bytes(a, b)", "bytes(a)"),
        ("sm_100a", "barrier drained * 2, count = 4", "barrier drained * 2, count = 5"),
        ("sm_100a", "barrier full * STAGES, count = 1", "barrier full * STAGES, count = 2"),
        ("sm_90a", "arrive empty[before], each = warp", "arrive empty[before]"),
    ],
)  # fmt: skip
def test_what_never_completes_hangs(target: str, old: str, new: str, seed: int) -> None:
    kernel = tkc.compile(source(target, (old, new)), target=target, params=SMALL)
    report, _, _ = gemm(kernel, 300, 200, 264, seed)
    assert {f.code for f in report.findings} & {"TK314", "TK305"}, report.findings


@pytest.mark.parametrize(
    ("target", "old", "new"),
    [
        ("sm_100a", "                wait full[slot], phase\n", ""),
        ("sm_100a", "            wait done[i], turn\n", ""),
        ("sm_90a", "                wait products <= 1\n", ""),
        ("sm_90a", "                wait full[slot], phase\n", ""),
    ],
)  # fmt: skip
def test_a_wait_that_is_missing_shows(target: str, old: str, new: str, seed: int) -> None:
    kernel = tkc.compile(source(target, (old, new)), target=target, params=SMALL)

    def shows(schedule: str) -> bool:
        report, c, wanted = gemm(kernel, 300, 200, 264, seed, schedule)
        wrong = np.abs(c.astype(np.float64) - wanted).max()
        return bool(report.findings) or not wrong <= 0.01 * np.abs(wanted).max()

    assert any(map(shows, ("lazy", "eager", "random")))


ADD = """\
kernel add(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 32))
    shared x: tile[f32, 64, 32]
    barrier full, count = 1
    role all:
        phase = 0
        for m, n in work:
            elect:
                expect full, bytes(x)
                load x <- X[m, n], full, evict_first
            wait full, phase
            phase = phase ^ 1
            elect:
                store Y[m, n] += x, evict_last
                commit stores
                wait stores <= 0, read
        elect: wait stores
"""


def test_a_store_adds_and_copies_have_priorities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-99, 99, (70, 36)).astype(np.float32) for _ in range(2))
    wanted = x + y
    kernel = tkc.compile(ADD, target="sm_90a")
    report = kernel.emulate(x, y, sm_count=2, schedule="random", seed=seed)
    assert not report.findings, "\n".join(map(str, report.findings))
    assert (y == wanted).all()
    assert kernel.ptx.count(".L2::cache_hint") == 2
    assert "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add" in kernel.ptx


MIXED = """\
kernel mixed(X: global[bf16, M, N], Y: global[bf16, M, N], n: i32):
    launch persistent
    schedule work: m, k in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    shared y: tile[bf16, 128, 64] * 2
    barrier ready * 2, count = 4
    barrier free * 2, count = 1
    pipe inputs(x): load -> math
    role load:
        for m, k in work:
            put inputs: x <- X[m, k]
    role math, warps 4:
        i = 0
        phase = 0
        for m, k in work:
            get inputs:
                v = f32(read(x))
                wait free[i], phase ^ 1
                y[i] <- bf16(v + v)
                fence proxy shared
                sync warp
                if lane == 0: arrive ready[i]
            phase = phase ^ i
            i = i ^ 1
    role store:
        i = 0
        phase = 0
        for m, k in work:
            wait ready[i], phase
            elect:
                store Y[m, k] <- y[i]
                commit stores
                wait stores <= 0, read
                arrive free[i]
            j = 0
            while j < n: j += 1
            phase = phase ^ i
            i = 1 - i
        elect: wait stores
"""


@BOTH
def test_a_pipe_and_barriers_of_the_program_work_beside_each_other(target: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (300, 200)).astype(BF16)
    y = np.zeros_like(x)
    report = tkc.compile(MIXED, target=target).emulate(
        x, y, 3, sm_count=2, schedule="random", seed=seed
    )
    assert not report.findings, "\n".join(map(str, report.findings))
    assert (y.astype(np.float32) == 2 * x.astype(np.float32)).all()


CHOSEN = """
kernel chosen(X: global[f32, M, N], Y: global[f32, M, N], turn: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared x: tile[f32, 128, 32] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p:
                v = read(x)
                s = row_sum(v)
                if turn > 1:
                    v = v * 2
                    s = s + 1
                elif M > 100:
                    v = v - 1
                Y[m, n] <- v + s
"""


@BOTH
@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("rows", [72, 136])
def test_register_tiles_leave_a_condition(target: str, turn: int, rows: int, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(-1, 1, (rows, 40)).astype(np.float32)
    y = np.full_like(x, np.nan)
    report = tkc.compile(CHOSEN, target=target).emulate(x, y, turn, sm_count=2)
    assert not report.findings, "\n".join(map(str, report.findings))
    wide = x.astype(np.float64)
    total = np.add.reduceat(wide, range(0, 40, 32), axis=1).repeat([32, 8], axis=1)
    wanted = wide * 2 + total + 1 if turn > 1 else wide + total - (rows > 100)
    assert np.abs(y - wanted).max() < 1e-4


POLLING = """
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N], misses: global[i32, 1], turns: global[i32, 1]):
    param BM = 128, BN = 64
    launch persistent
    schedule work: m in blocks(M, BM)
    shared x: tile[bf16, BM, BN] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 4
    role load:
        s = 0
        ph = 0
        for m in work:
            for n in blocks(N, BN):
                elect:
                    while not try_wait(empty[s], ph ^ 1): atomic_add(turns[0], 1)
                    expect full[s], bytes(x)
                    load x[s] <- X[m, n], full[s]
                s = s ^ 1
                if s == 0: ph = ph ^ 1
    role math, warps 4:
        s = 0
        ph = 0
        for m in work:
            for n in blocks(N, BN):
                done = try_wait(full[s], ph)
                if not done:
                    atomic_add(misses[0], 1)
                    wait full[s], ph
                Y[m, n] <- read(x[s])
                fence proxy shared
                sync warp
                arrive empty[s], each = warp
                s = s ^ 1
                if s == 0: ph = ph ^ 1
"""
"""One side waits in a loop of its own, the other looks before it waits."""


@BOTH
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_a_wait_that_may_fail_is_a_condition(target: str, schedule: str, seed: int) -> None:
    kernel = tkc.compile(POLLING, target=target)
    kernel.cubin()
    x = np.random.default_rng(seed).uniform(-1, 1, (200, 328)).astype(BF16)
    y, misses, turns = np.full_like(x, np.nan), np.zeros(1, np.int32), np.zeros(1, np.int32)
    report = kernel.emulate(x, y, misses, turns, sm_count=2, schedule=schedule, seed=seed)
    assert not report.findings, report.findings
    assert (x == y).all()
