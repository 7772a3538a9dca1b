"""What a statement writes: a slice, a shared tile, an accumulator or a register variable."""

from __future__ import annotations

from typing import Any

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
import tkc.frontend.syntax as S
import tkc.frontend.wide as wide
from tkc.diagnostics import nearest
from tkc.frontend import scaling
from tkc.frontend.describe import describe, dims
from tkc.frontend.elements import is_element, store
from tkc.frontend.explicit_program import I32, Fill, Number, Place, Spot
from tkc.frontend.places import alone, not_summed
from tkc.frontend.program import Constant, Product, Regs, Scalar, Slice, Tensor, Tile
from tkc.frontend.scope import (
    REGISTER,
    RESERVED,
    UNKNOWN,
    Entry,
    Failed,
    Int,
    Scope,
    Unknown,
    article,
    listed,
    plural,
)
from tkc.frontend.syntax import Span
from tkc.frontend.values import Values

ADDED = ("f32", "f16", "bf16", "i32", "u32")
"""Dtypes that the copy engine adds (PTX: cp.reduce.async.bulk.tensor)."""


HINTS = ("evict_first", "evict_last", "evict_normal")
"""Priorities in the L2 cache."""

HALVES = ("f16", "e4m3", "e5m2")
"""Operands whose products may be summed in f16, too."""

INTEGERS = ("s8", "u8")
"""Operands whose products are summed in i32; all others' are in f32."""


