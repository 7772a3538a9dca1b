"""A contract and the arrays given to it, as the numbers of one launch: symbols, grid, tensor maps, scalars.

Knows nothing of a driver: the launcher and the emulator both stand on it. Everything that can be wrong with arguments
is found here, every argument in one go, before anything is launched.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tkc.backend import expressions, lists
from tkc.backend.arrays import ACCEPTS, ITEM_BYTES, View, packed, wrong_dtype
from tkc.backend.contract import places
from tkc.backend.expressions import Scope, evaluate
from tkc.backend.padding import check_scales, padded
from tkc.backend.tensormap import BoundMap, alignment, bind_map
from tkc.diagnostics import Collector, TkcError
from tkc.ir.isa.dtypes import DTYPES


@dataclass(frozen=True, slots=True)
class TensorMapValue:
    """A 128-byte parameter made from the ARG `spec`; `map.tiled.address` = base of `argument` + `offset` bytes."""

    argument: str
    offset: int
    map: BoundMap
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TensorMapsValue:
    """The address of the maps of a list's arrays, one after another in global memory."""

    argument: str
    maps: tuple[BoundMap, ...]
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScratchValue:
    """The address of so many bytes of global memory for this launch alone, whose contents are nobody's matter."""

    bytes: int


@dataclass(frozen=True, slots=True)
class PointerValue:
    """An address parameter; `address` = base of `argument` + `offset` bytes."""

    argument: str
    offset: int
    address: int


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """A number parameter; `data` is its bytes, little-endian, `value` what a person reads."""

    dtype: str
    value: int | float
    data: bytes


Value = TensorMapValue | TensorMapsValue | ScratchValue | PointerValue | ScalarValue


@dataclass(frozen=True, slots=True)
class Bound:
    """One launch in numbers. `action` is "launch", or what `empty` says instead: "nothing", "zero"."""

    action: str
    symbols: Mapping[str, int]
    values: tuple[Value, ...]
    grid: tuple[int, int, int]


def bind(
    kernel: Mapping[str, Any],
    views: Sequence[View | lists.Views | int | float],
    given: Mapping[str, int] | None = None,
    device: Callable[[str], int] | None = None,
    spare: int = 0,
) -> Bound:
    """The numbers of one launch.

    `views` follow `arguments`: a View for each array, a Python number for each scalar. `given` are symbols given by
    name. `device` answers `sm_count` and `max_clusters`; `spare` is an aligned address for maps of empty arrays.
    Raises TkcError: TK402 rank, TK403 dtype, TK405 strides, TK406 alignment, TK407 sizes, TK414 requirements, TK207
    limits of tensor maps, TK501 scalars.
    """
    arguments = kernel["arguments"]
    found = Collector()
    arrays: dict[str, View] = {}
    listed: dict[str, lists.Views] = {}
    sizes: dict[str, tuple[int, ...]] = {}
    scalars: dict[str, int | float] = {}
    for argument, value in zip(arguments, views, strict=True):
        name = argument["name"]
        if argument.get("scalar"):
            scalars[name] = number(argument["dtype"], value, name)
        elif argument.get("list"):
            if not isinstance(value, lists.Views):
                found.error("TK404", f"{name}: expected a list of arrays, found {value!r}")
            elif (alike := lists.sizes(argument, value, _elements, found)) is not None:
                listed[name], sizes[name] = value, alike
        elif not isinstance(value, View):
            found.error("TK404", f"{name}: expected an array, found {value!r}")
        elif "scales" in argument and len(value.shape) > len(argument["dims"]):
            found.error(
                "TK402",
                f"{name} has rank {len(value.shape)} (shape {_tuple(value.shape)}), as row-major scales have; expected"
                f" rank {len(argument['dims'])}: interleaved, as tkc.scales.interleave makes them",
            )
        elif len(value.shape) != len(argument["dims"]):
            found.error(
                "TK402",
                f"{name} has rank {len(value.shape)} (shape {_tuple(value.shape)}); expected"
                f" {len(argument['dims'])}: {_dims(argument)}",
            )
        elif value.dtype not in ACCEPTS[argument["dtype"]]:
            told, mend = wrong_dtype(name, value.dtype, argument["dtype"])
            found.error("TK403", told, help=mend)
        else:
            arrays[name] = value
            sizes[name] = _elements(argument, value, found)
    found.stop_on_errors()
    symbols = _symbols(kernel, sizes, scalars, given or {}, found)
    found.stop_on_errors()
    majors = {a["name"]: _major(a) for a in arguments if not a.get("scalar")}
    strides = {name: _strides(v, majors[name]) for name, v in arrays.items()}
    numbers = {**symbols, **{n: v for n, v in scalars.items() if isinstance(v, int)}}
    scope = Scope(numbers, strides, device)
    _check_sizes(kernel, sizes, scope, found)
    found.stop_on_errors()
    check_scales(kernel, sizes, listed, found)
    action = next(
        (rule["do"] for rule in kernel["empty"] if any(numbers[s] <= 0 for s in rule["when"])),
        "launch",
    )
    for argument in arguments:
        if argument["name"] in arrays:
            _check_layout(kernel, argument, arrays[argument["name"]], found)
        elif argument["name"] in listed:
            for i, one in enumerate(listed[argument["name"]].arrays):
                _check_layout(kernel, argument, one, found, i)
    for rule in kernel["requires"]:
        if not evaluate(rule["test"], scope, "requires"):
            found.error("TK414", fill(rule["message"], scope.symbols))
    found.stop_on_errors()
    if action != "launch":
        return Bound(action, symbols, (), (0, 0, 0))
    bases = {name: v.address if 0 not in v.shape else spare for name, v in arrays.items()}
    grid = _grid(kernel, scope)
    values: list[Value] = []
    for i, arg in enumerate(kernel["args"]):
        path = f"parameter {arg.get('name', i)}"
        if arg["kind"] == "scratch":
            values.append(ScratchValue(arg["bytes"] * grid[0] * grid[1] * grid[2]))
        elif arg["kind"] == "tensormaps":
            values.append(_maps(arg, listed[arg["argument"]], scope, spare, path))
        else:
            values.append(_value(arg, bases, scalars, scope, path))
    return Bound(action, symbols, tuple(values), grid)


