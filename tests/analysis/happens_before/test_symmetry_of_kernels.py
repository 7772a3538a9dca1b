"""Kernels whose CTAs or copies of roles are alike: each pair judged for itself has the verdict of those it is like."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tkc.analysis.happens_before.events import Event
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import Graph, build
from tkc.analysis.happens_before.rules import PRACTICE
from tkc.analysis.happens_before.verdicts import Judge, Verdict, conflicts, places
from tkc.driver import to_module
from tkc.ir.stage import ops as s
from tkc.job import Job

ROOT = Path(__file__).parents[3]
CTAS = [
    ("lit_tests/run/cluster-copy.tk", "sm_90a"), ("lit_tests/run/cluster-copy.tk", "sm_100a"),
    ("lit_tests/run/gemm-clusters.tk", "sm_90a"), ("lit_tests/run/gemm-clusters.tk", "sm_100a"),
    ("lit_tests/run/pair-ring.tk", "sm_90a"), ("examples/gemm_cluster.tk", "sm_100a"),
]  # fmt: skip
COPIES = [
    ("examples/gemm_int8.tk", "sm_90a"), ("examples/gemm_batched.tk", "sm_90a"),
    ("lit_tests/run/in-place-of.tk", "sm_90a"), ("lit_tests/run/accumulator-place.tk", "sm_90a"),
]  # fmt: skip
TAKEN = 4
"""How many of a kernel's synchronising operations are taken out, one at a time."""


def graph(path: str, target: str) -> Graph:
    source = (ROOT / path).read_text(encoding="utf-8")
    module = to_module(Job(source, path, target), after="insert-fences")
    (kernel,) = [op for op in module.walk() if isinstance(op, s.KernelOp)]
    return build(program(kernel))


def compare(of: Graph, without: frozenset[Event]) -> tuple[int, int]:
    """How many pairs there are, and how many of them are in no order."""
    alike = Judge(of, PRACTICE, without)
    each = Judge(of, PRACTICE, without)
    pairs = bad = 0
    for here in places(of).values():
        for a, b in conflicts(here):
            found, right = alike.hazard(a, b, here).verdict, each._judge(a, b, here).verdict  # pyright: ignore[reportPrivateUsage]
            assert found is right, (str(a), str(b), sorted({e.name for e in without}))
            pairs += 1
            bad += right is not Verdict.ORDERED
    assert len(alike.alike) < pairs  # some were taken for alike
    return pairs, bad


@pytest.mark.parametrize(("path", "target"), CTAS + COPIES)
def test_pairs_that_are_alike_have_one_verdict(path: str, target: str) -> None:
    of = graph(path, target)
    assert bool(of.symmetry.swaps) == ((path, target) in CTAS)
    assert compare(of, frozenset())[1] == 0
    events = [e for r in of.program.roles for e in r.events() if e.act is not None]
    taken = random.Random().sample(list(dict.fromkeys(e.op for e in events)), TAKEN)
    for op in taken:
        compare(of, frozenset(e for e in events if e.op is op))
