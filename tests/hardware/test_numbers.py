"""Recorded conversions against the number formats, bit for bit: roundings, saturation, NaN, every narrow pattern."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hardware.compaction import sample_places
from hardware.inputs import Words
from hardware.recorded import Recorded, find

from tkc.ir.isa.numbers import FLOATS, INTEGERS, FloatFormat, Rounding

MOST = 1500
"""Elements of an operation that are made again."""


def float_of(word: int) -> float:
    """The value of an f32, where NaN is NaN."""
    return struct.unpack("<f", struct.pack("<I", word))[0]


def shown(r: Recorded, row: int) -> Iterator[tuple[int, int]]:
    """(element, recorded word) of one operation: the beginning, and samples."""
    kept, n = r.kept(), r.launch["buffers"]["out"]["count"] // len(r.rows)
    if "whole" in kept:
        table = kept["whole"].reshape(len(r.rows), n)
        chosen = range(0, n, max(1, n // MOST))
        yield from ((i, int(table[row, i])) for i in chosen)
        return
    yield from enumerate(map(int, kept["head"][row]))
    places = sample_places(n * len(r.rows))
    for place, word in zip(places, kept["samples"], strict=True):
        if place // n == row:
            yield int(place % n), int(word)


def converted(value: float, target: FloatFormat, marks: set[str], rounding: Rounding) -> int:
    """The word that cvt makes of a number."""
    if "ftz" in marks and 0 < abs(value) < FLOATS["f32"].decode(0x00800000):
        value = math.copysign(0.0, value)
    if "sat" in marks:
        value = 0.0 if math.isnan(value) else min(max(value, 0.0), 1.0) + 0.0
    if "relu" in marks and not math.isnan(value):
        value = max(value, 0.0) + 0.0
    return target.encode(value, rounding, "satfinite" in marks)


def compare(r: Recorded, row: int, inputs: dict[str, Words], make: Callable[..., int]) -> int:
    """Checks one operation; returns how many elements were looked at."""
    wrong, count = [], 0
    for i, word in shown(r, row):
        given = [int(inputs[name][i]) for name in "ab" if name in inputs]
        made = make(*given)
        count += 1
        if made != word:
            wrong.append(f"{', '.join(map(hex, given))}: GPU {word:#x}, the format {made:#x}")
    assert not wrong, f"{r.rows[row]}, {len(wrong)} of {count}: {'; '.join(wrong[:5])}"
    return count


SINGLE = [
    (program, row)
    for program in ("convert_f16", "convert_bf16", "convert_tf32")
    for row in range(len(find(program, "narrow").rows))
]


@pytest.mark.parametrize(("program", "row"), SINGLE, ids=lambda v: str(v))
def test_floats_become_narrower_ones(program: str, row: int) -> None:
    r = find(program, "narrow")
    _, rounding, *marks, type_name, _ = r.rows[row].split(".")
    target = FLOATS[type_name]

    def make(word: int) -> int:
        value = float_of(word)
        if rounding == "rna" and math.isnan(value):
            return rounded_away(word, "satfinite" in marks)
        return converted(value, target, set(marks), Rounding(rounding))

    assert compare(r, row, r.inputs(), make) >= 1000


def rounded_away(word: int, saturate: bool) -> int:
    """cvt.rna.tf32 of a NaN: not the canonical one; the low bits are cut, which may leave an infinity."""
    result = word & 0xFFFFE000
    return result - 0x2000 if saturate else result


PAIRS = [(p, row) for p in ("convert_f16", "convert_bf16") for row in range(8)]


@pytest.mark.parametrize(("program", "row"), PAIRS, ids=lambda v: str(v))
def test_two_floats_become_a_pair(program: str, row: int) -> None:
    """The first source is the high half."""
    r = find(program, "pairs")
    _, rounding, *marks, type_name, _ = r.rows[row].split(".")
    target = FLOATS[type_name.removesuffix("x2")]

    def make(high: int, low: int) -> int:
        words = [
            converted(float_of(w), target, set(marks), Rounding(rounding)) for w in (high, low)
        ]
        return words[0] << 16 | words[1]

    assert compare(r, row, r.inputs(), make) >= 1000


@pytest.mark.parametrize("row", range(4))
def test_two_floats_become_fp8(row: int) -> None:
    r = find("convert_fp8", "narrow")
    _, _, *marks, type_name, _ = r.rows[row].split(".")
    target = FLOATS[type_name.removesuffix("x2")]

    def make(high: int, low: int) -> int:
        a, b = (converted(float_of(w), target, set(marks), Rounding.RN) for w in (high, low))
        return a << 8 | b

    assert compare(r, row, r.inputs(), make) >= 4000


@pytest.mark.parametrize("row", range(4))
def test_halves_become_fp8(row: int) -> None:
    r = find("convert_fp8", "halves")
    _, _, *marks, type_name, _ = r.rows[row].split(".")
    target, half = FLOATS[type_name.removesuffix("x2")], FLOATS["f16"]

    def make(pair: int) -> int:
        a, b = (
            converted(half.decode(w), target, set(marks), Rounding.RN)
            for w in (pair >> 16, pair & 0xFFFF)
        )
        return a << 8 | b

    assert compare(r, row, r.inputs(), make) >= 4000


@pytest.mark.parametrize("row", range(4))
def test_every_fp8_pattern_becomes_a_half(row: int) -> None:
    r = find("convert_fp8", "widen")
    _, _, *marks, _, type_name = r.rows[row].split(".")
    source, half = FLOATS[type_name.removesuffix("x2")], FLOATS["f16"]

    def make(pair: int) -> int:
        a, b = (
            converted(source.decode(w), half, set(marks), Rounding.RN)
            for w in (pair >> 8, pair & 0xFF)
        )
        return a << 16 | b

    assert compare(r, row, r.inputs(), make) == 256


ROUNDINGS = {"rni": Rounding.RN, "rzi": Rounding.RZ, "rmi": Rounding.RM, "rpi": Rounding.RP}
FROM_F32 = [
    row
    for row in enumerate(find("convert_float_integer", "integers_f32").rows)
    if "ftz" not in row[1]
]


@pytest.mark.parametrize(("row", "label"), FROM_F32, ids=lambda v: str(v))
def test_floats_become_integers(row: int, label: str) -> None:
    """They saturate with or without .sat; NaN becomes 0, or 1 << 63 in 64 bits."""
    r = find("convert_float_integer", "integers_f32")
    _, rounding, *_, type_name, _ = label.split(".")
    target = INTEGERS[type_name]

    def make(word: int) -> int:
        value = float_of(word)
        if math.isnan(value):
            return 1 << 63 if target.bits == 64 else 0
        result = target.encode(value, ROUNDINGS[rounding])
        # a negative s8 fills its 16-bit register with its sign
        return result | 0xFF00 if type_name == "s8" and result & 0x80 else result

    assert compare(r, row, r.inputs(), make) >= 100


TO_F32 = list(enumerate(find("convert_integer_float", "to_f32").rows))


@pytest.mark.parametrize(("row", "label"), TO_F32, ids=lambda v: str(v))
def test_integers_become_floats(row: int, label: str) -> None:
    r = find("convert_integer_float", "to_f32")
    _, rounding, _, type_name = label.split(".")
    source = INTEGERS[type_name]

    def make(word: int) -> int:
        # a double holds every integer that is exact in it; the others need their low bits for the rounding
        return rounded_integer(
            int(source.decode(word & ((1 << source.bits) - 1))), Rounding(rounding)
        )

    assert compare(r, row, r.inputs(), make) >= 500


def rounded_integer(value: int, rounding: Rounding) -> int:
    """An integer as f32, rounded once: low bits beyond a double's become one sticky bit."""
    drop = max(abs(value).bit_length() - 50, 0)
    sticky = abs(value) & ((1 << drop) - 1) != 0
    short = (abs(value) >> drop) | sticky
    return FLOATS["f32"].encode(math.copysign(math.ldexp(short, drop), value), rounding)


@pytest.mark.parametrize("row", [0, 3])
def test_every_half_widens_exactly(row: int) -> None:
    r = find("convert_floats", "widen")
    type_name = r.rows[row].split(".")[-1]
    source = FLOATS[type_name]

    def make(word: int) -> int:
        value = source.decode(word)
        if math.isnan(value):
            return int(np.uint32(word) << 16) if type_name == "bf16" else 0x7FFFFFFF
        return FLOATS["f32"].encode(value)

    assert compare(r, row, r.inputs(), make) >= 1000
