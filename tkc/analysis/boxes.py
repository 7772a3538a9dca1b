"""In how many boxes the copy engine moves the rows of a tile."""

from __future__ import annotations

from collections.abc import Sequence

from tkc.ir.isa.tensormap import MAX_BOX

ATOM_ROWS = 8
"""Rows after which a swizzle repeats: a part of a tile that is copied by itself begins at a multiple."""


def row_parts(extent: int) -> int | None:
    """The fewest equal parts, whole atoms each where there are several, that an axis of rows is copied in; or None."""
    if extent <= MAX_BOX:
        return 1
    shares = range(MAX_BOX, 0, -ATOM_ROWS)
    return next((extent // share for share in shares if extent % share == 0), None)


def split_axis(extents: Sequence[int]) -> int | None:
    """The axis whose rows need several boxes, of a tile's axes but the last; None where every one fits in one."""
    return next((axis for axis, extent in enumerate(extents) if extent > MAX_BOX), None)
