"""`for j in keys(m), ahead = score:` as a role of its own, which puts the items of `score` as far ahead as slots allow.

Role `mma` becomes two: `mma.ahead` has the loops and gets that its puts of `score` stand in and need, `mma` all the
rest. So the product of step j + 1 waits for nothing that step j's other products wait for; what both get is released
when both are done with it. Nothing after this knows of it: items, agreement, ownership, order are those of two roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import tkc.frontend.syntax as S
from tkc.frontend.source import Source
from tkc.frontend.syntax import Span, Word

AHEAD = "ahead"
EXITS = ("break", "continue")


class _Wrong(Exception):
    """What was wrong has been reported."""


def runs_ahead(kernel: S.Kernel) -> bool:
    """Whether a loop of the kernel says `ahead = ...`."""
    return any(_said(s) for role in _roles(kernel) for s in _statements(role.body))


def separate(source: Source, kernel: S.Kernel) -> S.Kernel | None:
    """The kernel whose loops say no `ahead`; None where one says what cannot be, which is reported."""
    for role in _roles(kernel):
        if any(_said(s) for s in _statements(role.body)):
            try:
                kernel = _Separation(source, kernel, role).kernel()
            except _Wrong:
                return None
    return kernel


def _roles(kernel: S.Kernel) -> list[S.Role]:
    return [s for s in kernel.body if isinstance(s, S.Role)]


def _said(s: Any) -> list[S.Argument]:
    """What a loop says runs ahead."""
    over = s.over if isinstance(s, S.For) else ()
    return [a for a in over if a.name is not None and a.name.text == AHEAD]


def _blocks(s: Any) -> Iterator[S.Block]:
    """The blocks directly in a statement."""
    if isinstance(s, S.Branch):
        yield from (body for _, body in s.arms)
        yield s.otherwise or ()
    elif isinstance(body := getattr(s, "body", None), tuple):
        yield body


def _statements(body: S.Block) -> Iterator[Any]:
    """All statements of a block, wherever in it."""
    for s in body:
        yield s
        for inner in _blocks(s):
            yield from _statements(inner)


def names_in(x: Any) -> Iterator[str]:
    """The names that a piece of the tree says."""
    if isinstance(x, S.Name | Word):
        yield x.text
    elif isinstance(x, tuple) and not isinstance(x, Span):
        for part in x:
            yield from names_in(part)


def _exit(s: Any) -> bool:
    return isinstance(s, S.Evaluate) and isinstance(s.value, S.Name) and s.value.text in EXITS


class _Separation:
    """One role that runs ahead of itself."""

    def __init__(self, source: Source, kernel: S.Kernel, role: S.Role) -> None:
        self.source = source
        self.tree = kernel
        self.role = role
        self.pipes = {p.name.name.text: p for p in kernel.body if isinstance(p, S.Pipe)}
        self.loops = [s for s in _statements(role.body) if _said(s)]
        self.ahead = {name: a for s in self.loops for a in _said(s) for name in [self._pipe(a)]}
        self.gotten: dict[bool, set[str]] = {True: set(), False: set()}
        """Pipes that the role ahead, and the rest, get."""
        self.needed: set[str] = set()
        """Names that the role ahead uses."""
        self.leader = f"{role.name.text}.{AHEAD}"

    def kernel(self) -> S.Kernel:
        self._check()
        for ahead in (True, False):
            used = {p for p, uses in self._gets() if uses[ahead]}
            everywhere = {p for p, _ in self._gets()}
            unread = everywhere - {p for p, uses in self._gets() if any(uses)}
            self.gotten[ahead] = used if ahead else used | unread
        self._settle()
        body: list[Any] = []
        for s in self.tree.body:
            if isinstance(s, S.Pipe):
                body.append(self._ends(s))
            elif s is self.role:
                name = self.role.name._replace(text=self.leader)
                body += [
                    self.role._replace(name=name, body=self._of_leader(self.role.body)),
                    self.role._replace(body=self._of_rest(self.role.body)),
                ]
            else:
                body.append(s)
        return self.tree._replace(body=tuple(body))

    # what may be said

    def _pipe(self, said: S.Argument) -> str:
        name = said.value.text if isinstance(said.value, S.Name) else ""
        if name not in self.pipes:
            told = self.source.excerpt(said.value.span)
            there = ", ".join(self.pipes) or "none"
            self._fail(
                "TK102",
                f"`ahead = ...` names a pipe that the loop puts, and `{told}` is none; pipes are {there}",
                said.value.span,
            )
        return name

    def _check(self) -> None:
        """Puts of what runs ahead stand in a loop that says so, each alone; gets are of all items."""
        inside = {id(s) for loop in self.loops for s in _statements(loop.body)}
        found = set[str]()
        for s in _statements(self.role.body):
            if isinstance(s, S.Transfer):
                self._check_items(s, id(s) in inside)
                found |= {i.pipe.name.text for i in s.items if i.direction == "put"}
        for name, said in self.ahead.items():
            if name not in found:
                self._fail(
                    "TK102",
                    f"role {self.role.name.text} puts no item of pipe {name} in this loop, so none can be ahead",
                    said.value.span,
                )

    def _check_items(self, s: S.Transfer, inside: bool) -> None:
        puts = [i for i in s.items if i.direction == "put"]
        led = [i for i in puts if i.pipe.name.text in self.ahead]
        if led and len(led) < len(s.items):
            self._fail(
                "TK110",
                f"not supported yet: `ahead = {led[0].pipe.name.text}` of a put together with other puts and gets; a "
                "put of its own, inside the gets that it needs, fits",
                s.span,
            )
        if led and not inside:
            self._fail(
                "TK110",
                f"not supported yet: a put of {led[0].pipe.name.text} outside the loop that runs it ahead",
                s.span,
            )
        for item in s.items:
            pipe = self.pipes.get(item.pipe.name.text)
            if item.direction == "get" and pipe is not None and pipe.turns is not None:
                self._fail(
                    "TK110",
                    f"not supported yet: `ahead` in a role that takes turns at pipe {item.pipe.name.text}",
                    item.span,
                )

    def _led(self, s: Any) -> bool:
        """Whether a statement is a put of what runs ahead."""
        return isinstance(s, S.Transfer) and any(
            i.direction == "put" and i.pipe.name.text in self.ahead for i in s.items
        )

    def _fail(self, code: str, message: str, span: Span) -> NoReturn:
        self.source.found.error(code, message, self.source.place(span))
        raise _Wrong

    # who needs what

    def _gets(self) -> Iterator[tuple[str, tuple[bool, bool]]]:
        """Each item that the role gets: its pipe, whether the rest uses its tiles, whether the role ahead does."""
        for s in _statements(self.role.body):
            if isinstance(s, S.Transfer):
                for item in s.items:
                    if item.direction == "get":
                        yield item.pipe.name.text, self._uses(s, item)

    def _uses(self, s: S.Transfer, item: S.Item) -> tuple[bool, bool]:
        tiles = self._tiles(item)
        both = [False, False]
        self._look(s.body, tiles, both)
        return both[0], both[1]

    def _look(self, body: S.Block, tiles: set[str], both: list[bool]) -> None:
        for s in body:
            if self._led(s):
                both[True] |= not tiles.isdisjoint(names_in(s.body))
                continue
            blocks = [*_blocks(s)]
            if not blocks:
                both[False] |= not tiles.isdisjoint(names_in(s))
            for inner in blocks:
                self._look(inner, tiles, both)

    def _tiles(self, item: S.Item) -> set[str]:
        if item.alias is not None:
            return {item.alias.text}
        pipe = self.pipes.get(item.pipe.name.text)
        return set() if pipe is None else {t.name.text for t in pipe.tiles}

    def _settle(self) -> None:
        """The names that the role ahead uses, with all that its variables are made of."""
        known = -1
        while len(self.needed) > known:
            known = len(self.needed)
            self.needed |= {*names_in(self._of_leader(self.role.body))}

    def _ends(self, p: S.Pipe) -> S.Pipe:
        """A pipe's ends, with the role ahead where it puts or gets."""
        name, mine = p.name.name.text, self.role.name.text

        def ends(of: Iterable[S.Reference], roles: tuple[bool, ...]) -> tuple[S.Reference, ...]:
            made: list[S.Reference] = []
            for r in of:
                if r.name.text != mine or r.part is not None:
                    made.append(r)
                    continue
                leader = r._replace(name=r.name._replace(text=self.leader))
                made += [leader if ahead else r for ahead in roles]
            return tuple(made)

        gets = tuple(a for a in (True, False) if name in self.gotten[a])
        return p._replace(
            producers=ends(p.producers, (name in self.ahead,)),
            consumers=ends(p.consumers, gets or (False,)),
        )

    # the two bodies

    def _of_leader(self, body: S.Block) -> S.Block:
        """What the role ahead does of a block: its puts, and all that says how often and with what."""
        made: list[Any] = []
        for s in body:
            if self._led(s):
                made.append(s)
            elif isinstance(s, S.Transfer):
                made += self._items(s, self._of_leader(s.body), True)
            elif isinstance(s, S.Branch):
                arms = tuple((c, self._of_leader(b)) for c, b in s.arms)
                otherwise = None if s.otherwise is None else self._of_leader(s.otherwise)
                if any(b for _, b in arms) or otherwise:
                    made.append(s._replace(arms=arms, otherwise=otherwise))
            elif isinstance(getattr(s, "body", None), tuple):
                inner = self._of_leader(s.body)
                if any(isinstance(x, S.Transfer) for x in _statements(inner)):
                    made.append(self._plain(s)._replace(body=inner))
            elif _exit(s) or (
                isinstance(s, S.Assign | S.Update)
                and isinstance(s.target, S.Name)
                and s.target.text in self.needed
            ):
                made.append(s)
        return tuple(made)

    def _of_rest(self, body: S.Block) -> S.Block:
        made: list[Any] = []
        for s in body:
            if self._led(s):
                continue
            if isinstance(s, S.Transfer):
                made += self._items(s, self._of_rest(s.body), False)
            elif isinstance(s, S.Branch):
                arms = tuple((c, self._of_rest(b)) for c, b in s.arms)
                otherwise = None if s.otherwise is None else self._of_rest(s.otherwise)
                if any(b for _, b in arms) or otherwise:
                    made.append(s._replace(arms=arms, otherwise=otherwise))
            elif isinstance(getattr(s, "body", None), tuple):
                inner = self._of_rest(s.body)
                if inner or not s.body:
                    made.append(self._plain(s)._replace(body=inner))
            else:
                made.append(s)
        return tuple(made)

    @staticmethod
    def _plain(s: Any) -> Any:
        """A loop without what it says runs ahead."""
        if not isinstance(s, S.For):
            return s
        return s._replace(over=tuple(a for a in s.over if a.name is None or a.name.text != AHEAD))

    def _items(self, s: S.Transfer, body: S.Block, ahead: bool) -> list[Any]:
        """A put or get with the items that the one role has: items that it only counts are released at once."""
        puts = [i for i in s.items if i.direction == "put"]
        if ahead and puts:
            kept = [i for i in s.items if i.direction == "get"]
        else:
            kept = [*s.items]
        kept = [i for i in kept if i.direction == "put" or i.pipe.name.text in self.gotten[ahead]]
        if not kept:
            return [*body]
        within = {
            i.pipe.name.text
            for x in _statements(body)
            if isinstance(x, S.Transfer)
            for i in x.items
        }
        first, last = 0, len(kept)
        while first < last and self._counted(s, kept[first], ahead):
            first += 1
        while last > first and self._counted(s, kept[last - 1], ahead):
            if kept[last - 1].pipe.name.text in within:
                break
            last -= 1
        held = kept[first:last]
        middle = [s._replace(items=tuple(held), body=body)] if held else [*body]
        before, behind = (
            [s._replace(items=(i,), body=()) for i in part] for part in (kept[:first], kept[last:])
        )
        return [*before, *middle, *behind]

    def _counted(self, s: S.Transfer, item: S.Item, ahead: bool) -> bool:
        """Whether one of the two roles gets an item only because the other needs it."""
        uses = self._uses(s, item) if item.direction == "get" else (True, True)
        return uses[not ahead] and not uses[ahead]
