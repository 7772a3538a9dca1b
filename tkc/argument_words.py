"""Arguments on the command line: `A=a.npy`, `A=random(512,256,seed=3)`, `C=empty(512,256)`, `n=7`, `rows=[130,7,0]`.

A list of arrays is `A=[random(130,72),a.npy]`, or one array whose first axis numbers them, or a file of several (.npz).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tkc.diagnostics import Collector, TkcError, nearest

_CALL = re.compile(r"(\w+)\((.*)\)")
_WORD = re.compile(r"([A-Za-z_]\w*(?:\.scales)?)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class FromFile:
    """An array saved by NumPy."""

    path: str


@dataclass(frozen=True)
class Random:
    """Uniform in [-1, 1), scales in (0, 1], integers in [-8, 8) or [0, 16); without a seed the name gives it."""

    shape: tuple[int, ...]
    seed: int | None = None


@dataclass(frozen=True)
class Empty:
    """Every byte 0xff, which is a NaN in each floating dtype: what the kernel does not write is seen."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Zeros:
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Number:
    """A scalar argument, or the value of a symbol that no array gives."""

    value: int | float


@dataclass(frozen=True)
class Values:
    """An array of one axis, element by element."""

    values: tuple[int | float, ...]


Item = FromFile | Random | Empty | Zeros | Values


@dataclass(frozen=True)
class Several:
    """A list of arrays, each of its own shape."""

    items: tuple[Item, ...]


Spec = Item | Several | Number
_MAKERS = {"random": Random, "empty": Empty, "zeros": Zeros}


def parse(words: Sequence[str]) -> dict[str, Spec]:
    """`("A=random(512,256)", …)` by name; raises TkcError (TK412) with every word that cannot be read."""
    found = Collector()
    specs: dict[str, Spec] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            found.error(
                "TK412",
                f"{word!r} is no argument; expected NAME=FILE.npy, NAME=random(SHAPE), NAME=empty(SHAPE),"
                " NAME=NUMBER or NAME=[…,…]",
            )
        elif match[1] in specs:
            found.error("TK412", f"{match[1]} is given twice")
        else:
            try:
                specs[match[1]] = parse_value(match[2])
            except ValueError as error:
                found.error("TK412", f"{word}: {error}")
    found.stop_on_errors()
    return specs


def parse_files(words: Sequence[str], option: str) -> dict[str, str]:
    """`("C=c.npy", …)` of `--out` or `--expect` by name."""
    found: dict[str, str] = {}
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            raise TkcError.at("TK412", f"{option} {word}: expected NAME=FILE.npy")
        if match[1] in found:
            raise TkcError.at("TK412", f"{option} {match[1]} is given twice")
        found[match[1]] = match[2]
    return found


def parse_value(text: str) -> Spec:
    """What stands after `NAME=`; ValueError where it cannot be read."""
    if text.startswith("[") and not text.endswith(".npy"):
        return _list(text)
    number = _number(text)
    if number is not None:
        return Number(number)
    call = _CALL.fullmatch(text)
    if call is None:
        if re.match(r"\w+\(", text) and not text.endswith(".npy"):
            raise ValueError("the parenthesis is not closed")
        return FromFile(text)
    make = _MAKERS.get(call[1])
    if make is None:
        near = nearest(call[1], tuple(_MAKERS))
        raise ValueError(
            f"no maker {call[1]}; {f'did you mean {near}' if near else 'there are ' + ', '.join(_MAKERS)}"
        )
    shape: list[int] = []
    seed: int | None = None
    for part in (p.strip() for p in call[2].split(",")) if call[2].strip() else ():
        name, equals, value = part.partition("=")
        if equals and (name.strip() != "seed" or make is not Random):
            raise ValueError(f"{call[1]} has no option {name.strip()}")
        if equals:
            seed = _natural(value.strip(), "the seed")
        elif seed is not None:
            raise ValueError("the shape stands before the seed")
        else:
            shape.append(_natural(part, "a dimension"))
    return Random(tuple(shape), seed) if make is Random else make(tuple(shape))


def _list(text: str) -> Values | Several:
    """`[130,7,0]`, or `[random(130,72),a.npy,[1,2]]`."""
    parts = _bracketed(text)
    items = [_values(part) if part.startswith("[") else parse_value(part) for part in parts]
    numbers = tuple(item.value for item in items if isinstance(item, Number))
    arrays = tuple(item for item in items if not isinstance(item, Number | Several))
    if numbers and arrays:
        number, array = (
            next(p for p, i in zip(parts, items, strict=True) if isinstance(i, Number) is wanted)
            for wanted in (True, False)
        )
        raise ValueError(f"a list holds numbers or arrays; found {number} and {array}")
    return Several(arrays) if arrays else Values(numbers)


def _values(text: str) -> Values:
    """Numbers in a list that stands in a list."""
    numbers: list[int | float] = []
    for part in _bracketed(text):
        number = _number(part)
        if number is None:
            raise ValueError(f"{part[:40]} is no number; a list in a list holds numbers alone")
        numbers.append(number)
    return Values(tuple(numbers))


def _bracketed(text: str) -> list[str]:
    if not text.endswith("]"):
        raise ValueError("the bracket is not closed")
    parts = split(text[1:-1]) if text[1:-1].strip() else []
    if "" in parts:
        raise ValueError(f"element {parts.index('')} of the list is missing")
    return parts


def split(inner: str) -> list[str]:
    """The parts between commas that stand in no parenthesis or bracket of their own."""
    parts, depth, start = list[str](), 0, 0
    for at, character in enumerate(inner):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append(inner[start:at].strip())
            start = at + 1
    return [*parts, inner[start:].strip()]


def _natural(text: str, what: str) -> int:
    if not re.fullmatch(r"[0-9][0-9_]{0,18}", text):
        raise ValueError(f"{what} is {text or 'missing'}, expected an integer >= 0")
    return int(text)


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
