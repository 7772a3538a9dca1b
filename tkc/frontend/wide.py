"""Numbers of u32 and i64, which the kernel alone knows: what is made of them. No index is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tkc.frontend.explicit_program as X
import tkc.frontend.integers as N
import tkc.frontend.program as P
from tkc.frontend.casts import converted
from tkc.frontend.describe import describe
from tkc.frontend.explicit_program import I32, INTEGERS, WIDE, Number
from tkc.frontend.program import Scalar
from tkc.frontend.scope import Index, Int
from tkc.frontend.sizes import show
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.values import Values

CONVERSIONS = {f"to_{type.dtype}" for type in INTEGERS}
F32 = Scalar("f32")


def is_wide(x: Any) -> bool:
    return isinstance(x, N.VALUES) and x.type in WIDE


def among(left: Any, right: Any) -> Scalar | None:
    """The type that an operation of both is of, where one is u32 or i64 and the other an integer, too."""
    sides = [x for x in (left, right) if is_wide(x)]
    integers = all(is_wide(x) or N.is_integer(x) for x in (left, right))
    return sides[0].type if sides and integers else None


def as_type(values: Values, x: Any, type: Scalar, span: Span) -> P.Value:
    """An integer beside numbers of a type: i32 is i64 exactly; between the others the program says what it means."""
    if isinstance(x, Int):
        if type.dtype == "u32" and isinstance(x.size, int) and x.size < 0:
            values.fail("TK117", f"{show(x.size)} is no u32, which has no negative numbers", span)
        return P.Apply(f"to_{type.dtype}", (Number(x.size, span),), type, span)
    if getattr(x, "type", None) == type:
        return x
    if type.dtype == "i64" and N.is_integer(x):
        return P.Apply("to_i64", (N.as_integer(values, x, span),), type, span)
    if is_wide(x) or N.is_integer(x):
        told = f"expected {type.dtype}, not {describe(x)}: `{type.dtype}(...)` makes it one"
        values.fail("TK105", told, span)
    values.fail("TK106", f"expected an integer of {type.dtype}, not {describe(x)}", span)


def operate(
    values: Values, sign: str, left: Any, at_left: Span, right: Any, at_right: Span, span: Span
) -> P.Value | None:
    """`left sign right`; None where it is of something else."""
    if sign in ("<<", ">>") and is_wide(left):
        amount = N.as_integer(values, right, at_right, "how far it is shifted, an integer")
        return P.Apply(N.SIGNS[sign], (left, amount), left.type, span)
    type = among(left, right)
    if type is None:
        return None
    if sign not in N.SIGNS:
        told = f"expected an operator of integers, not `{sign}`: `f32(...)` makes an f32 number"
        values.fail("TK106", told, span)
    if sign in ("//", "%") and isinstance(right, Int) and right.size == 0:
        values.fail("TK117", "an integer of the kernel is divided by 0", at_right)
    operands = (as_type(values, left, type, at_left), as_type(values, right, type, at_right))
    return P.Apply(N.SIGNS[sign], operands, type, span)


def negative(values: Values, x: P.Value, span: Span) -> P.Value:
    """`-x`."""
    if x.type.dtype == "u32":
        values.fail("TK105", "u32 has no negative numbers: `i32(...)` and `i64(...)` have", span)
    return P.Apply("sub", (as_type(values, Int(0, span), x.type, span), x), x.type, span)


def of_two(values: Values, kind: str, sides: tuple[Any, Any], span: Span) -> P.Value | None:
    """`min(a, b)`, `max(a, b)` of integers that the kernel knows, `cdiv(a, b)` of those of 32 bits; None of others."""
    type = among(*sides)
    if type is not None and kind == "cdiv":
        return None
    if type is None and all(N.is_integer(x) for x in sides):
        type = I32
    if type is None:
        return None
    made = [
        N.as_integer(values, x, span) if type == I32 else as_type(values, x, type, span)
        for x in sides
    ]
    return P.Apply(kind, tuple(made), type, span)


def convert(values: Values, dtype: str, x: Any, span: Span) -> Any:
    """`i32(x)`, `u32(x)`, `i64(x)`: the nearest that the type has, of an f32 number by rounding to nearest even."""
    type = Scalar(dtype)
    if isinstance(x, Int | Index) or (isinstance(x, N.VALUES) and x.type == I32):
        if type == I32:
            return x
        if isinstance(x, Int) and dtype == "i64":
            return as_type(values, x, type, span)
        return P.Apply(f"to_{dtype}", (N.as_integer(values, x, span),), type, span)
    value = values.as_value(x, span)
    if value.type == type:
        return value
    if not isinstance(value.type, Scalar):
        return converted(values, dtype, value, span)
    if value.type == X.I1:
        values.later(f"{describe(value)} in {dtype}: numbers are, such as elements", span)
    return P.Apply(f"to_{dtype}", (value,), type, span)
