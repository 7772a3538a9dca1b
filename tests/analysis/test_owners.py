"""Accesses of several CTAs' memory that are followed together only where no fence tells them apart."""

from __future__ import annotations

import pytest
from oracles.as_stage import NotInStage, as_stage
from oracles.clustered import clustered

from tkc.analysis.happens_before.extract import program
from tkc.analysis.happens_before.graph import build
from tkc.analysis.happens_before.rules import PROFILES
from tkc.analysis.happens_before.verdicts import Judge, places
from tkc.ir.isa.memory import Space


@pytest.mark.parametrize("profile", ["strict", "practice"])
def test_what_is_shared_is_of_one_cta_s_memory(profile: str) -> None:
    """A fence of `.shared::cta` joins accesses of its own CTA's memory alone, whoever they count for (A1)."""
    asked, owners = 0, set[int]()
    for seed in range(12):
        try:
            module, _ = as_stage(*clustered(seed))
        except NotInStage:
            continue
        [kernel] = module.body.block.ops
        graph = build(program(kernel))  # pyright: ignore
        graph.assumed = PROFILES[profile]
        judge = Judge(graph, PROFILES[profile])
        for place in (place for here in places(graph).values() for place in here):
            if place.access.space is not Space.SHARED:
                continue
            reach = judge.reach(place)
            for source in (reach.source, reach.alike.source):
                assert source.access.owner == place.access.owner, (seed, str(place))
            asked += 1
            owners.add(place.access.owner ^ place.node.role.cta)
    assert asked > 50, asked
    assert owners == {0, 1}
