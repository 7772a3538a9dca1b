"""Functions that nothing calls: what is wrong with them whatever they are given.

The rest is checked at each call: a function has no types, and of a choice that is known only one side counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend.elements import ATOMICS
from tkc.frontend.inline import Function
from tkc.frontend.source import Source
from tkc.frontend.splice import PLAIN, binds, has_statements

KNOWN = {*PLAIN, *ATOMICS, "causal", "any", "try_wait"}
"""Names that a function of values sees everywhere."""


def check_uncalled(source: Source, tree: S.File, functions: dict[str, Function | None]) -> None:
    """Reports names that a function of values cannot see (TK102), a call of itself that nothing ends (TK117), and an
    expression that stands alone (TK101), in the functions of the file that no kernel of it comes to."""
    defined = {define.name.text: define for define in tree.functions}
    called: set[str] = set()
    work = [n.text for n in names_of(tree.kernels)]
    while work:
        name = work.pop()
        if name in defined and name not in called:
            called.add(name)
            work += [n.text for n in names_of(defined[name].body)]
    for name, define in defined.items():
        function = functions.get(name)
        if name not in called and function is not None and function.define is define:
            _check(source, define, functions)


def _check(source: Source, define: S.Define, functions: dict[str, Function | None]) -> None:
    own = {w.text for w in define.parameters} | set(binds(define.body))
    name = define.name.text
    for word in () if has_statements(functions[name]) else names_of(define.body):
        if word.text in own or word.text in KNOWN or word.text in functions:
            continue
        near = nearest(word.text, (*own, *functions, *KNOWN))
        told = f"unknown name `{word.text}` in function `{name}`{f'; did you mean `{near}`?' if near else ''}"
        source.found.error("TK102", told, source.place(word.span))
    for statement in define.body:
        if isinstance(statement, S.Evaluate) and not isinstance(statement.value, S.Call | S.Name):
            told = "an expression alone does nothing: a function ends in `return value`"
            source.found.error("TK101", told, source.place(statement.span))
        elif isinstance(statement, S.Evaluate | S.Assign | S.Return):
            for part in _always(statement.value):
                if isinstance(part, S.Call) and part.function[:1] == (name,):
                    told = f"`{name}` calls itself: functions are inlined"
                    source.found.error("TK117", told, source.place(part.span))
                    break


def _parts(x: Any) -> Iterator[Any]:
    """The nodes right below one of the tree."""
    return (part for part in x if not isinstance(part, str | int | float | None))


def names_of(x: Any) -> Iterator[S.Name]:
    """The names in a part of the tree, in their order."""
    if isinstance(x, S.Name):
        yield x
    else:
        for part in _parts(x):
            yield from names_of(part)


def _always(x: Any) -> Iterator[Any]:
    """The nodes of an expression that are evaluated whatever a choice in it takes."""
    if not isinstance(x, S.Choice):
        yield x
        for part in _parts(x):
            yield from _always(part)
