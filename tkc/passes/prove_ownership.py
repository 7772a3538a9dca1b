"""Refuse a program of which two blocks may own a slot at once, where pipes share a tile or its place.

Before: barriers, waits and fences are explicit, all fences are there.
After: the same; what the blocks of pipes do to a place that they share is in order, whatever the trip counts.
Here because: the proof needs the barriers and every fence; a program that has none is not to be taken further.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tkc.diagnostics import TkcError
from tkc.ir.stage import ops as s


@dataclass(frozen=True)
class ProveOwnershipPass(ModulePass):
    """`prove-ownership`."""

    name = "prove-ownership"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            if not any(
                isinstance(b, s.BufferOp) and b.pipes is not None for b in kernel.body.block.ops
            ):
                continue
            from tkc.analysis.order import rendered
            from tkc.analysis.ownership import is_shared, owned_twice

            if is_shared(kernel) and (found := rendered(owned_twice(kernel))):
                raise TkcError(tuple(dict.fromkeys(diagnostic for diagnostic, _ in found)))
