"""Verdicts alone are those that come with chains, in kernels as they are and with something taken out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from oracles.as_stage import NotInStage, as_stage
from oracles.generate import generate

from tkc.analysis.happens_before.events import Program
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import Graph, build
from tkc.analysis.happens_before.quick import Quick
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import Judge, Verdict, conflicts, places
from tkc.driver import to_module
from tkc.ir.stage import ops as s
from tkc.job import Job

ROOT = Path(__file__).parents[3]
KERNELS = [
    ("examples/gemm_nvfp4_2cta.tk", "sm_100a"), ("examples/gemm_mxfp8_clc.tk", "sm_100a"),
    ("examples/gemm_grouped_list.tk", "sm_90a"), ("examples/row_softmax.tk", "sm_90a"),
    ("lit_tests/run/conditions.tk", "sm_90a"),
]  # fmt: skip
TAKEN = 2
"""How many of a kernel's synchronising operations are taken out, one at a time."""


def kernel(path: str, target: str) -> s.KernelOp:
    source = (ROOT / path).read_text(encoding="utf-8")
    module = to_module(Job(source, path, target), after="insert-fences")
    return next(op for op in module.walk() if isinstance(op, s.KernelOp))


def verdicts(judge: Judge) -> list[object]:
    """Of each pair; of those that are in no order also the nearest instances."""
    return [
        h.verdict if h.verdict is Verdict.ORDERED else (h.verdict, h.witness, h.forward, h.back)
        for here in places(judge.graph).values()
        for h in [judge.hazard(a, b, here) for a, b in conflicts(here)]
    ]


def compare(made: Program, profile: str, least: int = 1) -> tuple[Graph, Graph]:
    """The graphs that both have followed."""
    slow, fast = build(made), build(made)
    slow.assumed = fast.assumed = PROFILES[profile]
    found = verdicts(Quick(fast, PROFILES[profile]))
    assert found == verdicts(Judge(slow, PROFILES[profile]))
    assert len(found) >= least
    return slow, fast


@pytest.mark.parametrize(("path", "target"), KERNELS)
def test_a_kernel_as_it_is_and_without_an_operation(path: str, target: str) -> None:
    of = kernel(path, target)
    slow, fast = compare(program(of), "practice")
    assert fast.visited < slow.visited
    acts = [e for r in slow.program.roles for e in r.events() if e.act is not None]
    for op in random.Random().sample(list(dict.fromkeys(e.op for e in acts)), TAKEN):
        made = program(of)
        for role in made.roles:
            for event in role.events():
                event.act = None if event.op is op else event.act
        compare(made, random.choice(list(PROFILES)))


def test_random_programs() -> None:
    first, asked = random.randrange(10**9), 0
    for seed in range(first, first + 60):
        try:
            module, _ = as_stage(*generate(seed))
        except NotInStage:
            continue
        for op in module.walk():
            if isinstance(op, s.KernelOp):
                compare(program(op), random.choice(list(PROFILES)), 0)
                asked += 1
    assert asked > 30
