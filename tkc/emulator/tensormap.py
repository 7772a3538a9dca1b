"""Tensor maps: what cuTensorMapEncodeTiled takes and refuses, and the 128 bytes that a kernel gets.

The layout of the 128 bytes is our own (the real one is not published); kernels see it only through `tensormap.replace`,
copies, and the copies that name a map.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import SWIZZLES

MAGIC = 0x746B634D
"""First word of a map that this file wrote."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """One CU_TENSOR_MAP_DATA_TYPE: its driver number, the number of tensormap.replace, bits, and whether floats."""

    name: str
    driver: int
    code: int
    bits: int
    floating: bool
    integer: str = ""


ELEMENT_TYPES = {
    t.name: t
    for t in (
        ElementType("UINT8", 0, 0, 8, False, "u"),
        ElementType("UINT16", 1, 1, 16, False, "u"),
        ElementType("UINT32", 2, 2, 32, False, "u"),
        ElementType("INT32", 3, 3, 32, False, "s"),
        ElementType("UINT64", 4, 4, 64, False, "u"),
        ElementType("INT64", 5, 5, 64, False, "s"),
        ElementType("FLOAT16", 6, 6, 16, True),
        ElementType("FLOAT32", 7, 7, 32, True),
        ElementType("FLOAT64", 8, 9, 64, True),
        ElementType("BFLOAT16", 9, 10, 16, True),
        ElementType("FLOAT32_FTZ", 10, 8, 32, True),
        ElementType("TFLOAT32", 11, 11, 32, True),
        ElementType("TFLOAT32_FTZ", 12, 12, 32, True),
        ElementType("16U4_ALIGN8B", 13, 13, 4, False),
        ElementType("16U4_ALIGN16B", 14, 14, 4, False),
        ElementType("16U6_ALIGN16B", 15, 15, 6, False),
    )
}
_BY_DRIVER = {t.driver: t for t in ELEMENT_TYPES.values()}
_BY_CODE = {t.code: t for t in ELEMENT_TYPES.values()}

INTERLEAVES = ("none", "16B", "32B")
PROMOTIONS = ("none", "64B", "128B", "256B")
FILLS = ("zero", "nan")
_SWIZZLE_NUMBERS = {name: k for k, name in enumerate(SWIZZLES)}
_SWIZZLE_NAMES = list(SWIZZLES)

_NUMPY_NAMES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
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
    "u16": "UINT16",
    "s16": "UINT16",
    "uint16": "UINT16",
    "int16": "UINT16",
    "u64": "UINT64",
    "uint64": "UINT64",
    "f64": "FLOAT64",
    "s32": "INT32",
}


@dataclass(frozen=True)
class Map:
    """A decoded tensor map: sizes and box count elements, innermost first; strides are bytes of axes 1 and up."""

    element: ElementType
    base: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: str = "none"
    swizzle: str = "none"
    l2_promotion: str = "none"
    fill: str = "zero"

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def encode(self) -> bytes:
        """The 128 bytes that a kernel gets."""
        five = lambda v: (*v, *([0] * (5 - len(v))))  # noqa: E731
        head = struct.pack(
            "<IBBBBBB",
            MAGIC,
            self.element.driver,
            self.rank,
            _SWIZZLE_NUMBERS[self.swizzle],
            INTERLEAVES.index(self.interleave),
            FILLS.index(self.fill),
            PROMOTIONS.index(self.l2_promotion),
        )
        body = struct.pack(
            "<Q5Q4Q5H5B",
            self.base,
            *five(self.sizes),
            *(*self.strides, *([0] * (4 - len(self.strides)))),
            *five(self.box),
            *five(self.element_strides),
        )
        raw = head.ljust(16, b"\0") + body
        return raw + bytes(128 - len(raw))


def decode(raw: bytes) -> Map:
    """The map that 128 bytes hold; raises ValueError where they are none."""
    magic, element, rank, swizzle, interleave, fill, promotion = struct.unpack_from("<IBBBBBB", raw)
    if magic != MAGIC:
        raise ValueError("the 128 bytes hold no tensor map")
    values = struct.unpack_from("<Q5Q4Q5H5B", raw, 16)
    base, sizes, strides = values[0], values[1:6], values[6:10]
    box, steps = values[10:15], values[15:20]
    if not 1 <= rank <= 5 or element not in _BY_DRIVER:
        raise ValueError("the tensor map has an impossible rank or element type")
    return Map(
        _BY_DRIVER[element],
        base,
        sizes[:rank],
        strides[: rank - 1],
        box[:rank],
        steps[:rank],
        INTERLEAVES[interleave],
        _SWIZZLE_NAMES[swizzle],
        PROMOTIONS[promotion],
        FILLS[fill],
    )


def element_type(dtype: Any) -> ElementType:
    """The element type for a name of ours, a driver's name, or a NumPy dtype."""
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    name = name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_")
    if name in ELEMENT_TYPES:
        return ELEMENT_TYPES[name]
    ours = _NUMPY_NAMES.get(name, name)
    if ours in DTYPES:
        return ELEMENT_TYPES[DTYPES[ours].tensor_map]
    if ours in _MORE_TYPES:
        return ELEMENT_TYPES[_MORE_TYPES[ours]]
    raise TkcError.at("TK501", f"no tensor map holds elements of {name}")


