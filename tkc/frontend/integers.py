"""Integers and conditions that are known only as a kernel runs: register scalars, identities, comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import tkc.frontend.conditions as C
import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
import tkc.frontend.syntax as S
import tkc.frontend.wide as wide
from tkc.diagnostics import nearest
from tkc.frontend.conditions import Condition, Test
from tkc.frontend.describe import describe
from tkc.frontend.explicit_program import I1, I32, WIDE, Number
from tkc.frontend.scope import Block, Failed, Index, Int
from tkc.frontend.sizes import LIMIT, NoValue, Size, combine, show
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.values import Values

SIGNS = {
    "+": "add", "-": "sub", "*": "mul", "//": "div", "%": "mod", "^": "xor", "&": "and", "<<": "shl", ">>": "shr",
}  # fmt: skip
"""`//` and `%` are of non-negative integers, as `stage.arith` says."""

BITS: dict[str, Callable[[int, int], int]] = {
    "^": operator.xor, "&": operator.and_, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
JOINS = ("and", "or")
F32 = P.Scalar("f32")

VALUES = (
    P.Given, P.Held, P.Variable, P.Apply, X.Number, X.Identity, X.BlockNumber, X.Element, X.Atomic,
    X.Attempt, X.Choose,
)  # fmt: skip


def of_type(x: Any, type: P.Scalar) -> bool:
    return isinstance(x, VALUES) and x.type == type


def is_integer(x: Any) -> bool:
    """An integer, whether known before the kernel runs or not."""
    return isinstance(x, Int | Index) or of_type(x, I32)


def as_integer(values: Values, x: Any, span: Span, what: str = "an integer") -> P.Value:
    """The register value of an integer."""
    if isinstance(x, Int):
        return Number(x.size, span)
    if isinstance(x, Index):
        return P.Variable(x.name, I32, span)
    if of_type(x, I32):
        return x
    _fail(values, x, span, what)


def as_condition(values: Values, x: Any, span: Span) -> P.Value:
    """A condition as a register value."""
    if isinstance(x, Condition):
        return _tested(x.test, span)
    if of_type(x, I1):
        return x
    _fail(values, x, span, "a condition, such as `i < n`")


def _tested(test: Test, span: Span) -> P.Value:
    """What only the launch knows, told by the kernel from its sizes."""
    if isinstance(test, bool):
        return P.Apply("eq", (Number(0, span), Number(0 if test else 1, span)), I1, span)
    kind, *parts = test
    if kind in ("lt", "eq"):
        return P.Apply(kind, (Number(parts[0], span), Number(parts[1], span)), I1, span)
    of = tuple(_tested(part, span) for part in parts)
    return _not(of[0], span) if kind == "not" else P.Apply(kind, of, I1, span)


def _not(x: P.Value, span: Span) -> P.Value:
    return P.Apply("xor", (x, _tested(True, span)), I1, span)


def _fail(values: Values, x: Any, span: Span, wanted: str) -> NoReturn:
    hint = ": `i32(...)` makes it one" if getattr(x, "type", None) in WIDE else ""
    values.scope.error("TK106", f"expected {wanted}, not {describe(x)}{hint}", span)
    raise Failed


def operate(
    values: Values, sign: str, left: Any, at_left: Span, right: Any, at_right: Span, span: Span
) -> P.Value | Int | None:
    """`left sign right` where it is of integers, one of which only the kernel knows; None where it is not."""
    found = wide.operate(values, sign, left, at_left, right, at_right, span)
    if found is not None:
        return found
    bits = sign in BITS
    known = isinstance(left, Int) and isinstance(right, Int)
    if bits and known and (folded := _fold(sign, left.size, right.size)) is not None:
        return Int(folded, span)
    if not (bits or (not known and is_integer(left) and is_integer(right))):
        return None
    a, b = (
        as_integer(values, x, at, f"integers beside `{sign}`")
        for x, at in ((left, at_left), (right, at_right))
    )
    if sign not in SIGNS:
        _fail(values, left, span, f"an operator of integers, not `{sign}`")
    if sign in ("//", "%") and isinstance(right, Int):
        _divides(values, sign, right.size, at_right)
    return P.Apply(SIGNS[sign], (a, b), I32, span)


def _divides(values: Values, sign: str, by: Size, span: Span) -> None:
    """TK117 for a divisor that no number of the kernel has a quotient by."""
    if by == 0:
        values.fail("TK117", "an integer of the kernel is divided by 0", span)
    if isinstance(by, int) and by < 0:
        told = f"`{sign}` is of integers that are not negative, and {by} is; a condition on the sign says what is meant"
        values.fail("TK117", told, span)


def _fold(sign: str, a: Size, b: Size) -> int | None:
    """`1 << 1`: what it is where both are known and no sign or width is in play, which the kernel's registers have."""
    if not (isinstance(a, int) and isinstance(b, int) and a >= 0 and b >= 0):
        return None
    if sign in ("<<", ">>") and b >= 32:
        return None
    value = BITS[sign](a, b)
    return value if value <= LIMIT else None


