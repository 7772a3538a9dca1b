"""`for j in keys(m), ahead = score:` as a role of its own, which puts the items of `score` as far ahead as slots allow.

Role `mma` becomes two: `mma.ahead` has the loops and gets that its puts of `score` stand in and need, `mma` all the
rest. So the product of step j + 1 waits for nothing that step j's other products wait for; what both get is released
when both are done with it. Nothing after this knows of it: items, agreement, ownership, order are those of two roles.

A statement is at home in one half: in `mma.ahead` inside those puts, in `mma` elsewhere. The other half has a copy
where it needs one: of loops and conditions that say how often, and of variables that these, its puts, or its own
statements are made of. What cannot be twice or is without order then is refused (`halves.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import tkc.frontend.syntax as S
from tkc.frontend.effects import blocks, header, names_in, once, statements, used_in, variable
from tkc.frontend.exits import is_exit
from tkc.frontend.halves import Halves
from tkc.frontend.source import Source
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.inline import Function

AHEAD = "ahead"


class _Wrong(Exception):
    """What was wrong has been reported."""


def runs_ahead(kernel: S.Kernel) -> bool:
    """Whether a loop of the kernel says `ahead = ...`."""
    return any(_said(s) for role in _roles(kernel) for s in statements(role.body))


def separate(
    source: Source, kernel: S.Kernel, functions: Mapping[str, Function | None] | None = None
) -> S.Kernel | None:
    """The kernel whose loops say no `ahead`; None where one says what cannot be, which is reported."""
    for role in _roles(kernel):
        if any(_said(s) for s in statements(role.body)):
            try:
                kernel = _Separation(source, kernel, role, functions or {}).kernel()
            except _Wrong:
                return None
    return kernel


def _roles(kernel: S.Kernel) -> list[S.Role]:
    return [s for s in kernel.body if isinstance(s, S.Role)]


def _said(s: Any) -> list[S.Argument]:
    """What a loop says runs ahead."""
    over = s.over if isinstance(s, S.For) else ()
    return [a for a in over if a.name is not None and a.name.text == AHEAD]


def _lasting(body: S.Block) -> bool:
    """Whether a block does more than leave loops."""
    for s in body:
        inner = [*blocks(s)]
        if isinstance(s, S.Transfer) or (any(map(_lasting, inner)) if inner else not is_exit(s)):
            return True
    return False


class _Separation:
    """One role that runs ahead of itself."""

    def __init__(
        self,
        source: Source,
        kernel: S.Kernel,
        role: S.Role,
        functions: Mapping[str, Function | None],
    ) -> None:
        self.source = source
        self.functions = functions
        self.tree = kernel
        self.role = role
        self.pipes = {p.name.name.text: p for p in kernel.body if isinstance(p, S.Pipe)}
        self.loops = [s for s in statements(role.body) if _said(s)]
        self.ahead = {name: a for s in self.loops for a in _said(s) for name in [self._pipe(a)]}
        self.used: dict[bool, set[str]] = {True: set(), False: set()}
        """Pipes of which the role ahead, and the rest, use the items that they get."""
        self.needed: dict[bool, set[str]] = {True: set(), False: set()}
        """Names that the role ahead, and the rest, use."""
        self.copies: dict[bool, set[int]] = {True: set(), False: set()}
        """Statements of each half that are at home in the other, by identity."""
        self.made: dict[tuple[int, bool, bool], S.Block] = {}
        self.names = Halves(kernel, role, functions)
        self.made_of: dict[str, list[str]] = {}
        """What each variable is made of, in all of its assignments."""
        for s in statements(role.body):
            if (word := variable(s)) is not None and word.text not in self.names.cells:
                self.made_of.setdefault(word.text, []).extend(used_in((s,)))
        self.gets = {
            i.pipe.name.text
            for s in statements(role.body)
            if isinstance(s, S.Transfer)
            for i in s.items
            if i.direction == "get"
        }
        self.leader = f"{role.name.text}.{AHEAD}"

    def kernel(self) -> S.Kernel:
        self._check()
        halves = self._settle()
        told = self.names.refused(halves, self.copies, [*self.ahead])
        if told is not None:
            self._fail("TK110", *told)
        body: list[Any] = []
        for s in self.tree.body:
            if isinstance(s, S.Pipe):
                body.append(self._ends(s))
            elif s is self.role:
                name = self.role.name._replace(text=self.leader)
                body += [
                    self.role._replace(name=name, body=halves[True]),
                    self.role._replace(body=halves[False]),
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
        inside = {id(s) for loop in self.loops for s in statements(loop.body)}
        found = set[str]()
        for s in statements(self.role.body):
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

    def _gotten(self, ahead: bool) -> set[str]:
        """Pipes that a half gets: those that it uses, and the rest those that nobody does."""
        return self.used[True] if ahead else self.gets - (self.used[True] - self.used[False])

    def _uses(self, s: S.Transfer, item: S.Item, ahead: bool, home: bool) -> bool:
        return not self.names.tiles(item).isdisjoint(names_in(self._half(s.body, ahead, home)))

    def _settle(self) -> dict[bool, S.Block]:
        """Both bodies, with all that their variables are made of: names and pipes only become more."""
        known = -1
        while True:
            self.made.clear()
            self.copies = {True: set(), False: set()}
            halves = {ahead: self._half(self.role.body, ahead, False) for ahead in (True, False)}
            for ahead, body in halves.items():
                self._need(ahead, used_in(body))
            size = sum(len(x) for x in (*self.needed.values(), *self.used.values()))
            if size == known:
                return halves
            known = size

    def _need(self, ahead: bool, names: Iterable[str]) -> None:
        """A half needs these names, and what their values are made of."""
        needed, more = self.needed[ahead], [*names]
        while more:
            name = more.pop()
            if name not in needed:
                needed.add(name)
                more += self.made_of.get(name, ())

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

        gets = tuple(a for a in (True, False) if name in self._gotten(a))
        return p._replace(
            producers=ends(p.producers, (name in self.ahead,)),
            consumers=ends(p.consumers, gets or (False,)),
        )

    # the two bodies

    def _half(self, body: S.Block, ahead: bool, home: bool) -> S.Block:
        """What a half has of a block whose statements are at home in `home`."""
        key = (id(body), ahead, home)
        if key not in self.made:
            self.made[key] = tuple(x for s in body for x in self._of(s, ahead, home))
        return self.made[key]

    def _of(self, s: Any, ahead: bool, home: bool) -> list[Any]:
        if isinstance(s, S.Transfer):
            return self._of_items(s, ahead, home)
        inner = [self._half(b, ahead, home) for b in blocks(s)]
        if not inner:
            word = variable(s)
            needed = word is not None and word.text in self.needed[ahead] - self.names.cells
            kept = home == ahead or needed or is_exit(s)
        elif isinstance(s, S.Branch):
            kept = any(inner)
        else:
            kept = any(map(_lasting, inner))
        if home == ahead and inner:
            kept |= not _lasting((s,)) or any(
                True for e in header(s) for _ in once(e, self.functions)
            )
        if not kept:
            return []
        if isinstance(s, S.Branch):
            arms = tuple((c, b) for (c, _), b in zip(s.arms, inner, strict=False))
            s = s._replace(arms=arms, otherwise=None if s.otherwise is None else inner[-1])
        elif inner:
            s = self._plain(s)._replace(body=inner[0])
        if home != ahead:
            self.copies[ahead].add(id(s))
        return [s]

    def _of_items(self, s: S.Transfer, ahead: bool, home: bool) -> list[Any]:
        """A put or get in a half, or what is left of its block."""
        puts = any(i.direction == "put" for i in s.items)
        inside = self._led(s) if puts else home
        body = self._half(s.body, ahead, inside)
        for item in s.items:
            if item.direction == "get" and self._uses(s, item, ahead, inside):
                self.used[ahead].add(item.pipe.name.text)
        gotten = self._gotten(ahead)
        kept = [
            i
            for i in s.items
            if (inside == ahead if i.direction == "put" else i.pipe.name.text in gotten)
        ]
        return self._items(s, kept, body, ahead, inside) if kept else [*body]

    @staticmethod
    def _plain(s: Any) -> Any:
        """A loop without what it says runs ahead."""
        if not isinstance(s, S.For):
            return s
        return s._replace(over=tuple(a for a in s.over if a.name is None or a.name.text != AHEAD))

    def _items(
        self, s: S.Transfer, kept: list[S.Item], body: S.Block, ahead: bool, home: bool
    ) -> list[Any]:
        """A put or get with the items that a half has: items that it only counts are released at once."""
        within = {
            i.pipe.name.text for x in statements(body) if isinstance(x, S.Transfer) for i in x.items
        }
        counted = [self._counted(s, i, ahead, home) for i in kept]
        first, last = 0, len(kept)
        while first < last and counted[first]:
            first += 1
        while last > first and counted[last - 1]:
            if kept[last - 1].pipe.name.text in within:
                break
            last -= 1
        held = kept[first:last]
        middle = [s._replace(items=tuple(held), body=body)] if held else [*body]
        before, behind = (
            [s._replace(items=(i,), body=()) for i in part] for part in (kept[:first], kept[last:])
        )
        return [*before, *middle, *behind]

    def _counted(self, s: S.Transfer, item: S.Item, ahead: bool, home: bool) -> bool:
        """Whether one of the two roles gets an item only because the other needs it."""
        if item.direction == "put":
            return False
        return self._uses(s, item, not ahead, home) and not self._uses(s, item, ahead, home)
