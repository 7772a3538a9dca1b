"""How many block scales an array has, padded to whole atoms, and what is said where it holds others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tkc.backend import lists
from tkc.diagnostics import Collector
from tkc.ir.isa.layouts import SCALE_ATOM_ROWS, SCALE_ATOM_SCALES


def padded(
    argument: Mapping[str, Any],
    found: int,
    expected: int,
    sizes: Mapping[str, tuple[int, ...]],
) -> str:
    """What the scales of an array are once they are padded, and what they are not."""
    of, block = argument["scales"]["of"], argument["scales"]["block"]
    rows, columns = sizes[of][-2:]
    each = -(-columns // block)
    wide = -(-each // SCALE_ATOM_SCALES) * SCALE_ATOM_SCALES
    high = -(-rows // SCALE_ATOM_ROWS) * SCALE_ATOM_ROWS
    return (
        f"{argument['name']} holds {found} scales; {of} has {rows} rows of {each} ({columns} elements in blocks of "
        f"{block}), which are padded to {high} x {wide} = {expected}: tkc.scales.interleave does so"
    )


def check_scales(
    kernel: Mapping[str, Any],
    sizes: Mapping[str, tuple[int, ...]],
    listed: Mapping[str, lists.Views],
    found: Collector,
) -> None:
    """Scales of a list's arrays that each have extents of their own: as many as the array has room for."""
    for argument in kernel["arguments"]:
        if "scales" not in argument or not argument.get("list") or argument["dims"][-1] is not None:
            continue
        of = argument["scales"]["of"]
        data, given = listed[of].arrays, listed[argument["name"]].arrays
        for i, (array, its) in enumerate(zip(data, given, strict=True)):
            one = lists.element(argument, i)
            one["scales"] = {**argument["scales"], "of": f"{of}[{i}]"}
            shape = (*array.shape[:-1], sizes[of][-1])
            expected = _interleaved(one, shape)
            if its.shape != (expected,):
                size = {f"{of}[{i}]": shape}
                found.error("TK407", padded(one, its.shape[-1], expected, size))


def _interleaved(argument: Mapping[str, Any], shape: tuple[int, ...]) -> int:
    """How many scales an array of this shape has, padding included."""
    rows, columns = shape[-2:]
    high = -(-rows // SCALE_ATOM_ROWS)
    wide = -(-columns // (argument["scales"]["block"] * SCALE_ATOM_SCALES))
    return high * wide * SCALE_ATOM_ROWS * SCALE_ATOM_SCALES
