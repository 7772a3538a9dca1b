"""Names, shapes, dtypes and ownership: the syntax tree of a kernel becomes a checked program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import tkc.frontend.explicit_program as X
import tkc.frontend.explicit_syntax as E
import tkc.frontend.integers as N
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend.agree import check_agreement, check_writers
from tkc.frontend.carry import leave, settle
from tkc.frontend.conditions import Condition
from tkc.frontend.declare import Declarations
from tkc.frontend.describe import describe
from tkc.frontend.exits import Exits
from tkc.frontend.inline import Function
from tkc.frontend.loops import Loops
from tkc.frontend.program import Tile
from tkc.frontend.ragged import mask_values
from tkc.frontend.scaling import check_homes
from tkc.frontend.scope import (
    REGISTER,
    RESERVED,
    Entry,
    Failed,
    Owned,
    Scope,
    Unknown,
    article,
    listed,
    plural,
)
from tkc.frontend.source import Source
from tkc.frontend.synonyms import dotted, elsewhere
from tkc.frontend.syntax import Span
from tkc.frontend.values import Values
from tkc.frontend.writes import Writes

if TYPE_CHECKING:
    from tkc.frontend.explicit_check import Explicit

MANY = 2**31
"""Slots of a pipe whose tiles were wrong, which is reported."""
SETTINGS = ("warps", "registers")
STATEMENTS = (
    "assert",
    "param",
    "launch",
    "schedule",
    "shared",
    "accum",
    "pipe",
    "maps",
    "role",
    "for",
    "put",
    "get",
    "if",
    "barrier",
    "elect",
    "while",
    *E.COMMANDS,
)
WORDS = ("mask", "keep")
_DECLARATIONS = (
    S.Param, S.Launch, S.Schedule, S.Declare, S.Pipe, S.Maps, S.Role, S.Assertion, E.Barrier,
)  # fmt: skip
_WORDS = {
    S.For: "`for`", S.Branch: "`if`", S.Copy: "a copy", S.Assign: "an assignment", S.Update: "an assignment",
    S.Evaluate: "an expression",
}  # fmt: skip


def check_kernel(
    source: Source,
    kernel: S.Kernel,
    overrides: Mapping[str, int],
    functions: Mapping[str, Function | None] | None = None,
) -> P.Kernel | None:
    """The checked program, or None where `source.found` has grown."""
    before = len(source.found.diagnostics)
    scope = Scope(source)
    scope.functions = functions or {}
    declared = Declarations(scope, kernel, overrides)
    declared.read()
    scope.multicast = declared.clauses.multicast
    scope.ctas = declared.clauses.ctas
    roles: list[P.Role] = []
    whole = True
    for statement in kernel.body:
        if isinstance(statement, S.Role):
            role = _Role(scope, declared)
            roles.append(role.check(statement))
            whole = whole and role.whole
        elif isinstance(statement, S.Words) and statement.first.text not in WORDS:
            _misspelt(scope, statement)
        elif not isinstance(statement, _DECLARATIONS):
            scope.error(
                "TK101",
                f"{_statement(statement)} stands in a role, not in the kernel's body",
                statement.span,
            )
    if unfollowed := [
        e.meaning
        for name, e in scope.names.items()
        if e.what == "schedule with arguments" and name not in scope.followed
    ]:
        from tkc.frontend.spans import check_unfollowed

        check_unfollowed(declared.values, unfollowed)
    if not roles:
        scope.error(
            "TK113", f"kernel {kernel.name.text} has no role: nothing would run", kernel.name.span
        )
    if "dependent" in declared.clauses.said and whole:
        from tkc.frontend.dependent import check_dependent

        check_dependent(scope, roles, declared.clauses.said["dependent"])
    trips: Any = {}
    if whole and declared.whole:
        if not scope.failed:
            check_homes(scope)
        check_writers(scope, [d for d in declared.made if isinstance(d, P.Pipe)])
        trips = check_agreement(scope, [d for d in declared.made if isinstance(d, P.Pipe)], roles)
    if len(source.found.diagnostics) > before:
        return None
    if declared.shares:
        from tkc.frontend.sharing import check_lockstep, hand_overs, with_after

        check_lockstep(scope, roles)
        after = hand_overs([d for d in declared.made if isinstance(d, P.Pipe)], trips)
        declared.made = with_after(declared.made, after)
    roles = mask_values(scope, roles)
    if declared.ordered:
        from tkc.frontend.spans import longest_first

        longest_first(scope, declared, roles)
    if len(source.found.diagnostics) > before:
        return None
    made = P.Kernel(
        kernel.name.text,
        tuple(declared.arguments),
        declared.params,
        tuple(declared.clauses.said),
        tuple(declared.made),
        tuple(roles),
        kernel.span,
        tuple(declared.requires),
        declared.clauses.ctas,
        declared.clauses.sizes,
    )
    if any(isinstance(a, P.Tensor) and a.major is not None for a in declared.arguments):
        from tkc.frontend.majors import in_memory_order

        made = in_memory_order(scope, made)
    return None if len(source.found.diagnostics) > before else made


def _statement(s: Any) -> str:
    """A statement's kind in words."""
    if isinstance(s, S.Transfer):
        return f"`{s.items[0].direction}`"
    if isinstance(s, S.Declare):
        return f"`{s.kind}`"
    if isinstance(s, S.Words | E.Command):
        return f"`{s.first.text if isinstance(s, S.Words) else s.word.text}`"
    return _WORDS.get(s.__class__, f"`{s.__class__.__name__.lower()}`")


