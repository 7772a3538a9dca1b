"""Changes of a program that can be taken back."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, Operation

Undo = Callable[[], None]
Change = Callable[[], Undo]
"""Changes something, and gives the way back."""


def setting(op: Operation, name: str, value: Attribute | None) -> Change:
    """A change of one property."""

    def put(new: object) -> None:
        if new is None:
            op.properties.pop(name, None)
        else:
            op.properties[name] = new  # pyright: ignore

    def change() -> Undo:
        old = op.properties.get(name)
        put(value)
        return lambda: put(old)

    return change
