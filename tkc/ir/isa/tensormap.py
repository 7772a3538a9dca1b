"""Tensor maps: the numbers of their fields in the driver and in tensormap.replace, and every limit of encoding one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.targets import Feature

MAP_BYTES = 128
MAP_ALIGN = 64
"""Alignment that cuTensorMapEncodeTiled asks of a map; declare parameters with 128 (cuda.h 13.5)."""

MAX_RANK = 5
MAX_SIZE = 1 << 31
"""Elements of one axis (cuda.h 13.5; coordinates are signed 32-bit). Drivers up to 13.0 take 2^32."""
MAX_STRIDE = 1 << 40
"""Bytes; strides are below this."""
MAX_BOX = 256
"""Elements of one box extent."""
MAX_BOX_BYTES = 228 << 10
"""Bytes of one box, as found on an H200: all the shared memory of its SM."""
MAX_ELEMENT_STRIDE = 8
BOX_BYTES_UNIT = 16
"""The inner box extent is a multiple of this many bytes (also with interleave, where it counts something else)."""
GRANULE = 16
"""Bytes along the innermost axis that the copy engine moves at once.

A copy faults unless its innermost coordinate is a multiple of this many bytes. Loads fill what is outside to the byte;
stores and reductions write every granule that has a byte inside, whole: where rows end inside a granule, what shared
memory holds for its rest goes behind the row. Stores and reductions with a negative coordinate fault."""
NAN_FILL = 0x7FF7
"""What a fill with NaN puts into every 16 bits outside of the tensor, whatever the type."""


@dataclass(frozen=True, slots=True)
class MapType:
    """An element type of tensor maps.

    `driver` is its CU_TENSOR_MAP_DATA_TYPE number and `name` the end of that constant's name; `elemtype` its number in
    tensormap.replace. One element takes `bits` in global memory and `shared_bits` in shared memory (4- and 6-bit
    elements are padded: 16 of them own 16 bytes), and counts `bits` in a barrier's transaction count. `align` is asked
    of the address and the strides; `inner_box` is the one inner box extent, `inner_multiple` divides the inner axis and
    the inner coordinate, where they are set. `needs` is what a target must have.
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
    needs: frozenset[Feature] = frozenset()


_NARROW = frozenset({Feature.TMA_NARROW})

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
        MapType("16U4_ALIGN8B", 13, 13, 4, 4, inner_multiple=2, reduces=False, needs=_NARROW),
        MapType(
            "16U4_ALIGN16B",
            14,
            14,
            4,
            8,
            align=32,
            inner_box=128,
            inner_multiple=128,
            swizzles=("none", "128B", "128B_atom_32B"),
            stores=False,
            reduces=False,
            needs=_NARROW,
        ),
        MapType(
            "16U6_ALIGN16B",
            15,
            15,
            6,
            8,
            align=32,
            inner_box=128,
            inner_multiple=128,
            swizzles=("none", "128B", "128B_atom_32B", "128B_atom_64B"),
            reduces=False,
            needs=_NARROW,
        ),
    )
}
"""By name. Eight-bit floats use UINT8."""

_WORDS = ("UINT32", "INT32", "UINT64")
_ORDERED = (*_WORDS, "INT64", "FLOAT16", "BFLOAT16")

REDUCTIONS: Mapping[str, tuple[str, ...]] = {
    "add": (*_WORDS, "FLOAT16", "BFLOAT16", "FLOAT32", "FLOAT32_FTZ"),
    "min": _ORDERED,
    "max": _ORDERED,
    "inc": ("UINT32",),
    "dec": ("UINT32",),
    "and": _WORDS,
    "or": _WORDS,
    "xor": _WORDS,
}
"""Which element types each operation of cp.reduce.async.bulk.tensor takes; another one faults (so found on an H200)."""

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
    def counts(self) -> tuple[int, ...]:
        """Positions that a box has along each axis: every s-th of an axis with an element stride s, rounded up.

        Axis 0 has no element stride without interleave. With interleave it counts units of 16 or 32 bytes, and the
        second outermost axis is the slice of channels, of which a box has one whatever its extent.
        """
        steps = self.element_strides or (1,) * self.rank
        found = [-(-extent // step) for extent, step in zip(self.box, steps, strict=True)]
        if self.interleave == "none":
            found[0] = self.box[0]
        else:
            found[self.rank - 2] = 1
        return tuple(found)

    def _row(self, bits: int) -> int:
        """Bytes of one row of the box: along axis 0."""
        if self.interleave != "none":
            return self.counts[0] * (32 if self.interleave == "32B" else 16)
        return self.counts[0] * bits // 8

    @property
    def row_pitch(self) -> int:
        """Bytes from one row of a box to the next in shared memory: the whole span of a swizzle, else the row."""
        row = self._row(self.type.shared_bits)
        if self.swizzle == "none" or self.interleave != "none":
            return row
        return max(row, SWIZZLES[self.swizzle].span)

    @property
    def shared_bytes(self) -> int:
        """Bytes that a box takes in shared memory, up to the end of its last row's pitch."""
        return math.prod(self.counts[1:]) * self.row_pitch

    @property
    def transaction_bytes(self) -> int:
        """Bytes that a copy of a box counts on its barrier, wherever parts of it lie outside: data without padding."""
        return math.prod(self.counts[1:]) * self._row(self.type.bits)


def breaches(tiled: TiledMap) -> Iterator[str]:
    """What cuTensorMapEncodeTiled would refuse, one sentence each with the number found and the limit."""
    found = list(_breaches(tiled))
    yield from found
    if not found and tiled.shared_bytes > MAX_BOX_BYTES:
        yield f"box is {tiled.shared_bytes} bytes, expected at most {MAX_BOX_BYTES}"


def _breaches(tiled: TiledMap) -> Iterator[str]:
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
    if packed % (8 * BOX_BYTES_UNIT):
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
