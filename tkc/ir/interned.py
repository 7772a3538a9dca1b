"""Attributes of numbers and texts, one object for each: most are asked for many times, and making one checks it."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i32, i64

_numbers: dict[int, IntegerAttr[IntegerType]] = {}
_long_numbers: dict[int, IntegerAttr[IntegerType]] = {}
_texts: dict[str, StringAttr] = {}


def integer(value: int, type: IntegerType = i32) -> IntegerAttr[IntegerType]:
    """The attribute of a number."""
    known = _numbers if type is i32 else _long_numbers if type is i64 else None
    if known is None:
        return IntegerAttr(value, type)
    found = known.get(value)
    if found is None:
        found = known[value] = IntegerAttr(value, type)
    return found


def string(text: str) -> StringAttr:
    """The attribute of a text."""
    found = _texts.get(text)
    if found is None:
        found = _texts[text] = StringAttr(text)
    return found
