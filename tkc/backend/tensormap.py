"""Tensor maps of the launch contract: the words for cuTensorMapEncodeTiled's operands, and its limits with the numbers.

The limits are those of cuda.h 13.5 at cuTensorMapEncodeTiled; the driver answers a breach with a bare "invalid value",
so every one is checked here first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES

INTERLEAVES = {"none": "NONE", "16B": "16B", "32B": "32B"}
SWIZZLES = {
    "none": "NONE",
    "32B": "32B",
    "64B": "64B",
    "128B": "128B",
    "128B_atom_32B": "128B_ATOM_32B",
    "128B_atom_32B_flip_8B": "128B_ATOM_32B_FLIP_8B",
    "128B_atom_64B": "128B_ATOM_64B",
}
L2_PROMOTIONS = {"none": "NONE", "64B": "L2_64B", "128B": "L2_128B", "256B": "L2_256B"}
FILLS = {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"}
"""Contract word → the end of the driver's CU_TENSOR_MAP_… name."""

MAX_SIZE = 1 << 31
"""Elements on one axis (cuda.h 13.5); coordinates are signed 32-bit."""
MAX_STRIDE = 1 << 40
MAX_BOX = 256


@dataclass(frozen=True, slots=True)
class MapType:
    """A CU_TENSOR_MAP_DATA_TYPE.

    `bits`, `shared_bits`: one element in global and in shared memory; `align`: bytes, of address and strides;
    `inner_box`: the one inner box extent that it takes; `inner_multiple`: elements that divide the inner axis.
    """

    name: str
    bits: int
    shared_bits: int
    align: int = 16
    floating: bool = False
    inner_box: int | None = None
    inner_multiple: int = 1
    swizzles: tuple[str, ...] = tuple(SWIZZLES)


MAP_TYPES: Mapping[str, MapType] = {
    t.name: t
    for t in (
        MapType("UINT8", 8, 8),
        MapType("UINT16", 16, 16),
        MapType("UINT32", 32, 32),
        MapType("INT32", 32, 32),
        MapType("UINT64", 64, 64),
        MapType("INT64", 64, 64),
        MapType("FLOAT16", 16, 16, floating=True),
        MapType("FLOAT32", 32, 32, floating=True),
        MapType("FLOAT64", 64, 64, floating=True),
        MapType("BFLOAT16", 16, 16, floating=True),
        MapType("FLOAT32_FTZ", 32, 32, floating=True),
        MapType("TFLOAT32", 32, 32, floating=True),
        MapType("TFLOAT32_FTZ", 32, 32, floating=True),
        MapType("16U4_ALIGN8B", 4, 4, inner_multiple=2),
        MapType(
            "16U4_ALIGN16B",
            4,
            8,
            32,
            inner_box=128,
            inner_multiple=128,
            swizzles=("none", "128B", "128B_atom_32B"),
        ),
        MapType(
            "16U6_ALIGN16B",
            6,
            8,
            32,
            inner_box=128,
            inner_multiple=128,
            swizzles=("none", "128B", "128B_atom_32B", "128B_atom_64B"),
        ),
    )
}


def map_type(arg: Mapping[str, Any]) -> MapType:
    """The driver's data type of a tensormap ARG: its own `type`, else its dtype's."""
    return MAP_TYPES[arg.get("type") or DTYPES[arg["dtype"]].tensor_map]


def swizzle_span(swizzle: str) -> int:
    """Bytes of the row that a swizzle permutes: the most that the inner box axis may cover."""
    return int(swizzle.split("B")[0])


