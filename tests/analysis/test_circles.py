"""Waits that may come after themselves by who tells whom: all that do, by what is known on the way."""

from __future__ import annotations

from collections import Counter

from oracles.as_stage import NotInStage, as_stage
from oracles.clustered import clustered
from oracles.generate import generate

from tkc.analysis import moments
from tkc.analysis.circles import Circles
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import build
from tkc.ir.stage.ops import KernelOp

SEEDS = range(3106, 3130)


def asked(seed: int) -> Counter[tuple[bool, bool]]:
    """Of all waits of two random kernels, whether there may be a circle, and whether there is one."""
    found: Counter[tuple[bool, bool]] = Counter()
    for make in (generate, clustered):
        try:
            module, _ = as_stage(*make(seed))
        except NotInStage:
            continue
        for op in module.body.block.ops:
            if isinstance(op, KernelOp):
                graph = build(program(op))
                circles = Circles(graph)
                for wait in (wait for ring in graph.rings.values() for wait in ring.waits):
                    is_one = any(True for _ in moments._behind_itself(graph, wait, False))
                    found[circles.may_have(wait), is_one] += 1
    return found


def test_every_circle_may_be_one() -> None:
    found = sum((asked(seed) for seed in SEEDS), Counter[tuple[bool, bool]]())
    assert not found[False, True]
    assert found[True, True] > 10
    assert found[False, False] > 3 * found[True, False]
