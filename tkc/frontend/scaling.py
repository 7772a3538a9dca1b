"""Block scales (R25): `scale = ue4m3 / 16` in a type, and which tiles, copies and products go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend.describe import describe
from tkc.frontend.explicit_program import Part, Place
from tkc.frontend.places import alone
from tkc.frontend.program import Slice, Tile
from tkc.frontend.scope import Failed, Scope, listed
from tkc.frontend.syntax import Span
from tkc.ir.tile.types import ATOM_ROWS, ATOM_SCALES, SCALED, SCALES

if TYPE_CHECKING:
    from tkc.frontend.values import Values

Scale = tuple[str, int]
"""The dtype of block scales, and the elements of a block."""


def shown(scale: Scale | None) -> str:
    """`ue4m3 / 16`, for messages."""
    return "none" if scale is None else f"{scale[0]} / {scale[1]}"


def scale_of(values: Values, type_: S.Index, dtype: str) -> Scale | None:
    """The scale that a type says, of elements of `dtype`; reports TK102, TK105 or TK106 where it is none."""
    scope = values.scope
    found = [a for a in type_.arguments if a.name is not None]
    of_tensor = isinstance(type_.base, S.Name) and type_.base.text == "global"
    if found and not of_tensor:
        for a in found:
            if a.name is not None and a.name.text == "major":
                told = "`major` is of tensors: a tile lies as the tensor does that it is copied from or to"
                _fail(scope, "TK106", told, a.value.span)
    others = ("major",) if of_tensor else ("major", "scale_rows")
    found = [a for a in found if a.name is not None and a.name.text not in others]
    if not found:
        return None
    for argument in found:
        assert argument.name is not None
        if argument.name.text != "scale" or argument is not found[0]:
            near = nearest(argument.name.text, ["scale", *others])
            hint = f"; did you mean `{near}`" if near else ""
            told = f"a type has no `{argument.name.text} = ...`"
            if argument.name.text == "scale":
                told, hint = "a type says `scale` once", ""
            _fail(scope, "TK102", told + hint, argument.name.span)
    value = found[0].value
    scale = _scale(values, value)
    if dtype not in SCALED:
        _fail(
            scope,
            "TK105",
            f"block scales go with {listed(SCALED)}, not with {dtype}",
            value.span,
        )
    return scale


def _scale(values: Values, value: S.Expression) -> Scale:
    """`ue4m3 / 16`."""
    scope = values.scope
    if (
        not isinstance(value, S.Binary)
        or value.operator != "/"
        or not isinstance(value.left, S.Name)
    ):
        _fail(
            scope,
            "TK106",
            "block scales are their dtype and the elements of a block: `scale = ue4m3 / 16`",
            value.span,
        )
    name = value.left.text
    if name not in SCALES:
        near = nearest(name, SCALES)
        hint = f"did you mean `{near}`" if near else f"scales are {listed(SCALES)}"
        _fail(scope, "TK105", f"no scales of {name}; {hint}", value.left.span)
    return name, values.number(value.right, "the block of a scale")


def rows_of_scales(values: Values, type_: S.Index, scale: Scale | None, rows: int) -> int:
    """`scale_rows = BN` of a type: a CTA of a pair has half of b's rows, and all scales. 0 where it says none."""
    found = [a for a in type_.arguments if a.name is not None and a.name.text == "scale_rows"]
    if not found:
        return 0
    value, given = (
        found[0].value,
        values.number(found[0].value, "the rows that a tile has scales of"),
    )
    if scale is None or len(found) > 1:
        told = "a type says `scale_rows` once, beside `scale`: the rows that the tile has scales of"
        _fail(values.scope, "TK106", told, value.span)
    if given != 2 * rows:
        told = f"a tile of {rows} rows has the scales of {given}: expected {2 * rows}, those of both CTAs of a pair"
        _fail(values.scope, "TK104", told, value.span)
    return given


def loaded(scope: Scope, tile: Tile, source: Slice, span: Span) -> None:
    """TK104 where a slice does not say where scales of more rows than it has begin."""
    if not tile.scale_rows:
        return
    rows = next(i for i in source.indices if isinstance(i, str | P.Part | Part))
    count = 1 if isinstance(rows, str) else rows.count
    if tile.shape[0] * count != tile.scale_rows:
        told = (
            f"{tile.name} has {tile.shape[0]} rows and the scales of {tile.scale_rows}: expected a part of a block of "
            f"{tile.scale_rows}, as in `B[n.part(rank, 2), k]`"
        )
        _fail(scope, "TK104", told, span)


