"""`tkc fmt`: what it writes, what it only says, and what it leaves alone."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tkc.__main__ import guarded, main

UNTIDY = "kernel k( A:f32 ):\n  x=1 # one\n"
TIDY = "kernel k(A: f32):\n    x = 1  # one\n"
WRONG = "kernel k( A:f32 ):\n  x= *\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name, text in (("a.tk", UNTIDY), ("sub/b.tk", TIDY), ("sub/c.tk", UNTIDY)):
        (tmp_path / name).write_text(text)
    return tmp_path


def tkc(*words: str) -> int:
    return guarded(main, ("fmt", *words))


def texts(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in sorted(folder.rglob("*.tk"))}


def test_files_and_folders_are_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tkc(".") == 0
    assert set(texts(folder).values()) == {TIDY}
    assert capsys.readouterr().err == "a.tk changed\nsub/c.tk changed\n"
    assert tkc("a.tk", "sub", "--check") == 0


def test_check_and_diff_write_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = texts(folder)
    assert tkc("--check", ".") == 1
    assert "2 files would change" in capsys.readouterr().err
    assert tkc("--diff", "a.tk") == 0
    out = capsys.readouterr().out
    assert "-  x=1 # one\n" in out
    assert "+    x = 1  # one\n" in out
    assert tkc("--diff", "--check", "a.tk") == 1
    assert texts(folder) == before


def test_a_wrong_file_stays_and_the_others_are_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "w.tk").write_text(WRONG)
    assert tkc("w.tk", "a.tk") == 1
    assert "w.tk:2:6: error: unexpected `*`" in capsys.readouterr().err
    assert (folder / "w.tk").read_text() == WRONG
    assert (folder / "a.tk").read_text() == TIDY


@pytest.mark.parametrize(
    ("data", "code", "out"), [(UNTIDY.encode(), 0, TIDY), (b"\xff", 1, ""), (WRONG.encode(), 1, "")]
)
def test_standard_input(
    data: bytes,
    code: int,
    out: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert tkc("-") == code
    said = capsys.readouterr()
    assert said.out == out
    assert bool(said.err) == bool(code)


def test_missing_files_are_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tkc("none.tk") == 1
    assert "none.tk does not exist" in capsys.readouterr().err
    assert tkc() == 2
