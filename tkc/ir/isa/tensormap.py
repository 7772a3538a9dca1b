"""Tensor maps: the numbers of their fields in the driver and in tensormap.replace, and every limit of encoding one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tkc.ir.isa.layouts import SWIZZLES

MAP_BYTES = 128
MAP_ALIGN = 64
"""Alignment that cuTensorMapEncodeTiled asks of a map; declare parameters with 128 (cuda.h 13.5)."""

MAX_RANK = 5
MAX_SIZE = 1 << 31
"""Elements of one axis (cuda.h 13.5; coordinates are signed 32-bit)."""
MAX_STRIDE = 1 << 40
"""Bytes; strides are below this."""
MAX_BOX = 256
"""Elements of one box extent."""
MAX_ELEMENT_STRIDE = 8
BOX_BYTES_UNIT = 16
"""The inner box extent is a multiple of this many bytes."""


@dataclass(frozen=True, slots=True)
class MapType:
    """An element type of tensor maps.

    `driver` is its CU_TENSOR_MAP_DATA_TYPE number and `name` the end of that constant's name; `elemtype` its number in
    tensormap.replace. One element takes `bits` in global memory and `shared_bits` in shared memory (4- and 6-bit
    elements are padded: 16 of them own 16 bytes), and counts `bits` in a barrier's transaction count. `align` is asked
    of the address and the strides; `inner_box` is the one inner box extent, `inner_multiple` divides the inner axis and
    the inner coordinate, where they are set.
    """

    name: str
    driver: int
    elemtype: int
    bits: int
    shared_bits: int
    floating: bool = False
    align: int = 16
    inner_box: int | None = None
    inner_multiple: int = 1
    swizzles: tuple[str, ...] = ()
    stores: bool = True
    reduces: bool = True


MAP_TYPES: Mapping[str, MapType] = {
    t.name: t
    for t in (
        MapType("UINT8", 0, 0, 8, 8),
        MapType("UINT16", 1, 1, 16, 16),
        MapType("UINT32", 2, 2, 32, 32),
        MapType("INT32", 3, 3, 32, 32),
        MapType("UINT64", 4, 4, 64, 64),
        MapType("INT64", 5, 5, 64, 64),
        MapType("FLOAT16", 6, 6, 16, 16, True),
        MapType("FLOAT32", 7, 7, 32, 32, True),
        MapType("FLOAT64", 8, 9, 64, 64, True),
        MapType("BFLOAT16", 9, 10, 16, 16, True),
        MapType("FLOAT32_FTZ", 10, 8, 32, 32, True),
        MapType("TFLOAT32", 11, 11, 32, 32, True),
        MapType("TFLOAT32_FTZ", 12, 12, 32, 32, True),
        MapType("16U4_ALIGN8B", 13, 13, 4, 4, inner_multiple=2, reduces=False),
        MapType(
            "16U4_ALIGN16B", 14, 14, 4, 8, align=32, inner_box=128, inner_multiple=128,
            swizzles=("none", "128B", "128B_atom_32B"), stores=False, reduces=False,
        ),
        MapType(
            "16U6_ALIGN16B", 15, 15, 6, 8, align=32, inner_box=128, inner_multiple=128,
            swizzles=("none", "128B", "128B_atom_32B", "128B_atom_64B"), reduces=False,
        ),
    )
}
"""By name. Eight-bit floats use UINT8."""

INTERLEAVES: Mapping[str, int] = {"none": 0, "16B": 1, "32B": 2}
L2_PROMOTIONS: Mapping[str, int] = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
FILLS: Mapping[str, int] = {"zero": 0, "nan": 1}
"""Driver numbers; tensormap.replace numbers interleaves and fills alike."""


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """A field of tensormap.replace: the width of its new value, and whether it takes an axis (an immediate)."""

    name: str
    bits: int
    axis: bool = False
    immediate: bool = False
    doc: str = ""


REPLACE_FIELDS: Mapping[str, ReplaceField] = {
    f.name: f
    for f in (
        ReplaceField("global_address", 64),
        ReplaceField("rank", 32, doc="the rank minus one"),
        ReplaceField("box_dim", 32, True),
        ReplaceField("global_dim", 32, True),
        ReplaceField("global_stride", 64, True, doc="bytes"),
        ReplaceField("element_stride", 32, True),
        ReplaceField("elemtype", 32, immediate=True),
        ReplaceField("interleave_layout", 32, immediate=True),
        ReplaceField("swizzle_mode", 32, immediate=True),
        ReplaceField("swizzle_atomicity", 32, immediate=True),
        ReplaceField("fill_mode", 32, immediate=True),
    )
}


@dataclass(frozen=True, slots=True)
class TiledMap:
    """The operands of cuTensorMapEncodeTiled, axes innermost first; strides in bytes of axes 1 and up."""

    type: MapType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: str = "none"
    interleave: str = "none"
    fill: str = "zero"
    address: int = 0

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def box_elements(self) -> int:
        count = 1
        for extent in self.box:
            count *= extent
        return count

    @property
    def shared_bytes(self) -> int:
        """Bytes that a box takes in shared memory."""
        return self.box_elements * self.type.shared_bits // 8

    @property
    def transaction_bytes(self) -> int:
        """Bytes that a copy of a box counts on its barrier, wherever parts of it lie outside: data without padding."""
        return self.box_elements * self.type.bits // 8


def breaches(tiled: TiledMap) -> Iterator[str]:
    """What cuTensorMapEncodeTiled would refuse, one sentence each with the number found and the limit."""
    kind, rank = tiled.type, tiled.rank
    if not 1 <= rank <= MAX_RANK:
        yield f"rank is {rank}, expected 1..{MAX_RANK}"
        return
    if tiled.interleave != "none" and rank < 3:
        yield f"rank is {rank}, expected at least 3 with interleave {tiled.interleave}"
    yield from _lengths(tiled)
    align = max(kind.align, 32 if tiled.interleave == "32B" else 16)
    if tiled.address % align:
        yield f"address {tiled.address:#x} is not aligned to {align} bytes"
    for axis, size in enumerate(tiled.sizes):
        if not 1 <= size <= MAX_SIZE:
            yield f"size of axis {axis} is {size}, expected 1..{MAX_SIZE}"
    for axis, stride in enumerate(tiled.strides, 1):
        if stride % align or not 0 <= stride < MAX_STRIDE:
            yield f"stride of axis {axis} is {stride} bytes, expected a multiple of {align} below 2^40"
    for axis, extent in enumerate(tiled.box):
        if not 1 <= extent <= MAX_BOX:
            yield f"box extent {axis} is {extent}, expected 1..{MAX_BOX}"
    for axis, stride in enumerate(tiled.element_strides):
        if not 1 <= stride <= MAX_ELEMENT_STRIDE:
            yield f"element stride {axis} is {stride}, expected 1..{MAX_ELEMENT_STRIDE}"
    yield from _inner(tiled)
    if tiled.fill == "nan" and not kind.floating:
        yield f"fill with NaN needs a floating type, not {kind.name}"


def _lengths(tiled: TiledMap) -> Iterator[str]:
    """Whether the vectors have one entry an axis."""
    expected: Sequence[tuple[str, int, int]] = (
        ("strides", len(tiled.strides), tiled.rank - 1),
        ("box extents", len(tiled.box), tiled.rank),
        ("element strides", len(tiled.element_strides) or tiled.rank, tiled.rank),
    )
    for what, found, wanted in expected:
        if found != wanted:
            yield f"{found} {what}, expected {wanted}"


def _inner(tiled: TiledMap) -> Iterator[str]:
    """The rules of the innermost axis: box bytes, swizzle span, sub-byte types."""
    kind, extent = tiled.type, tiled.box[0]
    packed = extent * kind.bits
    if tiled.interleave == "none" and packed % (8 * BOX_BYTES_UNIT):
        yield f"inner box is {packed / 8:g} bytes, expected a multiple of {BOX_BYTES_UNIT}"
    inner = extent * kind.shared_bits // 8
    if tiled.swizzle not in SWIZZLES or SWIZZLES[tiled.swizzle].driver is None:
        named = ", ".join(s.name for s in SWIZZLES.values() if s.driver is not None)
        yield f"no swizzle {tiled.swizzle}: one of {named}"
    elif tiled.swizzle != "none" and tiled.interleave == "none":
        span = SWIZZLES[tiled.swizzle].span
        if inner > span:
            yield f"inner box is {inner} bytes, expected at most the {span} of swizzle {tiled.swizzle}"
    if tiled.interleave == "32B" and tiled.swizzle != "32B":
        yield f"swizzle is {tiled.swizzle}, expected 32B with interleave 32B"
    if kind.swizzles and tiled.swizzle not in kind.swizzles:
        yield f"{kind.name} takes no swizzle {tiled.swizzle}: one of {', '.join(kind.swizzles)}"
    if kind.inner_box is not None and extent != kind.inner_box:
        yield f"inner box is {extent} elements, expected {kind.inner_box} for {kind.name}"
    if tiled.sizes[0] % kind.inner_multiple:
        yield (
            f"size of axis 0 is {tiled.sizes[0]}, expected a multiple of {kind.inner_multiple}"
            f" for {kind.name}"
        )
