"""8-bit register tiles: every code, rounding and saturation against ml_dtypes, products into them; sums in f16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tkc
from tkc.emulator import emulate
from tkc.emulator.watch import Counter

pytestmark = pytest.mark.share(3)

TYPES: dict[str, Any] = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
RNG = np.random.default_rng()
BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
EACH = pytest.mark.parametrize("dtype", list(TYPES))

ELEMENTWISE = """\
kernel k(X: global[FROM, M, N], Y: global[TO, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, BN))
    shared x: tile[FROM, 128, BN] * 2
    pipe p(x): load -> math
    role load:
        for m, n in work:
            put p: x <- X[m, n]
    role math, warps 4:
        for m, n in work:
            get p: Y[m, n] <- TO(f32(read(x)))
"""

PRODUCT = """\
kernel k(A: global[bf16, M, K], B: global[bf16, N, K], R: global[TYPE, M, N], C: global[TYPE, M, N], scale: f32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, 96))
    shared a: tile[bf16, BM, 64] * 2
    shared b: tile[bf16, 96, 64] * 2
    shared r: tile[TYPE, BM, 96]
    accum d: tile[f32, BM, 96]
    pipe inputs(a, b): load -> math
    pipe result(d): math -> store
    pipe extra(r): load -> store
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
    role store:
        for m, n in work:
            get extra, get result: C[m, n] <- TYPE(read(d) * scale + f32(read(r)))
