"""Launching: NumPy arrays become device memory, arguments become parameters, and the report comes back.

Arrays are changed in place. Memory that arrays share is one region, so that aliases stay aliases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.diagnostics import Location, TkcError, nearest
from tkc.emulator.functions import address_of
from tkc.emulator.lanes import U8, Vec
from tkc.emulator.machine import MODELS, SCHEDULES, Machine
from tkc.emulator.program import Program
from tkc.emulator.reader import read
from tkc.emulator.report import Report
from tkc.emulator.spaces import Memory, Region
from tkc.emulator.syntax import Function, Module, Variable
from tkc.emulator.tensormap import TensorMap, encode
from tkc.emulator.watch import Watch
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.targets import TARGETS, Target

Dim = Sequence[int] | int

BLOCK_LIMITS = (1024, 1024, 64)
GRID_LIMITS = (2**31 - 1, 65535, 65535)
"""Most threads and CTAs along each axis (CUDA C++ programming guide, technical specifications)."""


class Poisoned:
    """An array whose bytes count as never written: reading one that nobody wrote is a finding where it matters."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array


@lru_cache(maxsize=32)
def _module(text: str, file: str) -> Module:
    return read(text, file)


@lru_cache(maxsize=32)
def _program(text: str, entry: str, file: str) -> Program:
    module = _module(text, file)
    return Program(module, module.functions[entry], file)


def load(text: str, entry: str | None = None, file: str = "<ptx>") -> Program:
    """The decoded kernel; TK417 for text that cannot be read, TK416 for instructions that are not covered."""
    module = _module(text, file)
    if entry is None:
        if len(module.entries) != 1:
            names = ", ".join(module.entries) or "none"
            raise TkcError.at(
                "TK417", f"the PTX has {len(module.entries)} entries ({names}); entry= chooses one"
            )
        entry = module.entries[0]
    elif entry not in module.entries:
        near = nearest(entry, module.entries)
        hint = f"; nearest is {near}" if near else ""
        raise TkcError.at("TK417", f"the PTX has no entry {entry}{hint}")
    return _program(text, entry, file)


def _three(value: Dim, name: str) -> tuple[int, int, int]:
    parts = (value,) if isinstance(value, int | np.integer) else tuple(value)
    if not 1 <= len(parts) <= 3 or any(int(p) < 1 for p in parts):
        raise TkcError.at("TK418", f"{name} {value}, expected one to three positive numbers")
    full = (*(int(p) for p in parts), 1, 1)[:3]
    return (full[0], full[1], full[2])


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
        owner = members[0][3]
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


def _array_of(argument: Any) -> tuple[np.ndarray[Any, Any] | None, bool]:
    """(the array behind an argument, whether it counts as unwritten)."""
    if isinstance(argument, Poisoned):
        return argument.array, True
    if isinstance(argument, TensorMap):
        inner, poisoned = _array_of(argument.array)
        return inner, poisoned
    if isinstance(argument, np.ndarray):
        return argument, False
    if isinstance(argument, bytearray | memoryview):
        return np.frombuffer(argument, np.uint8), False
    return None, False


