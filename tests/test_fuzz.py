"""Programs that nobody would write: every one compiles or is refused at its place, and none breaks the compiler."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tkc.backend.assemble import assemble
from tkc.backend.tools import find
from tkc.diagnostics import TkcError
from tkc.driver import run
from tkc.job import Job

ROOT = Path(__file__).parent.parent
SOURCES = {p.stem: p.read_text(encoding="utf-8") for p in sorted((ROOT / "examples").glob("*.tk"))}
TARGETS = ("sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_100f")
SIZES = (1, 2, 3, 4, 7, 8, 16, 24, 32, 48, 64, 72, 96, 100, 128, 160, 192, 256, 320, 512, 1024)
_TOKEN = re.compile(r"\w+|[^\w\s]|\s+")


def params(rng: random.Random, text: str) -> dict[str, int]:
    """Other values for some of a program's params."""
    line = re.search(r"^\s*param (.*)$", text, re.MULTILINE)
    names = re.findall(r"([A-Z]+) =", line[1]) if line else []
    chosen = rng.sample(names, rng.randint(0, len(names)))
    return {n: rng.choice(SIZES[:8] if n == "STAGES" else SIZES) for n in chosen}


def mutate(rng: random.Random, text: str) -> str:
    """A program with one to three tokens or lines dropped, doubled, swapped, or taken from elsewhere."""
    for _ in range(rng.randint(1, 3)):
        parts = text.splitlines(keepends=True) if rng.random() < 0.3 else _TOKEN.findall(text)
        if not parts:
            return text
        i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
        match rng.randrange(4):
            case 0:
                del parts[i]
            case 1:
                parts.insert(i, parts[i])
            case 2:
                parts[i], parts[j] = parts[j], parts[i]
            case _:
                parts[i] = parts[j]
        text = "".join(parts)
    return text


def jobs(rng: random.Random) -> Iterator[Job]:
    """Endless jobs: half of them whole programs with odd params, half mutants."""
    while True:
        name, text = rng.choice(list(SOURCES.items()))
        if rng.random() < 0.5:
            text = mutate(rng, text)
        yield Job(text, f"{name}.tk", rng.choice(TARGETS), params=params(rng, text))


def attempt(job: Job) -> bool:
    """Whether a job compiles; TkcError is an answer too, if it has a place and names no insides."""
    try:
        return bool(run(job).ptx)
    except TkcError as error:
        for diagnostic in error.diagnostics:
            assert diagnostic.location is not None, f"no place: {diagnostic.message}\n{job}"
            assert "Traceback" not in diagnostic.message
            assert diagnostic.location.line <= job.text.count("\n") + 2
        return False


def test_a_few_odd_programs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = jobs(random.Random(seed))
    outcomes = {attempt(next(source)) for _ in range(60)}
    assert outcomes == {True, False}, "some compile and some do not, else this tests nothing"


@pytest.mark.soak
def test_many_odd_programs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = jobs(random.Random(seed ^ int(time.time())))
    deadline = time.monotonic() + 60 * float(os.environ.get("TKC_SOAK_MINUTES", "10"))
    while time.monotonic() < deadline:
        attempt(next(source))


@pytest.mark.soak
@pytest.mark.skipif(find("ptxas") is None, reason="no ptxas")
def test_whatever_compiles_assembles_without_a_notice_or_a_spill(seed: int) -> None:
    rng = random.Random(seed ^ int(time.time()))
    deadline = time.monotonic() + 60 * float(os.environ.get("TKC_SOAK_MINUTES", "10"))
    while time.monotonic() < deadline:
        name, text = rng.choice(list(SOURCES.items()))
        job = Job(text, f"{name}.tk", rng.choice(TARGETS), params=params(rng, text))
        try:
            ptx = run(job).ptx
        except TkcError:
            continue
        assemble(ptx, job.target)
