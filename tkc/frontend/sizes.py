"""Integer expressions of what a launch binds: extents of axes, integer arguments, and compile-time numbers.

A size is an int, the name of a symbol, or (kind, left, right) with a kind of `stage.arith`. Numbers fold, and the
operands of `add`, `mul`, `min` and `max` stand in one order, so that equal expressions are equal: roles are compared by
them.
"""

from __future__ import annotations

from collections.abc import Callable

from tkc.ir.tile.types import counts_of

Size = int | str | tuple[str, "Size", "Size"]

LIMIT = 2**31 - 1
"""Sizes are 32-bit: extents, block numbers and params."""

MAX_TERMS = 64

FOLD: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "cdiv": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
}
SIGNS = {"+": "add", "-": "sub", "*": "mul", "//": "div", "%": "mod"}
_COMMUTE = {"add", "mul", "min", "max"}
_SHOWN = {kind: sign for sign, kind in SIGNS.items()}


class NoValue(Exception):
    """An integer expression that has no value here; the message says why."""


def _terms(size: Size) -> int:
    return _terms(size[1]) + _terms(size[2]) if isinstance(size, tuple) else 1


def combine(kind: str, a: Size, b: Size) -> Size:
    """The expression, folded where it is constant. Raises NoValue for division by zero and numbers beyond 32 bits."""
    if kind in ("div", "cdiv", "mod") and b == 0:
        raise NoValue(f"{show(a)} is divided by 0")
    if isinstance(a, int) and isinstance(b, int):
        value = FOLD[kind](a, b)
        if abs(value) > LIMIT:
            raise NoValue(f"{show((kind, a, b))} is {value}, beyond 32 bits")
        return value
    if _terms(a) + _terms(b) > MAX_TERMS:
        raise NoValue(f"an integer expression has more than {MAX_TERMS} terms")
    if kind in _COMMUTE and (isinstance(a, int), repr(a)) > (isinstance(b, int), repr(b)):
        a, b = b, a
    if (kind in ("add", "sub") and b == 0) or (kind in ("mul", "div", "cdiv") and b == 1):
        return a
    return (kind, a, b)


def show(size: Size) -> str:
    """As the language writes it."""
    if not isinstance(size, tuple):
        counts = counts_of(size)
        return str(size) if counts is None else f"{counts}[g]"
    kind, a, b = size
    if kind not in _SHOWN:
        return f"{kind}({show(a)}, {show(b)})"
    left, right = (
        f"({show(x)})" if isinstance(x, tuple) and x[0] in _SHOWN else show(x) for x in (a, b)
    )
    return f"{left} {_SHOWN[kind]} {right}"


def label(size: Size) -> str | int:
    """One word of IR for it: `M`, 128, or in prefix form `cdiv.M.2`."""
    return ".".join(str(label(part)) for part in size) if isinstance(size, tuple) else size
