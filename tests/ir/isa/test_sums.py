"""How tensor cores add, on numbers that can be followed by hand; recordings of a GPU are checked in tests/hardware."""

from __future__ import annotations

import math

import pytest

from tkc.ir.isa.sums import ACCUMULATIONS, accumulation, add_products, exponent, pass_of

HALF = accumulation("wgmma", "f16", "f32")
FP8 = accumulation("wgmma", "e4m3", "f32")
TYPES = ("f16", "f16")


def test_every_sum_has_one_row():
    keys = [(r.instruction, t, r.result) for r in ACCUMULATIONS for t in r.inputs]
    assert len(keys) == len(set(keys))
    with pytest.raises(KeyError, match="wgmma has no sum of s8 in f32"):
        accumulation("wgmma", "s8", "f32")


def test_terms_are_cut_off_below_the_largest():
    assert (
        add_products(HALF, TYPES, [1.0, 2.0**-12], [1.0, 2.0**-13], 0.0) == 1.0
    )  # 25 bits down, beyond f32
    assert add_products(HALF, TYPES, [2.0**10, 2.0**-10], [2.0**10, 2.0**-6], 0.0) == 2.0**20
    assert add_products(FP8, ("e4m3", "e4m3"), [8.0, 2.0**-6], [8.0, 2.0**-2], 0.0) == 64.0
    assert (
        add_products(FP8, ("e4m3", "e4m3"), [8.0, 2.0**-5], [8.0, 2.0**-2], 0.0) == 64.0 + 2.0**-7
    )


def test_cancelling_terms_leave_what_was_kept():
    terms = ([2.0**12, -(2.0**12), 1.5], [2.0**12, 2.0**12, 2.0**-1])
    assert add_products(HALF, TYPES, *terms, 0.0) == 0.5
    assert add_products(FP8, TYPES, *terms, 0.0) == 0.0


def test_the_result_is_cut_toward_zero_or_rounded():
    assert add_products(HALF, TYPES, [1.0], [1.0], 1.5 * 2.0**-24) == 1.0
    assert add_products(HALF, TYPES, [-1.0], [1.0], -1.5 * 2.0**-24) == -1.0
    nearest = accumulation("wgmma", "f16", "f16")
    assert add_products(nearest, TYPES, [1.0, 2.0**-6], [1.0, 1.5 * 2.0**-5], 0.0) == 1.0 + 2.0**-10
    assert add_products(FP8, TYPES, [1.0], [1.0], 2.0**-14) == 1.0


def test_subnormals_are_aligned_like_the_least_normal_number():
    assert exponent(2.0**-24, "f16") == exponent(2.0**-14, "f16") == -14
    assert exponent(3.0, "bf16") == 1


def test_infinities_and_zeros():
    inf = math.inf
    assert add_products(HALF, TYPES, [inf, 1.0], [1.0, 1.0], 0.0) == inf
    assert math.isnan(add_products(HALF, TYPES, [inf], [0.0], 0.0))
    assert math.isnan(add_products(HALF, TYPES, [inf], [1.0], -inf))
    zero = add_products(HALF, TYPES, [-0.0], [1.0], -0.0)
    assert (zero, math.copysign(1, zero)) == (0.0, 1.0)
    top = accumulation("wgmma", "f16", "f16")
    assert add_products(top, TYPES, [60000.0], [2.0], 0.0) == inf


def test_mma_sync_adds_fp8_in_two_passes():
    assert [pass_of(k, 32, 2) for k in range(8)] == [0, 0, 1, 1, 0, 0, 1, 1]
    late = accumulation("mma.sync", "e4m3", "f32")
    assert late.late
    # the sum of the products is finished before C, which is far larger, is added
    assert add_products(late, ("e4m3", "e4m3"), [1.0] * 32, [1.0] * 32, 2.0**24) == 2.0**24 + 32
