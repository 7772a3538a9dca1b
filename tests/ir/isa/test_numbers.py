"""Number formats against struct, ml_dtypes and the manual's limits."""

from __future__ import annotations

import math
import random
import struct

import ml_dtypes
import numpy as np
import pytest

from tkc.ir.isa.numbers import (
    FLOATS,
    INTEGERS,
    FloatFormat,
    Rounding,
    number_format,
    round_to_integer,
)

TWINS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (
        a == b and math.copysign(1, a) == math.copysign(1, b)
    )


@pytest.mark.parametrize("name", TWINS)
def test_every_pattern_has_its_value(name: str):
    row = FLOATS[name]
    words = np.arange(1 << row.bits, dtype=np.uint16 if row.bits == 16 else np.uint8)
    step = 7 if row.bits == 16 else 1
    with np.errstate(invalid="ignore"):
        values = words.view(TWINS[name]).astype(np.float64)
    for word in range(0, 1 << row.bits, step):
        assert same(row.decode(word), float(values[word])), hex(word)


@pytest.mark.parametrize("name", TWINS)
def test_every_value_has_its_pattern(name: str):
    row = FLOATS[name]
    for word in range(0, 1 << row.bits, 7 if row.bits == 16 else 1):
        value = row.decode(word)
        if math.isnan(value):
            assert row.encode(value) == row.nan_bits
        else:
            for mode in Rounding:
                assert row.encode(value, mode) == word


@pytest.mark.parametrize("name", [n for n in TWINS if n != "ue8m0"])
def test_rounding_to_nearest(name: str):
    """Random doubles and every midpoint, against ml_dtypes (which rounds floats)."""
    row, rng = FLOATS[name], random.Random(5)
    values = [math.ldexp(rng.uniform(-1, 1), rng.randint(-30, 20)) for _ in range(2000)]
    values = [float(np.float32(v)) for v in values if abs(v) <= row.max_finite]
    twins = np.array(values, np.float32).astype(TWINS[name]).astype(np.float64)
    for value, twin in zip(values, twins, strict=True):
        assert same(row.decode(row.encode(value)), float(twin)), value


def neighbours(row: FloatFormat, value: float) -> tuple[float, float]:
    """The numbers of the format just below and just above."""
    finite = sorted({row.decode(w) for w in range(1 << row.bits)} - {math.inf, -math.inf, math.nan})
    finite = [v for v in finite if not math.isnan(v)]
    return max(v for v in finite if v <= value), min(v for v in finite if v >= value)


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"])
def test_directed_rounding(name: str):
    row, rng = FLOATS[name], random.Random(6)
    for _ in range(100):
        value = rng.uniform(-row.max_finite, row.max_finite)
        low, high = neighbours(row, value)
        inner, outer = (low, high) if value > 0 else (high, low)
        assert row.decode(row.encode(value, Rounding.RM)) == low
        assert row.decode(row.encode(value, Rounding.RP)) == high
        assert row.decode(row.encode(value, Rounding.RZ)) == inner
        middle = (low + high) / 2
        assert row.decode(row.encode(middle, Rounding.RNA)) == outer
        even = row.encode(middle, Rounding.RN)
        assert low == high or even % 2 == 0


LIMITS = {
    "e4m3": (448.0, 2.0**-9),
    "e5m2": (57344.0, 2.0**-16),
    "e3m2": (28.0, 0.0625),
    "e2m3": (7.5, 0.125),
    "e2m1": (6.0, 0.5),
    "ue8m0": (2.0**127, 2.0**-127),
    "ue4m3": (448.0, 2.0**-9),
    "ue5m3": (114688.0, 2.0**-17),
    "f16": (65504.0, 2.0**-24),
    "bf16": (float.fromhex("0x1.fep127"), 2.0**-133),
    "tf32": (float.fromhex("0x1.ffcp127"), 2.0**-136),
    "f32": (float.fromhex("0x1.fffffep127"), 2.0**-149),
    "f64": (float.fromhex("0x1.fffffffffffffp1023"), 5e-324),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str):
    row = FLOATS[name]
    assert (row.max_finite, row.smallest) == LIMITS[name]


