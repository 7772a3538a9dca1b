"""Items whose products conditions and loops may leave out: who reads such a sum reads zeros (R7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import tkc

pytestmark = pytest.mark.share(12)
RNG = np.random.default_rng()
BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
BM, BK = 128, 64

PROGRAM = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N], w: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    schedule some(q): k in blocks(K, 64) where any(k > q + w)
    shared a: tile[bf16, 128, 64] * 3
    shared b: tile[bf16, 64, 64] * 3
    accum d: tile[f32, 128, 64]
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    role load:
        for m, n in work:
{loads}
    role math:
        for m, n in work:
            put result:
                d = 0
{products}
    role store:
        for m, n in work:
            get result: C[m, n] <- read(d) * 0.5
"""
LOAD = "put inputs: a <- A[m, k]; b <- B[n, k]"
ADD = "get inputs: d += a @ b.T"


class Form(NamedTuple):
    """Statements round an item of the operands, and how often block k of the sum of block m counts."""

    text: str
    times: Callable[[int, int, int, int], int]


def counted(m: int, k: int, w: int, size: int) -> bool:
    """`any(k > m + w)` of the elements that there are."""
    return min(size, BK * (k + 1)) - 1 > BM * m + w


FORMS = {
    "condition": Form("for k in blocks(K, 64):\n    if k.index >= w:\n        ITEM", lambda m, k, w, size: k >= w),
    "round the loop": Form("if m.index >= w:\n    for k in blocks(K, 64):\n        ITEM", lambda m, k, w, size: m >= w),
    "arms": Form(
        "for k in blocks(K, 64):\n    if m.index == w:\n        e = 1\n        ITEM\n    else:\n"
        "        if k.index < w - 4:\n            ITEM",
        lambda m, k, w, size: m == w or k < w - 4,
    ),
    "otherwise": Form(
        "for k in blocks(K, 64):\n    if k.index < w:\n        e = 1\n    else:\n        ITEM",
        lambda m, k, w, size: k >= w,
    ),
    "where": Form("for k in some(m):\n    ITEM", lambda m, k, w, size: counted(m, k, w, size)),
    "integers": Form(
        "for i in range(w - m.index):\n    for k in blocks(K, 64):\n        ITEM", lambda m, k, w, size: max(0, w - m)
    ),
    "inner": Form(
        "for i in range(w):\n    for k in blocks(K, 64):\n        if k.index == i + m.index:\n            ITEM",
        lambda m, k, w, size: k >= m and k - m < w,
    ),
    "while": Form(
        "i = w - m.index\nwhile i > 0:\n    for k in blocks(K, 64):\n        ITEM\n    i = i - 1",
        lambda m, k, w, size: max(0, w - m),
    ),
    "two": Form(
        "for k in blocks(K, 64):\n    if k.index < w - 2:\n        ITEM\nfor k in some(m):\n    ITEM",
        lambda m, k, w, size: (k < w - 2) + counted(m, k, w, size),
    ),
}  # fmt: skip


def written(form: Form, item: str, by: int) -> str:
    lines = form.text.replace("ITEM", item).splitlines()
    return "\n".join(" " * by + line for line in lines)


def matrices(*shapes: tuple[int, int]) -> list[np.ndarray[Any, Any]]:
    return [RNG.normal(size=shape).astype(ml_dtypes.bfloat16) for shape in shapes]


def run(text: str, target: str, *arguments: Any, **numbers: int) -> None:
    kernel = tkc.compile(text, target=target)
    report = kernel.emulate(*arguments, *numbers.values(), sm_count=2, schedule="random")
    assert not report.findings, "\n".join(map(str, report.findings))


