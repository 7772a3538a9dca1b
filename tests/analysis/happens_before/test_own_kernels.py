"""What the compiler makes is in order, and what it makes without one of its synchronisations is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.analysis.happens_before.mutants import mutants
from tests.passes.programs import gemm, lowered
from tkc.analysis.happens_before import check
from tkc.diagnostics import TkcError
from tkc.driver import to_module
from tkc.job import Job

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.tk"))
BOTH = pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])


def stage(example: Path, target: str) -> ModuleOp:
    """An example after its last barrier and fence are in place; skipped where the target lacks the means."""
    try:
        return to_module(Job(example.read_text(), example.name, target), after="insert-fences")
    except TkcError as refused:
        if "TK1" in str(refused) or "TK2" in str(refused):
            pytest.skip("the target lacks the means")
        raise


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.stem)
@BOTH
def test_examples_are_in_order(example: Path, target: str) -> None:
    assert [f.message for f in check(stage(example, target))] == []


GEMM = {
    "sm_100a": {
        "mbarrier_wait load.inputs.empty": "TK309",
        "mbarrier_expect load.inputs.expect": "TK305",
        "mbarrier_wait math.result.empty": "TK309",
        "mbarrier_wait math.inputs.full": "TK301",
        "tcgen05_fence math.fence.0": None,
        "tcgen05_fence math.fence.1": None,
        "tcgen05_commit math.inputs.release": "TK305",
        "tcgen05_commit math.result.commit": "TK305",
        "mbarrier_wait store.result.full": "TK301",
        "tcgen05_fence store.fence.0": None,
        "tcgen05_fence store.fence.1": None,
        "bulk_wait store.store.staging.drained": "TK309",
        "role_barrier store.store.staging.free": "TK309",
        "proxy_fence store.fence.2": None,
        "proxy_fence store.fence.3": "TK302",
        "role_barrier store.filled": "TK301",
        "bulk_commit store.store.staging.commit": "TK308",
        "warp_sync store.result.release.warp": None,
        "mbarrier_arrive store.result.release": "TK305",
        "bulk_wait store.drain": "TK324",
    },
    "sm_90a": {
        "mbarrier_wait load.inputs.empty": "TK309",
        "mbarrier_expect load.inputs.expect": "TK305",
        "mbarrier_wait math.inputs.full": "TK301",
        "mma_wait math.products": "TK309",
        "warp_sync math.inputs.release.warp": None,
        "mbarrier_arrive math.inputs.release": "TK305",
        "bulk_wait math.store.staging.drained": "TK308",
        "role_barrier math.store.staging.free": "TK309",
        "proxy_fence math.fence.0": None,
        "proxy_fence math.fence.1": "TK302",
        "bulk_commit math.store.staging.commit": "TK308",
        "bulk_wait store.drain": "TK324",
    },
}
"""What is found without a site; None: it is redundant."""


@BOTH
def test_a_product_without_one_of_its_synchronisations(target: str) -> None:
    found = {
        name: {f.code for f in check(module)}
        for name, module in mutants(lowered(gemm(), target, "insert-fences"))
    }
    for name, code in GEMM[target].items():
        assert found[name] == set() if code is None else code in found[name], (name, found[name])
    redundant = {name for name, codes in found.items() if not codes}
    assert all("fence" in name or "warp_sync" in name for name in redundant), redundant
