"""Conditions on integer expressions: known at compile time, or what a launch requires."""

from __future__ import annotations

from typing import Any, NamedTuple

from tkc.frontend.sizes import Size, show
from tkc.frontend.syntax import Span

Test = bool | tuple[Any, ...]
"""A known outcome, or ("lt" | "eq", a, b) of sizes, or ("not", t), ("and", t, u), ("or", t, u) of tests."""

_CONTRACT = {"div": "floordiv", "cdiv": "ceildiv"}
"""Kinds of arithmetic that a launch contract calls otherwise."""


class Condition(NamedTuple):
    """A comparison of integers, or several joined."""

    test: Test
    span: Span


def compare(sign: str, a: Size, b: Size) -> Test:
    """`a < b` and its sisters, as `lt`, `eq` and `not`."""
    match sign:
        case "<":
            return _known("lt", a, b)
        case ">":
            return _known("lt", b, a)
        case "<=":
            return negate(_known("lt", b, a))
        case ">=":
            return negate(_known("lt", a, b))
        case "!=":
            return negate(_known("eq", a, b))
        case _:
            return _known("eq", a, b)


def _known(kind: str, a: Size, b: Size) -> Test:
    if isinstance(a, int) and isinstance(b, int):
        return a < b if kind == "lt" else a == b
    return kind == "eq" if a == b else (kind, a, b)


def negate(test: Test) -> Test:
    if isinstance(test, bool):
        return not test
    return test[1] if test[0] == "not" else ("not", test)


def join(word: str, a: Test, b: Test) -> Test:
    """`and` and `or`; a known side decides or drops out."""
    for known, other in ((a, b), (b, a)):
        if isinstance(known, bool):
            return other if known == (word == "and") else known
    return (word, a, b)


def contract(test: Test) -> Any:
    """The test as an expression of the launch contract: 1 where it holds, 0 where not."""
    if isinstance(test, bool):
        return int(test)
    kind, *parts = test
    if kind in ("lt", "eq"):
        return {"op": kind, "of": [_size(x) for x in parts]}
    tests = [contract(x) for x in parts]
    if kind == "not":
        return {"op": "select", "of": [*tests, 0, 1]}
    return {"op": "min" if kind == "and" else "max", "of": tests}


def _size(x: Size) -> Any:
    if isinstance(x, int):
        return x
    if isinstance(x, str):
        return {"sym": x}
    return {"op": _CONTRACT.get(x[0], x[0]), "of": [_size(part) for part in x[1:]]}


def told(test: Test) -> str:
    """In words of the language, with sizes as `show` writes them."""
    if isinstance(test, bool):
        return str(test).lower()
    kind, *parts = test
    if kind in ("lt", "eq"):
        return f"{show(parts[0])} {'<' if kind == 'lt' else '=='} {show(parts[1])}"
    if kind == "not" and parts[0][0] in ("lt", "eq"):
        sign = ">=" if parts[0][0] == "lt" else "!="
        return f"{show(parts[0][1])} {sign} {show(parts[0][2])}"
    if kind == "not":
        return f"not ({told(parts[0])})"
    return f" {kind} ".join(f"({told(x)})" for x in parts)
