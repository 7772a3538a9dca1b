"""Programs that people write first: each held a mistake once, a wrong result or a refusal without need."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc

Array = np.ndarray[Any, Any]
BF16: Any = ml_dtypes.bfloat16
E4M3: Any = ml_dtypes.float8_e4m3fn


def uniform(*shape: int, dtype: Any = np.float32, low: float = -1, high: float = 1) -> Array:
    return np.random.default_rng().uniform(low, high, shape).astype(dtype)


def poisoned(*shape: int, dtype: Any = np.float32) -> Array:
    return np.full(shape, np.nan, dtype)


def wide(x: Array) -> Array:
    return x.astype(np.float64)


def run(text: str, target: str, *arguments: Any, **params: int) -> None:
    report = tkc.compile(text, target=target, params=params).emulate(
        *arguments, schedule="random", sm_count=2
    )
    assert not report.findings, report.findings[0]


def near(found: Array, wanted: Array, unit: float) -> None:
    assert np.abs(wide(found) - wanted).max() <= unit * np.abs(wanted).max()


DEQUANTISE = """
kernel dequantise(Q: global[TYPE, N, K], S: global[f32, N], B: global[bf16, N, K], T: global[bf16, K, N], R: global[f32, N]):
    launch persistent
    schedule work: n, k in tiles(blocks(N, 128), blocks(K, 64))
    shared q: tile[TYPE, 128, 64] * 2
    shared b: tile[bf16, 128, 64] * 2
    shared t: tile[bf16, 64, 128] * 2
    pipe raw(q): load -> math
    pipe made(b): math -> store
    pipe turned(t): math -> store
    role load:
        for n, k in work:
            put raw: q <- Q[n, k]
    role math, warps 4:
        for n, k in work:
            get raw, put made:
                x = f32(read(q)) * column(read(S[n]))
                b <- bf16(x)
                put turned: t <- bf16(f32(read(q))).T
                R[n] += row_sum(f32(read(q)) + 1)
    role store:
        for n, k in work:
            get made: B[n, k] <- b
            get turned: T[k, n] <- t
"""


@pytest.mark.parametrize("dtype", ["s8", "e4m3"])
def test_eight_bit_tiles_made_wider_go_to_shared_tiles(dtype: str) -> None:
    """Their registers were single ones, which stores, transposes and ragged reductions passed over."""
    n, k = 136, 80
    q = uniform(n, k, dtype=E4M3, low=-9, high=9) if dtype == "e4m3" else uniform(n, k, dtype=np.int8, low=-99, high=99)  # fmt: skip
    s, b, t, r = (
        uniform(n),
        poisoned(n, k, dtype=BF16),
        poisoned(k, n, dtype=BF16),
        np.zeros(n, np.float32),
    )
    run(DEQUANTISE.replace("TYPE", dtype), "sm_90a", q, s, b, t, r)
    near(b, wide(q) * wide(s)[:, None], 8e-3)
    near(t, wide(q).T, 8e-3)
    near(r, (wide(q) + 1).sum(1), 1e-5)


EIGHT_BITS_BESIDE_A_PRODUCT = """
kernel beside(A: global[bf16, M, K], B: global[bf16, N, K], R: global[e4m3, M, N], C: global[bf16, M, N], S: global[f32, M]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 64))
    shared a: tile[bf16, 64, 64]
    shared b: tile[bf16, 64, 64]
    shared r: tile[e4m3, 64, 64]
    shared c: tile[bf16, 64, 64]
    accum d: tile[f32, 64, 64]
    pipe inputs(a, b): load -> math
    pipe extra(r): load -> back
    pipe result(d): math -> back
    pipe out(c): back -> store
    role load:
        for m, n in work:
            put extra: r <- R[m, n]
            for k in blocks(K, 64):
                put inputs:
                    a <- A[m, k]
                    b <- B[n, k]
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, 64):
                    get inputs: d += a @ b.T
    role back:
        for m, n in work:
            get result, extra, put out:
                c <- bf16(f32(read(r)))
                S[m] += row_sum(read(d) * f32(read(r)) + 1)
    role store:
        for m, n in work:
            get out: C[m, n] <- c
"""


def test_eight_bit_tiles_in_the_layout_of_products() -> None:
    m, n, k = 70, 80, 72
    a, b = uniform(m, k, dtype=BF16), uniform(n, k, dtype=BF16)
    r, c, s = uniform(m, n, dtype=E4M3, low=-9, high=9), poisoned(m, n, dtype=BF16), np.zeros(m, np.float32)  # fmt: skip
    run(EIGHT_BITS_BESIDE_A_PRODUCT, "sm_90a", a, b, r, c, s)
    assert np.array_equal(wide(c), wide(r))
    near(s, ((wide(a) @ wide(b).T) * wide(r) + 1).sum(1), 1e-5)


VECTORS = """
kernel axpy(X: global[f32, N], Z: global[f32, N], Y: global[f32, N], W: global[f32, N]):
    param BN = 64
    launch persistent
    schedule work: n in tiles(blocks(N, BN))
    shared x: vector[f32, BN] * 2
    shared z: vector[f32, BN] * 2
    shared w: vector[f32, BN] * 2
    pipe p(x, z): load -> math
    pipe q(w): math -> store
    role load:
        for n in work:
            put p:
                x <- X[n]
                z <- Z[n]
    role math, warps 4:
        for n in work:
            get p, put q:
                Y[n] <- read(x) * 2 + read(z)
                w <- exp(read(x)) + read(Z[n])
    role store:
        for n in work:
            get q: W[n] <- w
