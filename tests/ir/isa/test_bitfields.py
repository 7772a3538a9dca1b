"""Words pack and unpack their fields, and say which field is wrong."""

from __future__ import annotations

import pytest

from tkc.ir.isa.bitfields import BitField, Word

WORD = Word(
    "sample", 16, (BitField("low", 0, 4, 8), BitField("one", 6, 2, fixed=1), BitField("top", 12, 4))
)


def test_round_trip():
    for low in range(0, 128, 8):
        for top in range(16):
            word = WORD.encode({"low": low, "top": top})
            assert word == low // 8 | 1 << 6 | top << 12
            assert WORD.decode(word) == {"low": low, "top": top}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"low": 4}, "low 4 is no multiple of 8"),
        ({"low": 128}, r"low is 128, expected 0\.\.120"),
        ({"top": -1}, r"top is -1, expected 0\.\.15"),
        ({"middle": 1}, "no field middle"),
    ],
)
def test_what_does_not_fit(values: dict[str, int], says: str):
    with pytest.raises(ValueError, match=says):
        WORD.encode(values)


@pytest.mark.parametrize(
    ("word", "says"),
    [(0, r"one \(bits 6-7\) is 0, expected 1"), (1 << 6 | 1 << 10, "bits 10 are set")],
)
def test_illegal_words(word: int, says: str):
    with pytest.raises(ValueError, match=says):
        WORD.decode(word)


def test_overlapping_or_excess_fields_are_refused():
    with pytest.raises(ValueError, match="overlaps"):
        Word("w", 8, (BitField("a", 0, 4), BitField("b", 3, 2)))
    with pytest.raises(ValueError, match="exceed 8 bits"):
        Word("w", 8, (BitField("a", 6, 4),))
