"""Single elements of tensors and of shared vectors and tiles: plain loads and stores, ordered ones, atomics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tkc.frontend.explicit_program as X
import tkc.frontend.explicit_syntax as E
import tkc.frontend.integers as N
import tkc.frontend.program as P
import tkc.frontend.syntax as S
import tkc.frontend.wide as wide
from tkc.frontend.describe import describe
from tkc.frontend.explicit_program import I32, WIDE
from tkc.frontend.program import Scalar, Slice, Tile
from tkc.frontend.scope import Int, listed, plural
from tkc.frontend.syntax import Span
from tkc.ir.tile.types import DTYPES

if TYPE_CHECKING:
    from tkc.frontend.values import Values

F32 = Scalar("f32")
U32, I64 = WIDE
TYPES = {
    "f32": F32, "i32": I32, "u32": U32, "i64": I64, "bf16": F32, "f16": F32, "e4m3": F32, "e5m2": F32, "s8": I32,
    "u8": I32,
}  # fmt: skip
"""Dtypes of elements, and the number that a thread holds of one: of fewer than 32 bits f32 or i32. A store rounds it to
nearest; one that does not fit becomes the nearest that does, but in bf16 and f16, which have an infinity."""

INTEGERS = ("i32", "u32", "i64")

LOADS = ("relaxed", "acquire", "volatile")
STORES = ("relaxed", "release", "volatile")
UPDATES = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("cta", "cluster", "gpu", "sys")

ATOMICS: dict[str, tuple[int, tuple[str, ...]]] = {
    "atomic_add": (1, ("f32", *INTEGERS)),
    "atomic_min": (1, INTEGERS),
    "atomic_max": (1, INTEGERS),
    "atomic_and": (1, INTEGERS),
    "atomic_or": (1, INTEGERS),
    "atomic_xor": (1, INTEGERS),
    "atomic_exch": (1, INTEGERS),
    "atomic_cas": (2, INTEGERS),
}
"""Atomic updates: how many values each takes beside the element, and of which dtypes (PTX: atom)."""


def is_element(x: Any) -> bool:
    return isinstance(x, X.Spot) or (isinstance(x, Slice) and not x.shape)


def spot(values: Values, place: X.Place, e: S.Index) -> X.Spot:
    """`v[slot][i]`, `x[slot][i, j]`: an element of a shared vector or tile."""
    tile = place.tile
    if tile.accumulator:
        values.later(f"an element of {describe(place)}: those of shared tiles are", e.span)
    given, rank = len(e.arguments), len(tile.shape)
    if given != rank or any(a.name is not None for a in e.arguments):
        told = f"{describe(place)} has {plural(rank, 'axis', 'axes')}, and its element as many indices, not {given}"
        values.fail("TK116", told, e.span)
    indices = tuple(_along(values, tile, axis, a.value) for axis, a in enumerate(e.arguments))
    return X.Spot(place, indices, tile.dtype, e.span)


def _along(values: Values, tile: Tile, axis: int, at: S.Expression) -> P.Value:
    """An index of one axis of a tile, which lies in it where it is known."""
    index = values.evaluate(at)
    if isinstance(index, Int) and isinstance(index.size, int):
        if not 0 <= index.size < tile.shape[axis]:
            where = f"axis {axis} of " if len(tile.shape) > 1 else ""
            told = f"element {index.size} lies outside {where}{tile.name}, which has {tile.shape[axis]}"
            values.fail("TK104", told, at.span)
    return N.as_integer(values, index, at.span, "an index")


def load(values: Values, of: X.Spot | Slice, e: S.Call) -> X.Element:
    """`read(X[i, j])`, `read(v[slot][i], acquire, gpu)`."""
    sem, scope = _order(values, of, e.arguments[1:], LOADS)
    constant = isinstance(of, Slice) and not sem and values.is_const(of)
    return X.Element(of, sem, scope, _type(values, of), e.span, constant)


def store(values: Values, s: S.Copy, target: X.Spot | Slice) -> X.StoreElement:
    """`Y[i] <- x`, `v[slot][i] <- x, release`."""
    value = values.evaluate(s.source)
    type = _type(values, target)
    if target.dtype in ("s8", "u8") and not N.is_integer(value):
        given = _rounded(values, value, s.source.span)
    else:
        given = _as(values, value, s.source.span, type)
    options = tuple(S.Argument(None, hint) for hint in s.hints)
    sem, scope = _order(values, target, options, STORES)
    return X.StoreElement(target, given, sem, scope, s.span)


COPIED = (4, 8, 16)
"""Bytes that a thread copies at once (PTX: cp.async)."""


def copy(values: Values, s: E.Command, to: S.Expression) -> X.CopyElements:
    """`load x[slot][i, j] <- X[m, n], 16`."""
    assert s.subject.value is not None, "an arrow has two sides"
    target, source = values.evaluate(to), values.evaluate(s.subject.value)
    form = (
        "`load v[slot][i] <- X[m, j], 16`: an element of a shared tile, one of a tensor, and bytes"
    )
    if not isinstance(target, X.Spot) or not isinstance(source, Slice) or source.shape:
        values.fail(
            "TK106",
            f"expected {form}, not {describe(target)} and {describe(source)}",
            s.subject.span,
        )
    if len(s.options) != 1 or s.options[0].name is not None:
        values.fail("TK116", form, s.span)
    if target.dtype != source.dtype:
        told = f"{describe(target)} is {target.dtype}, and {describe(source)}"
        values.fail("TK105", told, s.subject.span)
    at = s.options[0].value
    bytes = values.number(at, "the bytes that a thread copies")
    if bytes not in COPIED or bytes * 8 % DTYPES[target.dtype].bits:
        values.fail(
            "TK117",
            f"a thread copies {listed(map(str, COPIED))} bytes at once, not {bytes}",
            at.span,
        )
    return X.CopyElements(target, source, bytes, s.span)


def atomic(values: Values, name: str, e: S.Call) -> X.Atomic:
    """`atomic_add(X[i], 1, acq_rel, gpu)`: the value that was there."""
    count, dtypes = ATOMICS[name]
    if len(e.arguments) <= count:
        told = f"`{name}` takes an element and {plural(count, 'value')}"
        values.fail("TK116", told, e.span)
    first, *rest = e.arguments
    of = values.evaluate(first.value)
    if not is_element(of):
        told = f"`{name}` is of an element of a tensor or a shared tile, not of {describe(of)}"
        if isinstance(of, X.Place):
            told += (
                f": `{of.tile.name}[slot][i]` is one, `{of.tile.name}[0][i]` where it has one slot"
            )
        values.fail("TK106", told, first.value.span)
    if isinstance(of, Slice):
        values.written(of, first.value.span)
    type = _type(values, of)
    if of.dtype not in dtypes:
        values.fail(
            "TK105", f"`{name}` is of {listed(dtypes)}, not of {of.dtype}", first.value.span
        )
    given = [_as(values, values.evaluate(a.value), a.value.span, type) for a in rest[:count]]
    sem, scope = _order(values, of, tuple(rest[count:]), UPDATES)
    return X.Atomic(name.removeprefix("atomic_"), of, tuple(given), sem, scope, type, e.span)


def _type(values: Values, of: X.Spot | Slice) -> Scalar:
    if of.dtype not in TYPES:
        values.later(f"an element of {of.dtype} as a number: those of {listed(TYPES)} are", of.span)
    return TYPES[of.dtype]


def _rounded(values: Values, x: Any, span: Span) -> P.Value:
    """A number that becomes an integer of 8 bits."""
    value = values.as_value(x, span)
    if value.type not in (F32, *WIDE):
        values.fail("TK105", f"expected a number, not {describe(value)}", span)
    return P.Apply("to_i32", (value,), I32, span)


def _as(values: Values, x: Any, span: Span, type: Scalar) -> P.Value:
    if type == I32:
        return N.as_integer(values, x, span)
    if type in WIDE:
        return wide.as_type(values, x, type, span)
    value = values.as_value(x, span)
    if value.type in WIDE:
        value = P.Apply("to_f32", (value,), F32, span)
    if value.type != F32:
        values.fail("TK105", f"expected an f32 number, not {describe(value)}", span)
    return value


def _order(
    values: Values, of: X.Spot | Slice, options: tuple[S.Argument, ...], known: tuple[str, ...]
) -> tuple[str, str]:
    """The order and the scope that an access asks for; with an order, the scope is the GPU or, in shared memory, the
    CTA where it says none."""
    sem = scope = ""
    for option in options:
        word = option.value.text if isinstance(option.value, S.Name) and not option.name else ""
        if word in known and not sem:
            sem = word
        elif word in SCOPES and not scope:
            scope = word
        else:
            told = (
                f"an access has one order, of {listed(known)}, and one scope, of {listed(SCOPES)}"
            )
            values.fail("TK102", told, option.value.span)
    if (scope and not sem) or (sem == "volatile" and scope):
        values.fail("TK116", f"a scope goes with an order: {listed(known)}", options[0].value.span)
    if sem and sem != "volatile" and not scope:
        scope = "cta" if isinstance(of, X.Spot) else "gpu"
    return sem, scope
