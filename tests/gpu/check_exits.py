"""Kernels whose threads end while their bulk stores still read shared memory, on a GPU (A29 of tkc/ir/isa/assumptions.py).

`python3 tests/gpu/check_exits.py [LAUNCHES]` compiles `examples/silu_mul.tk` for the GPU at hand, takes the last wait for
bulk stores out of its PTX, and launches it in long rows, so that the CTAs of the next launch take over the shared memory
of those that have ended. Says how many results were wrong.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from check_dependent import uniform, without

import tkc

EXAMPLE = Path(__file__).parents[2] / "examples" / "silu_mul.tk"
M, N, ROW = 1000, 1032, 50


def main() -> None:
    launches = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    major, minor = torch.cuda.get_device_capability()
    kernel = tkc.compile(EXAMPLE, target=f"sm_{major}{minor}a")
    last = [x for x in kernel.ptx.splitlines() if "cp.async.bulk.wait_group" in x][-1].strip()
    with tempfile.TemporaryDirectory() as folder:
        rash = without(last, kernel, Path(folder))
    given = [[uniform(M, N) for _ in "xy"] for _ in range(ROW)]
    right = [torch.empty(M, N, dtype=torch.bfloat16, device="cuda") for _ in range(ROW)]
    for arrays, y in zip(given, right, strict=True):
        kernel.launch(*arrays, y)
        torch.cuda.synchronize()
    wrong, rows = 0, max(launches // ROW, 1)
    for _ in range(rows):
        found = [torch.full_like(y, float("nan")) for y in right]
        torch.cuda.synchronize()
        for arrays, y in zip(given, found, strict=True):
            rash.launch(*arrays, y)
        torch.cuda.synchronize()
        wrong += sum(not torch.equal(x, y) for x, y in zip(right, found, strict=True))
    print(f"without `{last}`: {wrong} of {rows * ROW} launches wrong")


if __name__ == "__main__":
    main()
