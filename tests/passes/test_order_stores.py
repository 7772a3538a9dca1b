"""Stores of one role to one place come in the program's order, and others wait for nobody, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tkc
from tkc.analysis.happens_before import check
from tkc.ir.stage.ops import BulkWaitOp

PROGRAM = """
kernel stores(A: global[f32, M, N], B: global[f32, M, N], Y: global[f32, M, N], S: global[f32, M], flag: i32):
    launch persistent
    schedule work: m in tiles(blocks(M, 64))
    shared a: tile[f32, 64, 32] * 2
    shared b: tile[f32, 64, 32] * 2
    shared h: tile[f32, 32, 32] * 2
    pipe inputs(a, b, h): load -> math
    role load:
        for m in work:
            for k in blocks(N, 32):
                put inputs:
                    a <- A[m, k]
                    b <- B[m, k]
                    h <- B[m.part(0, 2), k]
    role math, warps 2:
        for m in work:
            for k in blocks(N, 32):
                get inputs:
BODY
"""

Numbers = dict[str, np.ndarray]
Wanted = Callable[[np.ndarray, np.ndarray, int], np.ndarray]

KERNELS: dict[str, tuple[str, int, Wanted]] = {
    "slots": ("Y[m, k] <- a; Y[m, k] <- b", 1, lambda a, b, f: b),
    "sum": ("Y[m, k] <- a; Y[m, k] += b", 1, lambda a, b, f: a + b),
    "sum, then over it": ("Y[m, k] <- b; Y[m, k] += b; Y[m, k] <- a", 2, lambda a, b, f: a),
    "two sums": ("Y[m, k] <- a; Y[m, k] += b; Y[m, k] += a", 1, lambda a, b, f: 2 * a + b),
    "registers": ("Y[m, k] <- read(a) * 2; Y[m, k] <- b", 1, lambda a, b, f: b),
    "onto registers": ("Y[m, k] <- a; Y[m, k] += read(b) * 2", 1, lambda a, b, f: a + 2 * b),
    "both under a condition": (
        "if flag > 0:\n    Y[m, k] <- a\n    Y[m, k] += b\nelse: Y[m, k] <- b",
        1,
        lambda a, b, f: a + b if f else b,
    ),
    "one under a condition": (
        "Y[m, k] <- a\nif flag > 0: Y[m, k] <- b",
        1,
        lambda a, b, f: b if f else a,
    ),
    "in each turn": ("for i in range(3): Y[m, k] <- read(a) * f32(i)", 1, lambda a, b, f: 2 * a),
    "first cleared": (
        "Y[m, k] <- b\nfor i in range(3): Y[m, k] += a",
        1,
        lambda a, b, f: b + 3 * a,
    ),
}

APART = {
    "other blocks": "Y[m, k] <- a",
    "parts": "Y[m.part(0, 2), k] <- h\nY[m.part(1, 2), k] <- h",
    "sums": "for i in range(3): Y[m, k] += a",
    "parts by number": "for i in range(2): Y[m.part(i, 2), k] <- h",
    "the last turn": "for i in range(4):\n    if i == 3 and k.index < 9: Y[m, k] <- a",
    "either": "if k.first: Y[m, k] <- a\nelse: Y[m, k] <- b",
}
"""Stores of which no two are to one place, so that none waits; `h` is a tile of half the rows."""


def program(body: str) -> str:
    lines = "\n".join(" " * 20 + line for line in body.split("\n"))
    return PROGRAM.replace("BODY", lines)


def waits(kernel: tkc.Kernel) -> int:
    """Waits of the role for complete stores, but for the one at its end."""
    found = kernel.module(after="order-stores").walk()
    return sum(isinstance(op, BulkWaitOp) for op in found)


@pytest.mark.parametrize(
    ("name", "flag"), [(n, f) for n, k in KERNELS.items() for f in range(1 + ("flag" in k[0]))]
)
def test_the_last_store_to_a_place_is_the_last(name: str, flag: int, seed: int) -> None:
    body, expected, wanted = KERNELS[name]
    kernel = tkc.compile(program(body), target="sm_90a" if flag else "sm_100a")
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (72, 40)).astype(np.float32) for _ in range(2))
    y, s = np.full_like(a, np.nan), np.full(72, np.nan, np.float32)
    report = kernel.emulate(a, b, y, s, flag, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    np.testing.assert_allclose(y, wanted(a, b, flag), atol=1e-6)
    assert waits(kernel) == expected
    assert check(kernel.module(after="eliminate-fences")) == []


@pytest.mark.parametrize("name", APART)
def test_stores_to_other_places_do_not_wait(name: str) -> None:
    assert waits(tkc.compile(program(APART[name]))) == 0


VECTORS = """
kernel sums(A: global[f32, M, N], V: global[f32, M], S: global[f32, M]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared a: tile[f32, 128, 32] * 2
    shared v: vector[f32, 128]
    pipe inputs(a): load -> math
    pipe values(v): load -> math
    role load:
        for m in work:
            put values: v <- V[m]
            for k in blocks(N, 32):
                put inputs: a <- A[m, k]
    role math, warps 4:
        for m in work:
            total = full(0)
            get values:
                BEFORE
                for k in blocks(N, 32):
                    get inputs: total = total + row_sum(read(a))
                AFTER
"""


@pytest.mark.parametrize("copied_first", [False, True])
def test_what_threads_store_is_ordered_with_what_the_copy_engine_stores(
    copied_first: bool, seed: int
) -> None:
    words = ("S[m] <- v", "S[m] <- total")
    text = VECTORS.replace("BEFORE", words[0] if copied_first else "pass_")
    text = text.replace("                pass_\n", "")
    after = words[1] if copied_first else f"{words[1]}\n                {words[0]}"
    kernel = tkc.compile(text.replace("AFTER", after), target="sm_100a")
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, (136, 40)).astype(np.float32)
    v, out = rng.uniform(-1, 1, 136).astype(np.float32), np.full(136, np.nan, np.float32)
    report = kernel.emulate(a, v, out, schedule="random", seed=seed, sm_count=1)
    assert not report.findings, report.findings[0]
    np.testing.assert_allclose(out, a.sum(1) if copied_first else v, atol=1e-5)
    assert check(kernel.module(after="eliminate-fences")) == []
