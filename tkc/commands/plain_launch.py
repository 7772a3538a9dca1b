"""Plain launches: how anybody's PTX is run, with numbers and arguments said outright, in words or in a JSON file.

A file is `{"schema": "tkc-plain-launch/1", "grid": [4, 2], "block": 128, "args": {"A": "f16:random(64,32)", …}}`, with
`entry`, `cluster`, `shared_bytes` (dynamic shared memory) and `ptx` (a text beside it) where they are needed. Arguments
stand in the order of the kernel's parameters; their names are free. One is, as a word after `NAME=` or as a text:

    f16:random(256,64,seed=1)     an array, its dtype named as in PTX or NumPy: random, empty (poisoned), zeros
    a.npy  bf16:a.npy             an array in a file; with a dtype where NumPy could only save bits
    i32:256  f32:0.5  256         a number: of a dtype, or as wide as the parameter
    null                          a null pointer
    @A                            the array of argument A again
    map(f16:random(256,64), box=64x64, swizzle=128B)     a tensor map over an array

A tensor map takes every field of cuTensorMapEncodeTiled, innermost axis first: dtype, sizes, strides (bytes, of axes 1
and up), box, element_strides, interleave, swizzle, l2_promotion, fill, offset (bytes). Without sizes and strides it is
over the whole array. In a file it may be an object, `{"map": "f16:random(256,64)", "box": [64, 64]}`; null and numbers
stand for themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkc import arguments
from tkc.arguments import Empty, FromFile, Number, Spec, dtype_named, make_array, parse_value
from tkc.backend.schema import Check, integer, is_integer, is_object, list_of, record, refuse, text
from tkc.diagnostics import Collector, TkcError, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

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


Argument = Data | Same | Mapped | None
"""None is a null pointer."""


@dataclass(frozen=True)
class PlainLaunch:
    """A launch in numbers. `grid` is None where nothing says it; `block` then follows from the kernel, if it can."""

    entry: str | None = None
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    cluster: tuple[int, ...] = (1, 1, 1)
    shared_bytes: int = 0
    args: Mapping[str, Argument] = field(default_factory=dict[str, Argument])
    ptx: Path | None = None


# Words

_WORD = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)
_TYPED = re.compile(r"([a-z][a-z0-9_]*):(?![/\\])(.+)", re.DOTALL)
_MAP = re.compile(r"map\((.*)\)", re.DOTALL)

_NUMBERS = ("sizes", "strides", "box", "element_strides")
_WORDS = ("dtype", "interleave", "swizzle", "l2_promotion", "fill")
MAP_FIELDS = (*_NUMBERS, *_WORDS, "offset")
"""What may be said of a tensor map."""


def parse_words(words: Sequence[str], launch: PlainLaunch) -> PlainLaunch:
    """The launch with the arguments of the command line: all of them, or new values for those of a file."""
    found = Collector()
    args = dict(launch.args)
    given: set[str] = set()
    for word in words:
        match = _WORD.fullmatch(word)
        if match is None:
            found.error(
                "TK412", f"{word!r} is no argument; expected NAME=VALUE, as in A=f16:random(64,32)"
            )
        elif match[1] in given:
            found.error("TK412", f"{match[1]} is given twice")
        elif launch.args and match[1] not in launch.args:
            near = nearest(match[1], tuple(launch.args))
            hint = f"did you mean {near}?" if near else f"there are {', '.join(launch.args)}"
            found.error("TK401", f"the launch has no argument {match[1]}; {hint}")
        else:
            given.add(match[1])
            try:
                args[match[1]] = _instead(launch.args.get(match[1]), parse_argument(match[2]))
            except ValueError as error:
                found.error("TK412", f"{word}: {error}")
    found.stop_on_errors()
    return replace(launch, args=args)


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
    inner = _MAP.fullmatch(value)
    if inner is not None:
        return _map(_split(inner[1]))
    if value.startswith("map("):
        raise ValueError("the parenthesis is not closed")
    return _data(value)


def _data(value: str) -> Data:
    typed = _TYPED.fullmatch(value)
    if typed is None:
        return Data(parse_value(value))
    return Data(parse_value(typed[2]), dtype_named(typed[1]))


def _split(inner: str) -> list[str]:
    """The parts between commas that stand in no parenthesis of their own."""
    parts, depth, start = list[str](), 0, 0
    for at, character in enumerate(inner):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append(inner[start:at].strip())
            start = at + 1
    return [*parts, inner[start:].strip()]


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
    },
)


def read(path: Path) -> PlainLaunch:
    """The launch of a file; TK411 where it is none. Paths in it are seen from its folder."""
    value = read_json(path)
    _FILE(value, path.name)
    args: dict[str, Argument] = {}
    for name, given in value["args"].items():
        where = f"{path.name}: args.{name}"
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            refuse(f"{path.name}: args", "names of letters, digits and _", name)
        try:
            args[name] = _beside(path, _from_json(given, where))
        except ValueError as error:
            raise TkcError.at("TK411", f"{where}: {error}") from None
    return PlainLaunch(
        value.get("entry"),
        dims(value["grid"]) if "grid" in value else None,
        dims(value["block"]) if "block" in value else None,
        dims(value.get("cluster", 1)),
        value.get("shared_bytes", 0),
        args,
        path.parent / value["ptx"] if "ptx" in value else None,
    )


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
    if not is_object(value) or "map" not in value:
        refuse(where, 'a text, a number, null or {"map": …}', value)
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
    if isinstance(argument, Data) and isinstance(argument.spec, FromFile):
        return replace(argument, spec=FromFile(str(path.parent / argument.spec.path)))
    return argument


# Values


@dataclass(frozen=True)
class Made:
    """What `tkc.emulate` takes, in order, and the arrays among it with their dtypes, by the arguments' names."""

    args: list[Any]
    arrays: dict[str, tuple[Array, str]]