def fill(message: str, symbols: Mapping[str, int]) -> str:
    """`message` with `{name}` replaced by the symbol's value; braces round anything else stay."""
    for name, value in symbols.items():
        message = message.replace(f"{{{name}}}", str(value))
    return message


def _elements(argument: Mapping[str, Any], view: View, found: Collector) -> tuple[int, ...]:
    """The shape in elements of the argument's dtype: a packed axis holds more elements than bytes."""
    bits = DTYPES[argument["dtype"]].bits
    if bits % 8 == 0 or not view.shape:
        return view.shape
    axis = _major(argument)
    count = view.shape[axis] * 8
    if count % bits:
        found.error(
            "TK407",
            f"{argument['name']}: axis {axis} has {view.shape[axis]} bytes, no whole number of {bits}-bit elements",
        )
    return (*view.shape[:axis], count // bits, *view.shape[axis + 1 :])


def _symbols(
    kernel: Mapping[str, Any],
    sizes: Mapping[str, tuple[int, ...]],
    scalars: Mapping[str, int | float],
    given: Mapping[str, int],
    found: Collector,
) -> dict[str, int]:
    """Each symbol from its first place; every other place must say the same."""
    values: dict[str, int] = {}
    for name, entry in kernel["symbols"].items():
        first = ""
        if name in given:
            values[name], first = given[name], "the caller"
        for place in places(entry):
            argument: str = place["argument"]
            axis: int | None = place.get("dimension")
            size = int(scalars[argument]) if axis is None else sizes[argument][axis]
            where = argument if axis is None else f"axis {axis} of {argument}"
            if not first:
                values[name], first = size, where
            elif values[name] != size:
                found.error(
                    "TK407",
                    f"{name} is {values[name]} by {first} and {size} by {where}; they must agree",
                )
        if not first:
            found.error("TK401", f"size {name} is in no array: give it by name, {name}=…")
    return values


def _check_sizes(
    kernel: Mapping[str, Any], sizes: Mapping[str, tuple[int, ...]], scope: Scope, found: Collector
) -> None:
    """Axes that `symbols` does not list: integers, expressions, further uses of a name."""
    for argument in kernel["arguments"]:
        last = len(argument.get("dims", ())) - 1
        for axis, dim in enumerate(argument.get("dims", ())):
            if dim is None:
                continue
            size = sizes[argument["name"]][axis]
            expected = scope.symbol(dim) if isinstance(dim, str) else evaluate(dim, scope, "dims")
            listed = isinstance(dim, str) and any(
                p["argument"] == argument["name"] and p.get("dimension") == axis
                for p in places(kernel["symbols"].get(dim, ()))
            )
            if size != expected and not listed and "scales" in argument and axis == last:
                found.error("TK407", padded(argument, size, int(expected), sizes))
            elif size != expected and not listed:
                found.error(
                    "TK407",
                    f"axis {axis} of {argument['name']} has {size} elements;"
                    f" expected {_spelt(dim, int(expected), kernel['params'])}",
                )


def _spelt(dim: Any, size: int, params: Mapping[str, Any]) -> str:
    """What an axis must have; a contract keeps of a param in a shape its value alone."""
    if isinstance(dim, int):
        named = [name for name, value in params.items() if value == dim and value is not True]
        return f"{dim} (param {' or '.join(named)})" if named else str(dim)
    return f"{expressions.spell({'sym': dim} if isinstance(dim, str) else dim)} = {size}"


def _major(argument: Mapping[str, Any]) -> int:
    return argument.get("major", max(0, len(argument["dims"]) - 1))


def _outermost_first(rank: int, major: int) -> list[int]:
    """The axes of an array as they lie in memory."""
    return [*(axis for axis in range(rank) if axis != major), *([major] if rank else [])]


def _strides(view: View, major: int) -> tuple[int, ...]:
    """Byte strides as tensor maps see them, of an array whose contiguous axis is `major`.

    An axis of one element, and every axis of an empty array, may have any stride: it gets one that the tensor copy
    engine takes, since libraries put all sorts of numbers there.
    """
    size, empty = ITEM_BYTES[view.dtype], 0 in view.shape
    strides = list(view.strides)
    least = size
    for axis in reversed(_outermost_first(len(strides), major)):
        if empty or view.shape[axis] == 1:
            strides[axis] = -(-least // 32) * 32
        least = max(least, strides[axis] * max(1, view.shape[axis]))
    return tuple(strides)


def _check_layout(
    kernel: Mapping[str, Any],
    whole: Mapping[str, Any],
    view: View,
    found: Collector,
    index: int | None = None,
) -> None:
    """Strides and alignment of one array, or of one of a list, against what the contract says of it."""
    if 0 in view.shape:
        return
    argument = whole if index is None else lists.element(whole, index)
    name, size, major = argument["name"], ITEM_BYTES[view.dtype], _major(argument)
    mine = [a for a in kernel["args"] if a.get("argument") == whole["name"]]
    pointed = any(a["kind"] == "pointer" for a in mine)
    layout = argument.get("contiguous", "all" if pointed else "major")
    seen = f"strides {_tuple(view.strides)} bytes for shape {_tuple(view.shape)}"
    maps = [a for a in mine if a["kind"] in ("tensormap", "tensormaps")]
    step = max((alignment(a) for a in maps), default=1)
    copied = {
        axis if index is None else axis - 1
        for a in maps
        for e in a["strides"]
        for array, axis in expressions.strides(e)
        if array == whole["name"]
    }
    before = len(found.diagnostics)
    rows = bool(view.shape) and layout != "none"
    turned = rows and view.shape[major] > 1 and view.strides[major] != size
    for axis, (count, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        if count == 1 or layout == "none":
            continue
        if stride <= 0:
            kind = (
                "is broadcast (stride 0)"
                if stride == 0
                else f"runs backwards (stride {stride} bytes)"
            )
            found.error("TK405", f"{name}: axis {axis} {kind}; pass a copy")
        elif axis == major and stride != size:
            found.error(
                "TK405",
                f"{name}: axis {axis} must be contiguous, a stride of {size} bytes; found {seen}",
                help=f"pass {name}.contiguous(), or a view whose axis {axis} is the contiguous one",
            )
        elif axis in copied and stride % step and not turned:
            wide = -(-stride // step) * step
            found.error(
                "TK405",
                f"{name}: axis {axis} has a stride of {stride} bytes; the tensor copy engine needs a multiple"
                f" of {step}, such as {wide} ({wide // size} elements)",
            )
    if layout == "all" and len(found.diagnostics) == before:
        order = _outermost_first(len(view.shape), major)
        along = dict(
            zip(order, packed(tuple([view.shape[axis] for axis in order]), size), strict=True)
        )
        expected = [along[axis] for axis in range(len(view.shape))]
        if any(
            n != 1 and s != e for n, s, e in zip(view.shape, view.strides, expected, strict=True)
        ):
            how = "row-major" if order == sorted(order) else f"contiguous along axis {major},"
            found.error("TK405", f"{name} must be {how} without gaps; found {seen}")
    if argument["access"] != "read":
        _check_writable(name, view, found)
    align = argument.get("align", max(step, size))
    if view.address % align:
        found.error(
            "TK406",
            f"{name} starts at {view.address:#x}, {view.address % align} bytes past a multiple of {align};"
            f" the kernel needs a {align}-byte aligned base",
        )


def _check_writable(name: str, view: View, found: Collector) -> None:
    if view.readonly:
        found.error("TK404", f"{name} is written by the kernel, and the array is read-only")
    reach = ITEM_BYTES[view.dtype]
    for stride, count in sorted(
        (s, n) for s, n in zip(view.strides, view.shape, strict=True) if n > 1 and s > 0
    ):
        if stride < reach:
            found.error(
                "TK405",
                f"{name} is written by the kernel, and its elements overlap:"
                f" strides {_tuple(view.strides)} bytes for shape {_tuple(view.shape)}",
            )
            return
        reach = stride * (count - 1) + reach


def _value(
    arg: Mapping[str, Any],
    bases: Mapping[str, int],
    scalars: Mapping[str, int | float],
    scope: Scope,
    path: str,
) -> Value:
    if arg["kind"] == "scalar":
        value = (
            scalars[arg["argument"]] if "argument" in arg else evaluate(arg["value"], scope, path)
        )
        return ScalarValue(arg["dtype"], value, pack(arg["dtype"], value, path))
    name = arg["argument"]
    offset = evaluate(arg.get("offset", 0), scope, path)
    if arg["kind"] == "pointer":
        if (bases[name] + offset) % arg.get("align", 1):
            raise TkcError.at(
                "TK406",
                f"{name} starts at {bases[name] + offset:#x}; the kernel needs a {arg['align']}-byte aligned base",
            )
        return PointerValue(name, offset, bases[name] + offset)
    sizes = [evaluate(e, scope, path) for e in arg["sizes"]]
    strides = [evaluate(e, scope, path) for e in arg["strides"]]
    bound = bind_map(arg, bases[name] + offset, sizes, strides)
    return TensorMapValue(name, offset, bound, arg)


def _maps(
    arg: Mapping[str, Any], given: lists.Views, scope: Scope, spare: int, path: str
) -> TensorMapsValue:
    """A map for each array of a list: an extent that only the device knows is that of the array given, of scales the
    rows of atoms that it holds."""
    maps: list[BoundMap] = []
    for array in given.arrays:
        own = scope._replace(strides={arg["argument"]: (0, *_strides(array, len(array.shape) - 1))})
        strides = [evaluate(e, own, path) for e in arg["strides"]]
        sizes = [
            _own_extent(array, axis, strides) if e is None else evaluate(e, own, path)
            for axis, e in enumerate(arg["sizes"])
        ]
        base = spare if 0 in array.shape else array.address
        maps.append(bind_map(arg, base, sizes, strides))
    return TensorMapsValue(arg["argument"], tuple(maps), arg)


def _own_extent(array: View, axis: int, strides: Sequence[int]) -> int:
    """The extent of an array on an axis of its map, innermost 0; of scales, which lie flat, on the outermost axis."""
    if len(array.shape) == len(strides) + 1:
        return array.shape[-1 - axis]
    return max(1, array.shape[-1] * ITEM_BYTES[array.dtype] // strides[axis - 1])


def _grid(kernel: Mapping[str, Any], scope: Scope) -> tuple[int, int, int]:
    grid = tuple(evaluate(e, scope, f"grid[{i}]") for i, e in enumerate(kernel["grid"]))
    cluster = kernel["cluster"].get("minimum") or kernel["cluster"]["size"]
    limits = (0x7FFFFFFF, 0xFFFF, 0xFFFF)  # CUDA programming guide, technical specifications
    where = ", ".join(f"{n} = {v}" for n, v in scope.symbols.items())
    resident = any("max_clusters" in expressions.symbols(e) for e in kernel["grid"])
    if 0 in grid and resident and scope.symbol("max_clusters") == 0:
        raise TkcError.at(
            "TK414",
            f"a cluster of {cluster[0] * cluster[1] * cluster[2]} CTAs of this kernel does not fit the device, which "
            "can hold none at once; a smaller cluster fits, or fewer threads, registers or bytes of shared memory",
        )
    for axis, (count, group, limit) in enumerate(zip(grid, cluster, limits, strict=True)):
        ctas = math.prod(cluster)
        if count == 0 and ctas > 1 and scope.device and not scope.device("max_clusters"):
            told = f"no cluster of {ctas} CTAs fits on the GPU, which has {scope.device('sm_count')} multiprocessors, "
            told += f"with {kernel['shared_bytes']:,} bytes of shared memory in each CTA"
            raise TkcError.at("TK414", told)
        if not 1 <= count <= limit:
            raise TkcError.at(
                "TK414",
                f"the grid has {count} CTAs on axis {axis} for {where}; expected 1..{limit}",
            )
        if count % group:
            raise TkcError.at(
                "TK414",
                f"the grid has {count} CTAs on axis {axis} for {where}; the cluster needs a multiple of {group}",
            )
    return grid[0], grid[1], grid[2]


# Scalars

_FORMATS = {
    "bool": "?",
    "s8": "b",
    "u8": "B",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "f16": "e",
    "f32": "f",
    "tf32": "f",
}


def number(dtype: str, value: Any, name: str) -> int | float:
    """A Python number for a scalar argument; numbers of NumPy and zero-dimensional arrays on the CPU give one too."""
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, int | float):
        raise TkcError.at(
            "TK403", f"{name}: expected a number for {dtype}, found {type(value).__qualname__}"
        )
    if not DTYPES[dtype].floating:
        if isinstance(value, float):
            raise TkcError.at("TK403", f"{name}: expected an integer for {dtype}, found {value!r}")
        return int(value)
    return value


def pack(dtype: str, value: int | float, path: str) -> bytes:
    """The bytes of a scalar parameter; floats round to nearest even. Raises TkcError TK501 where it does not fit."""
    try:
        if dtype == "bf16":
            bits = struct.unpack("<I", struct.pack("<f", value))[0]
            if value == value:
                bits += 0x7FFF + (bits >> 16 & 1)
            return struct.pack("<H", bits >> 16)
        if dtype not in _FORMATS:
            raise TkcError.at("TK403", f"{path}: no scalar parameters of {dtype}")
        return struct.pack("<" + _FORMATS[dtype], value)
    except (struct.error, OverflowError):
        raise TkcError.at("TK501", f"{path}: {value} does not fit {dtype}") from None


def _dims(argument: Mapping[str, Any]) -> str:
    dims = [d if isinstance(d, str) else expressions.spell(d) for d in argument["dims"]]
    return f"{argument['name']}[{', '.join(dims)}]"


def _tuple(values: Sequence[int]) -> str:
    return f"({', '.join(map(str, values))})"


def clusters_for(
    cluster: Mapping[str, Any], grid: Sequence[int]
) -> tuple[Sequence[int], Sequence[int] | None]:
    """The clusters that a launch of this grid asks for, and the larger ones that it prefers: each divides the grid
    (CUDA: cudaLaunchAttributeClusterDimension, cudaLaunchAttributePreferredClusterDimension)."""

    def divides(size: Sequence[int]) -> bool:
        return all(g % s == 0 for g, s in zip(grid, size, strict=True))

    size, preferred = cluster["size"], cluster.get("preferred")
    if not divides(size):
        size = cluster.get("minimum") or size
    return size, preferred if preferred and divides(preferred) else None
