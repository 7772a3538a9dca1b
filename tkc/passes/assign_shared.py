"""Give every shared buffer and barrier its bytes, once all of them exist.

Before: buffers and barriers without an offset.
After: each has an offset from the start of dynamic shared memory, aligned to its swizzle's period; the kernel has
its total.
Here because: staging buffers and barriers are made by the passes before; those after it look at every slot of a ring,
and need not where a ring cannot fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.passes import ModulePass

from tkc.analysis.shared_memory import check, shared_buffers, strides
from tkc.ir.stage import ops as s
from tkc.ir.target import target_of


@dataclass(frozen=True)
class AssignSharedPass(ModulePass):
    """`assign-shared`."""

    name = "assign-shared"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        limit = target_of(op).shared_per_cta
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            buffers = shared_buffers(kernel.body.block.ops)
            barriers = [o for o in kernel.body.block.ops if isinstance(o, s.BarriersOp)]
            offsets, total = check(kernel, buffers, barriers, limit)
            for placed, offset in zip([*buffers, *barriers], offsets, strict=True):
                placed.properties["offset"] = IntegerAttr(offset, i32)
            for buffer, stride in strides(buffers).items():
                buffer.properties["stride"] = IntegerAttr(stride, i32)
            kernel.properties["shared_bytes"] = IntegerAttr(total, i32)