def _refuse(message: str) -> TkcError:
    return TkcError.at("TK207", f"tensor map: {message}")


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
        self.array = base
        self.offset = offset
        rank = len(sizes)
        steps = (
            tuple(int(s) for s in element_strides) if element_strides is not None else (1,) * rank
        )
        self.map = Map(
            element_type(dtype),
            0,
            tuple(int(s) for s in sizes),
            tuple(int(s) for s in strides),
            tuple(int(b) for b in box),
            steps,
            interleave,
            swizzle,
            l2_promotion,
            fill,
        )
        check(self.map)

    def at(self, address: int) -> Map:
        """The map with the address of its memory; TK406 where that is not aligned."""
        base = address + self.offset
        need = 32 if self.map.interleave == "32B" or self.map.element.name in _PADDED else 16
        if base % need:
            raise TkcError.at("TK406", f"tensor map: address {base:#x} is no multiple of {need}")
        return replace(self.map, base=base)


_PADDED = ("16U4_ALIGN16B", "16U6_ALIGN16B")


def check(m: Map) -> None:
    """Raises TkcError TK207 for what cuTensorMapEncodeTiled refuses."""
    rank = m.rank
    for name, value, known in (
        ("interleave", m.interleave, INTERLEAVES),
        ("l2_promotion", m.l2_promotion, PROMOTIONS),
        ("fill", m.fill, FILLS),
        ("swizzle", m.swizzle, tuple(n for n, s in SWIZZLES.items() if s.driver is not None)),
    ):
        if value not in known:
            raise _refuse(f"no {name} {value}: one of {', '.join(known)}")
    if not 1 <= rank <= 5:
        raise _refuse(f"rank {rank}, expected 1..5")
    if m.interleave != "none" and rank < 3:
        raise _refuse(f"rank {rank} with interleave {m.interleave}, expected 3..5")
    if len(m.strides) != rank - 1 or len(m.box) != rank or len(m.element_strides) != rank:
        raise _refuse(
            f"{len(m.strides)} strides, {len(m.box)} box sizes and {len(m.element_strides)} element strides"
            f" for rank {rank}"
        )
    for axis, size in enumerate(m.sizes):
        if not 1 <= size <= 1 << 32:
            raise _refuse(f"size {size} of axis {axis}, expected 1..2^32")
    padded = m.element.name in _PADDED
    unit = 32 if m.interleave == "32B" or padded else 16
    for axis, stride in enumerate(m.strides, 1):
        if stride % unit or not 0 <= stride < 1 << 40:
            raise _refuse(
                f"stride {stride} of axis {axis}, expected a multiple of {unit} below 2^40"
            )
    for axis, size in enumerate(m.box):
        if not 1 <= size <= 256:
            raise _refuse(f"box size {size} of axis {axis}, expected 1..256")
    for axis, step in enumerate(m.element_strides):
        if not 1 <= step <= 8:
            raise _refuse(f"element stride {step} of axis {axis}, expected 1..8")
    _check_inner(m, padded)


def _check_inner(m: Map, padded: bool) -> None:
    inner = m.box[0] * m.element.bits // 8
    if padded:
        if m.box[0] != 128 or m.sizes[0] % 128:
            raise _refuse(
                f"box {m.box[0]} and size {m.sizes[0]} of the inner axis of {m.element.name},"
                " expected 128 and a multiple of 128"
            )
        inner = 128
        if m.swizzle not in ("none", "128B", "128B_atom_32B", "128B_atom_64B"):
            raise _refuse(f"swizzle {m.swizzle} with {m.element.name}, expected none or 128B")
    if m.interleave == "none" and inner % 16:
        raise _refuse(f"{inner} bytes in a row of the box, expected a multiple of 16")
    if m.interleave == "32B" and m.swizzle != "32B":
        raise _refuse(f"swizzle {m.swizzle} with interleave 32B, expected 32B")
    swizzle = SWIZZLES[m.swizzle]
    if m.swizzle != "none" and m.interleave == "none" and inner > swizzle.span:
        raise _refuse(
            f"{inner} bytes in a row of the box, expected at most {swizzle.span} with swizzle {m.swizzle}"
        )
    if m.fill == "nan" and not m.element.floating:
        raise _refuse(f"fill nan with {m.element.name}, which is no float type")
