"""What a watch counts, and that it changes nothing of what it looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from small_ptx import HANG, HEADER, SCALE, TILE

import tkc
from tkc.diagnostics import Location
from tkc.emulator import Report, TensorMap
from tkc.emulator.launch import emulate, load
from tkc.emulator.machine import SCHEDULES, Machine
from tkc.emulator.trace import Trace
from tkc.emulator.watch import Counter, Watch

EXAMPLES = Path(__file__).parents[2] / "examples"

MEETING = (
    HEADER
    + """\
.visible .entry meet() .reqntid 64
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    @%p1 fence.proxy.async;
    @%p1 bra FIRST;
    bar.sync 0;
    ret;
FIRST:
    mov.u32 %r2, 1;
    mov.u32 %r2, 2;
    mov.u32 %r2, 3;
    bar.sync 0;
    @%p1 bar.sync 1, 32;
    ret;
}
"""
)
"""Warp 0 fences, and comes late to a barrier where warp 1 waits."""


def run_scale(**more: Any) -> Report:
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    args = [x, y, np.float32(2), np.uint32(100)]
    report = emulate(SCALE, grid=2, block=64, args=args, **more)
    assert (y == 2 * x).all()
    return report


def run_tile(**more: Any) -> Report:
    x, out = np.arange(480, dtype=np.float16).reshape(20, 24), np.zeros(64, np.float16)
    tile = TensorMap(x, dtype="f16", sizes=[24, 20], strides=[48], box=[8, 8])
    report = emulate(TILE, grid=1, block=32, args=[tile, out], **more)
    assert (out.reshape(8, 8) == x[:8, :8]).all()
    return report


def test_without_a_watch_nothing_stands_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Machine] = []
    run = Machine.run

    def look(machine: Machine) -> Report:
        seen.append(machine)
        return run(machine)

    monkeypatch.setattr(Machine, "run", look)
    run_scale()
    run_scale(watch=Watch())
    for machine in seen:
        assert machine.program is load(SCALE)
        assert machine.memory.observer is machine.record


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_counter_changes_nothing(schedule: str, seed: int) -> None:
    kernel = tkc.compile(EXAMPLES / "gemm_bf16.tk", target="sm_100a", params={"BN": 64})
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 1 << 14, (72, 40)).astype(np.uint16) for _ in range(2))
    outputs: list[Any] = []
    reports: list[Report] = []
    for watch in (None, Counter(), Counter(Trace())):
        c = np.zeros((72, 72), np.uint16)
        launch = kernel.emulation(a, b, c)
        assert launch is not None
        reports.append(emulate(kernel.ptx, **launch, schedule=schedule, seed=seed, watch=watch))
        outputs.append(c)
    assert (outputs[0] == outputs[1]).all()
    assert (outputs[0] == outputs[2]).all()
    assert reports[0].steps == reports[1].steps == reports[2].steps
    assert reports[1].stats == reports[2].stats
    assert reports[0].stats.items() <= reports[1].stats.items()


def test_a_decoded_program_is_not_changed() -> None:
    before = [segment.ending for segment in load(SCALE).segments]
    run_scale(watch=Counter())
    assert [segment.ending for segment in load(SCALE).segments] == before


def test_instructions_are_counted_by_warp_and_place() -> None:
    watch = Counter()
    run_scale(watch=watch)
    first, second = watch.warps()
    assert (first.index, second.index) == (0, 1)
    # 15 instructions in each CTA, and one ret of the lanes beyond the end in the last warp.
    assert (first.instructions, second.instructions) == (30, 31)
    assert first.places[Location("scale.tk", 2, 5)] == 2 * 4
    assert sum(second.places.values()) == 31


def test_bytes_are_counted_by_who_moves_them() -> None:
    stats = run_scale(watch=Counter()).stats
    assert stats["bytes.threads.global.read"] == stats["bytes.threads.global.write"] == 400
    stats = run_tile(watch=Counter()).stats
    assert stats["bytes.tma.load"] == 128
    assert stats["bytes.threads.shared.read"] == stats["bytes.threads.global.write"] == 128


def test_waits_are_counted_once_however_often_they_are_tried() -> None:
    name = "mbarrier.try_wait.parity"
    stats = run_tile(watch=Counter(), schedule="eager").stats
    assert stats[f"waits.{name}"] == 1
    assert f"waits_blocked.{name}" not in stats
    stats = run_tile(watch=Counter(), schedule="lazy").stats
    assert stats[f"waits.{name}"] == stats[f"waits_blocked.{name}"] == 1


def test_the_steps_of_others_are_counted_while_a_warp_waits() -> None:
    watch = Counter()
    stats = emulate(MEETING, grid=1, block=64, args=[], watch=watch).stats
    first, second = watch.warps()
    # Warp 0 comes first and waits until warp 1 has done its instructions up to the barrier, and none of its own.
    assert (first.waits.times, first.waits.blocked) == (2, 1)
    assert (second.waits.times, second.waits.blocked) == (1, 0)
    assert first.waits.steps > 0
    assert second.waits.steps == 0
    assert stats["waits.bar.sync"] == 3
    assert stats["wait_steps.bar.sync"] == first.waits.steps


def test_a_guarded_instruction_counts_where_it_is_executed() -> None:
    stats = emulate(MEETING, grid=3, block=64, args=[]).stats
    assert stats["fences.fence.proxy.async"] == 3
    # Per CTA: warp 0 mov setp fence bra, 3 mov, 2 bar, ret; warp 1 mov setp fence bra, bar, ret.
    counted = sum(count for name, count in stats.items() if name.startswith("instructions."))
    assert counted == 3 * (10 + 6)


def test_a_wait_that_nobody_ends_lasts_until_the_end() -> None:
    report = emulate(HANG, grid=1, block=32, args=[], watch=Counter())
    assert not report.ended
    assert report.stats["waits_blocked.mbarrier.try_wait.parity"] >= 1


def test_a_launch_that_ends_says_so() -> None:
    assert run_scale().ended
    assert not emulate(HANG, grid=1, block=32, args=[]).ended
    assert not run_stopped().ended


def run_stopped() -> Report:
    x = np.zeros(4, np.float32)
    return emulate(SCALE, grid=1, block=64, args=[x, x, np.float32(2), np.uint32(64)])


PRODUCTS = (
    HEADER
    + """\
