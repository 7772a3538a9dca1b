"""R20: `major = 0` on a tensor: operands, results and vectors that lie the other way round, and what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from programs import changed, mistakes, product

import tkc
from tkc.analysis.happens_before import check

BF16: Any = ml_dtypes.bfloat16

GEMM = product(
    "get result:",
    "    x = read(d) + row(read(V[n, 3])) + column(read(V[2, m]))",
    "    C[m, n] <- x",
    a="bf16, M, K, major = 0",
    arguments="C: global[f32, M, N, major = 0], V: global[f32, N, M, major = 0], S: global[bf16, K, M, major = 0]",
)

COPY = """
kernel copy(X: global[f32, M, N, major = 0], Y: global[f32, M, N], Z: global[f32, N, M, major = 0], s: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 128))
    shared x: tile[f32, 128, 128]
    shared u: tile[f32, 128, 128]
    pipe p(x): load -> math
    pipe q(u): math -> store
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math:
        for m, n in work:
            get p:
                put q: u <- read(x)
                Z[n, m] <- read(x).T
    role store:
        for m, n in work:
            get q: Y[m, n] <- u
"""


def uniform(seed: int, *shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_operands_results_and_vectors_lie_as_their_types_say(target: str, seed: int) -> None:
    kernel = tkc.compile(GEMM, target=target)
    m, n, k = 136, 200, 72
    a, b = uniform(seed, m, k, dtype=BF16), uniform(seed + 1, n, k, dtype=BF16)
    v, c = np.asfortranarray(uniform(seed + 2, n, m)), np.full((n, m), np.nan, np.float32).T
    s = np.zeros((m, k), BF16).T
    report = kernel.emulate(
        np.asfortranarray(a), b, c, v, s, schedule="random", seed=seed, sm_count=2
    )
    assert not report.findings, report.findings[0]
    assert check(kernel.module(after="eliminate-fences")) == []
    exact = a.astype(np.float64) @ b.astype(np.float64).T + v[:, 3] + v[2, :][:, None]
    assert np.abs(c - exact).max() < 1e-4
    said = {x["name"]: (x["dims"], x.get("major")) for x in kernel.contract["arguments"]}
    assert said["A"] == (["M", "K"], 0)
    assert said["B"] == (["N", "K"], None)


def test_a_tile_that_lies_the_other_way_is_turned_by_a_copy(seed: int) -> None:
    kernel = tkc.compile(COPY, target="sm_90a")
    x, y = np.asfortranarray(uniform(seed, 136, 200)), np.full((136, 200), np.nan, np.float32)
    z = np.full((136, 200), np.nan, np.float32).T
    report = kernel.emulate(x, y, z, 3, schedule="random", seed=seed, sm_count=2)
    assert not report.findings, report.findings[0]
    assert np.array_equal(x, y)
    assert np.array_equal(x, z.T)


def test_the_launch_checks_which_axis_is_contiguous() -> None:
    kernel = tkc.compile(COPY, target="sm_90a")
    right = np.asfortranarray(uniform(0, 136, 200))
    out, turned = np.zeros((136, 200), np.float32), np.zeros((136, 200), np.float32).T
    with pytest.raises(tkc.TkcError) as caught:
        kernel.emulate(np.ascontiguousarray(right), out, turned, 3)
    said, *_ = caught.value.diagnostics
    assert said.code == "TK405"
    assert said.message.startswith(
        "X: axis 0 must be contiguous, a stride of 4 bytes; found strides (800, 4) bytes"
    )


REFUSED = [
    ("N, major = 0], V" , "N, major = 2], V", "TK104", "`major = 2`: C has 2 axes, counted from 0"),
    ("N, major = 0], V" , "N, major = m], V", "TK102", "unknown name `m`; did you mean the size `M`"),
    ("N, major = 0], V" , "N, major = 0, major = 1], V", "TK102", "a type says `major` once"),
    ("N, major = 0], V" , "N, mayor = 0], V", "TK102", "a type has no `mayor = ...`; did you mean `major`"),
    ("tile[bf16, BM, BK]", "tile[bf16, BM, BK, major = 0]", "TK106",
     "`major` is of tensors: a tile lies as the tensor does that it is copied from or to"),
    ("A: global[bf16, M, K, major = 0]", "A: global[e4m3, M, K, scale = ue8m0 / 32, major = 0]", "TK106",
     "block scales lie along the last axis of A, which then is the contiguous one"),
    ("a <- A[m, k]", "a <- S[k, m]", "TK104", "`a` is [128, 64] and `S[k, m]` is [64, 128]: a copy keeps the shape"),
    ("A: global[bf16, M, K, major = 0]", "A: global[bf16, M, K, H, major = 2]", "TK116", "A has 3 axes and is given 2 indices"),
    ("A: global[bf16, M, K, major = 0]", "A: global[bf16, H, M, K, major = 0]", "TK110",
     "not supported yet: a slice of A without axis 0, which is contiguous (`major = 0`)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "code", "message"), REFUSED)
def test_what_is_refused(old: str, new: str, code: str, message: str) -> None:
    text = changed(GEMM, (old, new))
    if "H, M, K" in new:
        text = text.replace("a <- A[m, k]", "a <- A[3, m, k]")
    assert [(s.code, s.message) for s in mistakes(text)][:1] == [(code, message)]


def test_arithmetic_on_such_a_tile_says_what_to_do() -> None:
    text = changed(COPY, ("put q: u <- read(x)", "put q: u <- read(x) + 1"))
    assert [(s.code, s.message) for s in mistakes(text)] == [
        ("TK110", "not supported yet: arithmetic on `x`, which lies as X does, whose axis 0 is contiguous (`major = 0`): "
         "`u <- read(x)` into a tile of its own turns it")
    ]  # fmt: skip
    both = changed(COPY, ("Z[n, m] <- read(x).T", "Y[m, n] <- x"))
    assert [(s.code, s.message) for s in mistakes(both)] == [
        ("TK110", "not supported yet: tile x is copied from or to X and Y, whose contiguous axes lie along different axes of "
         "it: a tile for each fits")
    ]  # fmt: skip
