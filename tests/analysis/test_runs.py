"""The runs that certificates are checked on: which numbers of blocks come together in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkc.analysis.instances import Copy, Event
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


def test_a_run_like_one_before_is_left_out() -> None:
    """How many tiles there are says nothing where the hardware hands them out."""
    kernel = staged((EXAMPLES / "gemm_bf16_clc.tk").read_text(encoding="utf-8"), "sm_100a")
    found = [
        tuple((copy, tuple(e.of.op for e in trace)) for copy, trace in traces.items())
        for _, traces in runs(Code(kernel, coordinates=False))
    ]
    assert len(set(found)) == len(found) < len(_few(kernel, 3))
    told = [list(runs(Code(kernel))), list(runs(Code(kernel, coordinates=False)))]
    assert len(told[0]) > len(told[1])  # whoever asks where tiles are sees others


@pytest.mark.parametrize("asked", [frozenset[str](), frozenset({"stage.tma_store"})])
def test_what_nobody_asks_for_changes_nothing_of_barriers(asked: frozenset[str]) -> None:
    kernel = staged((EXAMPLES / "gemm_2cta.tk").read_text(encoding="utf-8"), "sm_100a")
    whole, part = list(runs(Code(kernel))), list(runs(Code(kernel, asked)))

    def deeds(traces: dict[Copy, list[Event]]) -> dict[Copy, list[object]]:
        return {
            copy: [(e.of.op, e.threads, d.seen, d.phases) for e in trace if (d := e.deed)]
            for copy, trace in traces.items()
        }

    assert [deeds(traces) for _, traces in whole] == [deeds(traces) for _, traces in part]
    names = {e.of.op.name for _, traces in part for trace in traces.values() for e in trace}
    assert ("stage.tma_store" in names) is ("stage.tma_store" in asked)
    assert not {"stage.store_shared", "stage.proxy_fence"} & names
