"""Kernels that other compilers compile now: more of Triton's, and GEMMs of CUTLASS, of which nothing is kept.

`TKC_TRITON_PYTHON` names a Python that has Triton (this one, if it has), `TKC_NVCC` the CUDA compiler (one on the
path), `TKC_CUTLASS` the source folder of CUTLASS 4; what is not there is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from emulator.foreign.cuda_cases import CUDA, cuda_targets
from emulator.foreign.cutlass_gemm import GEMMS, Gemm, compile_gemm, run_gemm
from emulator.foreign.generate import compile_cuda
from emulator.foreign.problem import FOLDER, check, run
from emulator.foreign.triton_cases import CASES, SOAK

pytestmark = pytest.mark.soak

BY_NAME = {case.name: case for case in (*CASES, *SOAK)}


@pytest.fixture(scope="module")
def nvcc() -> Path:
    found = os.environ.get("TKC_NVCC") or shutil.which("nvcc")
    if not found:
        pytest.skip("no nvcc: TKC_NVCC names it")
    return Path(found)


def test_triton(seed: int, tmp_path: Path) -> None:
    python = os.environ.get("TKC_TRITON_PYTHON")
    if not python and importlib.util.find_spec("triton") is None:
        pytest.skip("no Triton: TKC_TRITON_PYTHON names a Python that has it")
    command = [python or sys.executable, str(FOLDER / "generate.py"), "--soak", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    launches = json.loads((tmp_path / "launches.json").read_text(encoding="utf-8"))
    missing = set(BY_NAME) - {facts["case"] for facts in launches.values()}
    failed = [f"{name} was not compiled" for name in sorted(missing)]
    for name, facts in launches.items():
        case = BY_NAME[facts["case"]]
        problem = case.make(np.random.default_rng(seed), case.constants)
        try:
            text = (tmp_path / f"{name}.ptx").read_text(encoding="utf-8")
            check(run(text, facts, problem), problem)
        except Exception as error:
            failed.append(f"{name}: {type(error).__name__}: {str(error)[:500]}")
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("file", sorted({case.file for case in CUDA}))
def test_nvcc(file: str, nvcc: Path, seed: int) -> None:
    for target in cuda_targets(file):
        text = compile_cuda(FOLDER / "cuda" / f"{file}.cu", target, nvcc)
        for case in CUDA:
            if case.file == file and target in case.targets:
                problem = case.make(np.random.default_rng(seed))
                check(run(text, case.facts(), problem), problem)


@pytest.mark.parametrize(
    "gemm", GEMMS, ids=lambda gemm: f"{gemm.number}-{gemm.element}-{gemm.target}"
)
def test_cutlass(gemm: Gemm, nvcc: Path, seed: int, tmp_path: Path) -> None:
    source = os.environ.get("TKC_CUTLASS")
    if not source:
        pytest.skip("no CUTLASS: TKC_CUTLASS names its source folder")
    ptx, program = compile_gemm(gemm, nvcc, Path(source), tmp_path)
    for schedule in ("eager", "lazy", *["random"] * 20):
        rng = np.random.default_rng(seed)
        report, got, wanted = run_gemm(gemm, ptx, program, rng, schedule=schedule, seed=seed)
        found = "\n".join(map(str, report.findings[:4]))
        assert report.clean, f"{schedule} {seed}\n{found}"
        assert {f.code for f in report.warnings} == gemm.warned, f"{schedule} {seed}\n{found}"
        wanted.check("D", got)
        seed += 1
