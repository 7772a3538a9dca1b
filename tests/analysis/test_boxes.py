"""Parts of many rows: few, equal, whole atoms, none beyond the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tkc.analysis.boxes import ATOM_ROWS, row_parts, split_axis
from tkc.ir.isa.tensormap import MAX_BOX


@given(st.integers(1, 4096))
def test_parts_are_the_fewest_that_fit(extent: int) -> None:
    def fits(parts: int) -> bool:
        share, rest = divmod(extent, parts)
        return not rest and share <= MAX_BOX and (parts == 1 or share % ATOM_ROWS == 0)

    assert row_parts(extent) == next((n for n in range(1, extent + 1) if fits(n)), None)


def test_the_axis_that_is_cut() -> None:
    assert split_axis([64, 128]) is None
    assert split_axis([512]) == 0
    assert split_axis([1, 264, 8]) == 1


def test_an_absurd_extent_is_answered_at_once() -> None:
    assert row_parts(2**31 - 1) is None
    assert row_parts(2**40) == 2**32