def test_overflow_and_nan():
    e4m3, e5m2, e2m1, f16 = (FLOATS[n] for n in ("e4m3", "e5m2", "e2m1", "f16"))
    assert e4m3.encode(464.0) == 0x7E
    assert e4m3.encode(480.0) == 0x7F
    assert e4m3.encode(-1e9, saturate=True) == 0xFE
    assert e4m3.encode(math.inf, saturate=True) == 0x7E
    assert e4m3.encode(math.inf) == 0x7F
    assert e4m3.encode(math.nan, saturate=True) == 0x7F
    assert e5m2.encode(math.inf) == 0x7C
    assert e5m2.encode(-math.inf, saturate=True) == 0xFB
    assert e5m2.encode(1e9, Rounding.RZ) == 0x7B
    assert e2m1.encode(math.nan) == 0x7
    assert e2m1.encode(-100.0) == 0xF
    assert f16.encode(65519.0) == 0x7BFF
    assert f16.encode(65520.0) == 0x7C00
    assert f16.encode(65536.0, Rounding.RM) == 0x7BFF
    assert f16.encode(-65536.0, Rounding.RM) == 0xFC00


def test_power_of_two_scales():
    row = FLOATS["ue8m0"]
    assert row.decode(127) == 1.0
    assert row.encode(3.0, Rounding.RZ) == 128
    assert row.encode(3.0, Rounding.RP) == 129
    assert row.encode(0.0, Rounding.RP) == 0
    assert row.encode(2.0**-140, Rounding.RZ) == 0
    assert row.encode(2.0**-126.5, Rounding.RP) == 1
    assert row.encode(1e300, Rounding.RP, saturate=True) == 0xFE
    assert row.encode(math.nan) == 0xFF


def test_tf32_keeps_the_high_bits_of_a_float():
    row = FLOATS["tf32"]
    for value in (1.0, 1.0 + 2**-10, 3.14159265, -1e-40, 65504.0):
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        assert row.encode(row.decode(bits)) == bits & ~0x1FFF
    assert row.encode(1.0 + 2**-11) == 0x3F800000
    assert row.encode(1.0 + 2**-11, Rounding.RNA) == 0x3F802000


def test_floats_agree_with_struct():
    rng = random.Random(7)
    for _ in range(1000):
        bits = rng.getrandbits(32)
        (value,) = struct.unpack("<f", struct.pack("<I", bits))
        if not math.isnan(value):
            assert same(FLOATS["f32"].decode(bits), value)
            assert FLOATS["f32"].encode(value) == bits


def test_integers():
    s8, u8, s2f6 = INTEGERS["s8"], INTEGERS["u8"], INTEGERS["s2f6"]
    assert [s8.decode(w) for w in (0, 127, 128, 255)] == [0, 127, -128, -1]
    assert s8.encode(-300.0) == 0x80
    assert s8.encode(300, saturate=False) == 300 & 255
    assert u8.encode(-1.0) == 0
    assert u8.encode(2.5, Rounding.RN) == 2
    assert s8.encode(math.nan) == 0
    assert s8.encode(math.inf) == 127
    assert s2f6.decode(0x60) == 1.5
    assert s2f6.encode(-1.5) == 0xA0
    assert number_format("u32").limits == (0, 2**32 - 1)


def test_round_to_integer():
    assert [round_to_integer(2.5, m) for m in Rounding] == [2, 3, 2, 2, 3]
    assert [round_to_integer(-2.5, m) for m in Rounding] == [-2, -3, -2, -3, -2]


def test_a_format_must_fit_its_word():
    with pytest.raises(ValueError, match="17 bits in a word of 16"):
        FloatFormat("wide", 16, 8, 8, 127, FLOATS["f32"].specials)
