"""Accesses of buffers that lie in one place: several tiles of a program, or one that several pipes carry."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import SSAValue

from tkc.ir.isa.memory import Space
from tkc.ir.stage import ops as s


def placed(buffer: SSAValue, space: Space, part: Hashable) -> tuple[Hashable, int, Hashable]:
    """The place of a buffer where others lie there, too, what names its slots, and the part of it that is touched."""
    declared = buffer.owner
    if not isinstance(declared, s.BufferOp) or declared.pipes is None:
        return None, 0, part
    if space is not Space.TENSOR and part is not None:
        part = (buffer, part)  # elsewhere in another tile; lanes of tensor memory are the same
    return s.storage(buffer), buffer.type.depth.data, part  # pyright: ignore
