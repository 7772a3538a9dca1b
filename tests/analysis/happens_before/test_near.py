"""What near instances tell of a pair is what a search to the end says, and what proofs rest on is all that they need."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracles.as_stage import NotInStage, as_stage
from oracles.test_eliminate import crowded
from oracles.wild import wild

from tkc.analysis.happens_before.events import Program
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import build
from tkc.analysis.happens_before.near import Near
from tkc.analysis.happens_before.rests import Fence, rests_on
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import Judge, Verdict, conflicts, places
from tkc.driver import to_module
from tkc.ir.stage import ops as s
from tkc.job import Job

ROOT = Path(__file__).parents[3]
KERNELS = [
    ("gemm_bf16_clc", "sm_100a"), ("gemm_grouped_list", "sm_90a"), ("row_softmax", "sm_90a"),
]  # fmt: skip


def told(made: Program, profile: str = "practice") -> tuple[int, int]:
    """How many pairs of a program without its fences are in no order, and how many of these near instances tell."""
    graph = build(made)
    graph.assumed = PROFILES[profile]
    gone = {e for role in made.roles for e in role.events() if isinstance(e.act, Fence)}
    judge = Judge(graph, PROFILES[profile], frozenset(gone))
    near, apart, seen = Near(judge), 0, 0
    for here in places(graph).values():
        for first, second in conflicts(here):
            parts = near.parts(first, second)
            ordered = judge.hazard(first, second, here).verdict is Verdict.ORDERED
            assert not (parts and ordered), (str(first), str(second))
            apart, seen = apart + (not ordered), seen + parts
    return apart, seen


def rested(made: Program) -> int:
    """How many proofs rest on fences; each pair has a proof without the fences that its own does not rest on."""
    graph = build(made)
    with_all, many = Judge(graph, graph.assumed), 0
    fences = [e for role in made.roles for e in role.events() if isinstance(e.act, Fence)]
    for here in places(graph).values():
        for first, second in conflicts(here):
            hazard = with_all.hazard(first, second, here)
            if hazard.verdict is not Verdict.ORDERED:
                continue
            rest = rests_on(with_all, hazard, here)
            assert rest is not None
            gone = frozenset(e for e in fences if e.op not in rest)
            again = Judge(graph, graph.assumed, gone).hazard(first, second, here)
            assert again.verdict is Verdict.ORDERED, (str(first), str(second))
            many += any(e.op in rest for e in fences)
    return many


def kernel(name: str, target: str) -> Program:
    path = ROOT / "examples" / f"{name}.tk"
    job = Job(path.read_text(encoding="utf-8"), str(path), target)
    module = to_module(job, after="insert-fences")
    return program(next(op for op in module.walk() if isinstance(op, s.KernelOp)))


@pytest.mark.parametrize(("name", "target"), KERNELS)
def test_kernels_without_their_fences(name: str, target: str) -> None:
    made = kernel(name, target)
    apart, seen = told(made)
    assert apart
    assert seen > apart // 2
    assert rested(made)


@pytest.mark.parametrize("make", [crowded, wild])
def test_random_programs_without_their_fences(make: object) -> None:
    apart = seen = many = 0
    for seed in range(700_000, 700_030):
        source, target = make(seed)  # pyright: ignore
        try:
            module, _ = as_stage(source, target)
        except NotInStage:
            continue
        [of] = module.body.block.ops
        made = program(of)  # pyright: ignore
        one, other = told(made, ("practice", "strict")[seed % 2])
        apart, seen, many = apart + one, seen + other, many + rested(made)
    assert seen > apart // 4
    assert many > 15
