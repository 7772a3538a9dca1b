"""Functions that hold statements: a call becomes the statements, before names are checked.

A parameter stands for what is passed, as it is written there; what the function sets itself has a name of its own. It
sees no other name of the kernel that calls it. Statements of another file keep their places there, and the functions
that they call get names of their own among those of the kernel's file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tkc.frontend.syntax as S
from tkc.frontend.inline import MAX_CALLS, Function
from tkc.frontend.scope import FUNCTIONS, LATER, RESERVED, plural
from tkc.frontend.source import Source
from tkc.frontend.syntax import Elsewhere, Span, Word
from tkc.ir.tile.types import DTYPES

PLAIN = {
    *FUNCTIONS,
    *LATER,
    *RESERVED,
    *DTYPES,
    "unroll",
    "bytes",
    "lane",
    "warp",
    "thread",
    "print",
}
"""Names that mean the same everywhere."""

Functions = dict[str, Function | None]


def has_statements(function: Function | None) -> bool:
    """Whether a function is more than `name = value` lines and a `return`."""
    return function is not None and any(
        not isinstance(s, S.Return)
        and not (isinstance(s, S.Assign) and isinstance(s.target, S.Name))
        for s in function.define.body
    )


def splice(source: Source, kernel: S.Kernel, functions: Functions) -> S.Kernel | None:
    """The kernel without calls of such functions; None where one was wrong, which is reported."""
    before = len(source.found.diagnostics)
    made = _Splicer(source, functions).body(kernel.body)
    return kernel._replace(body=made) if len(source.found.diagnostics) == before else None


class _Splicer:
    def __init__(self, source: Source, functions: Functions) -> None:
        self.source = source
        self.functions = functions
        self.calls = 0
        self.within: list[str] = []

    def body(self, block: S.Block) -> S.Block:
        made: list[Any] = []
        for s in block:
            called = _called(s)
            if called is not None and has_statements(self.functions.get(called.function.text)):  # type: ignore[union-attr]
                made += self._call(s, called)
            elif isinstance(s, S.Branch):
                arms = tuple((c, self.body(b)) for c, b in s.arms)
                otherwise = None if s.otherwise is None else self.body(s.otherwise)
                made.append(s._replace(arms=arms, otherwise=otherwise))
            elif hasattr(s, "body"):
                made.append(s._replace(body=self.body(s.body)))
            else:
                made.append(s)
        return tuple(made)

    def _call(self, s: Any, call: S.Call) -> list[Any]:
        """The statements of the function, and, where it returns something, what becomes of that."""
        assert isinstance(call.function, S.Name)
        name = call.function.text
        function = self.functions[name]
        assert function is not None
        define = function.define
        if len(call.arguments) != len(define.parameters) or any(a.name for a in call.arguments):
            takes = plural(len(define.parameters), "value")
            told = f"`{name}` takes {takes}, not {len(call.arguments)}"
            return self._fail("TK116", told, call.span)
        if len(self.within) >= MAX_CALLS:
            return self._fail("TK117", f"`{name}` calls itself: functions are inlined", call.span)
        *statements, last = define.body
        gives = isinstance(last, S.Return)
        if isinstance(s, S.Assign) and not gives:
            return self._fail("TK101", f"function `{name}` returns nothing", call.span)
        self.calls += 1
        own = {n: f"{name}.{n}.{self.calls}" for n in binds(define.body)}
        given = {w.text: a.value for w, a in zip(define.parameters, call.arguments, strict=True)}
        known = _Names(self, given, {n: o for n, o in own.items() if n not in given}, function)
        body = known.rename(tuple(statements) if gives else define.body)
        self.within.append(name)
        made = list(self.body(body))
        self.within.pop()
        if isinstance(last, S.Return) and isinstance(s, S.Assign):
            made.append(s._replace(value=known.rename(last.value)))
        return made

    def named(self, name: str, function: Function | None, file: str) -> str:
        """What a function that another file knows by a name is called here."""
        made = f"{Path(file).stem}.{name}"
        while self.functions.setdefault(made, function) is not function:
            made += "_"
        return made

    def _fail(self, code: str, message: str, span: Span) -> list[Any]:
        self.source.found.error(code, message, self.source.place(span))
        return []


class _Names:
    """What the names of a function stand for in one call: `given` by parameter, `own` the variables that it sets."""

    def __init__(
        self,
        splicer: _Splicer,
        given: Mapping[str, S.Expression],
        own: Mapping[str, str],
        function: Function,
    ) -> None:
        self.splicer = splicer
        self.given = given
        self.own = own
        self.function = function
        self.elsewhere = function.source is not splicer.source

    def place(self, span: Span) -> Span:
        """A place in the function's text."""
        if not self.elsewhere:
            return span
        made = Elsewhere(*span)
        made.source = self.function.source
        return made

    def rename(self, x: Any) -> Any:
        match x:
            case Span():
                return self.place(x)
            case str() | int() | float() | None:
                return x
            case Word():
                return x._replace(span=self.place(x.span))
            case S.Name():
                return self._name(x)
            case S.Call() if isinstance(x.function, S.Name):
                return x._replace(
                    function=self._called(x.function),
                    arguments=self.rename(x.arguments),
                    span=self.place(x.span),
                )
            case S.Reference():
                name, part = self._word(x.name), self.rename(x.part)
                return x._replace(name=name, part=part, span=self.place(x.span))
            case S.For():
                variables = tuple(self._own(w) for w in x.variables)
                return x._replace(
                    variables=variables,
                    over=self.rename(x.over),
                    body=self.rename(x.body),
                    span=self.place(x.span),
                )
            case S.Item():
                alias = None if x.alias is None else self._own(x.alias)
                return x._replace(pipe=self.rename(x.pipe), alias=alias, span=self.place(x.span))
            case tuple() if hasattr(x, "_fields"):
                fields = x._fields  # type: ignore[attr-defined]
                return x._replace(**{f: self.rename(getattr(x, f)) for f in fields})  # type: ignore[attr-defined]
            case tuple():
                return tuple(self.rename(part) for part in x)
            case _:
                return x

    def _called(self, x: S.Name) -> S.Expression:
        """A function by name: what has been passed, one of the function's own file, or one of the language."""
        if x.text in self.given:
            return self.given[x.text]
        known = self.function.known
        if self.elsewhere and x.text in known:
            file = self.function.source.file
            return S.Name(self.splicer.named(x.text, known[x.text], file), self.place(x.span))
        return x._replace(span=self.place(x.span))

    def _name(self, x: S.Name) -> S.Expression:
        if x.text in self.given:
            return self.given[x.text]
        if x.text in self.own:
            return S.Name(self.own[x.text], self.place(x.span))
        if x.text not in PLAIN and x.text not in self.function.known:
            self._unknown(x.text, self.place(x.span))
        return x._replace(span=self.place(x.span))

    def _own(self, word: Word) -> Word:
        return Word(self.own.get(word.text, word.text), self.place(word.span))

    def _word(self, word: Word) -> Word:
        """A pipe's name, which has been passed."""
        passed, span = self.given.get(word.text), self.place(word.span)
        if isinstance(passed, S.Name):
            return Word(passed.text, span)
        if passed is not None:
            told = f"`{word.text}` names a pipe here, and something else is passed for it"
            self.splicer._fail("TK106", told, span)
        else:
            self._unknown(word.text, span)
        return Word(word.text, span)

    def _unknown(self, name: str, span: Span) -> None:
        self.splicer._fail(
            "TK102",
            f"unknown name `{name}` in function `{self.function.define.name.text}`: it sees its parameters and what it "
            "sets",
            span,
        )


def _called(s: Any) -> S.Call | None:
    """The call that a statement is, or that it sets a variable to."""
    value = s.value if isinstance(s, S.Evaluate | S.Assign) else None
    called = isinstance(value, S.Call) and isinstance(value.function, S.Name)
    return value if called else None


def binds(body: S.Block) -> Iterator[str]:
    """The names that a body sets: variables, loop variables, names of items."""
    for s in body:
        match s:
            case S.Assign() if isinstance(s.target, S.Name):
                yield s.target.text
            case S.For():
                yield from (w.text for w in s.variables)
            case S.Transfer():
                yield from (i.alias.text for i in s.items if i.alias is not None)
            case _:
                pass
        inner = [b for _, b in s.arms] + [s.otherwise or ()] if isinstance(s, S.Branch) else []
        for block in (*inner, getattr(s, "body", ())):
            yield from binds(block)
