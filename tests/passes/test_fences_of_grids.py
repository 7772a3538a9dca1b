"""What tells other threads that the grids ahead have ended stays, though no pair of accesses of the kernel rests on it."""

from __future__ import annotations

import pytest
from programs import changed

from tests.analysis.twins import COPY
from tests.passes.test_eliminate_fences import compiled
from tkc.analysis.happens_before import check
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import FenceOp

FENCED = changed(
    COPY,
    ("persistent\n", "persistent, dependent\n"),
    ("    role load:\n        i = 0\n", """\
    barrier go, count = 1
    role begin:
        wait pdl
        fence acq_rel gpu
        sync warp
        arrive go, relaxed
    role load:
        wait go, 0, relaxed
        fence acq_rel cta
        i = 0
"""),
    ("    role store:\n        i = 0\n        phase = 0\n", "    role store:\n        i = 0\n        phase = 0\n        wait go, 0\n"),
)  # fmt: skip
"""One role waits for the grids ahead and tells the others by an arrival that fences make a release."""
RELEASED = changed(
    FENCED,
    ("        fence acq_rel gpu\n        sync warp\n        arrive go, relaxed", "        sync warp\n        arrive go"),
    ("        wait go, 0, relaxed\n        fence acq_rel cta\n", "        wait go, 0\n"),
)  # fmt: skip
CLUSTER = changed(
    RELEASED,
    ("persistent, dependent", "persistent, dependent, cluster(2)"),
    ("blocks(N, 64))", "blocks(N, 64), across = m)"),
    (
        "        wait pdl\n        sync warp\n        arrive go\n",
        "        if rank == 0:\n            wait pdl\n            sync warp\n"
        "            arrive go, at = 0\n            arrive go, at = 1\n",
    ),
    ("        wait go, 0\n        i = 0", "        wait go, 0, cluster\n        i = 0"),
    ("        wait go, 0\n        for", "        wait go, 0, cluster\n        for"),
)
"""One CTA tells both."""


@pytest.mark.parametrize("text", [FENCED, RELEASED, CLUSTER], ids=["fenced", "released", "cluster"])
@pytest.mark.parametrize("model", ["practice", "strict"])
def test_no_access_comes_too_early(text: str, model: str) -> None:
    module, _, failed = compiled(text, "sm_90a", model=model)
    assert failed == []
    assert "TK318" not in {f.code for f in check(module)}


def test_a_needless_fence_of_threads_goes_beside() -> None:
    more = changed(FENCED, ("        i = 0\n        phase = 0\n        wait go, 0\n", "        fence acq_rel gpu\n        i = 0\n        phase = 0\n        wait go, 0\n"))  # fmt: skip
    kept = [op for op in compiled(more, "sm_90a")[0].walk() if isinstance(op, FenceOp)]
    assert [op.scope.data for op in kept] == ["gpu", "cta"]


def test_an_arrival_in_another_cta_keeps_its_scope() -> None:
    arrivals = [
        op
        for op in compiled(CLUSTER, "sm_90a")[0].walk()
        if isinstance(op, s.MbarrierArriveOp) and op.rank is not None
    ]
    assert [op.scope.data if op.scope is not None else "cta" for op in arrivals] == [
        "cta",
        "cluster",
    ]


@pytest.mark.parametrize("fence", ["        fence acq_rel gpu\n", "        fence acq_rel cta\n"])
def test_without_either_fence_the_check_says_so(fence: str) -> None:
    """A relaxed wait tells nothing until a fence of threads behind it acquires."""
    module, *_ = compiled(changed(FENCED, (fence, "")), "sm_90a")
    assert "TK318" in {f.code for f in check(module)}
