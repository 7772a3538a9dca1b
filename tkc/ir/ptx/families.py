"""Finds the row and the rules of an instruction by its name, and loads only the family that has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Protocol

from tkc.ir.isa.instructions import FAMILIES, Row, family

LengthRule = Callable[[Mapping[str, str]], Mapping[str, int]]


class Family(Protocol):
    """What each family file of this package says beyond the rows."""

    LENGTHS: Mapping[str, LengthRule]
    """By row name: the length of each list or tuple operand that the modifiers fix."""
    WIDER: frozenset[str]
    """Rows whose registers may be wider than their type says (PTX 9.4.1)."""


_rows: dict[str, Row] = {}
_families: dict[str, str] = {}
_loaded: set[str] = set()


def _load(name: str) -> None:
    if name not in _loaded:
        rows = family(name)
        _rows.update(rows)
        _families.update(dict.fromkeys(rows, name))
        _loaded.add(name)


def find(name: str) -> Row:
    """The row called `name`; KeyError, with the nearest names, where there is none."""
    found = _rows.get(name)
    if found is not None:
        return found
    head = name.partition(".")[0]
    for candidate in (*((head,) if head in FAMILIES else ()), *FAMILIES):
        _load(candidate)
        if name in _rows:
            return _rows[name]
    from difflib import get_close_matches

    near = ", ".join(get_close_matches(name, _rows)) or "none"
    raise KeyError(f"no instruction {name!r}; nearest: {near}")


@cache
def family_of(name: str) -> Family:
    """The family file of this package that has the row called `name`."""
    find(name)
    return import_module(f"tkc.ir.ptx.{_families[name]}")  # pyright: ignore[reportReturnType]


def row_names() -> tuple[str, ...]:
    """Every row's name, family by family (loads them all)."""
    for name in FAMILIES:
        _load(name)
    return tuple(_rows)
