"""Record the target on the module, first, since every later pass reads it there.

Before: any module. After: `tkc.target` names a row of `isa.targets`.
Here because: no pass takes a chip as an option and there is no global one, so the module has to carry it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from tkc.diagnostics import TkcError
from tkc.ir.isa.targets import TARGETS, nearest
from tkc.ir.target import TARGET


@dataclass(frozen=True)
class SetTargetPass(ModulePass):
    """`set-target{arch=NAME}`, NAME a row of `TARGETS`."""

    name = "set-target"
    arch: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.arch not in TARGETS:
            raise TkcError.at(
                "TK201",
                f"no target {self.arch!r}",
                help=f"--target {nearest(self.arch)[0]} (known: {', '.join(TARGETS)})",
            )
        op.attributes[TARGET] = StringAttr(self.arch)
