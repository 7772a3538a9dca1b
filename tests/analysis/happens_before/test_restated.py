"""A graph whose operations have got other forms says what one says that is built with these; and what a proof rests on is
not told of a way that is not there any more."""

from __future__ import annotations

from itertools import permutations

import pytest
from oracles.as_stage import as_stage
from oracles.roles import parse
from xdsl.dialects.builtin import StringAttr

from tests.analysis.happens_before.test_quick import verdicts
from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import build
from tkc.analysis.happens_before.inserted import put_before, restate
from tkc.analysis.happens_before.quick import Quick
from tkc.analysis.happens_before.rests import rests_on
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import Judge, Verdict, conflicts, places
from tkc.ir.stage import ops as s

RING = """
buffer a shared 2
barrier f 2 1
barrier e 2 32
role load 1
  for K
    wait e[i] lag one
    expect f[i] 1
    fence_acquire
    tma a[i] f[i]
    step i
role use 1
  for K
    wait f[i]
    ld a[i]
    fence
    arrive e[i]
    step i
"""
SPACES = ["global", "shared::cta", "release", ""]


def ring(text: str = RING) -> tuple[s.KernelOp, s.ProxyFenceOp]:
    """The kernel, and the reader's fence."""
    roles = parse(text)
    module, sites = as_stage(roles, "sm_100a")
    [at] = [op.site for _, op in roles.ops() if op.name == "fence"]
    [fence] = [op for op, site in sites.items() if site == at]
    kernel = next(op for op in module.walk() if isinstance(op, s.KernelOp))
    assert isinstance(fence, s.ProxyFenceOp)
    return kernel, fence


@pytest.mark.parametrize(("first", "then"), list(permutations(SPACES, 2)))
@pytest.mark.parametrize("profile", ["strict", "practice"])
def test_a_fence_with_another_space(first: str, then: str, profile: str) -> None:
    kernel, fence = ring()
    fence.properties["space"] = StringAttr(first)
    graph = build(program(kernel))
    before = verdicts(Quick(graph, PROFILES[profile]))
    fence.properties["space"] = StringAttr(then)
    restate(graph, [fence])
    made = build(program(kernel))
    assert graph.one_way == made.one_way
    assert [n.does for n in graph.nodes] == [n.does for n in made.nodes]
    after = verdicts(Quick(graph, PROFILES[profile]))
    assert after == verdicts(Quick(made, PROFILES[profile]))
    assert (before == after) == ("global" not in (first, then))
    assert after == verdicts(Judge(graph, PROFILES[profile]))


def test_a_graph_with_a_half_put_in_has_halves() -> None:
    kernel, fence = ring(RING.replace("    fence_acquire\n", ""))
    graph = build(program(kernel))
    assert not graph.one_way
    half = fence.clone()
    half.properties["space"] = StringAttr("acquire")
    put_before(graph, {fence: half})
    assert graph.one_way


def test_nothing_is_said_of_what_a_proof_rests_on_whose_way_is_not_found_any_more() -> None:
    kernel, fence = ring()
    graph = build(program(kernel))
    judge, rested = Judge(graph, graph.assumed), 0
    for here in places(graph).values():
        for first, second in conflicts(here):
            hazard = judge.hazard(first, second, here)
            assert hazard.verdict is Verdict.ORDERED
            rest = rests_on(judge, hazard, here)
            assert rest
            rested += fence in rest
            for reach in judge.reached.values():
                reach.measured.clear()
                reach.asked.clear()
                reach.labels.clear()
                reach.sent.clear()
            assert rests_on(judge, hazard, here) is None
            judge = Judge(graph, graph.assumed)
    assert rested
