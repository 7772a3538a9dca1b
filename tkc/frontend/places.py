"""Slots, parts of blocks and columns: what explicit code says of tiles, beside the names that values.py knows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeGuard

import tkc.frontend.explicit_program as X
import tkc.frontend.explicit_syntax as E
import tkc.frontend.integers as N
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.frontend.describe import describe, dims
from tkc.frontend.program import Regs, Tile, Transposed
from tkc.frontend.scope import Block, Failed, Index, Int, plural
from tkc.frontend.sizes import show
from tkc.frontend.syntax import Span
from tkc.ir.tile.types import DTYPES

if TYPE_CHECKING:
    from tkc.frontend.values import Values


def slot(values: Values, ring: Tile | X.Barrier, e: S.Index) -> X.Place | X.Entry:
    """`a[slot]`, `full[slot]`."""
    if len(e.arguments) != 1 or e.arguments[0].name is not None:
        values.fail("TK116", f"{describe(ring)} takes one index, its slot", e.span)
    value = e.arguments[0].value
    return place(values, ring, values.evaluate(value), value.span, e.span)


def entry(values: Values, e: S.Expression) -> X.Entry:
    """`full[slot]`, or a barrier that is alone."""
    x = values.evaluate(e)
    if isinstance(x, X.Barrier):
        if x.depth != 1:
            told = f"{x.name} are {x.depth} barriers: `{x.name}[slot]` is one"
            values.fail("TK116", told, e.span)
        return X.Entry(x, X.Number(0, e.span), e.span)
    if not isinstance(x, X.Entry):
        told = f"expected a barrier such as `full[slot]`, not {describe(x)}"
        values.fail("TK106", told, e.span)
    return x


def barrier_number(values: Values, subject: E.Subject) -> int | None:
    """The number of a barrier of the CTA, where a command is about one: `3`, `1 + i`, or a name that stands for it."""
    if subject.operator:
        return None
    if subject.words:
        word = subject.words[0].text
        return int(word) if word.isdigit() and len(subject.words) == 1 else None
    of = subject.value if subject.place is None else subject.place
    if not isinstance(of, S.Name | S.Binary):
        return None
    if isinstance(of, S.Name) and (
        of.text not in values.scope.names or isinstance(values.evaluate(of), X.Barrier)
    ):
        return None
    return values.number(of, "the number of a barrier", -(2**31))


def attempt(values: Values, e: S.Call) -> X.Attempt:
    """`try_wait(full[slot], phase)`, with `cluster` or `relaxed` as in `wait`."""
    if len(e.arguments) < 2 or any(a.name is not None for a in e.arguments):
        values.fail(
            "TK116", "`try_wait` takes a barrier and a phase: `try_wait(full[slot], phase)`", e.span
        )
    of, phase, *rest = (a.value for a in e.arguments)
    barrier = entry(values, of)
    words = [w.text if isinstance(w, S.Name) else "" for w in rest]
    for word, at in zip(words, rest, strict=True):
        if word not in ("relaxed", "cluster") or words.count(word) > 1:
            values.fail("TK102", "`try_wait` takes `relaxed` and `cluster`, each once", at.span)
    parity = N.as_integer(values, values.evaluate(phase), phase.span, "a phase, 0 or 1")
    sem = "relaxed" if "relaxed" in words else "acquire"
    return X.Attempt(barrier, parity, sem, "cluster" if "cluster" in words else "cta", e.span)


def alone(values: Values, x: Any, span: Span) -> Any:
    """A tile of one slot that no pipe carries names the slot by itself."""
    if isinstance(x, Tile) and x.depth == 1 and x.name not in values.scope.pipe_of:
        return x if values.scope.broken else place(values, x, Int(0, span), span, span)
    if isinstance(x, Transposed):
        inner = alone(values, x.tile, span)
        return inner._replace(transposed=True) if isinstance(inner, X.Place) else x
    return x


def place(
    values: Values, ring: Tile | X.Barrier, index: Any, at: Span, span: Span
) -> X.Place | X.Entry:
    """A slot of a ring that no pipe carries, or one of several barriers."""
    given = N.as_integer(values, index, at, "a slot's number")
    if isinstance(ring, Tile) and len(ring.shape) == 1 and _of_threads(given):
        element = (
            f"{ring.name}[{'0' if ring.depth == 1 else 'slot'}][{values.scope.source.excerpt(at)}]"
        )
        told = f"all threads take the same slot of {ring.name}; each thread's own element of one is `{element}`"
        values.fail("TK106", told, span)
    if isinstance(index, Int) and isinstance(index.size, int):
        if not 0 <= index.size < ring.depth:
            slots = plural(ring.depth, "slot")
            if ring.depth == 1 and isinstance(ring, Tile) and not ring.accumulator:
                slots += (
                    f"; its element {index.size} is `{ring.name}[0][{index.size}]`"
                    if len(ring.shape) == 1
                    else ""
                )
            values.fail(
                "TK104",
                f"slot {index.size} lies outside {describe(ring)}, which has {slots}",
                at,
            )
    if isinstance(ring, X.Barrier):
        return X.Entry(ring, given, span)
    if ring.name in values.scope.pipe_of:
        pipe = values.scope.pipe_of[ring.name]
        told = "a put or get opens one"
        if ring.name in values.scope.owned:
            told = (
                "what is spelled out takes tiles of no pipe, whose slots the program numbers; `mma` alone takes "
                "those of a get, without block scales"
            )
        values.fail(
            "TK108",
            f"`{ring.name}` rides in pipe {pipe.name}, which numbers its slots: {told}",
            span,
            values.scope.note(f"pipe {pipe.name}: {values.scope.ends(pipe)}", pipe.span),
        )
    return X.Place(ring, given, False, span)


def _of_threads(x: Any) -> bool:
    """Whether an integer is made of the number of a thread, its lane or its warp."""
    if isinstance(x, P.Apply):
        return any(_of_threads(y) for y in x.operands)
    return isinstance(x, X.Identity) and x.which in ("lane", "thread")


def not_summed(values: Values, tile: Tile, span: Span, sums: bool = False) -> bool:
    """TK105, once for each tile, where what is declared an operand of products is used as if they summed in it; raises
    Failed at its next uses. Whether it has not been so."""
    if sums and tile.name not in values.scope.misused:
        values.scope.misused.add(tile.name)
        values.fail(
            "TK105",
            f"an accumulator is f32, f16 of f16 and 8-bit floats, or i32 of s8 and u8, not {tile.dtype}: "
            f"`{tile.name}` is a first operand of products, which registers write: `{tile.name} <- bf16(x)`",
            span,
            values.scope.note(f"{tile.name} is declared here", tile.span),
        )
    if tile.name in values.scope.misused:
        raise Failed
    return True


def readable(values: Values, tile: Tile, span: Span) -> None:
    """TK110 where registers cannot take a tile."""
    if tile.scale is not None:
        values.later(f"reading {describe(tile)}, which is block-scaled, into registers", span)
    if tile.operand and not_summed(values, tile, span):
        values.later(f"reading {describe(tile)} back into registers: products read it", span)


def inside(values: Values, tensor: P.Tensor, axis: int, x: Int) -> None:
    """An index that is known at compile time lies in its axis, as far as that is."""
    dim = tensor.dims[axis]
    if isinstance(x.size, int) and not (0 <= x.size and (isinstance(dim, str) or x.size < dim)):
        values.fail(
            "TK104",
            f"index {x.size} lies outside axis {axis} of {tensor.name}, whose extent is {dim}",
            x.span,
        )


def covers(values: Values, tensor: P.Tensor, axis: int, block: Block | Index, span: Span) -> None:
    """A block runs over the axis that it stands for."""
    extent, dim = block.axis.extent, tensor.dims[axis]
    if extent == dim:
        return
    notes = (
        values.scope.note(f"{tensor.name} is {tensor.dtype} {dims(tensor)}", tensor.span),
        values.scope.note(f"{block.name} runs over {show(extent)}", block.span),
    )
    what = "index" if isinstance(block, Index) else "block"
    name, axis = (f"{tensor.name}[g]", axis - 1) if tensor.listed else (tensor.name, axis)
    told = f"{what} {block.name} runs over {show(extent)}, and axis {axis} of {name} has the extent {show(dim)}"
    if isinstance(extent, tuple):
        values.scope.later(told, span, *notes)
        raise Failed
    values.fail("TK104", f"{told}: where the two are equal, give them one name", span, *notes)


def is_blocks(e: S.Expression) -> TypeGuard[S.Call]:
    """`blocks(...)`, whatever it is given."""
    return isinstance(e, S.Call) and isinstance(e.function, S.Name) and e.function.text == "blocks"


def numbered(values: Values, of: S.Call, e: S.Index) -> X.Part:
    """`blocks(M, BM)[i]`: a block of an axis by its number, which only the kernel may know."""
    if (
        len(of.arguments) != 2
        or len(e.arguments) != 1
        or any(a.name for a in (*of.arguments, *e.arguments))
    ):
        values.fail("TK116", "a block by its number is `blocks(extent, size)[number]`", e.span)
    extent = values.size(of.arguments[0].value, "the extent of blocks")
    size = values.number(of.arguments[1].value, "the size of a block")
    which = e.arguments[0].value
    index = N.as_integer(values, values.evaluate(which), which.span, "a block's number")
    return X.Part("", index, 1, size, extent, e.span)


def whole(x: X.Part) -> Block:
    """The block that a part is of; a block by its number is one itself."""
    return Block(x.block or "by its number", P.Axis(x.extent, x.size), x.span)


def part(values: Values, e: S.Call, of: S.Attribute) -> Block | X.Part:
    """`m.part(i, n)`: the i-th n-th of a block, whose number may be known only as the kernel runs."""
    block = values.evaluate(of.base)
    if not isinstance(block, Block):
        values.fail("TK106", f"`.part` is of blocks, not of {describe(block)}", e.span)
    if len(e.arguments) != 2 or any(a.name for a in e.arguments):
        values.fail("TK116", "`.part` takes two numbers: which part, of how many", e.span)
    which, of_many = (a.value for a in e.arguments)
    found = values.evaluate(which)
    count = values.number(of_many, "the count of parts")
    size = block.axis.size
    if size % count:
        values.fail("TK117", f"block {block.name} of {size} has no {count} equal parts", e.span)
    before, all_before = block.part or (0, 1)
    if isinstance(found, Int):
        index = values.number(which, "the number of a part", 0)
        if index >= count:
            told = f"block {block.name} of {size} has no part {index} of {count}"
            values.fail("TK117", told, e.span)
        axis = block.axis._replace(size=size // count)
        return Block(block.name, axis, e.span, (before * count + index, all_before * count))
    given = N.as_integer(values, found, which.span, "a part's number")
    if before:
        given = P.Apply("add", (given, X.Number(before * count, e.span)), X.I32, e.span)
    return X.Part(block.name, given, all_before * count, size // count, block.axis.extent, e.span)


def slot_bytes(values: Values, e: S.Call) -> Int:
    """`bytes(a, b)`: of one slot of each."""
    total = 0
    for argument in e.arguments:
        x = values.evaluate(argument.value)
        tile = x.tile if isinstance(x, X.Place) else x
        if not isinstance(tile, Tile) or tile.accumulator:
            told = f"`bytes` is of shared tiles, not of {describe(x)}"
            values.fail("TK106", told, argument.value.span)
        total += math.prod(tile.shape) * DTYPES[tile.dtype].bits // 8
        if tile.scale is not None:
            dtype, block = tile.scale
            rows = tile.scale_rows or tile.shape[0]
            total += rows * tile.shape[1] // block * DTYPES[dtype].bits // 8
    return Int(total, e.span)


def read_columns(values: Values, place: Any, e: S.Call) -> X.ReadPlace:
    """`read(d[i], first, count)`."""
    whole, first, many = (a.value for a in e.arguments)
    if not isinstance(place, X.Place):
        told = f"columns are read of a slot such as `d[i]`, not of {describe(place)}"
        values.fail("TK106", told, whole.span)
    readable(values, place.tile, e.span)
    count = values.number(many, "the number of columns")
    *rows, width = place.tile.shape
    column = values.evaluate(first)
    start = column.size if isinstance(column, Int) and isinstance(column.size, int) else 0
    if start < 0 or start + count > width:
        told = (
            f"columns {start} to {start + count} lie outside {place.tile.name}, which has {width}"
        )
        values.fail("TK104", told, e.span)
    at = N.as_integer(values, column, first.span, "a column's number")
    return X.ReadPlace(place, at, None, Regs(place.tile.dtype, (*rows, count)), e.span)