def multiply_pair(scope: Scope, tiles: tuple[Tile, Tile], pair: bool, span: Span) -> None:
    """A CTA of a pair has the scales of its own rows of a, and of all columns of the product (PTX 9.7.18.10.7)."""
    for tile, more in zip(tiles, (False, pair), strict=True):
        rows = tile.shape[0]
        if tile.scale is None or bool(tile.scale_rows) is more:
            continue
        scale = shown(tile.scale)
        if more:
            told = (
                f"each CTA of a pair multiplies by the scales of all {2 * rows} columns, and {tile.name} has those of "
                f"{rows} rows: `tile[{tile.dtype}, {rows}, {tile.shape[1]}, scale = {scale}, scale_rows = {2 * rows}]`"
            )
        else:
            told = (
                f"{tile.name} has {rows} rows and the scales of {tile.scale_rows}, which is for what each CTA has half "
                "of, the second operand of a pair's product"
            )
        _fail(scope, "TK104", told, span, scope.note(f"{tile.name} is declared here", tile.span))


def check_tile(scope: Scope, scale: Scale, shape: tuple[int, ...], span: Span) -> None:
    """Scales are copied in atoms of 128 rows of 4: TK104 where a tile does not hold whole ones."""
    rows, columns = shape
    step = ATOM_SCALES * scale[1]
    if rows % ATOM_ROWS:
        _fail(
            scope,
            "TK104",
            f"a tile with scales of {shown(scale)} has {rows} rows; scales come in atoms of {ATOM_ROWS} rows, so "
            f"that a multiple of {ATOM_ROWS} fits",
            span,
        )
    if columns % step:
        _fail(
            scope,
            "TK104",
            f"a tile with scales of {shown(scale)} has rows of {columns}; scales come in atoms of {ATOM_SCALES} "
            f"blocks, so that a multiple of {step} fits",
            span,
        )


def holds_scales(tile: Tile) -> bool:
    """Whether a tile of tensor memory is for block scales."""
    return tile.accumulator and tile.scale is not None


