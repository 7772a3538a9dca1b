"""Plain launches: how anybody's PTX is run, with numbers and arguments said outright, in words or in a JSON file.

A file is `{"schema": "tkc-plain-launch/1", "grid": [4, 2], "block": 128, "args": {"A": "f16:random(64,32)", …}}`, with
`entry`, `cluster`, `shared_bytes` (dynamic shared memory), `dependent` (whether the grid ahead may still run) and `ptx`
(a text beside it) where they are needed. Arguments stand in the order of the kernel's parameters; their names are free.
One is, as a word after `NAME=` or as a text:

    f16:random(256,64,seed=1)     an array, its dtype named as in PTX or NumPy: random, empty (poisoned), zeros
    a.npy  bf16:a.npy             an array in a file; with a dtype where NumPy could only save bits
    i32:256  f32:0.5  256         a number: of a dtype, or as wide as the parameter
    null                          a null pointer
    @A                            the array of argument A again
    map(f16:random(256,64), box=64x64, swizzle=128B)     a tensor map over an array
    struct(image.bin, 16=@A, 24=i32:256, 64=map(@A, box=64x64))     a structure: values at byte offsets, over the
                                  bytes of a file where one is named

A tensor map takes every field of cuTensorMapEncodeTiled, innermost axis first: dtype, sizes, strides (bytes, of axes 1
and up), box, element_strides, interleave, swizzle, l2_promotion, fill, offset (bytes). Without sizes and strides it is
over the whole array. In a file a map and a structure may be objects: `{"map": "f16:random(256,64)", "box": [64, 64]}`,
`{"struct": {"16": "@A"}, "image": "image.bin"}`; null and numbers stand for themselves. `arrays`, or --array, gives
arrays that are no parameter themselves, for `@` to name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tkc.argument_words import FromFile, Number, Spec, parse_value, split
from tkc.arguments import dtype_named
from tkc.backend.schema import (
    Check,
    boolean,
    integer,
    is_integer,
    is_object,
    list_of,
    record,
    refuse,
    text,
)
from tkc.diagnostics import Collector, TkcError, nearest

SCHEMA = "tkc-plain-launch/1"


@dataclass(frozen=True, slots=True)
class Data:
    """An array of its own, or a number. `dtype` is None where the text says none."""

    spec: Spec
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Same:
    """The array of another argument."""

    name: str


@dataclass(frozen=True, slots=True)
class Mapped:
    """A tensor map over an array; `fields` are those of `tkc.TensorMap` that are given."""

    data: Data | Same
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Structure:
    """A structure: what stands at each byte offset, over the bytes of the file `image`."""

    members: Mapping[int, Data | Same | Mapped | None]
    image: str | None = None


Argument = Data | Same | Mapped | Structure | None
"""None is a null pointer."""


@dataclass(frozen=True)
class PlainLaunch:
    """A launch in numbers. `grid` is None where nothing says it; `block` then follows from the kernel, if it can."""

    entry: str | None = None
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    cluster: tuple[int, ...] = (1, 1, 1)
    shared_bytes: int = 0
    dependent: bool = False
    args: Mapping[str, Argument] = field(default_factory=dict[str, Argument])
    arrays: Mapping[str, Argument] = field(default_factory=dict[str, Argument])
    """Arrays that are no parameter by themselves."""
    ptx: Path | None = None


# Words

_WORD = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)
_TYPED = re.compile(r"([a-z][a-z0-9_]*):(?![/\\])(.+)", re.DOTALL)
_COMPOUND = re.compile(r"(map|struct)\((.*)\)", re.DOTALL)
_OFFSET = re.compile(r"\d{1,9}")

_NUMBERS = ("sizes", "strides", "box", "element_strides")
_WORDS = ("dtype", "interleave", "swizzle", "l2_promotion", "fill")
MAP_FIELDS = (*_NUMBERS, *_WORDS, "offset")
"""What may be said of a tensor map."""


def parse_words(
    words: Sequence[str], launch: PlainLaunch, arrays: Sequence[str] = ()
) -> PlainLaunch:
    """The launch with the arguments of the command line: all of them, or new values for those of a file.

    `arrays` are the words of arrays that are no parameter by themselves.
    """
    found = Collector()
    args, others = dict(launch.args), dict(launch.arrays)
    known = {**launch.args, **launch.arrays}
    given: set[str] = set()
    for word, new in (*((w, others) for w in arrays), *((w, args) for w in words)):
        match = _WORD.fullmatch(word)
        if match is None:
            found.error(
                "TK412", f"{word!r} is no argument; expected NAME=VALUE, as in A=f16:random(64,32)"
            )
        elif match[1] in given or (new is others and match[1] in known):
            found.error("TK412", f"{match[1]} is given twice")
        elif new is args and launch.args and match[1] not in known:
            near = nearest(match[1], tuple(known))
            hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            found.error("TK401", f"the launch has no argument {match[1]}; {hint}")
        else:
            given.add(match[1])
            try:
                value = _instead(known.get(match[1]), parse_argument(match[2]))
            except ValueError as error:
                found.error("TK412", f"{word}: {error}")
                continue
            (others if match[1] in launch.arrays else new)[match[1]] = value
    found.stop_on_errors()
    return replace(launch, args=args, arrays=others)


def _instead(old: Argument, new: Argument) -> Argument:
    """A new value keeps the dtype of the old one, and other data the map over them, where it says nothing else."""
    if not isinstance(new, Data):
        return new
    if isinstance(old, Mapped) and not isinstance(new.spec, Number):
        data = _instead(old.data, new)
        return replace(old, data=data) if isinstance(data, Data) else new
    if isinstance(old, Data) and new.dtype is None:
        return replace(new, dtype=old.dtype)
    return new


def parse_argument(value: str) -> Argument:
    """One argument; ValueError where it cannot be read."""
    value = value.strip()
    if value == "null":
        return None
    if value.startswith("@"):
        return Same(value[1:])
    inner = _COMPOUND.fullmatch(value)
    if inner is not None:
        return (_map if inner[1] == "map" else _structure)(split(inner[2]))
    if value.startswith(("map(", "struct(")):
        raise ValueError("the parenthesis is not closed")
    return _data(value)


def _data(value: str) -> Data:
    typed = _TYPED.fullmatch(value)
    if typed is None:
        return Data(parse_value(value))
    return Data(parse_value(typed[2]), dtype_named(typed[1]))


def _map(parts: Sequence[str]) -> Mapped:
    fields: dict[str, Any] = {}
    for part in parts[1:]:
        name, equals, value = (x.strip() for x in part.partition("="))
        if not equals:
            raise ValueError(f"{part or 'nothing'} in a map, expected FIELD=VALUE")
        if name in fields:
            raise ValueError(f"{name} is given twice")
        _check_field(name)
        fields[name] = _numbers(name, value) if name in _NUMBERS else value
        if name == "offset":
            fields[name] = _numbers(name, value)[0]
    return _mapped(parse_argument(parts[0]) if parts[0] else None, fields)


def _structure(parts: Sequence[str]) -> Structure:
    image = None
    if not re.match(r"\d+ *=", parts[0]):
        image, *parts = parts
    members: dict[int, Any] = {}
    for part in parts:
        name, equals, value = (x.strip() for x in part.partition("="))
        if not equals:
            raise ValueError(f"{part or 'nothing'} in a structure, expected OFFSET=VALUE")
        _put_member(members, name, parse_argument(value))
    return Structure(members, image or None)


def _put_member(members: dict[int, Any], offset: str, value: Argument) -> None:
    if not _OFFSET.fullmatch(offset):
        raise ValueError(f"{offset or 'nothing'} is no offset, expected a number of bytes")
    if int(offset) in members:
        raise ValueError(f"offset {offset} is given twice")
    if isinstance(value, Structure):
        raise ValueError("a structure in a structure; give its members by their own offsets")
    if isinstance(value, Data) and isinstance(value.spec, Number) and value.dtype is None:
        raise ValueError(
            f"the number at {offset} has no width; expected one of a dtype, as in i32:7"
        )
    members[int(offset)] = value


def _check_field(name: str) -> None:
    if name not in MAP_FIELDS:
        near = nearest(name, MAP_FIELDS)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(MAP_FIELDS)}"
        raise ValueError(f"a tensor map has no {name}; {hint}")


def _numbers(name: str, value: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,18}(x\d{1,18})*", value):
        raise ValueError(f"{name} is {value or 'empty'}, expected numbers as in 64x128")
    return tuple(map(int, value.split("x")))


def _mapped(data: Argument, fields: Mapping[str, Any]) -> Mapped:
    if not isinstance(data, Data | Same) or (
        isinstance(data, Data) and isinstance(data.spec, Number)
    ):
        raise ValueError("a tensor map needs an array, as in map(f16:random(256,64), box=64x64)")
    if "box" not in fields:
        raise ValueError("a tensor map needs a box, as in box=64x64 (innermost axis first)")
    return Mapped(data, fields)


# Files

_dim = list_of(integer(1), 1, 3)


def _dims(value: Any, path: str) -> None:
    if not is_integer(value):
        _dim(value, path)
    elif value < 1:
        refuse(path, "a positive number", value)


def _any_args(value: Any, path: str) -> None:
    if not is_object(value):
        refuse(path, "an object of arguments in order", value)


_FILE: Check = record(
    {"schema": text, "args": _any_args},
    {
        "ptx": text,
        "entry": text,
        "grid": _dims,
        "block": _dims,
        "cluster": _dims,
        "shared_bytes": integer(0),
        "dependent": boolean,
        "arrays": _any_args,
    },
)


_STRUCT: Check = record({"struct": _any_args}, {"image": text})


def read(path: Path) -> PlainLaunch:
    """The launch of a file; TK411 where it is none. Paths in it are seen from its folder."""
    value = read_json(path)
    _FILE(value, path.name)
    return PlainLaunch(
        value.get("entry"),
        dims(value["grid"]) if "grid" in value else None,
        dims(value["block"]) if "block" in value else None,
        dims(value.get("cluster", 1)),
        value.get("shared_bytes", 0),
        value.get("dependent", False),
        _named(path, "args", value["args"]),
        _named(path, "arrays", value.get("arrays", {})),
        path.parent / value["ptx"] if "ptx" in value else None,
    )


def _named(path: Path, word: str, values: Mapping[str, Any]) -> dict[str, Argument]:
    """The arguments under a word of a file."""
    found: dict[str, Argument] = {}
    for name, given in values.items():
        where = f"{path.name}: {word}.{name}"
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            refuse(f"{path.name}: {word}", "names of letters, digits and _", name)
        try:
            found[name] = _beside(path, _from_json(given, where))
        except ValueError as error:
            raise TkcError.at("TK411", f"{where}: {error}") from None
    return found


def read_json(path: Path) -> Any:
    """The value of a JSON file in which no key stands twice; TK411 where there is none."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{twice} stands twice")
        return made

    try:
        return json.loads(path.read_bytes(), object_pairs_hook=once)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TkcError.at("TK411", f"{path} cannot be read: {reason}") from None
    except (ValueError, RecursionError) as error:
        raise TkcError.at("TK411", f"{path} is no JSON: {error}") from None


