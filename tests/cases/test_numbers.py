"""NUM: overflow, NaN and nothing: conversions by instruction, rows of -inf, outputs that are never read."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases.products import BF16, BOTH, EXAMPLES, GEMM, Array, poison, uniform
from emulator.kernels import launch

import tkc
from tkc.scales import dequantise, quantise

EDGES = [
    448.0,
    464.0,
    465.0,
    1000.0,
    np.inf,
    np.nan,
    -448.0,
    -464.0,
    -1000.0,
    -np.inf,
    0.0,
    -0.0,
    2**-9,
    2**-10,
    3 * 2**-11,
]


def converted(instruction: str, words: Array, out: Any, width: int) -> Array:
    """What an instruction with f32 or packed 16-bit sources makes, one thread an element."""
    made = np.zeros(len(words), out)
    store = {8: "cvt.u32.u16 %r4, %h1; st.global.u8 [%d3], %r4;", 16: "st.global.u16 [%d3], %h1;"}[
        width
    ]
    body = f"""
        mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r0, %r1, 32, %r0;
        setp.ge.u32 %p0, %r0, {len(words)}; @%p0 ret;
        mul.wide.u32 %d2, %r0, {words.itemsize}; add.u64 %d2, %d0, %d2;
        mul.wide.u32 %d3, %r0, {width // 8}; add.u64 %d3, %d1, %d3;
        {instruction}
        {store} ret;
    """
    report = launch(body, words, made, grid=-(-len(words) // 32))
    assert not report.findings, report.findings
    return made


def test_NUM_1_e4m3_saturates_and_nan_stays() -> None:
    """PTX has e4m3 only with .satfinite; ml_dtypes makes NaN of what is too large, so a reference clamps first."""
    values = np.array(EDGES, np.float32)
    found = converted(
        "ld.global.f32 %f0, [%d2]; mov.f32 %f1, 0f00000000; cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f0;",
        values, np.uint8, 8,
    )  # fmt: skip
    clamped = np.clip(values, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    clamped[np.isnan(values)] = 0x7F
    assert found.tolist() == clamped.tolist()
    assert found[:6].tolist() == [0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0x7F]


@pytest.mark.parametrize(
    ("form", "dtype", "largest"),
    [("e4m3x2", ml_dtypes.float8_e4m3fn, 448), ("e5m2x2", ml_dtypes.float8_e5m2, 57344)],
)
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_NUM_3_every_half_through_each_narrow_conversion(
    form: str, dtype: Any, largest: float, relu: str
) -> None:
    """All 2^16 halves: saturation, NaN, subnormals and the ReLU of each instruction, against ml_dtypes' rounding."""
    words = np.arange(1 << 16, dtype=np.uint16)
    found = converted(
        f"ld.global.u16 %h0, [%d2]; cvt.u32.u16 %r2, %h0; cvt.rn.satfinite{relu}.{form}.f16x2 %h1, %r2;",
        words, np.uint8, 8,
    )  # fmt: skip
    values = words.view(np.float16).astype(np.float32)
    nan = np.isnan(values)
    if relu:
        values = np.where(values > 0, values, np.float32(0))
    wanted = np.clip(values, -largest, largest).astype(dtype).view(np.uint8)
    assert (found[~nan] == wanted[~nan]).all()
    assert (found[nan] == 0x7F).all()


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize(("form", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_NUM_3_boundaries_of_f32_to_halves(form: str, dtype: Any, relu: str) -> None:
    """Overflow becomes infinity here, where e4m3 saturates: one policy for all conversions would be wrong."""
    rng = np.random.default_rng()
    powers = [
        s * 2.0**e * m
        for e in range(-30, 20)
        for m in (1, 1 + 2**-11, 1.5, 2 - 2**-12)
        for s in (1, -1)
    ]
    values = np.array(
        [
            *powers,
            65504,
            65519.996,
            65520,
            3.4e38,
            np.inf,
            -np.inf,
            np.nan,
            *rng.normal(0, 1e3, 200),
        ],
        np.float32,
    )
    found = converted(
        f"ld.global.f32 %f0, [%d2]; cvt.rn{relu}.{form}.f32 %h1, %f0;", values, np.uint16, 16
    )
    with np.errstate(over="ignore"):
        wanted = values.astype(dtype)
        if relu:
            wanted = np.where(np.isnan(values), wanted, np.maximum(values, 0).astype(dtype)).astype(
                dtype
            )
    nan = np.isnan(values)
    assert (found[~nan] == wanted.view(np.uint16)[~nan]).all()
    assert np.isnan(found.view(dtype)[nan].astype(np.float32)).all()


@pytest.mark.parametrize("amax", [0.0, 1e-30, 6.0, 2688.0, 1e6])
def test_NUM_5_scales_of_nvfp4_are_clamped_and_zero_is_zero(amax: float) -> None:
    """One scale for 16 elements: amax / 6, rounded to e4m3, at most 448; the scale of the whole is 1 here.

    A block of zeros has scale 0 and data 0.
    """
    block = np.linspace(-1, 1, 16, dtype=np.float32) * np.float32(amax)
    made = quantise(block[None, :], "e2m1", scale="ue4m3", block=16, global_scale=1.0)
    scale = float(made.scales.view(ml_dtypes.float8_e4m3fn).reshape(-1)[0])
    real = dequantise(made.data, made.scales, "e2m1", scale="ue4m3", block=16)
    assert np.isfinite(real).all()
    if amax == 0:
        assert (scale, int(made.data.max()), int(made.scales.max())) == (0.0, 0, 0)
        assert not real.any()
    else:
        least = 2.0**-9
        rounded = float(np.float32(min(amax / 6, 448)).astype(ml_dtypes.float8_e4m3fn))
        assert scale == max(least, rounded)
        assert np.abs(real).max() <= min(amax, 2688) * (1 + 2**-4)


@pytest.mark.parametrize("target", BOTH)
def test_NUM_7_NUM_11_rows_that_hold_nothing_or_one_finite_number(target: str) -> None:
    """A running maximum is -inf before the first finite value: 0, not NaN; a row of nothing gives 0 and LSE -inf."""
    kernel = tkc.compile(EXAMPLES / "row_softmax.tk", target=target)
    x = np.full((6, 1000), -np.inf, BF16)
    x[1, 500], x[2, 0], x[3, 999] = 1.5, -2.0, 0.25
    x[4], x[5, 64:128] = uniform(1000), uniform(64)
    y, lse = poison(6, 1000), poison(6, dtype=np.float32)
    assert not kernel.emulate(x, y, lse, sm_count=1).findings
    exact = x.astype(np.float64)
    top = np.where(np.isinf(exact.max(1, keepdims=True)), 0, exact.max(1, keepdims=True))
    total = np.exp(exact - top).sum(1, keepdims=True)
    wanted = np.exp(exact - top) / np.where(total > 0, total, 1)
    assert np.abs(y.astype(np.float64) - wanted).max() < 4e-3
    assert (y[0].astype(np.float32) == 0).all()
    assert lse[0] == -np.inf
    assert np.abs(lse[1:] - (top + np.log(np.where(total > 0, total, 1)))[1:, 0]).max() < 1e-5


CAUSAL = """
kernel causal(X: global[f32, M, N], Y: global[f32, M, N], LSE: global[f32, M]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128), order = longest_first)
    schedule keys(q): j in blocks(N, 32) where causal.any(q, j, N - M)
    shared x: tile[f32, 128, 32] * 2
    pipe rows(x): load -> math
    role load:
        for m in work:
            for turn in 0, 1:
                for j in keys(m):
                    put rows: x <- X[m, j]
    role math, warps 4:
        for m in work:
            top = full(-inf)
            total = full(0)
            for j in keys(m):
                get rows: v = read(x)
                mask v where causal(m, j, N - M)
                new = max(top, row_max(v))
                total = total * exp(top - finite(new)) + row_sum(exp(v - finite(new)))
                top = new
            LSE[m] <- top + log(total)
            for j in keys(m):
                get rows: v = read(x)
                mask v where causal(m, j, N - M)
                Y[m, j] <- guard_div(exp(v - finite(top)), total)
"""


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize(("m", "n"), [(200, 72), (8, 4), (72, 200)])
def test_NUM_7_queries_that_see_no_key(m: int, n: int, target: str) -> None:
    """The last query sees all keys, those before it fewer; of none the weights are 0 and LSE is -inf."""
    kernel = tkc.compile(CAUSAL, target=target)
    x, y, lse = (
        9 * uniform(m, n, dtype=np.float32),
        poison(m, n, dtype=np.float32),
        poison(m, dtype=np.float32),
    )
    assert not kernel.emulate(x, y, lse, sm_count=2).findings
    seen = np.arange(n) <= np.arange(m)[:, None] + n - m
    weights = np.where(seen, np.exp(np.where(seen, x, 0).astype(np.float64)), 0)
    total = weights.sum(1, keepdims=True)
    wanted = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    written = np.isfinite(y)
    assert (written | ~seen).all()
    assert np.abs(y - wanted)[written].max() < 1e-5
    none = ~seen.any(1)
    assert (lse[none] == -np.inf).all()
    assert np.abs(lse[~none] - np.log(total[~none, 0])).max() < 1e-5


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_NUM_11_one_finite_logit_of_many(count: int) -> None:
    kernel = tkc.compile(EXAMPLES / "row_softmax.tk", target="sm_90a")
    x = np.full((2, count), -np.inf, BF16)
    x[0, count // 2], x[1, 0] = 3.0, 3.0
    y, lse = poison(2, count), poison(2, dtype=np.float32)
    assert not kernel.emulate(x, y, lse, sm_count=1).findings
    assert (y.astype(np.float32) == (x == 3)).all()
    assert lse.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("target", BOTH)
def test_NUM_9_an_output_is_never_read(target: str) -> None:
    """C is NaN before, and counts as never written: a read of it would be a finding, and NaN."""
    from tkc.emulator import Poisoned

    kernel = tkc.compile(GEMM, target=target)
    a, b, c = uniform(72, 72), uniform(136, 72), poison(72, 136)
    assert not kernel.emulate(a, b, Poisoned(c), sm_count=1).findings
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.linalg.norm(c.astype(np.float64) - exact) <= 3e-3 * np.linalg.norm(exact)
