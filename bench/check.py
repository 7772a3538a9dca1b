"""What the analysis behind `tkc check` costs, and how that grows: CPU milliseconds and labels (steps of its search).

`python -m bench.check`, from the root. Our products and longest examples, then a line of roles that read the buffers of
the one before and fill as many of their own: more roles, more buffers, more stages. The best of several runs; labels do
not depend on the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import process_time

from tests.analysis.happens_before.test_speed import line
from tkc.analysis.happens_before import check, paths
from tkc.analysis.happens_before.findings import findings
from tkc.driver import to_module
from tkc.job import Job

ROOT = Path(__file__).parents[1]
EXAMPLES = (
    ("gemm_bf16", "sm_90a"), ("gemm_bf16", "sm_100a"), ("gemm_bf16_level2", "sm_100a"), ("gemm_2cta", "sm_100a"),
    ("gemm_nvfp4_2cta", "sm_100a"), ("row_softmax", "sm_90a"),
)  # fmt: skip
LINES = (
    (3, 8, 4), (6, 20, 4), (12, 44, 4), (24, 92, 4), (12, 22, 4), (12, 88, 4), (12, 44, 2), (12, 44, 8),
)  # fmt: skip
"""Roles, buffers, stages."""


def cost(work: Callable[[], object], rounds: int = 5) -> tuple[float, int]:
    """The least CPU milliseconds, and labels visited."""
    visited = 0
    visit = paths.Reach._visit  # pyright: ignore[reportPrivateUsage]

    def counted(reach: paths.Reach, label: paths.Label) -> None:
        nonlocal visited
        visited += 1
        visit(reach, label)

    paths.Reach._visit = counted  # pyright: ignore[reportPrivateUsage]
    work()
    paths.Reach._visit = visit  # pyright: ignore[reportPrivateUsage]
    best = float("inf")
    for _ in range(rounds):
        began = process_time()
        work()
        best = min(best, process_time() - began)
    return best * 1000, visited


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("| kernel | target | ms | labels |\n|---|---|---|---|")
    for name, target in EXAMPLES:
        text = (ROOT / "examples" / f"{name}.tk").read_text(encoding="utf-8")
        module = to_module(Job(text, f"{name}.tk", target), after="insert-fences")
        milliseconds, labels = cost(lambda module=module: check(module))
        print(f"| {name} | {target} | {milliseconds:.0f} | {labels:,} |")
    print("\n| roles | buffers | stages | ms | labels |\n|---|---|---|---|---|")
    for roles, buffers, stages in LINES:
        made = line(roles, buffers, stages)
        milliseconds, labels = cost(lambda made=made: findings(made))
        print(f"| {roles} | {buffers} | {stages} | {milliseconds:.0f} | {labels:,} |")


if __name__ == "__main__":
    main()
