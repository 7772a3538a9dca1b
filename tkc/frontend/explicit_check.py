"""Explicit synchronisation in a role: commands, elections, conditions and loops on integers, checked at their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import tkc.frontend.explicit_program as X
import tkc.frontend.explicit_syntax as E
import tkc.frontend.integers as N
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend.carry import leave, settle
from tkc.frontend.describe import describe
from tkc.frontend.places import alone, place
from tkc.frontend.program import Slice, Tile
from tkc.frontend.scope import REGISTER, Failed, Int, Scope, listed
from tkc.frontend.syntax import Span, Word
from tkc.frontend.values import Values
from tkc.frontend.writes import HINTS

MAX_UNROLLED = 64
"""Copies of a body that a loop over listed values may make."""

BARRIERS = 16
"""Named barriers of a CTA (PTX 9.7.15.1)."""

FENCES: dict[str, dict[str, str]] = {
    "proxy": {"shared": "shared::cta", "cluster": "shared::cluster", "global": "global", "all": ""},
    "tcgen05": {"before": "before_thread_sync", "after": "after_thread_sync"},
    "acq_rel": {"cta": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"},
    "sc": {"cta": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"},
}
"""Fences and what each takes, with how PTX spells that."""

GROUPS = ("stores", "products")
SYNCS = ("role", "warp", "cta")
REDUCTIONS = {"<-": "", "+=": "add"}
"""How a store combines with what is there."""

ADDED = ("f32", "f16", "bf16", "i32")
"""What the copy engine adds (PTX: cp.reduce.async.bulk.tensor)."""

EACH = {"warp": "lane", "thread": "all"}
SCOPES = {"": "one", "warp": "lane"}


class Explicit:
    """Checks one role. `body` checks a block; `alone` says which threads of
    those that reach a statement run it: all, or by an election one or a lane of each warp."""

    def __init__(
        self,
        scope: Scope,
        values: Values,
        body: Callable[[S.Block], P.Body],
    ) -> None:
        self.scope = scope
        self.values = values
        self.body = body
        self.alone = ""
        self.by_word: Mapping[str, Callable[[E.Command], Any]] = {
            "wait": self._wait,
            "arrive": self._arrive,
            "expect": self._expect,
            "load": self._load,
            "store": self._store,
            "commit": self._commit,
            "fence": self._fence,
            "sync": self._sync,
            "mma": self._mma,
            "registers": self._registers,
        }

    # commands

    def command(self, s: E.Command) -> Any:
        check = self.by_word.get(s.word.text)
        if check is None:
            near = nearest(s.word.text, E.COMMANDS)
            hint = f"; did you mean `{near}`" if near else f"; commands are {listed(E.COMMANDS)}"
            self._fail("TK101", f"no statement begins with `{s.word.text}`{hint}", s.word.span)
        return check(s)

    def _wait(self, s: E.Command) -> Any:
        group = self._group(s)
        if group is not None:
            pending = 0
            if s.subject.operator:
                if s.subject.operator != "<=":
                    self._form(s, f"`wait {group} <= 1`: at most one group is still under way")
                pending = self.values.number(s.subject.value, "the groups under way", 0)
            flags = self._flags(s, s.options, ("read",) if group == "stores" else ())
            return X.Group(f"wait {group}", pending, "read" in flags, s.span)
        if s.subject.operator or not s.options or s.options[0].name is not None:
            self._form(s, "`wait full[slot], phase`, `wait stores <= 1, read` or `wait products`")
        entry = self._entry(s.subject.place)
        first = s.options[0].value
        parity = N.as_integer(
            self.values, self.values.evaluate(first), first.span, "a phase, 0 or 1"
        )
        flags = self._flags(s, s.options[1:], ("relaxed", "cluster"))
        sem = "relaxed" if "relaxed" in flags else "acquire"
        scope = "cluster" if "cluster" in flags else "cta"
        return X.Wait(entry, parity, sem, scope, "one" if self.alone else "all", s.span)

    def _arrive(self, s: E.Command) -> Any:
        count, by = 1, "one"
        for option in s.options:
            word = option.value.text if isinstance(option.value, S.Name) else ""
            if option.name is None:
                count = self.values.number(option.value, "a number of arrivals")
            elif option.name.text == "each" and word in EACH:
                by = EACH[word]
            else:
                self._form(s, "`arrive full[slot]`, with a count, `each = warp` or `each = thread`")
        if s.subject.operator or s.subject.place is None:
            self._form(s, "`arrive full[slot]`")
        return X.Arrive(self._entry(s.subject.place), count, "one" if self.alone else by, s.span)

    def _expect(self, s: E.Command) -> Any:
        if s.subject.operator or s.subject.place is None or len(s.options) != 1:
            self._form(s, "`expect full[slot], bytes(a, b)`")
        entry = self._entry(s.subject.place)
        count = self.values.number(s.options[0].value, "the bytes expected", 0)
        if count >= 2**20:
            told = f"a phase counts up to {2**20 - 1} bytes, not {count}"
            self._fail("TK209", told, s.options[0].value.span)
        return X.Expect(entry, count, s.span)

    def _load(self, s: E.Command) -> Any:
        if s.subject.operator != "<-" or not s.options or s.options[0].name is not None:
            self._form(s, "`load a[slot] <- A[m, k], full[slot]`, with the barrier that it signals")
        place = self._place(s.subject.place, "a copy goes to")
        source = self.values.evaluate(s.subject.value)
        entry = self._entry(s.options[0].value)
        if not isinstance(source, Slice):
            self._fail(
                "TK106",
                f"`load` copies a slice of a tensor, not {describe(source)}",
                s.subject.value.span,  # type: ignore[union-attr]
            )
        self._same(place.tile, source, s.subject.span)
        return X.Load(place, source, entry, self._hint(s, s.options[1:]), s.span)

    def _hint(self, s: E.Command, options: tuple[S.Argument, ...]) -> str:
        """The priority in the L2 cache that a copy may end with."""
        flags = self._flags(s, options, HINTS)
        if len(flags) > 1:
            self._fail("TK116", f"a copy has one of {listed(HINTS)}", s.span)
        return flags.pop() if flags else ""

    def _store(self, s: E.Command) -> Any:
        reduce = REDUCTIONS.get(s.subject.operator)
        if reduce is None:
            self._form(s, "`store C[m, n] <- c[slot]` or `+=`, followed by `commit stores`")
        target = self.values.evaluate(s.subject.place)
        if not isinstance(target, Slice):
            self._fail(
                "TK106",
                f"`store` copies to a slice of a tensor, not to {describe(target)}",
                s.subject.place.span,  # type: ignore[union-attr]
            )
        place = self._place(s.subject.value, "a store copies")
        self._same(place.tile, target, s.subject.span)
        if reduce and target.dtype not in ADDED:
            self._fail("TK105", f"a store adds {listed(ADDED)}, not {target.dtype}", s.span)
        return X.Store(target, place, reduce, self._hint(s, s.options), s.span)

    def _same(self, tile: Tile, slice: Slice, span: Span) -> None:
        """A copy keeps shape and dtype."""
        for a, b, what, code in (
            (list(tile.shape), list(slice.shape), "shape", "TK104"),
            (tile.dtype, slice.dtype, "dtype", "TK105"),
        ):
            if a != b:
                self._fail(
                    code,
                    f"{tile.name} is {a} and the slice of {slice.tensor} is {b}: a copy keeps the {what}",
                    span,
                    self.scope.note(f"{tile.name} is {tile.dtype} {list(tile.shape)}", tile.span),
                )

    def _commit(self, s: E.Command) -> Any:
        group = self._group(s)
        if s.subject.operator or s.options or (s.subject.place is None and group is None):
            self._form(s, "`commit full[slot]`, `commit stores` or `commit products`")
        if group is not None:
            return X.Group(f"commit {group}", 0, False, s.span)
        return X.CommitEntry(self._entry(s.subject.place), s.span)

    def _group(self, s: E.Command) -> str | None:
        """`stores` or `products`, unless the program calls something else so."""
        place = s.subject.place
        name = place.text if isinstance(place, S.Name) else ""
        return name if name in GROUPS and name not in self.scope.names else None

    def _fence(self, s: E.Command) -> Any:
        words = [w.text for w in s.subject.words]
        if self._group(s) == "products" and not s.options:
            return X.Group("fence products", 0, False, s.span)
        kind = words[0] if words else ""
        of = FENCES.get(kind, {}).get(words[1] if len(words) > 1 else "")
        if of is None or s.options:
            known = FENCES.get(kind)
            which = f"`fence {kind}` takes {listed(known or ())}"
            if known is None:
                which = f"fences are {listed(FENCES)}, and `fence products`"
            self._fail("TK102", f"no such fence: {which}", s.span)
        return X.Fence(kind, of, "one" if self.alone else "all", s.span)

    def _sync(self, s: E.Command) -> Any:
        self._together(s)
        place = s.subject.place
        words = [w.text for w in s.subject.words] or [
            place.text if isinstance(place, S.Name) else ""
        ]
        what = words[0]
        if len(words) > 1 or s.subject.operator:
            self._form(s, "`sync role`, `sync warp`, `sync cta` or `sync 3, 128`")
        if what in SYNCS and not s.options:
            return X.Sync(what, 0, 0, s.span)
        if not what.isdigit() or len(s.options) != 1:
            self._form(
                s, "`sync role`, `sync warp`, `sync cta` or `sync 3, 128` (a barrier, threads)"
            )
        number = int(what)
        threads = self.values.number(s.options[0].value, "the threads that meet")
        if not 1 <= number < BARRIERS:
            told = f"named barriers are 1 to {BARRIERS - 1} (0 is `sync cta`), not {number}"
            self._fail("TK209", told, s.subject.span)
        if threads % 32:
            told = f"the threads that meet are whole warps, a multiple of 32, not {threads}"
            self._fail("TK117", told, s.options[0].value.span)
        return X.Sync("named", number, threads, s.span)

    def _mma(self, s: E.Command) -> Any:
        value = s.subject.value
        if s.subject.operator != "+=" or len(s.options) > 1:
            self._form(
                s, "`mma d[i] += a[slot] @ b[slot].T`, then a condition under which d counts"
            )
        if not isinstance(value, S.Binary) or value.operator != "@":
            self._fail("TK106", "`mma` adds a product `a[slot] @ b[slot].T`", s.subject.span)
        d = self._ring(s.subject.place)
        if not d.tile.accumulator:
            self._fail("TK106", f"`mma` adds to an accumulator, not to {describe(d)}", d.span)
        a, b = (self._place(x, "`@` takes") for x in (value.left, value.right))
        keep = None
        if s.options:
            keep = N.as_condition(
                self.values, self.values.evaluate(s.options[0].value), s.options[0].value.span
            )
        (rows, inner), (depth, columns) = (
            t.tile.shape[::-1] if t.transposed else t.tile.shape for t in (a, b)
        )
        notes = [
            self.scope.note(f"{t.tile.name} is {t.tile.dtype} {list(t.tile.shape)}", t.tile.span)
            for t in (a, b, d)
        ]
        if inner != depth:
            told = f"`@` contracts the last axis of [{rows}, {inner}] with the first of [{depth}, {columns}]"
            self._fail("TK104", f"{told}: {inner} is not {depth}", value.span, *notes[:2])
        if (rows, columns) != d.tile.shape:
            told = f"`@` makes {[rows, columns]}, and accumulator {d.tile.name} is {list(d.tile.shape)}"
            self._fail("TK104", told, s.span, *notes)
        if a.tile.dtype != b.tile.dtype:
            told = f"`@` of {a.tile.dtype} and {b.tile.dtype}: operands have one dtype"
            self._fail("TK105", told, value.span, *notes[:2])
        return X.Product(d, a, b, keep, s.span)

    def _registers(self, s: E.Command) -> Any:
        self._together(s)
        words = [w.text for w in s.subject.words]
        if len(words) != 2 or words[0] not in ("inc", "dec") or not words[1].isdigit() or s.options:
            self._form(s, "`registers inc 232` or `registers dec 40`")
        count = int(words[1])
        if count % 8 or not 24 <= count <= 256:
            told = f"setmaxnreg takes a multiple of 8 from 24 to 256, not {count}"
            self._fail("TK206", told, s.subject.span)
        return X.Registers(words[0], count, s.span)

    def _together(self, s: E.Command) -> None:
        """What threads do together cannot stand in an election: those that wait would wait for ever."""
        if self.alone:
            told = f"`{self.scope.source.excerpt(s.span)}` stands in an election: the other threads never reach it"
            self._fail("TK121", told, s.span)

    # what commands are about

    def _ring(self, e: Any) -> X.Place:
        """A slot; a tile of one slot names it by itself."""
        x = alone(self.values, self.values.evaluate(e), e.span)
        if isinstance(x, Tile):
            if x.depth != 1 and x.name not in self.scope.pipe_of:
                self._fail(
                    "TK116", f"{x.name} has {x.depth} slots: `{x.name}[slot]` is one", e.span
                )
            x = place(self.values, x, Int(0, e.span), e.span, e.span)
        if not isinstance(x, X.Place):
            self._fail("TK106", f"expected a slot such as `a[slot]`, not {describe(x)}", e.span)
        return x

    def _place(self, e: Any, what: str) -> X.Place:
        place = self._ring(e)
        if place.tile.accumulator:
            self._fail("TK106", f"{what} a shared tile, not {describe(place)}", e.span)
        return place

    def _entry(self, e: Any) -> X.Entry:
        if e is None:
            raise Failed
        x = self.values.evaluate(e)
        if isinstance(x, X.Barrier):
            if x.depth != 1:
                told = f"{x.name} are {x.depth} barriers: `{x.name}[slot]` is one"
                self._fail("TK116", told, e.span)
            return X.Entry(x, X.Number(0, e.span), e.span)
        if not isinstance(x, X.Entry):
            self._fail(
                "TK106", f"expected a barrier such as `full[slot]`, not {describe(x)}", e.span
            )
        return x

    def _flags(
        self, s: E.Command, options: tuple[S.Argument, ...], known: tuple[str, ...]
    ) -> set[str]:
        found: set[str] = set()
        for option in options:
            word = option.value.text if isinstance(option.value, S.Name) else ""
            if option.name is not None or word not in known:
                hint = f"options are {listed(known)}" if known else "there are no options"
                self._fail(
                    "TK102", f"`{s.word.text}` has no such option: {hint}", option.value.span
                )
            found.add(word)
        return found

    def _form(self, s: E.Command, how: str) -> NoReturn:
        self._fail("TK101", f"`{s.word.text}` is written {how}", s.span)

    # elections, conditions, loops

    def elect(self, s: E.Elect) -> Any:
        word = s.scope.text if s.scope is not None else ""
        if word not in SCOPES:
            told = f"`elect {word}`: an election is of one thread, `elect:`, or of a lane of each warp, `elect warp:`"
            self._fail("TK102", told, s.span)
        if self.alone:
            self._fail(
                "TK121", "an election stands in an election: one thread elects nobody", s.span
            )
        self._no_items(s.body)
        outer = dict(self.scope.names)
        self.alone = SCOPES[word]
        self.scope.conditional += 1
        body = self.body(s.body)
        self.scope.conditional -= 1
        self.alone = ""
        inner, self.scope.names = self.scope.names, outer
        for name, entry in inner.items():
            if entry.what == REGISTER and name in outer and entry is not outer[name]:
                self.scope.error(
                    "TK106",
                    f"`{name}` is set in an election: the other threads would keep its old value",
                    entry.span,
                )
            elif entry.what == REGISTER and name not in outer:
                self.scope.unset[name] = entry.span
        return X.Elect(SCOPES[word], body, s.span)

    def branch(self, tests: list[tuple[P.Value, S.Block]], last: S.Block, span: Span) -> Any:
        """`if` on what only the kernel knows."""

        def read() -> P.Body:
            outer = dict(self.scope.names)
            kept = dict(outer)
            made: list[P.Body] = []
            for block in (*(block for _, block in tests), last):
                self.scope.conditional += 1
                made.append(self.body(block))
                self.scope.conditional -= 1
                inner, self.scope.names = self.scope.names, dict(outer)
                leave(self.scope, outer, inner, "condition")
                kept |= {n: e for n, e in inner.items() if n in outer and e.what == REGISTER}
            self.scope.names = kept
            otherwise = made.pop()
            for (condition, _), body in zip(reversed(tests), reversed(made), strict=True):
                otherwise = (X.If(condition, body, otherwise, span),)
            return otherwise

        before, made = settle(self.scope, span, read)
        return [*before, *made]

    def repeat(self, s: E.While) -> Any:
        def read() -> X.While:
            x = self.values.evaluate(s.condition)
            condition = N.as_condition(self.values, x, s.condition.span)
            return X.While(condition, self._loop(s.body, s.span), s.span)

        before, made = settle(self.scope, s.span, read)
        return [*before, made]

    def _loop(self, block: S.Block, span: Span, variable: Word | None = None) -> P.Body:
        outer = dict(self.scope.names)
        if variable is not None:
            self.scope.define(variable, "loop variable", X.I32)
        self.scope.loops.append(span)
        self.scope.conditional += 1
        body = self.body(block)
        self.scope.conditional -= 1
        self.scope.loops.pop()
        inner, self.scope.names = self.scope.names, outer
        leave(self.scope, outer, inner)
        return body

    def loop(self, s: S.For) -> Any:
        """`for i in range(n)`, `for i in unroll(n)`, `for i in 0, 1`."""
        first = s.over[0].value
        if len(s.variables) != 1:
            self._fail("TK116", "a loop over integers has one variable", s.variables[0].span)
        if not isinstance(first, S.Call):
            values = [self.values.number(a.value, "a listed value", -(2**31)) for a in s.over]
            return self._unrolled(s, values)
        name = first.function.text  # type: ignore[union-attr]
        given = [a.value for a in first.arguments]
        most = 3 if name == "range" else 1
        if not 1 <= len(given) <= most or any(a.name for a in first.arguments):
            how = (
                "`range(n)`, `range(first, end)` or `range(first, end, step)`"
                if most > 1
                else "`unroll(n)`"
            )
            self._fail("TK116", f"a loop over integers is written {how}", first.span)
        if name == "unroll":
            return self._unrolled(s, list(range(self.values.number(given[0], "the turns", 0))))
        bounds = [N.as_integer(self.values, self.values.evaluate(e), e.span) for e in given]
        zero, one = X.Number(0, first.span), X.Number(1, first.span)
        lower, upper = (zero, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        step = bounds[2] if len(bounds) > 2 else one
        if isinstance(step, X.Number) and isinstance(step.size, int) and step.size < 1:
            self._fail("TK117", f"a step is at least 1, not {step.size}", given[2].span)
        variable = s.variables[0]
        before, body = settle(self.scope, s.span, lambda: self._loop(s.body, s.span, variable))
        return [*before, X.Range(variable.text, lower, upper, step, body, s.span)]

    def _unrolled(self, s: S.For, values: list[int]) -> list[Any]:
        if len(values) > MAX_UNROLLED:
            self._fail(
                "TK117",
                f"a loop is unrolled at most {MAX_UNROLLED} times, not {len(values)}",
                s.span,
            )
        variable, made = s.variables[0], []
        for value in values:
            if not self.scope.define(variable, "loop variable", Int(value, variable.span)):
                raise Failed
            made += self.body(s.body)
            del self.scope.names[variable.text]
        return made

    def _no_items(self, block: S.Block) -> None:
        """Items are a whole role's, so none stands where only some of its threads come."""
        for span in S.items_in(block):
            self.scope.later("a put or get in an election", span)
            raise Failed

    def _fail(self, code: str, message: str, span: Span, *notes: Any) -> NoReturn:
        self.scope.error(code, message, span, *notes)
        raise Failed
