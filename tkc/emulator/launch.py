"""Launching: a text is decoded, a launch is checked and put into a machine, and the report comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.diagnostics import Location, TkcError, nearest
from tkc.emulator.functions import address_of
from tkc.emulator.lanes import U8
from tkc.emulator.machine import SCHEDULES, Machine
from tkc.emulator.parameters import Buffers, arrays_in, check_maps, parameters
from tkc.emulator.program import Program
from tkc.emulator.reader import read
from tkc.emulator.record import Record
from tkc.emulator.repeats import repeated
from tkc.emulator.report import Report
from tkc.emulator.spaces import Memory, Region
from tkc.emulator.syntax import Module, Variable
from tkc.emulator.watch import Watch
from tkc.ir.isa.assumptions import MODELS, PRACTICE
from tkc.ir.isa.targets import TARGETS, Target

Dim = Sequence[int] | int

BLOCK_LIMITS = (1024, 1024, 64)
GRID_LIMITS = (2**31 - 1, 65535, 65535)
"""Most threads and CTAs along each axis (CUDA C++ programming guide, technical specifications)."""


KEPT = 8
"""Texts that stay decoded: each takes some 2 KiB a line of it."""


@lru_cache(maxsize=KEPT)
def _module(text: str, file: str) -> Module:
    return read(text, file)


@lru_cache(maxsize=KEPT)
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


def _larger(
    preferred: Dim,
    cluster: tuple[int, int, int],
    grid: tuple[int, int, int],
    target: Target,
) -> tuple[int, int, int]:
    """A preferred cluster that holds whole ones, and fills the grid; TK418 elsewhere."""
    larger = _three(preferred, "preferred")
    if any(p % c or g % p for p, c, g in zip(larger, cluster, grid, strict=True)):
        raise TkcError.at(
            "TK418",
            f"preferred cluster {larger}: expected a multiple of {cluster} that divides grid {grid}",
        )
    if int(np.prod(larger)) > target.max_cluster:
        raise TkcError.at("TK418", f"preferred cluster {larger}, at most {target.max_cluster} CTAs")
    return larger


def emulate(
    ptx: str,
    *,
    entry: str | None = None,
    grid: Dim,
    block: Dim,
    cluster: Dim = (1, 1, 1),
    preferred: Dim | None = None,
    shared_bytes: int = 0,
    dependent: bool = False,
    args: Sequence[Any],
    schedule: str = "eager",
    seed: int = 0,
    model: str = "practice",
    max_steps: int | None = None,
    file: str = "<ptx>",
    sm_count: int | None = None,
    watch: Watch | None = None,
    races: bool = True,
    runs: int = 1,
) -> Report:
    """Runs a kernel of a PTX text on the CPU and reports what it found.

    `args` are the kernel's parameters in order: NumPy arrays (device buffers, changed in place), NumPy scalars (by
    their width), Python numbers (as wide as the parameter), None (a null pointer), `TensorMap`s, bytes, or `Struct`s.
    `preferred` is a larger cluster that the hardware may make of several: all of them eagerly, none lazily, some by
    chance. `shared_bytes` is dynamic shared memory; of a `dependent` launch the grid ahead may still run, and whoever
    touches global memory must know of a griddepcontrol.wait; `sm_count` is what the kernel reads as `%nsmid`; a
    `watch` looks on and turns Ctrl-C into a finding. Without `races` no happens-before record is kept. `runs` launches
    with as many seeds, from `seed` on, each on the arguments as they were given, and reports what any of them found.
    Raises TkcError where the text, the launch or an argument is wrong; what the kernel does wrong is in the report.
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
    if runs < 1:
        raise TkcError.at("TK120", f"{runs} runs: expected at least one")
    if shared_bytes < 0:
        raise TkcError.at("TK418", f"{shared_bytes} bytes of shared memory")
    grid3, block3 = _three(grid, "grid"), _three(block, "block")
    _check_launch(program, target, block3, grid3, cluster_size)
    check_maps(args, target)
    dims = (grid3, block3, cluster_size)
    larger = None if preferred is None else _larger(preferred, cluster_size, grid3, target)

    def once(seed: int, model: str) -> Machine:
        buffers = Buffers(Memory())
        machine = _machine(
            program, target, dims, int(shared_bytes), args, schedule, seed, model, buffers
        )
        machine.max_steps = max_steps
        machine.preferred = larger
        machine.watch = watch
        if races:
            machine.record = machine.memory.observer = Record(machine, model)
            machine.record.dependent = dependent
        if sm_count is not None:
            machine.sm_count = sm_count
        machine.run()
        machine.report.unwritten = buffers.unwritten(args)
        return machine

    if runs == 1 and model == PRACTICE:
        return once(seed, model).report
    return repeated(once, args, range(seed, seed + runs), model)


def _machine(
    program: Program,
    target: Target,
    dims: tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]],
    dynamic_shared: int,
    args: Sequence[Any],
    schedule: str,
    seed: int,
    model: str,
    buffers: Buffers,
) -> Machine:
    """A machine with the launch's memory and parameters in place; `dims` are grid, block and cluster."""
    memory = buffers.memory
    function = program.function
    buffers.add(
        [
            (param.name, array, poisoned)
            for argument, param in zip(args, function.params, strict=False)
            for array, poisoned in arrays_in(argument)
        ]
    )
    params, offsets = parameters(function, args, buffers)
    variables = _place_variables(program, memory, offsets)
    machine = Machine(
        program,
        target,
        grid=dims[0],
        block=dims[1],
        cluster=dims[2],
        dynamic_shared=dynamic_shared,
        memory=memory,
        params=params,
        schedule=schedule,
        seed=seed,
        model=model,
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
    return machine


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
            region.constant = variable.space == "const"
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
