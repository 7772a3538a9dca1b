"""Loops over schedules and blocks: what they run over, and their bodies; loops over integers are `explicit_check`'s."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.frontend.carry import leave, settle
from tkc.frontend.declare import Declarations
from tkc.frontend.describe import describe
from tkc.frontend.scope import Block, Failed, Index, Scope, Unknown, plural
from tkc.frontend.syntax import Span
from tkc.frontend.values import Values


class Role(Protocol):
    """What a loop needs of the role that it stands in."""

    whole: bool
    explicit: Any

    def body(self, block: S.Block) -> P.Body: ...


class Loops:
    """Checks the loops of one role."""

    def __init__(self, scope: Scope, declared: Declarations, values: Values, role: Role) -> None:
        self.scope = scope
        self.declared = declared
        self.values = values
        self.role = role
        self.within: dict[Span, str] = {}
        self.bounds: dict[Span, P.Bounds | None] = {}

    def check(self, s: S.For) -> Any:
        if self._counts(s):
            return self.role.explicit.loop(s)
        try:
            over = self._range(s)
            axes = over.axes if isinstance(over, P.Schedule) else (over,)
            if len(s.variables) != len(axes):
                named, there = (
                    plural(len(s.variables), "variable"),
                    plural(len(axes), "axis", "axes"),
                )
                self._fail("TK116", f"`for` names {named} for {there}", s.variables[0].span)
        except Failed:
            self.role.whole = False
            self._loop(s, [Unknown(w.span) for w in s.variables])
            return None
        if isinstance(over, P.Schedule) and (self.scope.loops or self.scope.owned):
            around = "another loop" if self.scope.loops else "a put or get"
            self.scope.later(f"the loop over a schedule inside {around}", s.span)
        within, bounds = self.within.pop(s.span, None), self.bounds.pop(s.span, None)
        inside = self._inside(within, axes[0], s.span) if within else bounds
        before, body = self._loop(
            s, [_variable(w, axis, inside) for w, axis in zip(s.variables, axes, strict=True)]
        )
        if isinstance(over, P.Schedule):
            return [*before, P.Each(over, tuple(w.text for w in s.variables), body, s.span)]
        return [*before, P.Blocks(over, s.variables[0].text, body, s.span, within, bounds)]

    def _inside(self, within: str, axis: P.Axis, span: Span) -> P.Bounds | None:
        """The bounds of a loop over the blocks of a block."""
        from tkc.frontend.spans import inside

        block = self.scope.names[within].meaning
        return inside(block, axis, span) if isinstance(block, Block) else None

    def _counts(self, s: S.For) -> bool:
        """Whether a loop is over integers: `range(n)`, `unroll(n)`, or listed ones."""
        first = s.over[0].value
        if any(a.name is not None for a in s.over):
            return False
        if len(s.over) > 1 or isinstance(first, S.Integer):
            return True
        called = isinstance(first, S.Call) and isinstance(first.function, S.Name)
        name = first.function.text if called else ""  # type: ignore[union-attr]
        return name in ("range", "unroll") and name not in self.scope.names

    def _range(self, s: S.For) -> P.Schedule | P.Axis:
        """What the loop runs over."""
        named = next((a.name for a in s.over if a.name is not None), None)
        if named is not None:
            self._later(f"`{named.text} = ...` in a `for`", named.span)
        first = s.over[0].value
        if len(s.over) > 1 or isinstance(first, S.Integer):
            self._later("a loop over listed values", first.span)
        if isinstance(first, S.Call) and isinstance(first.function, S.Name):
            name = first.function.text
            if name in ("tiles", "chain") and name not in self.scope.names:
                told = (
                    f"`{name}(...)` is of a schedule, which has a name that roles share: `schedule work: … in "
                    f"{name}(...)` in the kernel's body, and here `for … in work:`"
                )
                self._fail("TK106", told, first.span)
            if name not in self.scope.names:
                return self._part(s, first) or self.declared.axis(first)
            if isinstance(self.scope.names[name].meaning, Unknown):
                raise Failed
            if self.scope.names[name].what == "schedule with arguments":
                return self._keys(s, self.scope.names[name].meaning, first.arguments)
            if isinstance(self.scope.names[name].meaning, P.Schedule):
                self._fail(
                    "TK116", f"schedule {name} takes no arguments: `for ... in {name}:`", first.span
                )
        if isinstance(first, S.Name):
            meaning = self.scope.find(
                first.text, first.span, ("schedule", "schedule with arguments")
            )
            entry = self.scope.names.get(first.text)
            if entry is not None and entry.what == "schedule with arguments":
                return self._keys(s, meaning, ())
            if isinstance(meaning, P.Schedule):
                return meaning
            if isinstance(meaning, Unknown):
                raise Failed
        found = describe(self.values.evaluate(first))
        self._fail(
            "TK106",
            f"a loop runs over a schedule or over `blocks(extent, size)`, not over {found}",
            first.span,
        )

    def _keys(self, s: S.For, keys: Any, arguments: tuple[S.Argument, ...]) -> P.Axis:
        """`for j in keys(m)`."""
        from tkc.frontend.spans import bounds

        self.scope.followed.add(keys.name)
        self.bounds[s.span] = bounds(self.values, keys, arguments, s.over[0].value.span)
        return keys.axis

    def _part(self, s: S.For, e: S.Call) -> P.Axis | None:
        """`blocks(s, BK)`, where s is a block: the blocks of its axis that lie in it."""
        if len(e.arguments) != 2 or not isinstance(e.arguments[0].value, S.Name):
            return None
        entry = self.scope.names.get(e.arguments[0].value.text)
        if entry is None or not isinstance(entry.meaning, Block):
            return None
        block = entry.meaning
        size = self.values.number(e.arguments[1].value, "the size of a block")
        if block.axis.size % size:
            self._fail(
                "TK117",
                f"blocks of {size} do not fill block {block.name} of {block.axis.size}: "
                "it is no multiple",
                e.arguments[1].value.span,
            )
        self.within[s.span] = block.name
        return P.Axis(block.axis.extent, size)

    def _loop(self, s: S.For, meanings: list[Any]) -> tuple[list[P.Statement], P.Body]:
        """What stands before the loop, and its body, in which the loop's variables are defined."""
        return settle(self.scope, s.span, lambda: self._round(s, meanings))

    def _round(self, s: S.For, meanings: list[Any]) -> P.Body:
        scope = self.scope
        outer, cleared = dict(scope.names), set(scope.cleared)
        for word, meaning in zip(s.variables, meanings, strict=True):
            scope.define(word, "loop variable", meaning)
        scope.loops.append(s.span)
        body = self.role.body(s.body)
        scope.loops.pop()
        scope.cleared = cleared
        inner, scope.names = scope.names, outer
        leave(scope, outer, inner)
        return body

    def _fail(self, code: str, message: str, span: Span, *notes: Any) -> NoReturn:
        self.scope.error(code, message, span, *notes)
        raise Failed

    def _later(self, what: str, span: Span) -> NoReturn:
        self.scope.later(what, span)
        raise Failed


def _variable(word: S.Word, axis: P.Axis, bounds: P.Bounds | None) -> Block | Index:
    """What a loop's variable means."""
    if axis.single:
        return Index(word.text, axis, word.span)
    return Block(word.text, axis, word.span, None, bounds)
