"""The emulator as third judge: random role programs go through the compiler's own passes, and run under random
schedules."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from oracles.as_kernel import as_kernel, emulate
from oracles.as_stage import NotInStage
from oracles.async_model import judge
from oracles.generate import generate, trips
from oracles.roles import Program

from tkc.diagnostics import TkcError

NOT_ASKED = {"TK310", "TK313", "TK319", "TK320", "TK324"}
"""What the oracle does not model: how a kernel may end (no program drains at its end, before whatever barrier of the
cluster the compiler puts there), registers of products, and initialised data (no program fills whole tiles)."""


def chosen_trips(program: Program) -> dict[str, int]:
    """The longest trips to try."""
    return max(trips(program, brief=True), key=lambda counts: sum(counts.values()))


def runs(program: Program, target: str, seeds: Iterator[int], schedules: int) -> set[str]:
    """The codes of what the emulator finds in that many schedules, at the longest trips."""
    kernel, counts = as_kernel(program, target), chosen_trips(program)
    codes: set[str] = set()
    for seed in [next(seeds) for _ in range(schedules)]:
        report = emulate(kernel, program, counts, schedule="pct", seed=seed, max_steps=200_000)
        codes |= {f.code for f in report.findings} - NOT_ASKED
        if codes:
            break
    return codes


def ask(seeds: Iterator[int], schedules: int, until: float, programs: int) -> Counter[str]:
    """Judges programs by oracle B at one trip count, and by schedules: what both say, counted."""
    said: Counter[str] = Counter()
    while sum(said.values()) < programs and time.monotonic() < until:
        seed = next(seeds)
        program, target = generate(seed)
        wrong = judge(program, "practice", [chosen_trips(program)])
        try:
            codes = runs(program, target, seeds, schedules)
        except NotInStage:
            continue
        except TkcError as refused:  # more rows than the role's threads hold at a time
            if "TK110" not in str(refused):
                raise
            continue
        assert wrong or not codes, (
            f"seed {seed}: the oracle finds nothing, the emulator {codes}\n{program}"
        )
        said[("shown" if codes else "not shown") if wrong else "right"] += 1
    return said


def numbers(seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    while True:
        yield rng.randrange(1 << 30)


def test_what_is_right_runs_silently_and_what_is_wrong_shows(seed: int) -> None:
    said = ask(numbers(seed), 3, time.monotonic() + 120, 24)
    assert said["right"] >= 4, said
    assert said["shown"] > 5 * said["not shown"], said


@pytest.mark.soak
def test_two_hundred_schedules_each() -> None:
    until = time.monotonic() + 60 * float(os.environ.get("TKC_SOAK_MINUTES", "10"))
    print(ask(numbers(int(time.time())), 200, until, 10_000))
