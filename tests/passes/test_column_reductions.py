"""`col_sum`, `col_max`, `col_min`: rows of a tile as one, over all warps of a role, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from programs import product

import tkc
from tkc.analysis.happens_before import check
from tkc.ir.stage.synchronisation import RoleBarrierOp

Array = np.ndarray[Any, Any]
BF16: Any = ml_dtypes.bfloat16

GEMM = product(
    """\
get result:
    x = read(d) + 1
    top = col_max(x)
    e = exp(x - top)
    total = col_sum(e)
C[m, n] <- bf16(e / total)
S[m.index, n] <- log(total) + top + row(read(V[n]))
T[m.index, n] <- bf16(total)
R[n] += total
""",
    arguments="V: global[f32, N], C: global[bf16, M, N], S: global[f32, J, N], T: global[bf16, J, N], R: global[f32, N]",
    params="BM = 128, BN = 64, BK = 64",
)

SUMS = """
kernel sums(X: global[bf16, M, N], D: global[f32, N], E: global[bf16, N], F: global[f32, N], G: global[f32, M, N]):
    param BM = 128, BN = 64, WARPS = 4
    launch persistent
    schedule work: n in tiles(blocks(N, BN))
    shared x: tile[bf16, BM, BN] * 3
    shared o: vector[f32, BN]
    pipe p(x): load -> math
    pipe q(o): math -> out
    role load:
        for n in work:
            for m in blocks(M, BM):
                put p: x <- X[m, n]
    role math, warps WARPS:
        for n in work:
            total = full(0)
            least = full(inf)
            for m in blocks(M, BM):
                get p:
                    v = f32(read(x))
                    total = total + col_sum(v)
                    least = min(least, col_min(v))
                G[m, n] <- v + total
            D[n] <- total
            E[n] <- bf16(total * 0.5)
            put q: o <- least
    role out:
        for n in work:
            get q: F[n] <- o
