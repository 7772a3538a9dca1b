"""Declarations of PTX variables: `.shared .align 16 .b8 sm[1024];`, parameters, and initial values."""

from __future__ import annotations

import re
import struct

from tkc.diagnostics import Location, TkcError
from tkc.emulator.operands import parse_operands
from tkc.emulator.syntax import Name, Number, Operand, Variable, Vector

TYPE_BITS = {
    "pred": 1,
    **dict.fromkeys(("b8", "u8", "s8"), 8),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 16),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 32),
    **dict.fromkeys(("b64", "u64", "s64", "f64", "f32x2"), 64),
    "b128": 128,
}
"""Bits of each type that a register or a variable may have."""

_FLOAT = {"f32": "<f", "f64": "<d"}
_WORD = re.compile(r"\s*\.([\w:]+)")
_NAME = re.compile(r"\s*([A-Za-z_$%][\w$]*)\s*((?:\[[^\]]*\]\s*)*)")
_DIMENSION = re.compile(r"\[\s*([^\]]*?)\s*\]")


def _refuse(text: str, line: int, file: str, why: str = "") -> TkcError:
    shown = " ".join(text.split())[:60]
    tail = f": {why}" if why else ""
    return TkcError.at(
        "TK417", f"cannot read the declaration {shown!r}{tail}", Location(file, line)
    )


def _head(text: str, space: str, line: int, file: str) -> tuple[str, str, int, int, bool, int]:
    """(space, type, vector length, alignment or 0, whether it is a pointer parameter, end of the head)."""
    kind, vector, align, pointer = "", 1, 0, False
    at = 0
    while True:
        found = _WORD.match(text, at)
        if not found:
            break
        word = found.group(1)
        at = found.end()
        base = word.partition("::")[0]
        if word == "align":
            number = re.compile(r"\s*(\d+)").match(text, at)
            if not number:
                raise _refuse(text, line, file)
            # `.ptr .align N` speaks of the memory that the parameter points to.
            align = align if pointer else int(number.group(1))
            at = number.end()
        elif word == "ptr":
            pointer = True
        elif base in ("shared", "global", "const", "local", "param"):
            space = space or base
        elif word in ("v2", "v4"):
            vector = int(word[1])
        elif word in TYPE_BITS:
            kind = word
        elif word in ("attribute", "managed", "unified"):
            skip = re.compile(r"\s*\([^)]*\)").match(text, at)
            at = skip.end() if skip else at
        elif word not in ("generic", "volatile", "reg"):
            raise _refuse(text, line, file, f".{word} is not covered")
    if not kind:
        raise _refuse(text, line, file, "it has no type")
    return space, kind, vector, align, pointer, at


def _value(item: Operand, kind: str) -> tuple[bytes, tuple[str, int] | None]:
    size = TYPE_BITS[kind] // 8
    if isinstance(item, Name):
        return bytes(size), (item.text, item.offset)
    if isinstance(item, Number):
        if item.kind == "int" and kind in _FLOAT:
            return struct.pack(_FLOAT[kind], float(item.value)), None
        if item.kind == "decimal":
            return struct.pack(_FLOAT.get(kind, "<d"), float(item.text)), None
        return (item.value & ((1 << 8 * size) - 1)).to_bytes(size, "little"), None
    raise ValueError("an initial value is no number and no name")


def _flatten(item: Operand) -> list[Operand]:
    if isinstance(item, Vector):
        return [leaf for part in item.items for leaf in _flatten(part)]
    return [item]


def declare_variables(text: str, line: int, file: str, extern: bool) -> list[Variable]:
    """The variables of one declaration without its semicolon."""
    space, kind, vector, align, _, at = _head(text, "", line, file)
    size = TYPE_BITS[kind] // 8 * vector
    made: list[Variable] = []
    body, _, initial = text[at:].partition("=")
    for part in re.split(r",(?![^\[]*\])", body):
        found = _NAME.fullmatch(part.rstrip())
        if not found:
            raise _refuse(text, line, file)
        total = size
        for dimension in _DIMENSION.findall(found.group(2)):
            total *= int(dimension, 0) if dimension else 0
        variable = Variable(found.group(1), space, align or size, total, line, kind, extern=extern)
        if initial:
            _initialise(variable, initial.strip(), kind, text, line, file)
        made.append(variable)
    return made


def _initialise(v: Variable, initial: str, kind: str, text: str, line: int, file: str) -> None:
    try:
        leaves = [leaf for item in parse_operands(initial) for leaf in _flatten(item)]
        data, references = bytearray(), []
        for leaf in leaves:
            # `generic(name)` reads as two operands; the name is what counts.
            raw, reference = _value(leaf, kind)
            if reference:
                references.append((len(data), len(raw), *reference))
            data += raw
    except ValueError as error:
        raise _refuse(text, line, file, str(error)) from None
    v.size = max(v.size, len(data))
    v.data = bytes(data) + bytes(v.size - len(data))
    v.references = tuple(references)


def one_variable(text: str, space: str, line: int, file: str) -> Variable:
    """One parameter of a function."""
    space, kind, vector, align, pointer, at = _head(text, space, line, file)
    found = _NAME.fullmatch(text[at:].rstrip())
    if not found:
        raise _refuse(text, line, file)
    size = TYPE_BITS[kind] // 8 * vector
    total = size
    for dimension in _DIMENSION.findall(found.group(2)):
        total *= int(dimension, 0) if dimension else 0
    return Variable(found.group(1), space, align or size, total, line, kind, pointer=pointer)
