"""Explicit synchronisation between the CTAs of a cluster, run: multicast, other CTAs' barriers, pairs, meetings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc.analysis.order import diagnose
from tkc.driver import to_module
from tkc.job import Job

pytestmark = pytest.mark.share(3)

EXAMPLES = Path(__file__).parents[2] / "examples"
BF16 = ml_dtypes.bfloat16

MULTICAST = (EXAMPLES / "gemm_cluster_level2_sm90.tk").read_text(encoding="utf-8")


def gemm(kernel: tkc.Kernel, m: int, n: int, k: int, seed: int) -> tuple[Any, Any]:
    """The result, and NumPy's, on fresh data; no findings."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (m, k)).astype(BF16)
    b = rng.uniform(-1, 1, (n, k)).astype(BF16)
    c = np.full((m, n), np.nan, BF16)
    report = kernel.emulate(a, b, c, sm_count=4, schedule="random", seed=seed)
    assert not report.findings, "\n".join(map(str, report.findings))
    wanted = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(c.astype(np.float64) - wanted).max() <= 0.01 * max(1, np.abs(wanted).max())
    return c, wanted


@pytest.mark.parametrize(("m", "n", "k"), [(136, 136, 200), (300, 72, 64), (8, 8, 8), (136, 72, 0)])
def test_one_copy_serves_a_cluster(m: int, n: int, k: int, seed: int) -> None:
    for ctas in (2, 4):
        kernel = tkc.compile(MULTICAST, target="sm_90a", params={"CTAS": ctas})
        assert ".multicast::cluster" in kernel.ptx
        kernel.cubin()
        gemm(kernel, m, n, k, seed)


@pytest.mark.parametrize(("m", "n", "k"), [(136, 136, 200), (520, 72, 64), (8, 8, 8), (136, 72, 0)])
def test_a_pair_has_the_bits_of_the_declared_one(m: int, n: int, k: int, seed: int) -> None:
    params = {"BN": 128, "STAGES": 2}
    mine = tkc.compile(EXAMPLES / "gemm_2cta_level2.tk", target="sm_100a", params=params)
    declared = tkc.compile(EXAMPLES / "gemm_2cta.tk", target="sm_100a", params=params)
    one, other = (gemm(kernel, m, n, k, seed)[0] for kernel in (mine, declared))
    assert (one.view(np.uint16) == other.view(np.uint16)).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("count = 4 * CTAS ", "count = 4 * CTAS + 1 "),
        (", at = 0\n", ", at = 1\n"),
    ],
)
def test_what_never_completes_in_a_cluster_hangs(old: str, new: str, seed: int) -> None:
    assert old in MULTICAST
    kernel = tkc.compile(MULTICAST.replace(old, new), target="sm_90a")
    a = b = np.ones((304, 200), BF16)
    report = kernel.emulate(a, b, np.zeros((304, 304), BF16), sm_count=2, seed=seed)
    assert {f.code for f in report.findings} & {"TK314", "TK305"}, report.findings


COPY = Path(__file__).parents[2] / "lit_tests" / "run" / "cluster-copy.tk"


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("wait free[i], phase ^ 1, cluster", "sync warp", {"TK301", "TK302", "TK308", "TK309"}),
        ("            wait full[i], phase\n", "", {"TK301", "TK305"}),
        ("elect: expect given[i], bytes(y)", "elect: arrive given[i]", {"TK301", "TK305", "TK306"}),
        ("given[i], at = (rank + 1) % CTAS", "given[i], at = 0", {"TK305", "TK301", "TK314"}),
    ],
)
def test_a_slip_of_a_copy_between_ctas_is_seen(
    old: str, new: str, codes: set[str], seed: int
) -> None:
    text = COPY.read_text(encoding="utf-8")
    assert old in text
    kernel = tkc.compile(text.replace(old, new), target="sm_90a", params={"CTAS": 2, "STAGES": 1})
    x = np.ones((1024, 128), BF16)
    found: set[str] = set()
    for schedule in ("eager", "lazy", "random"):
        report = kernel.emulate(x, np.zeros_like(x), sm_count=2, schedule=schedule, seed=seed)
        found |= {f.code for f in report.findings}
    assert found & codes, found


DOUBLED = """
kernel doubled(X: global[bf16, M, N], Y: global[bf16, M, N]):
    param BM = 128, BN = 64, CTAS = 2
    launch persistent, cluster(CTAS)
    schedule work: q, m, n in tiles(blocks(CTAS, 1), blocks(M, BM * CTAS), blocks(N, BN), across = q)
    shared x: tile[bf16, BM, BN]
    shared c: tile[bf16, BM, BN]
    shared y: tile[bf16, BM, BN]
    barrier full, count = 1
    barrier given, count = 1
    barrier free, count = 1

    role all, warps 4:
        phase = 0
        for q, m, n in work:
            elect:
                expect full, bytes(x)
                load x <- X[m.part(rank, CTAS), n], full
            wait full, phase
            wait free, phase ^ 1, cluster
            c <- bf16(f32(read(x)) * 2)
            fence proxy shared
            sync role
            elect:
                expect given, bytes(y)
                copy y <- c, given, at = (rank + 1) % CTAS
            wait given, phase, cluster
            elect:
                store Y[m.part((rank + CTAS - 1) % CTAS, CTAS), n] <- y
                commit stores
                wait stores, read
                arrive free, at = (rank + CTAS - 1) % CTAS
            phase = phase ^ 1
        elect: wait stores
"""
"""Each CTA of a cluster doubles its tile and copies it to the next CTA, which stores it."""


