"""PTX that other compilers made, emulated with fresh random inputs and compared with float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator.foreign.cuda_cases import CUDA, CudaCase
from emulator.foreign.problem import FOLDER, check, launches, run
from emulator.foreign.triton_cases import CASES

from tkc.emulator.machine import SCHEDULES

BY_NAME = {case.name: case for case in CASES}


def text_of(name: str) -> str:
    return (FOLDER / "ptx" / f"{name}.ptx").read_text(encoding="utf-8")


def scheduled(seed: int) -> dict[str, Any]:
    return {"schedule": SCHEDULES[seed % len(SCHEDULES)], "seed": seed}


def everything(seed: int) -> list[tuple[str, int]]:
    runs = [("eager", seed), ("lazy", seed)]
    return runs + [(name, seed + n) for n in range(RANDOM_SEEDS) for name in ("random", "pct")]


@pytest.mark.share(3)
@pytest.mark.parametrize("name", launches())
def test_triton(name: str, seed: int) -> None:
    facts = launches()[name]
    case = BY_NAME[facts["case"]]
    problem = case.make(np.random.default_rng(seed), case.constants)
    check(run(text_of(name), facts, problem, **scheduled(seed)), problem)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("case", "target"),
    [(case, target) for case in CUDA for target in case.targets],
    ids=lambda p: p.kernel if isinstance(p, CudaCase) else f"sm{p}",
)
def test_nvcc(case: CudaCase, target: str, seed: int) -> None:
    problem = case.make(np.random.default_rng(seed))
    text = text_of(f"{case.file}_sm{target}")
    check(run(text, case.facts(), problem, **scheduled(seed)), problem)


# Nothing is found in kernels that people run, however they are scheduled: in the suite each under one schedule, which
# the seed of the test chooses.

RANDOM_SEEDS = 20


@pytest.mark.soak
@pytest.mark.parametrize("name", launches())
def test_triton_under_every_schedule(name: str, seed: int) -> None:
    facts = launches()[name]
    case = BY_NAME[facts["case"]]
    for schedule, number in everything(seed):
        problem = case.make(np.random.default_rng(number), case.constants)
        check(run(text_of(name), facts, problem, schedule=schedule, seed=number), problem)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("case", "target"),
    [(case, target) for case in CUDA for target in case.targets],
    ids=lambda p: p.kernel if isinstance(p, CudaCase) else f"sm{p}",
)
def test_nvcc_under_every_schedule(case: CudaCase, target: str, seed: int) -> None:
    text = text_of(f"{case.file}_sm{target}")
    for schedule, number in everything(seed):
        problem = case.make(np.random.default_rng(number))
        check(run(text, case.facts(), problem, schedule=schedule, seed=number), problem)


@pytest.mark.parametrize("name", ["mm_bf16_sm100", "tma_pair_sm90", "attention_sm100"])
def test_strict_warns_and_explains(name: str, seed: int) -> None:
    """What practice takes for granted is a warning that names the assumption, and nothing is an error."""
    facts = launches()[name]
    case = BY_NAME[facts["case"]]
    problem = case.make(np.random.default_rng(seed), case.constants)
    report = run(text_of(name), facts, problem, model="strict")
    assert report.clean
    for finding in report.warnings:
        assert any("practice rests on A" in note for note in finding.notes), str(finding)


def test_no_path_of_a_machine_is_kept() -> None:
    for path in sorted((FOLDER / "ptx").glob("*.ptx")):
        text = path.read_text(encoding="utf-8")
        assert '.file\t1 "/' not in text, path.name
        assert "/site-packages/" not in text, path.name
