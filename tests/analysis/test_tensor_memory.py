"""Columns of accumulators, and how many of each fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tkc.analysis.tensor_memory import columns_given, columns_of, depths_that_fit
from tkc.ir.isa.fragments import accumulator_layout
from tkc.ir.isa.targets import TARGETS
from tkc.ir.stage.types import BufferType, Home


def accumulator(rows: int, columns: int, depth: int = 1) -> BufferType:
    return BufferType.of("f32", (rows, columns), depth, Home.TENSOR)


@pytest.mark.parametrize(
    ("rows", "columns", "taken"), [(128, 256, 256), (64, 256, 256), (256, 64, 128), (384, 32, 96)]
)
def test_row_blocks_lie_beside_each_other(rows: int, columns: int, taken: int) -> None:
    assert columns_of(accumulator(rows, columns)) == taken


def test_64_rows_take_lanes_and_not_half_the_columns() -> None:
    """As `isa.fragments` has it for M = 64 of one CTA: lane t < 16 of warp w holds row 16 w + t."""
    layout = accumulator_layout(64)
    for row in range(64):
        for column in range(8):
            assert layout.place(row, column, 8) == (0, 32 * (row // 16) + row % 16, column)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([64, 128, 256]),
            st.integers(1, 32),
            st.integers(1, 5) | st.just(2**31 - 1),
        ),
        max_size=4,
    )
)
def test_depths_are_the_most_that_fit(shapes: list[tuple[int, int, int]]) -> None:
    types = [accumulator(rows, 8 * n, depth) for rows, n, depth in shapes]
    depths = depths_that_fit(types, 512)

    def total(held: list[int]) -> int:
        return sum(columns_of(t) * d for t, d in zip(types, held, strict=True))

    assert all(1 <= d <= t.depth.data for d, t in zip(depths, types, strict=True))
    written = [t.depth.data for t in types]
    if total(written) <= 512:
        assert depths == written
    elif total([1] * len(types)) <= 512:
        assert total(depths) <= 512
    else:
        assert depths == [1] * len(types)


def test_a_cta_is_given_512_columns_at_most() -> None:
    assert columns_given(TARGETS["sm_100a"]) == 512
    assert columns_given(TARGETS["sm_107a"]) == 576
    assert columns_given(TARGETS["sm_90a"]) == 0