def unchained(values: Values, e: S.Binary) -> None:
    """TK101 where a comparison is the left side of another, as in `0 < x < 1`."""
    if isinstance(e.left, S.Binary) and e.left.operator in COMPARISONS:
        told = [values.scope.source.excerpt(x.span) for x in (e.left, e.left.right, e.right)]
        values.fail(
            "TK101",
            f"a comparison has two sides: `{told[0]} and {told[1]} {e.operator} {told[2]}`",
            e.span,
        )


def compare(
    values: Values, e: S.Binary, left: Any, right: Any
) -> Condition | Elementwise | P.Value:
    """`i < n`."""
    if isinstance(left, Int) and isinstance(right, Int):
        return Condition(C.compare(e.operator, left.size, right.size), e.span)
    type = wide.among(left, right)
    if type is not None:
        sides = ((left, e.left.span), (right, e.right.span))
        both = tuple(wide.as_type(values, x, type, at) for x, at in sides)
    elif (is_integer(left) or is_integer(right)) and not (
        _literal(left, right) or _literal(right, left) or _tile(left) or _tile(right)
    ):
        both = (as_integer(values, left, e.left.span), as_integer(values, right, e.right.span))
    else:
        both = (values.as_operand(left, e.left.span), values.as_operand(right, e.right.span))
        if any(isinstance(x.type, P.Regs) for x in both):
            return Elementwise(e.operator, *both, e.span)
        both = (values.as_value(left, e.left.span), values.as_value(right, e.right.span))
        if all(isinstance(x, P.Constant) for x in both):
            values.later("conditions on anything but integers", e.span)
    return P.Apply(COMPARISONS[e.operator], both, I1, e.span)


class Elementwise(NamedTuple):
    """A comparison of the elements of tiles."""

    sign: str
    left: P.Value
    right: P.Value
    span: Span

    @property
    def told(self) -> str:
        return "a comparison of elements, which chooses between two tiles: `x if x > 0 else y`"


def _tile(x: Any) -> bool:
    return isinstance(getattr(x, "type", None), P.Regs)


CHOICES = {"<": "if_lt", "<=": "if_le", ">": "if_lt", ">=": "if_le", "==": "if_eq", "!=": "if_eq"}


class Joined(NamedTuple):
    """`x > 0 and x < 1`, `not x > 0`: comparisons of elements, and what is the same for all, joined. `sides` is one
    where `sign` is `not`."""

    sign: str
    sides: tuple[Any, ...]
    span: Span

    @property
    def told(self) -> str:
        return (
            "comparisons of elements, which choose between two tiles: `x if x > 0 and x < 1 else y`"
        )


OF_ELEMENTS = (Elementwise, Joined)


def _choose_elements(values: Values, by: Elementwise | Joined, e: S.Choice) -> P.Value:
    """`x if x > 0 else y`, element by element."""
    sides = zip(values.both(e.then, e.otherwise), (e.then, e.otherwise), strict=True)
    made = [values.as_operand(x, s.span) for x, s in sides]
    return _either_elements(values, by, made, e.span)


