"""`on(sm_90)`: which values of params and of roles a target takes, before anything else reads them.

A family is named as its first target is: `on(sm_100)` serves sm_100a and, as PTX's families do, later chips of the same
major number, sm_103a and sm_107a among them; of several that serve a target the nearest counts. What is not taken stays
beside what is, in `instead`, so that it is checked all the same.
"""

from __future__ import annotations

from typing import Any

import tkc.frontend.syntax as S
from tkc.diagnostics import Note, nearest
from tkc.frontend.source import Source
from tkc.frontend.syntax import Span, Word
from tkc.ir.isa.targets import FAMILIES, TARGETS, families_of


def chosen(source: Source, kernel: S.Kernel, target: str | None) -> S.Kernel:
    """The kernel with the values that `target` takes; without a target with those of all other chips.

    Reports families that there are not (TK102), and such as are named twice for one value (TK103).
    """
    choice = _Choice(source, families_of(target) if target is not None else ())
    return kernel._replace(body=tuple(map(choice.statement, kernel.body)))


class _Choice:
    def __init__(self, source: Source, mine: tuple[str, ...]) -> None:
        self.source = source
        self.rank = {family: -i for i, family in enumerate(mine)}
        """Families that serve the target; the nearest has the highest rank."""

    def statement(self, s: Any) -> Any:
        if isinstance(s, S.Param):
            return s._replace(bindings=tuple(map(self._binding, s.bindings)))
        return self._role(s) if isinstance(s, S.Role) else s

    def _binding(self, b: S.Binding) -> S.Binding:
        seen: dict[str, Span] = {}
        for other in b.instead:
            self._known(f"`{b.name.text}`", other.families, seen)
        best = self._best([x.families for x in b.instead])
        if best is None:
            return b
        base = S.Instead((), b.value, b.value.span)
        return b._replace(
            value=b.instead[best].value, instead=(base, *_without(b.instead, b.instead[best]))
        )

    def _role(self, s: S.Role) -> S.Role:
        """Of each setting the value that counts; one that is set twice for all chips stays so, for `check` to say."""
        seen: dict[str, dict[str, Span]] = {}
        for x in s.settings:
            name = x.name.text
            here = seen.setdefault(name, {})
            self._known(f"`{name}` of role {s.name.text}", x.families, here)
            if not x.families and here.setdefault("", x.name.span) is not x.name.span:
                told = f"`{name}` is set twice"  # as `check` says, whatever this target takes
                self.source.found.error("TK103", told, self.source.place(x.name.span))
        taken = list(s.settings)
        for name in seen:
            some = [x for x in taken if x.name.text == name and x.families]
            best = self._best([x.families for x in some])
            keeps = None if best is None else some[best]
            taken = [
                x
                for x in taken
                if x.name.text != name or (x is keeps if keeps is not None else not x.families)
            ]
        left = tuple(x for x in s.settings if all(x is not t for t in taken))
        return s._replace(settings=tuple(taken), instead=left)

    def _best(self, given: list[tuple[Word, ...]]) -> int | None:
        """Which of several lists of families serves the target best; None where none does."""
        ranks = [max((self.rank.get(w.text, -99) for w in words), default=-99) for words in given]
        best = max(ranks, default=-99)
        return ranks.index(best) if best > -99 else None

    def _known(self, what: str, families: tuple[Word, ...], seen: dict[str, Span]) -> None:
        for word in families:
            name = word.text
            if name not in FAMILIES:
                self._unknown(word)
            elif name in seen:
                before = Note("set here before", self.source.place(seen[name]))
                place = self.source.place(word.span)
                self.source.found.error("TK103", f"{what} is set twice on {name}", place, before)
            else:
                seen[name] = word.span

    def _unknown(self, word: Word) -> None:
        if word.text in TARGETS:
            family = families_of(word.text)[0]
            told = f"`{word.text}` is a target, not a family of chips; its family is `{family}`"
        else:
            near = nearest(word.text, [*FAMILIES])
            hint = f"did you mean `{near}`" if near else f"there are {', '.join(FAMILIES)}"
            told = f"no family of chips is called `{word.text}`; {hint}"
        self.source.found.error("TK102", told, self.source.place(word.span))


def _without(given: tuple[S.Instead, ...], one: S.Instead) -> tuple[S.Instead, ...]:
    return tuple(x for x in given if x is not one)
