"""Give every shared buffer and barrier its bytes, once all of them exist.

Before: buffers and barriers without an offset.
After: each has an offset from the start of dynamic shared memory, aligned to its swizzle's period; the kernel has
its total.
Here because: staging buffers and barriers are made by the passes before; lowering turns offsets into addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.passes import ModulePass

from tkc.diagnostics import Note, TkcError
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import BufferType, Home
from tkc.ir.target import target_of

BARRIER_BYTES = 8
"""An mbarrier object (PTX 9.7.15.16: 8 bytes, 8-aligned)."""

TENSOR_ADDRESS_BYTES = 8
"""The word that tcgen05.alloc writes its address to, with padding to keep what follows aligned."""


@dataclass(frozen=True)
class AssignSharedPass(ModulePass):
    """`assign-shared`."""

    name = "assign-shared"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        limit = target_of(op).shared_per_cta
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            total = place(kernel)
            if total > limit:
                raise too_large(kernel, total, limit)
            kernel.properties["shared_bytes"] = IntegerAttr(total, i32)


def _shared(kernel: s.KernelOp) -> list[s.BufferOp]:
    return [
        o
        for o in kernel.body.block.ops
        if isinstance(o, s.BufferOp)
        and isinstance(o.buffer.type, BufferType)
        and o.buffer.type.home.data == Home.SHARED
    ]


def _type(op: s.BufferOp) -> BufferType:
    assert isinstance(op.buffer.type, BufferType)
    return op.buffer.type


def place(kernel: s.KernelOp) -> int:
    """Places widest alignment first, so that no padding stands between buffers; returns the bytes used."""
    at = 0
    buffers = sorted(_shared(kernel), key=lambda b: -SWIZZLES[_type(b).swizzle.data].align)
    for buffer in buffers:
        alignment = SWIZZLES[_type(buffer).swizzle.data].align
        at = -(-at // alignment) * alignment
        buffer.properties["offset"] = IntegerAttr(at, i32)
        slot = -(-_type(buffer).slot_bytes // alignment) * alignment
        at += slot * _type(buffer).depth.data
    at = -(-at // BARRIER_BYTES) * BARRIER_BYTES
    for op in kernel.body.block.ops:
        if isinstance(op, s.BarriersOp):
            op.properties["offset"] = IntegerAttr(at, i32)
            at += BARRIER_BYTES * op.depth.value.data
    return at + TENSOR_ADDRESS_BYTES


def too_large(kernel: s.KernelOp, total: int, limit: int) -> TkcError:
    """What takes how much, and how many slots of the largest ring would fit."""
    buffers = sorted(_shared(kernel), key=lambda b: -_type(b).slot_bytes * _type(b).depth.data)
    largest = buffers[0]
    depth = _type(largest).depth.data
    together = sum(_type(b).slot_bytes for b in buffers if _type(b).depth.data == depth)
    fits = depth - -(-(total - limit) // together)
    notes = [
        Note(
            f"{b.sym_name.data} takes {_type(b).slot_bytes * _type(b).depth.data} bytes "
            f"({_type(b).depth.data} x {_type(b).slot_bytes})",
            location_of(b),
        )
        for b in buffers
    ]
    hint = (
        f"; {fits} slots instead of {depth} would fit"
        if fits >= 1
        else "; smaller tiles are needed"
    )
    return TkcError.at(
        "TK204",
        f"kernel {kernel.sym_name.data} needs {total} bytes of shared memory; the target has {limit}{hint}",
        location_of(largest),
        *notes,
    )
