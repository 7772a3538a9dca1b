"""Accesses of buffers that lie in one place: several tiles of a program, or one that several pipes carry."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from tkc.analysis.happens_before.events import Access
from tkc.ir.isa.memory import Space
from tkc.ir.stage import ops as s


def placed(access: Access) -> Access:
    """The access with the place of its buffer, where others lie there, too."""
    buffer = access.buffer
    declared = buffer.owner if isinstance(buffer, SSAValue) else None
    if not isinstance(declared, s.BufferOp) or declared.pipes is None:
        return access
    part = access.part
    if access.space is not Space.TENSOR and part is not None:
        part = (buffer, part)  # elsewhere in another tile; lanes of tensor memory are the same
    ring = buffer.type.depth.data  # pyright: ignore
    return replace(access, storage=s.storage(buffer), ring=ring, part=part)
