"""The cache on disk: what it finds again, what it does not believe, and many writers at once."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import tkc
from tkc import cache, driver
from tkc.__main__ import guarded, main
from tkc.backend.assemble import assemble
from tkc.backend.tools import find
from tkc.cached_run import run_cached
from tkc.job import Job

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "examples" / "tma_copy.tk").read_text(encoding="utf-8")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache that is on, in a folder of its own."""
    monkeypatch.setenv("TKC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TKC_CACHE", "on")
    folder = cache.folder()
    assert folder is not None
    return folder


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was really done, in order: `front` and `passes`."""
    done: list[str] = []

    def noting(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **more: object) -> object:
            done.append(name)
            return function(*args, **more)

        return call

    monkeypatch.setattr(driver, "front", noting("front", driver.front))
    monkeypatch.setattr(driver, "_apply", noting("passes", driver._apply))
    return done


def test_an_entry_is_found_again_and_keys_keep_their_parts_apart(home: Path) -> None:
    assert cache.get(cache.key("a", "b")) is None
    cache.put(cache.key("a", "b"), b"made")
    assert cache.get(cache.key("a", "b")) == b"made"
    assert cache.get(cache.key("ab", "")) is None
    assert not list(home.glob("*.part"))


def test_a_result_is_found_by_source_or_by_ir(home: Path, runs: list[str]) -> None:
    job = Job(TEXT, "k.tk", "sm_90a")
    first = run_cached(job)
    assert runs == ["front", "passes"]
    again = run_cached(job)
    assert runs == ["front", "passes"]
    assert (again.ptx, again.contract) == (first.ptx, first.contract)
    assert again.diagnostics == first.diagnostics
    assert again.diagnostics, "remarks are kept, too"
    # Another comment is another source with the same IR.
    assert run_cached(Job(TEXT + "# the end\n", "k.tk", "sm_90a")).ptx == first.ptx
    assert runs == ["front", "passes", "front"]


@pytest.mark.parametrize(
    "other",
    [
        {"text": TEXT.replace("BN = 64", "BN = 32")},
        {"file": "other.tk"},
        {"target": "sm_100a"},
        {"params": {"BN": 32}},
        {"without": ("insert-fences",)},
        {"fences": "conservative"},
        {"trap_hangs": 1.0},
    ],
)
def test_nothing_is_mistaken_for_something_else(
    other: dict[str, object], home: Path, runs: list[str]
) -> None:
    words = {"text": TEXT, "file": "k.tk", "target": "sm_90a"}
    run_cached(Job(**words))  # pyright: ignore[reportArgumentType]
    runs.clear()
    job = Job(**{**words, **other})  # pyright: ignore[reportArgumentType]
    assert run_cached(job).ptx == driver.run(job).ptx
    assert runs[:2] == ["front", "passes"]


def test_a_changed_compiler_finds_nothing(
    home: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_cached(Job(TEXT, "k.tk"))
    monkeypatch.setattr(cache, "version", lambda: "another")
    run_cached(Job(TEXT, "k.tk"))
    assert runs == ["front", "passes"] * 2


def test_imported_functions_are_read_anew(home: Path, runs: list[str], tmp_path: Path) -> None:
    (tmp_path / "sizes.tk").write_text("def width(n):\n    return n * 2\n")
    text = "from sizes import width\n" + TEXT.replace("BN = 64", "BN = width(32)")
    job = Job(text, str(tmp_path / "k.tk"), "sm_90a")
    wide = run_cached(job).ptx
    assert run_cached(job).ptx == wide
    assert runs == ["front", "passes", "front"]
    (tmp_path / "sizes.tk").write_text("def width(n):\n    return n\n")
    assert run_cached(job).ptx != wide


def test_the_module_of_a_found_result_is_made_when_asked_for(home: Path) -> None:
    made = tkc.compile(TEXT, target="sm_90a")
    found = tkc.compile(TEXT, target="sm_90a")
    assert str(found.module()) == str(made.module())
    assert str(found.module("frontend")) == str(made.module("frontend"))


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: b"", lambda d: d[:40] + b"x" * 40])
def test_a_damaged_entry_is_none(
    home: Path, runs: list[str], damage: Callable[[bytes], bytes]
) -> None:
    first = run_cached(Job(TEXT, "k.tk"))
    for path in home.glob("*.entry"):
        path.write_bytes(damage(path.read_bytes()))
    assert run_cached(Job(TEXT, "k.tk")).ptx == first.ptx
    assert run_cached(Job(TEXT, "k.tk")).ptx == first.ptx
    assert runs == ["front", "passes"] * 2


def test_the_room_is_bounded_and_what_was_used_last_stays(home: Path) -> None:
    for number in range(20):
        cache.put(f"{number:064}", bytes(1000), limit=10_000)
        os.utime(home / f"{number:064}.entry", (number, number))
        cache.get(f"{0:064}")
    left = {path.stem for path in home.iterdir()}
    assert sum(path.stat().st_size for path in home.iterdir()) <= 10_000
    assert f"{0:064}" in left
    assert f"{19:064}" in left
    assert f"{1:064}" not in left
    (home / "x.part").write_bytes(b"")
    os.utime(home / "x.part", (0, 0))
    cache.put("y" * 64, b"")
    assert not (home / "x.part").exists()


def test_a_folder_that_refuses_costs_only_time(
    home: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TKC_CACHE_DIR", str(tmp_path / "file"))
    assert run_cached(Job(TEXT, "k.tk")).ptx
    assert run_cached(Job(TEXT, "k.tk")).ptx
    assert runs == ["front", "passes"] * 2


def _write(seed: int, folder: str) -> int:
    """Writes and reads shared keys; how often what was read was not what belongs to the key."""
    os.environ.update(TKC_CACHE_DIR=folder, TKC_CACHE="on")
    rng = random.Random(seed)
    wrong = 0
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        number = rng.randrange(30)
        name, content = f"{number:064}", bytes([number]) * (1000 + number)
        found = cache.get(name)
        wrong += found not in (None, content)
        cache.put(name, content, limit=15_000)
    return wrong


def test_many_writers_never_show_half_an_entry(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(_write, [(seed, str(tmp_path)) for seed in range(3)]) == [0, 0, 0]


def test_the_command_line_switches_it_off(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ("compile", str(ROOT / "examples" / "tma_copy.tk"), "-o", str(tmp_path / "k.ptx"))
    script = [sys.executable, "-m", "tkc", *words]
    subprocess.run([*script, "--no-cache"], check=True)
    subprocess.run(script, check=True, env={**os.environ, "TKC_CACHE": "off"})
    assert not home.exists()
    assert guarded(main, words) == 0
    made = (tmp_path / "k.ptx").read_text()
    assert len(list(home.glob("*.entry"))) == 2
    (tmp_path / "k.ptx").unlink()
    code = (
        "import sys; from tkc.__main__ import main; "
        f"code = main({list(words)!r}); print(code, *(m for m in ('xdsl', 'lark') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n", "a result that is found loads neither xdsl nor lark"
    assert (tmp_path / "k.ptx").read_text() == made


@pytest.mark.skipif(find("ptxas") is None, reason="no ptxas")
def test_cubins_are_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ptx = driver.run(Job(TEXT, "k.tk", "sm_90a")).ptx
    first = assemble(ptx, "sm_90a")
    monkeypatch.setattr("tkc.backend.assemble._ptxas", lambda *_: pytest.fail("assembled again"))
    again = assemble(ptx, "sm_90a")
    assert (again.cubin, again.kernels, again.log) == (first.cubin, first.kernels, first.log)
