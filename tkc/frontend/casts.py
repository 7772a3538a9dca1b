"""What dtype a register value is converted to and from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tkc.frontend.program as P
from tkc.frontend.program import Cast, Regs, Scalar
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.values import Values

INTEGERS = ("i32", "u32", "i64")
CASTS = ("f32", "bf16", "f16", "e4m3", "e5m2", "s8", "u8", *INTEGERS)


def converted(values: Values, dtype: str, x: P.Value, span: Span) -> P.Value:
    """`bf16(x)`: a register value in another dtype, by way of f32 but between integers of 32 and 64 bits; reports TK110
    where there is no way."""
    of = x.type
    if isinstance(x, P.Transpose):
        inner = converted(values, dtype, x.operand, span)
        return P.Transpose(inner, Regs(inner.type.dtype, of.shape), span)
    if isinstance(of, Scalar):
        if dtype == "f32":
            return x if of.dtype == "f32" else P.Apply("to_f32", (x,), Scalar("f32"), span)
        values.later(
            f"a number in {dtype}: it is f32, and what stores it as an element of {dtype} rounds it",
            span,
        )
    if dtype not in CASTS or of.dtype not in CASTS:
        values.later(f"register tiles of {of.dtype if dtype in CASTS else dtype}", span)
    if of.dtype == dtype:
        return x
    exact = dtype in INTEGERS and of.dtype in INTEGERS
    if "f32" not in (dtype, of.dtype) and not exact:
        x = Cast(x, Regs("f32", of.shape), span)
    return Cast(x, Regs(dtype, of.shape), span)
