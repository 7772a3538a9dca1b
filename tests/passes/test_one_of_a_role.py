"""A role whose rows two warpgroups split is one role: one thread of it is elected, one arrives, and all of it meet."""

from __future__ import annotations

from textwrap import indent

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc.analysis.happens_before import check

SOURCE = """
kernel k(A: global[bf16, M, 64], B: global[bf16, N, 64], C: global[f32, M, N], S: global[f32, 4]):
    param BM = 128
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, 64))
    shared a: tile[bf16, BM, 64] * 2
    shared b: tile[bf16, 64, 64] * 2
    accum d: tile[f32, BM, 64]
    barrier seen, count = 1
    barrier back, count = 1
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(64, 64):
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(64, 64):
                    get inputs: d += a @ b.T
    role store:
        phase = 0
        for m, n in work:
            get result: C[m, n] <- read(d)
            sync role
            arrive seen
            elect: atomic_add(S[0], 1.0)
            if warp == 1:
                elect: atomic_add(S[1], 1.0)
            elect warp: atomic_add(S[2], 1.0)
            wait back, phase
            phase = phase ^ 1
    role count, warps 1:
        phase = 0
        total = 0
        for m, n in work:
            wait seen, phase
            phase = phase ^ 1
            total = total + 1
            arrive back
        elect: atomic_add(S[3], f32(total))
"""


@pytest.mark.parametrize(("target", "rows", "warps"), [("sm_90a", 128, 8), ("sm_90a", 64, 4), ("sm_100a", 128, 4)])  # fmt: skip
def test_one_thread_acts_for_all_warpgroups(target: str, rows: int, warps: int) -> None:
    a, b = (np.ones((n, 64), ml_dtypes.bfloat16) for n in (200, 136))
    c, s = np.full((200, 136), np.nan, np.float32), np.zeros(4, np.float32)
    kernel = tkc.compile(SOURCE, target=target, params={"BM": rows})
    report = kernel.emulate(a, b, c, s, sm_count=1, max_steps=400_000)
    assert not report.findings
    items = -(-200 // rows) * 3
    assert s.tolist() == [items, items, items * warps, items]
    np.testing.assert_array_equal(c, 64)
    assert check(kernel.module("insert-fences")) == []


@pytest.mark.parametrize("wait", ["", "                wait stores\n"])
def test_each_warpgroup_awaits_its_own_stores(wait: str) -> None:
    """Two stores to one place: the compiler puts a wait between, or finds the program's."""
    text = SOURCE.replace(
        "            get result: C[m, n] <- read(d)\n            sync role\n",
        f"            get result:\n                C[m, n] <- read(d)\n{wait}                C[m, n] <- 2 * read(d)\n",
    )
    a, b = (np.ones((n, 64), ml_dtypes.bfloat16) for n in (200, 136))
    c, s = np.full((200, 136), np.nan, np.float32), np.zeros(4, np.float32)
    kernel = tkc.compile(text, target="sm_90a")
    report = kernel.emulate(a, b, c, s, sm_count=1, max_steps=400_000)
    assert not report.findings
    np.testing.assert_array_equal(c, 128)
    assert check(kernel.module("insert-fences")) == []


@pytest.mark.parametrize(
    ("lines", "code"),
    [("arrive seen", "TK306"), ("if warp == 5: S[lane % 2] <- f32(lane)\nsync role\narrive seen", "TK301")],
)  # fmt: skip
def test_the_second_warpgroup_is_looked_at_where_it_does_not_what_the_first_does(
    lines: str, code: str
) -> None:
    """It may miss a phase that the first alone arrives for, or do what only one of its warps does."""
    text = SOURCE.replace(
        "            sync role\n            arrive seen\n", indent(lines + "\n", " " * 12)
    )
    kernel = tkc.compile(text, target="sm_90a")
    found = {(f.code, *f.roles) for f in check(kernel.module("insert-fences"))}
    assert (code, "math[1]") in found


def test_a_warp_of_the_second_warpgroup_may_arrive() -> None:
    text = SOURCE.replace("arrive seen", "if warp == 5: arrive seen")
    assert check(tkc.compile(text, target="sm_90a").module("insert-fences")) == []


def test_one_of_some_warps_is_not_the_one_that_acts_for_the_role() -> None:
    text = SOURCE.replace("arrive seen", "if warp >= 4: arrive seen")
    with pytest.raises(tkc.TkcError, match="some threads of the role reach"):
        tkc.compile(text, target="sm_90a")
