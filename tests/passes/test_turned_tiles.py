"""`u <- w.T`: tiles that registers turn on their way to shared memory, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import number_programs
import numpy as np
import pytest
from programs import changed

import tkc
from tkc.analysis.happens_before import check

DTYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}

PROGRAM = """
kernel turned(A: global[DT, M, K], W: global[DT, N, K], C: global[OUT, N, M]):
    param BM = 128, BN = 128, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[DT, BM, BK] * 2
    shared w: tile[DT, BN, BK] * 2
    shared u: tile[DT, BK, BN] * 2
    shared c: tile[OUT, BN, BM]
    accum d: tile[f32, BM, BN]
    pipe inputs(a): load -> math
    pipe raw(w): load -> turn
    pipe ready(u): turn -> math
    pipe result(d): math -> back
    pipe out(c): back -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs: a <- A[m, k]
                put raw: w <- W[n, k]
    role turn, warps 4:
        for m, n in work:
            for k in blocks(K, BK):
                get raw, put ready: u <- w.T
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, BK):
                    get inputs, ready: d += a @ u
    role back:
        for m, n in work:
            get result:
                put out: c <- RESULT.T
    role store:
        for m, n in work:
            get out: C[n, m] <- c
"""


def program(dtype: str, out: str) -> str:
    result = "read(d)" if out == "f32" else f"{out}(read(d))"
    return PROGRAM.replace("DT", dtype).replace("OUT", out).replace("RESULT", result)


@pytest.mark.parametrize(
    ("target", "dtype", "out", "bm", "bn"),
    [
        ("sm_90a", "bf16", "f32", 128, 128),  # two warpgroups share the rows
        ("sm_90a", "f16", "bf16", 64, 128),
        ("sm_100a", "bf16", "f16", 256, 128),
        ("sm_100a", "f16", "f32", 64, 128),  # upper lanes hold nothing
    ],
)
def test_tiles_are_turned_on_their_way(
    target: str, dtype: str, out: str, bm: int, bn: int, seed: int
) -> None:
    text = program(dtype, out)
    kernel = tkc.compile(text, target=target, params={"BM": bm, "BN": bn})
    rng, m, n, k = np.random.default_rng(seed), 136, 200, 72
    a, w = (rng.uniform(-1, 1, shape).astype(DTYPES[dtype]) for shape in ((m, k), (n, k)))
    c = np.full((n, m), np.nan, DTYPES[out])
    report = kernel.emulate(a, w, c, schedule="random", seed=seed, sm_count=2)
    assert not report.findings, report.findings[0]
    assert check(kernel.module(after="eliminate-fences")) == []
    exact = w.astype(np.float64) @ a.astype(np.float64).T
    unit = {"f32": 1e-5, "f16": 1e-3, "bf16": 8e-3}[out]
    assert np.abs(c.astype(np.float64) - exact).max() <= unit * np.abs(exact).max()


def test_the_operand_that_is_turned_may_be_of_the_transposed_axis_only() -> None:
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(program("bf16", "f32").replace("u <- w.T", "u <- w"), target="sm_90a")
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        ("TK110", "not supported yet: a copy from shared tile to shared tile: `u <- read(w)` goes through registers")
    ]  # fmt: skip
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(program("bf16", "f32").replace("u <- w.T", "u <- read(w)"), target="sm_90a")
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        ("TK104", "`u` is [64, 128] and `read(w)` is [128, 64]: a copy keeps the shape")
    ]


def test_a_product_that_wants_another_order_names_the_role_that_turns() -> None:
    """Bytes whose contracted axis is not contiguous, on Hopper."""
    text = number_programs.TURNED.format(dtype="e4m3", out="e4m3", sum="f32")
    for old, new in (
        ("    shared u: tile[e4m3, BN, BK] * 2\n", ""), ("    pipe ready(u): turn -> math\n", ""),
        ("load -> turn", "load -> math"), ("ready: d += a @ u.T", "raw: d += a @ w"),
        (text[text.index("    role turn") : text.index("    role math")], ""),
    ):  # fmt: skip
        text = changed(text, (old, new))
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_90a")
    assert [d.code for d in caught.value.diagnostics] == ["TK115"]
    assert "`turned.T` for `tile`" in caught.value.diagnostics[0].notes[0].message
