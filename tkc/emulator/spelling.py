"""Which row of the instruction tables a line of PTX spells, and which operand is which.

The rows are in `tkc.ir.isa.instructions`; nothing about an instruction's form is written here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tkc.emulator.operands import parse_operands
from tkc.emulator.syntax import Address, Group, Name, Operand, Pair, Vector
from tkc.ir.isa.instructions import COMES_WITH, Row, all_rows
from tkc.ir.isa.instructions.match import candidates


@dataclass(frozen=True, slots=True)
class Spelled:
    """A row, the text of each of its filled slots, and its operands by name."""

    row: Row
    modifiers: Mapping[str, str]
    operands: Mapping[str, Operand | tuple[Operand, ...]]


_OPTIONAL = re.compile(r"\{\?((?:[^{}]|\{[^{}]*\})*)\}")


@cache
def _syntaxes(name: str) -> tuple[tuple[frozenset[str], tuple[Operand, ...]], ...]:
    """Each way to fill the optional parts of a row's syntax: the optional names taken, and the operand list."""
    syntax = all_rows()[name].syntax

    def expand(text: str) -> Iterator[tuple[frozenset[str], str]]:
        part = _OPTIONAL.search(text)
        if not part:
            yield frozenset(), text
            return
        head, tail = text[: part.start()], text[part.end() :]
        inside = part.group(1)
        if inside.startswith("+"):
            yield from expand(head + tail)
            return
        names = frozenset(re.findall(r"\w+", inside))
        for taken, rest in expand(head + inside + tail):
            yield taken | names, rest
        yield from expand(head + tail)

    # A starred name becomes a vector with that one name in it.
    return tuple(
        (taken, parse_operands(text.replace("*", "").strip().strip(",")))
        for taken, text in expand(syntax)
    )


def _unify(
    row: Row, want: Operand, have: Operand, out: dict[str, Operand | tuple[Operand, ...]]
) -> bool:
    if isinstance(want, Name):
        if want.text == "_":
            return isinstance(have, Name) and have.text == "_"
        if row.operands.get(want.text) == "vec":
            if not isinstance(have, Vector):
                return False
            out[want.text] = have.items
            return True
        if isinstance(have, Vector) and len(have.items) == 1:
            have = have.items[0]
        if isinstance(have, Vector | Address | Pair):
            return False
        out[want.text] = have
        return True
    if isinstance(want, Vector):
        if not isinstance(have, Vector):
            return False
        if not want.items:
            return not have.items
        first = want.items[0]
        if (
            len(want.items) == 1
            and isinstance(first, Name)
            and row.operands.get(first.text, "").endswith("*")
        ):
            out[first.text] = have.items
            return True
        return _unify_all(row, want.items, have.items, out)
    if isinstance(want, Address):
        return isinstance(have, Address) and _unify_all(row, want.items, have.items, out)
    if isinstance(want, Pair):
        return (
            isinstance(have, Pair)
            and _unify(row, want.first, have.first, out)
            and _unify(row, want.second, have.second, out)
        )
    if isinstance(want, Group):
        first = want.items[0]
        if not isinstance(have, Group) or not isinstance(first, Name):
            return False
        out[first.text] = have.items
        return True
    return want == have


def _unify_all(
    row: Row,
    want: tuple[Operand, ...],
    have: tuple[Operand, ...],
    out: dict[str, Operand | tuple[Operand, ...]],
) -> bool:
    return len(want) == len(have) and all(
        _unify(row, w, h, out) for w, h in zip(want, have, strict=True)
    )


def _kinds_fit(spelled: Spelled, is_predicate: Callable[[str], bool | None]) -> bool:
    """Whether predicates stand where the row wants them, and nowhere else."""
    for name, operand in spelled.operands.items():
        if not isinstance(operand, Name):
            continue
        kind = spelled.row.operands.get(name, "")
        wanted = kind == "pred" or spelled.modifiers.get(kind) == ".pred"
        have = is_predicate(operand.text)
        if have is not None and have != wanted:
            return False
    return True


def spell(
    mnemonic: str,
    operands: tuple[Operand, ...],
    is_predicate: Callable[[str], bool | None] = lambda name: None,
) -> Spelled:
    """The row that this line is; raises ValueError with what is unknown about it.

    `is_predicate` tells of a name whether it is a predicate register, None where it is no register: some rows differ in
    nothing else.
    """
    found = candidates(mnemonic)
    second: Spelled | None = None
    for candidate in found:
        row, modifiers = candidate.row, candidate.modifiers
        for taken, syntax in _syntaxes(row.name):
            if any(
                (slot in modifiers) != (name in taken)
                for name, slot in COMES_WITH.items()
                if name in row.operands and slot in row.slots
            ):
                continue
            out: dict[str, Operand | tuple[Operand, ...]] = {}
            if _unify_all(row, syntax, operands, out):
                spelled = Spelled(row, modifiers, out)
                if _kinds_fit(spelled, is_predicate):
                    return spelled
                second = second or spelled
    if second is not None:
        return second
    if found:
        expected = " or ".join(dict.fromkeys(candidate.row.syntax for candidate in found))
        raise ValueError(f"{mnemonic} does not take these operands; expected {expected}")
    raise ValueError(f"{mnemonic} is no instruction that is covered")
