"""Compile time grows with the size of a program and no faster: counted in calls, which no other load changes."""

from __future__ import annotations

import importlib.util
from cProfile import Profile
from pathlib import Path
from pstats import Stats
from types import ModuleType

import pytest

from tkc.driver import run
from tkc.job import Job


def load() -> ModuleType:
    path = Path(__file__).parent.parent / "bench" / "growth.py"
    spec = importlib.util.spec_from_file_location("growth", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WAYS = load().WAYS


def calls(way: str, size: int) -> int:
    """Python calls of one compilation, what is loaded once not counted."""
    run(Job(WAYS[way][0](1), "grown.tk", "sm_90a"))
    job = Job(WAYS[way][0](size), "grown.tk", "sm_90a")
    profile = Profile()
    profile.enable()
    run(job)
    profile.disable()
    return Stats(profile).total_calls  # type: ignore[attr-defined]


@pytest.mark.parametrize(("way", "size"), [("statements", 40), ("tiles", 8), ("kernels", 2)])
def test_calls_grow_no_faster_than_the_program(way: str, size: int) -> None:
    few, many = calls(way, size), calls(way, 5 * size)
    assert many < 5.6 * few, f"{few} calls for {size}, {many} for 5 times that"


@pytest.mark.parametrize(
    ("bound", "size"), [(3000, 4), pytest.param(None, 6, marks=pytest.mark.soak)]
)
def test_loops_behind_the_bound_of_what_is_followed_cost_no_more(
    bound: int | None, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work for the order of loops grows with their square, up to a bound: a lower one shows the same sooner."""
    if bound is not None:
        monkeypatch.setattr("tkc.analysis.happens_before.paths.MOST_LABELS", bound)
    few, many = calls("loops", size), calls("loops", 5 * size)
    assert many < 5.6 * few, f"{few} calls for {size}, {many} for 5 times that"


def test_a_long_chain_of_statements_compiles() -> None:
    """Deeper than Python's stack: whoever walks values by recursion fails here."""
    assert run(Job(WAYS["statements"][0](1100), "grown.tk", "sm_90a")).ptx
