"""Broken kernels on a GPU: that what the emulator calls a race fails on the hardware too.

`python3 tests/gpu/check_mutants.py FOLDER` where `make_mutants.py` has put its packages. Each runs in a process of
its own, of which a kernel that hangs is stopped; the unbroken one must be right, and five of the others wrong at least
once. Needs neither xdsl nor lark.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SIZES = ((512, 512, 4096), (2048, 2048, 2048), (1000, 1048, 1032), (4096, 4096, 512))
LAUNCHES, SECONDS = 50, 60
ENOUGH = 5


def one(path: str) -> None:
    """Prints how many launches of how many were wrong."""
    import torch

    import tkc

    kernel = tkc.load(path)
    wrong = total = 0
    for m, n, k in SIZES:
        for _ in range(LAUNCHES):
            a, b = ((torch.rand(x, k, device="cuda") * 2 - 1).to(torch.bfloat16) for x in (m, n))
            c = torch.full((m, n), float("nan"), dtype=torch.bfloat16, device="cuda")
            kernel.launch(a, b, c)
            torch.cuda.synchronize()
            exact = a.float() @ b.float().T
            error = torch.linalg.norm(c.float() - exact) / torch.linalg.norm(exact)
            total += 1
            wrong += not bool(error < 4e-3)
    print(f"{wrong} {total}")


def main(folder: Path) -> None:
    failed = 0
    for path in sorted(folder.glob("*.json"), key=lambda p: (p.stem != "original", p.stem)):
        try:
            done = subprocess.run(
                [sys.executable, __file__, "--one", str(path)],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"{path.stem}: hangs")
            failed += path.stem != "original"
            assert path.stem != "original", "the unbroken kernel hangs"
            continue
        lines = done.stdout.split("\n")
        if done.returncode:
            last = (done.stderr.strip() or "no message").split("\n")[-1]
            print(f"{path.stem}: stops: {last[:200]}")
            assert path.stem != "original", done.stderr
            failed += 1
            continue
        wrong, total = (int(x) for x in lines[-2].split())
        print(f"{path.stem}: {wrong} of {total} launches wrong")
        assert path.stem != "original" or not wrong, "the unbroken kernel is wrong"
        failed += wrong > 0
    print(f"{failed} mutants fail on this GPU")
    assert failed >= ENOUGH


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(sys.argv[2])
    else:
        main(Path(sys.argv[1]))
