"""Inputs of the recorded launches, made from a seed, the same on every machine; needs NumPy alone.

A buffer is `{"dtype": "uint32", "count": 128, "make": {"kind": "bits", "seed": 1}}`: words of a NumPy type, always
unsigned. Kinds: `fill` (one value), `count` (start, step), `bits` (random), `list` (values given), `cross` (special
values of a format, crossed, then random ones), `floats` (a format, exponents `low` to `high`), `small` (integers in a
format), `scatter` (pairs of index and value, else 0), `place` (index >> shift), `choose` (random picks of `bits` bits
each), `parts` (several after one another). Random words come from the raw stream of PCG64, which NumPy keeps stable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Words = np.ndarray[Any, Any]

FORMATS: Mapping[str, tuple[int, int, int]] = {
    "f64": (64, 52, 1023),
    "f32": (32, 23, 127),
    "tf32": (32, 23, 127),
    "f16": (16, 10, 15),
    "bf16": (16, 7, 127),
    "e4m3": (8, 3, 7),
    "e5m2": (8, 2, 15),
}
"""Word bits, mantissa bits and exponent bias of each float format."""


def _float_specials(name: str) -> list[int]:
    """Zeros, ones, the edges of the ranges, infinities and NaNs, and neighbours of a few."""
    bits, mantissa, bias = FORMATS[name]
    one, unit = bias << mantissa, 1 << mantissa
    top = (1 << (bits - 1)) - unit  # the infinity of IEEE formats
    magnitudes = [
        0,
        1,
        unit - 1,
        unit,
        unit + 1,
        one,
        one + 1,
        one - 1,
        one + unit // 2,
        one + unit,
        one - unit,
        one + 2 * unit + unit // 4,
        top - 1,
        top,
        top + unit // 2,
        top + 1,
        (1 << (bits - 1)) - 1,
    ]
    return [m | s << (bits - 1) for m in magnitudes for s in (0, 1)]


def _int_specials(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    values = [
        0,
        1,
        2,
        3,
        7,
        8,
        31,
        32,
        33,
        255,
        256,
        top - 1,
        top,
        top + 1,
        2 * top - 1,
        2 * top - 2,
    ]
    values += [0x5555555555555555, 0x123456789ABCDEF0, 0xFEDCBA9876543210, 1 << (bits // 2)]
    return [v % (1 << bits) for v in values]


def specials(name: str) -> list[int]:
    """The special words of a float format, or of `b16`, `b32`, `b64`."""
    return _float_specials(name) if name in FORMATS else _int_specials(int(name[1:]))


def random_words(seed: int, count: int, bits: int) -> Words:
    raw = np.random.PCG64(seed).random_raw(-(-count * bits // 64))
    return raw.view(f"u{bits // 8}")[:count].copy()


def _floats(make: Mapping[str, Any], count: int) -> Words:
    """Random sign and mantissa, exponents evenly in low..high; with `ties` half have that many low bits 0 or a half."""
    bits, mantissa, bias = FORMATS[make["format"]]
    raw = random_words(make["seed"], 2 * count, 64)
    sign, field = raw[:count] & 1, raw[:count] >> np.uint64(32)
    low, high = make.get("low", 0), make.get("high", 0)
    exponent = bias + low + (field % np.uint64(high - low + 1)).astype(np.int64)
    fraction = raw[count:] & np.uint64((1 << mantissa) - 1)
    if make.get("ties"):
        drop = np.uint64((1 << make["ties"]) - 1)
        half = np.uint64(1 << (make["ties"] - 1))
        kind = (raw[count:] >> np.uint64(60)) & np.uint64(3)
        fraction = np.where(
            kind == 0, fraction & ~drop, np.where(kind == 1, (fraction & ~drop) | half, fraction)
        )
    if not make.get("signed", True):
        sign = sign & np.uint64(0)
    word = (
        (sign << np.uint64(bits - 1))
        | (exponent.astype(np.uint64) << np.uint64(mantissa))
        | fraction
    )
    if make["format"] == "tf32":
        word &= ~np.uint64(0x1FFF)
    return word.astype(f"u{bits // 8}")


def integers_in(name: str, values: Words) -> Words:
    """Small integers as words of a format; exact where the format has them."""
    if name in ("u8", "s8"):
        return values.astype(np.int64).astype(np.uint8)
    if name in ("u32", "s32"):
        return values.astype(np.int64).astype(np.uint32)
    if name == "f64":
        return values.astype(np.float64).view(np.uint64)
    if name in ("f32", "tf32"):
        return values.astype(np.float32).view(np.uint32)
    if name == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    half = values.astype(np.float16).view(np.uint16)
    if name == "f16":
        return half
    if name == "e5m2":
        return (half >> 8).astype(np.uint8)
    # e4m3: the exponent of a half is biased by 8 more, the mantissa has 7 bits more
    magnitude = half & 0x7FFF
    e4m3 = np.where(magnitude == 0, 0, (magnitude >> 7).astype(np.int64) - (8 << 3))
    return (e4m3 | (half >> 15).astype(np.int64) << 7).astype(np.uint8)


def _cross(make: Mapping[str, Any], count: int, bits: int) -> Words:
    """Specials of `of` in every pair (place 0 the slow index, 1 the fast one, 2 another), then random words."""
    chosen = np.array(specials(make["of"]), np.uint64)
    index, size = np.arange(count), len(chosen)
    place = [index // size, index % size, (index * 7 + index // size) % size][make["place"]]
    words = chosen[place % size].astype(f"u{bits // 8}")
    rest = random_words(make["seed"], count, bits)
    if make["of"] in FORMATS:
        near = _floats(
            {"format": make["of"], "seed": make["seed"] + 1, "low": -6, "high": 6}, count
        )
        rest = np.where(index % 3 == 0, rest, near)
    return np.where(index < size * size, words, rest).astype(f"u{bits // 8}")


def _choose(make: Mapping[str, Any], count: int, bits: int) -> Words:
    """Words joined from random picks of `values`, each `bits` bits wide."""
    part = make.get("bits", bits)
    each = bits // part
    chosen = np.array(make["values"], np.uint64)
    picks = chosen[random_words(make["seed"], count * each, 32) % len(chosen)].reshape(count, each)
    shifts = np.arange(each, dtype=np.uint64) * np.uint64(part)
    return np.bitwise_or.reduce(picks << shifts, axis=1).astype(f"u{bits // 8}")


def make_words(make: Mapping[str, Any], count: int, dtype: str) -> Words:
    """`count` words of an unsigned NumPy type as the description says."""
    bits = np.dtype(dtype).itemsize * 8
    match make["kind"]:
        case "fill":
            return np.full(count, make["value"], dtype)
        case "count":
            steps = np.arange(count, dtype=np.uint64) * np.uint64(make.get("step", 1))
            return (steps + np.uint64(make.get("start", 0))).astype(dtype)
        case "bits":
            return random_words(make["seed"], count, bits)
        case "list":
            return np.resize(np.array(make["values"], dtype), count)
        case "cross":
            return _cross(make, count, bits)
        case "floats":
            return _floats(make, count)
        case "small":
            raw = random_words(make["seed"], count, 32).astype(np.int64)
            low = make.get("low", -make["limit"])
            return integers_in(make["format"], raw % (make["limit"] - low + 1) + low)
        case "scatter":
            words = np.zeros(count, dtype)
            for index, value in make["at"]:
                words[index] = value
            return words
        case "place":
            return (np.arange(count) >> make["shift"]).astype(dtype)
        case "choose":
            return _choose(make, count, bits)
        case "parts":
            found = [make_words(part, part["count"], dtype) for part in make["of"]]
            return np.resize(np.concatenate(found), count)
        case other:
            raise ValueError(f"no kind of input {other}")


def make_buffers(launch: Mapping[str, Any]) -> dict[str, Words]:
    """The buffers of a launch by name, as they are before it runs."""
    return {n: make_words(b["make"], b["count"], b["dtype"]) for n, b in launch["buffers"].items()}
