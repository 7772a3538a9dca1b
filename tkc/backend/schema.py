"""Small checks that compose: each takes a JSON value and its path and raises TK411 with what was found and expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeGuard

from tkc.diagnostics import TkcError

Check = Callable[[Any, str], None]


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, Mapping)


def is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    """Whether a JSON value is a list; a tuple is one too, where Python made the value."""
    return isinstance(value, list | tuple)


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a JSON value is an integer; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def refuse(path: str, expected: str, found: Any) -> NoReturn:
    """Raises TK411: `path: expected …, found …`."""
    text = repr(found)
    raise TkcError.at(
        "TK411",
        f"{path}: expected {expected}, found {text if len(text) <= 60 else text[:57] + '...'}",
    )


def text(value: Any, path: str) -> None:
    if not isinstance(value, str) or not value:
        refuse(path, "a text", value)


def boolean(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        refuse(path, "true or false", value)


def integer(low: int, high: int | None = None) -> Check:
    """An integer (no boolean) in `low..high`; no upper limit where `high` is None."""

    def check(value: Any, path: str) -> None:
        if not is_integer(value):
            refuse(path, "an integer", value)
        if value < low or (high is not None and value > high):
            refuse(
                path,
                f"an integer in {low}..{high}" if high is not None else f"an integer >= {low}",
                value,
            )

    return check


def one_of(*choices: str) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, str) or value not in choices:
            refuse(path, f"one of {', '.join(choices)}", value)

    return check


def nullable(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if value is not None:
            inner(value, path)

    return check


def list_of(inner: Check, least: int = 0, most: int | None = None) -> Check:
    def check(value: Any, path: str) -> None:
        if not is_list(value):
            refuse(path, "a list", value)
        if len(value) < least or (most is not None and len(value) > most):
            count = (
                str(least)
                if most == least
                else f"{least}..{most}"
                if most is not None
                else f">= {least}"
            )
            refuse(path, f"a list of {count}", f"{len(value)} items")
        for i, item in enumerate(value):
            inner(item, f"{path}[{i}]")

    return check


def mapping_of(inner: Check) -> Check:
    """An object whose keys are free names and whose values pass `inner`."""

    def check(value: Any, path: str) -> None:
        if not is_object(value):
            refuse(path, "an object", value)
        for key, item in value.items():
            text(key, f"{path} key")
            inner(item, f"{path}.{key}")

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with exactly the `required` keys and any of the `optional` ones."""
    known = {**required, **(optional or {})}

    def check(value: Any, path: str) -> None:
        if not is_object(value):
            refuse(path, "an object", value)
        missing = [key for key in required if key not in value]
        if missing:
            raise TkcError.at("TK411", f"{path}: {', '.join(missing)} missing")
        unknown = [str(key) for key in value if key not in known]
        if unknown:
            raise TkcError.at(
                "TK411", f"{path}: unknown key {', '.join(unknown)}; there are {', '.join(known)}"
            )
        for key, item in value.items():
            known[key](item, f"{path}.{key}")

    return check
