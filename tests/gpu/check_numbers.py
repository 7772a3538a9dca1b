"""Elements of 8 bits, numbers of u32 and i64, and arguments of all scalar types on a GPU.

    python3 tests/gpu/check_numbers.py package FOLDER [TARGET]    where tkc compiles; no GPU needed
    python3 tests/gpu/check_numbers.py run FOLDER                 where a GPU, PyTorch and ml_dtypes are

The programs and what they make are those of `tests/number_programs.py`, compared bit by bit, with fresh numbers in each
of 20 launches.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent)]
LAUNCHES = 20


def package(folder: str, target: str = "sm_90a") -> None:
    from number_programs import cases

    import tkc

    programs = cases(np.random.default_rng(0))
    for name, case in programs.items():
        kernel = tkc.compile(case.text, target=target)
        kernel.cubin()
        kernel.save(Path(folder) / name)
    print(f"{len(programs)} packages in {folder}")


def on_device(value: Any) -> Any:
    """An array as a tensor of a dtype that both know; a number as it is."""
    import torch

    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16)).cuda().view(torch.bfloat16)
    known = value.dtype.kind in "iuf" and not value.dtype.name.startswith("float8")
    return torch.from_numpy(value if known else value.view(np.uint8)).cuda()


def run(folder: str) -> None:
    from number_programs import cases

    import tkc

    for name in cases(np.random.default_rng(0)):
        kernel = tkc.load(next((Path(folder) / name).glob("*.json")))
        for seed in range(LAUNCHES):
            case = cases(np.random.default_rng(seed))[name]
            given = [on_device(x) for x in case.arguments]
            kernel.launch(*given)
            for at, exact in case.exact.items():
                made = given[at].cpu().numpy()
                same = np.array_equal(made.view(np.uint8), exact.view(np.uint8))
                assert same, f"{name}: argument {at} is wrong in launch {seed}"
        print(f"{name}: right in {LAUNCHES} launches")
    print("all right")


if __name__ == "__main__":
    {"package": package, "run": run}[sys.argv[1]](*sys.argv[2:])
