"""Attributes of numbers and texts, one object for each: most are asked for many times, and making one checks it."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i32, i64

_numbers: dict[int, IntegerAttr[IntegerType]] = {}
_long_numbers: dict[int, IntegerAttr[IntegerType]] = {}
_texts: dict[str, StringAttr] = {}


def integer(value: int, type: IntegerType = i32) -> IntegerAttr[IntegerType]:
    """The attribute of a number."""
    if type is i64:
        return long_integer(value)
    if type is not i32:
        return IntegerAttr(value, type)
    found = _numbers.get(value)
    if found is None:
        found = _numbers[value] = IntegerAttr(value, type)
    return found


def long_integer(value: int) -> IntegerAttr[IntegerType]:
    """The attribute of a number in 64 bits."""
    found = _long_numbers.get(value)
    if found is None:
        found = _long_numbers[value] = IntegerAttr(value, i64)
    return found


def string(text: str) -> StringAttr:
    """The attribute of a text."""
    found = _texts.get(text)
    if found is None:
        found = _texts[text] = StringAttr(text)
    return found