def _misspelt(scope: Scope, s: S.Words) -> None:
    """Two names in a row where the first is no word that begins a statement."""
    near = nearest(s.first.text, [*STATEMENTS, *WORDS])
    hint = f"; did you mean `{near}`" if near else ""
    scope.error("TK101", f"no statement begins with `{s.first.text}`{hint}", s.first.span)


class _Opened(NamedTuple):
    """A pipe that a put or get opens; `tiles` by the names that its block knows them by."""

    direction: str
    pipe: P.Pipe
    tiles: tuple[Tile, ...]
    span: Span
    turn: tuple[int, int] | None = None


class _Role:
    """Walks a role's body. `whole`: every loop and block header was understood, so that trips can be compared."""

    def __init__(self, scope: Scope, declared: Declarations) -> None:
        self.scope = scope
        self.declared = declared
        self.values = Values(scope)
        self.writes = writes = Writes(scope, self.values)
        self.name = ""
        self.whole = True
        self.loops = Loops(scope, declared, self.values, self)
        self.exits = Exits(scope)
        self.by_kind: dict[type, Callable[[Any], Any]] = {
            S.For: self.loops.check,
            S.Transfer: self._transfer,
            S.Copy: writes.copy,
            S.Assign: writes.assign,
            S.Update: writes.update,
            S.Evaluate: self._evaluate,
            S.Branch: self._branch,
            S.Words: self._words,
            S.Return: self._return,
            S.Assertion: lambda s: self.explicit.assertion(s),
            E.Command: self._command,
            E.Elect: lambda s: self.explicit.elect(s),
            E.While: lambda s: self.explicit.repeat(s),
        }

    @cached_property
    def explicit(self) -> Explicit:
        """Loaded when a program first says something of it."""
        from tkc.frontend.explicit_check import Explicit

        return Explicit(self.scope, self.values, self.body)

    def check(self, role: S.Role) -> P.Role:
        self.name = role.name.text
        settings: dict[str, int] = {}
        for setting in role.settings:
            self._setting(setting, settings)
        outer = dict(self.scope.names)
        self.scope.inside = True
        body = self.body(role.body)
        self.scope.names, self.scope.unset = outer, {}
        self.scope.inside = False
        return P.Role(self.name, settings.get("warps"), settings.get("registers"), body, role.span)

    def _setting(self, setting: S.Setting, settings: dict[str, int]) -> None:
        name = setting.name.text
        if name not in SETTINGS:
            near = nearest(name, SETTINGS)
            hint = f"; did you mean `{near}`" if near else f"; there are {listed(SETTINGS)}"
            self.scope.error("TK102", f"a role has no setting `{name}`{hint}", setting.name.span)
        elif name in settings:
            self.scope.error("TK103", f"`{name}` is set twice", setting.name.span)
        else:
            settings[name] = 0
            try:
                settings[name] = self.values.number(setting.value, f"`{name}`")
            except Failed:
                return

    def body(self, block: S.Block) -> P.Body:
        body: list[P.Statement] = []
        for statement in self._whole(block):
            check = self.by_kind.get(type(statement))
            if check is None:
                where = "the kernel's body, not in a role"
                self.scope.error(
                    "TK101", f"{_statement(statement)} stands in {where}", statement.span
                )
                self.whole = self.whole and not isinstance(statement, S.Role)
                continue
            try:
                checked = check(statement)
            except Failed:
                self.scope.failed += 1
                self._give_up(statement)
                self.whole = self.whole and not any(S.items_in((statement,)))
                continue
            if isinstance(checked, list):
                body += checked
            elif checked is not None:
                body.append(checked)
        return tuple(body)

    def _whole(self, block: S.Block) -> Iterator[Any]:
        """The statements of a block; loops without `break` and `continue`."""
        for s in block:
            if not isinstance(s, S.For | E.While):
                yield s
                continue
            try:
                yield from self.exits.without(s)
            except Failed:
                self.scope.failed += 1
                self.whole = False

    def _give_up(self, statement: Any) -> None:
        """A variable whose value was wrong exists, so that its uses are not reported as well."""
        if isinstance(statement, S.Assign) and isinstance(statement.target, S.Name):
            name, span = statement.target.text, statement.target.span
            if name not in self.scope.names and name not in RESERVED:
                self.scope.names[name] = Entry(REGISTER, Unknown(span), span)

    # puts and gets

    def _transfer(self, s: S.Transfer) -> Any:
        scope = self.scope
        opened: list[_Opened] = []
        wrong = 0
        outer, owned_before = dict(scope.names), dict(scope.owned)
        for item in s.items:
            try:
                opened.append(self._open(item))
            except Failed:
                wrong += 1
        self.whole = self.whole and not wrong
        mine: dict[str, tuple[Tile, Owned]] = {}
        for direction, pipe, tiles, span, _ in opened:
            for tile in tiles:
                if tile.name in scope.owned and not self._hands_on(direction, pipe, tile):
                    self._twice(tile, scope.owned[tile.name], span)
                else:
                    scope.owned[tile.name] = Owned(
                        direction, pipe, len(scope.loops), span, scope.conditional
                    )
                    mine[tile.name] = (tile, scope.owned[tile.name])
            self._check_held(pipe, span)
        cleared, written, failed = scope.cleared, scope.written, scope.failed
        scope.cleared = cleared - mine.keys()
        scope.written = written - mine.keys()
        scope.lenient += wrong
        before: list[P.Statement] = []
        if any(item.turn is not None for item in opened):
            if len(s.items) > 1:
                scope.later("a get of several pipes of which one goes by turns", s.span)
            before, body = settle(scope, s.span, lambda: self._own_turn(s.body))
        else:
            body = self.body(s.body)
        if any(map(self.scope.shares, mine)):
            from tkc.frontend.sharing import written_zeros

            body = written_zeros(self.scope, body, mine)
        scope.lenient -= wrong
        quiet = scope.failed == failed
        for name, (tile, owned) in mine.items():
            cleared_here = tile.accumulator and tile.scale is None and not tile.operand
            written_here = scope.cleared if cleared_here else scope.written
            if owned.direction == "put" and len(owned.pipe.producers) > 1:
                if name in written_here:
                    self.scope.writers.setdefault((owned.pipe.name, name), {})[self.name] = owned
                elif quiet:
                    self.scope.silent.setdefault((owned.pipe.name, name), {})[self.name] = owned
            elif owned.direction == "put" and name not in written_here and quiet:
                self._unwritten(tile, owned)
            if name not in outer:
                del scope.names[name]
        scope.owned = owned_before
        scope.cleared = cleared | (scope.cleared - mine.keys())
        scope.written = written | (scope.written - mine.keys())
        nested = self._nest(opened, body, s.span)
        return [*before, nested] if nested is not None else before

    def _own_turn(self, block: S.Block) -> P.Body:
        """A body that the role runs for its own items, and skips for others: as under a condition."""
        scope = self.scope
        outer = dict(scope.names)
        scope.conditional += 1
        body = self.body(block)
        scope.conditional -= 1
        inner, scope.names = scope.names, dict(outer)
        leave(scope, outer, inner, "condition")
        set_here = {n: e for n, e in inner.items() if n in outer and e.what == REGISTER}
        scope.names = outer | set_here
        return body

    def _nest(self, opened: list[_Opened], body: P.Body, span: Span) -> P.Transfer | None:
        """One block for each run of puts or of gets, inside one another in written order."""
        made: P.Transfer | None = None
        at = len(opened)
        while at:
            end, direction = at, opened[at - 1].direction
            while at and opened[at - 1].direction == direction:
                at -= 1
            run = opened[at:end]
            names = tuple(tile.name for item in run for tile in item.tiles)
            pipes = tuple(x.pipe for x in run)
            made = P.Transfer(direction, pipes, names, body, span, run[0].turn)
            body = (made,)
        return made

    def _hands_on(self, direction: str, pipe: P.Pipe, tile: Tile) -> bool:
        """Whether a put stands directly in a get of the same tile by another pipe: it hands on the slot."""
        owned = self.scope.owned[tile.name]
        here = len(self.scope.loops), self.scope.conditional
        handing = direction == "put" and owned.direction == "get" and pipe is not owned.pipe
        return handing and here == (owned.loops, owned.conditions)

    def _twice(self, tile: Tile, owned: Owned, span: Span) -> None:
        before = self.scope.note(f"`{tile.name}` is taken here", owned.span)
        self.scope.error(
            "TK103",
            f"`{tile.name}` would be in two puts or gets at once: another name tells the items apart, "
            f"as in `{owned.direction} {owned.pipe.name} as x`",
            span,
            before,
        )

    def _check_held(self, pipe: P.Pipe, span: Span) -> None:
        """R9: no more items are held at once than there are slots; an accumulator's slots may be fewer than said."""
        depths = [1 if t.accumulator else t.depth for t in pipe.tiles]
        slots = min(depths, default=MANY)
        held = dict.fromkeys(o.span for o in self.scope.owned.values() if o.pipe is pipe)
        if len(held) > slots:
            notes = [self.scope.note("one is held from here", at) for at in held if at != span]
            has = f"{plural(slots, 'slot')}" + (
                " for certain" if slots < pipe.tiles[0].depth else ""
            )
            self.scope.error(
                "TK314",
                f"{len(held)} items of pipe {pipe.name} are held at once, which has {has}: "
                "the last would never come",
                span,
                *notes,
            )

    def _open(self, item: S.Item) -> _Opened:
        pipe = self._pipe_of(item)
        turn: tuple[int, int] | None = None
        if pipe.turns and item.direction == "get":
            turn = pipe.consumers.index(self.name), len(pipe.consumers)
        if item.alias is None:
            return _Opened(item.direction, pipe, pipe.tiles, item.span, turn)
        if len(pipe.tiles) != 1:
            self._fail(
                "TK116",
                f"`as {item.alias.text}` names one tile, and pipe {pipe.name} carries {len(pipe.tiles)}",
                item.alias.span,
            )
        tile = pipe.tiles[0]._replace(name=item.alias.text)
        what = "accumulator" if tile.accumulator else "shared tile"
        if not self.scope.define(item.alias, what, tile):
            raise Failed
        self.scope.pipe_of[tile.name] = pipe
        self.scope.pipes_of[tile.name] = self.scope.pipes_of[pipe.tiles[0].name]
        self.scope.together.discard(tile.name)
        if pipe.tiles[0].name in self.scope.together:
            self.scope.together.add(tile.name)
        return _Opened(item.direction, pipe, (tile,), item.span, turn)

    def _pipe_of(self, item: S.Item) -> P.Pipe:
        word = item.pipe.name
        if item.pipe.part is not None:
            self._fail("TK106", f"`{word.text}` is no family: it has no index", item.pipe.span)
        pipe = self.scope.find(word.text, word.span, ("pipe",))
        if isinstance(pipe, Unknown):
            raise Failed
        if not isinstance(pipe, P.Pipe):
            what = article(self.scope.names[word.text].what)
            self._fail(
                "TK106", f"`{item.direction}` takes a pipe, and `{word.text}` is {what}", word.span
            )
        ends, other = (
            (pipe.producers, pipe.consumers)
            if item.direction == "put"
            else (pipe.consumers, pipe.producers)
        )
        if self.name not in ends:
            if not self.declared.roles.keys() >= {*ends}:
                raise Failed
            also = f": role {self.name} is at its other end" if self.name in other else ""
            self._fail(
                "TK107",
                f"role {self.name} does not {item.direction} pipe {pipe.name}, {listed(ends)} does{also}",
                item.span,
                self.scope.note(f"pipe {pipe.name}: {self.scope.ends(pipe)}", pipe.span),
            )
        return pipe

    def _unwritten(self, tile: Tile, owned: Owned) -> None:
        cleared = tile.accumulator and tile.scale is None and not tile.operand
        how = f"`{tile.name} = 0`" if cleared else f"`{tile.name} <- ...`"
        if self.scope.several(tile.name):
            how += f", or `keep {tile.name}`, which leaves it as it is,"
        maybe = tile.name in self.scope.written
        told = (
            f"writes `{tile.name}` only in a loop, which may run no times"
            if maybe
            else f"never writes `{tile.name}`"
        )
        self.scope.error(
            "TK114",
            f"this put of pipe {owned.pipe.name} {told}, and {listed(owned.pipe.consumers)} reads it: "
            f"expected {how} in the put",
            owned.span,
        )

    # the rest

    def _evaluate(self, s: S.Evaluate) -> X.Do | X.Print:
        e = s.value
        if (
            isinstance(e, S.Name)
            and e.text in ("break", "continue", "pass")
            and e.text not in self.scope.names
        ):
            told = (
                f"`{e.text}` stands in a loop"
                if e.text != "pass"
                else "no statement `pass`: leave it out"
            )
            self._fail("TK101", told, s.span)
        if isinstance(e, S.Binary) and e.operator in ("<", "<=", "=="):
            meant = "=" if e.operator == "==" else "<-"
            self._fail("TK101", f"a comparison alone does nothing; did you mean `{meant}`", s.span)
        if E.is_print(e) and "print" not in {*self.scope.names, *self.scope.functions}:
            return self.explicit.say(e)
        words = dotted(e)
        if words.partition(".")[0] not in {*self.scope.names, *self.scope.functions}:
            meant = elsewhere(words)
            if meant:
                self._fail("TK101", f"no statement `{words}`: {meant}", s.span)
        found = self.values.evaluate(e)
        if isinstance(found, X.Atomic):
            return X.Do(found, s.span)
        told = f"{describe(found)} is used for nothing: expected a copy `<-` or an assignment `=`"
        self._fail("TK106", told, s.span)

    def _return(self, s: S.Return) -> NoReturn:
        told = "`return` stands in a function: a role runs to its end, where the kernel's last barriers wait for it"
        self._fail("TK101", told, s.span)

    def _branch(self, s: S.Branch) -> Any:
        """The statements of the arm that is taken where that is known at compile time: others are not looked at."""
        arms: list[tuple[Any, S.Block]] = []
        otherwise = s.otherwise or ()
        try:
            for condition, block in s.arms:
                test = self.values.evaluate(condition)
                known = test.test if isinstance(test, Condition) else None
                if known is True:
                    otherwise = block
                    break
                if known is not False:
                    arms.append((N.as_condition(self.values, test, condition.span), block))
        except Failed:
            self.whole = False
            for block in (*(body for _, body in s.arms), s.otherwise or ()):
                self.body(block)
            raise
        if not arms:
            return list(self.body(otherwise))
        return self.explicit.branch(arms, otherwise, s.span)

    def _command(self, s: E.Command) -> Any:
        if s.word.text == "mask":
            self._fail("TK101", "a mask is written `mask x where j <= m`", s.span)
        return self.explicit.command(s)

    def _words(self, s: S.Words) -> list[P.Statement] | None:
        if s.first.text == "mask":
            return self.values.positions.mask(self.values, s)
        if s.first.text == "keep":
            return self.writes.keep(s)
        _misspelt(self.scope, s)

    def _fail(self, code: str, message: str, span: Span, *notes: Any) -> NoReturn:
        self.scope.error(code, message, span, *notes)
        raise Failed

    def _later(self, what: str, span: Span) -> NoReturn:
        self.scope.later(what, span)
        raise Failed