@BOTH
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("w", [0, 1, 3, 100])
def test_products_that_may_be_left_out(target: str, name: str, w: int) -> None:
    form = FORMS[name]
    if name in ("integers", "inner", "while", "two"):
        w = min(w, 4)
    m, n, k = 300, 72, 200
    a, b = matrices((m, k), (n, k))
    c = np.full((m, n), 77, np.float32)
    text = PROGRAM.format(loads=written(form, LOAD, 12), products=written(form, ADD, 16))
    run(text, target, a, b, c, w=w)
    want = np.zeros((m, n))
    for row in range(-(-m // BM)):
        for block in range(-(-k // BK)):
            rows, inside = slice(BM * row, BM * (row + 1)), slice(BK * block, BK * (block + 1))
            times = int(form.times(row, block, w, k))
            want[rows] += times * (
                a[rows, inside].astype(np.float64) @ b[:, inside].astype(np.float64).T
            )
    np.testing.assert_allclose(c, want * 0.5, rtol=1e-5, atol=1e-3)


COUNTED = PROGRAM.replace("w: i32", "R: const global[i32, T]").replace("k > q + w", "k > q")


@BOTH
def test_counts_of_the_device_leave_products_out(target: str) -> None:
    m, n, k = 300, 72, 200
    a, b = matrices((m, k), (n, k))
    counts, c = np.array([2, 0, 9], np.int32), np.full((m, n), 77, np.float32)
    form = Form("for k in blocks(K, 64):\n    if k.index < read(R[m.index]):\n        ITEM", int)
    text = COUNTED.format(loads=written(form, LOAD, 12), products=written(form, ADD, 16))
    run(text, target, a, b, c, counts)
    for row, count in enumerate(counts):
        rows = slice(BM * row, BM * (row + 1))
        want = a[rows, : BK * count].astype(np.float64) @ b[:, : BK * count].astype(np.float64).T
        np.testing.assert_allclose(c[rows], want * 0.5, rtol=1e-5, atol=1e-3)


TWO = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], E: global[bf16, M, J], F: global[bf16, N, J],
         C: global[f32, M, N], D: global[f32, M, N], Z: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared a: tile[bf16, 128, 64] * 3
    shared b: tile[bf16, 64, 64] * 3
    accum d: tile[f32, 128, 64]
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, 64):
                put inputs: a <- A[m, k]; b <- B[n, k]
            for j in blocks(J, 64):
                put inputs: a <- E[m, j]; b <- F[n, j]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, 64):
                    get inputs: d += a @ b.T
            put result:
                d = 0
                for j in blocks(J, 64):
                    get inputs: d += a @ b.T
            put result: d = 0
    role store:
        for m, n in work:
            get result: C[m, n] <- read(d)
            get result: D[m, n] <- read(d)
            get result: Z[m, n] <- read(d)
"""


@BOTH
@pytest.mark.parametrize(("k", "j"), [(72, 72), (72, 0), (0, 72), (0, 0)])
def test_each_of_several_puts_may_have_none(target: str, k: int, j: int) -> None:
    m, n = 136, 72
    a, b, e, f = matrices((m, k), (n, k), (m, j), (n, j))
    c, d, z = (np.full((m, n), 77, np.float32) for _ in range(3))
    run(TWO, target, a, b, e, f, c, d, z)
    for found, left, right in ((c, a, b), (d, e, f)):
        want = left.astype(np.float64) @ right.astype(np.float64).T
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-3)
    assert not z.any()


ARMS = """\
if m.index >= w:
    put result:
        d = 0
        for k in blocks(K, 64):
            if k.index >= w:
                get inputs: d += a @ b.T
else:
    put result:
        d = 0
        for k in blocks(K, 64):
            if k.index >= w:
                get inputs: d += a @ b.T"""
GETS = "if w <= m.index:\n    get result: C[m, n] <- read(d)\nelse:\n    get result: C[m, n] <- read(d)"


def test_which_put_it_is_of_must_be_known() -> None:
    """Two puts under unlike conditions, and a get for each whose condition is written otherwise."""
    loads = ARMS.replace("        d = 0\n", "").replace("    put result:\n", "    if 0 == 0:\n")
    loads = loads.replace("get inputs: d += a @ b.T", LOAD)
    text = PROGRAM.format(loads=written(Form(loads, int), "", 12), products="")
    text = text.replace(
        "            put result:\n                d = 0\n", written(Form(ARMS, int), "", 12)
    )
    whole = "            get result: C[m, n] <- read(d) * 0.5"
    assert whole in text
    text = text.replace(whole, written(Form(GETS, int), "", 12))
    with pytest.raises(tkc.TkcError, match="roles math and store disagree about the items"):
        tkc.compile(text, target="sm_100a")
    tkc.compile(text.replace("if w <= m.index", "if m.index >= w"), target="sm_100a")


@pytest.mark.parametrize(
    ("condition", "before", "code", "said"),
    [
        (
            "read(S[k.index]) > 3",
            "",
            "TK110",
            "it depends on what only the role of the products knows",
        ),
        ("lane > 3", "", "TK121", "this condition is another one in each thread"),
        ("x > 3", "x = w", "TK110", "it depends on what only the role of the products knows"),
    ],
)
def test_a_condition_that_others_cannot_know(
    condition: str, before: str, code: str, said: str
) -> None:
    lines = ["for k in blocks(K, 64):", "    get inputs:", f"        if {condition}: d += a @ b.T"]
    if before:
        lines = [before, *lines, "        x = x + 1"]
    text = PROGRAM.replace("w: i32", "w: i32, S: global[i32, N]").format(
        loads=written(Form("for k in blocks(K, 64):\n    ITEM", int), LOAD, 12),
        products="\n".join(16 * " " + line for line in lines),
    )
    with pytest.raises(tkc.TkcError, match=said) as raised:
        tkc.compile(text, target="sm_90a")
    assert [d.code for d in raised.value.diagnostics] == [code]
