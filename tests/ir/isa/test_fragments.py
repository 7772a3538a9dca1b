"""Fragments and tensor-memory lanes against CuTe's thread-value layouts, written here as shapes and strides."""

from __future__ import annotations

import pytest

from tkc.ir.isa import fragments
from tkc.ir.isa.fragments import (
    ACCUMULATORS,
    TENSOR_LANES,
    TENSOR_MOVES,
    accumulator_layout,
    split_move,
    tensor_address,
)


def layout(extents, steps):
    def offset(index: int) -> int:
        total = 0
        for extent, step in zip(extents, steps, strict=True):
            total += index % extent * step
            index //= extent
        return total

    return offset


FRAGMENTS = [
    (fragments.accumulator_fragment, 128, 64, (4, 8, 4, 2, 2, 16), (128, 1, 16, 64, 8, 512)),
    (fragments.a_fragment_16, 128, 8, (4, 8, 4, 2, 2, 2), (128, 1, 16, 64, 8, 512)),
    (fragments.a_fragment_32, 128, 4, (4, 8, 4, 2, 2), (64, 1, 16, 8, 256)),
    (fragments.a_fragment_8, 128, 16, (4, 8, 4, 4, 2, 2), (256, 1, 16, 64, 8, 1024)),
]


@pytest.mark.parametrize(("place", "threads", "values", "extents", "steps"), FRAGMENTS)
def test_warpgroup_fragments(place, threads, values, extents, steps):
    offset = layout(extents, steps)
    seen = set()
    for t in range(threads):
        for v in range(values):
            row, column = place(t, v)
            assert row + 64 * column == offset(t + threads * v)
            seen.add((row, column))
    assert len(seen) == threads * values


@pytest.mark.parametrize(
    ("place", "values", "k", "n"),
    [
        (fragments.b_fragment_16, 4, 16, 8),
        (fragments.b_fragment_32, 2, 8, 8),
        (fragments.b_fragment_8, 8, 32, 8),
        (fragments.matrix_b16, 2, 8, 8),
        (fragments.matrix_m16n16_b8, 8, 16, 16),
        (fragments.turned_bytes, 16, 32, 16),
        (fragments.matrix_m16n8_b8, 4, 8, 16),
        (fragments.matrix_m8n16, 4, 8, 16),
    ],
)
def test_warp_fragments_cover_their_matrix(place, values, k, n):
    seen = {place(t, v) for t in range(32) for v in range(values)}
    assert seen == {(i, j) for i in range(k) for j in range(n)}


def test_documented_lanes():
    assert fragments.matrix_b16(5, 1) == (1, 3)
    assert fragments.matrix_b16(5, 1, trans=True) == (3, 1)
    assert fragments.b_fragment_16(5, 2) == (10, 1)
    assert fragments.matrix_m16n16_b8(1, 6) == (6, 8)


def test_turned_bytes_are_what_matrices_bring_and_take():
    """Every register of four is a row of a matrix on its way out, whose bytes come of two matrices on their way in."""
    for t in range(32):
        for v in range(16):
            row, column = fragments.turned_bytes(t, v)
            lines = [
                fragments.turned_source(8 * m + 2 * (t % 4) + e) for m in (0, 1) for e in (0, 1)
            ]
            lines = [line + 16 * (v // 8) for line in lines]
            assert row in lines, (
                "two rows of each of two matrices are what ldmatrix.trans brings a lane"
            )
            assert column // 2 == t // 4, "of the two columns that it brings"
            out, byte = fragments.turned_target(8 * (v // 4) + t // 4)
            assert (out, byte + 4 * (t % 4) + v % 4) == (column, row)


MOVES = {
    "32x32b": lambda n: ((32,), (32 * n,), 32 * n, n, ((32 * n,), (1,))),
    "16x64b": lambda n: ((2, 2, 8), (512 * n, 32, 64 * n), 64 * n, n, ((32, n), (1, 64))),
    "16x128b": lambda n: ((4, 8), (32, 128 * n), 128 * n, 2 * n, ((32, 2, n), (1, 1024 * n, 128))),
    "16x256b": lambda n: ((4, 8), (64, 256 * n), 256 * n, 4 * n, ((64, 2, n), (1, 2048 * n, 256))),
}
"""Shape → (thread extents, thread bit strides, bits of a lane's row, registers, (bit extents, bit strides))."""


@pytest.mark.parametrize("shape", MOVES)
@pytest.mark.parametrize("repeat", [1, 2, 4, 16])
def test_tensor_moves(shape: str, repeat: int):
    extents, steps, width, registers, (bits, bit_steps) = MOVES[shape](repeat)
    move = TENSOR_MOVES[shape]
    assert registers == move.registers * repeat
    assert width == 32 * move.columns * repeat
    thread, bit = layout(extents, steps), layout(bits, bit_steps)
    seen = set()
    for t in range(32):
        for r in range(registers):
            lane, column = move.place(t, r)
            assert lane * width + 32 * column == thread(t) + bit(32 * r)
            seen.add((lane, column))
    assert seen == {(a, b) for a in range(move.lanes) for b in range(move.columns * repeat)}


def test_repeat_counts():
    assert TENSOR_MOVES["32x32b"].repeats == (1, 2, 4, 8, 16, 32, 64, 128)
    assert TENSOR_MOVES["16x256b"].repeats[-1] == 32
    assert all(m.registers * m.most == 128 for m in TENSOR_MOVES.values())


def test_split_move():
    assert split_move(3, 2, 16) == (3, 2)
    assert split_move(19, 2, 16) == (3, 18)


def test_tensor_addresses():
    assert tensor_address(32, 5) == 0x00200005


@pytest.mark.parametrize("row", ACCUMULATORS, ids=lambda r: f"{r.name}-{r.m}-{r.sparse}-{r.ws}")
def test_accumulators_are_bijections(row):
    columns = 64
    places = {row.place(m, n, columns) for m in range(row.m) for n in range(columns)}
    assert len(places) == row.m * columns
    assert {cta for cta, _, _ in places} == set(range(row.cta_group))
    assert max(lane for _, lane, _ in places) < TENSOR_LANES
    assert {column for _, _, column in places} == set(range(row.width(columns)))


@pytest.mark.parametrize(
    ("args", "m", "n", "columns", "place"),
    [
        ((128,), 77, 9, 256, (0, 77, 9)),
        ((256, 2), 200, 9, 256, (1, 72, 9)),
        ((128, 2), 70, 3, 64, (1, 6, 3)),
        ((128, 2), 70, 40, 64, (1, 70, 8)),
        ((128, 2, False, True), 70, 40, 64, (1, 6, 40)),
        ((64,), 21, 7, 64, (0, 37, 7)),
        ((64, 1, True), 21, 40, 64, (0, 85, 8)),
        ((32, 1, True), 21, 40, 64, (0, 85, 8)),
        ((32, 1, True), 21, 20, 64, (0, 53, 4)),
    ],
)
def test_accumulator_places(args, m, n, columns, place):
    assert accumulator_layout(*args).place(m, n, columns) == place


def test_no_such_accumulator():
    with pytest.raises(KeyError, match="no accumulator of M 32"):
        accumulator_layout(32)
