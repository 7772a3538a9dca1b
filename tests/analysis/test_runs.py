"""The runs that certificates are checked on: which numbers of blocks come together in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkc.analysis.machine import Code
from tkc.analysis.phases import _few, runs  # pyright: ignore[reportPrivateUsage]
from tkc.driver import to_module
from tkc.ir.stage import ops as s
from tkc.job import Job

EXAMPLES = Path(__file__).parents[2] / "examples"


def staged(text: str, target: str) -> s.KernelOp:
    module = to_module(Job(text, "k.tk", target), after="eliminate-fences")
    return next(op for op in module.walk() if isinstance(op, s.KernelOp))


@pytest.mark.parametrize("names", range(2, 7))
def test_each_size_is_long_one_and_none_beside_others_that_are_there(names: int) -> None:
    kernel = staged((EXAMPLES / "gemm_bf16.tk").read_text(encoding="utf-8"), "sm_100a")
    rows = _few(kernel, names)
    slots = max(op.depth.value.data for op in kernel.walk() if isinstance(op, s.BarriersOp))
    for at in range(names):
        beside = [(row[at], [n for i, n in enumerate(row) if i != at]) for row in rows]
        there = [(n, others) for n, others in beside if min(others) > 0]
        assert any(n > slots for n, _ in there)
        assert any(n == 1 and max(others) > slots for n, others in there)
        assert any(n == 0 and max(others) > slots for n, others in there)
    assert any(row[-1] > slots and row[-2] > 1 for row in rows)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_tile_of_a_product_goes_round_its_ring(target: str) -> None:
    """One loop over K has more turns than the ring has slots, and another tile comes behind it."""
    text = (EXAMPLES / "gemm_bf16.tk").read_text(encoding="utf-8")
    kernel = staged(text, target)
    found: list[dict[str, int]] = []
    for told, traces in runs(Code(kernel)):
        assert any(traces.values()) or " = 0" in told
        found.append({a: int(b) for a, _, b in (x.partition(" = ") for x in told.split(", "))})
    assert any(
        f["K"] > 4 * 64 and max(f["M"] - 128, f["N"] - 256) > 0 < min(f.values()) for f in found
    )
    assert any(f["K"] == 1 and f["M"] and f["N"] for f in found)
    assert any(f["K"] == 0 and f["M"] and f["N"] for f in found)
