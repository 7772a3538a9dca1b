"""How accumulators lie in tensor memory: which columns their row blocks take, and how many of them fit."""

from __future__ import annotations

from collections.abc import Sequence

from tkc.ir.isa.layouts import scale_column
from tkc.ir.isa.targets import Target
from tkc.ir.stage.types import BufferType
from tkc.ir.tile.types import OPERAND

SHARED_COLUMNS = 512
"""The largest allocation that is not exclusive (PTX 9.7.18.7: a power of two from 32 to 512 columns)."""

FEWEST_COLUMNS = 32
"""The smallest allocation, and what divides an exclusive one (PTX 9.4, tcgen05.alloc)."""

LANES = 128
"""Lanes of tensor memory; one holds one row of an M = 128 accumulator (PTX 9.7.18.1)."""


def row_blocks(type: BufferType) -> int:
    """Pieces of up to 128 rows that lie beside one another."""
    return -(-type.shape[0] // LANES)


def columns_of(type: BufferType) -> int:
    """32-bit columns of one slot, each of which holds one value, narrow ones too, but two of an operand; row blocks lie
    one after another, and scales as `isa.layouts.scale_column` says."""
    if type.holds_scales:
        rows, scales = type.shape
        return scale_column(0, scales, rows)
    columns = type.shape[1] // 2 if type.dtype.data == OPERAND else type.shape[1]
    return row_blocks(type) * columns


def columns_given(target: Target) -> int:
    """Columns that a CTA on the target may allocate."""
    return target.tensor_columns


def columns_to_allocate(columns: int) -> int:
    """The least allocation that holds so many: a power of two, or, exclusive beyond 512, a multiple of 32."""
    if columns > SHARED_COLUMNS:
        return -(-columns // FEWEST_COLUMNS) * FEWEST_COLUMNS
    return max(FEWEST_COLUMNS, 1 << (columns - 1).bit_length())


def depths_that_fit(types: Sequence[BufferType], columns: int) -> list[int]:
    """How often each accumulator is held, at most its depth and at least once: what takes most gives way first (R12).

    The sum may still exceed `columns` where every one is held once.
    """
    each = [columns_of(type) for type in types]
    # None is held more often than it would be alone; without this a huge depth gives way one by one.
    alone = [max(1, columns // n) for n in each]
    depths = [min(type.depth.data, most) for type, most in zip(types, alone, strict=True)]
    while sum(n * d for n, d in zip(each, depths, strict=True)) > columns:
        deep = [i for i, d in enumerate(depths) if d > 1]
        if not deep:
            break
        depths[max(deep, key=lambda i: each[i] * depths[i])] -= 1
    return depths


def depths_beside_scales(
    types: Sequence[BufferType], scales: Sequence[BufferType], columns: int
) -> tuple[list[int], bool]:
    """How often each accumulator is held beside block scales, and whether those are held once for each slot.

    Scales go round with the tiles that they belong to; where that does not fit, they are held once in all.
    """
    whole = sum(columns_of(type) * type.depth.data for type in scales)
    depths = depths_that_fit(types, columns - whole)
    if sum(columns_of(type) * n for type, n in zip(types, depths, strict=True)) + whole <= columns:
        return depths, True
    return depths_that_fit(types, columns - sum(map(columns_of, scales))), False
