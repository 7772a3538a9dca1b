"""What the two halves of a role that runs ahead of itself may not share (`ahead.py`).

A statement that both have, a copy, must give both the same and do nothing else. What one half writes, the other may
neither read nor write: they are roles of their own, and nothing orders them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tkc.frontend.explicit_syntax as E
import tkc.frontend.syntax as S
from tkc.frontend.effects import (
    OF_THREADS,
    base,
    header,
    names_in,
    once,
    statements,
    variable,
    written,
)
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.inline import Function

Told = tuple[str, Span]
"""What is wrong, and where."""
INSTEAD = "give each its own variable, or leave `ahead` out"


class Halves:
    """The tiles and tensors of a role, and what its halves may do with them."""

    def __init__(
        self, kernel: S.Kernel, role: S.Role, functions: Mapping[str, Function | None]
    ) -> None:
        self.tree = kernel
        self.role = role
        self.functions = functions
        self.pipes = {p.name.name.text: p for p in kernel.body if isinstance(p, S.Pipe)}
        self.items = [
            i for s in statements(role.body) if isinstance(s, S.Transfer) for i in s.items
        ]
        self.aliases = self._aliases()
        declared = [r.name for s in kernel.body if isinstance(s, S.Declare) for r in s.names]
        body: tuple[Any, ...] = kernel.body
        barriers = [s.name for s in body if isinstance(s, E.Barrier)]
        tensors = [p.name for p in kernel.parameters]
        self.cells: set[str] = {*self.aliases, *(w.text for w in (*declared, *barriers, *tensors))}
        """What statements write, where it is no variable."""

    def tiles(self, item: S.Item) -> set[str]:
        """What a block calls the tiles of one of its items."""
        return {item.alias.text} if item.alias is not None else self._of_pipe(item)

    def _of_pipe(self, item: S.Item) -> set[str]:
        pipe = self.pipes.get(item.pipe.name.text)
        return set() if pipe is None else {t.name.text for t in pipe.tiles}

    def _aliases(self) -> dict[str, set[str]]:
        """Tiles by the names that gets give them."""
        made: dict[str, set[str]] = {}
        for i in self.items:
            if i.alias is not None:
                made.setdefault(i.alias.text, set()).update(self._of_pipe(i))
        return made

    def _meant(self, name: str) -> set[str]:
        return self.aliases.get(name, {name})

    def refused(
        self,
        halves: Mapping[bool, S.Block],
        copies: Mapping[bool, set[int]],
        ahead: Sequence[str],
    ) -> Told | None:
        """The first thing that cannot be, if any; `copies` by identity of the statement in its half."""
        names = (
            f"the rest of role {self.role.name.text}",
            f"the puts of {', '.join(f'`{x}`' for x in ahead)}",
        )
        unsteady = self._unsteady()
        for half, body in halves.items():
            for s in statements(body):
                if id(s) in copies[half]:
                    told = self._copy(s, f"{names[True]} and {names[False]} both need", unsteady)
                    if told is not None:
                        return told
        return self._order(halves[True], halves[False], names)

    def _unsteady(self) -> set[str]:
        """Tiles and tensors that somebody writes, but for those that the role gets."""
        got = {x for i in self.items if i.direction == "get" for x in self.tiles(i)}
        wrote = {
            name
            for role in self.tree.body
            if isinstance(role, S.Role)
            for s in statements(role.body)
            for name in written(s, self.functions)
        }
        return (wrote & self.cells) - got

    def _copy(self, s: Any, both: str, unsteady: set[str]) -> Told | None:
        if isinstance(s, E.Elect):
            return (
                f"not supported yet: {both} what this elected thread does, and have threads of their own; give a "
                "variable its value outside an election, or leave `ahead` out",
                s.span,
            )
        word = variable(s)
        both += f" `{word.text}`" if word is not None else " this condition"
        for e in header(s):
            for call in once(e, self.functions):
                return (
                    f"not supported yet: {both}, and `{base(call.function)}` would run in each; call it in another "
                    f"role and hand the value over in a pipe, {INSTEAD}",
                    call.span,
                )
            for name in names_in(e):
                if name in unsteady or name in OF_THREADS:
                    why = (
                        "is written meanwhile" if name in unsteady else "is of the threads of each"
                    )
                    return (
                        f"not supported yet: {both}, and `{name}` {why}: they could see different values; {INSTEAD}",
                        e.span,
                    )
        return None

    def _order(self, ahead: S.Block, rest: S.Block, names: tuple[str, str]) -> Told | None:
        for body, other, verbs in (
            (ahead, rest, ("writes", "use")),
            (rest, ahead, ("write", "uses")),
        ):
            here, there = names if body is rest else names[::-1]
            wrote = {
                x
                for s in statements(other)
                for n in written(s, self.functions)
                for x in self._meant(n)
            } & self.cells
            for s in statements(body):
                for e in header(s):
                    for name in names_in(e):
                        if not wrote.isdisjoint(self._meant(name)):
                            return (
                                f"not supported yet: {there} {verbs[0]} `{name}`, which {here} {verbs[1]} here, and "
                                "nothing orders them where one runs ahead; hand it over in a pipe, use another, or "
                                "leave `ahead` out",
                                e.span,
                            )
        return None