def _either_elements(
    values: Values, by: Elementwise | Joined, made: list[P.Value], span: Span
) -> P.Value:
    if isinstance(by, Joined):
        zero = P.Constant(0.0, span)
        return values.apply("if_lt", (zero, _holds(values, by), *made), span)
    if by.sign == "!=":
        made.reverse()
    compared = (by.right, by.left) if by.sign in (">", ">=") else (by.left, by.right)
    return values.apply(CHOICES[by.sign], (*compared, *made), span)


def _holds(values: Values, x: Any) -> P.Value:
    """1 where a condition holds and 0 where it does not, so that both sides of `and` and `or` are made once."""
    one, zero = P.Constant(1.0, x.span), P.Constant(0.0, x.span)
    if isinstance(x, Elementwise):
        return _either_elements(values, x, [one, zero], x.span)
    if not isinstance(x, Joined):
        return P.Apply("select", (as_condition(values, x, x.span), one, zero), F32, x.span)
    if x.sign == "not":
        return values.apply("sub", (one, _holds(values, x.sides[0])), x.span)
    placed = [s for s in x.sides if values.tests(s)]
    if (
        placed
    ):  # positions are no numbers: where they do not hold, `and` is 0; where they do, `or` is 1
        (other,) = (s for s in x.sides if s not in placed)
        tile, positions = _holds(values, other), placed[0]
        if x.sign == "or":
            positions = values.positions.negate(values, positions, x.span)
        return P.Keep(tile, positions.tests, float(x.sign == "or"), tile.type, x.span)
    sides = [_holds(values, s) for s in x.sides]
    return values.apply("min" if x.sign == "and" else "max", (*sides,), x.span)


def _literal(number: Any, other: Any) -> bool:
    """Whether an integer that is known at compile time stands beside an f32 number, and so is one."""
    return (
        isinstance(number, Int)
        and isinstance(number.size, int)
        and getattr(other, "type", None) == F32
    )


def join(values: Values, e: S.Binary) -> Condition | Joined | P.Value:
    """`p and q`, `p or q`."""
    left, right = values.both(e.left, e.right)
    if isinstance(left, OF_ELEMENTS) or isinstance(right, OF_ELEMENTS):
        for x, side in ((left, e.left), (right, e.right)):
            if not isinstance(x, OF_ELEMENTS) and not values.tests(x):
                as_condition(values, x, side.span)
        return Joined(e.operator, (left, right), e.span)
    if values.tests(left) or values.tests(right):
        return values.positions.join(values, e, left, right)
    if isinstance(left, Condition) and isinstance(right, Condition):
        return Condition(C.join(e.operator, left.test, right.test), e.span)
    sides = (as_condition(values, left, e.left.span), as_condition(values, right, e.right.span))
    if X.accesses(sides[1]):
        known = _tested(e.operator == "or", e.span)
        rest = (sides[1], known) if e.operator == "and" else (known, sides[1])
        return X.Choose(sides[0], *rest, I1, e.span)
    return P.Apply(e.operator, sides, I1, e.span)


def negate(values: Values, e: S.Unary) -> Condition | Joined | P.Value:
    """`not p`."""
    x = values.evaluate(e.operand)
    if isinstance(x, OF_ELEMENTS):
        return Joined("not", (x,), e.span)
    if values.tests(x):
        return values.positions.negate(values, x, e.span)
    if isinstance(x, Condition):
        return Condition(C.negate(x.test), e.span)
    return _not(as_condition(values, x, e.operand.span), e.span)


