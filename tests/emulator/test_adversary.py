"""The emulator against `tkc check`: what that accepts is silent however it is scheduled, what it rejects is seen to fail."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from emulator.mutation.source import EXPLAINED, Verdicts, changes, judge, sources
from oracles.as_kernel import as_kernel, emulate
from oracles.as_stage import NotInStage, as_stage
from oracles.generate import generate, trips
from oracles.roles import Program

from tkc.analysis.happens_before import check
from tkc.emulator.machine import SCHEDULES

NOT_ASKED = {"TK310", "TK311", "TK320", "TK324"}
"""How a kernel may end, and initialised data: the programs neither drain at their end nor fill whole tiles."""


def accepted(program: Program, target: str) -> bool:
    module, _ = as_stage(program, target)
    return not [f for f in check(module, "practice") if f.code not in NOT_ASKED]


def ask(seeds: Iterator[int], schedules: int, until: float, programs: int) -> Counter[str]:
    """Runs random role programs that `check` accepts; how many there were, and how many it rejects."""
    said: Counter[str] = Counter()
    while said["accepted"] < programs and time.monotonic() < until:
        seed = next(seeds)
        program, target = generate(seed, faults=random.Random(seed).choice((0, 0, 1)))
        try:
            if not accepted(program, target):
                said["rejected"] += 1
                continue
            kernel = as_kernel(program, target)
        except NotInStage:
            continue
        counts = max(trips(program, brief=True), key=lambda c: sum(c.values()))
        for n in range(schedules):
            how = {"schedule": SCHEDULES[n % len(SCHEDULES)], "seed": seed + n}
            report = emulate(kernel, program, counts, max_steps=200_000, **how)
            found = [f for f in report.findings if f.code not in NOT_ASKED]
            assert not found, f"seed {seed}, {how}: {found[0]}\n{program}"
        said["accepted"] += 1
    return said


def numbers(seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    while True:
        yield rng.randrange(1 << 30)


def test_what_check_accepts_is_silent(seed: int) -> None:
    said = ask(numbers(seed), 4, time.monotonic() + 60, 8)
    assert said["accepted"] >= 4, said


@pytest.mark.soak
def test_what_check_accepts_is_silent_in_two_hundred_schedules(seed: int) -> None:
    until = time.monotonic() + 60 * float(os.environ.get("TKC_SOAK_MINUTES", "10"))
    print(ask(numbers(seed), 200, until, 10_000))


def agree(verdicts: Verdicts) -> bool:
    """Whether both say the same of a mutant of a source, but for what is explained."""
    return verdicts.kind in ("shown", "silent", "refused") or verdicts.explained in EXPLAINED


def test_mutants_of_small_sources(seed: int) -> None:
    """Another part of them with every TKC_SEED."""
    work = [(p, c) for p in sources() if not p.name.startswith("gemm") for c in changes(p.text)]
    for program, change in random.Random(seed).sample(work, 12):
        verdicts = judge(program, change, seeds=1, seed=seed)
        assert agree(verdicts), str(verdicts)


@pytest.mark.soak
@pytest.mark.parametrize("program", sources(), ids=lambda p: p.name)
def test_every_mutant_of_a_source(program: object, seed: int) -> None:
    said = [judge(program, change, seeds=20, seed=seed) for change in changes(program.text)]  # type: ignore[attr-defined]
    print(Counter(v.kind for v in said))
    bad = [str(v) for v in said if not agree(v)]
    assert not bad, "\n".join(bad)


def test_all_kinds_of_items_are_in_a_slice() -> None:
    """What `mutation/adversary.py` judges in parts, a few of them here."""
    from emulator.mutation.adversary import items, judged, table

    work = items(6000, 5_000_000)[::997]
    said = list(judged(work, schedules=1, tries=8, until=time.monotonic() + 60))
    assert len(said) == len(work)
    assert not [v for v in said if v.outcome == "MISSED"]
    assert "accepted: silent" in next(table(said))
