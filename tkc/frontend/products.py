"""`a @ b`: which tiles can be multiplied, in an expression and in `mma`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tkc.frontend.explicit_syntax as E
import tkc.frontend.program as P
from tkc.frontend import scaling
from tkc.frontend.describe import describe
from tkc.frontend.program import Product, Tile, Transposed
from tkc.frontend.syntax import Span
from tkc.ir.target import mix

if TYPE_CHECKING:
    from tkc.frontend.values import Values


def apart(a: str, b: str) -> str:
    """Why there is no product of two dtypes."""
    return (
        f"`@` of {a} and {b}: operands have one dtype, or two that a target mixes, as e4m3 and e5m2"
    )


def _only_first(tile: object) -> str:
    of_operands = isinstance(tile, Tile) and tile.operand
    return ": a tile in tensor memory is the first operand, as it is" if of_operands else ""


def product(values: Values, left: Any, right: Any, span: Span) -> Product:
    """`left @ right`; TK104, TK105, TK106 or TK110 where there is no such product."""
    scope = values.scope
    sides: list[tuple[Tile, bool]] = []
    scales: list[Tile] = []
    for x in (left, right):
        tile, transposed = (x.tile, True) if isinstance(x, Transposed) else (x, False)
        if isinstance(tile, P.Scaled):
            scales.append(tile.scales)
            tile = tile.tile
        if values.in_registers(tile):
            values.later("a matrix product with an operand in registers", x.span)
        first = isinstance(tile, Tile) and tile.operand and not sides and not transposed
        if not isinstance(tile, Tile) or (tile.accumulator and not first):
            values.fail(
                "TK106", f"`@` takes shared tiles, not {describe(x)}{_only_first(tile)}", span
            )
        if len(tile.shape) != 2:
            values.fail("TK104", f"`@` takes tiles of two axes, not {describe(x)}", span)
        sides.append((tile, transposed))
    (a, ta), (b, tb) = sides
    rows, inner = a.shape[::-1] if ta else a.shape
    inner_b, columns = b.shape[::-1] if tb else b.shape
    if inner != inner_b:
        values.fail(
            "TK104",
            f"`@` contracts the last axis of [{rows}, {inner}] with the first of [{inner_b}, {columns}]: "
            f"{inner} is not {inner_b}",
            span,
            scope.note(f"{a.name} is {a.dtype} {list(a.shape)}", a.span),
            scope.note(f"{b.name} is {b.dtype} {list(b.shape)}", b.span),
        )
    scaling.multiply(scope, sides, span)
    if not (a.scale or mix(a.dtype, b.dtype)):
        values.fail(
            "TK105",
            apart(a.dtype, b.dtype),
            span,
            scope.note(f"{a.name} is {a.dtype} {list(a.shape)}", a.span),
            scope.note(f"{b.name} is {b.dtype} {list(b.shape)}", b.span),
        )
    scaling.multiply_pair(scope, (a, b), False, span)
    if len(scales) == 1:
        values.fail("TK106", "`@` of scaled tiles has both of them `.scaled(...)`, or none", span)
    pair = (scales[0], scales[1]) if scales else None
    return Product(a, ta, b, tb, (rows, columns), span, pair)


def fits(values: Values, d: Tile, of: tuple[Any, Any], ctas: int, s: E.Command) -> None:
    """Shapes and dtypes of `mma d[i] += a[slot] @ b[slot]`; of a pair, each CTA holds half of b's columns."""
    scope, at = values.scope, s.subject.value.span  # type: ignore[union-attr]
    a, b = of
    if b.tile.accumulator or (a.tile.operand and (a.transposed or ctas > 1)):
        told = "a tile in tensor memory is the first operand, as it is, of a product of one CTA"
        values.fail("TK106", f"`@` takes shared tiles: {told}", at)
    (rows, inner), (depth, columns) = (
        t.tile.shape[::-1] if t.transposed else t.tile.shape for t in of
    )
    notes = [
        scope.note(f"{t.name} is {t.dtype} {list(t.shape)}", t.span) for t in (a.tile, b.tile, d)
    ]
    if inner != depth:
        told = f"`@` contracts the last axis of [{rows}, {inner}] with the first of [{depth}, {columns}]"
        values.fail("TK104", f"{told}: {inner} is not {depth}", at, *notes[:2])
    if (rows, columns * ctas) != d.shape:
        told = f"`@` makes {[rows, columns * ctas]}, and accumulator {d.name} is {list(d.shape)}"
        values.fail("TK104", told, s.span, *notes)
    scaling.multiply(scope, [(t.tile, t.transposed) for t in of], at)
    if not (a.tile.scale or mix(a.tile.dtype, b.tile.dtype)):
        values.fail("TK105", apart(a.tile.dtype, b.tile.dtype), at, *notes[:2])
