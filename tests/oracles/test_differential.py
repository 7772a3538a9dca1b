"""The compiler's analysis against oracle B on random role programs."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("tkc.analysis.happens_before")

from oracles.as_stage import NotInStage
from oracles.differential import Difference, compare, uniform
from oracles.generate import generate
from oracles.reduce import reduce
from oracles.roles import Program

PROGRESS = Path(__file__).parents[2] / "out" / "oracles-soak.json"
"""How far earlier soaks came: the next one goes on from there."""


def profile_of(seed: int) -> str:
    return ("practice", "strict")[seed % 2]


def serious(program: Program, difference: Difference) -> bool:
    """An analysis may be careful where it does not claim to be exact; it may never find nothing where there is
    something."""
    return difference.kind == "unsound" or uniform(program)


def asked(
    seeds: Iterable[int], brief: bool
) -> Iterator[tuple[int, Program, str, Difference | None]]:
    for seed in seeds:
        program, target = generate(seed)
        try:
            yield seed, program, target, compare(program, target, profile_of(seed), brief)
        except NotInStage:
            continue


def described(seed: int, program: Program, target: str, difference: Difference) -> str:
    """The difference on the smallest program that still shows it."""
    profile = profile_of(seed)

    def shows(smaller: Program) -> bool:
        try:
            found = compare(smaller, target, profile, brief=True)
        except NotInStage:
            return False
        return found is not None and found.kind == difference.kind and serious(smaller, found)

    least = reduce(program, shows) if shows(program) else program
    return (
        f"seed {seed}, {profile}, {target}\n{least}{compare(least, target, profile) or difference}"
    )


def test_agrees_on_2000_programs() -> None:
    verdicts: Counter[str] = Counter()
    for seed, program, target, difference in asked(range(2000), brief=True):
        verdicts[difference.kind if difference else "agree"] += 1
        if difference and serious(program, difference):
            pytest.fail(described(seed, program, target, difference), pytrace=False)
    assert verdicts["agree"] > 1800, verdicts


@pytest.mark.soak
def test_agrees_on_many_programs() -> None:
    """100,000, or as many as TKC_SOAK_MINUTES permit; goes on where the last run stopped, or begins at TKC_SEED."""
    deadline = time.monotonic() + 60 * float(os.environ.get("TKC_SOAK_MINUTES", "60"))
    asked_for = int(os.environ.get("TKC_SEED") or 0)
    done = json.loads(PROGRESS.read_text()) if PROGRESS.exists() and not asked_for else {}
    first = done.get("next", asked_for or 2000)
    verdicts: Counter[str] = Counter(done.get("verdicts", {}))
    problems: list[str] = []
    seed = first
    for seed, program, target, difference in asked(range(first, first + 100_000), brief=False):
        verdicts[difference.kind if difference else "agree"] += 1
        if difference and serious(program, difference):
            problems.append(described(seed, program, target, difference))
        if time.monotonic() > deadline or len(problems) > 20:
            break
    PROGRESS.parent.mkdir(exist_ok=True)
    PROGRESS.write_text(json.dumps({"next": seed + 1, "verdicts": verdicts}))
    print(f"seeds {first} to {seed}: {dict(verdicts)}")
    assert not problems, "\n\n".join(problems)
