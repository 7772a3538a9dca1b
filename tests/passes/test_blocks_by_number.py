"""Blocks by their numbers: what is copied, and which stores wait for one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tkc
from tests.analysis.bug_cases import changed

PIPED = """\
kernel k(X: global[f32, M, N], O: const global[i32, R], Y: global[f32, M, N]):
    launch persistent
    schedule work: r, n in tiles(R, blocks(N, 32))
    shared x: tile[f32, 64, 32] * 2
    pipe p(x): load -> store
    role load:
        for r, n in work:
            put p: x <- X[blocks(M, 64)[read(O[r])], n]
    role store:
        for r, n in work:
            get p: Y[blocks(M, 64)[r], n] <- x
"""
SPELLED = """\
kernel k(X: global[f32, M, N], O: const global[i32, R], Y: global[f32, M, N]):
    launch persistent
    schedule work: r, n in tiles(R, blocks(N, 32))
    shared x: tile[f32, 64, 32]
    barrier full, count = 1
    role all, warps 2:
        phase = 0
        for r, n in work:
            elect:
                expect full, bytes(x)
                load x <- X[blocks(M, 64)[read(O[r])], n], full
            wait full, phase
            Y[blocks(M, 64)[r], n] <- read(x)
            fence proxy shared
            sync role
            phase = phase ^ 1
"""


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("text", [PIPED, SPELLED], ids=["piped", "spelled"])
def test_blocks_go_where_a_table_says(text: str, target: str) -> None:
    rng = np.random.default_rng(2)
    x: Any = rng.normal(size=(200, 40)).astype(np.float32)
    order = np.array([3, 1, 0, 2], np.int32)
    y = np.full_like(x, np.nan)
    assert not tkc.compile(text, target=target).emulate(x, order, y, sm_count=2).findings
    padded = np.zeros((256, 40), np.float32)
    padded[:200] = x
    right = np.concatenate([padded[64 * i : 64 * i + 64] for i in order])[:200]
    np.testing.assert_array_equal(y, right)


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        ("r", "r", 2),
        ("r", "read(O[r])", 2),
        ("0", "0", 2),
        ("r", "r + 1", 1),
        ("2 * r", "2 * r + 1", 1),
    ],
)
def test_a_store_waits_for_one_to_a_block_that_may_be_the_same(
    first: str, second: str, waits: int
) -> None:
    text = changed(
        PIPED,
        ("            put p", "            for t in 0, 1: put p"),
        ("role store:", "role store, warps 2:"),
        (
            "get p: Y[blocks(M, 64)[r], n] <- x",
            f"get p: Y[blocks(M, 64)[{first}], n] <- read(x)\n"
            f"            get p: Y[blocks(M, 64)[{second}], n] += read(x)",
        ),
    )
    ptx = tkc.compile(text, target="sm_90a").ptx
    assert ptx.count("cp.async.bulk.wait_group 0") == waits
