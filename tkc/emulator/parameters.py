"""Arguments of a launch: NumPy arrays become device memory, values become the bytes of the parameter space.

Arrays are changed in place. Memory that arrays share is one region, so that aliases stay aliases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tkc.diagnostics import TkcError
from tkc.emulator.lanes import U8, Vec
from tkc.emulator.spaces import Memory, Region
from tkc.emulator.syntax import Function, Variable
from tkc.emulator.tensormap import TensorMap, encode
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.targets import Target


class Poisoned:
    """An array whose bytes count as never written: reading one that nobody wrote is a finding where it matters."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array


@dataclass(frozen=True)
class TensorMaps:
    """A pointer to tensor maps that lie one after another in global memory, each aligned to its size."""

    maps: Sequence[TensorMap]


@dataclass(frozen=True)
class Struct:
    """A parameter that is a structure: `fields` by their byte offsets, over the bytes of `image` (zeros after it).

    A field is what a parameter can be, but no plain Python number, which has no width.
    """

    fields: Mapping[int, Any]
    image: bytes = field(default=b"", repr=False)


class Buffers:
    """Device memory for the arrays of one launch: arrays that share memory share a region."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.regions: list[tuple[int, int, Region]] = []

    def add(self, arrays: Sequence[tuple[str, np.ndarray[Any, Any], bool]]) -> None:
        """Makes regions for (name, array, poisoned)."""
        spans: list[tuple[int, int, str, np.ndarray[Any, Any], bool]] = []
        for name, array, poisoned in arrays:
            if array.size:
                low, high = np.lib.array_utils.byte_bounds(array)
                spans.append((low, high, name, array, poisoned))
        spans.sort(key=lambda s: (s[0], -s[1]))
        at = 0
        while at < len(spans):
            low, high = spans[at][0], spans[at][1]
            members = [spans[at]]
            at += 1
            while at < len(spans) and spans[at][0] < high:
                high = max(high, spans[at][1])
                members.append(spans[at])
                at += 1
            self._region(low, high, members)

    def _region(self, low: int, high: int, members: list[Any]) -> None:
        names = " and ".join(dict.fromkeys(m[2] for m in members))
        writeable = all(m[3].flags.writeable for m in members)
        data = _bytes_at(low, high, [m[3] for m in members])
        if not writeable:
            data.flags.writeable = False
        shadow = None
        if all(m[4] for m in members):
            shadow = np.ones(high - low, U8)
        # A view into a larger array keeps its alignment in it, up to 256 bytes.
        owner: Any = members[0][3]
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        skew = (low - np.lib.array_utils.byte_bounds(owner)[0]) % 256 if owner.size else 0
        base = self.memory.place(high - low, 512, skew)
        region = self.memory.add(Region(names, "global", base, data, shadow))
        self.regions.append((low, high, region))

    def hold(self, name: str, raw: bytes) -> int:
        """The address of a tensor map that is put in global memory."""
        data = np.frombuffer(raw, U8).copy()
        base = self.memory.place(len(data), 128)
        self.memory.add(Region(f"the tensor map {name}", "global", base, data))
        return base

    def address(self, array: np.ndarray[Any, Any]) -> int:
        """The device address of an array's first element; 0 for an empty array."""
        if not array.size:
            return 0
        pointer = array.__array_interface__["data"][0]
        for low, high, region in self.regions:
            if low <= pointer < high:
                return region.base + pointer - low
        raise AssertionError("array without a region")

    def unwritten(self, args: Sequence[Any]) -> list[tuple[np.ndarray[Any, Any], int]]:
        """Of each array that was given as never written: how many of its elements still are not."""
        found: dict[int, tuple[np.ndarray[Any, Any], int]] = {}
        for array, poisoned in (x for argument in args for x in arrays_in(argument)):
            if not poisoned or not array.size or id(array) in found:
                continue
            pointer = array.__array_interface__["data"][0]
            low, region = next((low, r) for low, high, r in self.regions if low <= pointer < high)
            if region.shadow is not None:
                bytes_ = np.lib.stride_tricks.as_strided(
                    region.shadow[pointer - low :],
                    (*array.shape, array.itemsize),
                    (*array.strides, 1),
                )
                found[id(array)] = array, int(bytes_.any(axis=-1).sum())
        return list(found.values())


def _bytes_at(low: int, high: int, arrays: list[np.ndarray[Any, Any]]) -> Vec:
    """Host memory as bytes; keeps the arrays alive."""

    class Holder:
        def __init__(self) -> None:
            self.arrays = arrays
            self.__array_interface__ = {
                "shape": (high - low,),
                "typestr": "|u1",
                "data": (low, False),
                "version": 3,
            }

    return np.asarray(Holder())


def array_of(argument: Any) -> tuple[np.ndarray[Any, Any] | None, bool]:
    """(the array behind an argument or None, whether it counts as unwritten)."""
    if isinstance(argument, Poisoned):
        return argument.array, True
    if isinstance(argument, TensorMap):
        return array_of(argument.array)
    plain: Any = argument
    if isinstance(argument, np.ndarray):
        return plain, False
    if isinstance(argument, bytearray | memoryview):
        return np.frombuffer(plain, np.uint8), False
    return None, False


def _parts(argument: Any) -> Iterable[Any]:
    """The values in an argument that is made of several."""
    if isinstance(argument, TensorMaps):
        return argument.maps
    return argument.fields.values() if isinstance(argument, Struct) else (argument,)


