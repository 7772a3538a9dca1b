"""Lanes of one warp that store to one place by one instruction: the values must be equal (A16)."""

from __future__ import annotations

import numpy as np
import pytest
from emulator.kernels import launch

from tkc.emulator.machine import SCHEDULES

HALF = "mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 1; mul.wide.u32 %d2, %r1, 16; add.u64 %d1, %d0, %d2;"
SHARED = (
    ".shared .align 16 .b32 s[1024]; mov.u32 %r3, s; shl.b32 %r4, %r1, 4; add.u32 %r3, %r3, %r4;"
)


def found(body: str, **options: object) -> list[str]:
    report = launch(f"{HALF}\n{body} ret;", np.zeros(1024, np.uint32), **options)
    return [f"{f.code} {f.ptx_line}" if f.code != "TK301" else f.code for f in report.findings]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("model", ["practice", "strict"])
@pytest.mark.parametrize(
    "store",
    [
        "st.global.u32 [%d1], {};",
        "st.global.v4.u32 [%d1], {{%r1, %r1, {}, %r1}};",
        f"{SHARED} st.shared.u32 [%r3], {{}};",
        "setp.ge.u32 %p0, %r0, 30; @%p0 st.global.u32 [%d1], {};",
        "cvt.u16.u32 %h0, {}; st.global.u16 [%d1], %h0;",
    ],
)
def test_values_of_two_lanes_differ(store: str, model: str, schedule: str) -> None:
    assert found(store.format("%r0"), model=model, schedule=schedule) == ["TK301"]
    assert found(store.format("%r1"), model=model, schedule=schedule) == []


@pytest.mark.parametrize(
    "body",
    [
        "st.relaxed.cta.global.u32 [%d1], %r0;",
        "st.volatile.global.u32 [%d1], %r0;",
        "red.global.add.u32 [%d1], %r0;",
        "atom.global.exch.b32 %r5, [%d1], %r0;",
        "setp.eq.u32 %p0, %r0, 30; @%p0 st.global.u32 [%d1], %r0;",
        "st.global.u8 [%d1], %r1;",
        ".local .align 4 .b32 l[4]; st.local.u32 [l], %r0;",
    ],
)
def test_what_is_no_race_of_lanes(body: str) -> None:
    assert found(body) == []