"""


@pytest.mark.parametrize(("target", "block"), [("sm_90a", 64), ("sm_100a", 200)])
def test_vectors_of_any_length_over_the_threads(target: str, block: int) -> None:
    """Only multiples of 512 were; a thread past the end read the next slot."""
    x, z, y, w = uniform(700), uniform(700), poisoned(700), poisoned(700)
    run(VECTORS, target, x, z, y, w, BN=block)
    near(y, 2 * wide(x) + wide(z), 1e-6)
    near(w, np.exp(wide(x)) + wide(z), 1e-5)


LAYER_NORM = """
kernel layer_norm(X: global[f32, M, N], G: global[f32, N], Y: global[f32, M, N], t: f32, n0: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[f32, 128, 64]
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math:
        for m, n in work:
            get p:
                v = read(x)
                c = v - row_sum(v) / N
                r = rsqrt(row_sum(c * c) / N + 1e-5)
                scale = exp(-t) / sqrt(N) + gelu(t) * f32(n0) + m.index
                if n0 > 2: w = v
                elif n0 > 1: w = v * 3
                else: w = v * 2
                Y[m, n] <- c * r * row(read(G[n])) * scale + (w - v)
"""


@pytest.mark.parametrize(
    ("target", "n0", "more"), [("sm_90a", 3, 0), ("sm_100a", 2, 2), ("sm_90a", 1, 1)]
)
def test_sizes_stand_in_arithmetic_and_functions_take_numbers(
    target: str, n0: int, more: int
) -> None:
    """And a variable may be set first in all arms of a condition."""
    x, g, y, t = uniform(150, 56), uniform(56), poisoned(150, 56), 0.7
    run(LAYER_NORM, target, x, g, y, t, n0)
    c = wide(x) - wide(x).mean(1, keepdims=True)
    gelu = t / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (t + 0.044715 * t**3)))
    scale = np.exp(-t) / np.sqrt(56) + gelu * n0 + np.arange(150)[:, None] // 128
    normed = c / np.sqrt((c**2).mean(1, keepdims=True) + 1e-5) * wide(g) * scale
    near(y, normed + more * wide(x), 1e-5)


CHOICES = """
kernel choices(X: global[bf16, M, N], B: global[f32, N], Y: global[f32, M, N], S: global[f32, N], t: f32):
    param BM = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, 64))
    shared x: tile[bf16, BM, 64] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math:
        for m, n in work:
            get p:
                v = f32(read(x))
                a = v if v > 0 else 0.1 * v
                a = a if t > 0 else v
                a = -a if m.index > 99 else a
                Y[m, n] <- (a if a <= row(read(B[n])) else t) if v != t else row_max(v)
                S[n] += col_sum(1 if v >= 0.5 else 0)
"""


@pytest.mark.parametrize(("target", "rows"), [("sm_90a", 32), ("sm_100a", 64), ("sm_90a", 96)])
def test_elements_choose_and_tiles_have_as_many_rows_as_a_role_has_threads(
    target: str, rows: int
) -> None:
    """A role without accumulators has as many warps as its tiles ask for; 128 rows once were the fewest."""
    x, b, y, s, t = uniform(150, 64, dtype=BF16), uniform(64), poisoned(150, 64), np.zeros(64, np.float32), 0.25  # fmt: skip
    x[3, 5] = t
    run(CHOICES, target, x, b, y, s, t, BM=rows)
    v = wide(x)
    a = np.where(v > 0, v, 0.1 * v)
    near(y, np.where(v != t, np.where(a <= wide(b), a, t), v.max(1, keepdims=True)), 1e-6)
    assert np.array_equal(s, (v >= 0.5).sum(0))


NOT_CHOICES = [
    ("if v > 0: Y[m, n] <- v", "expected a condition, such as `i < n`, not a comparison of elements, which chooses between "
     "two tiles: `x if x > 0 else y`"),
    ("if v > 0 and v < 1: Y[m, n] <- v", "expected a condition, such as `i < n`, not comparisons of elements"),
    ("mask v where v > 0", "expected a condition on positions, such as `j <= m` of blocks j and m, not a comparison of"),
    ("Y[m, n] <- v * (v > 0)", "a comparison of elements, which chooses between two tiles: `x if x > 0 else y` is no register"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), NOT_CHOICES)
def test_a_comparison_of_elements_is_no_condition(line: str, message: str) -> None:
    text = CHOICES.replace("a = v if v > 0 else 0.1 * v", line)
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_90a")
    said = caught.value.diagnostics[0]
    assert (said.code, said.message[: len(message)]) == ("TK106", message)


ELSEWHERE = [
    ("mean(v)", "no function `mean`: it is `row_sum(x) / N` of rows of N elements, `col_sum(x) / M` of columns of M"),
    ("v.sum()", "a register value, f32 [64, 64] has no `.sum`: `row_sum(x)` is one value a row, `col_sum(x)` one a column, "
     "`tile_sum(x)` one number"),
    ("clamp(v, 0, 1)", "no function `clamp`: it is `min(max(x, low), high)`"),
    ("v.to(bf16)", "a register value, f32 [64, 64] has no `.to`: a dtype is a function: `bf16(x)`"),
    ("v ** 2", "the language has no `**`: a square is `x * x`"),
    ("where(v > 0, v, 0)", "a choice is written `x if x > 0 else y`"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "message"), ELSEWHERE)
def test_what_is_called_otherwise_elsewhere_is_named(value: str, message: str) -> None:
    text = CHOICES.replace("a = v if v > 0 else 0.1 * v", f"a = {value}")
    with pytest.raises(tkc.TkcError) as caught:
        tkc.compile(text, target="sm_90a")
    assert caught.value.diagnostics[0].message == message
