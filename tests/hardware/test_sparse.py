"""Recorded sparse multiplies: which bits of which lane say which elements of A are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hardware.inputs import Words
from hardware.recorded import Recorded, launches
from hardware.test_shared_layouts import described, fragment
from hardware.test_sums import A_FRAGMENTS, B_FRAGMENTS, place_fragment

from tkc.ir.isa.fragments import accumulator_fragment, metadata_place
from tkc.ir.isa.layouts import Major, operand_address
from tkc.ir.isa.numbers import number_format


def numbers(words: Words, type_name: str) -> Words:
    form = number_format(type_name)
    return np.array([float(form.decode(int(w))) for w in words.reshape(-1)]).reshape(words.shape)


def widened(a: Words, metadata: Words, bits: int, selector: int) -> Words:
    """The dense rows of A: 16 for each 32 words of metadata."""
    rows, depth = a.shape[0], 2 * a.shape[1]
    columns = 2 if bits == 32 else 4
    dense = np.zeros((rows, depth))
    for row in range(rows):
        for group in range(depth // columns):
            lane, bit = metadata_place(bits, depth, selector, row % 16, group)
            kept = int(metadata[row // 16 * 32 + lane]) >> bit & 15
            if columns == 2:
                dense[row, 2 * group + (kept == 0b1110)] = a[row, group]
            else:
                dense[row, 4 * group + (kept & 3)] = a[row, 2 * group]
                dense[row, 4 * group + (kept >> 2)] = a[row, 2 * group + 1]
    return dense


@pytest.mark.parametrize("r", list(launches("mma_sparse")), ids=lambda r: r.launch["name"])
def test_mma_sp(r: Recorded) -> None:
    shape, type_name, selector = r.launch["name"].split("_")
    k, bits = int(shape.partition("k")[2]), number_format(type_name).bits
    buffers = r.inputs()
    for warp in range(4):
        part = {n: w.reshape(4, 32, -1)[warp] for n, w in (*buffers.items(), ("out", r.whole()))}
        a = numbers(place_fragment(part["a"], A_FRAGMENTS[bits], 16, k // 2), type_name)
        b = numbers(place_fragment(part["b"], B_FRAGMENTS[bits], k, 8), type_name)
        c = place_fragment(part["c"].view(np.float32), accumulator_fragment, 16, 8)
        d = place_fragment(part["out"].view(np.float32), accumulator_fragment, 16, 8)
        dense = widened(a, part["meta"].reshape(-1), bits, int(selector))
        assert (dense @ b + c == d).all()


@pytest.mark.parametrize("r", list(launches("wgmma_sparse")), ids=lambda r: r.launch["name"])
def test_wgmma_sp(r: Recorded) -> None:
    type_name, selector, *from_registers = r.launch["name"].split("_")
    b_type = {"e4m3": "e5m2"}.get(type_name, type_name)
    bits, buffers = number_format(type_name).bits, r.inputs()
    image = buffers["image"]

    def operand(which: str, rows: int, row_bytes: int) -> Words:
        mn, k = np.meshgrid(np.arange(rows), np.arange(row_bytes * 8 // bits), indexing="ij")
        return image[operand_address(described(r, which), Major.K, bits, mn, k) // image.itemsize]  # type: ignore[arg-type]

    if from_registers:
        a = place_fragment(buffers["a"].reshape(128, -1), A_FRAGMENTS[bits], 64, 256 // bits)
    else:
        a = operand("da", 64, 32)
    b = numbers(operand("db", 32, 64), b_type)
    dense = widened(numbers(a, type_name), buffers["meta"], bits, int(selector))
    d = fragment(r.whole(), 32)
    found = d.view(np.int32) if type_name == "s8" else d.view(np.float32)
    assert (found == dense @ b.T).all()
