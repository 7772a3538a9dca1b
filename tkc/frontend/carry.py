"""Variables that are set before a loop or condition and again in it: R23, and numbers that turn out to be more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tkc.frontend.program as P
from tkc.frontend.explicit_program import I32, WIDE, Number
from tkc.frontend.program import Regs, Scalar
from tkc.frontend.scope import REGISTER, Entry, Int, Scope, Unknown
from tkc.frontend.sizes import show
from tkc.frontend.syntax import Span

F32 = Scalar("f32")
T = TypeVar("T")


class Grown(Exception):
    """Numbers that a loop or condition makes more of: names and the types that they need from the start."""

    def __init__(self, types: Mapping[str, Regs | Scalar]) -> None:
        super().__init__()
        self.types = types


def settle(scope: Scope, span: Span, read: Callable[[], T]) -> tuple[list[P.Statement], T]:
    """What stands before a loop or condition, and what `read` makes of it.

    A number that a value of several elements, or an integer that changes, takes the place of is one from the start:
    what was read is then read again.
    """
    before: list[P.Statement] = []
    while True:
        state = (dict(scope.names), set(scope.written), dict(scope.unset), scope.failed)
        found = len(scope.source.found.diagnostics)
        try:
            return before, read()
        except Grown as grown:
            scope.names, scope.written, scope.unset, scope.failed = state
            del scope.source.found.diagnostics[found:]
            for name, type in grown.types.items():
                entry = scope.names[name]
                scope.names[name] = entry._replace(meaning=type)
                before.append(P.Set(name, _first(name, entry, type, span), span))


def _first(name: str, entry: Entry, type: Regs | Scalar, span: Span) -> P.Value:
    """A number as a value of its later type."""
    was = entry.meaning
    if type == I32:
        return Number(was.size, entry.span)
    if type in WIDE:
        return P.Apply(f"to_{type.dtype}", (Number(was.size, entry.span),), type, entry.span)
    number: P.Value = P.Variable(name, F32, entry.span)
    if isinstance(was, Int):
        number = P.Constant(float(was.size), entry.span)  # type: ignore[arg-type]
    return P.Fill(number, type, entry.span) if isinstance(type, Regs) else number


def leave(
    scope: Scope, outer: dict[str, Entry], inner: Mapping[str, Entry], what: str = "loop"
) -> None:
    """Behind a loop or a condition, as `what` says: what it alone set is unset, what it set again has kept its type.

    Raises Grown where a number has become more.
    """
    grown: dict[str, Regs | Scalar] = {}
    for name, entry in inner.items():
        if entry.what != REGISTER:
            continue
        if name not in outer:
            scope.unset[name] = entry.span
        elif outer[name].what == REGISTER:
            was, now = outer[name].meaning, entry.meaning
            if _grows(was, now):
                grown[name] = I32 if isinstance(now, Int) else now
            else:
                _same(scope, name, entry, outer[name], what)
    if grown:
        raise Grown(grown)


def _grows(was: Any, now: Any) -> bool:
    if isinstance(was, Int) and (now == I32 or (isinstance(now, Int) and now.size != was.size)):
        return True
    if isinstance(was, Int) and now in WIDE:
        return True
    if isinstance(was, Int) and not isinstance(was.size, int):
        return False
    if isinstance(now, Regs):
        return now.dtype == "f32" and (isinstance(was, Int) or was == F32)
    return isinstance(was, Int) and now == F32


def _same(scope: Scope, name: str, entry: Entry, before: Entry, what: str) -> None:
    """R23: a variable set before a loop and in it keeps its type."""
    was, now = before.meaning, entry.meaning
    if isinstance(was, Int) and isinstance(now, Int):
        return
    if isinstance(was, Unknown) or isinstance(now, Unknown) or was == now:
        return
    a, b = (f"the integer {show(t.size)}" if isinstance(t, Int) else str(t) for t in (was, now))
    shapes_alone = isinstance(was, Regs) and isinstance(now, Regs) and was.dtype == now.dtype
    scope.error(
        "TK104" if shapes_alone else "TK105",
        f"`{name}` is {a} before the {what} and {b} in it: a value that a {what} carries keeps its type",
        entry.span,
        scope.note(f"`{name}` is set here before the {what}", before.span),
    )