"""


def uniform(seed: int, *shape: int, dtype: Any = BF16) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def poisoned(*shape: int, dtype: Any = np.float32) -> Array:
    return np.full(shape, np.nan, dtype)


def wide(x: Array) -> Array:
    return x.astype(np.float64)


def launch(kernel: tkc.Kernel, seed: int, *arrays: Array) -> None:
    report = kernel.emulate(*arrays, schedule="random", seed=seed, sm_count=2)
    assert not report.findings, report.findings[0]
    assert check(kernel.module(after="eliminate-fences")) == []


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("target", "bm", "bn", "m", "n"),
    [
        ("sm_90a", 128, 64, 136, 72),  # two warpgroups share the rows
        ("sm_90a", 64, 24, 70, 40),
        ("sm_100a", 64, 32, 70, 40),  # upper lanes hold nothing
        ("sm_100a", 256, 80, 260, 40),
    ],
)
def test_over_the_rows_of_an_accumulator(
    target: str, bm: int, bn: int, m: int, n: int, seed: int
) -> None:
    kernel = tkc.compile(GEMM, target=target, params={"BM": bm, "BN": bn})
    a, b, v = uniform(seed, m, 72), uniform(seed + 1, n, 72), uniform(seed + 2, n, dtype=np.float32)
    blocks = -(-m // bm)
    c, s, t = poisoned(m, n, dtype=BF16), poisoned(blocks, n), poisoned(blocks, n, dtype=BF16)
    r = uniform(seed + 3, n, dtype=np.float32)
    before = wide(r)
    launch(kernel, seed, a, b, v, c, s, t, r)
    x = wide(a) @ wide(b).T + 1
    for i in range(blocks):
        rows = slice(i * bm, (i + 1) * bm)
        top = x[rows].max(0)
        e = np.exp(x[rows] - top)
        total = e.sum(0)
        before = before + total
        assert np.abs(wide(c[rows]) - e / total).max() < 4e-3
        assert np.abs(s[i] - (np.log(total) + top + v)).max() < 1e-5
        assert np.abs(wide(t[i]) / total - 1).max() < 4e-3
    assert np.abs(r / before - 1).max() < 1e-5


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("target", "bm", "bn", "warps", "m", "n"),
    [
        ("sm_90a", 256, 24, 8, 260, 32),
        ("sm_100a", 128, 40, 4, 130, 48),
    ],
)
def test_a_loop_carries_one_value_a_column(
    target: str, bm: int, bn: int, warps: int, m: int, n: int, seed: int
) -> None:
    kernel = tkc.compile(SUMS, target=target, params={"BM": bm, "BN": bn, "WARPS": warps})
    x = uniform(seed, m, n)
    d, e, f, g = poisoned(n), poisoned(n, dtype=BF16), poisoned(n), poisoned(m, n)
    launch(kernel, seed, x, d, e, f, g)
    total = wide(x).sum(0)
    assert np.abs(d - total).max() < 1e-4
    assert np.abs(wide(e) - total / 2).max() < 4e-3 * np.abs(total).max()
    assert np.array_equal(f, wide(x).min(0))
    so_far = np.array([wide(x[: (i // bm + 1) * bm]).sum(0) for i in range(m)])
    assert np.abs(g - (wide(x) + so_far)).max() < 1e-4


def test_a_nan_is_the_maximum_of_its_column_alone(seed: int) -> None:
    text = SUMS.replace("col_min", "col_max").replace("min(", "max(").replace("(inf)", "(-inf)")
    x = uniform(seed, 130, 72)
    x[77, 5] = np.nan
    d, e, f, g = poisoned(72), poisoned(72, dtype=BF16), np.zeros(72, np.float32), poisoned(130, 72)
    tkc.compile(text, target="sm_90a").emulate(x, d, e, f, g)
    assert np.array_equal(np.isnan(f), np.arange(72) == 5)


def test_each_meeting_is_needed() -> None:
    """Without it nothing orders what a warp wrote, and what others read of it or write over it."""
    kernel = tkc.compile(SUMS, target="sm_100a", params={"BN": 32})
    for forgotten in ("partial", "columns", "handed"):
        module = kernel.module(after="eliminate-fences")
        meetings = [o for o in module.walk() if isinstance(o, RoleBarrierOp)]
        gone = [o for o in meetings if o.id.data == f"math.{forgotten}"]
        for op in gone:
            op.detach()
        assert gone
        assert {d.code for d in check(module)} & {"TK301", "TK309"}, forgotten


REFUSED = [
    ("S[n] <- col_sum(row_sum(v))", "TK106", "`col_sum` takes a tile of two axes, not a register value, f32 [128, 1]"),
    ("S[n] <- column_sum(v)", "TK102", "no function `column_sum`; did you mean `col_sum`"),
    ("S[n] <- col_sum(v) + v", "TK104", "`S[n]` is [64] and `col_sum(v) + v` is [128, 64]: a copy keeps the shape"),
    ("S[n] <- row_sum(v)", "TK104", "`S[n]` is [64] and `row_sum(v)` is [128]: a copy keeps the shape"),
    ("s = col_sum(v).T", "TK106", "`.T` is of tiles, not of a register value, f32 [1, 64]"),
    ("S[n] <- col_sum(v), evict_first", "TK110", "`evict_first` at a store of one value a column is not supported yet"),
    ("if warp == 0: s = col_sum(v)", "TK121", "`read` takes all threads of the role and stands in a place which one "
     "warp of the role runs alone"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "message"), REFUSED)
def test_what_is_refused(line: str, code: str, message: str) -> None:
    text = f"""
kernel c(X: global[f32, M, N], S: global[f32, N]):
    param BM = 128, BN = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[f32, BM, BN] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math:
        for m, n in work:
            get p:
                v = read(x)
                {line}
"""
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_100a")
    (said,) = caught.value.diagnostics
    assert (said.code, said.message) == (code, message)


def test_a_pair_does_not_reduce_over_the_rows_that_it_splits() -> None:
    with pytest.raises(tkc.TkcError, match="a reduction along the axis that a pair splits"):
        tkc.compile(
            GEMM.replace("launch persistent", "launch persistent, pair"),
            target="sm_100a",
            params={"BM": 256},
        )