def choose(values: Values, e: S.Choice) -> Any:
    """`x if p else y` of scalars, or of columns read from an accumulator and 0; None where it is of something else."""
    known = values.evaluate(e.condition)
    if isinstance(known, Condition) and isinstance(known.test, bool):
        return values.evaluate(e.then if known.test else e.otherwise)
    if values.tests(known):
        return values.positions.choose(values, known, e)
    if isinstance(known, OF_ELEMENTS):
        return _choose_elements(values, known, e)
    condition = as_condition(values, known, e.condition.span)
    then, otherwise = values.both(e.then, e.otherwise)
    if isinstance(then, X.ReadPlace) and isinstance(otherwise, Int) and otherwise.size == 0:
        return then._replace(nonzero=condition)
    type = wide.among(then, otherwise)
    if type is not None:
        a, b = (
            wide.as_type(values, x, type, s.span)
            for x, s in ((then, e.then), (otherwise, e.otherwise))
        )
        return _either(condition, a, b, e.span)
    if is_integer(then) and is_integer(otherwise):
        a, b = (
            as_integer(values, x, s.span) for x, s in ((then, e.then), (otherwise, e.otherwise))
        )
        return _either(condition, a, b, e.span)
    a, b = (values.as_value(x, s.span) for x, s in ((then, e.then), (otherwise, e.otherwise)))
    if a.type == b.type and a.type in (F32, *WIDE):
        return _either(condition, a, b, e.span)
    if isinstance(a, P.Constant) or isinstance(b, P.Constant):
        return values.positions.choose(values, known, e)
    if (
        a.type != I32 and b.type != I32
    ):  # of tiles, by a number that is the same in all threads of the CTA
        one, zero = P.Constant(1.0, e.span), P.Constant(0.0, e.span)
        number = P.Apply("select", (condition, one, zero), F32, e.span)
        return values.apply("if_lt", (zero, number, a, b), e.span)
    return None


def _either(condition: P.Value, then: P.Value, otherwise: P.Value, span: Span) -> P.Value:
    """One of two numbers; both are made where that does nothing else."""
    if X.accesses((then, otherwise)):
        return X.Choose(condition, then, otherwise, then.type, span)
    return P.Apply("select", (condition, then, otherwise), then.type, span)


BLOCK_WORDS = ("index", "first", "last", "part")
"""What is asked of a block."""


def instead(values: Values, x: Any, e: S.Attribute) -> str:
    """What to write where blocks are asked so, and integers are not; a block's own words where one is misspelt."""
    name = e.name.text
    if isinstance(x, Block):
        near = nearest(name, list(BLOCK_WORDS))
        return (
            f"; did you mean `.{near}`"
            if near
            else ": it has `.index`, `.first`, `.last` and `.part(i, n)`"
        )
    if name not in BLOCK_WORDS or not (isinstance(x, Int | Index) or is_integer(x)):
        return ""
    said = values.scope.source.excerpt(e.base.span)
    ways = {
        "index": f"it is the number, `{said}`",
        "first": f"`{said} == 0` says so, where it counts from 0",
    }
    last = f"{show(x.axis.extent)} - 1" if isinstance(x, Index) else "n - 1"
    ways["last"] = f"`{said} == {last}` says so" + (
        "" if isinstance(x, Index) else ", in a `range(n)`"
    )
    return f": {ways[name]}; blocks, as of `blocks(N, 64)`, have it" if name in ways else ""


def of_block(values: Values, block: Block, name: str, span: Span) -> P.Value | None:
    """`k.index`, `k.first`, `k.last`; None where a block has no such part."""
    number = X.BlockNumber(block.name, span)
    if name == "index":
        return number
    if name == "first":
        first = block.bounds.first if block.bounds else Number(0, span)
        return P.Apply("eq", (number, first), I1, span)
    if name == "last" and block.bounds:
        after = P.Apply("add", (number, Number(1, span)), I32, span)
        return P.Apply("eq", (after, block.bounds.last), I1, span)
    if name == "last":
        try:
            last = combine("sub", combine("cdiv", block.axis.extent, block.axis.size), 1)
        except NoValue as e:
            values.scope.error("TK117", str(e), span)
            raise Failed from None
        return P.Apply("eq", (number, Number(last, span)), I1, span)
    return None
