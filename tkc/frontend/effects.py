"""What statements do beside giving variables values: what they say, write, and do once each time they run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import tkc.frontend.explicit_syntax as E
import tkc.frontend.syntax as S
from tkc.frontend.elements import ATOMICS, LOADS
from tkc.frontend.syntax import Span, Word

if TYPE_CHECKING:
    from tkc.frontend.inline import Function

    Functions = Mapping[str, Function | None]

OF_THREADS = ("thread", "warp")
"""Numbers that are other ones in a role of other threads."""

ONCE = (*ATOMICS, "try_wait", "print")
"""Functions that do something beside giving a value."""


def blocks(s: Any) -> Iterator[S.Block]:
    """The blocks directly in a statement."""
    if isinstance(s, S.Branch):
        yield from (body for _, body in s.arms)
        yield s.otherwise or ()
    elif isinstance(body := getattr(s, "body", None), tuple):
        yield body


def statements(body: S.Block) -> Iterator[Any]:
    """All statements of a block, wherever in it."""
    for s in body:
        yield s
        for inner in blocks(s):
            yield from statements(inner)


def header(s: Any) -> tuple[Any, ...]:
    """What a statement evaluates itself, apart from its blocks."""
    if isinstance(s, S.Branch):
        return tuple(c for c, _ in s.arms)
    if isinstance(s, S.For):
        return tuple(a.value for a in s.over)
    if isinstance(s, E.While):
        return (s.condition,)
    return () if any(True for _ in blocks(s)) else (s,)


def _parts(x: Any) -> tuple[Any, ...]:
    return () if isinstance(x, Span) or not isinstance(x, tuple) else cast("tuple[Any, ...]", x)


def names_in(x: Any) -> Iterator[str]:
    """The names that a piece of the tree says."""
    if isinstance(x, S.Name | Word):
        yield x.text
    else:
        for part in _parts(x):
            yield from names_in(part)


def variable(s: Any) -> S.Name | Word | None:
    """The name to which a statement gives a value: `x = ...`, `x += ...`, `mask x where ...`."""
    if isinstance(s, S.Assign | S.Update) and isinstance(s.target, S.Name):
        return s.target
    return s.second if isinstance(s, S.Words) else None


def used_in(body: S.Block) -> Iterator[str]:
    """The names whose values a block's statements are made of: all but those that are only given one."""
    for s in statements(body):
        if isinstance(s, S.Assign) and isinstance(s.target, S.Name):
            yield from names_in(s.value)
        else:
            yield from names_in(header(s))


def calls(x: Any) -> Iterator[S.Call]:
    """The calls in a piece of the tree."""
    if isinstance(x, S.Call):
        yield x
    for part in _parts(x):
        yield from calls(part)


def once(x: Any, functions: Functions) -> Iterator[S.Call]:
    """The calls that do something beside giving a value: atomic updates, ordered reads, and functions with such."""
    for call in calls(x):
        if isinstance(call.function, S.Name) and _does(call, functions, set()):
            yield call


def _does(call: S.Call, functions: Functions, within: set[int]) -> bool:
    name = base(call.function)
    if name == "read" and any(base(a.value) in LOADS for a in call.arguments[1:]):
        return True
    function = functions.get(name)
    if function is None:
        return name in ONCE
    if id(function) in within:
        return False
    within.add(id(function))
    return any(_does(inner, function.known, within) for inner in calls(function.define.body))


def base(e: Any) -> str:
    """The tile or tensor that a place is of."""
    while isinstance(e, S.Index | S.Attribute | S.Call):
        e = e.function if isinstance(e, S.Call) else e.base
    return e.text if isinstance(e, S.Name) else ""


def written(s: Any, functions: Functions) -> Iterator[str]:
    """The names of what a statement itself may write; a command, all that it says."""
    if isinstance(s, S.Copy | S.Assign | S.Update):
        yield base(s.target)
    elif isinstance(s, S.Words):
        yield s.second.text
    elif isinstance(s, E.Command):
        yield from names_in(s)
    for e in header(s):
        for call in once(e, functions):
            yield from names_in(call)
