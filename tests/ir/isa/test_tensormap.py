"""Tensor maps: numbers of both interfaces, byte counts, and each limit on its own."""

from __future__ import annotations

import dataclasses

import pytest

from tkc.ir.isa.tensormap import MAP_TYPES, REPLACE_FIELDS, TiledMap, breaches

GOOD = TiledMap(MAP_TYPES["BFLOAT16"], (4096, 4096), (8192,), (64, 128), (1, 1), "128B")


def test_numbers():
    assert [t.driver for t in MAP_TYPES.values()] == list(range(16))
    assert sorted(t.elemtype for t in MAP_TYPES.values()) == list(range(16))
    assert (MAP_TYPES["BFLOAT16"].driver, MAP_TYPES["BFLOAT16"].elemtype) == (9, 10)
    assert {f.name for f in REPLACE_FIELDS.values() if f.bits == 64} == {
        "global_address",
        "global_stride",
    }


def test_a_good_map_breaks_nothing():
    assert list(breaches(GOOD)) == []
    assert GOOD.shared_bytes == GOOD.transaction_bytes == 16384


def test_padding_is_not_counted():
    padded = TiledMap(MAP_TYPES["16U4_ALIGN16B"], (256, 64), (128,), (128, 8), swizzle="128B")
    assert list(breaches(padded)) == []
    assert padded.shared_bytes == 1024
    assert padded.transaction_bytes == 512
    assert dataclasses.replace(padded, type=MAP_TYPES["16U6_ALIGN16B"]).transaction_bytes == 768


FP4 = MAP_TYPES["16U4_ALIGN16B"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sizes": (), "strides": ()}, "rank is 0"),
        (
            {"sizes": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6, "element_strides": ()},
            "rank is 6",
        ),
        ({"strides": ()}, "0 strides, expected 1"),
        ({"box": (64,)}, "1 box extents, expected 2"),
        ({"address": 8}, "not aligned to 16"),
        ({"sizes": (4096, 0)}, "size of axis 1 is 0"),
        ({"sizes": (4096, 2**31 + 1)}, "size of axis 1"),
        ({"strides": (8200,)}, "stride of axis 1 is 8200 bytes"),
        ({"strides": (2**40,)}, "stride of axis 1"),
        ({"box": (64, 257)}, "box extent 1 is 257"),
        ({"box": (64, 0)}, "box extent 1 is 0"),
        ({"box": (60, 128)}, "inner box is 120 bytes, expected a multiple of 16"),
        ({"box": (128, 128)}, "inner box is 256 bytes, expected at most the 128"),
        ({"element_strides": (1, 9)}, "element stride 1 is 9"),
        ({"swizzle": "96B"}, "no swizzle 96B"),
        ({"interleave": "16B"}, "at least 3 with interleave"),
        ({"type": MAP_TYPES["INT32"], "fill": "nan", "box": (32, 128)}, "needs a floating type"),
        ({"type": FP4, "box": (64, 128), "strides": (8192,)}, "expected 128 for 16U4_ALIGN16B"),
        ({"type": FP4, "box": (128, 8), "sizes": (64, 8)}, "multiple of 128"),
        ({"type": FP4, "box": (128, 8), "swizzle": "64B"}, "takes no swizzle 64B"),
        ({"type": FP4, "box": (128, 8), "address": 16}, "not aligned to 32"),
    ],
)
def test_each_limit(change, says: str):
    found = list(breaches(dataclasses.replace(GOOD, **change)))
    assert any(says in sentence for sentence in found), found


def test_narrow_rows_lie_one_span_apart():
    narrow = dataclasses.replace(GOOD, box=(16, 128))
    assert (narrow.row_pitch, narrow.shared_bytes, narrow.transaction_bytes) == (128, 16384, 4096)
    plain = dataclasses.replace(narrow, swizzle="none")
    assert (plain.row_pitch, plain.shared_bytes) == (32, 4096)


def test_element_strides_leave_fewer_rows():
    strided = dataclasses.replace(GOOD, box=(64, 23), element_strides=(2, 4))
    assert strided.counts == (64, 6)
    assert strided.transaction_bytes == 6 * 128


def test_an_interleaved_box_has_one_slice():
    tiled = TiledMap(
        MAP_TYPES["UINT16"], (32, 12, 10, 6), (512, 8192, 24576), (8, 4, 3, 2), interleave="16B"
    )
    assert tiled.counts == (8, 4, 1, 2)
    assert tiled.transaction_bytes == 1024


def test_a_box_fits_an_sm():
    whole = TiledMap(MAP_TYPES["FLOAT64"], (512, 512), (4096,), (128, 228), (1, 1))
    assert list(breaches(whole)) == []
    larger = dataclasses.replace(whole, box=(128, 240))
    assert list(breaches(larger)) == ["box is 245760 bytes, expected at most 233472"]
