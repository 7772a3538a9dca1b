"""What the emulator costs: processor seconds of launches, with and without its happens-before record.

`python bench/emulator.py [--rounds N] [--only NAME]`. Medians of the rounds, after one launch that decodes, the two in
turn; one process, CTAs in turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import tkc

ROOT = Path(__file__).parent.parent
BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(1)


def uniform(*shape: int, dtype: Any = BF16) -> Any:
    return RNG.uniform(-1, 1, shape).astype(dtype)


def gemm(size: int) -> list[Any]:
    return [uniform(size, size), uniform(size, size), np.zeros((size, size), BF16)]


def bias_act(size: int) -> list[Any]:
    a, b, c = gemm(size)
    return [a, b, uniform(size, dtype=np.float32), uniform(size, size), c, 0.5]


def split(size: int) -> list[Any]:
    return [uniform(size, size), uniform(size, size), np.zeros((size, size), np.float32)]


def rows(size: int) -> list[Any]:
    return [uniform(size, size), np.zeros((size, size), BF16), np.zeros(size, np.float32)]


def pointwise(size: int) -> list[Any]:
    return [uniform(size, size), uniform(size, size), np.zeros((size, size), BF16)]


def moved(size: int) -> list[Any]:
    return [uniform(size, size), np.zeros((size, size), BF16)]


CASES: tuple[tuple[str, str, int, Callable[[int], list[Any]]], ...] = (
    *(("gemm_bf16", "sm_100a", size, gemm) for size in (128, 256, 512, 1024)),
    *(("gemm_bf16", "sm_90a", size, gemm) for size in (128, 256)),
    ("gemm_2cta", "sm_100a", 256, gemm),
    ("gemm_bias_act", "sm_100a", 256, bias_act),
    ("gemm_splitk", "sm_90a", 256, split),
    ("row_softmax", "sm_100a", 256, rows),
    ("silu_mul", "sm_90a", 256, pointwise),
    ("transpose", "sm_90a", 256, moved),
    ("tma_copy", "sm_100a", 512, moved),
)
"""Kernel of `examples`, target, size, and its arguments."""


def seconds(kernel: tkc.Kernel, arguments: list[Any], rounds: int) -> tuple[float, float, int]:
    """The median times of a launch without and with the record, and the warp-instructions that it takes."""
    kernel.emulate(*arguments)
    times: dict[bool, list[float]] = {False: [], True: []}
    steps = 0
    for _ in range(rounds):
        for races, taken in times.items():
            began = time.process_time()
            report = kernel.emulate(*arguments, races=races)
            taken.append(time.process_time() - began)
            steps = report.steps
            assert report.clean
    return statistics.median(times[False]), statistics.median(times[True]), steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="kernels whose names begin so")
    options = parser.parse_args()
    print(
        "| kernel | target | size | seconds | with the record | ratio | warp-instructions | µs each |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, target, size, make in CASES:
        if not name.startswith(options.only):
            continue
        kernel = tkc.compile(ROOT / "examples" / f"{name}.tk", target=target)
        plain, recorded, steps = seconds(kernel, make(size), options.rounds)
        print(
            f"| {name} | {target} | {size} | {plain:.3f} | {recorded:.3f} | {recorded / plain:.2f} | {steps}"
            f" | {1e6 * recorded / steps:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
