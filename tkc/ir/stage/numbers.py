"""Numbers that no place and no count is made of: u32 and i64, and conversions between all scalar types.

What analyses follow is `stage.arith`, on i32. Of what is made here they know nothing but that equal inputs give equal
results; so a number of 64 bits, or one that wraps, is never taken for an index.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerType, Signedness, StringAttr, bf16, f16, f32, i1, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.stage.scalar import SCALARS
from tkc.ir.syntax import Operation

ui32 = IntegerType(32, Signedness.UNSIGNED)

TYPES: Mapping[str, Attribute] = {
    "i1": i1, "i32": i32, "u32": ui32, "i64": i64, "f32": f32, "bf16": bf16, "f16": f16,
}  # fmt: skip
"""Scalar types by the language's name."""

WIDE = (ui32, i64)
"""Types of which arithmetic is."""

CONVERT = "convert"

KINDS = (
    "add", "sub", "mul", "div", "mod", "min", "max", "and", "or", "xor", "shl", "shr",
    "eq", "ne", "lt", "le", "gt", "ge", "select", CONVERT,
)  # fmt: skip
"""Rows of the scalar table that a number has, and the conversion. `div` and `mod` round toward zero, `shr` keeps the
sign of an i64; u32 wraps."""


@irdl_op_definition
class NumberOp(Operation):
    """Arithmetic on u32 or i64 (the amount of a shift is i32), or a conversion.

    A conversion to an integer gives the nearest that the type has: of floats by rounding to nearest even, a NaN is 0.
    One to f32 rounds to nearest even; bf16 and f16 are f32 exactly.
    """

    name = "stage.number"
    inputs = var_operand_def()
    kind = prop_def(StringAttr)
    value = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        kind = self.kind.data
        if kind not in KINDS:
            raise VerifyException(f"no kind {kind!r} of numbers; one of {', '.join(KINDS)}")
        types = [v.type for v in self.inputs]
        told = ", ".join(map(str, types))
        if kind == CONVERT:
            known = tuple(TYPES.values())[1:]
            if len(types) != 1 or types[0] not in known or self.value.type not in known[:4]:
                raise VerifyException(f"no conversion of {told} to {self.value.type}")
            return
        arity = SCALARS[kind].arity
        if len(types) != arity:
            raise VerifyException(f"{kind} takes {arity} inputs, not {len(types)}")
        of = types[1 if kind == "select" else 0]
        amount = i32 if kind in ("shl", "shr") else of
        wanted = [i1, of, of] if kind == "select" else [of, amount]
        if of not in WIDE or types != wanted:
            raise VerifyException(f"{kind} is of two ui32 or of two i64, not of {told}")
        gives = i1 if SCALARS[kind].predicate else of
        if self.value.type != gives:
            raise VerifyException(f"{kind} of {of} gives {gives}, not {self.value.type}")


NUMBERS = (NumberOp,)
