"""The commands of explicit synchronisation, each checked at its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import tkc.frontend.explicit_program as X
import tkc.frontend.explicit_syntax as E
import tkc.frontend.integers as N
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend import elements, places, scaling
from tkc.frontend.describe import describe
from tkc.frontend.products import fits
from tkc.frontend.program import Slice, Tile
from tkc.frontend.scope import Failed, Int, Scope, listed
from tkc.frontend.values import Values
from tkc.frontend.writes import HINTS

BARRIERS = 16
"""Named barriers of a CTA (PTX 9.7.15.1)."""

FENCES: dict[str, dict[str, str]] = {
    "proxy": {"shared": "shared::cta", "cluster": "shared::cluster", "global": "global", "all": "",
              "acquire": "acquire", "release": "release", "reads": "release::read",
              "alias": "alias"},
    "tcgen05": {"before": "before_thread_sync", "after": "after_thread_sync"},
    "acq_rel": {"cta": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"},
    "acquire": {"cta": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"},
    "release": {"cta": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"},
    "sc": {"cta": "cta", "cluster": "cluster", "gpu": "gpu", "sys": "sys"},
}  # fmt: skip
"""Fences and what each takes, with how PTX spells that."""

GROUPS = ("stores", "products", "copies")
"""What a thread gathers in groups."""

MEETINGS = ("cluster", "pdl")
"""What has no barrier that the program declares: the cluster's own, and the grids before and after this one."""

SYNCS = ("role", "warp", "cta", "cluster")
REDUCTIONS = {"<-": "", "+=": "add"}
"""How a store combines with what is there."""

COMBINED: dict[str, tuple[str, ...]] = {
    "add": ("f32", "f16", "bf16", "i32"),
    "min": ("f16", "bf16", "i32"),
    "max": ("f16", "bf16", "i32"),
}
"""What the copy engine combines with what is there, and of which dtypes (PTX: cp.reduce.async.bulk.tensor)."""

EACH = {"warp": "lane", "thread": "all"}


class Options(NamedTuple):
    flags: frozenset[str]
    named: Mapping[str, S.Expression]

    def one_of(self, words: tuple[str, ...]) -> str:
        return next((w for w in words if w in self.flags), "")


