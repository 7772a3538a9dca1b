"""The prebuilt tables: fresh, equal to what Lark builds, and never in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from programs import GEMM, compiled

from tkc.frontend import automaton, tables, tokens
from tkc.frontend.build import Builder

GRAMMAR = tables.GRAMMAR.read_text(encoding="utf-8")
KEY = tables.key(GRAMMAR)


def test_the_shipped_tables_are_fresh() -> None:
    """`python -m tkc.frontend.tables` writes them; the text does not depend on the run."""
    again = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tkc.frontend import tables as t; g = t.GRAMMAR.read_text('utf-8');"
            "print(t.encode(t.build(g), g), end='')",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    ).stdout
    assert tables.SHIPPED.read_text(encoding="utf-8") == again


def test_the_grammar_has_no_conflicts_that_lark_settles_itself() -> None:
    """A shift chosen over a reduction is silent in Lark; a debug build tells."""
    import logging

    from lark import Lark, logger

    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        Lark(GRAMMAR, parser="lalr", lexer="basic", debug=True)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert not heard


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, and shipped tables that do not fit."""
    monkeypatch.setattr(tables, "SHIPPED", tmp_path / "none.json")
    monkeypatch.setattr(automaton, "SHIPPED", tmp_path / "none.json")
    monkeypatch.setenv("TKC_CACHE_DIR", str(tmp_path / "cache"))
    path = tables.cache_file(KEY)
    assert path is not None
    return path


def works() -> bool:
    """Whether the loaded tables compile the GEMM as the shipped ones do."""
    wanted = str(compiled(GEMM))
    tokens.reader.cache_clear()
    try:
        return str(compiled(GEMM)) == wanted
    finally:
        tokens.reader.cache_clear()


def test_tables_are_built_once_and_kept(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert works()
    text = elsewhere.read_text(encoding="utf-8")
    assert tables.decode(text, KEY, Builder()) is not None
    monkeypatch.setattr(tables, "build", lambda grammar: pytest.fail("built again"))
    assert tables.load(Builder()) is not None


DAMAGE = {
    "empty": "",
    "cut short": lambda t: t[: len(t) // 2],
    "one character changed": lambda t: t[:-20] + ("1" if t[-20] != "1" else "2") + t[-19:],
    "another key": lambda t: "0" * 64 + t[64:],
    "not text of ours": "\x00\x01 garbage",
    "json of another kind": "[]",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_built_anew(elsewhere: Path, damage: object) -> None:
    good = tables.encode(tables.build(GRAMMAR), GRAMMAR)
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text(damage(good) if callable(damage) else str(damage), encoding="utf-8")
    assert tables.load(Builder()) is not None
    assert elsewhere.read_text(encoding="utf-8") == good


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_the_automaton_takes_sound_tables_of_its_grammar(damage: object) -> None:
    good = tables.SHIPPED.read_text(encoding="utf-8")
    told = (damage(good) if callable(damage) else str(damage)).encode()
    grammar = GRAMMAR.encode()
    assert automaton.body_of(good.encode(), grammar) == good.encode().partition(b"\n")[2]
    assert automaton.body_of(good.encode(), grammar + b"\n") is None
    assert automaton.body_of(told, grammar) is None


def test_bytes_that_are_no_text_are_built_anew(elsewhere: Path) -> None:
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_bytes(b"\xff\xfe\x00")
    assert tables.load(Builder()) is not None


def test_a_folder_that_refuses_costs_time_only(elsewhere: Path) -> None:
    elsewhere.parent.parent.mkdir()
    elsewhere.parent.write_text("a file where the folder should be")
    assert works()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_costs_time_only(elsewhere: Path) -> None:
    elsewhere.parent.mkdir(parents=True)
    elsewhere.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert works()


def test_no_home_costs_time_only(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TKC_CACHE_DIR", "~nobody-of-that-name/cache")
    monkeypatch.setenv("HOME", "/dev/null")
    assert tables.cache_file(KEY) is None
    assert tables.load(Builder()) is not None
    assert not list(elsewhere.parent.parent.glob("*"))


def test_many_writers_leave_one_whole_file(elsewhere: Path) -> None:
    threads = [threading.Thread(target=tables.load, args=(Builder(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [p.name for p in elsewhere.parent.iterdir()] == [elsewhere.name]
    assert tables.decode(elsewhere.read_text(encoding="utf-8"), KEY, Builder()) is not None


def test_another_grammar_or_lark_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables.key(GRAMMAR + "\n") != KEY
    monkeypatch.setattr(tables.lark, "__version__", "9.9.9")
    assert tables.key(GRAMMAR) != KEY
