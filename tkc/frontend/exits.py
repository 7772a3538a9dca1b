"""`break` and `continue` as conditions: what stands behind one runs where its condition does not hold (R8).

    for m in work:                      stop = 0
        if c: break            →        for m in work:
        if d: continue                      if stop == 0:
        put p: ...                              if c: stop = 1
                                                if stop == 0:
                                                    if not d: put p: ...

So items keep to loops and conditions alone, which all roles of a pipe can compare (R6). Turns after a `break` do
nothing; a `while` has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

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
        if not any(s.value.text == "break" for s in found):  # type: ignore[attr-defined]
            return [loop._replace(body=self._block(loop.body, ""))]
        flag, at = f"{STOP}.{next(self.numbers)}", loop.span
        running = _running(flag, at)
        body: Any = (S.Branch(((running, self._block(loop.body, flag)),), None, at),)
        ahead = S.Assign(S.Name(flag, at), S.Integer(0, at), at)
        if isinstance(loop, E.While):
            both = S.Binary("and", running, loop.condition, loop.condition.span)
            return [ahead, loop._replace(condition=both, body=body)]
        return [ahead, loop._replace(body=body)]

    def _block(self, block: S.Block, flag: str) -> S.Block:
        made: list[Any] = []
        for i, s in enumerate(block):
            rest = block[i + 1 :]
            if is_exit(s):
                if rest:
                    self._fail("TK101", f"nothing behind `{s.value.text}` runs", rest[0].span)
                return (*made, *self._left(s, flag))
            if not any(exits((s,))):
                made.append(s)
                continue
            if not isinstance(s, S.Branch):
                word = next(exits((s,)))
                self._fail(
                    "TK110",
                    f"not supported yet: `{word.value.text}` inside a put, a get or an election: test ahead of it"  # type: ignore[attr-defined]
                    ", or behind it",
                    word.span,
                )
            words = {x.value.text for x in exits((s,))}  # type: ignore[attr-defined]
            if words == {"break"}:
                arms = tuple((c, self._block(b, flag)) for c, b in s.arms)
                last = None if s.otherwise is None else self._block(s.otherwise, flag)
                made.append(s._replace(arms=arms, otherwise=last))
                if rest:
                    behind = ((_running(flag, s.span), self._block(rest, flag)),)
                    made.append(S.Branch(behind, None, s.span))
                return tuple(made)
            return (*made, self._branch(s, rest, flag))
        return tuple(made)

    def _branch(self, s: S.Branch, rest: S.Block, flag: str) -> S.Branch:
        """A condition of which some arms leave the loop; one way at most goes on to the rest."""
        ((condition, only),) = s.arms if len(s.arms) == 1 else ((s.arms[0][0], ()),)
        if (
            s.otherwise is None and len(only) == 1 and is_exit(only[0])
        ):  # items behind it stand in the first way
            unless = S.Unary("not", condition, condition.span)
            return S.Branch(((unless, self._block(rest, flag)),), None, s.span)
        ways = [*(b for _, b in s.arms), s.otherwise or ()]
        on = [i for i, b in enumerate(ways) if not (b and is_exit(b[-1]))]
        if len(on) > 1 and rest:
            word = next(exits((s,)))
            self._fail(
                "TK110",
                f"not supported yet: `{word.value.text}` in a condition of which two other ways go on",  # type: ignore[attr-defined]
                word.span,
            )
        made = [self._block((*b, *(rest if i in on else ())), flag) for i, b in enumerate(ways)]
        *arms, otherwise = made
        conditions = [c for c, _ in s.arms]
        return s._replace(arms=tuple(zip(conditions, arms, strict=True)), otherwise=otherwise)

    def _left(self, s: S.Evaluate, flag: str) -> tuple[Any, ...]:
        if s.value.text == "continue":  # type: ignore[attr-defined]
            return ()
        return (S.Assign(S.Name(flag, s.span), S.Integer(1, s.span), s.span),)

    def _fail(self, code: str, told: str, span: Span) -> None:
        self.scope.error(code, told, span)
        raise Failed
