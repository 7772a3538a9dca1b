"""What the emulator costs: seconds of the bf16 GEMM by size, with and without its happens-before record.

`python bench/emulator.py [--rounds N]`. Medians of the rounds, after one launch that decodes, the two in turn; one
process, CTAs in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import ml_dtypes
import numpy as np

import tkc

ROOT = Path(__file__).parent.parent


def seconds(kernel: tkc.Kernel, size: int, rounds: int) -> tuple[float, float, int]:
    """The median times of a launch at size³ without and with the record, and the warp-instructions that it takes."""
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, (size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((size, size), ml_dtypes.bfloat16)
    kernel.emulate(a, b, c)
    times: dict[bool, list[float]] = {False: [], True: []}
    steps = 0
    for _ in range(rounds):
        for races, taken in times.items():
            began = time.perf_counter()
            report = kernel.emulate(a, b, c, races=races)
            taken.append(time.perf_counter() - began)
            steps = report.steps
            assert report.clean
    return statistics.median(times[False]), statistics.median(times[True]), steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(
        "| kernel | target | size | seconds | with the record | ratio | warp-instructions | µs each |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for target in ("sm_100a", "sm_90a"):
        kernel = tkc.compile(ROOT / "examples" / "gemm_bf16.tk", target=target)
        for size in (128, 256, 512, 1024):
            plain, recorded, steps = seconds(kernel, size, options.rounds)
            print(
                f"| gemm_bf16 | {target} | {size}³ | {plain:.3f} | {recorded:.3f} | {recorded / plain:.2f} |"
                f" {steps} | {recorded / steps * 1e6:.1f} |"
            )


if __name__ == "__main__":
    main()
