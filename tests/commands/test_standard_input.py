"""Sources from standard input: `-`, as compilers take it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import tkc
from tkc.__main__ import guarded, main

AXPY = Path(__file__).parents[2] / "examples" / "axpy.tk"
WRONG = b"kernel k(X: global[f32, N]):\n    nonsense\n"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Puts bytes on standard input, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def give(data: bytes = AXPY.read_bytes()) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def test_ptx_goes_to_standard_output_and_nothing_else_is_written(
    given, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    given()
    assert guarded(main, ("compile", "-")) == 0
    out = capfdbinary.readouterr().out.decode()
    assert ".visible .entry axpy(" in out
    assert not list(tmp_path.iterdir())
    given()
    assert guarded(main, ("compile", "-", "-o", "a.ptx")) == 0
    assert tkc.load(tmp_path / "a.json").name == "axpy"


def test_the_other_commands_read_it_too(given, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (("check", "-"), "axpy for sm_100a"),
        (("explain", "-"), "axpy for sm_100a"),
        (("fmt", "-"), "kernel axpy("),
        (("emulate", "-", "X=random(128)", "Y=random(128)", "alpha=2"), "nothing found"),
    ):
        given()
        assert guarded(main, words) == 0, words
        assert said in capsys.readouterr().out


def test_mistakes_have_their_place(given, capsys: pytest.CaptureFixture[str]) -> None:
    given(WRONG)
    assert guarded(main, ("check", "-", "--format", "sarif")) == 1
    *_, result = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("%3Cstdin%3E", 2)
    for data, said in ((b"\xff", "not UTF-8"), (b"", "file is empty"), (b"hi", "holds kernels")):
        given(data)
        assert guarded(main, ("compile", "-")) == 1
        assert said in capsys.readouterr().err
    given()
    assert guarded(main, ("check", "-", "--fix")) == 2
    assert "standard input is no file" in capsys.readouterr().err
