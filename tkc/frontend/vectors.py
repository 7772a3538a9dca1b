"""Vectors in registers: one value a row or a column of a tile, how they spread, and what reduces a tile to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tkc.frontend.program as P
from tkc.frontend.program import Regs
from tkc.frontend.scope import Failed, Scope
from tkc.frontend.syntax import Span
from tkc.ir.tile.vectors import joined

if TYPE_CHECKING:
    from tkc.frontend.values import Values

_KINDS = {"max": "max", "min": "min", "sum": "add"}
REDUCTIONS = {
    f"{axis}_{name}": (kind, axis) for axis in ("row", "col") for name, kind in _KINDS.items()
}
"""Functions to their kind of `tile.reduce` and to what is left: one value a row, or one a column."""
TOTALS = {f"tile_{name}": kind for name, kind in _KINDS.items()}
"""Functions of which a number is left."""

VECTOR_FUNCTIONS = ("row", "column", "full", *REDUCTIONS, *TOTALS)


def vector(values: Values, name: str, x: P.Value, span: Span) -> P.Value:
    """`row(v)`, `column(v)`, `full(x)` and the reductions, of one value."""

    def takes(what: str) -> Failed:
        from tkc.frontend.describe import describe

        values.scope.error("TK106", f"`{name}` takes {what}, not {describe(x)}", span)
        return Failed()

    type = x.type
    shape = type.shape if isinstance(type, Regs) else ()
    if name == "full":
        if shape:
            raise takes("a number")
        return x
    if values.scope.alone and (name in TOTALS or REDUCTIONS.get(name, "")[1:] == ("col",)):
        told = f"`{name}` stands in an election: it takes all threads of the role"
        values.scope.error("TK121", told, span)
        raise Failed
    if name in TOTALS:
        if len(shape) != 2 or shape[0] == 1:
            raise takes("a tile, or one value a row")
        values.float(x)
        if shape[1] != 1:
            x = P.Reduce(TOTALS[name], x, Regs("f32", (shape[0], 1)), span)
        return P.Total(TOTALS[name], x, span)
    if name in REDUCTIONS:
        if len(shape) != 2 or 1 in shape:
            raise takes("a tile of two axes")
        values.float(x)
        kind, axis = REDUCTIONS[name]
        made = (shape[0], 1) if axis == "row" else (1, shape[1])
        return P.Reduce(kind, x, Regs("f32", made), span)
    if len(shape) != 1:
        raise _placed(values, name, shape, span) if 1 in shape else takes("a vector")
    made = (1, *shape) if name == "row" else (*shape, 1)
    return P.Reshape(x, Regs(type.dtype, made), span)


def _placed(values: Values, name: str, shape: tuple[int, ...], span: Span) -> Failed:
    """`column(row_max(x))`: what is one value a row, or a column, already."""
    of, other = ("column", "row") if shape[0] == 1 else ("row", "column")
    told = f"`{name}` takes a vector, and this is one value a {of}, {list(shape)}: "
    if name == other:
        told += "it stands beside a tile as it is"
    else:
        told += f"a vector has one value a {other} so, and `{other[:3]}_sum(x)` is one"
    values.scope.error("TK106", told, span)
    return Failed()


def spread(
    scope: Scope, kind: str, operands: tuple[P.Value, ...], span: Span
) -> tuple[tuple[P.Value, ...], tuple[int, ...]]:
    """The operands with places for vectors, and the shape that they spread over: an axis of 1 fits every extent.

    A vector `[n]` beside a tile belongs to the axis of n elements; where both axes have as many it must say which.
    """
    shapes = [x.type.shape for x in operands if isinstance(x.type, Regs)]
    whole = [max(extents) for extents in zip(*(s for s in shapes if len(s) == 2), strict=True)]
    placed: list[P.Value] = []
    for x in operands:
        if isinstance(x.type, Regs) and len(x.type.shape) == 1 and whole:
            n = x.type.shape[0]
            axes = [axis for axis, extent in enumerate(whole) if extent == n]
            if len(axes) == 2:
                scope.error(
                    "TK104",
                    f"both axes of {whole} have {n} elements: say `row(...)` of a vector that has one "
                    "value a column, `column(...)` of one that has one value a row",
                    x.span,
                )
                raise Failed
            if axes:
                made = (n, 1) if axes == [0] else (1, n)
                x = P.Reshape(x, Regs(x.type.dtype, made), x.span)
        placed.append(x)
    shapes = [x.type.shape for x in placed if isinstance(x.type, Regs)]
    made = joined(shapes)
    if made is None:
        a, b = (list(s) for s in list(dict.fromkeys(shapes))[:2])
        scope.error(
            "TK104",
            f"elementwise {kind} of shapes {a} and {b}: they must be equal, or 1 where they differ",
            span,
        )
        raise Failed
    return tuple(placed), made