def _encode(
    argument: Any, param: Variable, number: int, buffers: Buffers, function: Function
) -> bytes:
    """The bytes of one parameter."""
    name = f"argument {number} ({param.name})"
    array, _ = _array_of(argument)
    if isinstance(argument, TensorMap):
        if array is None:
            raise TkcError.at("TK403", f"{name} is a tensor map over no array")
        raw = encode(argument.at(buffers.address(array)))
        if param.size == 8:
            # A pointer to a tensor map: the map lies in global memory.
            return buffers.hold(param.name, raw).to_bytes(8, "little")
        if param.size != 128:
            raise TkcError.at(
                "TK403", f"{name} is a tensor map, and the parameter has {param.size} bytes"
            )
        return raw
    if array is not None or argument is None:
        if param.size != 8:
            raise TkcError.at(
                "TK403", f"{name} is a pointer, and the parameter has {param.size} bytes"
            )
        return (buffers.address(array) if array is not None else 0).to_bytes(8, "little")
    if isinstance(argument, bytes):
        raw = argument
    elif isinstance(argument, np.generic):
        raw = argument.tobytes()
    elif isinstance(argument, bool):
        raw = int(argument).to_bytes(param.size, "little")
    elif isinstance(argument, int):
        try:
            raw = argument.to_bytes(param.size, "little", signed=argument < 0)
        except OverflowError:
            raise TkcError.at(
                "TK501", f"{name} is {argument}, which does not fit {param.size} bytes"
            ) from None
    elif isinstance(argument, float):
        raw = np.array(
            argument, f"float{8 * param.size}" if param.size in (2, 4, 8) else "float32"
        ).tobytes()
    else:
        raise TkcError.at(
            "TK403", f"{name} is a {type(argument).__name__}, which no parameter takes"
        )
    if len(raw) != param.size:
        raise TkcError.at("TK403", f"{name} has {len(raw)} bytes, and the parameter {param.size}")
    return raw


def _parameters(
    function: Function, args: Sequence[Any], buffers: Buffers
) -> tuple[Vec, dict[int, int]]:
    """(the bytes of the parameter space, offset of each parameter)."""
    if len(args) != len(function.params):
        names = ", ".join(p.name for p in function.params)
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
        raw = _encode(argument, param, number, buffers, function)
        start = offsets[id(param)]
        data[start : start + len(raw)] = np.frombuffer(raw, U8)
    return data, offsets


def _check_maps(args: Sequence[Any], target: Target) -> None:
    """Refuses tensor maps that the target's GPU cannot have."""
    for argument in args:
        if isinstance(argument, TensorMap):
            tiled = argument.tiled
            needs = tiled.type.needs | SWIZZLES[tiled.swizzle].needs
            if not target.has(needs):
                lacking = ", ".join(target.lacks(needs))
                raise TkcError.at("TK202", f"tensor map: {target.name} has no {lacking}")


def _check_launch(
    program: Program,
    target: Target,
    block: tuple[int, int, int],
    grid: tuple[int, int, int],
    cluster: tuple[int, int, int],
) -> None:
    directives = program.function.directives
    threads = block[0] * block[1] * block[2]
    if threads > target.max_threads:
        raise TkcError.at("TK208", f"{threads} threads in a CTA, at most {target.max_threads}")
    for name, sizes, limits in (("block", block, BLOCK_LIMITS), ("grid", grid, GRID_LIMITS)):
        for axis, size, limit in zip("xyz", sizes, limits, strict=True):
            if size > limit:
                raise TkcError.at("TK418", f"{name} {sizes}: at most {limit} along {axis}")
    required = directives.get("reqntid")
    if required and (*required, 1, 1)[:3] != block:
        raise TkcError.at(
            "TK418", f"block {block}, and the kernel says .reqntid {', '.join(map(str, required))}"
        )
    most = directives.get("maxntid")
    if most:
        limit = int(np.prod(most))
        if threads > limit:
            raise TkcError.at(
                "TK418", f"{threads} threads in a CTA, and the kernel says .maxntid {limit}"
            )
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise TkcError.at("TK418", f"grid {grid} is no multiple of cluster {cluster}")
    required = directives.get("reqnctapercluster")
    if required and (*required, 1, 1)[:3] != cluster:
        raise TkcError.at(
            "TK418",
            f"cluster {cluster}, and the kernel says .reqnctapercluster {', '.join(map(str, required))}",
        )
    size = cluster[0] * cluster[1] * cluster[2]
    if size > target.max_cluster:
        raise TkcError.at("TK418", f"{size} CTAs in a cluster, at most {target.max_cluster}")


