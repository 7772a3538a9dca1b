"""Every example on the emulator, on fresh random data of odd sizes, against NumPy in double precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from rounding import allowed

import tkc
from tkc.emulator.machine import SCHEDULES

pytestmark = pytest.mark.share(4)

EXAMPLES = Path(__file__).parents[2] / "examples"
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng()
BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])


def uniform(*shape: int, dtype: Any = BF16) -> Array:
    return RNG.uniform(-1, 1, shape).astype(dtype)


def poison(*shape: int, dtype: Any = BF16) -> Array:
    """Not a number everywhere, so that what is not written shows."""
    return np.full(shape, np.nan, dtype)


def run(source: str, target: str, *arguments: Any, **params: int) -> None:
    """Compiles and runs, on two work units; nothing may be found."""
    text = (EXAMPLES / f"{source}.tk").read_text() if "\n" not in source else source
    kernel = tkc.compile(text, target=target, params=params or None)
    schedule, seed = str(RNG.choice(SCHEDULES)), int(RNG.integers(1 << 30))
    report = kernel.emulate(*arguments, sm_count=2, schedule=schedule, seed=seed)
    found = "\n".join(map(str, report.findings))
    assert not report.findings, f"{schedule}, seed {seed}\n{found}"


def close(found: Array, wanted: Array, bound: float) -> None:
    """The relative Frobenius error."""
    error = np.linalg.norm(found.astype(np.float64) - wanted)
    assert error <= allowed(wanted, found.dtype, bound), f"{error / np.linalg.norm(wanted):.2e}"


BF16_BOUND, F32_BOUND = 3e-3, 2e-6


def gelu(x: Array) -> Array:
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def changed(name: str, *changes: tuple[str, str]) -> str:
    """An example with every occurrence of each left side replaced; each must be there."""
    text = (EXAMPLES / f"{name}.tk").read_text()
    for old, new in changes:
        assert old in text, f"no {old!r} in {name}"
        text = text.replace(old, new)
    return text


def check_bias(text: str, target: str, m: int, n: int, k: int, **dtypes: Any) -> None:
    a, b, alpha = uniform(m, k), uniform(n, k), 0.625
    bias = uniform(n, dtype=dtypes.get("bias", np.float32))
    r, c = uniform(m, n, dtype=dtypes.get("r", BF16)), poison(m, n, dtype=dtypes.get("c", BF16))
    run(text, target, a, b, bias, r, c, alpha)
    product = a.astype(np.float64) @ b.astype(np.float64).T
    wanted = gelu(alpha * product + bias.astype(np.float64)) + r.astype(np.float64)
    close(c, wanted, F32_BOUND if c.dtype == np.float32 else BF16_BOUND)


@BOTH
@pytest.mark.parametrize(("m", "n", "k"), [(1, 8, 8), (200, 264, 96), (129, 128, 0)])
def test_gemm_bias_act(target: str, m: int, n: int, k: int) -> None:
    check_bias("gemm_bias_act", target, m, n, k)


NO_VECTOR = (
    ("r, v)", "r)"),
    ("    shared v: vector[f32, BN]\n", ""),
    ("                v <- bias[n]\n", ""),
)
EPILOGUES: dict[str, tuple[list[tuple[str, str]], dict[str, Any]]] = {
    "half rows": ([("BM = 128", "BM = 64")], {}),
    "two row blocks": ([("BM = 128", "BM = 256"), ("STAGES = 4", "STAGES = 2")], {}),
    "odd width": ([("BN = 128", "BN = 80"), ("row(read(v))", "read(v)")], {}),
    "bias from global memory": ([*NO_VECTOR, ("read(v)", "read(bias[n])")], {}),
    "f16 bias from global memory": (
        [*NO_VECTOR, ("row(read(v))", "f32(row(read(bias[n])))"), ("bias: global[f32", "bias: global[f16")],
        {"bias": np.float16},
    ),
    "bf16 bias": (
        [("bias: global[f32", "bias: global[bf16"), ("vector[f32", "vector[bf16"), ("row(read(v))", "f32(row(read(v)))")],
        {"bias": BF16},
    ),
    "f32 residual": (
        [("R: global[bf16", "R: global[f32"), ("r: tile[bf16", "r: tile[f32"), ("f32(read(r))", "read(r)")],
        {"r": np.float32},
    ),
    "f32 result": ([("C: global[bf16", "C: global[f32"), ("<- bf16(", "<- (")], {"c": np.float32}),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(target: str, name: str) -> None:
    changes, dtypes = EPILOGUES[name]
    check_bias(changed("gemm_bias_act", *changes), target, 200, 264, 72, **dtypes)


@BOTH
@pytest.mark.parametrize(("m", "n"), [(1, 8), (130, 200), (257, 64)])
def test_row_softmax(target: str, m: int, n: int) -> None:
    """Rows far from zero, so that a column beyond the edge that counted would show, and no sum cancels."""
    x, y, lse = (
        (RNG.normal(size=(m, n)) * 3 - 15).astype(BF16),
        poison(m, n),
        poison(m, dtype=np.float32),
    )
    run("row_softmax", target, x, y, lse)
    wide = x.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    powers = np.exp(wide - top)
    total = powers.sum(axis=1, keepdims=True)
    close(y, powers / total, BF16_BOUND)
    close(lse, (top + np.log(total))[:, 0], F32_BOUND)


ROWS = """
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], scale: global[f32, M], Y: global[{out}, M]):
    param BM = {bm}, BN = 128, BK = 64
    launch persistent
    schedule work: m in blocks(M, BM)
    shared a: tile[bf16, BM, BK] * 2
    shared b: tile[bf16, BN, BK] * 2
    accum d: tile[f32, BM, BN]
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    role load:
        for m in work:
            for n in blocks(N, BN):
                for k in blocks(K, BK):
                    put inputs:
                        a <- A[m, k]
                        b <- B[n, k]
    role math:
        for m in work:
            for n in blocks(N, BN):
                put result:
                    d = 0
                    for k in blocks(K, BK):
                        get inputs: d += a @ b.T
    role store:
        for m in work:
            top = -inf
            total = 0
            for n in blocks(N, BN):
                get result:
                    x = read(d) * column(read(scale[m]))
                    top = max(top, row_max(x - 3))
                    total += row_sum(exp(x))
            Y[m] <- {cast}(total + top)
