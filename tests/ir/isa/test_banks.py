"""Turns at the banks of shared memory, by cases that the programming guide draws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tkc.ir.isa.banks import BANKS, WORD, least, wavefronts


@pytest.mark.parametrize(
    ("addresses", "size", "turns"),
    [
        ([4 * lane for lane in range(32)], 4, 1),
        ([8 * lane for lane in range(32)], 4, 2),
        ([128 * lane for lane in range(32)], 4, 32),
        ([132 * lane for lane in range(32)], 4, 1),
        ([64] * 32, 4, 1),
        ([2 * lane for lane in range(32)], 2, 1),
        ([8 * lane for lane in range(32)], 8, 2),
        ([16 * lane for lane in range(32)], 16, 4),
        ([128 * lane for lane in range(32)], 16, 32),
        ([144 * lane for lane in range(32)], 16, 4),
        ([4 * lane for lane in range(16)], 4, 1),
    ],
)
def test_turns(addresses: list[int], size: int, turns: int) -> None:
    assert wavefronts(addresses, size) == turns


@given(
    st.sampled_from([1, 2, 4, 8, 16]),
    st.lists(st.integers(0, 999), min_size=1, max_size=32),
    st.integers(0, 99),
)
def test_turns_depend_on_places_among_all_banks_alone(
    size: int, items: list[int], further: int
) -> None:
    addresses = [size * i for i in items]
    moved = [a + further * BANKS * WORD for a in addresses]
    assert wavefronts(addresses, size) == wavefronts(moved, size)
    assert 1 <= wavefronts(addresses, size) <= len(addresses)
    assert least(len(addresses), size) <= 4
