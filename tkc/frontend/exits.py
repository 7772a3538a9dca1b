"""`break` and `continue` as conditions: what stands behind one runs where its condition does not hold (R8).

    for m in work:                      stop = 0
        if c: break            →        for m in work:
        if d: continue                      if stop == 0:
        put p: ...                              if c: stop = 1
                                                if stop == 0:
                                                    if not d: put p: ...

So items keep to loops and conditions alone, which all roles of a pipe can compare (R6). Turns after a `break` do
nothing; a `while` has none. A `continue` inside a put or get is a variable, too, which each turn sets to 0: the block
ends before the turn does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import tkc.frontend.explicit_syntax as E
import tkc.frontend.syntax as S
from tkc.frontend.scope import Failed, Scope
from tkc.frontend.syntax import Span

WORDS = ("break", "continue")
STOP = ".stop"
"""What the names of the variables begin with that say that a loop has been left."""


def is_exit(s: Any) -> bool:
    return isinstance(s, S.Evaluate) and isinstance(s.value, S.Name) and s.value.text in WORDS


def exits(block: S.Block) -> Iterator[S.Evaluate]:
    """The words that leave the loop whose body a block is, wherever they stand in it."""
    for s in block:
        if is_exit(s):
            yield s
        elif isinstance(s, S.Branch):
            for arm in (*(b for _, b in s.arms), s.otherwise or ()):
                yield from exits(arm)
        elif hasattr(s, "body") and not isinstance(s, S.For | E.While):
            yield from exits(s.body)


def _running(flag: str, at: Span) -> S.Expression:
    return S.Binary("==", S.Name(flag, at), S.Integer(0, at), at)


def _assign(flag: str, value: int, at: Span) -> S.Assign:
    return S.Assign(S.Name(flag, at), S.Integer(value, at), at)


def _in_transfers(block: S.Block, inside: bool = False) -> Iterator[S.Evaluate]:
    """The words that leave a loop, or its turn, from inside a put or get."""
    for s in block:
        if inside and is_exit(s):
            yield s
        elif isinstance(s, S.Branch):
            for arm in (*(b for _, b in s.arms), s.otherwise or ()):
                yield from _in_transfers(arm, inside)
        elif isinstance(s, S.Transfer):
            yield from _in_transfers(s.body, True)


class _Flags(NamedTuple):
    """The variables that say that a loop has been left, and that its turn has; `turn` is "" where conditions do."""

    loop: str
    turn: str

    def of(self, word: str) -> str:
        return self.loop if word == "break" else self.turn


class Exits:
    """Rewrites the loops of a role."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.numbers = count(1)

    def without(self, loop: S.For | E.While) -> list[Any]:
        """The loop, and what stands ahead of it. Raises Failed where a word stands where it cannot be followed."""
        found = list(exits(loop.body))
        if not found:
            return [loop]
        at, flags = loop.span, _Flags("", "")
        if any(s.value.text == "break" for s in found):  # type: ignore[attr-defined]
            flags = flags._replace(loop=self._flag())
        if any(s.value.text == "continue" for s in _in_transfers(loop.body)):  # type: ignore[attr-defined]
            flags = flags._replace(turn=self._flag())
        body = self._block(loop.body, flags)
        if flags.turn:
            turns = S.Branch(((_running(flags.turn, at), body),), None, at)
            body = (_assign(flags.turn, 0, at), turns)
        if not flags.loop:
            return [loop._replace(body=body)]
        running = _running(flags.loop, at)
        body = (S.Branch(((running, body),), None, at),)
        ahead = _assign(flags.loop, 0, at)
        if isinstance(loop, E.While):
            both = S.Binary("and", running, loop.condition, loop.condition.span)
            return [ahead, loop._replace(condition=both, body=body)]
        return [ahead, loop._replace(body=body)]

    def _flag(self) -> str:
        return f"{STOP}.{next(self.numbers)}"

    def _block(self, block: S.Block, flags: _Flags) -> S.Block:
        made: list[Any] = []
        for i, s in enumerate(block):
            rest = block[i + 1 :]
            if is_exit(s):
                if rest:
                    self._fail("TK101", f"nothing behind `{s.value.text}` runs", rest[0].span)
                return (*made, *self._left(s, flags))
            found = list(exits((s,)))
            if not found:
                made.append(s)
                continue
            if not isinstance(s, S.Branch | S.Transfer):
                self._fail(
                    "TK110",
                    f"not supported yet: `{found[0].value.text}` inside an election: test ahead of it, or behind it",  # type: ignore[attr-defined]
                    found[0].span,
                )
            set_ = dict.fromkeys(flags.of(x.value.text) for x in found)  # type: ignore[attr-defined]
            if "" in set_:
                assert isinstance(s, S.Branch)
                return (*made, self._branch(s, rest, flags))
            made.append(self._leaving(s, flags))
            behind = self._block(rest, flags) if rest else ()
            for flag in set_ if rest else ():
                behind = (S.Branch(((_running(flag, s.span), behind),), None, s.span),)
            return (*made, *behind)
        return tuple(made)

    def _leaving(self, s: S.Branch | S.Transfer, flags: _Flags) -> S.Branch | S.Transfer:
        """A statement in which variables say that the loop, or its turn, is left."""
        if isinstance(s, S.Branch):
            arms = tuple((c, self._block(b, flags)) for c, b in s.arms)
            last = None if s.otherwise is None else self._block(s.otherwise, flags)
            return s._replace(arms=arms, otherwise=last)
        for item in s.items:
            entry = self.scope.names.get(item.pipe.name.text)
            if (
                item.direction == "get"
                and entry is not None
                and getattr(entry.meaning, "turns", False)
            ):
                word = next(exits((s,)))
                self._fail(
                    "TK110",
                    f"not supported yet: `{word.value.text}` inside a get of pipe {item.pipe.name.text}, which goes by "  # type: ignore[attr-defined]
                    "turns: the other roles do not come there",
                    word.span,
                )
        return s._replace(body=self._block(s.body, flags))

    def _branch(self, s: S.Branch, rest: S.Block, flags: _Flags) -> S.Branch:
        """A condition of which some arms leave the loop; one way at most goes on to the rest."""
        ((condition, only),) = s.arms if len(s.arms) == 1 else ((s.arms[0][0], ()),)
        if (
            s.otherwise is None and len(only) == 1 and is_exit(only[0])
        ):  # items behind it stand in the first way
            unless = S.Unary("not", condition, condition.span)
            return S.Branch(((unless, self._block(rest, flags)),), None, s.span)
        ways = [*(b for _, b in s.arms), s.otherwise or ()]
        on = [i for i, b in enumerate(ways) if not (b and is_exit(b[-1]))]
        if len(on) > 1 and rest:
            word = next(exits((s,)))
            self._fail(
                "TK110",
                f"not supported yet: `{word.value.text}` in a condition of which two other ways go on",  # type: ignore[attr-defined]
                word.span,
            )
        made = [self._block((*b, *(rest if i in on else ())), flags) for i, b in enumerate(ways)]
        *arms, otherwise = made
        conditions = [c for c, _ in s.arms]
        return s._replace(arms=tuple(zip(conditions, arms, strict=True)), otherwise=otherwise)

    def _left(self, s: S.Evaluate, flags: _Flags) -> tuple[Any, ...]:
        flag = flags.of(s.value.text)  # type: ignore[attr-defined]
        return (_assign(flag, 1, s.span),) if flag else ()

    def _fail(self, code: str, told: str, span: Span) -> None:
        self.scope.error(code, told, span)
        raise Failed
