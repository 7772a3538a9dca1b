"""Elections, conditions and loops on integers in a role, checked at their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tkc.frontend.explicit_program as X
import tkc.frontend.explicit_syntax as E
import tkc.frontend.integers as N
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.frontend.carry import leave, settle
from tkc.frontend.commands import Commands
from tkc.frontend.conditions import Condition
from tkc.frontend.describe import describe
from tkc.frontend.scope import REGISTER, Entry, Failed, Int, Scope
from tkc.frontend.syntax import Span, Word
from tkc.frontend.values import Values
from tkc.ir.stage.debugging import MOST_ARGUMENTS, escaped

MAX_UNROLLED = 64
"""Copies of a body that a loop over listed values may make."""

PRINTED = {X.I32: "%d", N.F32: "%g", X.WIDE[0]: "%u", X.WIDE[1]: "%lld"}
"""How numbers are printed, by type."""

SCOPES = {"": "one", "warp": "lane"}


class Explicit:
    """Checks one role; `body` checks a block."""

    def __init__(self, scope: Scope, values: Values, body: Callable[[S.Block], P.Body]) -> None:
        self.scope = scope
        self.values = values
        self.body = body
        self.command = Commands(scope, values).command

    # elections, conditions, loops

    def elect(self, s: E.Elect) -> Any:
        word = s.scope.text if s.scope is not None else ""
        if word not in SCOPES:
            told = f"`elect {word}`: an election is of one thread, `elect:`, or of a lane of each warp, `elect warp:`"
            self._fail("TK102", told, s.span)
        if self.scope.alone:
            self._fail(
                "TK121", "an election stands in an election: one thread elects nobody", s.span
            )
        self._no_items(s.body)
        outer = dict(self.scope.names)
        self.scope.alone = SCOPES[word]
        self.scope.conditional += 1
        body = self.body(s.body)
        self.scope.conditional -= 1
        self.scope.alone = ""
        inner, self.scope.names = self.scope.names, outer
        for name, entry in inner.items():
            if entry.what == REGISTER and name in outer and entry is not outer[name]:
                self.scope.error(
                    "TK106",
                    f"`{name}` is set in an election: the other threads would keep its old value",
                    entry.span,
                )
            elif entry.what == REGISTER and name not in outer:
                self.scope.unset[name] = entry.span
        return X.Elect(SCOPES[word], body, s.span)

    def branch(self, tests: list[tuple[P.Value, S.Block]], last: S.Block, span: Span) -> Any:
        """`if` on what only the kernel knows."""

        def read() -> P.Body:
            outer = dict(self.scope.names)
            kept = dict(outer)
            arms: list[dict[str, Entry]] = []
            made: list[P.Body] = []
            for block in (*(block for _, block in tests), last):
                self.scope.conditional += 1
                made.append(self.body(block))
                self.scope.conditional -= 1
                inner, self.scope.names = self.scope.names, dict(outer)
                leave(self.scope, outer, inner, "condition")
                kept |= {n: e for n, e in inner.items() if n in outer and e.what == REGISTER}
                arms.append({n: e for n, e in inner.items() if n not in outer})
            for name, entry in arms[0].items():
                if self._alike(entry, [arm.get(name) for arm in arms[1:]]):
                    kept[name] = entry
                    self.scope.unset.pop(name, None)
            self.scope.names = kept
            otherwise = made.pop()
            for (condition, _), body in zip(reversed(tests), reversed(made), strict=True):
                otherwise = (X.If(condition, body, otherwise, span),)
            return otherwise

        before, made = settle(self.scope, span, read)
        return [*before, *made]

    def _alike(self, first: Entry, others: list[Entry | None]) -> bool:
        """Whether a variable that no arm had before is set in every one of them, to values of one type."""
        return isinstance(first.meaning, P.Regs | P.Scalar) and all(
            e is not None and (e.what, e.meaning) == (first.what, first.meaning) for e in others
        )

    def repeat(self, s: E.While) -> Any:
        def read() -> X.While:
            x = self.values.evaluate(s.condition)
            condition = N.as_condition(self.values, x, s.condition.span)
            return X.While(condition, self._loop(s.body, s.span), s.span)

        before, made = settle(self.scope, s.span, read)
        return [*before, made]

    def _loop(self, block: S.Block, span: Span, variable: Word | None = None) -> P.Body:
        outer = dict(self.scope.names)
        if variable is not None:
            self.scope.define(variable, "loop variable", X.I32)
        self.scope.loops.append(span)
        self.scope.conditional += 1
        body = self.body(block)
        self.scope.conditional -= 1
        self.scope.loops.pop()
        inner, self.scope.names = self.scope.names, outer
        leave(self.scope, outer, inner)
        return body

    def loop(self, s: S.For) -> Any:
        """`for i in range(n)`, `for i in unroll(n)`, `for i in 0, 1`."""
        first = s.over[0].value
        if len(s.variables) != 1:
            self._fail("TK116", "a loop over integers has one variable", s.variables[0].span)
        if not isinstance(first, S.Call):
            values = [self.values.number(a.value, "a listed value", -(2**31)) for a in s.over]
            return self._unrolled(s, values)
        name = first.function.text  # type: ignore[union-attr]
        given = [a.value for a in first.arguments]
        most = 3 if name == "range" else 1
        if not 1 <= len(given) <= most or any(a.name for a in first.arguments):
            how = (
                "`range(n)`, `range(first, end)` or `range(first, end, step)`"
                if most > 1
                else "`unroll(n)`"
            )
            self._fail("TK116", f"a loop over integers is written {how}", first.span)
        if name == "unroll":
            return self._unrolled(s, range(self.values.number(given[0], "the turns", 0)))
        bounds = [N.as_integer(self.values, self.values.evaluate(e), e.span) for e in given]
        zero, one = X.Number(0, first.span), X.Number(1, first.span)
        lower, upper = (zero, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        step = bounds[2] if len(bounds) > 2 else one
        if isinstance(step, X.Number) and isinstance(step.size, int) and step.size < 1:
            self._fail("TK117", f"a step is at least 1, not {step.size}", given[2].span)
        variable = s.variables[0]
        before, body = settle(self.scope, s.span, lambda: self._loop(s.body, s.span, variable))
        return [*before, X.Range(variable.text, lower, upper, step, body, s.span)]

    def _unrolled(self, s: S.For, values: Sequence[int]) -> list[Any]:
        if len(values) > MAX_UNROLLED:
            self._fail(
                "TK117",
                f"a loop is unrolled at most {MAX_UNROLLED} times, not {len(values)}",
                s.span,
            )
        variable, made = s.variables[0], []
        for value in values:
            if not self.scope.define(variable, "loop variable", Int(value, variable.span)):
                raise Failed
            made += self.body(s.body)
            del self.scope.names[variable.text]
        return made

    # what helps to find a mistake

    def assertion(self, s: S.Assertion) -> X.Assert | None:
        """A condition that each thread tests; false at compile time is an error, and true is nothing."""
        x = self.values.evaluate(s.condition)
        text = self.scope.source.excerpt(s.condition.span)
        told = f"{text}: {s.text}" if s.text else text
        if isinstance(x, Condition) and isinstance(x.test, bool):
            if not x.test:
                self._fail("TK117", f"`{text}` does not hold{s.text and ': '}{s.text}", s.span)
            return None
        condition = N.as_condition(self.values, x, s.condition.span)
        return X.Assert(condition, told, "one" if self.scope.alone else "all", s.span)

    def say(self, e: S.Call) -> X.Print:
        """`print("text", x)`: texts, integers and f32 numbers, with blanks between them."""
        words: list[str] = []
        values: list[P.Value] = []
        for argument in e.arguments:
            if argument.name is not None:
                self._fail("TK116", "`print` has no options", argument.name.span)
            if isinstance(argument.value, S.Text):
                words.append(escaped(argument.value.text))
                continue
            x = self.values.evaluate(argument.value)
            value = N.as_integer(self.values, x, argument.value.span) if N.is_integer(x) else x
            conversion = PRINTED.get(getattr(value, "type", None))
            if conversion is None or isinstance(value, P.Slice):
                told = f"`print` takes texts, integers and f32 numbers, not {describe(x)}"
                self._fail("TK106", told, argument.value.span)
            words.append(conversion)
            values.append(value)
        if len(values) > MOST_ARGUMENTS:
            told = f"a `print` takes at most {MOST_ARGUMENTS} numbers, not {len(values)}"
            self._fail("TK116", told, e.span)
        return X.Print(" ".join(words) + "\n", tuple(values), e.span)

    def _no_items(self, block: S.Block) -> None:
        """Items are a whole role's, so none stands where only some of its threads come."""
        for span in S.items_in(block):
            self.scope.later("a put or get in an election", span)
            raise Failed

    def _fail(self, code: str, message: str, span: Span, *notes: Any) -> NoReturn:
        self.scope.error(code, message, span, *notes)
        raise Failed