class Commands:
    """Checks the commands of one role. Each method raises Failed after it has reported a mistake."""

    def __init__(self, scope: Scope, values: Values) -> None:
        self.scope = scope
        self.values = values
        self.by_word: Mapping[str, Callable[[E.Command], Any]] = {
            "wait": self._wait,
            "arrive": self._arrive,
            "expect": self._expect,
            "load": self._load,
            "store": self._store,
            "prefetch": self._prefetch,
            "commit": self._commit,
            "fence": self._fence,
            "sync": self._sync,
            "mma": self._mma,
            "copy": self._copy,
            "registers": self._registers,
        }

    def command(self, s: E.Command) -> Any:
        check = self.by_word.get(s.word.text)
        if check is None:
            near = nearest(s.word.text, E.COMMANDS)
            hint = f"; did you mean `{near}`" if near else f"; commands are {listed(E.COMMANDS)}"
            self._fail("TK101", f"no statement begins with `{s.word.text}`{hint}", s.word.span)
        return check(s)

    # barriers

    def _wait(self, s: E.Command) -> Any:
        what = self._word(s, (*GROUPS, *MEETINGS))
        if what in GROUPS:
            return self._wait_group(s, what)
        if what:
            self._options(s, s.options)
            return self._meet(s, what, "wait", "")
        if s.subject.operator or not s.options or s.options[0].name is not None:
            self._form(
                s,
                "`wait full[slot], phase`, `wait stores <= 1, read`, `wait products`, `wait copies`, `wait cluster` or "
                "`wait pdl`",
            )
        entry = self._entry(s.subject.place)
        parity = self._integer(s.options[0].value, "a phase, 0 or 1")
        flags = self._options(s, s.options[1:], ("relaxed", "cluster")).flags
        sem = "relaxed" if "relaxed" in flags else "acquire"
        scope = "cluster" if "cluster" in flags else "cta"
        return X.Wait(entry, parity, sem, scope, self._by("all"), s.span)

    def _wait_group(self, s: E.Command, group: str) -> X.Group:
        pending = 0
        if s.subject.operator:
            if s.subject.operator != "<=":
                self._form(s, f"`wait {group} <= 1`: at most one group is still under way")
            pending = self.values.number(s.subject.value, "the groups under way", 0)
        flags = self._options(s, s.options, ("read",) if group == "stores" else ()).flags
        return X.Group(f"wait {group}", pending, "read" in flags, s.span)

    def _arrive(self, s: E.Command) -> Any:
        what = self._word(s, MEETINGS)
        if what:
            flags = self._options(s, s.options, ("relaxed",) if what == "cluster" else ()).flags
            return self._meet(s, what, "arrive", "relaxed" if "relaxed" in flags else "")
        number = places.barrier_number(self.values, s.subject)
        if number is not None:
            return self._named(s, number, waits=False)
        if s.subject.operator or s.subject.place is None:
            self._form(s, "`arrive full[slot]`, `arrive cluster`, `arrive pdl` or `arrive 3, 128`")
        count, options = 1, s.options
        if options and options[0].name is None and not isinstance(options[0].value, S.Name):
            count, options = (
                self.values.number(options[0].value, "a number of arrivals"),
                options[1:],
            )
        if any(isinstance(o.value, S.Name) and o.value.text == "copies" for o in options):
            found = self._options(s, options, ("copies", "uncounted"))
            entry = self._entry(s.subject.place)
            return X.ArriveCopies(entry, "uncounted" in found.flags, s.span)
        found = self._options(s, options, ("relaxed", "cluster"), ("each", "at"))
        by = "one"
        if "each" in found.named:
            each = found.named["each"]
            by = EACH.get(each.text if isinstance(each, S.Name) else "", "")
            if not by:
                self._form(s, "`arrive full[slot]`, with a count, `each = warp` or `each = thread`")
        rank = self._rank(found.named.get("at"))
        sem = "relaxed" if "relaxed" in found.flags else "release"
        scope = "cluster" if rank is not None or "cluster" in found.flags else "cta"
        return X.Arrive(self._entry(s.subject.place), count, self._by(by), rank, sem, scope, s.span)

    def _expect(self, s: E.Command) -> Any:
        if s.subject.operator or s.subject.place is None or not s.options or s.options[0].name:
            self._form(s, "`expect full[slot], bytes(a, b)`")
        entry = self._entry(s.subject.place)
        count = self.values.number(s.options[0].value, "the bytes expected", 0)
        if count >= 2**20:
            told = f"a phase counts up to {2**20 - 1} bytes, not {count}"
            self._fail("TK209", told, s.options[0].value.span)
        found = self._options(s, s.options[1:], named=("at",))
        return X.Expect(entry, count, self._rank(found.named.get("at")), s.span)

    def _commit(self, s: E.Command) -> Any:
        group = self._word(s, GROUPS)
        if s.subject.operator or (s.subject.place is None and not group):
            self._form(
                s, "`commit full[slot]`, `commit stores`, `commit products` or `commit copies`"
            )
        if group:
            self._options(s, s.options)
            return X.Group(f"commit {group}", 0, False, s.span)
        found = self._options(s, s.options, ("reads",), ("multicast",))
        mask = self._mask(found.named.get("multicast"))
        return X.CommitEntry(self._entry(s.subject.place), mask, "reads" in found.flags, s.span)

    def _meet(self, s: E.Command, what: str, does: str, sem: str) -> Any:
        """The cluster's barrier, or the order between grids."""
        if what == "pdl":
            return X.Grid(does, self._by("all"), s.span)
        self._together(s)
        self._clustered(s.span, f"`{does} cluster`")
        return X.ClusterBarrier(does, sem, s.span)

    def _sync(self, s: E.Command) -> Any:
        self._together(s)
        at = s.subject.place
        words = [w.text for w in s.subject.words] or [at.text if isinstance(at, S.Name) else ""]
        what, how = (
            words[0],
            "`sync role`, `sync warp`, `sync cta`, `sync cluster` or `sync 3, 128`",
        )
        if len(words) > 1 or s.subject.operator:
            self._form(s, how)
        if what in SYNCS and not s.options:
            if what == "cluster":
                return self._meet(s, what, "sync", "")
            return X.Sync(what, 0, 0, True, s.span)
        number = places.barrier_number(self.values, s.subject)
        if number is None or len(s.options) != 1:
            self._form(s, f"{how} (a barrier, threads)")
        return self._named(s, number, waits=True)

    def _named(self, s: E.Command, number: int, *, waits: bool) -> X.Sync:
        """A barrier of the CTA by its number."""
        if len(s.options) != 1 or s.options[0].name is not None:
            self._form(s, f"`{s.word.text} 3, 128`: a barrier, and the threads that it takes")
        self._together(s)
        threads = self.values.number(s.options[0].value, "the threads that meet")
        if not 1 <= number < BARRIERS:
            told = f"named barriers are 1 to {BARRIERS - 1} (0 is `sync cta`), not {number}"
            self._fail("TK209", told, s.subject.span)
        if threads % 32:
            told = f"the threads that meet are whole warps, a multiple of 32, not {threads}"
            self._fail("TK117", told, s.options[0].value.span)
        return X.Sync("named", number, threads, waits, s.span)

    def _fence(self, s: E.Command) -> Any:
        words = [w.text for w in s.subject.words]
        if self._word(s, ("products",)) and not s.options:
            return X.Group("fence products", 0, False, s.span)
        kind = words[0] if words else ""
        of = FENCES.get(kind, {}).get(words[1] if len(words) > 1 else "")
        if of is None or s.options:
            known = FENCES.get(kind)
            which = f"`fence {kind}` takes {listed(known or ())}"
            if known is None:
                which = f"fences are {listed(FENCES)}, and `fence products`"
            self._fail("TK102", f"no such fence: {which}", s.span)
        return X.Fence(kind, of, self._by("all"), s.span)

    # copies

    def _load(self, s: E.Command) -> Any:
        if s.subject.operator == "<-" and (
            isinstance(at := s.subject.place, S.Index) and isinstance(at.base, S.Index)
        ):
            return elements.copy(self.values, s, at)
        if s.subject.operator != "<-" or not s.options or s.options[0].name is not None:
            self._form(s, "`load a[slot] <- A[m, k], full[slot]`, with the barrier that it signals")
        place = self._place(s.subject.place, "a copy goes to")
        source = self.values.evaluate(s.subject.value)
        entry = self._entry(s.options[0].value)
        if not isinstance(source, Slice):
            told = f"`load` copies a slice of a tensor (`store` copies one out), not {describe(source)}"
            self._fail("TK106", told, s.subject.value.span)  # type: ignore[union-attr]
        self._same(place.tile, source, s)
        if place.tile.scale != source.scale:
            scaling.same(self.scope, place.tile, source, s.subject.span)
        scaling.loaded(self.scope, place.tile, source, s.subject.value.span)  # type: ignore[union-attr]
        found = self._options(s, s.options[1:], (*HINTS, "bulk"), ("multicast", "at"))
        mask, rank = (
            self._mask(found.named.get("multicast")),
            self._rank(found.named.get("at")),
        )
        bulk = self._bulk(s, found, place.tile)
        if bulk and rank is not None:
            self._fail("TK116", "a bulk copy signals its own CTA: it takes no `at`", s.span)
        return X.Load(place, source, entry, self._hint(s, found), bulk, mask, rank, s.span)

    def _bulk(self, s: E.Command, found: Options, tile: Tile) -> bool:
        """Whether a copy is of bytes in a row, without a tensor map: of vectors."""
        if "bulk" in found.flags and len(tile.shape) != 1:
            told = f"a bulk copy is of a vector, and {tile.name} is {tile.dtype} {list(tile.shape)}"
            self._fail("TK106", told, s.span)
        return "bulk" in found.flags

    def _hint(self, s: E.Command, found: Options) -> str:
        """The priority in the L2 cache that a copy may end with."""
        if len(found.flags & {*HINTS}) > 1:
            self._fail("TK116", f"a copy has one of {listed(HINTS)}", s.span)
        return found.one_of(HINTS)

    def _store(self, s: E.Command) -> Any:
        reduce = REDUCTIONS.get(s.subject.operator)
        if reduce is None:
            self._form(s, "`store C[m, n] <- c[slot]` or `+=`, followed by `commit stores`")
        target = self.values.evaluate(s.subject.place)
        if not isinstance(target, Slice):
            told = f"`store` copies to a slice of a tensor (`load` copies one in), not to {describe(target)}"
            self._fail("TK106", told, s.subject.place.span)  # type: ignore[union-attr]
        self.values.written(target, target.span)
        place = self._place(s.subject.value, "a store copies")
        self._unscaled(place.tile.scale or target.scale, "a store of", s)
        self._same(place.tile, target, s)
        found = self._options(s, s.options, (*HINTS, "min", "max", "bulk"))
        smaller = found.one_of(("min", "max"))
        if smaller and (reduce or len(found.flags & {"min", "max"}) > 1):
            self._fail("TK116", "a store combines in one way: `+=`, `min` or `max`", s.span)
        reduce = reduce or smaller
        if reduce and target.dtype not in COMBINED[reduce]:
            told = (
                f"the copy engine's `{reduce}` is of {listed(COMBINED[reduce])}, not {target.dtype}"
            )
            self._fail("TK105", told, s.span)
        bulk = self._bulk(s, found, place.tile)
        return X.Store(target, place, reduce, self._hint(s, found), bulk, s.span)

    def _prefetch(self, s: E.Command) -> Any:
        if s.subject.operator or s.subject.place is None:
            self._form(s, "`prefetch A[m, k]`")
        source = self.values.evaluate(s.subject.place)
        if not isinstance(source, Slice):
            told = f"`prefetch` is of a slice of a tensor, not of {describe(source)}"
            self._fail("TK106", told, s.subject.place.span)
        self._unscaled(source.scale, "a prefetch of", s)
        return X.Prefetch(source, self._hint(s, self._options(s, s.options, HINTS)), s.span)

    def _unscaled(self, scale: scaling.Scale | None, what: str, s: E.Command) -> None:
        if scale is not None:
            self.values.later(f"{what} block-scaled data", s.span)

    def _copy(self, s: E.Command) -> Any:
        """`copy sa[slot] <- a[slot].scales`, `copy b[j] <- a[i], full[j], at = rank`."""
        value = s.subject.value
        if s.subject.operator != "<-" or value is None:
            self._form(
                s,
                "`copy sa[slot] <- a[slot].scales`, of block scales to tensor memory, or `copy b[j] <- a[i], full[j], "
                "at = rank`, to another CTA of the cluster",
            )
        into = self._ring(s.subject.place)
        found = self.values.evaluate(value)
        if not into.tile.accumulator and not isinstance(found, P.Scales):
            return self._copy_across(s, into, self._place(value, "`copy` takes"))
        if not isinstance(found, P.Scales) or not scaling.holds_scales(into.tile):
            what = found if scaling.holds_scales(into.tile) else into
            how = "as in `copy sa[slot] <- a[slot].scales`"
            told = f"`copy` is of a tile's scales to tensor memory, {how}, not {describe(what)}"
            self._fail("TK106", told, s.subject.span)
        source = self._slot(places.alone(self.values, found.tile, found.span), found.span)
        scaling.copied(self.scope, source.tile, into.tile, s.span)
        return X.CopyPlaces(into, source, self._paired(s, s.options, "copy"), s.span)

    def _copy_across(self, s: E.Command, into: X.Place, source: X.Place) -> X.ClusterCopy:
        """A slot to a slot of the same shape in another CTA of the cluster."""
        if not s.options or s.options[0].name is not None:
            self._form(
                s, "`copy b[j] <- a[i], full[j], at = rank`, with the barrier there that it signals"
            )
        self._same(into.tile, source.tile, s)
        if (into.tile.scale, into.tile.scale_rows) != (source.tile.scale, source.tile.scale_rows):
            scaling.same(self.scope, into.tile, source.tile, s.subject.span)
        entry = self._entry(s.options[0].value)
        rank = self._rank(self._options(s, s.options[1:], named=("at",)).named.get("at"))
        if rank is None:
            self._form(s, "`copy b[j] <- a[i], full[j], at = rank`, with the CTA that it goes to")
        return X.ClusterCopy(into, source, entry, rank, s.span)

    def _paired(self, s: E.Command, options: tuple[S.Argument, ...], what: str) -> bool:
        """Whether the tensor cores of a pair of CTAs do it."""
        pair = "pair" in self._options(s, options, ("pair",)).flags
        if pair and self.scope.ctas != 2:
            told = f"the {what} of a pair takes the operands of two CTAs: `launch cluster(2)`"
            self._fail("TK106", told, s.span)
        return pair

    def _same(self, tile: Tile, other: Slice | Tile, s: E.Command) -> None:
        """A copy keeps shape and dtype."""
        whose = other.name if isinstance(other, Tile) else f"the slice of {other.tensor}"
        for a, b, what, code in (
            (list(tile.shape), list(other.shape), "shape", "TK104"),
            (tile.dtype, other.dtype, "dtype", "TK105"),
        ):
            if a != b:
                kept = f"a copy keeps the {what}"
                if what == "shape" and isinstance(other, Slice) and len(b) < len(a):
                    kept = "an integer as an index drops its axis; `blocks(K, BK)[i]`, a block, keeps it"
                self._fail(
                    code,
                    f"{tile.name} is {a} and {whose} is {b or 'one element'}: {kept}",
                    s.subject.span,
                    self.scope.note(f"{tile.name} is {tile.dtype} {list(tile.shape)}", tile.span),
                )

    # products and registers

    def _mma(self, s: E.Command) -> Any:
        value = s.subject.value
        if s.subject.operator != "+=":
            self._form(
                s, "`mma d[i] += a[slot] @ b[slot].T`, then a condition under which d counts"
            )
        if not isinstance(value, S.Binary) or value.operator != "@":
            self._fail("TK106", "`mma` adds a product `a[slot] @ b[slot].T`", s.subject.span)
        d = self._ring(s.subject.place)
        if not d.tile.accumulator or d.tile.operand:
            self._fail("TK106", f"`mma` adds to an accumulator, not to {describe(d)}", d.span)
        if scaling.holds_scales(d.tile):
            told = f"`{d.tile.name}` holds block scales: `copy {d.tile.name}[slot] <- a[slot].scales` writes it"
            self._fail("TK106", told, d.span)
        (a, of_a), (b, of_b) = (self._operand(x) for x in (value.left, value.right))
        keep, options = None, s.options
        if options and not self._is_word(options[0], "pair"):
            if options[0].name is not None:
                self._options(s, options)
            e = options[0].value
            keep, options = (
                N.as_condition(self.values, self.values.evaluate(e), e.span),
                options[1:],
            )
        pair = self._paired(s, options, "product")
        if isinstance(a, X.Open) or isinstance(b, X.Open):
            return self._of_open(s, d, (a, b), keep, pair)
        fits(self.values, d.tile, (a, b), 2 if pair else 1, s)
        scaling.multiply_pair(self.scope, (a.tile, b.tile), pair, value.span)
        scales = None if of_a is None or of_b is None else (of_a, of_b)
        return X.Product(d, a, b, keep, pair, s.span, scales)

    def _of_open(
        self, s: E.Command, d: X.Place, of: tuple[Any, Any], keep: P.Value | None, pair: bool
    ) -> P.Multiply:
        """A product with tiles of an open pipe, which releases its slots when all products are done that read them."""
        if pair:
            told = "the product of a pair takes slots that the program numbers: a pipe's are released in one CTA alone"
            self._fail("TK110", f"not supported yet: {told}", s.span)
        fits(self.values, d.tile, of, 1, s)
        a, b = (x.tile.name if isinstance(x, X.Open) else x for x in of)
        turned = [x.transposed for x in of]
        return P.Multiply("", a, turned[0], b, turned[1], False, s.span, None, (d, keep))

    def _opened(self, x: Any, span: S.Span) -> X.Open | None:
        """A tile of a pipe that is open here, or its transpose."""
        tile, transposed = (x.tile, True) if isinstance(x, P.Transposed) else (x, False)
        if not isinstance(tile, Tile) or tile.name not in self.scope.owned:
            return None
        if tile.accumulator and not tile.operand:
            return None
        if self.scope.owned[tile.name].direction == "put":
            self.values.later(f"a product of `{tile.name}` inside the put that writes it", span)
        return X.Open(tile, transposed, span)

    def _operand(self, e: Any) -> tuple[X.Place | X.Open, X.Place | None]:
        """A slot, and that of its scales where it is block-scaled."""
        x = self.values.evaluate(e)
        transposed = isinstance(x, P.Transposed) and isinstance(x.tile, P.Scaled)
        given = x.tile if transposed else x
        opened = self._opened(x, e.span)
        if opened is not None and opened.tile.scale is None:
            return opened, None
        if not isinstance(given, P.Scaled):
            place = self._ring(e)
            if place.tile.accumulator and not place.tile.operand:
                self._fail("TK106", f"`@` takes a shared tile, not {describe(place)}", e.span)
            if place.tile.scale is not None:
                name = place.tile.name
                how = f"`{name}[slot].scaled(sa[slot])`"
                self._fail(
                    "TK106", f"`mma` takes {name} with its scales in tensor memory: {how}", e.span
                )
            return place, None
        slot, scales = (self._slot(t, e.span) for t in (given.tile, given.scales))
        return slot._replace(transposed=transposed), scales

    def _slot(self, x: Any, span: S.Span) -> X.Place:
        """A slot that the program numbers."""
        if not isinstance(x, X.Place):
            if x.name in self.scope.pipe_of or x.depth == 1:
                places.place(self.values, x, Int(0, span), span, span)
            self._fail("TK116", f"{x.name} has {x.depth} slots: `{x.name}[slot]` is one", span)
        return x

    def _registers(self, s: E.Command) -> Any:
        self._together(s)
        words = s.subject.words
        if len(words) != 2 or words[0].text not in ("inc", "dec") or s.options:
            self._form(s, "`registers inc 232` or `registers dec 40`")
        way, given = words[0].text, words[1]
        count = (
            int(given.text)
            if given.text.isdigit()
            else self.values.number(S.Name(given.text, given.span), "a thread's registers", 0)
        )
        if count % 8 or not 24 <= count <= 256:
            told = f"setmaxnreg takes a multiple of 8 from 24 to 256, not {count}"
            self._fail("TK206", told, s.subject.span)
        return X.Registers(way, count, s.span)

    # what commands are about

    def _by(self, who: str) -> str:
        """Who runs a command of the threads that come to it: inside an election the one that was elected."""
        return "one" if self.scope.alone else who

    def _together(self, s: E.Command) -> None:
        """What threads do together cannot stand in an election: those that wait would wait for ever."""
        if self.scope.alone:
            told = f"`{self.scope.source.excerpt(s.span)}` stands in an election: the other threads never reach it"
            self._fail("TK121", told, s.span)

    def _word(self, s: E.Command, words: tuple[str, ...]) -> str:
        """One of the words, unless the program calls something else so."""
        at = s.subject.place
        name = at.text if isinstance(at, S.Name) else ""
        return name if name in words and name not in self.scope.names else ""

    def _ring(self, e: Any) -> X.Place:
        """A slot; a tile of one slot names it by itself."""
        x = places.alone(self.values, self.values.evaluate(e), e.span)
        if isinstance(x, Tile):
            if x.depth != 1 and x.name not in self.scope.pipe_of:
                self._fail(
                    "TK116", f"{x.name} has {x.depth} slots: `{x.name}[slot]` is one", e.span
                )
            x = places.place(self.values, x, Int(0, e.span), e.span, e.span)
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
        return places.entry(self.values, e)

    def _integer(self, e: S.Expression, what: str) -> P.Value:
        return N.as_integer(self.values, self.values.evaluate(e), e.span, what)

    def _rank(self, e: S.Expression | None) -> P.Value | None:
        """`at = rank`: another CTA of the cluster."""
        return None if e is None else self._of_cluster(e, "`at`", "a CTA's rank", self.scope.ctas)

    def _mask(self, e: S.Expression | None) -> P.Value | None:
        """`multicast = mask`: a bit for each CTA of the cluster."""
        if e is None:
            return None
        return self._of_cluster(e, "`multicast`", "a mask of CTAs", 1 << self.scope.ctas)

    def _of_cluster(self, e: S.Expression, word: str, what: str, end: int) -> P.Value:
        self._clustered(e.span, word)
        x = self._integer(e, what)
        if isinstance(x, X.Number) and isinstance(x.size, int) and not 0 <= x.size < end:
            told = f"{what} is 0 to {end - 1} in a cluster of {self.scope.ctas}, not {x.size}"
            self._fail("TK104", told, e.span)
        return x

    def _clustered(self, span: S.Span, word: str) -> None:
        if self.scope.ctas == 1:
            self._fail("TK106", f"{word} is of the CTAs of a cluster: `launch cluster(n)`", span)

    # options

    def _is_word(self, option: S.Argument, word: str) -> bool:
        return (
            option.name is None and isinstance(option.value, S.Name) and option.value.text == word
        )

    def _options(
        self,
        s: E.Command,
        options: tuple[S.Argument, ...],
        flags: tuple[str, ...] = (),
        named: tuple[str, ...] = (),
    ) -> Options:
        """The options of a command: words, and values by name."""
        found: set[str] = set()
        values: dict[str, S.Expression] = {}
        for option in options:
            word = option.value.text if isinstance(option.value, S.Name) else ""
            if option.name is not None and option.name.text in named:
                values[option.name.text] = option.value
            elif option.name is None and word in flags:
                found.add(word)
            else:
                known = (*flags, *(f"{n} = ..." for n in named))
                near = nearest(word, flags) if word else None
                hint = f"options are {listed(known)}" if known else "there are no options"
                hint += f"; did you mean `{near}`" if near else ""
                span = option.value.span if option.name is None else option.name.span
                self._fail("TK102", f"`{s.word.text}` has no such option: {hint}", span)
        return Options(frozenset(found), values)

    def _form(self, s: E.Command, how: str) -> NoReturn:
        self._fail("TK101", f"`{s.word.text}` is written {how}", s.span)

    def _fail(self, code: str, message: str, span: S.Span, *notes: Any) -> NoReturn:
        self.values.fail(code, message, span, *notes)
