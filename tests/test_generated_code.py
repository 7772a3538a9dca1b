"""Code of dataclasses and named tuples: kept from one process to the next, and never wrong, damaged or old."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tkc import generated_code
from tkc.generated_code import GeneratedCode

COMPILE, ENGINE = re._compiler.compile, re._compiler._sre  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A file of this test's own, where bytecode may be written; afterwards Python generates code as ever."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    yield
    for module, name in ((dataclasses, "exec"), (collections, "eval"), (typing, "compile")):
        vars(module).pop(name, None)
    vars(dataclasses)["inspect"] = inspect
    vars(re._compiler).update(compile=COMPILE, _sre=ENGINE)  # type: ignore[attr-defined]


def kept() -> GeneratedCode:
    found = generated_code.keep()
    assert found is not None
    Path(found.path).parent.mkdir(parents=True, exist_ok=True)
    return found


def point() -> type[Any]:
    """A dataclass and a named tuple, made anew."""
    Pair = collections.namedtuple("Pair", "left right")

    @dataclasses.dataclass(frozen=True)
    class Point:
        x: int
        pair: Any = dataclasses.field(default_factory=lambda: Pair(1, 2))

    return Point


def works(made: type[Any]) -> None:
    assert made(3) == made(3) != made(4)
    assert repr(made(3)).endswith("Point(x=3, pair=Pair(left=1, right=2))")
    assert hash(made(3)) == hash(made(3))
    with pytest.raises(dataclasses.FrozenInstanceError):
        made(3).x = 4


def test_a_second_process_compiles_nothing() -> None:
    first = kept()
    works(point())
    assert first.added
    first.write()
    second = kept()
    works(point())
    assert second.known.keys() == first.known.keys()
    assert not second.added


def test_patterns_and_annotations_are_kept_too() -> None:
    def made() -> list[Any]:
        re.purge()
        pattern = re.compile(r"(?P<word>[a-f]+)\s(?:\d|x){2,3}", re.IGNORECASE)
        found = pattern.fullmatch("AbC 1x2")
        assert found is not None
        assert pattern.fullmatch("abg 1x2") is None
        hint = typing.ForwardRef("dict[str, int]")
        return [found["word"], pattern.groupindex, pattern.flags, eval(hint.__forward_code__)]

    first = kept()
    before = made()
    assert before[0] == "AbC"
    assert before[3] == dict[str, int]
    first.write()
    second = kept()
    assert made() == before
    assert not second.added
    with pytest.raises(re.error, match="unterminated"):
        re.compile("(a")


@pytest.mark.parametrize("spoil", [lambda d: d[:-1], lambda d: b"", lambda d: b"\0" * 12 + d[12:]])
def test_a_damaged_file_is_made_anew(spoil: Any) -> None:
    first = kept()
    works(point())
    first.write()
    path = Path(first.path)
    whole = path.read_bytes()
    path.write_bytes(spoil(whole))
    second = kept()
    assert not second.known
    works(point())
    second.write()
    assert path.read_bytes() == whole


def test_nothing_is_written_where_python_writes_no_bytecode(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = kept()
    works(point())
    found.write()
    assert not Path(found.path).exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    found.path = str(tmp_path / "no such folder" / "code")
    found.write()
    assert not list(tmp_path.rglob("*code"))


def test_a_file_that_grew_too_large_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept()
    works(point())
    first.write()
    second = kept()
    monkeypatch.setattr(generated_code, "_MOST", 100)
    second.code("1 + 1", "eval")
    second.write()
    assert not Path(second.path).exists()


def test_nothing_is_kept_where_python_names_no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.implementation, "cache_tag", None)
    assert generated_code.keep() is None
    assert "exec" not in vars(dataclasses)
