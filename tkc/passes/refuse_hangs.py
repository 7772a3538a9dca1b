"""Refuse a program whose pipes let its roles wait for one another for ever, on sizes that say so.

Before: barriers, waits and phases are explicit.
After: the same; a run on small numbers ends, unless barriers that the program wrote itself stop it.
Here because: what waits for what is settled once `lower-pipes` has made the barriers, and whatever `tkc check` says of
the program's order is found before.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tkc.diagnostics import TkcError
from tkc.ir.stage import ops as s


@dataclass(frozen=True)
class RefuseHangsPass(ModulePass):
    """`refuse-hangs`."""

    name = "refuse-hangs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            if not any(isinstance(b, s.BarriersOp) for b in kernel.body.block.ops):
                continue
            from tkc.analysis.hangs import finding, hang_of, of_pipes

            hang = hang_of(kernel)
            if hang is not None and of_pipes(hang):
                from tkc.analysis.order import rendered

                raise TkcError(tuple(diagnostic for diagnostic, _ in rendered([finding(hang)])))