def arrays_in(argument: Any) -> Iterator[tuple[np.ndarray[Any, Any], bool]]:
    """The arrays behind an argument, of a structure those behind its fields, of tensor maps those of each."""
    for value in _parts(argument):
        array, poisoned = array_of(value)
        if array is not None:
            yield array, poisoned


def check_maps(args: Sequence[Any], target: Target) -> None:
    """Refuses tensor maps that the target's GPU cannot have (TK202)."""
    for argument in args:
        for value in _parts(argument):
            if isinstance(value, TensorMap):
                tiled = value.tiled
                needs = tiled.type.needs | SWIZZLES[tiled.swizzle].needs
                if not target.has(needs):
                    lacking = ", ".join(target.lacks(needs))
                    raise TkcError.at("TK202", f"tensor map: {target.name} has no {lacking}")


def _map(argument: TensorMap, name: str, buffers: Buffers) -> bytes:
    array, _ = array_of(argument)
    if array is None:
        raise TkcError.at("TK403", f"{name} is a tensor map over no array")
    return encode(argument.at(buffers.address(array)))


def _fixed(argument: Any, name: str, buffers: Buffers) -> bytes | None:
    """The bytes of a value that has a width of its own; None for a plain Python number."""
    if isinstance(argument, TensorMap):
        return _map(argument, name, buffers)
    if isinstance(argument, TensorMaps):
        raw = b"".join(_map(m, f"{name}[{i}]", buffers) for i, m in enumerate(argument.maps))
        return buffers.hold(name, raw).to_bytes(8, "little")
    array, _ = array_of(argument)
    if array is not None or argument is None:
        return (buffers.address(array) if array is not None else 0).to_bytes(8, "little")
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, np.generic):
        return argument.tobytes()
    if isinstance(argument, bool | int | float):
        return None
    raise TkcError.at("TK403", f"{name} is a {type(argument).__name__}, which no parameter takes")


def _encode(argument: Any, param: Variable, number: int, buffers: Buffers) -> bytes:
    """The bytes of one parameter."""
    name = f"argument {number} ({param.name})"
    if isinstance(argument, Struct):
        return _structure(argument, param.size, name, buffers)
    raw = _fixed(argument, name, buffers)
    if isinstance(argument, TensorMap) and param.size == 8:
        # A pointer to a tensor map: the map lies in global memory.
        assert raw is not None
        return buffers.hold(param.name, raw).to_bytes(8, "little")
    if raw is None:
        return _number(argument, param.size, name)
    if len(raw) != param.size:
        what = _kind(argument, raw)
        raise TkcError.at("TK403", f"{name} {what}, and the parameter has {param.size} bytes")
    return raw


def _kind(argument: Any, raw: bytes) -> str:
    if isinstance(argument, TensorMap):
        return "is a tensor map"
    if argument is None or array_of(argument)[0] is not None:
        return "is a pointer"
    return f"has {len(raw)} bytes"


def _number(argument: Any, size: int, name: str) -> bytes:
    """A Python number, as wide as its parameter."""
    if isinstance(argument, float):
        raw = np.array(argument, f"float{8 * size}" if size in (2, 4, 8) else "float32").tobytes()
        if len(raw) != size:
            raise TkcError.at("TK403", f"{name} is a float, and the parameter has {size} bytes")
        return raw
    try:
        return int(argument).to_bytes(size, "little", signed=argument < 0)
    except OverflowError:
        raise TkcError.at(
            "TK501", f"{name} is {argument}, which does not fit {size} bytes"
        ) from None


def _structure(argument: Struct, size: int, name: str, buffers: Buffers) -> bytes:
    made = bytearray(argument.image)
    if len(made) > size:
        raise TkcError.at("TK403", f"{name} has {len(made)} bytes, and the parameter has {size}")
    made.extend(bytes(size - len(made)))
    for offset, value in argument.fields.items():
        where = f"{name} at {offset}"
        raw = _fixed(value, where, buffers)
        if raw is None:
            raise TkcError.at(
                "TK403", f"{where} is a number without a width; expected one of a dtype"
            )
        if offset < 0 or offset + len(raw) > size:
            raise TkcError.at(
                "TK403", f"{where} has {len(raw)} bytes, and the parameter has {size}"
            )
        made[offset : offset + len(raw)] = raw
    return bytes(made)


def _type(param: Variable) -> str:
    """How a parameter is declared: `.u32`, or `.b8[128]`."""
    bits = int(param.type.lstrip("abcdefghijklmnopqrstuvwxyz") or 0) if param.type else 0
    return f".{param.type}" if 8 * param.size == bits else f".b8[{param.size}]"


def parameters(
    function: Function, args: Sequence[Any], buffers: Buffers
) -> tuple[Vec, dict[int, int]]:
    """(the bytes of the parameter space, offset of each parameter). Raises TkcError TK401, TK403, TK406, TK501."""
    if len(args) != len(function.params):
        names = ", ".join(f"{_type(p)} {p.name}" for p in function.params)
        raise TkcError.at(
            "TK401",
            f"{function.name} takes {len(function.params)} arguments ({names}), {len(args)} are given",
        )
    offsets: dict[int, int] = {}
    at = 0
    for param in function.params:
        at = -(-at // param.align) * param.align
        offsets[id(param)] = at
        at += param.size
    data = np.zeros(max(-(-at // 16) * 16, 16), U8)
    for number, (argument, param) in enumerate(zip(args, function.params, strict=True), 1):
        raw = _encode(argument, param, number, buffers)
        start = offsets[id(param)]
        data[start : start + len(raw)] = np.frombuffer(raw, U8)
    return data, offsets
