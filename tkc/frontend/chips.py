"""`on(sm_90)`: which values of params and of roles a target takes, before anything else reads them.

A family is named as its first target is: `on(sm_100)` serves sm_100a and, as PTX's families do, later chips of the same
major number, sm_103a and sm_107a among them; of several that serve a target the nearest counts. What is not taken stays
beside what is, in `instead`, so that it is checked all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import tkc.frontend.syntax as S
from tkc.diagnostics import Note, nearest
from tkc.frontend.source import Source
from tkc.frontend.syntax import Span, Word
from tkc.ir.isa.targets import FAMILIES, TARGETS, families_of

Valued = TypeVar("Valued", S.Instead, S.Setting)


def chosen(source: Source, kernel: S.Kernel, target: str | None) -> S.Kernel:
    """The kernel with the values that `target` takes; without a target with those of all other chips.

    Reports families that there are not (TK102), and such as are named twice for one value (TK103).
    """
    choice = _Choice(source, families_of(target) if target is not None else ())
    return kernel._replace(body=tuple(map(choice.statement, kernel.body)))


class _Choice:
    """`mine` are the families that serve the target, nearest first."""

    def __init__(self, source: Source, mine: tuple[str, ...]) -> None:
        self.source = source
        self.mine = mine

    def statement(self, s: Any) -> Any:
        if isinstance(s, S.Param):
            return s._replace(bindings=tuple(map(self._binding, s.bindings)))
        return self._role(s) if isinstance(s, S.Role) else s

    def _binding(self, b: S.Binding) -> S.Binding:
        seen: dict[str, Span] = {}
        for other in b.instead:
            self._known(f"`{b.name.text}`", other.families, seen)
        taken = self._nearest(b.instead)
        if taken is None:
            return b
        left = (S.Instead((), b.value, b.value.span), *(x for x in b.instead if x is not taken))
        return b._replace(value=taken.value, instead=left)

    def _role(self, s: S.Role) -> S.Role:
        by_name: dict[str, list[S.Setting]] = {}
        for x in s.settings:
            by_name.setdefault(x.name.text, []).append(x)
        taken: list[S.Setting] = []
        left: list[S.Setting] = []
        for name, given in by_name.items():
            seen: dict[str, Span] = {}
            for x in given:
                self._known(f"`{name}` of role {s.name.text}", x.families, seen)
            of_all = [x for x in given if not x.families]
            for x in of_all[1:]:
                place = self.source.place(x.name.span)
                self.source.found.error("TK103", f"`{name}` is set twice", place)
            best = self._nearest(given) or next(iter(of_all), None)
            taken += [x for x in given if x is best]
            left += [x for x in given if x is not best]
        return s._replace(settings=tuple(taken), instead=tuple(left))

    def _nearest(self, given: Iterable[Valued]) -> Valued | None:
        """What is said for the nearest family of the target; None where nothing is."""
        for family in self.mine:
            for x in given:
                if any(word.text == family for word in x.families):
                    return x
        return None

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
