"""The choice of a swizzle: the widest whose spans divide a row, and none where no box or operand could be made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tkc.analysis.swizzle import SPANS, Use, choose
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES

COPIED = frozenset({Use.COPY})
OPERAND = frozenset({Use.COPY, Use.OPERAND})
ACROSS = frozenset({Use.COPY, Use.ACROSS})


@pytest.mark.parametrize(
    ("dtype", "columns", "uses", "swizzle"),
    [
        ("bf16", 64, OPERAND, "128B"),
        ("bf16", 128, OPERAND, "128B"),
        ("bf16", 96, OPERAND, "64B"),
        ("bf16", 32, OPERAND, "64B"),
        ("bf16", 16, OPERAND, "32B"),
        ("bf16", 80, OPERAND, "32B"),
        ("bf16", 8, COPIED, "none"),
        ("bf16", 8, OPERAND, None),
        ("bf16", 24, OPERAND, None),
        ("bf16", 24, COPIED, "none"),
        ("bf16", 12, COPIED, None),
        ("f32", 32, OPERAND, "128B"),
        ("f32", 4, COPIED, "none"),
        ("f32", 3, COPIED, None),
        ("e4m3", 128, OPERAND, "128B"),
        ("e4m3", 16, COPIED, "none"),
        ("e2m1", 64, OPERAND, "32B"),
        ("e2m1", 33, COPIED, None),
        ("tf32", 32, ACROSS, "128B_atom_32B"),
        ("tf32", 16, ACROSS, None),
        ("bf16", 64, ACROSS, "128B"),
    ],
)
def test_the_choice(dtype: str, columns: int, uses: frozenset[Use], swizzle: str | None) -> None:
    choice = choose(dtype, (64, columns), uses)
    assert (choice.swizzle if choice else None) == swizzle


@given(
    st.sampled_from(sorted(DTYPES)),
    st.integers(1, 600),
    st.sets(st.sampled_from([Use.COPY, Use.OPERAND, Use.THREADS])).map(frozenset),
)
def test_a_chosen_span_divides_the_row_and_no_wider_one_does(
    dtype: str, columns: int, uses: frozenset[Use]
) -> None:
    choice = choose(dtype, (8, columns), uses)
    bits = columns * DTYPES[dtype].bits
    fitting = [
        n for n in SPANS.values() if bits % (8 * n) == 0 and (n > 16 or Use.OPERAND not in uses)
    ]
    assert (choice.span if choice else None) == max(fitting, default=None)
    if choice is not None:
        assert SWIZZLES[choice.swizzle].span == choice.span
