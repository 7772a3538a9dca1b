"""Which fences of our own kernels causality gives, with the chain that says so, and which are needed."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.analysis.happens_before.mutants import site_id
from tests.passes.programs import gemm, lowered
from tkc.analysis.happens_before import check
from tkc.analysis.happens_before.redundancy import Fences
from tkc.ir.stage.ops import KernelOp

NEEDED = {
    "sm_100a": {"store.fence.3"},
    "sm_90a": {"math.fence.1", "math.fence.3", "math.fence.5", "math.fence.7"},
}
"""Between the registers' writes of staging and the copy engine's reads."""


def fences(module: ModuleOp, profile: str = "practice") -> Fences:
    return Fences(next(k for k in module.body.block.ops if isinstance(k, KernelOp)), profile)


@pytest.mark.parametrize("target", NEEDED)
def test_a_product_needs_a_fence_before_each_store_and_no_other(target: str) -> None:
    module = lowered(gemm(), target, "insert-fences")
    known = fences(module)
    answers = {site_id(f): known.redundant(f) for f in known.sites}
    assert {name for name, a in answers.items() if not a.redundant} == NEEDED[target]
    for name in NEEDED[target]:
        hazard = answers[name].counterexample
        assert hazard is not None
        assert hazard.verdict == "wrong proxy"
        assert (hazard.first.event.name, hazard.second.event.name) == ("store_shared", "tma_store")


@pytest.mark.parametrize("target", NEEDED)
def test_all_that_are_redundant_may_go_together(target: str) -> None:
    module = lowered(gemm(), target, "insert-fences")
    known = fences(module)
    gone = known.all_redundant()
    assert {site_id(f) for f in known.sites} - {site_id(f) for f in gone} == NEEDED[target]
    assert known.redundant(*gone).redundant
    for op in gone:
        op.detach()
        op.erase()
    assert check(module) == []


def test_a_proof_names_its_rules_sections_and_assumptions() -> None:
    module = lowered(gemm(), "sm_100a", "insert-fences")
    known = fences(module)
    after_wait = next(f for f in known.sites if site_id(f) == "store.fence.2")
    answer = known.redundant(after_wait)
    assert answer.redundant
    steps = [s for proof in answer.proofs for s in proof.chain]
    assert {"await-group", "implicit-fence-read", "meet"} & {s.rule for s in steps}
    assert all(s.section for s in steps)
    assert answer.assumptions <= {"A7", "A11", "A3", "A4", "A13"}


def test_the_strict_profile_keeps_a_fence_that_practice_gives() -> None:
    """wait_group.read holds a proxy fence by A7 only."""
    module = lowered(gemm(), "sm_90a", "insert-fences")
    known = fences(module, "strict")
    kept = {site_id(f) for f in known.sites if not known.redundant(f).redundant}
    assert "math.fence.0" in kept
    assert "math.fence.0" not in {
        site_id(f) for f in fences(module).sites if not fences(module).redundant(f).redundant
    }


def test_two_fences_each_redundant_because_of_the_other() -> None:
    """The fence by the writers and one by the issuer: either may go, both may not (S9)."""
    module = lowered(gemm(), "sm_100a", "insert-fences")
    store = next(op for op in module.walk() if op.name == "stage.tma_store")
    writers = next(
        op
        for op in module.walk()
        if op.name == "stage.proxy_fence" and site_id(op) == "store.fence.3"
    )
    from xdsl.dialects.builtin import StringAttr

    issuer = writers.clone()
    issuer.properties["id"] = StringAttr("issuer")
    issuer.properties["by"] = StringAttr("one")
    block = store.parent_block()
    assert block is not None
    block.insert_op_before(issuer, store)
    known = fences(module)
    assert known.redundant(issuer).redundant
    assert known.redundant(writers).redundant
    assert not known.redundant(issuer, writers).redundant
    assert not known.redundant(issuer, gone=[writers]).redundant
    assert len({issuer, writers} & set(known.all_redundant())) == 1
