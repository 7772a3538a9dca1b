"""Writes out families: several tiles, pipes or roles of one name become as many single ones, before names are checked.

`shared q[2]` declares tiles called `q[0]` and `q[1]`; `role soft[i in 0, 1]` two roles, in whose bodies `i` is a
number; `pipe score[i](s[i]): mma -> soft[i]` one pipe for each `s[i]`; `for i in 0, 1:` its body twice. What is left
has no family in it, so nothing after this knows of any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tkc.frontend.explicit_syntax as E
import tkc.frontend.syntax as S
from tkc.frontend.scope import listed, plural
from tkc.frontend.source import Source
from tkc.frontend.syntax import Span, Word

MOST = 64
"""Members of a family: more are a mistake, and each is code of its own."""

KINDS = {"shared": "shared tile", "accum": "accumulator"}
"""What a declaration's word declares, where that is no pipe or role."""

ARITHMETIC: dict[str, Callable[[int, int], int | None]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else None,
    "%": lambda a, b: a % b if b else None,
}

KEEP = "keep"

Numbers = Mapping[str, int]
"""Indices that are known here, by name."""


class Family(NamedTuple):
    """`members` are the numbers in brackets, in order."""

    kind: str
    members: tuple[int, ...]
    span: Span


def expand(source: Source, kernel: S.Kernel, overrides: Numbers) -> S.Kernel | None:
    """The kernel without families; None where something was wrong with one, which is reported."""
    before = len(source.found.diagnostics)
    made = _Expansion(source, kernel, overrides).kernel()
    return made if len(source.found.diagnostics) == before else None


class _Wrong(Exception):
    """What was wrong has been reported."""


