"""In how many boxes the copy engine moves the rows of a tile."""

from __future__ import annotations

from collections.abc import Sequence

from tkc.ir.isa.tensormap import MAX_BOX

ATOM_ROWS = 8
"""Rows after which a swizzle repeats: a part of a tile that is copied by itself begins at a multiple."""


def row_parts(extent: int) -> int | None:
    """The fewest equal parts, whole atoms each where there are several, that an axis of rows is copied in; or None."""
    for parts in range(1, extent // ATOM_ROWS + 1):
        share, rest = divmod(extent, parts)
        if not rest and share <= MAX_BOX and (parts == 1 or share % ATOM_ROWS == 0):
            return parts
    return 1 if extent <= MAX_BOX else None


def split_axis(extents: Sequence[int]) -> int | None:
    """The axis whose rows need several boxes, of a tile's axes but the last; None where every one fits in one."""
    return next((axis for axis, extent in enumerate(extents) if extent > MAX_BOX), None)