def emulate(
    ptx: str,
    *,
    entry: str | None = None,
    grid: Dim,
    block: Dim,
    cluster: Dim = (1, 1, 1),
    shared_bytes: int = 0,
    args: Sequence[Any],
    schedule: str = "eager",
    seed: int = 0,
    model: str = "practice",
    max_steps: int | None = None,
    file: str = "<ptx>",
    sm_count: int | None = None,
    watch: Watch | None = None,
) -> Report:
    """Runs a kernel of a PTX text on the CPU and reports what it found.

    `args` are the kernel's parameters in order: NumPy arrays (device buffers, changed in place), NumPy scalars (by
    their width), Python numbers (as wide as the parameter), None (a null pointer), `TensorMap`s, or bytes.
    `shared_bytes` is dynamic shared memory; `sm_count` is what the kernel reads as `%nsmid`; a `watch` looks on and
    turns Ctrl-C into a finding. Raises TkcError where the text, the launch or an argument is wrong; what the kernel
    does wrong is in the report.
    """
    if schedule not in SCHEDULES:
        raise TkcError.at("TK120", f"no schedule {schedule}: one of {', '.join(SCHEDULES)}")
    if model not in MODELS:
        raise TkcError.at("TK120", f"no model {model}: one of {', '.join(MODELS)}")
    program = load(ptx, entry, file)
    target = TARGETS.get(program.module.target)
    if target is None:
        raise TkcError.at(
            "TK201",
            f"the PTX is for {program.module.target}; expected one of {', '.join(TARGETS)}",
            Location(file),
        )
    cluster_size = _three(cluster, "cluster")
    required = program.function.directives.get("reqnctapercluster")
    if required and cluster_size == (1, 1, 1):
        cluster_size = _three(required, "cluster")
    if shared_bytes < 0:
        raise TkcError.at("TK418", f"{shared_bytes} bytes of shared memory")
    grid3, block3 = _three(grid, "grid"), _three(block, "block")
    _check_launch(program, target, block3, grid3, cluster_size)
    memory = Memory()
    buffers = Buffers(memory)
    function = program.function
    named: list[tuple[str, np.ndarray[Any, Any], bool]] = []
    for argument, param in zip(args, function.params, strict=False):
        array, poisoned = _array_of(argument)
        if array is not None:
            named.append((param.name, array, poisoned))
    buffers.add(named)
    _check_maps(args, target)
    params, offsets = _parameters(function, args, buffers)
    variables = _place_variables(program, memory, offsets)
    machine = Machine(
        program,
        target,
        grid=grid3,
        block=block3,
        cluster=cluster_size,
        dynamic_shared=int(shared_bytes),
        memory=memory,
        params=params,
        schedule=schedule,
        seed=seed,
        model=model,
        max_steps=max_steps,
    )
    machine.variables.update(variables)
    machine.variables.update(program.local_offsets)
    machine.local_size = program.local_size
    total = machine.shared_layout.size - machine.shared_layout.reserved + machine.dynamic_shared
    if total > target.shared_per_cta:
        raise TkcError.at(
            "TK204",
            f"{total} bytes of shared memory in a CTA, {target.name} has {target.shared_per_cta}",
        )
    machine.watch = watch
    if sm_count is not None:
        machine.sm_count = sm_count
    return machine.run()


def _place_variables(program: Program, memory: Memory, params: Mapping[int, int]) -> dict[int, int]:
    """Addresses of parameters, and of global and constant variables, which are made here."""
    addresses = dict(params)
    made: list[tuple[Variable, Region]] = []
    for variable in program.variables:
        if variable.space in ("global", "const"):
            data = np.zeros(max(variable.size, 1), U8)
            if variable.data:
                data[: len(variable.data)] = np.frombuffer(variable.data, U8)
            base = memory.place(len(data), max(variable.align, 16))
            region = memory.add(Region(variable.name, "global", base, data))
            addresses[id(variable)] = base
            made.append((variable, region))
    names = {v.name: addresses[id(v)] for v, _ in made}
    for name in program.module.functions:
        names.setdefault(name, address_of(program.module, name) or 0)
    for variable, region in made:
        for at, size, name, addend in variable.references:
            value = names.get(name, 0) + addend
            region.data[at : at + size] = np.frombuffer(value.to_bytes(8, "little")[:size], U8)
    return addresses
