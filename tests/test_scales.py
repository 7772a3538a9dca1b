"""Block-scaled data against ml_dtypes, definitions worked out by hand, and the documented byte order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tkc import scales
from tkc.arguments import unpack

TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
LARGEST = {"e4m3": 448, "e5m2": 57344, "e3m2": 28, "e2m3": 7.5, "e2m1": 6}
HIGHEST = {"e4m3": 8, "e5m2": 15, "e3m2": 4, "e2m3": 2, "e2m1": 2}


def matrix(rows: int, k: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    spread = np.exp2(rng.integers(-12, 12, (rows, 1)))
    return (rng.standard_normal((rows, k)) * spread).astype(np.float32)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_code_of_an_element_is_read_as_ml_dtypes_reads_it(dtype):
    form = scales.ELEMENTS[dtype]
    codes = np.arange(1 << form.bits, dtype=np.uint8)
    expected = codes.view(TYPES[dtype]).astype(np.float64)
    np.testing.assert_array_equal(np.array(scales._values(dtype)), expected)
    assert form.maximum == LARGEST[dtype]
    assert form.highest_exponent == HIGHEST[dtype]


def test_every_code_of_a_scale_is_read_as_ml_dtypes_reads_it():
    codes = np.arange(256, dtype=np.uint8)
    powers = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    np.testing.assert_array_equal(np.array(scales._values("ue8m0")), powers)
    fractions = (codes & 0x7F).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    np.testing.assert_array_equal(np.array(scales._values("ue4m3")), fractions)
    # f16 has the same exponents, of which it keeps the last for infinity and NaN.
    wide = (codes[:0xF8].astype(np.uint16) << 7).view(np.float16).astype(np.float64)
    np.testing.assert_array_equal(np.array(scales._values("ue5m3")[:0xF8]), wide)
    assert scales._values("ue5m3")[1] == 2.0**-17
    assert scales._values("ue5m3")[0xFE] == 114688


@pytest.mark.parametrize("dtype", TYPES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_elements_round_to_nearest_even_and_saturate(dtype, seed):
    """With a block whose scale is 1, the elements are the values in the element's own type."""
    rng = np.random.default_rng(seed)
    top = 2.0 ** HIGHEST[dtype]
    values = rng.uniform(-1, 1, (3, 32)) * np.exp2(rng.uniform(-12, HIGHEST[dtype], (3, 32)))
    values[:, 5] = top * 1.999
    # ml_dtypes rounds to f32 on its way, so that what is a little off a tie in f64 becomes one.
    values = values.astype(np.float32).astype(np.float64)
    ties = np.array(scales._values(dtype)[: scales.ELEMENTS[dtype].largest])
    values[0, 8:24] = ((ties[:-1] + ties[1:]) / 2)[rng.integers(0, len(ties) - 1, 16)]
    made = scales.quantise(values, dtype)
    np.testing.assert_array_equal(made.scales, 0x7F)
    limit = LARGEST[dtype]
    expected = np.clip(values, -limit, limit).astype(TYPES[dtype])
    got = (
        unpack(made.data, dtype)
        if scales.ELEMENTS[dtype].bits < 8
        else made.data.view(TYPES[dtype])
    )
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(got.astype(np.float64)), np.signbit(values))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rounding", ["down", "up"])
def test_scales_of_mx_are_powers_of_two_that_fit(dtype, rounding):
    values = matrix(37, 96, 3)
    made = scales.quantise(values, dtype, scale_rounding=rounding)
    amax = np.abs(values.astype(np.float64)).reshape(37, 3, 32).max(-1)
    steps = np.exp2(made.scales.astype(np.float64) - 127)
    if rounding == "down":
        np.testing.assert_array_equal(steps, np.exp2(np.floor(np.log2(amax)) - HIGHEST[dtype]))
    else:
        assert (amax / steps <= LARGEST[dtype]).all()
        assert (amax / (steps / 2) > LARGEST[dtype]).all()
    back = scales.dequantise(made.data, made.scales, dtype)
    form = scales.ELEMENTS[dtype]
    spacing = np.repeat(steps, 32, -1) * 2.0 ** (form.lowest_exponent - form.mantissa_bits)
    relative = np.abs(values) * 2.0 ** -(form.mantissa_bits + 1)
    # What rounding down leaves above the largest element is cut: the specification's own price.
    cut = np.maximum(np.abs(values) - np.repeat(steps, 32, -1) * LARGEST[dtype], 0)
    assert (np.abs(back - values) <= np.maximum(relative, spacing / 2) + cut).all()


def test_nvfp4_scales_blocks_of_sixteen_under_one_global_scale():
    values = matrix(19, 112, 5)
    made = scales.quantise(values, "e2m1", scale="ue4m3", block=16)
    amax = np.abs(values.astype(np.float64)).reshape(19, 7, 16).max(-1)
    assert made.global_scale == np.float32(amax.max() / (6 * 448))
    expected = (amax / 6 / made.global_scale).astype(ml_dtypes.float8_e4m3fn)
    smallest = np.float64(2.0**-9)
    np.testing.assert_array_equal(
        made.scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64),
        np.maximum(expected.astype(np.float64), smallest),
    )
    back = scales.dequantise(
        made.data, made.scales, "e2m1", scale="ue4m3", block=16, global_scale=made.global_scale
    )
    steps = np.repeat(
        made.scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64) * made.global_scale, 16, -1
    )
    exact = (
        np.clip(values / steps, -6, 6).astype(ml_dtypes.float4_e2m1fn).astype(np.float64) * steps
    )
    np.testing.assert_array_equal(back, exact)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (128, 4), (130, 6), (257, 9), (300, 90)])
