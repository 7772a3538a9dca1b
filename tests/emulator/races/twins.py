"""Twins: a kernel that is wrong and the same kernel mended, and what the emulator must say of each.

A body may hold `{name}` for a statement: the bad form of a twin has there what `bad` says, the mended one what
`good` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from emulator.kernels import launch, text

from tkc.emulator import Report

SCHEDULES = ("eager", "lazy", "random", "pct")

HEAD = """
    .shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;
    .shared .align 8 .b64 more;
    .reg .b32 t, at, f, e, m, mine, w, o; .reg .pred first, p, q;
    mov.u32 t, %tid.x; mov.u32 at, tile; mov.u32 f, full; mov.u32 e, empty; mov.u32 m, more;
    mad.lo.u32 mine, t, 16, at; shr.u32 w, t, 5; setp.eq.u32 first, t, 0;
"""
"""`at` is a tile of 8 KiB, `mine` the thread's 16 bytes in it; f, e, m are mbarriers; w the warp, `first` thread 0."""


def init(f: int = 1, e: int = 1, m: int = 1) -> str:
    """The mbarriers, initialised and published to the CTA."""
    return f"""
    @first mbarrier.init.shared::cta.b64 [f], {f}; @first mbarrier.init.shared::cta.b64 [e], {e};
    @first mbarrier.init.shared::cta.b64 [m], {m}; bar.sync 0;
    """


def wait(bar: str, parity: int, form: str = "", guard: str = "") -> str:
    """A loop that waits for a phase; its label is of the place where it stands."""
    wait.count += 1  # type: ignore[attr-defined]
    label = f"W{wait.count}"  # type: ignore[attr-defined]
    return f"{label}: mbarrier.try_wait.parity{form}.shared::cta.b64 p, [{bar}], {parity}; @!p bra {label};"


wait.count = 0  # type: ignore[attr-defined]

LOAD = """mbarrier.arrive.expect_tx.shared::cta.b64 _, [f], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [at], [%d0], 1024, [f];"""
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%d1], [at], 1024; cp.async.bulk.commit_group;"
FENCE = "fence.proxy.async.shared::cta;"


@dataclass(frozen=True)
class Twin:
    """`code` is that of the bad form's finding, `at` a pattern of the instruction that it is at.

    Codes are alternatives joined by `|`, where the order of events decides which of two sides is seen first.
    """

    name: str
    body: str
    code: str
    at: str
    bad: Mapping[str, str] = field(default_factory=dict)
    good: Mapping[str, str] = field(default_factory=dict)
    block: int = 64
    cluster: int = 1
    target: str = "sm_90a"
    size: int = 4096
    strict: str = ""
    """The code under the strict profile where practice has nothing to say of the bad form (`code` is then empty)."""


def run(twin: Twin, form: Mapping[str, str], schedule: str, seed: int, **options: Any) -> Report:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 1 << 32, twin.size, dtype=np.uint32)
    out = np.zeros(twin.size, np.uint32)
    return launch(
        text_of(twin, form),
        source,
        out,
        block=twin.block,
        grid=twin.cluster,
        cluster=twin.cluster,
        target=twin.target,
        schedule=schedule,
        seed=seed,
        **options,
    )


def text_of(twin: Twin, form: Mapping[str, str]) -> str:
    body = twin.body
    for name in {**twin.bad, **twin.good}:
        body = body.replace("{" + name + "}", form.get(name, ""))
    return body


def instruction(twin: Twin, form: Mapping[str, str], line: int) -> str:
    """The line of the whole PTX text."""
    whole = text(text_of(twin, form), ("a0", "a1"), twin.target)
    return whole.split("\n")[line - 1]


def check_bad(twin: Twin, schedule: str, seed: int) -> None:
    report = run(twin, twin.bad, schedule, seed)
    found = [f for f in report.findings if f.code in twin.code.split("|")]
    assert found, f"{twin.name}: no {twin.code}\n" + "\n".join(map(str, report.findings))
    places = [instruction(twin, twin.bad, f.ptx_line) for f in found]
    assert any(re.search(twin.at, place) for place in places), (twin.name, places)
    for finding in report.races:
        assert len(finding.accesses) == 2
        assert any("cheapest order" in note for note in finding.notes)


def check_silent(twin: Twin, form: Mapping[str, str], schedule: str, seed: int) -> None:
    report = run(twin, form, schedule, seed)
    assert not report.findings, f"{twin.name}\n" + "\n".join(map(str, report.findings))


def check_practice(chain: Twin, schedule: str, seed: int) -> None:
    """A chain of one form has its code, or nothing, under the profile of practice."""
    report = run(chain, {}, schedule, seed)
    codes = {f.code for f in report.findings}
    assert codes == ({chain.code} if chain.code else set()), "\n".join(map(str, report.findings))


def check_strict(chain: Twin, schedule: str, seed: int) -> None:
    """What practice takes as well is an error; the rest is a warning that says what practice rests on."""
    report = run(chain, {}, schedule, seed, model="strict")
    errors = {f.code for f in (*report.races, *report.faults)}
    assert errors == ({chain.code} if chain.code else set())
    warned = {f.code for f in report.warnings}
    wanted = {chain.strict} if chain.strict and not chain.code else set()
    assert warned == wanted, "\n".join(map(str, report.findings))
    for finding in report.warnings:
        assert any("practice rests on A" in note for note in finding.notes)


def both_asked_of(twins: Sequence[Twin]) -> tuple[Callable[..., None], Callable[..., None]]:
    """What is asked of every table of twins: that the bad form is found, and that the mended one is silent."""
    schedules = pytest.mark.parametrize("schedule", SCHEDULES)
    each = pytest.mark.parametrize("twin", twins, ids=lambda t: t.name)

    @schedules
    @each
    def is_found(twin: Twin, schedule: str, seed: int) -> None:
        check_bad(twin, schedule, seed)

    @schedules
    @each
    def is_silent(twin: Twin, schedule: str, seed: int) -> None:
        check_silent(twin, twin.good, schedule, seed)

    return is_found, is_silent
