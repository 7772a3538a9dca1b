"""Modules that load late: not before they are asked for, then whole, once, and for every thread."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tkc.late_modules import SELDOM, put_off

NAME = "module_that_loads_late"
TEXT = """
import time
time.sleep(0.01)
loads.append(1)
def value():
    return after
after = 7
"""


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How often the module has been loaded."""
    loads: list[int] = []
    (tmp_path / f"{NAME}.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(__builtins__, "loads", loads)  # type: ignore[arg-type]
    importlib.invalidate_caches()
    put_off((NAME,))
    yield loads
    sys.modules.pop(NAME, None)


def test_the_import_statement_loads_nothing(late: list[int]) -> None:
    module = importlib.import_module(NAME)
    exec(f"import {NAME}")
    put_off((NAME,))
    assert sys.modules[NAME] is module
    assert not late
    assert module.__name__ == NAME
    assert module.value() == 7
    assert type(module) is ModuleType
    assert late == [1]
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing


def test_a_name_taken_from_it_loads_it(late: list[int]) -> None:
    space: dict[str, Any] = {}
    exec(f"from {NAME} import value", space)
    assert space["value"]() == 7
    assert late == [1]


def test_threads_that_ask_at_once_load_it_once(late: list[int]) -> None:
    module = importlib.import_module(NAME)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(module.value())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == [7] * 8
    assert late == [1]


def test_a_module_that_fails_fails_each_time(late: list[int], tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.py").write_text("raise ValueError('no')")
    module = importlib.import_module(NAME)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            _ = module.value


def test_a_module_that_is_nowhere_is_left_alone() -> None:
    put_off(("no_such_module_anywhere",))
    assert "no_such_module_anywhere" not in sys.modules


def test_what_is_put_off_is_not_loaded_by_the_libraries() -> None:
    """Each is there for a library that a compilation imports; one that loads after all need not be listed."""
    program = (
        "import sys; there = {*sys.modules}; from tkc.late_modules import SELDOM, put_off; put_off();"
        "from tkc.generated_code import keep; keep();"
        "import click, lark, xdsl.dialects.builtin, tkc.commands.compile;"
        "new = [n for n in SELDOM if n not in there];"
        "print(len(new), *(n for n in new if type(sys.modules[n]).__name__ != '_Late'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    count, *loaded = done.stdout.split()
    assert int(count) > len(SELDOM) // 2
    own = {"tempfile"} if sys.version_info >= (3, 12) else set()  # of importlib.resources
    assert not {*loaded} - own