@pytest.mark.parametrize("scale", ["ue8m0", "ue4m3", "ue5m3"])
def test_interleaved_scales_lie_where_the_documented_formula_says(rows, columns, scale):
    rng = np.random.default_rng(rows * columns)
    plain = rng.integers(1, 127, (rows, columns), dtype=np.uint8)
    got = scales.interleave(plain, scale)
    high, wide = scales.interleaved_shape(rows, columns)
    assert got.shape == (high * wide,)
    expected = np.full(high * wide, {"ue8m0": 0x7F, "ue4m3": 0x38, "ue5m3": 0x78}[scale], np.uint8)
    for m in range(rows):
        for k in range(columns):
            atom = (m // 128) * (wide // 4) + k // 4
            expected[atom * 512 + (m % 32) * 16 + (m % 128) // 32 * 4 + k % 4] = plain[m, k]
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(scales.row_major(got, rows, columns), plain)


def test_bsc_1_padding_is_counted_in_whole_atoms():
    assert scales.interleaved_shape(130, 6) == (256, 8)
    with pytest.raises(ValueError, match="256 x 8"):
        scales.row_major(np.zeros(130 * 6, np.uint8), 130, 6)


def test_bsc_3_padding_is_one_and_never_nan():
    padded = scales.interleave(np.full((1, 3), 0x80, np.uint8))
    assert set(padded.tolist()) == {0x80, 0x7F}


def test_bsc_5_ninety_scales_to_a_row_are_padded_to_ninety_two():
    made = scales.quantise(matrix(64, 2880, 1), "e2m1")
    assert made.scales.shape == (64, 90)
    assert scales.interleaved_shape(64, 90) == (128, 92)


def test_batches_are_quantised_and_interleaved_each_on_its_own():
    values = np.stack([matrix(40, 64, s) for s in range(3)])
    made = scales.quantise(values, "e4m3")
    packed = scales.interleave(made.scales)
    for i in range(3):
        one = scales.quantise(values[i], "e4m3")
        np.testing.assert_array_equal(made.data[i], one.data)
        np.testing.assert_array_equal(packed[i], scales.interleave(one.scales))


def test_no_rows_are_quantised_to_none():
    for dtype in ("e2m1", "e3m2", "e4m3"):
        made = scales.quantise(np.zeros((0, 96)), dtype)
        assert made.scales.shape == (0, 3)
        assert scales.dequantise(made.data, made.scales, dtype).shape == (0, 96)
        assert scales.interleave(made.scales).shape == (0,)


def test_a_ragged_last_block_is_quantised_by_what_it_holds():
    values = matrix(9, 40, 8)
    made = scales.quantise(values, "e2m1")
    alone = scales.quantise(np.ascontiguousarray(values[:, 32:]), "e2m1", block=8)
    np.testing.assert_array_equal(made.scales[:, 1:], alone.scales)
    assert scales.dequantise(made.data, made.scales, "e2m1").shape == (9, 40)


@pytest.mark.parametrize(("scale", "nan"), [("ue8m0", 0xFF), ("ue4m3", 0x7F), ("ue5m3", 0xFF)])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_block_with_nan_or_infinity_has_a_nan_scale(scale, nan, bad):
    values = matrix(4, 64, 2)
    values[1, 40] = bad
    made = scales.quantise(values, "e2m1", scale=scale)
    assert made.scales[1, 1] == nan
    assert (np.delete(made.scales.reshape(-1), 3) != nan).all()
    back = scales.dequantise(
        made.data, made.scales, "e2m1", scale=scale, global_scale=made.global_scale
    )
    assert np.isnan(back[1, 32:]).all()
    assert np.isfinite(np.delete(back, 1, 0)).all()


@pytest.mark.parametrize("scale", scales.SCALES)
def test_zeros_stay_zero_and_extremes_stay_finite(scale):
    values = np.zeros((2, 64))
    values[1] = [1e-300] * 32 + [3e38] * 32
    made = scales.quantise(values, "e2m1", scale=scale)
    back = scales.dequantise(
        made.data, made.scales, "e2m1", scale=scale, global_scale=made.global_scale
    )
    np.testing.assert_array_equal(back[0], 0)
    assert np.isfinite(back).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: scales.quantise(x, "bf16"), "elements of bf16"),
        (lambda x: scales.quantise(x, "e4m3", scale="e4m3"), "scale e4m3"),
        (lambda x: scales.quantise(x, "e4m3", scale_rounding="nearest"), "not rounded nearest"),
        (lambda x: scales.quantise(x, "e4m3", block=0), "a block of 0"),
        (lambda x: scales.quantise(x[:, :33], "e2m1"), "K = 33"),
        (lambda x: scales.quantise(x, "e4m3", global_scale=2.0), "ue5m3 scales only"),
        (
            lambda x: scales.dequantise(x.astype(np.uint8), np.ones((4, 3), np.uint8), "e4m3"),
            "expected \\(4, 2\\)",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_with_its_numbers(call, message):
    with pytest.raises(ValueError, match=message):
        call(matrix(4, 64, 0))
