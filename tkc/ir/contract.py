"""Launch contracts inside the IR: JSON values as attributes and back, so that a contract survives printing."""

from __future__ import annotations

from collections.abc import Callable
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
    read = _READ.get(type(attribute))
    if read is None:
        raise TypeError(f"a contract holds no {attribute}")
    return read(attribute)


def _number(attribute: IntegerAttr) -> int | bool:
    number = attribute.value.data
    return bool(number) if attribute.type == i1 else number


_READ: dict[type[Attribute], Callable[[Any], Any]] = {
    UnitAttr: lambda _: None,
    IntegerAttr: _number,
    _IntAttr: lambda attribute: attribute.data,
    StringAttr: lambda attribute: attribute.data,
    DictionaryAttr: lambda attribute: {k: from_attribute(v) for k, v in attribute.data.items()},
    ArrayAttr: lambda attribute: [from_attribute(v) for v in attribute.data],
}
"""By exact types: asking one class after another takes longer than reading."""