.visible .entry products() .reqntid 64
{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .f32 %f<5>;
    mov.u32 %r1, 0;
    mov.u32 %r2, 0;
    mov.u32 %r3, 0;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r5, %tid.x;
    setp.lt.u32 %p1, %r5, 32;
    mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
        {%f1, %f1, %f1, %f1}, {%r1, %r2}, {%r3}, {%f1, %f1, %f1, %f1};
    @%p1 mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
        {%f1, %f1, %f1, %f1}, {%r1, %r2}, {%r3}, {%f1, %f1, %f1, %f1};
    ret;
}
"""
)


def test_products_of_warps_are_counted_where_they_are_executed() -> None:
    stats = emulate(PRODUCTS, grid=2, block=64, args=[]).stats
    assert stats["mma.warp"] == 2 * (2 + 1)


def test_turns_at_the_banks_are_counted() -> None:
    """Pairs of f32 of a product's fragment meet two by two in a slot of 128-byte rows; 16-bit matrices do not."""
    stats: dict[str, dict[str, int]] = {}
    for name in ("gemm_splitk", "gemm_bf16"):
        kernel = tkc.compile(EXAMPLES / f"{name}.tk", target="sm_90a")
        a, b = (np.ones((128, 64), ml_dtypes.bfloat16) for _ in range(2))
        c = np.zeros((128, 128), np.float32 if name == "gemm_splitk" else ml_dtypes.bfloat16)
        report = emulate(kernel.ptx, **kernel.emulation(a, b, c, sm_count=1), watch=Counter())
        stats[name] = {k: v for k, v in report.stats.items() if k.startswith("shared_")}
    requests = stats["gemm_splitk"]["shared_requests.st"]
    assert stats["gemm_splitk"]["shared_wavefronts.st"] == 4 * requests
    assert stats["gemm_splitk"]["shared_conflicts.st"] == 2 * requests
    assert (
        stats["gemm_bf16"]["shared_wavefronts.stmatrix"]
        == 4 * stats["gemm_bf16"]["shared_requests.stmatrix"]
    )
    assert stats["gemm_bf16"]["shared_conflicts.stmatrix"] == 0
