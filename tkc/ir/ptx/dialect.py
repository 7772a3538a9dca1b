"""The PTX dialect as the parser wants it: every operation, one for each row among them."""

from __future__ import annotations

from xdsl.ir import Dialect

from tkc.ir.ptx.control import ForOp, IfOp, ProceedOp, RepeatOp, UntilOp, WhileOp, YieldOp
from tkc.ir.ptx.families import row_names
from tkc.ir.ptx.instruction import instruction
from tkc.ir.ptx.kernel import KernelOp, ParamAddressOp, ParamOp, SharedBaseOp, SpecialOp
from tkc.ir.ptx.printing import PrintOp
from tkc.ir.ptx.registers import RegisterType
from tkc.ir.ptx.values import ImmOp, JoinOp, SliceOp, UndefOp

PTX = Dialect(
    "ptx",
    [
        *(KernelOp, ParamOp, ParamAddressOp, SharedBaseOp, SpecialOp, PrintOp),
        *(ImmOp, SliceOp, JoinOp, UndefOp),
        *(ForOp, IfOp, RepeatOp, WhileOp, YieldOp, UntilOp, ProceedOp),
        *(instruction(name) for name in row_names()),
    ],
    [RegisterType],
)