def dims(value: int | Sequence[int]) -> tuple[int, ...]:
    """One to three numbers, x first."""
    return (value,) if isinstance(value, int) else tuple(value)


def _from_json(value: Any, where: str) -> Argument:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_argument(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Data(Number(value))
    if is_object(value) and "struct" in value:
        _STRUCT(value, where)
        members: dict[int, Any] = {}
        for offset, given in value["struct"].items():
            _put_member(members, offset, _from_json(given, f"{where}.struct.{offset}"))
        return Structure(members, value.get("image"))
    if not is_object(value) or "map" not in value:
        refuse(where, 'a text, a number, null, {"map": …} or {"struct": …}', value)
    fields: dict[str, Any] = {}
    for name, given in value.items():
        if name == "map":
            text(given, f"{where}.map")
            continue
        _check_field(name)
        if name in _NUMBERS:
            list_of(integer(0), 0, 5)(given, f"{where}.{name}")
        elif name in _WORDS:
            text(given, f"{where}.{name}")
        else:
            integer(0)(given, f"{where}.{name}")
        fields[name] = tuple(given) if name in _NUMBERS else given
    return _mapped(parse_argument(value["map"]), fields)


def _beside(path: Path, argument: Argument) -> Argument:
    """File names of a launch file are seen from its folder."""
    if isinstance(argument, Mapped):
        data = _beside(path, argument.data)
        assert isinstance(data, Data | Same)
        return replace(argument, data=data)
    if isinstance(argument, Structure):
        members: dict[int, Any] = {o: _beside(path, m) for o, m in argument.members.items()}
        image = str(path.parent / argument.image) if argument.image is not None else None
        return Structure(members, image)
    if isinstance(argument, Data) and isinstance(argument.spec, FromFile):
        return replace(argument, spec=FromFile(str(path.parent / argument.spec.path)))
    return argument