class _Expansion:
    def __init__(self, source: Source, kernel: S.Kernel, overrides: Numbers) -> None:
        self.source = source
        self.tree = kernel
        self.families: dict[str, Family] = {}
        self.params: dict[str, int] = {}
        for binding in (b for s in kernel.body if isinstance(s, S.Param) for b in s.bindings):
            value = overrides.get(binding.name.text, self.number(binding.value, {}))
            if value is not None:
                self.params[binding.name.text] = value

    def kernel(self) -> S.Kernel:
        for statement in self.tree.body:
            try:
                self._declare(statement)
            except _Wrong:
                continue
        body: list[Any] = []
        for statement in self.tree.body:
            try:
                body += self._statement(statement, {})
            except _Wrong:
                continue
        return self.tree._replace(body=tuple(body))

    # what there is

    def _declare(self, s: Any) -> None:
        if isinstance(s, S.Declare):
            for name in s.names:
                if name.part is not None:
                    count = self._known(name.part, {}, f"the number of `{name.name.text}`")
                    self._fits(count, s.kind, name.span)
                    self._family(name.name, s.kind, tuple(range(count)), name.span)
        elif isinstance(s, S.Role) and s.copies is not None:
            given = [self._known(v, {}, "an index of a role") for v in s.copies.values]
            self._family(s.name, "role", tuple(given), s.copies.variable.span)
        elif isinstance(s, S.Pipe) and s.name.part is not None:
            variable = s.name.part
            if not isinstance(variable, S.Name):
                self._fail(
                    "TK106",
                    f"pipe {s.name.name.text} says which index it has: `pipe {s.name.name.text}[i](...)`",
                    variable.span,
                )
            ends = (*s.tiles, *s.producers, *s.consumers)
            with_it = [
                r for r in ends if isinstance(r.part, S.Name) and r.part.text == variable.text
            ]
            known = [self.families[r.name.text] for r in with_it if r.name.text in self.families]
            roles = {x.name.text: x for x in self.tree.body if isinstance(x, S.Role) and x.copies}
            for end in with_it:
                if not known and end.name.text in roles:  # declared below
                    self._declare(roles[end.name.text])
                    known = [self.families[end.name.text]]
            if not known:
                self._fail(
                    "TK102",
                    f"`{variable.text}` is the index of nothing that pipe {s.name.name.text} joins: "
                    f"a tile or a role has it, as `s[{variable.text}]`",
                    variable.span,
                )
            self._family(s.name.name, "pipe", known[0].members, s.name.span)

    def _family(self, name: Word, kind: str, members: tuple[int, ...], span: Span) -> None:
        self._fits(len(members), kind, span)
        if len(set(members)) < len(members):
            self._fail("TK103", f"an index of {kind} {name.text} stands there twice", span)
        self.families[name.text] = Family(kind, members, span)

    def _fits(self, count: int, kind: str, span: Span) -> None:
        """Before `count` members are made."""
        if not 0 < count <= MOST:
            told = plural(count, KINDS.get(kind, kind))
            self._fail("TK117", f"{told} of one name: 1 to {MOST} fit", span)

    # statements

    def _statement(self, s: Any, known: Numbers) -> list[Any]:
        match s:
            case S.Declare():
                return self._tiles(s)
            case S.Pipe() if s.name.part is not None and s.name.name.text not in self.families:
                raise _Wrong
            case S.Pipe():
                return self._pipe(s)
            case S.Role() if s.copies is None:
                return [s._replace(body=self._body(s.body, known))]
            case S.Role():
                return self._role(s)
            case S.For():
                return self._loop(s, known)
            case S.Words() if s.first.text == KEEP and s.second.text in self.families:
                members = self.families[s.second.text].members
                return [s._replace(second=_member(s.second, i)) for i in members]
            case E.Command() if s.word.text == KEEP and self._kept(s) is not None:
                kept = Word(self._chosen(self._kept(s), known), s.span)
                return [S.Words(s.word, kept, s.subject.value, s.span)]
            case S.Assign() if isinstance(s.target, S.Name) and s.target.text in known:
                self._fail(
                    "TK106", f"`{s.target.text}` is an index: it is not assigned", s.target.span
                )
            case _:
                return [self._inside(s, known)]

    def _body(self, block: S.Block, known: Numbers) -> S.Block:
        body: list[Any] = []
        for statement in block:
            try:
                body += self._statement(statement, known)
            except _Wrong:
                continue
        return tuple(body)

    def _tiles(self, s: S.Declare) -> list[S.Declare]:
        """One declaration for each tile: member i stands in the place of member i of what it stands in."""
        made: list[S.Declare] = []
        for name in s.names:
            family = self.families.get(name.name.text) if name.part is not None else None
            for i in family.members if family is not None else (None,):
                one = name if i is None else S.Reference(_member(name.name, i), None, name.span)
                within = s.within
                if within is not None and within.part is None and within.name.text in self.families:
                    if i is None:
                        self._fail("TK106", self._which(within.name.text), within.span)
                    self._in(within.name.text, self.families[within.name.text], i, within.span)
                    within = S.Reference(_member(within.name, i), None, within.span)
                elif within is not None:
                    within = self._inside(within, {})
                made.append(s._replace(names=(one,), within=within))
        return made

    def _pipe(self, s: S.Pipe) -> list[S.Pipe]:
        family = self.families.get(s.name.name.text)
        if family is None or not isinstance(s.name.part, S.Name):
            return [self._ends(s, {})]
        made: list[S.Pipe] = []
        for i in family.members:
            here = {s.name.part.text: i}
            (name,) = self._members(s.name, here) or ()
            made.append(self._ends(s._replace(name=name), here))
        return made

    def _ends(self, s: S.Pipe, known: Numbers) -> S.Pipe:
        """A family without an index is all of its members."""

        def every(references: tuple[S.Reference, ...]) -> tuple[S.Reference, ...]:
            found: list[S.Reference] = []
            for r in references:
                members = self._members(r, known)
                found += [r] if members is None else members
            return tuple(found)

        consumers = s.consumers if s.turns is None else tuple(map(self._counted, s.consumers))
        return s._replace(
            tiles=every(s.tiles), producers=every(s.producers), consumers=every(consumers)
        )

    def _counted(self, r: S.Reference) -> S.Reference:
        """`B[2]` behind the arrow of a pipe by turns says how many there are: all of them, in order."""
        family = self.families.get(r.name.text)
        if family is None or r.part is None:
            return r
        count = self._known(r.part, {}, f"the number of `{r.name.text}` by turns")
        if count != len(family.members):
            self._fail(
                "TK104",
                f"`{r.name.text}` takes turns of {count}, and there are {len(family.members)}",
                r.part.span,
            )
        return r._replace(part=None)

    def _role(self, s: S.Role) -> list[S.Role]:
        family = self.families.get(s.name.text)
        if family is None or s.copies is None:
            raise _Wrong
        made: list[S.Role] = []
        for i in family.members:
            here = {s.copies.variable.text: i}
            settings, instead = self._inside((s.settings, s.instead), here)
            made.append(
                s._replace(
                    name=_member(s.name, i),
                    copies=None,
                    settings=settings,
                    instead=instead,
                    body=self._body(s.body, here),
                )
            )
        return made

    def _loop(self, s: S.For, known: Numbers) -> list[Any]:
        """A loop over numbers that are known, by which members are chosen, is written out; any other stays."""
        names = {w.text for w in s.variables}
        if len(names) == 1 and self._chooses(s.body, *names):
            values = self._values(s, known)
            if values is not None:
                made: list[Any] = []
                for value in values:
                    made += self._body(s.body, {**known, s.variables[0].text: value})
                return made
        inner = {n: v for n, v in known.items() if n not in names}
        over = tuple(made for a in s.over for made in self._over(a, known))
        return [s._replace(over=over, body=self._body(s.body, inner))]

    def _over(self, a: S.Argument, known: Numbers) -> list[S.Argument]:
        """What a loop runs over, or says beside; `ahead = score` of a family is all of its members."""
        family = a.value.text if a.name is not None and isinstance(a.value, S.Name) else ""
        if family not in self.families:
            return [self._inside(a, known)]
        members = [f"{family}[{i}]" for i in self.families[family].members]
        return [a._replace(value=S.Name(m, a.value.span)) for m in members]

    def _values(self, s: S.For, known: Numbers) -> list[int] | None:
        """What a loop goes through: listed numbers, or those of `unroll(n)`; None where they are not known."""
        first = s.over[0].value
        if isinstance(first, S.Call):
            name = first.function.text if isinstance(first.function, S.Name) else ""
            if len(s.over) != 1 or name != "unroll" or len(first.arguments) != 1:
                return None
            count = self.number(first.arguments[0].value, known)
            return [*range(count)] if count is not None and count <= MOST else None
        values = [self.number(a.value, known) for a in s.over if a.name is None]
        known_all = [v for v in values if v is not None]
        return known_all if len(known_all) == len(s.over) else None

    def _chooses(self, x: Any, name: str) -> bool:
        """Whether a name stands in the brackets of a family."""
        if isinstance(x, S.Index) and isinstance(x.base, S.Name) and x.base.text in self.families:
            return _mentions(x.arguments, name)
        if isinstance(x, S.Reference) and x.name.text in self.families:
            return _mentions(x.part, name)
        if isinstance(x, tuple) and not isinstance(x, Span | Word):
            return any(self._chooses(part, name) for part in x)
        return False

    def _kept(self, s: E.Command) -> Any:
        """`o[i]` of `keep o[i]`, a member of a family."""
        place = s.subject.place
        chosen = isinstance(place, S.Index) and isinstance(place.base, S.Name)
        return place if chosen and place.base.text in self.families else None

    # expressions

    def _inside(self, x: Any, known: Numbers) -> Any:
        """Anything that stands in a statement, with members in the place of indices and numbers in that of names."""
        match x:
            case Span() | Word() | str() | int() | float() | None:
                return x
            case S.Name() if x.text in known:
                return S.Integer(known[x.text], x.span)
            case S.Index() if isinstance(x.base, S.Name) and x.base.text in self.families:
                return S.Name(self._chosen(x, known), x.span)
            case S.Reference() if x.name.text in self.families:
                members = self._members(x, known)
                if members is None or len(members) != 1:
                    self._fail("TK106", self._which(x.name.text), x.span)
                return members[0]
            case S.Name() if x.text in self.families:
                self._fail("TK106", self._which(x.text), x.span)
            case S.Transfer():
                items = tuple(made for item in x.items for made in self._items(item, known))
                return x._replace(items=items, body=self._body(x.body, known))
            case S.Branch():
                arms = tuple((self._inside(c, known), self._body(b, known)) for c, b in x.arms)
                otherwise = None if x.otherwise is None else self._body(x.otherwise, known)
                return x._replace(arms=arms, otherwise=otherwise)
            case tuple() if hasattr(x, "_fields"):
                fields = x._fields  # type: ignore[attr-defined]
                made = {f: self._field(f, getattr(x, f), known) for f in fields}
                return x._replace(**made)  # type: ignore[attr-defined]
            case tuple():
                return tuple(self._inside(part, known) for part in x)
            case _:
                return x

    def _items(self, item: S.Item, known: Numbers) -> list[S.Item]:
        """One item of each pipe of a family that is named without an index."""
        members = self._members(item.pipe, known)
        if members is None or item.alias is not None:
            return [self._inside(item, known)]
        return [item._replace(pipe=pipe) for pipe in members]

    def _field(self, name: str, value: Any, known: Numbers) -> Any:
        return self._body(value, known) if name == "body" else self._inside(value, known)

    def _which(self, name: str) -> str:
        members = self.families[name].members
        return (
            f"`{name}` is {plural(len(members), self._kind(name))}: `{name}[{members[0]}]` is one"
        )

    def _kind(self, name: str) -> str:
        kind = self.families[name].kind
        return KINDS.get(kind, kind)

    def _chosen(self, x: S.Index, known: Numbers) -> str:
        assert isinstance(x.base, S.Name)
        name, family = x.base.text, self.families[x.base.text]
        if len(x.arguments) != 1 or x.arguments[0].name is not None:
            self._fail("TK116", f"`{name}` takes one index: which of its members", x.span)
        index = self._known(x.arguments[0].value, known, f"which `{name}`")
        return self._in(name, family, index, x.arguments[0].value.span)

    def _in(self, name: str, family: Family, index: int, span: Span) -> str:
        if index not in family.members:
            there = listed(f"{name}[{i}]" for i in family.members)
            self._fail("TK102", f"no {self._kind(name)} `{name}[{index}]`; there are {there}", span)
        return f"{name}[{index}]"

    def _members(self, r: S.Reference, known: Numbers) -> list[S.Reference] | None:
        """The members that a reference is: all of them where it has no index. None: no family."""
        family = self.families.get(r.name.text)
        if family is None:
            return None
        if r.part is None:
            return [S.Reference(_member(r.name, i), None, r.span) for i in family.members]
        index = self._known(r.part, known, f"which `{r.name.text}`")
        self._in(r.name.text, family, index, r.part.span)
        return [S.Reference(_member(r.name, index), None, r.span)]

    # numbers

    def number(self, e: S.Expression, known: Numbers) -> int | None:
        """An integer of numbers, params and indices; None for anything else."""
        match e:
            case S.Integer():
                return e.value
            case S.Name():
                return known.get(e.text, self.params.get(e.text))
            case S.Unary() if e.operator == "-":
                value = self.number(e.operand, known)
                return None if value is None else -value
            case S.Binary() if e.operator in ARITHMETIC:
                left, right = self.number(e.left, known), self.number(e.right, known)
                return (
                    None if left is None or right is None else ARITHMETIC[e.operator](left, right)
                )
            case _:
                return None

    def _known(self, e: S.Expression, known: Numbers, what: str) -> int:
        value = self.number(e, known)
        if value is None:
            told = self.source.excerpt(e.span)
            self._fail(
                "TK117",
                f"{what} is known at compile time, and `{told}` is not: an integer, a param or an index fits",
                e.span,
            )
        return value

    def _fail(self, code: str, message: str, span: Span) -> Any:
        self.source.found.error(code, message, self.source.place(span))
        raise _Wrong


def _member(name: Word, index: int) -> Word:
    return Word(f"{name.text}[{index}]", name.span)


def _mentions(x: Any, name: str) -> bool:
    if isinstance(x, S.Name):
        return x.text == name
    return (
        isinstance(x, tuple)
        and not isinstance(x, Span | Word)
        and any(_mentions(part, name) for part in x)
    )
