"""Steps that compute each lane's result from its operands alone, from a function on vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tkc.emulator.follow import partwise
from tkc.emulator.instruction import Instruction, Step
from tkc.emulator.lanes import Vec

DType = np.dtype[Any]

_PART_BYTES = {
    **dict.fromkeys((".f16x2", ".bf16x2", ".u16x2", ".s16x2"), 2),
    ".f32x2": 4,
    **dict.fromkeys((".u8x4", ".s8x4"), 1),
}
"""Bytes of a part of each packed type: a part of the result comes from the same part of the operands."""


def _follow_parts(i: Instruction, d: int) -> None:
    size = _PART_BYTES.get(i.modifiers.get("type", ""))
    if size is not None and "from" not in i.modifiers:
        i.follow = partwise(i.sources, d, size)


def unary(i: Instruction, fn: Callable[[Vec], Vec], dtype: DType, out: DType | None = None) -> Step:
    """d = fn(a) on vectors of `dtype`."""
    d = i.dst("d", 8 * (out or dtype).itemsize)
    a = i.src("a", dtype)
    _follow_parts(i, d)

    def run(w: Any) -> None:
        x = w.R[a]
        if x.dtype is not dtype:
            x = x.view(dtype)
        if w.full:
            w.R[d] = fn(x)
        else:
            w.put(d, fn(x))

    return run


def binary(
    i: Instruction,
    fn: Callable[[Vec, Vec], Vec],
    dtype: DType,
    out: DType | None = None,
    b_dtype: DType | None = None,
) -> Step:
    """d = fn(a, b) on vectors of `dtype`."""
    d = i.dst("d", 8 * (out or dtype).itemsize)
    a = i.src("a", dtype)
    b_type = b_dtype or dtype
    b = i.src("b", b_type)
    _follow_parts(i, d)

    def run(w: Any) -> None:
        R = w.R
        x = R[a]
        y = R[b]
        if x.dtype is not dtype:
            x = x.view(dtype)
        if y.dtype is not b_type:
            y = y.view(b_type)
        if w.full:
            R[d] = fn(x, y)
        else:
            w.put(d, fn(x, y))

    return run


def ternary(
    i: Instruction,
    fn: Callable[[Vec, Vec, Vec], Vec],
    dtype: DType,
    out: DType | None = None,
    names: tuple[str, str, str] = ("a", "b", "c"),
    c_dtype: DType | None = None,
) -> Step:
    """d = fn(a, b, c) on vectors of `dtype`."""
    d = i.dst("d", 8 * (out or dtype).itemsize)
    a, b = i.src(names[0], dtype), i.src(names[1], dtype)
    c_type = c_dtype or dtype
    c = i.src(names[2], c_type)
    _follow_parts(i, d)

    def run(w: Any) -> None:
        R = w.R
        x = R[a]
        y = R[b]
        z = R[c]
        if x.dtype is not dtype:
            x = x.view(dtype)
        if y.dtype is not dtype:
            y = y.view(dtype)
        if z.dtype is not c_type:
            z = z.view(c_type)
        if w.full:
            R[d] = fn(x, y, z)
        else:
            w.put(d, fn(x, y, z))

    return run


def halves(x: Vec, dtype: DType) -> Vec:
    """A packed vector as the parts of each lane, one after the other."""
    return (x if x.flags.c_contiguous else np.ascontiguousarray(x)).view(dtype)
