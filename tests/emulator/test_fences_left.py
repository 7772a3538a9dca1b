"""What `eliminate-fences` leaves, as PTX, under many schedules: the record of happens-before finds nothing, and the
result is that of all fences, bit for bit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import tkc


def load() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "mutation_table.py"
    spec = importlib.util.spec_from_file_location("mutation_table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = load()
SCHEDULES = ("random", "pct", "lazy", "eager")


def ask(name: str, first: int, count: int) -> None:
    target, arrays = TABLE.KERNELS[name]
    path = TABLE.ROOT / "examples" / f"{name}.tk"
    whole = arrays()
    assert tkc.compile(path, target=target, fences="conservative").emulate(*whole, sm_count=2).clean
    kernel = tkc.compile(path, target=target)
    for seed in range(first, first + count):
        given = arrays()
        schedule = SCHEDULES[seed % 4]
        report = kernel.emulate(*given, sm_count=2, schedule=schedule, seed=seed)
        assert not report.findings, f"{schedule}, seed {seed}: {report.findings[0]}"
        assert given[-1].tobytes() == whole[-1].tobytes(), f"{schedule}, seed {seed}"


@pytest.mark.parametrize("name", ["silu_mul", "transpose"])
def test_a_few_schedules(name: str, seed: int) -> None:
    ask(name, seed, 2)


@pytest.mark.soak
@pytest.mark.parametrize("name", TABLE.KERNELS)
def test_two_hundred_schedules(name: str, seed: int) -> None:
    ask(name, seed, 200)
