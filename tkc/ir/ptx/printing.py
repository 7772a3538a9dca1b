"""Formatted output: one operation that the text spells as a call of `vprintf`, with its arguments in local memory."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import prop_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.isa.system import MOST_ARGUMENTS
from tkc.ir.ptx.registers import RegisterType, type_of
from tkc.ir.syntax import Operation

CONVERSIONS = {
    "d": "b32",
    "u": "b32",
    "x": "b32",
    "lld": "b64",
    "llu": "b64",
    "llx": "b64",
    "g": "f64",
}
"""What each conversion of a format takes; C widens f32 to f64 in such calls."""

_CONVERSION = re.compile(r"%(%|[a-z]*)")


@irdl_op_definition
class PrintOp(Operation):
    """`ptx.print %x, %y {format = "x = %d, y = %g\\n"}`: every thread that comes here prints a line of its own."""

    name = "ptx.print"
    format = prop_def(StringAttr)
    arguments = var_operand_def(RegisterType)

    def verify_(self) -> None:
        found = [m for m in _CONVERSION.findall(self.format.data) if m != "%"]
        unknown = [m for m in found if m not in CONVERSIONS]
        if unknown:
            raise VerifyException(f"no conversion %{unknown[0]}; one of {', '.join(CONVERSIONS)}")
        wanted = [CONVERSIONS[m] for m in found]
        kinds = [
            str(type_of(a).unnamed()) if type_of(a).count else type_of(a).kind
            for a in self.arguments
        ]
        if wanted != kinds:
            raise VerifyException(f"the format takes {wanted}, the arguments are {kinds}")
        if len(kinds) > MOST_ARGUMENTS:
            raise VerifyException(f"{len(kinds)} arguments; a call prints at most {MOST_ARGUMENTS}")