"""


@BOTH
@pytest.mark.parametrize("bm", [64, 128, 256])
@pytest.mark.parametrize("out", ["f32", "bf16", "f16"])
def test_reductions_of_an_accumulator(target: str, bm: int, out: str) -> None:
    """Column blocks of a product: ragged ones count as nothing, though zeros would add exp(0)."""
    m, n, k = 200, 296, 40
    a, b, scale = uniform(m, k), uniform(n, k), uniform(m, dtype=np.float32)
    dtype = {"f32": np.float32, "bf16": BF16, "f16": np.float16}[out]
    y = poison(m, dtype=dtype)
    run(ROWS.format(out=out, bm=bm, cast="" if out == "f32" else out), target, a, b, scale, y)
    x = (a.astype(np.float64) @ b.astype(np.float64).T) * scale[:, None].astype(np.float64)
    wanted = np.exp(x).sum(axis=1) + x.max(axis=1) - 3
    close(y, wanted, F32_BOUND if out == "f32" else 4e-3)


@BOTH
@pytest.mark.parametrize(("count", "m", "n", "k"), [(3, 130, 136, 72), (1, 1, 8, 8), (2, 8, 8, 0)])
def test_gemm_batched(target: str, count: int, m: int, n: int, k: int) -> None:
    a, b, c = uniform(count, m, k), uniform(count, n, k), poison(count, m, n)
    run("gemm_batched", target, a, b, c)
    wanted = np.einsum("imk,ink->imn", a.astype(np.float64), b.astype(np.float64))
    close(c, wanted, BF16_BOUND)


@BOTH
@pytest.mark.parametrize(("m", "n", "k"), [(130, 136, 328), (1, 4, 8), (130, 136, 0)])
def test_gemm_splitk(target: str, m: int, n: int, k: int) -> None:
    """Sums are added to what is there; with K = 0 nothing is."""
    a, b, c = uniform(m, k), uniform(n, k), uniform(m, n, dtype=np.float32)
    wanted = c + a.astype(np.float64) @ b.astype(np.float64).T
    run("gemm_splitk", target, a, b, c, CHUNK=128)
    close(c, wanted, F32_BOUND)


@BOTH
@pytest.mark.parametrize("n", [4, 2048, 5000])
def test_axpy(target: str, n: int) -> None:
    x, y = uniform(n, dtype=np.float32), uniform(n, dtype=np.float32)
    wanted = 0.75 * x.astype(np.float64) + y
    run("axpy", target, x, y, 0.75)
    close(y, wanted, F32_BOUND)


@BOTH
@pytest.mark.parametrize(("m", "n"), [(8, 8), (136, 200)])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_transpose(target: str, dtype: str, m: int, n: int) -> None:
    changes = [] if dtype == "bf16" else [("bf16", "f32"), ("BN = 64", "BN = 32")]
    kind = BF16 if dtype == "bf16" else np.float32
    x, y = uniform(m, n, dtype=kind), poison(n, m, dtype=kind)
    run(changed("transpose", *changes), target, x, y)
    assert (y == x.T).all()


@BOTH
@pytest.mark.parametrize("bm", [64, 128, 256])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_a_product_stored_transposed(target: str, dtype: str, bm: int) -> None:
    cast = "bf16(read(d)).T" if dtype == "bf16" else "read(d).T"
    text = changed(
        "gemm_bf16",
        ("BM = 128, BN = 256, BK = 64, STAGES = 4", f"BM = {bm}, BN = 128, BK = 64, STAGES = 2"),
        ("C: global[bf16, M, N]", f"C: global[{dtype}, N, M]"),
        ("C[m, n] <- bf16(read(d))", f"C[n, m] <- {cast}"),
    )
    m, n, k = 200, 136, 72
    a, b = uniform(m, k), uniform(n, k)
    c = poison(n, m, dtype=BF16 if dtype == "bf16" else np.float32)
    run(text, target, a, b, c)
    wanted = b.astype(np.float64) @ a.astype(np.float64).T
    close(c, wanted, BF16_BOUND if dtype == "bf16" else F32_BOUND)


TILES_OF_A_TILE = """
kernel k(X: global[bf16, M, N], Y: global[f32, M, W]):
    param BM = 128, BN = 64, W = 64
    launch persistent
    schedule work: m in blocks(M, BM)
    shared x: tile[bf16, BM, BN] * 2
    pipe p(x): load -> math
    role load:
        for m in work:
            for n in blocks(N, BN):
                put p: x <- X[m, n]
    role math, warps 4:
        for m in work:
            acc = 0
            for n in blocks(N, BN):
                get p: acc += f32(read(x))
            for w in blocks(W, BN):
                Y[m, w] <- acc * 2
