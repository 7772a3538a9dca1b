"""Functions: a call is the function's expression, evaluated where the call stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import tkc.frontend.syntax as S
from tkc.frontend.scope import Entry, Failed, plural
from tkc.frontend.source import Source
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.values import Values

MAX_CALLS = 32
"""Functions that call one another so deep are taken to go round."""


class Function(NamedTuple):
    """A function, the file that it stands in, and the functions that are known there."""

    define: S.Define
    source: Source
    known: Mapping[str, Function | None]


def call(values: Values, function: Function, arguments: Sequence[S.Argument], span: Span) -> Any:
    """What the call is: whatever the returned expression is, of a register value, a size or a tile.

    A function sees its parameters and its own variables, and no name of the kernel that calls it.
    """
    scope, define = values.scope, function.define
    name = define.name.text
    if len(arguments) != len(define.parameters) or any(a.name for a in arguments):
        scope.error(
            "TK116",
            f"`{name}` takes {plural(len(define.parameters), 'value')}, not {len(arguments)}",
            span,
            scope.note(f"`{name}` is defined here", define.name.span)
            if function.source is scope.source
            else scope.in_file(function.source, f"`{name}` is defined here", define.name.span),
        )
        raise Failed
    given = [values.evaluate(a.value) for a in arguments]
    if len(scope.calls) >= MAX_CALLS:
        scope.error("TK117", f"`{name}` calls itself: functions are inlined", span)
        raise Failed
    outer = (scope.names, scope.source, scope.functions)
    scope.names = {
        word.text: Entry("parameter", meaning, word.span)
        for word, meaning in zip(define.parameters, given, strict=True)
    }
    scope.source, scope.functions = function.source, function.known
    scope.calls.append(name)
    try:
        result = _body(values, define)
    finally:
        scope.names, scope.source, scope.functions = outer
        scope.calls.pop()
    return result if function.source is scope.source else moved(result, span)


def _body(values: Values, define: S.Define) -> Any:
    scope = values.scope
    for statement in define.body:
        if isinstance(statement, S.Return):
            return values.evaluate(statement.value)
        if not isinstance(statement, S.Assign) or not isinstance(statement.target, S.Name):
            scope.error(
                "TK101",
                "a function holds `name = value` and ends in `return value` where it is part of an expression; "
                "with other statements its call stands alone, or alone behind `x =`",
                statement.span,
            )
            raise Failed
        name = statement.target.text
        value = values.evaluate(statement.value)
        scope.names[name] = Entry("value", value, statement.target.span)
    scope.error("TK101", f"function `{define.name.text}` returns nothing", define.name.span)
    raise Failed


def moved(value: Any, span: Span) -> Any:
    """A value of another file, at the place of the call: what is compiled has one file's places.

    What stands in a value twice still does so as one.
    """
    made: dict[int, Any] = {}

    def move(x: Any) -> Any:
        if not isinstance(x, tuple) or isinstance(x, Span):
            return x
        if id(x) not in made:
            if not hasattr(x, "_fields"):
                made[id(x)] = tuple(move(part) for part in x)
            else:
                fields = x._fields  # type: ignore[attr-defined]
                made[id(x)] = x._replace(  # type: ignore[attr-defined]
                    **{f: span if f == "span" else move(getattr(x, f)) for f in fields}
                )
        return made[id(x)]

    return move(value)
