"""Traces: lanes of warps and engines, slices that do not overlap, waits, and their bound."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_ptx import HANG, SCALE

import tkc
from tkc.emulator import trace as trace_module
from tkc.emulator.launch import emulate
from tkc.emulator.machine import SCHEDULES
from tkc.emulator.trace import Trace
from tkc.emulator.watch import Counter

EXAMPLES = Path(__file__).parents[2] / "examples"


def traced(text: str, sources: dict[str, str] | None = None, **how: Any) -> list[dict[str, Any]]:
    trace = Trace()
    emulate(text, **how, watch=Counter(trace))
    return json.loads(trace.text(sources, {0: "first"}))["traceEvents"]


def gemm(schedule: str, seed: int) -> list[dict[str, Any]]:
    kernel = tkc.compile(EXAMPLES / "gemm_bf16.tk", target="sm_100a", params={"BN": 64})
    arrays = (np.zeros((72, 136), np.uint16), np.zeros((72, 136), np.uint16))
    launch = kernel.emulation(*arrays, np.zeros((72, 72), np.uint16), sm_count=2)
    assert launch is not None
    return traced(kernel.ptx, schedule=schedule, seed=seed, **launch)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_warp_and_engine_of_a_cta_has_lanes(schedule: str, seed: int) -> None:
    events = gemm(schedule, seed)
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {0: "CTA (0, 0, 0)", 1: "CTA (1, 0, 0)"}
    for cta in processes:
        names = [name for (pid, _), name in lanes.items() if pid == cta]
        assert names[:6] == ["warp 0 (first)", *(f"warp {i}" for i in range(1, 6))]
        assert {name.rstrip(" 0123456789") for name in names[6:]} == {"copy engine", "tensor core"}
    slices = defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            assert (e["pid"], e["tid"]) in lanes
            assert e["dur"] > 0
            slices[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    for found in slices.values():
        found.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(found))


def test_an_operation_lasts_from_issue_to_completion(seed: int) -> None:
    for schedule, lasts in (("eager", False), ("lazy", True)):
        loads = [
            e for e in gemm(schedule, seed) if e["name"].startswith("cp.async.bulk.tensor.2d.s")
        ]
        assert len(loads) == 2 * 2 * 3
        assert all((e["dur"] > 1) == lasts for e in loads)
        assert all(" warp 4" in e["args"]["issued by"] for e in loads)


def test_slices_are_called_after_their_source_lines() -> None:
    x = np.zeros(64, np.float32)
    how: dict[str, Any] = {"grid": 1, "block": 64}
    args = [x, x, np.float32(2), np.uint32(64)]
    named = traced(SCALE, {"scale.tk": "first\n    y <- x  # copies\n"}, args=args, **how)
    assert sum(e["name"] == "2: y <- x" for e in named) == 2
    unnamed = traced(SCALE, args=args, **how)
    assert sum(e["name"] == "scale.tk:2:5" for e in unnamed) == 2
    assert any(e["name"].startswith("PTX ") for e in unnamed)
    ran = [e for e in unnamed if e["ph"] == "X"]
    assert sum(e["dur"] for e in ran) == max(e["ts"] + e["dur"] for e in ran)


def test_a_hang_shows_who_waits_and_the_finding() -> None:
    events = traced(HANG, grid=1, block=32, args=[])
    (waits,) = [e for e in events if e.get("cat") == "wait"]
    assert waits["name"].startswith("waits for mbarrier 0x")
    (finding,) = [e for e in events if e.get("cat") == "finding"]
    assert finding["name"].endswith("[TK314]")


def test_a_trace_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "MOST_EVENTS", 3)
    trace = Trace()
    x = np.zeros(64, np.float32)
    args = [x, x, np.float32(2), np.uint32(64)]
    emulate(SCALE, grid=1, block=64, args=args, watch=Counter(trace))
    assert trace.cut
    assert sum(e["ph"] == "X" for e in json.loads(trace.text())["traceEvents"]) == 3