"""
TILES_OF_A_PRODUCT = """
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, W]):
    param BM = 128, BN = 64, BK = 64, W = 64
    launch persistent
    schedule work: m in blocks(M, BM)
    shared a: tile[bf16, BM, BK] * 2
    shared b: tile[bf16, BN, BK] * 2
    accum d: tile[f32, BM, BN]
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    role load:
        for m in work:
            for n in blocks(N, BN):
                for k in blocks(K, BK):
                    put inputs:
                        a <- A[m, k]
                        b <- B[n, k]
    role math:
        for m in work:
            for n in blocks(N, BN):
                put result:
                    d = 0
                    for k in blocks(K, BK):
                        get inputs: d += a @ b.T
    role store:
        for m in work:
            acc = 0
            for n in blocks(N, BN):
                get result: x = read(d)
                acc += relu(x)
            for w in blocks(W, BN):
                C[m, w] <- acc
"""


def blocks_summed(x: Array) -> Array:
    """The sum of the blocks of 64 columns, the last filled up with zeros."""
    m, n = x.shape
    whole = np.zeros((m, -(-n // 64) * 64))
    whole[:, :n] = x
    return whole.reshape(m, -1, 64).sum(axis=1)


@BOTH
def test_a_tile_is_carried_round_a_loop(target: str) -> None:
    x, y = uniform(200, 200), poison(200, 64, dtype=np.float32)
    run(TILES_OF_A_TILE, target, x, y)
    close(y, 2 * blocks_summed(x.astype(np.float64)), F32_BOUND)


@BOTH
@pytest.mark.parametrize("bm", [64, 128])
def test_a_tile_outlives_its_get(target: str, bm: int) -> None:
    a, b, c = uniform(200, 72), uniform(200, 72), poison(200, 64, dtype=np.float32)
    run(TILES_OF_A_PRODUCT, target, a, b, c, BM=bm)
    product = a.astype(np.float64) @ b.astype(np.float64).T
    close(c, blocks_summed(np.maximum(product, 0)), F32_BOUND)


@BOTH
@pytest.mark.parametrize(("m", "n", "k"), [(300, 136, 72), (1, 8, 8), (128, 16, 0)])
def test_gemm_dual(target: str, m: int, n: int, k: int) -> None:
    a, b, c = uniform(m, k), uniform(n, k), poison(m, n)
    run("gemm_dual", target, a, b, c)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T, BF16_BOUND)


@BOTH
def test_a_reduction_of_part_of_a_block(target: str) -> None:
    """The second half of the last block is beyond the edge altogether, and counts as nothing."""
    text = changed(
        "row_softmax",
        ("schedule work: m in blocks(M, BM)", "schedule work: m in blocks(M, BM)"),
        ("x <- X[m, n]", "x <- X[m, n.part(0, 2)]"),
        ("BN = 64", "BN = 64, WIDE = 128"),
        ("for n in blocks(N, BN)", "for n in blocks(N, WIDE)"),
        ("Y[m, n] <-", "Y[m, n.part(0, 2)] <-"),
    )
    x = (RNG.normal(size=(130, 200)) - 5).astype(BF16)
    y, lse = poison(130, 200), poison(130, dtype=np.float32)
    run(text, target, x, y, lse)
    halves = np.concatenate([x[:, :64], x[:, 128:192]], axis=1).astype(np.float64)
    close(lse, np.log(np.exp(halves).sum(axis=1)), F32_BOUND)


INTEGERS = (
    ("C: global[bf16", "C: global[i32"),
    ("bf16(scale * f32(read(d)))", "read(d)"),
    (", scale: f32", ""),
)
INT8_FORMS: dict[str, list[tuple[str, str]]] = {
    "s8": [],
    "u8": [("s8", "u8")],
    "odd width": [("BN = 128", "BN = 96")],
    "half rows": [("BM = 128", "BM = 64")],
}


@BOTH
@pytest.mark.parametrize("form", INT8_FORMS)
def test_products_of_integers_are_exact(target: str, form: str) -> None:
    kind = np.uint8 if form == "u8" else np.int8
    limits = np.iinfo(kind)
    a, b = (RNG.integers(limits.min, limits.max + 1, (x, 208)).astype(kind) for x in (200, 144))
    c = np.full((200, 144), -1, np.int32)
    run(changed("gemm_int8", *INTEGERS, *INT8_FORMS[form]), target, a, b, c)
    assert (c == a.astype(np.int64) @ b.astype(np.int64).T).all()


@BOTH
@pytest.mark.parametrize(("m", "n", "k"), [(300, 264, 208), (1, 16, 16)])
def test_gemm_e4m3(target: str, m: int, n: int, k: int) -> None:
    a, b, c = uniform(m, k, dtype=E4M3), uniform(n, k, dtype=E4M3), poison(m, n)
    run("gemm_e4m3", target, a, b, c, STAGES=2)
    close(c, a.astype(np.float64) @ b.astype(np.float64).T, BF16_BOUND)


@BOTH
@pytest.mark.parametrize("k", [0, 208])
def test_gemm_int8(target: str, k: int) -> None:
    a, b = (RNG.integers(-128, 128, (x, k)).astype(np.int8) for x in (200, 144))
    c = poison(200, 144)
    run("gemm_int8", target, a, b, c, 0.01)
    close(c, 0.01 * (a.astype(np.float64) @ b.astype(np.float64).T), BF16_BOUND)


def test_what_integers_do_not_have_is_named() -> None:
    across = [
        ("B: global[s8, N, K]", "B: global[s8, K, N]"),
        ("tile[s8, BN, BK]", "tile[s8, BK, BN]"),
    ]
    across += [("B[n, k]", "B[k, n]"), ("b.T", "b")]
    with pytest.raises(
        tkc.TkcError, match="operand b of s8 is not contiguous along the contracted"
    ):
        tkc.compile(changed("gemm_int8", *across), target="sm_90a")
    tkc.compile(changed("gemm_int8", *across), target="sm_100a")
    with pytest.raises(tkc.TkcError, match="a product of s8 sums in i32, and accumulator d is f32"):
        tkc.compile(changed("gemm_int8", ("tile[i32", "tile[f32")), target="sm_90a")