"""


def run(text: str, target: str, *arguments: Any) -> None:
    report = tkc.compile(text, target=target).emulate(*arguments, sm_count=2, schedule="random")
    assert not report.findings, "\n".join(map(str, report.findings))


def narrowed(x: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """f32 rounded to nearest even, and beyond the largest value the largest."""
    if dtype in ("s8", "u8"):
        limits = np.iinfo(TYPES[dtype])
        return np.clip(np.rint(x), limits.min, limits.max).astype(TYPES[dtype])
    most = float(ml_dtypes.finfo(TYPES[dtype]).max)
    return np.clip(x, -most, most).astype(TYPES[dtype])


@BOTH
@EACH
def test_every_code_comes_back(target: str, dtype: str) -> None:
    codes = np.resize(np.arange(256, dtype=np.uint8), (130, 144))
    x = codes.view(TYPES[dtype])
    y = np.full((130, 144), 0xAA, np.uint8).view(TYPES[dtype])
    text = ELEMENTWISE.replace("FROM", dtype).replace("TO", dtype).replace("BN", "64")
    run(text, target, x, y)
    wide = x.astype(np.float32)
    infinite = ~np.isfinite(wide)
    assert (y.view(np.uint8) == codes)[~infinite].all()
    again = y.astype(np.float32)[infinite]
    assert (
        np.isnan(again) == np.isnan(wide[infinite])
    ).all()  # an infinity becomes the largest value


@BOTH
@EACH
def test_values_are_rounded_and_saturate(target: str, dtype: str) -> None:
    x = (RNG.normal(size=(130, 72)) * 10.0 ** RNG.integers(-3, 6, (130, 72))).astype(np.float32)
    x[0, :8] = (0.5, 1.5, -0.5, 2.5, -128.5, 127.5, 255.5, 0.0)
    y = np.full((130, 72), 0x55, np.uint8).view(TYPES[dtype])
    text = ELEMENTWISE.replace("FROM", "f32").replace("TO", dtype).replace("BN", "32")
    if (72 * 1) % 16:
        y = np.full((130, 80), 0x55, np.uint8).view(TYPES[dtype])
        x = np.pad(x, ((0, 0), (0, 8)))
    run(text, target, x, y)
    assert (y.view(np.uint8) == narrowed(x, dtype).view(np.uint8)).all()


STRAIGHT = """\
kernel k(X: global[TYPE, M, N], Y: global[TYPE, N, M]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[TYPE, BM, BN] * 2
    shared u: tile[TYPE, BN, BM] * 2
    pipe raw(x): load -> turn
    pipe ready(u): turn -> store
    role load:
        for m, n in work:
            put raw: x <- X[m, n]
    role turn, warps WARPS:
        for m, n in work:
            get raw, put ready: u <- x.T
    role store:
        for m, n in work:
            get ready: Y[n, m] <- u
"""
THROUGH = """\
kernel k(X: global[TYPE, M, N], Y: global[TYPE, N, M]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[TYPE, BM, BN] * 2
    pipe raw(x): load -> turn
    role load:
        for m, n in work:
            put raw: x <- X[m, n]
    role turn, warps WARPS:
        for m, n in work:
            get raw: Y[n, m] <- read(x).T
"""


@pytest.mark.share(10)
@BOTH
@EACH
@pytest.mark.parametrize("text", [STRAIGHT, THROUGH], ids=["straight", "through"])
@pytest.mark.parametrize(
    ("bm", "bn", "warps"), [(128, 128, 4), (64, 32, 2), (32, 16, 1), (256, 48, 4), (32, 256, 1)]
)
def test_bytes_are_turned_as_matrices(
    target: str, dtype: str, text: str, bm: int, bn: int, warps: int
) -> None:
    """In every swizzle, whole and in several row blocks; no byte goes by itself, and no two rows meet in a bank."""
    for word, number in (("BM", bm), ("BN", bn), ("WARPS", warps)):
        text = text.replace(word, str(number))
    codes = RNG.integers(0, 256, (144, 208), np.uint8)
    x, y = codes.view(TYPES[dtype]), np.full((208, 144), 0xAA, np.uint8).view(TYPES[dtype])
    text = text.replace("TYPE", dtype)
    kernel = tkc.compile(text, target=target)
    assert "stmatrix" in kernel.ptx
    assert "st.shared::cta.b8" not in kernel.ptx
    given = kernel.emulation(x, y, sm_count=2)
    report = emulate(kernel.ptx, **given, schedule="random", watch=Counter())
    assert not report.findings, "\n".join(map(str, report.findings))
    counts = {name: n for name, n in report.stats.items() if "matrix" in name}
    assert counts["shared_wavefronts.ldmatrix"]
    assert counts["shared_wavefronts.stmatrix"]
    assert not any(n for name, n in counts.items() if "conflicts" in name), counts
    assert (y.view(np.uint8) == codes.T).all()


@BOTH
@EACH
@pytest.mark.parametrize("bm", [64, 128])
def test_products(target: str, dtype: str, bm: int) -> None:
    """Beside an accumulator: rows over threads, half rows, and the layout of wgmma."""
    a, b = (RNG.integers(-4, 5, (rows, 72)).astype(ml_dtypes.bfloat16) for rows in (200, 112))
    r = narrowed(RNG.uniform(0, 40, (200, 112)).astype(np.float32), dtype)
    c = np.full((200, 112), 0x55, np.uint8).view(TYPES[dtype])
    run(PRODUCT.replace("TYPE", dtype).replace("BM", str(bm)), target, a, b, r, c, 0.5)
    exact = 0.5 * (a.astype(np.float32) @ b.astype(np.float32).T) + r.astype(np.float32)
    assert (c.view(np.uint8) == narrowed(exact, dtype).view(np.uint8)).all()


@BOTH
@pytest.mark.parametrize("bm", [64, 128, 256])
@pytest.mark.parametrize("dtype", ["f16", "e4m3"])
def test_sums_in_f16(target: str, dtype: str, bm: int) -> None:
    """Small integers, whose sums f16 holds exactly; two accumulators in tensor memory; no products at all."""
    text = (Path(__file__).parents[2] / "examples" / "gemm_bf16.tk").read_text()
    for name in "AB":
        text = text.replace(f"{name}: global[bf16", f"{name}: global[{dtype}")
    for old, new in (
        ("tile[bf16", f"tile[{dtype}"), ("C: global[bf16", "C: global[f16"), ("tile[f32", "tile[f16"),
        ("bf16(read(d))", "read(d)"), ("BM = 128, BN = 256", f"BM = {bm}, BN = 64"),
    ):  # fmt: skip
        assert old in text, old
        text = text.replace(old, new)
    for depth in (208, 0):
        type = TYPES.get(dtype, np.float16)
        a, b = (RNG.integers(-3, 4, (rows, depth)).astype(type) for rows in (300, 72))
        c = np.full((300, 72), np.nan, np.float16)
        run(text, target, a, b, c)
        assert (c == a.astype(np.float64) @ b.astype(np.float64).T).all()


def test_wide_operands_do_not_sum_in_f16() -> None:
    text = PRODUCT.replace("TYPE", "s8").replace("BM", "128").replace("d: tile[f32", "d: tile[f16")
    with pytest.raises(
        tkc.TkcError, match="a product of bf16 sums in f32, and accumulator d is f16"
    ):
        tkc.compile(text, target="sm_90a")


PAIRED = """\
kernel k(A: global[TYPE, M, K], B: global[TYPE, K, N], C: global[f32, M, N]):
    launch persistent, pair
    schedule work: m, n in tiles(blocks(M, 256), blocks(N, 128))
    shared a: tile[TYPE, 256, 64] * 2
    shared w: tile[TYPE, 64, 128] * 2
    shared u: tile[TYPE, 128, 64] * 2
    accum  d: tile[f32, 256, 128]
    pipe raw(w):    load -> turn
    pipe inputs(a): load -> math
    pipe ready(u):  turn -> math
    pipe result(d): math -> store
    role load:
        for m, n in work:
            for k in blocks(K, 64):
                put inputs: a <- A[m, k]
                put raw: w <- B[k, n]
    role turn, warps 2:
        for m, n in work:
            for k in blocks(K, 64):
                get raw, put ready: u <- w.T
    role math:
        for m, n in work:
            put result:
                d = 0
                for k in blocks(K, 64):
                    get inputs, ready: d += a @ u.T
    role store:
        for m, n in work:
            get result: C[m, n] <- read(d)
"""


def test_what_both_ctas_of_a_pair_turn_is_there_for_its_product() -> None:
    """The leader's wait acquires what the other CTA's threads wrote at the scope of the cluster, whichever role is
    lowered first."""
    a, b = (RNG.integers(-4, 5, shape).astype(TYPES["e4m3"]) for shape in ((200, 80), (80, 128)))
    c = np.full((200, 128), 77, np.float32)
    run(PAIRED.replace("TYPE", "e4m3"), "sm_100a", a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))
