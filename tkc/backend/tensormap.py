"""Tensor maps of the launch contract: from an ARG and a launch's numbers to operands of cuTensorMapEncodeTiled.

The driver answers a breach of its limits with a bare "invalid value", so each is found here first, with the numbers;
the limits themselves are rows of `tkc.ir.isa.tensormap`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tkc.diagnostics import Diagnostic, TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.tensormap import MAP_TYPES, MAX_STRIDE, MapType, TiledMap, breaches

MAP_SWIZZLES = tuple(s.name for s in SWIZZLES.values() if s.driver is not None)
"""Swizzles that cuTensorMapEncodeTiled can be asked for."""


class BoundMap(NamedTuple):
    """The operands of one cuTensorMapEncodeTiled call; hashable."""

    tiled: TiledMap
    l2_promotion: str = "none"


def map_type(arg: Mapping[str, Any]) -> MapType:
    """The driver's data type of a tensormap ARG: its own `type`, else its dtype's."""
    return MAP_TYPES[arg.get("type") or DTYPES[arg["dtype"]].tensor_map]


def alignment(arg: Mapping[str, Any]) -> int:
    """Bytes that the base address and every stride must be a multiple of."""
    return max(map_type(arg).align, 32 if arg.get("interleave", "none") == "32B" else 16)


def _tiled(
    arg: Mapping[str, Any], address: int, sizes: Sequence[int], strides: Sequence[int]
) -> TiledMap:
    return TiledMap(
        map_type(arg),
        tuple(sizes),
        tuple(strides),
        tuple(arg["box"]),
        tuple(arg.get("element_strides") or [1] * len(sizes)),
        arg.get("swizzle", "none"),
        arg.get("interleave", "none"),
        arg.get("fill", "zero"),
        address,
    )


def check_box(arg: Mapping[str, Any], path: str) -> None:
    """What of a tensormap ARG does not depend on the array: rank, box, swizzle, fill. TK207, one for each breach."""
    rank, least = len(arg["sizes"]), map_type(arg).inner_multiple
    _refuse(_tiled(arg, 0, [least] * rank, [alignment(arg)] * (rank - 1)), path)


def _refuse(tiled: TiledMap, path: str) -> None:
    found = tuple(Diagnostic("TK207", f"{path}: {sentence}") for sentence in breaches(tiled))
    if found:
        raise TkcError(found)


def bind_map(
    arg: Mapping[str, Any], address: int, sizes: Sequence[int], strides: Sequence[int]
) -> BoundMap:
    """A tensormap ARG with its numbers filled in; axes in messages count from the innermost.

    Sizes of 0 become the least that the driver takes: it refuses 0, and a kernel never reads through the map of an
    empty array. Raises TkcError: TK406 (address), TK405 (strides), TK207 (the rest), with the numbers.
    """
    path, align = f"the tensor map of {arg['argument']}", alignment(arg)
    if address % align:
        raise TkcError.at(
            "TK406",
            f"{path} starts at {address:#x}, {address % align} bytes past a multiple of {align}",
        )
    for axis, stride in enumerate(strides, 1):
        if stride <= 0 or stride % align or stride >= MAX_STRIDE:
            raise TkcError.at(
                "TK405",
                f"{path}: axis {axis} has a stride of {stride} bytes;"
                f" expected a positive multiple of {align} below 2^40",
            )
    least = (map_type(arg).inner_multiple, *[1] * (len(sizes) - 1))
    tiled = _tiled(arg, address, [n or m for n, m in zip(sizes, least, strict=True)], strides)
    _refuse(tiled, path)
    return BoundMap(tiled, arg.get("l2_promotion", "none"))