def make(launch: PlainLaunch) -> Made:
    """The values of the arguments. Raises TkcError with every one that cannot be made."""
    from tkc.emulator import Poisoned, TensorMap

    found = Collector()
    arrays: dict[str, tuple[Array, str]] = {}
    wrapped: dict[str, Any] = {}

    def array_of(name: str, data: Data | Same) -> Any:
        if isinstance(data, Same):
            if data.name not in arrays:
                raise ValueError(f"no array {data.name} stands before it")
            return wrapped[data.name]
        made, dtype = _array(data, name)
        arrays[name] = made, dtype
        wrapped[name] = Poisoned(made) if isinstance(data.spec, Empty) else made
        return wrapped[name]

    args: list[Any] = []
    for name, argument in launch.args.items():
        try:
            if argument is None:
                args.append(None)
            elif isinstance(argument, Data) and isinstance(argument.spec, Number):
                args.append(_number(argument.spec.value, argument.dtype))
            elif isinstance(argument, Mapped):
                base = array_of(name, argument.data)
                plain, dtype = arrays[
                    argument.data.name if isinstance(argument.data, Same) else name
                ]
                args.append(TensorMap(base, **map_fields(plain, dtype, argument.fields)))
            else:
                args.append(array_of(name, argument))
        except TkcError as error:
            found.diagnostics.extend(
                replace(d, message=f"{name}: {d.message}") for d in error.diagnostics
            )
        except (MemoryError, ValueError) as error:
            found.error("TK412", f"{name} cannot be made: {str(error) or 'not enough memory'}")
    found.stop_on_errors()
    return Made(args, arrays)


def _array(data: Data, name: str) -> tuple[Array, str]:
    """(the array, its dtype)."""
    if data.dtype is not None:
        return make_array(data.spec, data.dtype, name), data.dtype
    if not isinstance(data.spec, FromFile):
        raise ValueError("it has no dtype; expected one, as in f16:random(256,64)")
    loaded = arguments.load(data.spec.path, "u8")
    if loaded.dtype.kind == "V":
        raise ValueError(
            f"{data.spec.path} holds bits without a dtype; expected one, as in bf16:FILE"
        )
    return loaded, dtype_named(loaded.dtype.name)


def _number(value: float, dtype: str | None) -> Any:
    """A number as `tkc.emulate` takes it: a NumPy scalar, which is as wide as its dtype, where one is given."""
    if dtype is None:
        return value
    import numpy as np

    wanted = arguments.numpy_dtype(dtype)
    if arguments.bits_of(dtype) % 8:
        raise ValueError(f"a parameter holds no {dtype}")
    if wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if not isinstance(value, int) or not limits.min <= value <= limits.max:
            raise ValueError(f"{value} does not fit {dtype}")
    return np.array(value, wanted)[()]


def map_fields(array: Array, dtype: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a tensor map: those that are given, and sizes and strides of the array where they are not."""
    from tkc.emulator.tensormap import element_type

    fields: dict[str, Any] = {"dtype": dtype, **given}
    try:
        fields["dtype"] = dtype_named(fields["dtype"])
    except ValueError:
        pass  # a name of the driver's, such as 16U4_ALIGN16B
    bits = element_type(fields["dtype"]).bits
    if "sizes" not in given:
        if array.ndim == 0 or array.shape[-1] * array.itemsize * 8 % bits:
            raise ValueError(
                f"rows of {array.shape} {dtype} are no whole number of elements; give sizes"
            )
        inner = array.shape[-1] * array.itemsize * 8 // bits
        fields["sizes"] = (inner, *array.shape[-2::-1])
    if "strides" not in given:
        if "sizes" in given and len(given["sizes"]) != array.ndim:
            raise ValueError("sizes of another rank than the array's need strides")
        fields["strides"] = array.strides[-2::-1]
    return fields