def check_box(arg: Mapping[str, Any], path: str) -> None:
    """What of a tensormap ARG does not depend on the array: rank, box, swizzle, element strides. TK207 with the numbers."""
    kind, box, rank = map_type(arg), arg["box"], len(arg["sizes"])
    interleave, swizzle = arg.get("interleave", "none"), arg.get("swizzle", "none")
    steps = arg.get("element_strides", [1] * rank)

    def refuse(message: str) -> None:
        raise TkcError.at("TK207", f"{path}: {message}")

    if not 1 <= rank <= 5:
        refuse(f"a tensor map has 1 to 5 axes, found {rank}")
    if interleave != "none" and rank < 3:
        refuse(f"interleave {interleave} needs at least 3 axes, found {rank}")
    if interleave == "32B" and swizzle != "32B":
        refuse(f"interleave 32B needs swizzle 32B, found {swizzle}")
    for axis, extent in enumerate(box):
        if not 1 <= extent <= MAX_BOX:
            refuse(f"box[{axis}] is {extent}; the tensor copy engine takes 1 to {MAX_BOX}")
    for axis, step in enumerate(steps):
        if not 1 <= step <= 8:
            refuse(f"element_strides[{axis}] is {step}; the tensor copy engine takes 1 to 8")
    inner = box[0] * kind.bits
    if interleave == "none" and inner % 128 and kind.inner_box is None:
        refuse(f"the inner box axis has {_bytes(inner)} bytes; it must be a multiple of 16")
    if interleave != "none" and kind.inner_box is not None:
        refuse(f"type {kind.name} has no interleave {interleave}")
    if kind.inner_box is not None and box[0] != kind.inner_box:
        refuse(f"box[0] is {box[0]}; type {kind.name} takes exactly {kind.inner_box}")
    if swizzle not in kind.swizzles:
        refuse(f"type {kind.name} has no swizzle {swizzle}; it has {', '.join(kind.swizzles)}")
    shared = box[0] * kind.shared_bits
    if interleave == "none" and swizzle != "none" and shared > 8 * swizzle_span(swizzle):
        refuse(f"the inner box axis has {_bytes(shared)} bytes; swizzle {swizzle} spans {swizzle_span(swizzle)}")
    if arg.get("fill", "zero") == "nan" and not kind.floating:
        refuse(f"fill nan needs a floating type, found {kind.name}")


@dataclass(frozen=True, slots=True)
class BoundMap:
    """The operands of one cuTensorMapEncodeTiled call, in the driver's words; hashable, so that encodings are cached."""

    type: str
    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: str
    swizzle: str
    l2_promotion: str
    fill: str


def bind_map(
    arg: Mapping[str, Any], address: int, sizes: Sequence[int], strides: Sequence[int], path: str
) -> BoundMap:
    """A tensormap ARG with its numbers filled in.

    Sizes of 0 become the least that it takes: the driver refuses 0, and a kernel never reads through the map of an empty array.
    Raises TK406 (address), TK405 (strides), TK207 (sizes), each with the numbers.
    """
    kind, name = map_type(arg), arg["argument"]
    align = max(kind.align, 32 if arg.get("interleave", "none") == "32B" else 16)
    if address % align:
        raise TkcError.at(
            "TK406",
            f"{path} starts at {address:#x}, {address % align} bytes past a multiple of {align};"
            f" the tensor copy engine needs a {align}-byte aligned base",
        )
    for axis, size in enumerate(sizes):
        if not 0 <= size <= MAX_SIZE:
            raise TkcError.at(
                "TK207",
                f"{path}: axis {axis} of the tensor map of {name} has {size} elements;"
                f" the tensor copy engine takes up to {MAX_SIZE}",
            )
        if axis == 0 and size % kind.inner_multiple:
            raise TkcError.at(
                "TK207",
                f"{path}: the inner axis of {name} has {size} elements;"
                f" {kind.name} takes multiples of {kind.inner_multiple}",
            )
    for axis, stride in enumerate(strides, 1):
        if stride <= 0 or stride % align or stride >= MAX_STRIDE:
            raise TkcError.at(
                "TK405",
                f"{path}: axis {axis} of the tensor map of {name} has a stride of {stride} bytes;"
                f" the tensor copy engine needs a positive multiple of {align} below 2^40",
            )
    return BoundMap(
        kind.name,
        address,
        tuple(max(kind.inner_multiple if axis == 0 else 1, size) for axis, size in enumerate(sizes)),
        tuple(strides),
        tuple(arg["box"]),
        tuple(arg.get("element_strides") or [1] * len(sizes)),
        INTERLEAVES[arg.get("interleave", "none")],
        SWIZZLES[arg.get("swizzle", "none")],
        L2_PROMOTIONS[arg.get("l2_promotion", "none")],
        FILLS[arg.get("fill", "zero")],
    )


def _bytes(bits: int) -> str:
    return str(bits // 8) if bits % 8 == 0 else f"{bits / 8:g}"
