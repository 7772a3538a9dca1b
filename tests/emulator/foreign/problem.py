"""What a foreign kernel is given and must compute: arguments by name, the grid, and expected results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tkc.emulator import Poisoned, Report, TensorMap, emulate
from tkc.ir.isa.tensormap import MAP_TYPES

Array = np.ndarray[Any, np.dtype[Any]]

FOLDER = Path(__file__).parent
BF16, E4M3, E5M2, F16 = (
    np.dtype(ml_dtypes.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e5m2),
    np.dtype(np.float16),
)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
I8, I32, I64 = (np.dtype(f"int{bits}") for bits in (8, 32, 64))
U8, U16, U32, U64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))


@dataclass(frozen=True)
class Expected:
    """What an output must hold: every element within `relative` of it, or `absolute` units of the largest.

    `slack` allows more, element by element.
    """

    values: Array
    relative: float = 0.0
    absolute: float = 0.0
    slack: Array | float = 0.0

    def check(self, name: str, got: Array) -> None:
        """Raises AssertionError where `got` is too far away; NaN is never close to a number."""
        wanted = self.values.astype(np.float64)
        have = got.astype(np.float64)
        assert have.shape == wanted.shape, f"{name}: shape {have.shape}, expected {wanted.shape}"
        finite = wanted[np.isfinite(wanted)]
        scale = np.abs(finite).max() if finite.size else 1.0
        same = (have == wanted) | (np.isnan(have) & np.isnan(wanted))
        with np.errstate(invalid="ignore"):
            allowed = self.relative * np.abs(wanted) + self.absolute * scale + self.slack
            near = np.abs(have - wanted) <= allowed
        bad = ~(same | near)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            raise AssertionError(
                f"{name}: {int(bad.sum())} of {bad.size} elements differ, the first at {at}:"
                f" {have[at]!r}, expected {wanted[at]!r}"
            )


@dataclass
class Problem:
    """One launch: `args` by the kernel's own names. What is `expected` is an output, which counts as unwritten unless
    it is `updated`. `outputs` are the arrays behind tensor maps.
    """

    grid: tuple[int, ...]
    args: dict[str, Any]
    expected: dict[str, Expected]
    updated: frozenset[str] = frozenset()
    outputs: dict[str, Array] = field(default_factory=dict)


Maker = Callable[[np.random.Generator, Mapping[str, Any]], Problem]
"""Makes fresh random data for a case; the mapping holds the compile-time constants."""


@dataclass(frozen=True)
class Case:
    """A Triton kernel compiled one way: Triton's signature, constants and options, and what it is tried with.

    `aligned` are arguments of which Triton may assume that 16 divides them (its own launcher finds that out).
    """

    name: str
    kernel: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    make: Maker
    options: Mapping[str, Any] = field(default_factory=dict)
    aligned: tuple[str, ...] = ()
    targets: tuple[int, ...] = (90, 100)


def poisoned(shape: tuple[int, ...] | int, dtype: Any) -> Array:
    """An output that holds garbage, and that nobody has written."""
    made = np.empty(shape, dtype)
    made.view(np.uint8)[...] = 0xA5
    return made


@cache
def launches() -> Mapping[str, Any]:
    """The launch facts that `generate.py` recorded, by the name of the PTX file without its suffix."""
    return json.loads((FOLDER / "launches.json").read_text(encoding="utf-8"))


def arguments(facts: Mapping[str, Any], problem: Problem) -> list[Any]:
    """The kernel's parameters in order: arrays, numbers, tensor maps with their sizes and strides, scratch."""
    found: list[Any] = []
    listed = facts["args"] or [{"kind": "plain", "name": name} for name in problem.args]
    for one in listed:
        kind, name = one["kind"], one["name"]
        value = problem.args.get(name)
        fresh = isinstance(value, np.ndarray) and name in problem.expected
        fresh = fresh and name not in problem.updated
        if kind == "tensormap":
            found.append(_map(value, one, fresh))
            found += [np.int32(s) for s in value.shape]
            found += [np.int64(s // value.itemsize) for s in value.strides]
        elif kind == "scratch":
            size = one["bytes"] * int(np.prod(problem.grid)) * facts["cluster"]
            found.append(Poisoned(poisoned(size, np.uint8)) if size else None)
        else:
            found.append(Poisoned(value) if fresh else value)
    return found


def _map(array: Array, one: Mapping[str, Any], fresh: bool) -> TensorMap:
    element = next(t for t in MAP_TYPES.values() if t.driver == one["element"])
    wide = 2 if one["fp4_padded"] else 1
    sizes = list(array.shape)
    sizes[-1] *= wide
    return TensorMap(
        Poisoned(array) if fresh else array,
        dtype=element.name,
        sizes=sizes[::-1],
        strides=list(array.strides[:-1])[::-1],
        box=one["box"][::-1],
        swizzle=("none", "32B", "64B", "128B")[one["swizzle"]],
    )


def run(ptx: str, facts: Mapping[str, Any], problem: Problem, **options: Any) -> Report:
    """Emulates one compiled kernel on a problem; the caller compares."""
    cluster = facts["cluster"]
    grid = (*problem.grid, 1, 1)[:3]
    return emulate(
        ptx,
        entry=facts["entry"],
        grid=(grid[0] * cluster, grid[1], grid[2]),
        block=facts["block"],
        cluster=(cluster, 1, 1),
        shared_bytes=facts["shared_bytes"],
        args=arguments(facts, problem),
        **options,
    )


def check(report: Report, problem: Problem) -> None:
    """No finding of any kind, and every output right."""
    assert not report.findings, "\n".join(map(str, report.findings))
    for name, expected in problem.expected.items():
        expected.check(name, problem.outputs.get(name, problem.args[name]))
