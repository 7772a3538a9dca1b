"""Conditions on where an element stands: `j <= m` of blocks j and m compares positions, element by element (R24)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import tkc.frontend.integers as N
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.frontend.conditions import Condition
from tkc.frontend.describe import describe
from tkc.frontend.explicit_program import I1, I32, Number
from tkc.frontend.scope import REGISTER, Block, Failed, Int, Unknown, plural
from tkc.frontend.sizes import NoValue, combine
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.values import Values


class Position(NamedTuple):
    """A sum of positions in blocks, each with a factor, and an integer: `m + N - M`."""

    terms: tuple[tuple[Block, int], ...]
    offset: Any
    span: Span

    @property
    def told(self) -> str:
        return "a position"


MOST = 64
"""Comparisons that a condition may have once every `or` stands inside every `and`."""


class Tests(NamedTuple):
    """Conditions on positions, all of which hold where the whole does; each may name others that do in its place."""

    tests: tuple[P.Test, ...]
    span: Span

    @property
    def told(self) -> str:
        return "a condition on positions, which is for `mask`: a block's number is `.index`"


def is_position(x: Any) -> bool:
    return isinstance(x, Block | Position)


def _position(values: Values, x: Any, span: Span) -> Position:
    if isinstance(x, Position):
        return x
    if isinstance(x, Block):
        return Position(((x, 1),), Int(0, span), span)
    if not N.is_integer(x):
        values.fail("TK106", f"expected a block or an integer, not {describe(x)}", span)
    return Position((), x, span)


def operate(values: Values, sign: str, left: Any, right: Any, span: Span) -> Position:
    """`m + 1`, `m - 4 * j`."""
    a, b = _position(values, left, span), _position(values, right, span)
    if sign == "*":
        if a.terms:
            a, b = b, a
        if a.terms or not isinstance(a.offset, Int) or not isinstance(a.offset.size, int):
            values.fail("TK106", "a position is multiplied by a number known at compile time", span)
        factor = a.offset.size
        offset = values.operate("*", b.offset, span, a.offset, span, span)
        return Position(tuple((block, n * factor) for block, n in b.terms), offset, span)
    if sign not in ("+", "-"):
        told = f"positions of blocks are added, subtracted and compared, and have no `{sign}`"
        values.fail("TK106", f"{told}: `.index` is a block's number", span)
    factor = 1 if sign == "+" else -1
    sums: dict[tuple[str, Any], tuple[Block, int]] = {}
    for block, n in (*a.terms, *((block, n * factor) for block, n in b.terms)):
        key = (block.name, block.part)
        sums[key] = (block, n + (sums[key][1] if key in sums else 0))
    offset = values.operate(sign, a.offset, span, b.offset, span, span)
    return Position(tuple(x for x in sums.values() if x[1]), offset, span)


def negative(values: Values, x: Block | Position, span: Span) -> Position:
    return operate(values, "-", Int(0, span), x, span)


def compare(values: Values, sign: str, left: Any, right: Any, span: Span) -> Tests:
    """As tests of the form `sum < limit`."""
    if sign == "!=":
        less, more = (compare(values, s, left, right, span).tests for s in ("<", ">"))
        return Tests(_either(values, less, more, span), span)
    if sign == "==":
        both = (compare(values, s, left, right, span).tests for s in ("<=", ">="))
        return Tests(tuple(t for tests in both for t in tests), span)
    if sign in (">", ">="):
        left, right = right, left
    difference = operate(values, "-", left, right, span)
    limit = values.operate("-", Int(int("=" in sign), span), span, difference.offset, span, span)
    terms = tuple((_name(b), b.axis.size, n) for b, n in difference.terms)
    return Tests((P.Test(terms, N.as_integer(values, limit, span), span),), span)


def _name(block: Block) -> str | P.Part:
    return P.Part(block.name, *block.part) if block.part else block.name


def join(values: Values, e: S.Binary, left: Any, right: Any) -> Tests:
    """`p and q`, `p or q`; one side may be the same for all elements, such as `n < 3` of an argument."""
    sides = [_tests(values, x, s.span) for x, s in ((left, e.left), (right, e.right))]
    if e.operator == "and":
        return Tests((*sides[0], *sides[1]), e.span)
    return Tests(_either(values, *sides, e.span), e.span)


def _tests(values: Values, x: Any, span: Span) -> tuple[P.Test, ...]:
    """A condition as tests; one that no position is in says the same of all elements."""
    if isinstance(x, Tests):
        return x.tests
    if isinstance(x, Condition) and isinstance(x.test, bool):
        return () if x.test else (P.Test((), Number(0, span), span),)
    if not isinstance(x, Condition) and not N.of_type(x, I1):
        told = (
            f"a condition on positions, such as `j <= m`, joins with others, not with {describe(x)}"
        )
        values.fail("TK106", told, span)
    parts = (N.as_condition(values, x, span), Number(1, span), Number(0, span))
    return (P.Test((), P.Apply("select", parts, I32, span), span),)


def _either(
    values: Values, a: tuple[P.Test, ...], b: tuple[P.Test, ...], span: Span
) -> tuple[P.Test, ...]:
    """`a or b`: each of the one or each of the other, as tests that all hold."""
    made = tuple(
        x._replace(others=(*x.others, y._replace(others=()), *y.others)) for x in a for y in b
    )
    count = sum(1 + len(test.others) for test in made)
    if count > MOST:
        values.later(
            f"a condition on positions that comes to {count} comparisons once each `or` stands inside each `and` (at "
            f"most {MOST} fit): several masks, one after another, say what all of them keep",
            span,
        )
    return made


def numbers(values: Values, x: Block | Position, span: Span) -> P.Positions:
    """`f32(n)`, `f32(m - n)`: positions as numbers."""
    placed = _position(values, x, span)
    terms = tuple((_name(b), b.axis.size, n) for b, n in placed.terms)
    limit = values.operate("-", Int(0, span), span, placed.offset, span, span)
    return P.Positions((P.Test(terms, N.as_integer(values, limit, span), span),), span)


def beside(values: Values, kind: str, operands: tuple[P.Value, ...], span: Span) -> P.Value:
    """An operation one of whose operands is of positions: of a tile beside them they have the shape."""
    tile = next((x for x in operands if _is_tile(x)), None)
    if tile is None:
        return P.Beside(kind, operands, span)
    return values.apply(kind, tuple(_of_tile(values, x, tile) for x in operands), span)


def _of_tile(values: Values, x: P.Value, tile: P.Value) -> P.Value:
    match x:
        case P.Positions():
            assert isinstance(tile.type, P.Regs)
            type = P.Regs("f32", tile.type.shape)
            return P.Keep(tile, x.tests, 0.0, type, x.span, True)
        case P.Beside():
            operands = tuple(_of_tile(values, o, tile) for o in x.operands)
            return values.apply(x.kind, operands, x.span)
        case _:
            return x


def negate(values: Values, x: Tests, span: Span) -> Tests:
    """`not p`: of each test nothing holds, or nothing of another one."""
    made: tuple[P.Test, ...] | None = None
    for test in x.tests:
        none = tuple(_opposite(values, t, span) for t in (test, *test.others))
        made = none if made is None else _either(values, made, none, span)
    return Tests((P.Test((), Number(0, span), span),) if made is None else made, span)


def _opposite(values: Values, test: P.Test, span: Span) -> P.Test:
    """Of one comparison: a sum that is not less is greater or equal."""
    terms = tuple((block, size, -n) for block, size, n in test.terms)
    limit = P.Apply("sub", (Number(1, span), test.limit), I32, span)
    if isinstance(test.limit, Number):
        try:
            limit = Number(combine("sub", 1, test.limit.size), span)
        except NoValue as e:
            values.fail("TK117", str(e), span)
    return P.Test(terms, limit, span)


def causal(values: Values, e: S.Call) -> Tests:
    """`causal(m, j)`, `causal(m, j, offset)`: `j <= m + offset`, so that a query sees no key after it."""
    if not 2 <= len(e.arguments) <= 3 or any(a.name for a in e.arguments):
        values.fail(
            "TK116",
            f"`causal` takes a block of queries and one of keys, and how far keys are ahead, not "
            f"{plural(len(e.arguments), 'value')}",
            e.span,
        )
    query, key, *more = (values.evaluate(a.value) for a in e.arguments)
    for x, a in ((query, e.arguments[0]), (key, e.arguments[1])):
        if not is_position(x):
            values.fail("TK106", f"`causal` compares blocks, not {describe(x)}", a.value.span)
    last = operate(values, "+", query, more[0], e.span) if more else query
    return compare(values, "<=", key, last, e.span)


def choose(values: Values, condition: Any, e: S.Choice) -> P.Keep:
    """`x if n <= m else 0`, `0 if n > m else x`: a number where the tile does not count."""
    then, other = values.both(e.then, e.otherwise)
    kept, at, number, number_at = then, e.then.span, other, e.otherwise.span
    tests = _tests(values, condition, e.condition.span)
    if not _is_tile(kept) and _is_tile(other):
        kept, at, number, number_at = other, number_at, kept, at
        tests = negate(values, Tests(tests, e.condition.span), e.condition.span).tests
    x, fill = values.as_value(kept, at), values.as_value(number, number_at)
    if not _is_tile(x):
        told = f"a condition on positions chooses between a tile of two axes and a number, not {describe(then)}"
        values.fail("TK106", told, e.then.span)
    values.float(x)
    if not isinstance(fill, P.Constant):
        values.later("a choice between anything but a tile and a number", number_at)
    return P.Keep(x, tests, fill.value, x.type, e.span)


def _is_tile(x: Any) -> bool:
    type = getattr(x, "type", None)
    return isinstance(type, P.Regs) and len(type.shape) == 2 and 1 not in type.shape


def mask(values: Values, s: S.Words) -> list[P.Statement]:
    """`mask x where j <= m`: what stands ahead of it, and the mask."""
    scope, word = values.scope, s.second
    x = scope.find(word.text, word.span)
    if isinstance(x, Unknown):
        raise Failed
    if scope.names[word.text].what != REGISTER or not isinstance(x, P.Regs):
        _refuse(values, s, f"`mask` is of a tile in registers, not of {_what(values, word)}")
    if len(x.shape) != 2 or 1 in x.shape:
        _refuse(values, s, f"`mask` is of a tile of two axes, and `{word.text}` is {x}")
    if x.dtype != "f32":
        _refuse(
            values,
            s,
            f"`mask` is of f32 tiles, and `{word.text}` is {x}: `f32({word.text})` is one",
        )
    if s.where is None:
        _refuse(values, s, f"a mask says which elements count: `mask {word.text} where j <= m`")
    found = values.evaluate(s.where)
    if not isinstance(found, Tests | Condition) and not N.of_type(found, I1):
        told = f"expected a condition on positions, such as `j <= m` of blocks j and m, not {describe(found)}"
        values.fail("TK106", told, s.where.span)
    ahead: list[P.Statement] = []

    def known(test: P.Test) -> P.Test:
        """With limits that the mask's statement computes, since what they are made of may change after it."""
        test = test._replace(others=tuple(known(t) for t in test.others))
        if isinstance(test.limit, Number):
            return test
        name = f"{word.text}.limit.{s.span.line}.{s.span.column}.{len(ahead)}"
        ahead.append(P.Set(name, test.limit, test.span))
        return test._replace(limit=P.Variable(name, I32, test.span))

    tests = tuple(known(test) for test in _tests(values, found, s.where.span))
    return [*ahead, P.Mask(word.text, tests, s.span)]


def _what(values: Values, word: S.Word) -> str:
    return describe(values.evaluate(S.Name(word.text, word.span)))


def _refuse(values: Values, s: S.Words, told: str) -> NoReturn:
    values.scope.error("TK106", told, s.second.span)
    raise Failed
