"""Lists of tensors, `A: list[G, global[bf16, rows[g], K]]`: their axes, their indices, `maps`, and schedules over them.

An axis that the device counts, `rows[g]` of array g, is the symbol `?rows`, which is the same in a type, in a schedule
and at an index, so that blocks fit the axes that they were made for. No launch knows it: what needs an extent there
(masks, reductions, single elements) refuses it. A list is a tensor whose first axis is a group, so that indices, slices
and schedules need no second kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend.program import Axis, Maps, Tensor
from tkc.frontend.scope import Block, Index, Int
from tkc.frontend.sizes import show
from tkc.frontend.syntax import Span
from tkc.ir.tile.types import COUNTED, counts_of

if TYPE_CHECKING:
    from tkc.frontend.declare import Declarations
    from tkc.frontend.values import Values

MOST_MAPS = 16
"""Descriptors of one tensor and CTA: more are of no use, as each waits for the copies of a group long gone."""


class Listed(NamedTuple):
    """`A[g]`: one array of a list."""

    tensor: Tensor
    index: Any
    span: Span

    @property
    def told(self) -> str:
        return f"an array of the list {self.tensor.name}"


def _call(e: S.Expression) -> str:
    return e.function.text if isinstance(e, S.Call) and isinstance(e.function, S.Name) else ""


# Types ---------------------------------------------------------------------------------------------------------------


def parts(declared: Declarations, type_: S.Expression) -> tuple[S.Expression, S.Expression] | None:
    """How many arrays a list has, and the type of each; None where a type is no list."""
    if not (
        isinstance(type_, S.Index) and isinstance(type_.base, S.Name) and type_.base.text == "list"
    ):
        return None
    if len(type_.arguments) != 2 or any(a.name is not None for a in type_.arguments):
        declared.values.fail(
            "TK106",
            "a list says how many tensors it has, and their type: `list[G, global[...]]`",
            type_.span,
        )
    count, element = (a.value for a in type_.arguments)
    return count, element


def counted(values: Values, e: S.Expression, index: str | None = None) -> str | None:
    """The symbol of `rows[g]`, an element of a `const` tensor of counts; None where an extent is no such thing.

    `index` is what it must be called, if that is known.
    """
    if not (isinstance(e, S.Index) and isinstance(e.base, S.Name)):
        return None
    entry = values.scope.names.get(e.base.text)
    tensor = entry.meaning if entry is not None else None
    if not isinstance(tensor, Tensor):
        return None
    if (tensor.dtype, len(tensor.dims), tensor.const) != ("i32", 1, True):
        values.fail(
            "TK106",
            f"an extent is an element of a `const` tensor of i32 with one axis; {tensor.name} is not",
            e.span,
            values.scope.note(f"{tensor.name} is declared here", tensor.span),
        )
    named = e.arguments[0].value if len(e.arguments) == 1 else None
    if not isinstance(named, S.Name) or e.arguments[0].name is not None:
        values.fail("TK106", f"the extent of array g is `{tensor.name}[g]`", e.span)
    if index is not None and named.text != index:
        values.fail(
            "TK102",
            f"the extents of group {index} are `{tensor.name}[{index}]`, not `{tensor.name}[{named.text}]`",
            named.span,
        )
    return COUNTED + tensor.name


def check(declared: Declarations, tensor: Tensor) -> None:
    """A list has counts for each of its arrays, and nothing that its copies could not do."""
    for dim in tensor.dims[1:]:
        name = counts_of(dim)
        if name is None:
            continue
        counts = declared.scope.names[name].meaning
        if counts.dims != tensor.dims[:1]:
            declared.values.fail(
                "TK104",
                f"{tensor.name} is a list of {tensor.dims[0]} tensors, and {name} has {counts.dims[0]} counts: where "
                "the two are equal, give them one name",
                tensor.span,
                declared.scope.note(f"{name} is declared here", counts.span),
            )
    if counts_of(tensor.dims[-1]) is not None:
        declared.values.later(
            f"the last axis of {tensor.name}, whose extent only the device knows", tensor.span
        )


def maps(declared: Declarations, s: S.Maps) -> None:
    """`maps A, C: edited * 2`."""
    value, depth = s.value, 2
    declared.maps_said |= {word.text for word in s.names}
    if isinstance(value, S.Binary) and value.operator == "*":
        depth = declared.values.number(value.right, "the number of tensor maps")
        value = value.left
    if not isinstance(value, S.Name) or value.text != "edited":
        found = value.text if isinstance(value, S.Name) else ""
        near = nearest(found, ["edited"]) if found else None
        hint = f"; did you mean `{near}`" if near else ""
        declared.values.fail(
            "TK106", f"tensor maps are `edited`, or `edited * 2`{hint}", value.span
        )
    if depth > MOST_MAPS:
        declared.values.fail(
            "TK111", f"{depth} tensor maps of a tensor: at most {MOST_MAPS}", s.value.span
        )
    for word in s.names:
        tensor = declared.scope.find(word.text, word.span, ("tensor",))
        if not isinstance(tensor, Tensor):
            continue
        if not tensor.listed:
            declared.values.fail(
                "TK106",
                f"{word.text} is one tensor, whose map the launch makes; maps are edited of lists: "
                "`list[G, global[...]]`",
                word.span,
                declared.scope.note(f"{word.text} is declared here", tensor.span),
            )
        if word.text in declared.edited:
            declared.values.fail("TK103", f"the maps of {word.text} are edited already", word.span)
        declared.edited[word.text] = Maps(tensor, depth, word.span)


def check_maps(declared: Declarations) -> None:
    """What the device counts is in no map that the launch could make; a `maps` that is wrong has been reported."""
    for tensor in declared.arguments:
        if not isinstance(tensor, Tensor) or not tensor.listed or tensor.name in declared.maps_said:
            continue
        axis = next((d for d in tensor.dims if counts_of(d) is not None), None)
        if axis is not None:
            declared.scope.error(
                "TK106",
                f"only the device knows {show(axis)}, an extent of {tensor.name}[g], so the kernel edits the tensor "
                f"maps of {tensor.name}: `maps {tensor.name}: edited * 2`",
                tensor.span,
            )


# Schedules -----------------------------------------------------------------------------------------------------------


def chain(declared: Declarations, s: S.Schedule) -> tuple[Axis, tuple[S.Expression, ...], S.Call]:
    """`chain(range(G), tiles(...))`: the axis of groups, the others as written, and the call of `tiles`."""
    value = s.value
    assert isinstance(value, S.Call)
    given = [a.value for a in value.arguments if a.name is None]
    if (
        len(given) != 2
        or len(given) != len(value.arguments)
        or _call(given[0]) != "range"
        or _call(given[1]) != "tiles"
    ):
        declared.values.fail(
            "TK106",
            "a chain runs over groups, and over the tiles of each: `chain(range(G), tiles(...))`",
            value.span,
        )
    groups, tiles = given
    assert isinstance(groups, S.Call)
    assert isinstance(tiles, S.Call)
    if len(groups.arguments) != 1 or groups.arguments[0].name is not None:
        declared.values.fail(
            "TK116", "the `range` of a chain takes how many groups there are", groups.span
        )
    extent = declared.values.size(groups.arguments[0].value, "the number of groups")
    return Axis(extent, 1, True), tuple(a.value for a in tiles.arguments if a.name is None), tiles


def tiles_of_group(declared: Declarations, s: S.Schedule, e: S.Expression) -> Axis:
    """`blocks(rows[g], BM)`, or any other axis."""
    if _call(e) == "blocks" and isinstance(e, S.Call) and len(e.arguments) == 2:
        index = s.axes[0].text if s.axes else None
        symbol = counted(declared.values, e.arguments[0].value, index)
        if symbol is not None:
            return Axis(symbol, declared.values.number(e.arguments[1].value, "the size of a block"))
    return declared.axis(e)


def check_chain(declared: Declarations, s: S.Schedule, axes: list[Axis]) -> None:
    """Counts are one for each group; something in each group is counted."""
    names = [
        n for n in (counts_of(a.extent) for a in axes if isinstance(a.extent, str)) if n is not None
    ]
    if not names:
        declared.values.fail(
            "TK106",
            "every group of this chain has the same tiles: `tiles(G, ...)` is a schedule of them",
            s.value.span,
        )
    for name in names:
        counts = declared.scope.names[name].meaning
        if counts.dims[0] != axes[0].extent:
            declared.values.fail(
                "TK104",
                f"the chain has {axes[0].extent} groups, and {name} has {counts.dims[0]} counts: where the two are "
                "equal, give them one name",
                s.value.span,
                declared.scope.note(f"{name} is declared here", counts.span),
            )


# Indices -------------------------------------------------------------------------------------------------------------


def array(values: Values, x: Any, e: S.Index) -> tuple[Any, tuple[Any, ...]]:
    """What an index is of, and the indices that stand before it: `A[g]` of a list is one of its arrays."""
    if isinstance(x, Listed):
        return x.tensor, (x.index,)
    if isinstance(x, Tensor) and x.listed:
        return one(values, x, e), ()
    return x, ()


def one(values: Values, tensor: Tensor, e: S.Index) -> Listed:
    """`A[g]`: the array of a group, or of another number."""
    if len(e.arguments) != 1 or e.arguments[0].name is not None:
        values.fail(
            "TK116",
            f"{tensor.name} is a list: an array of it is `{tensor.name}[g]`, and a block of that "
            f"`{tensor.name}[g][m, k]`",
            e.span,
            values.scope.note(f"{tensor.name} is declared here", tensor.span),
        )
    x = values.evaluate(e.arguments[0].value)
    if isinstance(x, Block) or not isinstance(x, Index | Int):
        values.fail(
            "TK106",
            "an array of a list is told by an integer of a schedule",
            e.arguments[0].value.span,
        )
    if isinstance(x, Index) and x.axis.extent != tensor.dims[0]:
        values.fail(
            "TK104",
            f"index {x.name} runs over {show(x.axis.extent)}, and {tensor.name} has {tensor.dims[0]} tensors: where "
            "the two are equal, give them one name",
            e.arguments[0].value.span,
            values.scope.note(f"{tensor.name} is declared here", tensor.span),
        )
    return Listed(tensor, x.name if isinstance(x, Index) else (x.size,), e.span)