def test_what_threads_wrote_is_copied_behind_a_fence(seed: int) -> None:
    """Without it the check and the emulator say so, of the copy that reads."""
    x = np.random.default_rng(seed).uniform(-1, 1, (600, 136)).astype(BF16)
    for line in ("fence proxy shared", "sync warp"):
        text = DOUBLED.replace("fence proxy shared", line)
        y = np.full_like(x, np.nan)
        kernel = tkc.compile(text, target="sm_90a")
        report = kernel.emulate(x, y, sm_count=4, schedule="random", seed=seed)
        told = [
            d for d, _ in diagnose(to_module(Job(text, "k.tk", "sm_90a"), after="insert-fences"))
        ]
        if line == "sync warp":
            assert "TK302" in {f.code for f in report.findings}
            places = {d.location.line for d in told if d.code == "TK302" and d.location}
            assert text[: text.index("copy y")].count("\n") + 1 in places
        else:
            assert not report.findings
            assert not told
            assert (
                "mbarrier.arrive.release.cluster" in kernel.ptx
            )  # a group of stores was awaited before
            assert (y.astype(np.float32) == 2 * x.astype(np.float32)).all()


def test_block_scaled_tiles_are_copied_with_their_scales() -> None:
    """Two copies, whose bytes `bytes` counts; tiles that have gaps are refused."""
    text = """
kernel k(A: global[ELEMENT, M, K, scale = ue8m0 / 32]):
    launch persistent, cluster(2)
    schedule work: m in tiles(blocks(M, 128))
    shared a: tile[ELEMENT, 128, 256, scale = ue8m0 / 32]
    shared b: tile[ELEMENT, 128, 256, scale = ue8m0 / 32]
    barrier full, count = 1
    barrier given, count = 1
    role all:
        phase = 0
        for m in work:
            for k in blocks(K, 256):
                elect:
                    expect full, bytes(a)
                    load a <- A[m, k], full
                wait full, phase
                elect:
                    expect given, bytes(b)
                    copy b <- a, given, at = rank ^ 1
                wait given, phase, cluster
                sync cluster
                phase = phase ^ 1
"""
    ptx = tkc.compile(text.replace("ELEMENT", "e4m3"), target="sm_100a").ptx
    sizes = re.findall(r"complete_tx::bytes \[%r\d+\], \[%r\d+\], (\d+),", ptx)
    expected = [int(n) for n in re.findall(r"arrive.expect_tx.*?, (\d+);", ptx)]
    assert sorted(map(int, sizes)) == [1024, 32768]
    assert expected == [33792, 33792]
    with pytest.raises(tkc.TkcError, match="tiles that have gaps"):
        tkc.compile(text.replace("ELEMENT", "e2m3"), target="sm_100a")


MEETING = """
kernel ranks(Y: global[f32, M, N], n: i32):
    launch persistent, cluster(4)
    schedule work: m in tiles(blocks(M, 32))
    shared x: tile[f32, 32, 32]
    barrier told, count = 4
    role all, warps 1:
        turn = 0
        for m in work:
            LINE
            for r in unroll(4):
                arrive told, at = r
            wait told, turn, cluster
            turn = turn ^ 1
"""


@pytest.mark.parametrize(
    "line",
    [
        "sync cluster",
        "arrive cluster\n            wait cluster",
        "arrive cluster, relaxed\n            wait cluster",
    ],
)
def test_all_threads_of_a_cluster_meet(line: str, seed: int) -> None:
    kernel = tkc.compile(MEETING.replace("LINE", line), target="sm_90a")
    assert kernel.ptx.count("barrier.cluster.wait") == 3
    report = kernel.emulate(np.zeros((300, 32), np.float32), 1, sm_count=8, seed=seed)
    assert not report.findings, "\n".join(map(str, report.findings))
    kernel.cubin()


@pytest.mark.parametrize("line", ["sync cluster", "sync cta", "arrive cluster; wait cluster"])
def test_all_roles_come_to_where_all_threads_meet(line: str) -> None:
    other = "    role other:\n        for m in work: arrive told\n"
    with pytest.raises(tkc.TkcError, match="role other never comes: it must meet here, too"):
        tkc.compile(MEETING.replace("LINE", line) + other, target="sm_90a")
    tkc.compile(MEETING.replace("LINE", line) + other.replace("arrive told", line), target="sm_90a")
