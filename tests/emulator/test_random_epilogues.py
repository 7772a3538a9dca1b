"""Random arithmetic of tiles, rows, columns and numbers beside an accumulator, against NumPy."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.share(3)

SOURCE = """
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], R: global[{r}, M, N], v: global[{v}, N], w: global[{w}, M],
         C: global[{c}, M, N], S: global[f32, M], x: f32):
    param BM = {bm}, BN = {bn}, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK] * 2
    shared b: tile[bf16, BN, BK] * 2
    shared r: tile[{r}, BM, BN]
    shared p: vector[{v}, BN]
    accum d: tile[f32, BM, BN]
    pipe inputs(a, b): load -> math
    pipe extra(r, p): load -> store
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, BK):
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
            put extra:
                r <- R[m, n]
                p <- v[n]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, BK):
                    get inputs: d += a @ b.T
    role store:
        for m, n in work:
            get result, extra:
                e = {expression}
                S[m] <- {reduction}(e)
                C[m, n] <- {cast}(e)
"""

DTYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}


def wide(array: Array) -> Array:
    return array.astype(np.float64)


class Made:
    """An expression as text and as an array that spreads."""

    def __init__(self, rng: random.Random, leaves: list[tuple[str, Array]]) -> None:
        self.rng, self.leaves = rng, leaves

    def one(self, depth: int) -> tuple[str, Array]:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(self.leaves)
        if rng.random() < 0.3:
            text, value = self.one(depth - 1)
            if value.ndim == 0:  # functions of numbers are not there yet
                return text, value
            name, function = rng.choice(
                [("relu", lambda a: np.maximum(a, 0)), ("abs", np.abs), ("tanh", np.tanh), ("-", np.negative)]
            )  # fmt: skip
            return f"{name}({text})", function(value)
        (a, u), (b, w) = self.one(depth - 1), self.one(depth - 1)
        if rng.random() < 0.15 and max(u.ndim, w.ndim):
            return f"({a} if {a} <= {b} else {b})", np.minimum(
                u, w
            )  # where they are near, so is the choice
        match rng.randrange(5):
            case 0:
                return f"({a} + {b})", u + w
            case 1:
                return f"({a} - {b})", u - w
            case 2:
                return f"({a} * {b})", u * w
            case 3:
                return f"max({a}, {b})", np.maximum(u, w)
            case _:
                return f"min({a}, {b})", np.minimum(u, w)


def by_blocks(x: Array, rows: int, reduction: Any) -> Array:
    """Columns reduced over each block of rows, in every row of it."""
    parts = [x[first : first + rows] for first in range(0, len(x), rows)]
    return np.concatenate([np.broadcast_to(reduction(p, axis=0), p.shape) for p in parts])


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("turn", range(8))
def test_random_epilogues(target: str, turn: int) -> None:
    seed = random.randrange(2**32)
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    bm, bn = rng.choice([64, 128, 256]), rng.choice([32, 48, 96])
    r, v, w, c = (rng.choice(list(DTYPES)) for _ in range(4))
    m, n, k = rng.randrange(1, 300), 8 * rng.randrange(1, bn // 8 + 1), 8 * rng.randrange(1, 10)

    def uniform(*shape: int, dtype: str = "bf16") -> Array:
        return numbers.uniform(-1, 1, shape).astype(DTYPES[dtype])

    def read(name: str, dtype: str) -> str:
        return f"read({name})" if dtype == "f32" else f"f32(read({name}))"

    a, b = uniform(m, k), uniform(n, k)
    tile, across, down, x = uniform(m, n, dtype=r), uniform(n, dtype=v), uniform(m, dtype=w), 0.75
    product = wide(a) @ wide(b).T
    leaves = [
        ("read(d)", product),
        (read("r", r), wide(tile)),
        (f"row({read('p', v)})" if v == "f32" else "f32(row(read(p)))", wide(across)[None, :]),
        (
            f"column({read('w[m]', w)})" if w == "f32" else "f32(column(read(w[m])))",
            wide(down)[:, None],
        ),
        ("x", np.array(x)),
        ("row_max(read(d))", product.max(axis=1, keepdims=True)),
        (f"row_sum({read('r', r)})", wide(tile).sum(axis=1, keepdims=True)),
        ("col_max(read(d))", by_blocks(product, bm, np.max)),
        (f"col_sum({read('r', r)} + 1)", by_blocks(wide(tile) + 1, bm, np.sum)),
        (f"col_min({read('r', r)})", by_blocks(wide(tile), bm, np.min)),
    ]
    made, wanted = Made(rng, leaves).one(4)
    expression, wanted = f"read(d) + ({made})", product + wanted
    c = "f32" if np.abs(wanted).max() > 6e4 else c
    name, reduction = rng.choice([("row_sum", np.sum), ("row_max", np.max), ("row_min", np.min)])
    text = SOURCE.format(
        r=r, v=v, w=w, c=c, bm=bm, bn=bn, expression=expression, reduction=name, cast="" if c == "f32" else c
    )  # fmt: skip
    out, rows = np.full((m, n), np.nan, DTYPES[c]), np.full(m, np.nan, np.float32)
    told = f"seed {seed}, {m} x {n} x {k}\n{text}"
    try:
        kernel = tkc.compile(text, target=target)
    except tkc.TkcError as error:
        assert error.diagnostics[0].code in ("TK203", "TK204", "TK206"), f"{error}\n{told}"  # noqa: PT017
        return
    report = kernel.emulate(a, b, tile, across, down, out, rows, x, sm_count=2)
    assert not report.findings, f"{report.findings[0]}\n{told}"
    scale = np.abs(wanted).max() or 1.0
    unit = {"f32": 1e-5, "f16": 1e-3, "bf16": 8e-3}[c] + 2e-3 * ("tanh" in made)
    assert np.abs(wide(out) - wanted).max() <= unit * scale, told
    sums = np.abs(wanted).sum(axis=1).max() if name == "row_sum" else scale
    bound = (1e-5 + 2e-3 * ("tanh" in made)) * (sums or 1.0)
    assert np.abs(wide(rows) - reduction(wanted, axis=1)).max() <= bound, told


def test_an_item_that_two_warpgroups_do_not_touch_is_handed_on() -> None:
    """Both release it: one of them alone would be an arrival too few or too many, and the ring would hang."""
    text = SOURCE.format(
        r="bf16", v="f32", w="f32", c="f32", bm=128, bn=32, expression="read(d)", reduction="row_sum", cast=""
    )  # fmt: skip
    numbers = np.random.default_rng()
    a, b = (numbers.uniform(-1, 1, (x, 64)).astype(DTYPES["bf16"]) for x in (400, 64))
    tile, across = np.zeros((400, 64), DTYPES["bf16"]), np.zeros(64, np.float32)
    down, out, rows = (np.zeros(x, np.float32) for x in (400, (400, 64), 400))
    report = tkc.compile(text, target="sm_90a").emulate(
        a, b, tile, across, down, out, rows, 1.0, sm_count=1
    )
    assert not report.findings
    product = wide(a) @ wide(b).T
    assert np.abs(out - product).max() < 1e-5 * np.abs(product).max()