class Writes:
    """Checks copies and assignments. Methods raise Failed after they have reported a mistake."""

    def __init__(self, scope: Scope, values: Values) -> None:
        self.scope = scope
        self.values = values

    # copies

    def copy(self, s: S.Copy) -> P.Statement:
        target = self._target(s)
        if is_element(target):
            return store(self.values, s, target)
        words = [self._hint(hint) for hint in s.hints]
        shared = "multicast" in words
        priority = next((w for w in words if w in HINTS), "")
        source = alone(self.values, self.values.evaluate(s.source), s.source.span)
        if shared and not (isinstance(target, Tile) and isinstance(source, Slice)):
            self.values.fail(
                "TK106", "a copy for the whole cluster is from a tensor to a shared tile", s.span
            )
        if priority and not (isinstance(target, Slice) or isinstance(source, Slice)):
            self.values.fail(
                "TK106", f"`{priority}` is about a tensor: a copy from or to one takes it", s.span
            )
        made = self._copied(s, target, source)
        if isinstance(made, P.Move):
            return made._replace(multicast=shared and self.scope.ctas > 1, hint=priority)
        return made

    def _hint(self, e: S.Expression) -> str:
        """A word after a copy: `multicast`, or a priority in the L2 cache."""
        word = e.text if isinstance(e, S.Name) else ""
        if word == "multicast" and self.scope.multicast is not None:
            self.scope.multicast(e.span)
        elif word not in HINTS:
            known = ("multicast", *HINTS)
            near = nearest(word, known) if word else None
            told = f"; did you mean `{near}`" if near else f"; there are {listed(known)}"
            self.scope.error(
                "TK102", f"no option `{self.scope.source.excerpt(e.span)}` of a copy{told}", e.span
            )
        return word

    def _copied(self, s: S.Copy, target: Any, source: Any) -> Any:
        if isinstance(target, Tile) and scaling.holds_scales(target):
            self._writes(s, target)
            return scaling.copy(self.values, target, source, s.span)
        if isinstance(target, Tile):
            return self._fill(s, target, source)
        if isinstance(target, Place):
            return self._write(s, target, source)
        if isinstance(source, Slice):
            self.values.later("a copy from tensor to tensor: go through a shared tile", s.span)
        if isinstance(source, Place):
            left, right = (self.scope.source.excerpt(x.span) for x in (s.target, s.source))
            self.values.fail(
                "TK106",
                f"a copy out of a slot that no pipe carries is `store {left} <- {right}`, then `commit stores`",
                s.span,
            )
        if isinstance(source, Tile) and not source.accumulator:
            self.values.reads(source, s.source.span)
            self._same(s, target, source)
            return P.Move(target, source.name, s.span)
        value = self._shaped(target, self._turned(source, s.source.span))
        self._same(s, target, value.type)
        return P.Move(target, value, s.span)

    def _turned(self, source: Any, span: Span) -> P.Value:
        """A value for registers; `w.T` of a shared tile is read, and the copy turns it."""
        if isinstance(source, P.Transposed) and isinstance(source.tile, Tile):
            read = self.values.read(source.tile, span)
            return P.Transpose(read, Regs(read.type.dtype, read.type.shape[::-1]), span)
        return self.values.as_value(source, span)

    def _shaped(self, target: Slice | Tile, value: P.Value) -> P.Value:
        """A number spreads over the whole target; one column or row is copied to a vector."""
        type = value.type
        if isinstance(type, Scalar):
            filled: P.Value = P.Fill(value, Regs("f32", target.shape), value.span)
            if target.dtype == "f32":
                return filled
            return self.values.cast(target.dtype, filled, value.span)
        if len(target.shape) == 1 and len(type.shape) == 2 and 1 in type.shape:
            long = max(type.shape)
            return P.Reshape(value, Regs(type.dtype, (long,)), value.span)
        return value

    def _write(self, s: S.Copy, place: Place, source: Any) -> P.Statement:
        """A register tile into a slot that no pipe carries."""
        if isinstance(source, Slice):
            left, right = (self.scope.source.excerpt(x.span) for x in (s.target, s.source))
            self.values.fail(
                "TK106",
                f"a copy from a tensor into a slot that no pipe carries signals a barrier: "
                f"`load {left} <- {right}, full[slot]`",
                s.span,
            )
        value = self._shaped(place.tile, self.values.as_value(source, s.source.span))
        self._same(s, place.tile, value.type)
        if isinstance(value, P.Transpose) and place.tile.accumulator:
            self.values.later("a transpose written to an accumulator", s.span)
        return Fill(place, value, s.span)

    def _target(self, s: S.Copy) -> Slice | Tile | Place | Spot:
        try:
            target = alone(self.values, self.values.evaluate(s.target), s.target.span)
        except Failed:
            self.values.evaluate(s.source)
            raise
        if isinstance(target, Slice):
            self.values.written(target, s.target.span)
        scales = isinstance(target, Place) and scaling.holds_scales(target.tile)
        if isinstance(target, Slice | Spot) or (
            isinstance(target, Place) and not (target.transposed or scales)
        ):
            return target
        if isinstance(target, Tile) and (
            not target.accumulator or target.operand or scaling.holds_scales(target)
        ):
            return target
        text = self.scope.source.excerpt(s.target.span)
        if scales:
            told = f"`{text}` holds block scales: `copy {text} <- a[slot].scales`, in an election, writes it"
            self.values.fail("TK106", told, s.span)
        if isinstance(target, Tile | Place):
            self.values.fail(
                "TK106",
                f"`{text}` is an accumulator: it is cleared by `{text} = 0` and added to by `{text} += a @ b`",
                s.span,
            )
        if isinstance(target, Tensor):
            indices = plural(len(target.dims), "index", "indices")
            self.values.fail(
                "TK106", f"a copy goes to a slice: `{text}[...]` with {indices}", s.target.span
            )
        self.values.fail(
            "TK106",
            f"a copy goes to a slice or a shared tile, not to {describe(target)}",
            s.target.span,
        )

    def _writes(self, s: S.Copy, tile: Tile) -> None:
        """A tile of a pipe is written once in a put, and surely."""
        owned = self.values.owned(tile, s.target.span)
        pipe = owned.pipe
        note = self.scope.note(f"pipe {pipe.name}: {self.scope.ends(pipe)}", pipe.span)
        if owned.direction == "get" and not self.scope.several(tile.name):
            self.values.fail(
                "TK107",
                f"`{tile.name}` is written inside a get of pipe {pipe.name}: "
                f"{listed(pipe.producers)} writes it, in a put",
                s.target.span,
                note,
            )
        if self.scope.conditional > owned.conditions:
            self.values.later("a copy into a pipe's tile under a condition inside its put", s.span)
        if len(self.scope.loops) > owned.loops:
            self.values.later("a copy into a tile from a loop inside its put", s.span)
        if tile.name in self.scope.written:
            self.values.later(f"a second copy into `{tile.name}` in one put", s.span)
        self.scope.written.add(tile.name)

    def _fill(self, s: S.Copy, tile: Tile, source: Any) -> P.Move:
        self._writes(s, tile)
        if isinstance(source, Slice) and tile.operand:
            how = f"`{tile.name} <- read(t)` of a shared tile t"
            told = f"the copy engine fills shared memory, not {describe(tile)}: {how}"
            self.values.fail("TK106", told, s.span)
        if isinstance(source, Slice):
            if self.values.owned(tile, s.target.span).direction == "get":
                self.values.later(
                    f"a copy from a tensor into `{tile.name}` inside a get: the copy engine tells a put's other end",
                    s.span,
                )
            self._same(s, tile, source)
            return P.Move(tile.name, source, s.span)
        if isinstance(source, Tile) and not source.accumulator:
            self.values.later(
                f"a copy from shared tile to shared tile: `{tile.name} <- read({source.name})` goes through registers",
                s.span,
            )
        value = self._shaped(tile, self._turned(source, s.source.span))
        self._same(s, tile, value.type)
        if tile.operand and isinstance(value, P.Transpose):
            self.values.later(f"a transpose written to {describe(tile)}", s.span)
        return P.Move(tile.name, value, s.span)

    def _same(
        self, s: S.Copy | S.Assign, target: Slice | Tile, source: Slice | Tile | Regs
    ) -> None:
        """A copy keeps shape and dtype."""
        if target.shape == source.shape and target.dtype == source.dtype:
            scaling.same(self.scope, target, source, s.span)
            return
        excerpt = self.scope.source.excerpt
        given = s.value.span if isinstance(s, S.Assign) else s.source.span
        left, right = excerpt(s.target.span), excerpt(given)
        if isinstance(target, Tile):
            told, span = f"{target.name} is {target.dtype} {list(target.shape)}", target.span
        else:
            tensor = self.scope.names[target.tensor].meaning
            told, span = f"{tensor.name} is {tensor.dtype} {dims(tensor)}", tensor.span
        note = self.scope.note(told, span)
        if target.shape != source.shape:
            shapes = f"`{left}` is {list(target.shape)} and `{right}` is {list(source.shape)}"
            self.values.fail("TK104", f"{shapes}: a copy keeps the shape", s.span, note)
        dtypes = f"`{left}` is {target.dtype} and `{right}` is {source.dtype}"
        whole = self.scope.source.whole(given)
        cast = f"{target.dtype}({right if whole else '...'})"
        fits = isinstance(source, Regs)
        told = f"{dtypes}: a copy keeps the dtype" + (f"; `{cast}` fits" if fits else "")
        if fits and whole:
            self.scope.mend("TK105", told, given, note, at=given, text=cast)
        self.values.fail("TK105", told, given, note)

    # assignments

    def assign(self, s: S.Assign) -> P.Statement | None:
        if isinstance(s.target, S.Index):
            if isinstance(self.values.evaluate(s.target.base), Tensor):
                self._arrow(s, "a tensor")
            self.values.evaluate(s.target)
        if not isinstance(s.target, S.Name):
            self.values.fail(
                "TK106",
                f"`{self.scope.source.excerpt(s.target.span)}` cannot be assigned",
                s.target.span,
            )
        name, span = s.target.text, s.target.span
        entry = self.scope.names.get(name)
        if entry is not None and isinstance(entry.meaning, Tile):
            return (
                self._clear(s, entry.meaning)
                if entry.meaning.accumulator
                else self._arrow(s, "a shared tile")
            )
        self._assignable(name, entry, span)
        try:
            return self._set(name, self.values.evaluate(s.value), s.value.span, s.span, span)
        except Failed:
            self.scope.names.setdefault(name, Entry(UNKNOWN, Unknown(span), span))
            raise

    def _set(self, name: str, value: Any, at: Span, span: Span, word: Span) -> P.Statement | None:
        self.scope.unset.pop(name, None)
        known = self.scope.names.get(name)
        if known is not None and isinstance(known.meaning, Unknown):
            return None  # what is wrong with it has been said
        held = known.meaning if known is not None and known.meaning in X.INTEGERS else None
        if isinstance(value, Int) and held is None:
            self.scope.names[name] = Entry(REGISTER, Int(value.size, word), word)
            return None
        if isinstance(value, Int):
            value = (
                Number(value.size, at)
                if held == I32
                else wide.as_type(self.values, value, held, at)
            )
        checked = self.values.as_value(value, at)
        self.scope.names[name] = Entry(REGISTER, checked.type, word)
        return P.Set(name, checked, span)

    def _assignable(self, name: str, entry: Entry | None, span: Span) -> None:
        if entry is None:
            if name in RESERVED:
                self.scope.names[name] = Entry(UNKNOWN, Unknown(span), span)
                self.values.fail(
                    "TK103",
                    f"`{name}` is a word of the language: give the value another name",
                    span,
                )
        elif entry.what != REGISTER and not isinstance(entry.meaning, Unknown):
            self.values.fail(
                "TK106",
                f"`{name}` is {article(entry.what)}: it is not assigned",
                span,
                self.scope.note(f"`{name}` is defined here", entry.span),
            )

    def _arrow(self, s: S.Assign, what: str) -> Any:
        excerpt = self.scope.source.excerpt
        left, right = excerpt(s.target.span), excerpt(s.value.span)
        told = f"`=` sets a register value or clears an accumulator; {what} is copied to by `<-`"
        if all(map(self.scope.source.whole, (s.target.span, s.value.span))):
            self.scope.mend("TK101", told, s.span, at=s.span, text=f"{left} <- {right}")
        self.values.fail("TK101", told, s.span)

    def _clear(self, s: S.Assign, d: Tile) -> P.Statement:
        if d.operand:
            not_summed(self.values, d, s.span, sums=True)
        self.scope.cleared.add(d.name)
        self.scope.written.add(d.name)
        value = self.values.evaluate(s.value)
        if isinstance(value, Product):
            self._writable(d, s.target.span)
            return self._multiply(s, d, value)
        zero = (isinstance(value, Int) and value.size == 0) or (
            isinstance(value, Constant) and value.value == 0
        )
        self._writable(d, s.target.span)
        if zero:
            return P.Clear(d.name, s.span)
        return self._set_to(s, d, value)

    def _set_to(self, s: S.Assign, d: Tile, value: Any) -> P.Move:
        """`d = e`: registers to an accumulator (R11)."""
        made = self._shaped(d, self.values.as_value(value, s.value.span))
        self._same(s, d, made.type)
        if isinstance(made, P.Transpose):
            self.values.later("a transpose written to an accumulator", s.span)
        return P.Move(d.name, made, s.span)

    def keep(self, s: S.Words) -> list[P.Statement]:
        """`keep d`: a put hands on what its slot holds."""
        if s.where is not None:
            self.values.fail("TK101", f"a tile is kept as it is: `keep {s.second.text}`", s.span)
        meaning = self.scope.find(s.second.text, s.second.span, ("shared tile", "accumulator"))
        if isinstance(meaning, Unknown):
            raise Failed
        if not isinstance(meaning, Tile):
            self.values.fail(
                "TK106", f"`keep` is of a tile, not of {describe(meaning)}", s.second.span
            )
        owned = self.values.owned(meaning, s.second.span)
        if owned.direction == "get":
            self.values.fail(
                "TK107",
                f"`keep {meaning.name}` stands in a get of pipe {owned.pipe.name}: what a get leaves alone stays as it "
                "is; `keep` is for a put, which else writes its tiles",
                s.span,
            )
        if not self.scope.several(meaning.name):
            self.values.fail(
                "TK106",
                f"nobody but this put writes `{meaning.name}`, so that there is nothing to keep: `keep` is for a tile "
                "that rides in several pipes",
                s.span,
                self.scope.note(f"pipe {owned.pipe.name} carries it", owned.pipe.span),
            )
        if self.scope.conditional > owned.conditions or len(self.scope.loops) > owned.loops:
            self.values.later("`keep` in a loop or under a condition inside its put", s.span)
        if meaning.name in self.scope.written:
            told = f"this put writes `{meaning.name}` and keeps it: one of the two"
            self.values.fail("TK103", told, s.span)
        self.scope.written.add(meaning.name)
        self.scope.cleared.add(meaning.name)
        return [P.Stay(meaning.name, s.span)]

    def _writable(self, d: Tile, span: Span, added: bool = False) -> None:
        """Reports where this cannot write an accumulator; a product that is `added` may stand under a condition."""
        if scaling.holds_scales(d):
            self.values.fail(
                "TK106",
                f"`{d.name}` holds block scales: it is written by `{d.name} <- a.scales`",
                span,
            )
        owned = self.values.owned(d, span)
        handed_on = self.scope.several(d.name)
        if self.scope.conditional > owned.conditions and (handed_on or not added):
            told = f"writing accumulator {d.name} of a pipe under a condition inside its put: "
            told += (
                "several pipes carry it; the condition may stand round the put and what is got of it"
                if handed_on
                else f"only `{d.name} += a @ b` may stand in it, and what it is set to ahead of it, as in "
                f"`{d.name} = 0` or `{d.name} = e if c else 0`"
            )
            self.values.later(told, span)
        if owned.direction == "get" and not self.scope.several(d.name):
            self.values.later(
                f"writing accumulator {d.name} in a get of pipe {owned.pipe.name}: "
                f"{listed(owned.pipe.producers)} writes it, in a put",
                span,
            )

    def _multiply(self, s: S.Assign | S.Update, d: Tile, product: Product) -> P.Multiply:
        if d.operand:
            not_summed(self.values, d, s.span, sums=True)
        for tile in (product.a, product.b):
            owned = self.values.owned(tile, s.value.span)
            if owned.direction == "put":
                self.values.later(
                    f"a matrix product of `{tile.name}` inside the put that writes it", s.value.span
                )
        if product.shape != d.shape:
            self.values.fail(
                "TK104",
                f"`@` makes {list(product.shape)}, and accumulator {d.name} is {list(d.shape)}",
                s.span,
                self.scope.note(f"{d.name} is {d.dtype} {list(d.shape)}", d.span),
                self.scope.note(
                    f"{product.a.name} is {product.a.dtype} {list(product.a.shape)}", product.a.span
                ),
                self.scope.note(
                    f"{product.b.name} is {product.b.dtype} {list(product.b.shape)}", product.b.span
                ),
            )
        dtype = product.a.dtype
        wanted = ("i32",) if dtype in INTEGERS else ("f32", "f16") if dtype in HALVES else ("f32",)
        if d.dtype not in wanted:
            self.values.fail(
                "TK105",
                f"a product of {dtype} sums in {' or '.join(wanted)}, and accumulator {d.name} is {d.dtype}",
                s.span,
                self.scope.note(f"{d.name} is {d.dtype} {list(d.shape)}", d.span),
            )
        a, b = product.a.name, product.b.name
        scales = None
        if product.scales is not None:
            for tile in product.scales:
                self.values.reads(tile, s.value.span)
            scales = (product.scales[0].name, product.scales[1].name)
        return P.Multiply(
            d.name,
            a,
            product.transpose_a,
            b,
            product.transpose_b,
            isinstance(s, S.Assign),
            s.span,
            scales,
        )

    def update(self, s: S.Update) -> P.Statement | None:
        if isinstance(s.target, S.Index):
            return self._add(s)
        if not isinstance(s.target, S.Name):
            target = describe(self.values.evaluate(s.target))
            self.values.fail(
                "TK106",
                f"`{s.operator}` updates an accumulator or a register value, not {target}",
                s.target.span,
            )
        name, span = s.target.text, s.target.span
        entry = self.scope.names.get(name)
        if entry is not None and isinstance(entry.meaning, Tile):
            return self._accumulate(s, entry.meaning)
        self._assignable(name, entry, span)
        if entry is not None and isinstance(entry.meaning, Unknown):
            self.values.evaluate(s.value)
            return None
        left = self.values.evaluate(s.target)
        right = self.values.evaluate(s.value)
        value = self.values.operate(s.operator[0], left, span, right, s.value.span, s.span)
        return self._set(name, value, s.span, s.span, span)

    def _add(self, s: S.Update) -> P.Statement:
        """`C[m, n] += r`: the copy engine adds, or of a vector in registers the threads do, in no order."""
        target = self.values.evaluate(s.target)
        if not isinstance(target, Slice):
            self.values.fail(
                "TK106", f"`{s.operator}` does not update {describe(target)}", s.target.span
            )
        self.values.written(target, s.target.span)
        if s.operator != "+=":
            self.values.later(f"`{s.operator}` of a slice: the copy engine adds", s.span)
        if target.dtype not in ADDED:
            self.values.fail(
                "TK105",
                f"the copy engine adds {listed(ADDED)}, not {target.dtype}",
                s.target.span,
            )
        copy = self.copy(S.Copy(s.target, s.value, (), s.span))
        assert isinstance(copy, P.Move)
        if not isinstance(copy.source, str) and len(target.shape) < 2 and target.dtype != "f32":
            self.values.later(f"adding a vector of {target.dtype} in registers to a slice", s.span)
        return copy._replace(add=True)

    def _accumulate(self, s: S.Update, d: Tile) -> P.Statement:
        if not d.accumulator:
            self.values.fail(
                "TK106", f"`{d.name}` is a shared tile: `+=` adds to an accumulator", s.span
            )
        if s.operator != "+=":
            self.values.later(f"`{s.operator}` of an accumulator", s.span)
        product = self.values.evaluate(s.value)
        if not isinstance(product, Product):
            self.values.later(
                f"adding {describe(product)} to an accumulator: it takes `a @ b`", s.value.span
            )
        self._writable(d, s.target.span, added=True)
        made = self._multiply(s, d, product)
        self.scope.written.add(d.name)
        if self.values.owned(d, s.target.span).direction == "get":
            return made  # on top of what the slot holds
        if d.name not in self.scope.cleared:
            self.scope.cleared.add(d.name)
            told = f"`{d.name} +=` without `{d.name} = 0` before it in the put: the slot holds an earlier item's sum"
            handed_on = self.scope.several(d.name)
            if handed_on:  # setting it to 0 would lose what another role has left there
                told += f"; a get adds to what is there, and `keep {d.name}` in a put hands it on"
            self.values.fail(
                "TK114",
                told,
                s.span,
                help=None if handed_on else f"begin the put with `{d.name} = 0`",
            )
        return made
