"""setmaxnreg takes from what the CTA began with: a request beyond it waits, for ever where nobody gives back enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulator.kernels import REGISTERS

import tkc
from tkc.emulator import Report, emulate

FIVE = ".reqntid 640, 1, 1 .minnctapersm 1"  # 65536 / 640 = 102, hence 96 each


def moved(directives: str, most: int, least: int, schedule: str = "lazy") -> Report:
    """Four warpgroups go up to `most` registers, the fifth down to `least`."""
    return emulate(
        f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{directives}
{{
{REGISTERS}
    mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 512; @!%p0 bra D;
    setmaxnreg.inc.sync.aligned.u32 {most}; bra M;
D:  setmaxnreg.dec.sync.aligned.u32 {least};
M:  barrier.cta.sync 0; ret;
}}
""",
        grid=1,
        block=640,
        args=[np.zeros(1, np.uint32)],
        schedule=schedule,
    )


GPU = Path(__file__).parents[1] / "gpu/pool.tk"


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random", "pct"])
@pytest.mark.parametrize(("mode", "ends"), [(1, False), (2, True), (3, False)])
def test_a_warpgroup_leaves_room_that_gives_registers_up_not_one_that_ends(
    mode: int, ends: bool, schedule: str
) -> None:
    """As an H200 does with these kernels (`tests/gpu/check_pool.py`)."""
    y = np.zeros(4, np.float32)
    kernel = tkc.compile(GPU, target="sm_90a", params={"MODE": mode})
    report = kernel.emulate(y, 1, schedule=schedule, max_steps=20_000)
    assert (report.hang is None) == ends
    assert not ends or y.tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    ("directives", "most", "least", "ends"),
    [
        (FIVE, 112, 24, True),
        (FIVE, 120, 24, False),  # 4 * 120 + 24 = 504 of 480; what an SM has, 512, does not count
        (".maxntid 640, 1, 1 .minnctapersm 1", 120, 24, False),
        (".reqntid 640, 1, 1 .maxnreg 80", 88, 48, True),
        (".reqntid 640, 1, 1 .maxnreg 80", 96, 48, False),
        (".reqntid 640, 1, 1", 240, 24, True),  # the assembler drops it
    ],
)
def test_what_the_warpgroups_ask_for(
    directives: str, most: int, least: int, ends: bool, schedule: str
) -> None:
    report = moved(directives, most, least, schedule)
    assert (report.hang is None) == ends
    assert not ends or not report.findings
    if report.hang is not None:
        assert any(
            f"{most} registers a thread (the CTA began with" in a for a in report.hang.agents
        )