def scales_tile(values: Values, type_: S.Index) -> tuple[Scale, tuple[int, int]]:
    """`scales[ue4m3 / 16, BM, BK]`: the scales of a tile BM x BK, and their shape, rows by scales of each."""
    scope, arguments = values.scope, [a.value for a in type_.arguments if a.name is None]
    if len(arguments) != 3 or len(type_.arguments) != 3:
        _fail(
            scope,
            "TK106",
            "tensor memory for scales says what they are, and the tile whose they are: `scales[ue4m3 / 16, BM, BK]`",
            type_.span,
        )
    scale = _scale(values, arguments[0])
    rows, columns = (values.number(e, "an extent of a tile") for e in arguments[1:])
    check_tile(scope, scale, (rows, columns), type_.span)
    return scale, (rows, columns // scale[1])


def is_scaled(x: Any) -> bool:
    """Whether it is a block-scaled shared tile, or a slot of one."""
    tile = x.tile if isinstance(x, Place) and not x.transposed else x
    return isinstance(tile, Tile) and not tile.accumulator and tile.scale is not None


def scaled(values: Values, e: S.Call, function: S.Attribute) -> P.Scaled:
    """`a.scaled(sa)`, `a[slot].scaled(sa[slot])`."""
    tile = values.evaluate(function.base)
    if len(e.arguments) != 1 or e.arguments[0].name is not None:
        _fail(values.scope, "TK116", "`.scaled` takes one value: scales in tensor memory", e.span)
    given = e.arguments[0].value
    scales = values.evaluate(given)
    if not is_scaled(tile):
        _fail(
            values.scope,
            "TK106",
            f"`.scaled` is of block-scaled shared tiles, not of {describe(tile)}",
            e.span,
        )
    tile = alone(values, tile, function.base.span)
    scales = in_columns(values, alone(values, scales, given.span), given.span)
    for x, span in ((tile, function.base.span), (scales, given.span)):
        if isinstance(x, Tile) and x.name not in values.scope.pipe_of and not values.scope.broken:
            told = f"{x.name} has {x.depth} slots: `{x.name}[slot]` is one"
            _fail(values.scope, "TK116", told, span)
    if isinstance(tile, Place) is not isinstance(scales, Place):
        slot, other = (tile, scales) if isinstance(tile, Place) else (scales, tile)
        _fail(
            values.scope,
            "TK106",
            f"{describe(slot)} is a slot that the program numbers, and {describe(other)} rides in a pipe: "
            "a product's operands and their scales are all in pipes, or none is",
            e.span,
        )
    fits(values.scope, ring_of(tile), ring_of(scales), e.span)
    values.scope.scaled_with.setdefault(ring_of(scales).name, {}).setdefault(
        ring_of(tile).name, e.span
    )
    return P.Scaled(tile, scales, e.span)


def ring_of(x: Tile | Place) -> Tile:
    return x.tile if isinstance(x, Place) else x


def in_columns(values: Values, x: Any, span: Span) -> Tile | Place:
    """Scales in tensor memory, or a slot of them; TK106 where it is anything else."""
    tile = x.tile if isinstance(x, Place) else x
    if not isinstance(tile, Tile) or not holds_scales(tile):
        _fail(
            values.scope,
            "TK106",
            f"`.scaled` takes scales in tensor memory, not {describe(x)}",
            span,
        )
    return x  # type: ignore[no-any-return]


def copy(values: Values, target: Tile, source: Any, span: Span) -> P.CopyScales:
    """`sa <- a.scales`."""
    if not isinstance(source, P.Scales):
        _fail(
            values.scope,
            "TK106",
            f"`{target.name}` holds block scales: `{target.name} <- a.scales` copies those of a tile a there, "
            f"and this is {describe(source)}",
            span,
        )
    if isinstance(source.tile, Place):
        _fail(
            values.scope,
            "TK106",
            f"{describe(source.tile)} is a slot that the program numbers, and `{target.name}` rides in a pipe",
            span,
        )
    values.reads(source.tile, source.span)
    copied(values.scope, source.tile, target, span)
    return P.CopyScales(target.name, source.tile.name, span)


def copied(scope: Scope, tile: Tile, scales: Tile, span: Span) -> None:
    """The scales of a tile are copied to where they fit."""
    fits(scope, tile, scales, span)
    scope.scales_of.setdefault(scales.name, {}).setdefault(tile.name, span)


def check_homes(scope: Scope) -> None:
    """Products multiply a tile by its own scales: TK106 where only those of others are, TK320 where none."""
    for scales, tiles in scope.scaled_with.items():
        copies = scope.scales_of.get(scales, {})
        for tile, span in tiles.items():
            if tile in copies or tile in scope.together or (not copies and scales in scope.pipe_of):
                continue  # what a put lacks is told of the put
            there = f"the scales of {listed([*copies])} are" if copies else "no scales are"
            told = f"{tile} is multiplied by {scales}, where {there} copied: expected a copy of `{tile}.scales`"
            notes = [scope.note(f"those of {x} are copied here", at) for x, at in copies.items()]
            scope.error("TK106" if copies else "TK320", told, span, *notes)


def fits(scope: Scope, tile: Tile, scales: Tile, span: Span) -> None:
    """The scales are of the tile's kind and shape."""
    assert tile.scale is not None
    rows, columns = tile.scale_rows or tile.shape[0], tile.shape[1]
    if tile.scale == scales.scale and scales.shape == (rows, columns // tile.scale[1]):
        return
    wanted = f"scales[{shown(tile.scale)}, {rows}, {columns}]"
    _fail(
        scope,
        "TK105" if tile.scale != scales.scale else "TK104",
        f"{scales.name} holds {list(scales.shape)} of {shown(scales.scale)}; the scales of {tile.name} are {wanted}",
        span,
        scope.note(f"{tile.name} is {tile.dtype} {list(tile.shape)}", tile.span),
        scope.note(f"{scales.name} is declared here", scales.span),
    )


def same(scope: Scope, target: Slice | Tile, source: Any, span: Span) -> None:
    """A copy keeps the scales, and a block-scaled tile is copied whole from its tensor: TK105 or TK110."""
    a, b = target.scale, getattr(source, "scale", None)
    if a is None and b is None:
        return
    if isinstance(target, Slice) or not isinstance(source, Slice):
        scope.later("a copy of block-scaled data other than from a tensor to a shared tile", span)
        raise Failed
    if a != b:
        tensor = scope.names[source.tensor].meaning
        _fail(
            scope,
            "TK105",
            f"{target.name} has scales of {shown(a)} and {source.tensor} of {shown(b)}: a copy keeps them",
            span,
            scope.note(f"{target.name} is {target.dtype} {list(target.shape)}", target.span),
            scope.note(f"{source.tensor} is {tensor.dtype}", tensor.span),
        )


def multiply(scope: Scope, sides: list[tuple[Tile, bool]], span: Span) -> None:
    """Operands have one kind of scales, along the axis that is contracted: TK105 or TK115."""
    (a, ta), (b, tb) = sides
    if a.scale != b.scale:
        _fail(
            scope,
            "TK105",
            f"`@` of {a.name} with scales of {shown(a.scale)} and {b.name} of {shown(b.scale)}: operands have one "
            "kind of scales",
            span,
            scope.note(f"{a.name} is {a.dtype} {list(a.shape)}", a.span),
            scope.note(f"{b.name} is {b.dtype} {list(b.shape)}", b.span),
        )
    if a.scale is not None and (ta or not tb):
        wrong = a.name if ta else b.name
        _fail(
            scope,
            "TK115",
            f"`@` contracts the first axis of {wrong}, and its scales lie along the last: `a @ b.T` fits",
            span,
        )


def _fail(scope: Scope, code: str, message: str, span: Span, *notes: Any) -> NoReturn:
    scope.error(code, message, span, *notes)
    raise Failed
