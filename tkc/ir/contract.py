"""Launch contracts inside the IR: JSON values as attributes and back, so that a contract survives printing."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i64,
)
from xdsl.dialects.builtin import IntAttr as _IntAttr
from xdsl.ir import Attribute

from tkc.ir.interned import integer, string


def to_attribute(value: Any) -> Attribute:
    """A JSON value (no floats) as an attribute; `None` is `unit`, booleans are `i1`."""
    match value:
        case None:
            return UnitAttr()
        case bool():
            return IntegerAttr.from_bool(value)
        case int():
            return integer(value, i64)
        case str():
            return string(value)
        case dict():
            pairs = cast("dict[str, Any]", value)
            return DictionaryAttr({k: to_attribute(v) for k, v in pairs.items()})
        case list() | tuple():
            return ArrayAttr([to_attribute(v) for v in cast("list[Any]", value)])
        case _:
            raise TypeError(f"a contract holds no {type(value).__name__}")


def from_attribute(attribute: Attribute) -> Any:
    """The JSON value of an attribute made by `to_attribute`."""
    match attribute:
        case UnitAttr():
            return None
        case IntegerAttr():
            number = attribute.value.data
            return bool(number) if attribute.type == i1 else number
        case _IntAttr():
            return attribute.data
        case StringAttr():
            return attribute.data
        case DictionaryAttr():
            return {k: from_attribute(v) for k, v in attribute.data.items()}
        case ArrayAttr():
            return [from_attribute(v) for v in attribute.data]
        case _:
            raise TypeError(f"a contract holds no {attribute}")
