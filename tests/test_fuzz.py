"""Programs that nobody would write: every one compiles or is refused at its place, and none breaks the compiler."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mangle import SOURCES, mangle, params

from tkc.__main__ import guarded, main
from tkc.backend.assemble import assemble
from tkc.backend.tools import find
from tkc.diagnostics import TkcError
from tkc.driver import run
from tkc.job import Job

TARGETS = ("sm_90a", "sm_100a", "sm_103a", "sm_107a", "sm_100f")
SECONDS = 30
"""No program of a page may take longer, of the processor's time: what does is taken for a hang."""
MANGLED = 10_000


def jobs(rng: random.Random) -> Iterator[Job]:
    """Endless jobs: most of them mangled, the others whole programs with odd params."""
    while True:
        name, text = rng.choice(list(SOURCES.items()))
        chosen = params(rng, text) if rng.random() < 0.4 else {}
        if not chosen or rng.random() < 0.5:
            text = mangle(rng, text)
        yield Job(text, f"{name}.tk", rng.choice(TARGETS), params=chosen)


@contextlib.contextmanager
def no_hang(told: str) -> Generator[None]:
    """Fails the block where it takes longer than `SECONDS`."""

    def ring(*_: Any) -> None:
        raise AssertionError(f"more than {SECONDS} s\n{told}")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attempt(job: Job, folder: Path, capsys: pytest.CaptureFixture[str]) -> str | None:
    """Compiles a job on the command line: its PTX where it compiles, None where it is refused as it should be.

    Refused: exit 1, every diagnostic an error with a place in the text or no place in a file, nothing written.
    """
    source = folder / job.file
    source.write_text(job.text, encoding="utf-8", newline="")
    words = ["compile", str(source), "-o", str(folder / "k.ptx"), "--target", job.target]
    words += [word for name, value in job.params.items() for word in ("-D", f"{name}={value}")]
    told = f"{' '.join(words)}\n{job.text}"
    with no_hang(told):
        code = guarded(main, [*words, "--format", "json"])
    out, err = capsys.readouterr()
    left = {p.name for p in folder.iterdir()} - {job.file}
    ptx = None
    if code == 0:
        assert left == {"k.ptx", "k.json"}, f"{left}\n{told}"
        ptx = (folder / "k.ptx").read_text(encoding="utf-8")
        json.loads((folder / "k.json").read_text(encoding="utf-8"))
    else:
        assert (code, left, out) == (1, set(), ""), f"exit {code}, left {left}\n{err}\n{told}"
        lines = job.text.count("\n") + job.text.count("\r") + 2
        for found in json.loads(err)["diagnostics"]:
            assert found["location"] is not None, f"no place: {found}\n{told}"
            assert found["location"]["line"] <= lines, f"{found}\n{told}"
            assert not re.search(r"Traceback|<tkc|object at 0x|xdsl", found["message"]), (
                f"{found}\n{told}"
            )
    for path in folder.iterdir():
        path.unlink()
    return ptx


def shake(
    seed: int, count: int, every: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> Counter[str]:
    """Attempts `count` jobs and assembles one in `every` that compile; what became of how many."""
    outcomes: Counter[str] = Counter()
    source = jobs(random.Random(seed))
    deadline = time.monotonic() + 60 * float(os.environ.get("TKC_SOAK_MINUTES", "60"))
    for _ in range(count):
        job = next(source)
        ptx = attempt(job, folder, capsys)
        outcomes["refused" if ptx is None else "compiled"] += 1
        if ptx is not None and outcomes["compiled"] % every == 0 and find("ptxas") is not None:
            outcomes["assembled"] += 1
            with contextlib.suppress(AllowedError), allowing():
                assemble(ptx, job.target)
        if time.monotonic() > deadline:
            break
    return outcomes


class AllowedError(Exception):
    """What the assembler may say of a program that is right: it spills, or waits for products one by one."""


@contextlib.contextmanager
def allowing() -> Generator[None]:
    try:
        yield
    except TkcError as error:
        if {d.code for d in error.diagnostics} <= {"TK211", "TK214"}:
            raise AllowedError from None
        raise


def test_a_few_odd_programs(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    outcomes = shake(seed, 80, 8, tmp_path, capsys)
    assert outcomes["refused"], "some compile and some do not, else this tests nothing"
    assert outcomes["compiled"]


@pytest.mark.soak
def test_many_odd_programs(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """10,000, or as many as TKC_SOAK_MINUTES permit."""
    monkeypatch.chdir(tmp_path)
    outcomes = shake(seed ^ int(time.time()), MANGLED, 10, tmp_path, capsys)
    with capsys.disabled():
        print(dict(outcomes))
    assert outcomes["refused"]
    assert outcomes["compiled"]


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
