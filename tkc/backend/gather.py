"""Which argument of a call is which: by place or by name, data with their block scales, sizes by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from tkc.diagnostics import TkcError


def gather(
    kernel: Mapping[str, Any], given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[list[Any], dict[str, int]]:
    """Arguments in the contract's order, and the symbols that the caller gave by name.

    Arguments may be given by name too. Raises TkcError TK401.
    """
    arguments = kernel["arguments"]
    names = [a["name"] for a in arguments]
    signature = f"{kernel['entry']}({', '.join(names)})"
    pairs = {a["scales"]["of"]: a["name"] for a in arguments if "scales" in a}
    listed = {a["name"] for a in arguments if a.get("list")}
    left, values = list(names), dict[str, Any]()
    for count, value in enumerate(given):
        if not left:
            told = (
                f"{signature} takes {len(names)} arguments, found {len(names) + len(given) - count}"
            )
            raise TkcError.at("TK401", told)
        each = _listed_parts if left[0] in listed else _parts
        for name, part in each(left[0], value, pairs):
            values[name] = part
            left.remove(name)
    symbols: dict[str, int] = {}
    for name, given_value in named.items():
        value = given_value
        if name in pairs:
            parts = (_listed_parts if name in listed else _parts)(name, value, pairs)
            values.update(parts[1:])
            value = parts[0][1]
        if name in values:
            raise TkcError.at("TK401", f"{signature}: {name} is given twice")
        if name in names:
            values[name] = value
        elif name in kernel["symbols"]:
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise TkcError.at(
                    "TK401", f"{signature}: size {name} is {value!r}, expected an integer >= 0"
                )
            symbols[name] = value
        else:
            raise TkcError.at("TK401", f"{signature} has no argument or size {name}")
    missing = [name for name in names if name not in values]
    if missing:
        raise TkcError.at(
            "TK401",
            f"{signature} takes {len(names)} arguments, found {len(values)}: {', '.join(missing)} missing",
        )
    return [values[name] for name in names], symbols


def _several(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, tuple | list)


def _parts(name: str, value: Any, pairs: Mapping[str, str]) -> list[tuple[str, Any]]:
    """The value of an argument, and that of its block scales where it is a pair of both. Raises TkcError TK401."""
    if not _several(value):
        return [(name, value)]
    scaled = next((of for of, scales in pairs.items() if scales == name), None)
    if scaled is not None:
        told = (
            f"{scaled} is block-scaled: expected its scales behind it, or its data and its scales as a pair, found "
            f"{scaled} alone and then {len(value)} values"
        )
        raise TkcError.at("TK401", told)
    if name not in pairs:
        raise TkcError.at("TK401", f"{name} has no block scales: expected one array, found several")
    if len(value) != 2:
        more = ": tkc.scales.interleave(q.scales) makes its scales" if len(value) == 3 else ""
        raise TkcError.at(
            "TK401",
            f"{name} is block-scaled: expected its data and its scales, interleaved, found {len(value)} values{more}",
        )
    return [(name, value[0]), (pairs[name], value[1])]


def _listed_parts(name: str, value: Any, pairs: Mapping[str, str]) -> list[tuple[str, Any]]:
    """As `_parts`, of a list: of arrays, or of pairs of data and block scales."""
    given: Sequence[Any] = value if _several(value) else ()
    if name not in pairs or not given or not all(_several(x) for x in given):
        return [(name, value)]
    split = [dict(_parts(name, x, pairs)) for x in given]
    return [(part, [x[part] for x in split]) for part in (name, pairs[name])]
