"""Modules that are found quickly: as Python finds them, whatever stands in their folder."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from tkc import quick_imports
from tkc.quick_imports import QuickFinder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a package `quick`, whose modules are to be found quickly."""
    folder = tmp_path / "quick"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "one.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(quick_imports, "PACKAGES", ("quick.",))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    quick_imports.find_quickly()
    yield folder
    forget()


def forget() -> None:
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.partition(".")[0] == "quick"]:
        del sys.modules[name]


def load(name: str = "one") -> object:
    forget()
    return importlib.import_module(f"quick.{name}")


def test_a_module_is_found_as_python_finds_it(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    quick = load()
    assert sys.modules["quick"].one is quick
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[1:])
    python = load()
    assert type(quick.__loader__) is not type(python.__loader__)
    for name in ("__name__", "__file__", "__cached__", "__package__", "__doc__", "value"):
        assert getattr(quick, name) == getattr(python, name), name
    assert vars(quick).keys() == vars(python).keys()
    assert quick.__spec__ is not None
    assert python.__spec__ is not None
    for name in (
        "name",
        "origin",
        "cached",
        "has_location",
        "submodule_search_locations",
        "parent",
    ):
        assert getattr(quick.__spec__, name) == getattr(python.__spec__, name), name
    assert quick.__spec__.loader.get_source("quick.one") == "value = 1\n"


def test_bytecode_is_written_read_and_never_old(package: Path) -> None:
    assert load().value == 1
    source = package / "one.py"
    status = source.stat()
    source.write_text("value = 2\n")
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert load().value == 1, "bytecode of a file of this size and time is taken"
    os.utime(source, (status.st_atime, status.st_mtime + 10))
    assert load().value == 2
    (bytecode,) = (package / "__pycache__").glob("one.*.pyc")
    bytecode.write_bytes(bytecode.read_bytes()[:12])
    assert load().value == 2
    bytecode.write_bytes(b"")
    assert load().value == 2
    bytecode.unlink()
    source.write_text("value = 33\n")
    assert load().value == 33


def test_what_is_no_file_is_pythons_to_find(package: Path) -> None:
    (package / "inner").mkdir()
    (package / "inner" / "__init__.py").write_text("value = 4\n")
    (package / "inner" / "deep.py").write_text("value = 5\n")
    (package / "folder.py").mkdir()
    assert load("inner").value == 4
    assert load("inner.deep").value == 5
    for name in ("nothing", "folder"):
        with pytest.raises(ModuleNotFoundError):
            load(name)
    assert QuickFinder.find_spec("quick.one", ["relative"]) is None
    assert QuickFinder.find_spec("quick.one", [str(package), str(package)]) is None
    assert QuickFinder.find_spec("other.one", [str(package)]) is None
    assert QuickFinder.find_spec("quick.one") is None


def test_a_moved_package_says_where_it_is_now(package: Path) -> None:
    (package / "wrong.py").write_text("def wrong():\n    return 1 / 0\n")
    load("wrong")
    package.rename(package.parent / "elsewhere")
    (package.parent / "elsewhere").rename(package.parent / "quick")
    there = package.parent / "there"
    there.mkdir()
    package.rename(there / "quick")
    sys.path.insert(0, str(there))
    try:
        load("wrong").wrong()
    except ZeroDivisionError as error:
        (_, frame) = traceback.extract_tb(error.__traceback__)
        assert frame.filename == str(there / "quick" / "wrong.py")
        assert frame.line == "return 1 / 0"
    finally:
        sys.path.remove(str(there))


def test_errors_are_as_ever(package: Path) -> None:
    (package / "wrong.py").write_text("def (\n")
    with pytest.raises(SyntaxError, match="invalid syntax"):
        load("wrong")
