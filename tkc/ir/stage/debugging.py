"""What helps to find a mistake: printing, and conditions that must hold as the kernel runs."""

from __future__ import annotations

import re
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, f32, i1, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import operand_def, prop_def, traits_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.system import MOST_ARGUMENTS as MOST_ARGUMENTS
from tkc.ir.isa.system import escaped as escaped
from tkc.ir.stage.numbers import ui32
from tkc.ir.stage.structure import By, StageOp

CONVERSIONS: dict[str, Attribute] = {"d": i32, "u": ui32, "lld": i64, "g": f32}
"""What each conversion of a format prints."""

_CONVERSION = re.compile(r"%(lld|.)")


@irdl_op_definition
class PrintOp(StageOp):
    """Prints values in a format of C; `by` one thread of the role, or each that comes where no election can be."""

    name = "stage.print"
    BY: ClassVar[By | None] = By.ONE
    EACH: ClassVar[bool] = True
    ALONE: ClassVar[bool] = True
    values = var_operand_def()
    format = prop_def(StringAttr)
    traits = traits_def(Effects())

    def verify_(self) -> None:
        found = [c for c in _CONVERSION.findall(self.format.data) if c != "%"]
        if [CONVERSIONS.get(c) for c in found] != [v.type for v in self.values]:
            types = ", ".join(str(v.type) for v in self.values)
            raise VerifyException(f"the format {self.format.data!r} does not fit ({types})")
        if len(found) > MOST_ARGUMENTS:
            raise VerifyException(f"{len(found)} values; at most {MOST_ARGUMENTS} are printed")


@irdl_op_definition
class AssertOp(StageOp):
    """A thread for which the condition does not hold says what was `told`, and stops the launch."""

    name = "stage.assert"
    BY: ClassVar[By | None] = By.ALL
    EACH: ClassVar[bool] = True
    condition = operand_def(i1)
    told = prop_def(StringAttr)
    by = prop_def(StringAttr)
    traits = traits_def(Effects())


DEBUGGING = (PrintOp, AssertOp)
