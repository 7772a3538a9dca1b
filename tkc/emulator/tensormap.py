"""Tensor maps: what cuTensorMapEncodeTiled takes and refuses, and the 128 bytes that a kernel gets.

The limits are those of `tkc.ir.isa.tensormap`. The layout of the 128 bytes is our own (the real one is not published);
kernels see it only through `tensormap.replace`, copies of whole maps, and the copies that name a map.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.tensormap import (
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    MAP_BYTES,
    MAP_TYPES,
    MapType,
    TiledMap,
    breaches,
)

MAGIC = 0x746B634D
"""First word of a map that this file wrote."""

_TYPES = list(MAP_TYPES.values())
_SWIZZLE_NAMES = list(SWIZZLES)
_INTERLEAVE_NAMES = list(INTERLEAVES)
_FILL_NAMES = list(FILLS)
_HEAD = struct.Struct("<IBBBBB")
_BODY = struct.Struct("<Q5Q4Q5H5B")
_BODY_AT = 16

_NUMPY_NAMES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float8_e8m0fnu": "ue8m0",
    "uint8": "u8",
    "int8": "s8",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
}
_MORE_TYPES = {
    **dict.fromkeys(("u16", "s16", "uint16", "int16"), "UINT16"),
    **dict.fromkeys(("u64", "uint64"), "UINT64"),
    **dict.fromkeys(("f64", "float64"), "FLOAT64"),
    "s32": "INT32",
}


def encode(tiled: TiledMap) -> bytes:
    """The 128 bytes that a kernel gets."""
    head = _HEAD.pack(
        MAGIC,
        _TYPES.index(tiled.type),
        tiled.rank,
        _SWIZZLE_NAMES.index(tiled.swizzle),
        INTERLEAVES[tiled.interleave],
        FILLS[tiled.fill],
    )
    steps = tiled.element_strides or (1,) * tiled.rank
    body = _BODY.pack(
        tiled.address,
        *_padded(tiled.sizes, 5),
        *_padded(tiled.strides, 4),
        *_padded(tiled.box, 5),
        *_padded(steps, 5),
    )
    return (head.ljust(_BODY_AT, b"\0") + body).ljust(MAP_BYTES, b"\0")


def _padded(values: Sequence[int], count: int) -> tuple[int, ...]:
    return (*values, *([0] * (count - len(values))))


def decode(raw: bytes) -> TiledMap:
    """The map that 128 bytes hold; raises ValueError where they are none."""
    magic, kind, rank, swizzle, interleave, fill = _HEAD.unpack_from(raw)
    if magic != MAGIC:
        raise ValueError("the 128 bytes hold no tensor map")
    values = _BODY.unpack_from(raw, _BODY_AT)
    if not 1 <= rank <= 5 or kind >= len(_TYPES):
        raise ValueError("the tensor map has an impossible rank or element type")
    return TiledMap(
        _TYPES[kind],
        values[1 : 1 + rank],
        values[6 : 5 + rank],
        values[10 : 10 + rank],
        values[15 : 15 + rank],
        _SWIZZLE_NAMES[swizzle],
        _INTERLEAVE_NAMES[interleave],
        _FILL_NAMES[fill],
        values[0],
    )


# The fields of tensormap.replace, as places in the bytes

_SCALARS = {"rank": 5, "interleave_layout": 7, "fill_mode": 8}
_VECTORS = {
    "global_address": (_BODY_AT, 8),
    "global_dim": (_BODY_AT + 8, 8),
    "global_stride": (_BODY_AT + 48, 8),
    "box_dim": (_BODY_AT + 80, 2),
    "element_stride": (_BODY_AT + 90, 1),
}
_TYPE_AT, _SWIZZLE_AT = 4, 6


def edit(raw: bytearray, field: str, value: int, axis: int = 0) -> None:
    """Changes one field as tensormap.replace does; raises ValueError for a value that it has not.

    A map that starts from zeros becomes one with its first edit.
    """
    struct.pack_into("<I", raw, 0, MAGIC)
    if field == "elemtype":
        found = [k for k, t in enumerate(_TYPES) if t.elemtype == value]
        if not found:
            raise ValueError(f"elemtype {value} has no meaning")
        raw[_TYPE_AT] = found[0]
    elif field in ("swizzle_mode", "swizzle_atomicity"):
        now = SWIZZLES[_SWIZZLE_NAMES[raw[_SWIZZLE_AT]]]
        mode = value if field == "swizzle_mode" else now.mode
        atom = value if field == "swizzle_atomicity" else now.atomicity
        names = [n for n, s in SWIZZLES.items() if (s.mode, s.atomicity) == (mode, atom)]
        # A mode whose atom is set later starts with the plain one.
        names = names or [n for n, s in SWIZZLES.items() if s.mode == mode]
        if not names:
            raise ValueError(f"{field} {value} has no meaning")
        raw[_SWIZZLE_AT] = _SWIZZLE_NAMES.index(names[0])
    elif field in _SCALARS:
        raw[_SCALARS[field]] = value + 1 if field == "rank" else value
    else:
        at, width = _VECTORS[field]
        if not 0 <= axis < 5 or value >> (8 * width):
            raise ValueError(f"{field} of axis {axis} cannot be {value}")
        raw[at + axis * width : at + (axis + 1) * width] = value.to_bytes(width, "little")


def element_type(dtype: Any) -> MapType:
    """The element type for a name of ours, a driver's name, or a NumPy dtype."""
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    name = name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_")
    if name in MAP_TYPES:
        return MAP_TYPES[name]
    ours = _NUMPY_NAMES.get(name, name)
    if ours in DTYPES:
        return MAP_TYPES[DTYPES[ours].tensor_map]
    if ours in _MORE_TYPES:
        return MAP_TYPES[_MORE_TYPES[ours]]
    raise TkcError.at("TK501", f"no tensor map holds elements of {name}")


class TensorMap:
    """A tensor map over an array, as cuTensorMapEncodeTiled makes it; refuses (TK207) what that refuses.

    `base` is a NumPy array (its memory is the device buffer), `offset` bytes are added to its address. `sizes`, `box`
    and `element_strides` count elements, innermost axis first; `strides` are bytes, for axes 1 and up.
    """

    def __init__(
        self,
        base: Any,
        *,
        dtype: Any,
        sizes: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        element_strides: Sequence[int] | None = None,
        interleave: str = "none",
        swizzle: str = "none",
        l2_promotion: str = "none",
        fill: str = "zero",
        offset: int = 0,
    ) -> None:
        for name, value, known in (
            ("interleave", interleave, INTERLEAVES),
            ("l2_promotion", l2_promotion, L2_PROMOTIONS),
            ("fill", fill, FILLS),
        ):
            if value not in known:
                raise TkcError.at(
                    "TK207", f"tensor map: no {name} {value}: one of {', '.join(known)}"
                )
        self.array = base
        self.offset = offset
        self.tiled = TiledMap(
            element_type(dtype),
            tuple(int(s) for s in sizes),
            tuple(int(s) for s in strides),
            tuple(int(b) for b in box),
            tuple(int(s) for s in element_strides) if element_strides else (1,) * len(sizes),
            swizzle,
            interleave,
            fill,
        )
        self._check(self.tiled)

    @staticmethod
    def _check(tiled: TiledMap) -> None:
        for breach in breaches(tiled):
            raise TkcError.at("TK207", f"tensor map: {breach}")

    def at(self, address: int) -> TiledMap:
        """The map with the address of its memory; TK207 where that is not aligned."""
        placed = replace(self.tiled, address=address + self.offset)
        self._check(placed)
        return placed
