"""The checks of the launch contract's form, each refusal a TK411 with its place; `tkc.backend.package` has the form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tkc.backend import expressions
from tkc.backend.schema import (
    Check,
    boolean,
    integer,
    is_object,
    list_of,
    mapping_of,
    nullable,
    one_of,
    record,
    refuse,
    text,
)
from tkc.backend.tensormap import MAP_SWIZZLES, check_box
from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.tensormap import FILLS, INTERLEAVES, L2_PROMOTIONS, MAP_TYPES

SCHEMA = "tkc-launch/1"

_dtype = one_of(*DTYPES)
_dim3 = list_of(integer(1), 3, 3)


def _place(value: Any, path: str) -> None:
    record({"argument": text}, {"dimension": integer(0)})(value, path)


def _places(value: Any, path: str) -> None:
    if is_object(value):
        _place(value, path)
    else:
        list_of(_place)(value, path)


def _dim(value: Any, path: str) -> None:
    if value is None:
        return
    if isinstance(value, str):
        text(value, path)
    elif isinstance(value, int):
        integer(0)(value, path)
    else:
        expressions.check(value, path)


def _param(value: Any, path: str) -> None:
    if not isinstance(value, int | str):
        refuse(path, "an integer, a boolean or a text", value)


_ARRAY = record(
    {
        "name": text,
        "dtype": _dtype,
        "dims": list_of(_dim),
        "access": one_of("read", "write", "readwrite"),
    },
    {
        "major": integer(0),
        "contiguous": one_of("major", "all", "none"),
        "align": integer(1),
        "scalar": boolean,
        "list": boolean,
        "scales": record({"of": text, "block": integer(1)}),
    },
)
_SCALAR = record({"name": text, "dtype": _dtype, "scalar": boolean})


def _argument(value: Any, path: str) -> None:
    (_SCALAR if is_object(value) and value.get("scalar") is True else _ARRAY)(value, path)


_MAP: Mapping[str, Check] = {
    "kind": text,
    "argument": text,
    "dtype": _dtype,
    "sizes": list_of(expressions.check, 1, 5),
    "strides": list_of(expressions.check, 0, 4),
    "box": list_of(integer(1), 1, 5),
}
_MAP_MORE: Mapping[str, Check] = {
    "element_strides": list_of(integer(1), 1, 5),
    "interleave": one_of(*INTERLEAVES),
    "swizzle": one_of(*MAP_SWIZZLES),
    "l2_promotion": one_of(*L2_PROMOTIONS),
    "fill": one_of(*FILLS),
    "type": one_of(*MAP_TYPES),
    "name": text,
}

_ARGS: Mapping[str, Check] = {
    "tensormap": record(_MAP, {**_MAP_MORE, "offset": expressions.check}),
    "tensormaps": record({**_MAP, "sizes": list_of(nullable(expressions.check), 1, 5)}, _MAP_MORE),
    "scratch": record({"kind": text, "bytes": integer(1)}, {"name": text}),
    "pointer": record(
        {"kind": text, "argument": text, "dtype": _dtype},
        {
            "offset": expressions.check,
            "name": text,
            "align": integer(1),
            "rank": integer(0),
            "contiguity": one_of("major", "all", "none"),
        },
    ),
    "scalar": record(
        {"kind": text, "dtype": _dtype},
        {"value": expressions.check, "argument": text, "name": text},
    ),
}


def _arg(value: Any, path: str) -> None:
    kind = value.get("kind") if is_object(value) else None
    if not isinstance(kind, str) or kind not in _ARGS:
        refuse(f"{path}.kind", f"one of {', '.join(_ARGS)}", kind)
    _ARGS[kind](value, path)


_FROM_PASSES: Mapping[str, Check] = {
    "params": mapping_of(_param),
    "symbols": mapping_of(_places),
    "arguments": list_of(_argument),
    "args": list_of(_arg),
    "grid": list_of(expressions.check, 3, 3),
    "cluster": record({"size": _dim3}, {"preferred": nullable(_dim3), "minimum": nullable(_dim3)}),
    "block": _dim3,
    "shared_bytes": integer(0),
    "tensor_columns": integer(0),
    "attributes": record({}, {"dependent": boolean, "cooperative": boolean}),
    "requires": list_of(record({"test": expressions.check, "message": text})),
    "outputs": list_of(text),
    "empty": list_of(record({"when": list_of(text, 1), "do": one_of("nothing", "zero")})),
}
KEYS = (
    "entry",
    "target",
    "ptx_version",
    "params",
    "symbols",
    "arguments",
    "args",
    "grid",
    "cluster",
    "block",
    "shared_bytes",
    "tensor_columns",
    "registers",
    "attributes",
    "requires",
    "outputs",
    "empty",
    "versions",
)
"""The keys of a KERNEL in the order in which they are written."""

_KERNEL = record(
    {
        "entry": text,
        "target": text,
        "ptx_version": text,
        **_FROM_PASSES,
        "registers": nullable(integer(0)),
        "versions": mapping_of(nullable(text)),
    }
)
check_file = record(
    {"schema": text, "kernels": list_of(_KERNEL, 1)},
    {"ptx": text, "cubin": text, "ptx_sha256": text},
)


def check_kernel(kernel: Any, path: str = "kernel") -> None:
    """Raises TkcError (TK411; TK207 for tensor maps) unless `kernel` is a KERNEL whose names agree."""
    _KERNEL(kernel, path)
    arguments: dict[str, Mapping[str, Any]] = {}
    for i, argument in enumerate(kernel["arguments"]):
        if argument["name"] in arguments:
            raise TkcError.at("TK411", f"{path}.arguments[{i}]: {argument['name']} is there twice")
        arguments[argument["name"]] = argument
        if argument.get("major", 0) >= max(1, len(argument.get("dims", ()))):
            raise TkcError.at(
                "TK411", f"{path}.arguments[{i}].major: {argument['name']} has no such axis"
            )
        _check_scales(argument, arguments, f"{path}.arguments[{i}]")
    _check_symbols(kernel, arguments, path)
    for i, arg in enumerate(kernel["args"]):
        _check_arg(arg, arguments, f"{path}.args[{i}]")
    _check_expressions(kernel, arguments, path)
    _check_cluster(kernel, path)
    for i, name in enumerate(kernel["outputs"]):
        if arguments.get(name, {}).get("access") not in ("write", "readwrite"):
            raise TkcError.at(
                "TK411", f"{path}.outputs[{i}]: {name} is no array that the kernel writes"
            )


def _check_scales(argument: Mapping[str, Any], arguments: Mapping[str, Any], path: str) -> None:
    """Block scales come after the array whose scales they are, and have as many batch axes."""
    if "scales" not in argument:
        return
    of = arguments.get(argument["scales"]["of"])
    if of is None or of.get("scalar"):
        raise TkcError.at("TK411", f"{path}.scales.of: no array before it has this name")
    if len(argument["dims"]) != len(of["dims"]) - 1:
        raise TkcError.at(
            "TK411",
            f"{path}.dims: expected {len(of['dims']) - 1}, one less than {of['name']} has, "
            f"found {len(argument['dims'])}",
        )


def _check_symbols(kernel: Mapping[str, Any], arguments: Mapping[str, Any], path: str) -> None:
    for name, value in kernel["symbols"].items():
        if name in expressions.DEVICE_SYMBOLS or name in arguments:
            raise TkcError.at("TK411", f"{path}.symbols.{name}: the name is taken")
        for place in places(value):
            argument = arguments.get(place["argument"])
            where = f"{path}.symbols.{name}"
            if argument is None:
                raise TkcError.at("TK411", f"{where}: no argument {place['argument']}")
            if ("dimension" in place) == bool(argument.get("scalar")):
                raise TkcError.at("TK411", f"{where}: an array has dimensions, a scalar has none")
            if "dimension" not in place:
                if DTYPES[argument["dtype"]].floating:
                    raise TkcError.at("TK411", f"{where}: scalar {place['argument']} is no integer")
            elif place["dimension"] >= len(argument["dims"]):
                raise TkcError.at(
                    "TK411", f"{where}: {place['argument']} has no axis {place['dimension']}"
                )
            elif argument["dims"][place["dimension"]] != name:
                raise TkcError.at(
                    "TK411",
                    f"{where}: axis {place['dimension']} of {place['argument']} is"
                    f" {argument['dims'][place['dimension']]}",
                )
    for i, rule in enumerate(kernel["empty"]):
        for name in rule["when"]:
            if name not in kernel["symbols"] and not _is_integer(arguments.get(name)):
                raise TkcError.at("TK411", f"{path}.empty[{i}]: no symbol {name}")


def _is_integer(argument: Mapping[str, Any] | None) -> bool:
    """Whether an argument is a number that sizes may be made of."""
    return (
        argument is not None
        and bool(argument.get("scalar"))
        and not DTYPES[argument["dtype"]].floating
    )


def _check_arg(arg: Mapping[str, Any], arguments: Mapping[str, Any], path: str) -> None:
    if arg["kind"] == "scalar":
        if ("value" in arg) == ("argument" in arg):
            raise TkcError.at("TK411", f"{path}: a scalar has either value or argument")
        if "value" in arg and DTYPES[arg["dtype"]].floating:
            raise TkcError.at(
                "TK411", f"{path}: an expression is an integer, dtype is {arg['dtype']}"
            )
    if "argument" in arg:
        argument = arguments.get(arg["argument"])
        if argument is None:
            raise TkcError.at("TK411", f"{path}.argument: no argument {arg['argument']}")
        if bool(argument.get("scalar")) != (arg["kind"] == "scalar"):
            raise TkcError.at("TK411", f"{path}: {arg['argument']} is no fit for a {arg['kind']}")
    if arg["kind"] in ("tensormap", "tensormaps"):
        if bool(arguments[arg["argument"]].get("list")) != (arg["kind"] == "tensormaps"):
            raise TkcError.at("TK411", f"{path}: {arg['argument']} is no fit for a {arg['kind']}")
        rank = len(arg["sizes"])
        for key, count in (("strides", rank - 1), ("box", rank), ("element_strides", rank)):
            if key in arg and len(arg[key]) != count:
                raise TkcError.at(
                    "TK411",
                    f"{path}.{key}: expected {count} for rank {rank}, found {len(arg[key])}",
                )
        check_box(arg, path)


def _check_expressions(kernel: Mapping[str, Any], arguments: Mapping[str, Any], path: str) -> None:
    """Every symbol and stride that an expression reads exists."""
    integers = {
        name for name, a in arguments.items() if a.get("scalar") and not DTYPES[a["dtype"]].floating
    }
    for where, expression in _expressions(kernel):
        known: set[str] = {*kernel["symbols"], *integers, "sm_count"}
        if "grid" in where:
            known.add("max_clusters")
        for name in expressions.symbols(expression):
            if name not in known:
                raise TkcError.at(
                    "TK411",
                    f"{path}.{where}: no symbol {name}; there are {', '.join(sorted(known))}",
                )
        for name, axis in expressions.strides(expression):
            if axis >= len(arguments.get(name, {}).get("dims", ())):
                raise TkcError.at("TK411", f"{path}.{where}: no axis {axis} of an array {name}")


def _expressions(kernel: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for i, argument in enumerate(kernel["arguments"]):
        for j, dim in enumerate(argument.get("dims", ())):
            if dim is not None:
                yield f"arguments[{i}].dims[{j}]", {"sym": dim} if isinstance(dim, str) else dim
    for i, arg in enumerate(kernel["args"]):
        for key in ("value", "offset"):
            if key in arg:
                yield f"args[{i}].{key}", arg[key]
        for key in ("sizes", "strides"):
            given = enumerate(arg.get(key, ()))
            yield from ((f"args[{i}].{key}[{j}]", e) for j, e in given if e is not None)
    yield from ((f"grid[{i}]", e) for i, e in enumerate(kernel["grid"]))
    yield from ((f"requires[{i}].test", r["test"]) for i, r in enumerate(kernel["requires"]))


def _check_cluster(kernel: Mapping[str, Any], path: str) -> None:
    cluster = kernel["cluster"]
    size, preferred, minimum = (cluster.get(key) for key in ("size", "preferred", "minimum"))
    count = size[0] * size[1] * size[2]
    if count > 16:
        raise TkcError.at("TK411", f"{path}.cluster.size: {count} CTAs; a cluster holds at most 16")
    if preferred and any(p % s for p, s in zip(preferred, size, strict=True)):
        raise TkcError.at(
            "TK411", f"{path}.cluster.preferred: {preferred} is no multiple of size {size}"
        )
    if minimum and any(s % m for s, m in zip(size, minimum, strict=True)):
        raise TkcError.at(
            "TK411", f"{path}.cluster.size: {size} is no multiple of minimum {minimum}"
        )
    threads = kernel["block"][0] * kernel["block"][1] * kernel["block"][2]
    if threads > 1024:
        raise TkcError.at("TK411", f"{path}.block: {threads} threads; a block holds at most 1024")


def places(value: Any) -> Sequence[Mapping[str, Any]]:
    """The places of one entry of `symbols`, whether it is one place or a list."""
    return [value] if is_object(value) else value
