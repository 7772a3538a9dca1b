"""Integers and conditions that are known only as a kernel runs: register scalars, identities, comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.frontend.explicit_program import I1, I32, Number
from tkc.frontend.meanings import Failed, describe
from tkc.frontend.scope import Block, Int
from tkc.frontend.sizes import NoValue, combine
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.values import Values

SIGNS = {
    "+": "add", "-": "sub", "*": "mul", "//": "div", "%": "mod", "^": "xor", "&": "and", "<<": "shl", ">>": "shr",
}  # fmt: skip
"""`//` and `%` are of non-negative integers, as `stage.arith` says."""

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
JOINS = ("and", "or")
F32 = P.Scalar("f32")

VALUES = (P.Given, P.Variable, P.Apply, X.Number, X.Identity, X.BlockNumber)


def of_type(x: Any, type: P.Scalar) -> bool:
    return isinstance(x, VALUES) and x.type == type


def is_integer(x: Any) -> bool:
    """An integer, whether known before the kernel runs or not."""
    return isinstance(x, Int) or of_type(x, I32)


def as_integer(values: Values, x: Any, span: Span, what: str = "an integer") -> P.Value:
    """The register value of an integer."""
    if isinstance(x, Int):
        return Number(x.size, span)
    if of_type(x, I32):
        return x
    _fail(values, x, span, what)


def as_condition(values: Values, x: Any, span: Span) -> P.Value:
    """A condition."""
    if of_type(x, I1):
        return x
    _fail(values, x, span, "a condition, such as `i < n`")


def _fail(values: Values, x: Any, span: Span, wanted: str) -> NoReturn:
    values.scope.error("TK106", f"expected {wanted}, not {describe(x)}", span)
    raise Failed


def operate(
    values: Values, sign: str, left: Any, at_left: Span, right: Any, at_right: Span, span: Span
) -> P.Value | Int | None:
    """`left sign right` where it is of integers, one of which only the kernel knows; None where it is not."""
    bits = sign in ("^", "&", "<<", ">>")
    if not (bits or of_type(left, I32) or of_type(right, I32)):
        return None
    a, b = (
        as_integer(values, x, at, f"integers beside `{sign}`")
        for x, at in ((left, at_left), (right, at_right))
    )
    if sign not in SIGNS:
        _fail(values, left, span, f"an operator of integers, not `{sign}`")
    return P.Apply(SIGNS[sign], (a, b), I32, span)


def compare(values: Values, e: S.Binary) -> P.Value:
    """`i < n`, `p and q`."""
    left, right = values.both(e.left, e.right)
    if e.operator in JOINS:
        sides = (
            as_condition(values, left, e.left.span),
            as_condition(values, right, e.right.span),
        )
        return P.Apply(e.operator, sides, I1, e.span)
    kind = COMPARISONS[e.operator]
    if is_integer(left) or is_integer(right):
        both = (as_integer(values, left, e.left.span), as_integer(values, right, e.right.span))
    else:
        both = (values.as_value(left, e.left.span), values.as_value(right, e.right.span))
        if any(x.type != F32 for x in both):
            values.scope.later("a comparison of register tiles", e.span)
            raise Failed from None
    return P.Apply(kind, both, I1, e.span)


def negate(values: Values, e: S.Unary) -> P.Value:
    """`not p`."""
    x = as_condition(values, values.evaluate(e.operand), e.operand.span)
    one = P.Apply("eq", (Number(0, e.span), Number(0, e.span)), I1, e.span)
    return P.Apply("xor", (x, one), I1, e.span)


def choose(values: Values, e: S.Choice) -> P.Value | None:
    """`x if p else y` of scalars, or of columns read from an accumulator and 0; None where it is of something else."""
    condition = as_condition(values, values.evaluate(e.condition), e.condition.span)
    then, otherwise = values.both(e.then, e.otherwise)
    if isinstance(then, X.ReadPlace) and isinstance(otherwise, Int) and otherwise.size == 0:
        return then._replace(nonzero=condition)
    if is_integer(then) and is_integer(otherwise):
        a, b = (
            as_integer(values, x, s.span) for x, s in ((then, e.then), (otherwise, e.otherwise))
        )
        return P.Apply("select", (condition, a, b), I32, e.span)
    a, b = (values.as_value(x, s.span) for x, s in ((then, e.then), (otherwise, e.otherwise)))
    if a.type == b.type == F32:
        return P.Apply("select", (condition, a, b), F32, e.span)
    return None


def of_block(values: Values, block: Block, name: str, span: Span) -> P.Value | None:
    """`k.index`, `k.first`, `k.last`; None where a block has no such part."""
    number = X.BlockNumber(block.name, span)
    if name == "index":
        return number
    if name == "first":
        return P.Apply("eq", (number, Number(0, span)), I1, span)
    if name == "last":
        try:
            last = combine("sub", combine("cdiv", block.axis.extent, block.axis.size), 1)
        except NoValue as e:
            values.scope.error("TK117", str(e), span)
            raise Failed from None
        return P.Apply("eq", (number, Number(last, span)), I1, span)
    return None
