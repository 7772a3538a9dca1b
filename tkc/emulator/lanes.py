"""The 32 lanes of a warp as NumPy vectors: dtypes, masks and predicates as integers, constants.

A register holds one vector of 32 values, of any dtype of its width: who reads it views the bits as it likes, who
writes it makes a new vector, so that vectors may be shared. A predicate register and an active mask are plain integers,
bit i for lane i: they are tested and joined far faster than vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Vec = np.ndarray[Any, np.dtype[Any]]

LANES = 32
FULL = 0xFFFFFFFF

U8, U16, U32, U64 = (np.dtype(f"uint{b}") for b in (8, 16, 32, 64))
S8, S16, S32, S64 = (np.dtype(f"int{b}") for b in (8, 16, 32, 64))
F16, F32, F64 = (np.dtype(f"float{b}") for b in (16, 32, 64))

UNSIGNED = {8: U8, 16: U16, 32: U32, 64: U64}
SIGNED = {8: S8, 16: S16, 32: S32, 64: S64}

DTYPE = {
    **{f"{k}{b}": UNSIGNED[b] for b in (8, 16, 32, 64) for k in "bu"},
    **{f"s{b}": SIGNED[b] for b in (8, 16, 32, 64)},
    "f16": F16,
    "bf16": U16,
    "f32": F32,
    "f64": F64,
    "f16x2": U32,
    "bf16x2": U32,
    "u16x2": U32,
    "s16x2": U32,
    "u8x4": U32,
    "s8x4": U32,
    "f32x2": U64,
    "tf32": F32,
}
"""The dtype in which a value of each PTX type is computed with; bf16 and packed types are raw bits."""


class _Bools(dict[int, Vec]):
    """Mask to a vector of booleans, made once."""

    def __missing__(self, mask: int) -> Vec:
        if len(self) > 20000:
            self.clear()
        bits = np.unpackbits(np.frombuffer(mask.to_bytes(4, "little"), np.uint8), bitorder="little")
        made = bits.view(np.bool_)
        made.flags.writeable = False
        self[mask] = made
        return made


class _Selections(dict[int, Vec]):
    """Mask to the numbers of its lanes, made once."""

    def __missing__(self, mask: int) -> Vec:
        if len(self) > 20000:
            self.clear()
        made = np.flatnonzero(BOOLS[mask])
        made.flags.writeable = False
        self[mask] = made
        return made


class _Masks(dict[bytes, int]):
    """The bytes of a vector of booleans to its mask, made once."""

    def __missing__(self, raw: bytes) -> int:
        if len(self) > 20000:
            self.clear()
        bits = np.packbits(np.frombuffer(raw, np.bool_), bitorder="little")
        made = int.from_bytes(bits.tobytes(), "little")
        self[raw] = made
        return made


BOOLS = _Bools()
SELECT = _Selections()
_MASKS = _Masks()

LANE = np.arange(LANES, dtype=U32)
LANE.flags.writeable = False


def mask_of(condition: Vec) -> int:
    """The mask of a vector of 32 booleans."""
    return _MASKS[condition.tobytes()]


def lowest(mask: int) -> int:
    """The number of the lowest lane of a mask that is not 0."""
    return (mask & -mask).bit_length() - 1


def constant(value: int | float, dtype: np.dtype[Any]) -> Vec:
    """A vector of one value; integers wrap."""
    if dtype.kind in "ui" and isinstance(value, int):
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        made = np.full(LANES, value, UNSIGNED[bits]).view(dtype)
    else:
        made = np.full(LANES, value, dtype)
    made.flags.writeable = False
    return made


def view(x: Vec, dtype: np.dtype[Any]) -> Vec:
    """The same bits as `dtype`."""
    return x if x.dtype is dtype else x.view(dtype)
