"""The recorded sums of tensor cores against the rows of `tkc.ir.isa.sums`, bit for bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hardware.inputs import Words
from hardware.recorded import Recorded, launches

from tkc.ir.isa.fragments import (
    Place,
    a_fragment_8,
    a_fragment_16,
    a_fragment_32,
    accumulator_fragment,
    b_fragment_8,
    b_fragment_16,
    b_fragment_32,
)
from tkc.ir.isa.layouts import Major, MatrixDescriptor, operand_address
from tkc.ir.isa.numbers import FLOATS
from tkc.ir.isa.sums import CANONICAL_NAN, accumulation, add_products

A_FRAGMENTS = {8: a_fragment_8, 16: a_fragment_16, 32: a_fragment_32}
B_FRAGMENTS = {8: b_fragment_8, 16: b_fragment_16, 32: b_fragment_32}
STRIDE = 7
"""One in so many elements of D is checked; every row and column is met."""


def place_fragment(
    words: Words, place: Callable[[int, int], Place], rows: int, columns: int
) -> Words:
    """A matrix from the values of each thread: `words` has one row a thread."""
    matrix = np.zeros((rows, columns), words.dtype)
    threads = np.arange(words.shape[0])
    for v in range(words.shape[1]):
        matrix[place(threads, v)] = words[:, v]  # type: ignore[arg-type]
    return matrix


def value(word: int, type_name: str) -> float:
    return FLOATS[type_name].decode(int(word))


def word(result: float, type_name: str) -> int:
    if math.isnan(result):
        return CANONICAL_NAN[type_name]
    return (
        struct.unpack("<I", struct.pack("<f", result))[0]
        if type_name == "f32"
        else (int(np.float16(result).view(np.uint16)))
    )


def check(row: str, types: tuple[str, str, str], a: Words, b: Words, c: Words, d: Words) -> None:
    """`a` is M x K, `b` N x K, `c` and `d` M x N, all of words; every STRIDE-th element of D is made again."""
    result, a_type, b_type = types
    rule = accumulation(row, a_type, result)
    wrong = []
    for at in range(0, d.size, STRIDE):
        m, n = divmod(at, d.shape[1])
        left = [value(w, a_type) for w in a[m]]
        right = [value(w, b_type) for w in b[n]]
        made = word(
            add_products(rule, (a_type, b_type), left, right, value(c[m, n], result)), result
        )
        if made != int(d[m, n]):
            wrong.append(f"({m}, {n}): GPU {int(d[m, n]):#x}, the rule {made:#x}")
    assert not wrong, f"{len(wrong)} of {len(range(0, d.size, STRIDE))}: {'; '.join(wrong[:5])}"


def wgmma_operand(image: Words, launch: Recorded, which: str, rows: int) -> Words:
    """A (which is "da") or B as rows of words, read through its descriptor."""
    d = launch.launch["descriptors"][which]
    descriptor = MatrixDescriptor(
        d["start"], d["leading"], d["stride"], d["swizzle"], d["base_offset"]
    )
    bits = image.itemsize * 8
    mn, k = np.meshgrid(np.arange(rows), np.arange(256 // bits), indexing="ij")
    return image[operand_address(descriptor, Major.K, bits, mn, k) // image.itemsize]  # type: ignore[arg-type]


def accumulator(words: Words, result: str, threads: int = 128, columns: int = 32) -> Words:
    halves = words.view(np.uint16 if result == "f16" else np.uint32).reshape(threads, -1)
    return place_fragment(halves, accumulator_fragment, threads // 2, columns)


NUMBERS = [r for r in launches("wgmma_numbers") if not r.launch["name"].startswith("chain")]


@pytest.mark.parametrize("r", NUMBERS, ids=lambda r: r.launch["name"])
def test_wgmma_sums_as_the_rows_say(r: Recorded) -> None:
    result, a_type, b_type = r.launch["entry"].split("_")
    buffers = r.inputs()
    a = wgmma_operand(buffers["image"], r, "da", 64)
    b = wgmma_operand(buffers["image"], r, "db", 32)
    scale = [x["value"] for x in r.launch["args"] if x.get("scalar") == "uint32"][1]
    c = accumulator(buffers["c"] if scale else np.zeros_like(buffers["c"]), result)
    check("wgmma", (result, a_type, b_type), a, b, c, accumulator(r.whole(), result))


@pytest.mark.parametrize("r", list(launches("mma_floats")), ids=lambda r: r.launch["name"])
def test_mma_sync_sums_as_the_rows_say(r: Recorded) -> None:
    shape, result, a_type, b_type = r.launch["entry"].split("_")
    k = int(shape.partition("k")[2])
    buffers = r.inputs()
    size = FLOATS[a_type].bits
    for warp in range(4):
        part = {n: w.reshape(4, 32, -1)[warp] for n, w in (*buffers.items(), ("out", r.whole()))}
        a = place_fragment(part["a"], A_FRAGMENTS[size], 16, k)
        b = place_fragment(part["b"], B_FRAGMENTS[size], k, 8).T
        c = accumulator(part["c"].reshape(-1), result, 32, 8)
        d = accumulator(part["out"].reshape(-1), result, 32, 8)
        check("mma.sync", (result, a_type, b_type), a, b, c, d)


CHAINS = [r for r in launches("wgmma_numbers") if r.launch["name"].startswith("chain")]


@pytest.mark.parametrize("r", CHAINS, ids=lambda r: r.launch["name"])
def test_a_chain_of_wgmma_rounds_after_each(r: Recorded) -> None:
    """Four instructions on one accumulator are four sums, one after the other."""
    _, result, element = r.launch["entry"].split("_")
    buffers = r.inputs()
    rule = accumulation("wgmma", element, result)
    d = accumulator(r.whole(), result)
    slices = []
    for i in range(4):
        image = buffers["image"][i * 2048 // buffers["image"].itemsize :]
        slices.append((wgmma_operand(image, r, "da", 64), wgmma_operand(image, r, "db", 32)))
    for at in range(0, d.size, 13):
        m, n = divmod(at, 32)
        total = 0.0
        for a, b in slices:
            left, right = ([value(w, element) for w in x] for x in (a[m], b[n]))
            total = add_products(rule, (element, element), left, right, total)
        assert word(total, result) == int(d[m, n]), (m, n)
