"""PTX that other compilers made, emulated with fresh random inputs and compared with float64."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.foreign.cuda_cases import CUDA, CudaCase
from emulator.foreign.problem import FOLDER, check, launches, run
from emulator.foreign.triton_cases import CASES

BY_NAME = {case.name: case for case in CASES}


def text_of(name: str) -> str:
    return (FOLDER / "ptx" / f"{name}.ptx").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", launches())
def test_triton(name: str, seed: int) -> None:
    facts = launches()[name]
    case = BY_NAME[facts["case"]]
    problem = case.make(np.random.default_rng(seed), case.constants)
    check(run(text_of(name), facts, problem), problem)


@pytest.mark.parametrize(
    ("case", "target"),
    [(case, target) for case in CUDA for target in case.targets],
    ids=lambda p: p.kernel if isinstance(p, CudaCase) else f"sm{p}",
)
def test_nvcc(case: CudaCase, target: str, seed: int) -> None:
    problem = case.make(np.random.default_rng(seed))
    check(run(text_of(f"{case.file}_sm{target}"), case.facts(), problem), problem)


def test_no_path_of_a_machine_is_kept() -> None:
    for path in sorted((FOLDER / "ptx").glob("*.ptx")):
        text = path.read_text(encoding="utf-8")
        assert '.file\t1 "/' not in text, path.name
        assert "/site-packages/" not in text, path.name
