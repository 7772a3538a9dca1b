"""`tkc run`: what it says before anything runs, and on a GPU what it computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import has_gpu

from tkc import arguments
from tkc.__main__ import guarded, main
from tkc.commands import run as run_command

ROOT = Path(__file__).parent.parent.parent
GEMM = str(ROOT / "examples" / "gemm_bf16.tk")
WORDS = ("A=random(100,64,seed=1)", "B=random(72,64,seed=2)", "C=empty(100,72)")


def tkc(*words: str) -> int:
    return guarded(main, words)


@pytest.mark.skipif(has_gpu(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert tkc("run", GEMM, *WORDS) == 1
    assert "no CUDA driver here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("A=random(3",), "A=random(3: the parenthesis is not closed"),
        (("A=random(3)",), "gemm needs B, C"),
        (("A",), "is no argument"),
        (("A=randm(3)",), "did you mean random"),
        (("--out", "C"), "--out C: expected NAME=FILE.npy"),
        (("--expect", "C=a.npy", "--expect", "C=b.npy"), "--expect C is given twice"),
    ],
)
def test_wrong_arguments_are_said_first(
    words: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_command, "_driver", _a_driver)
    assert tkc("run", GEMM, "--target", "sm_90a", *words) == 1
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def _a_driver() -> object:
    return object()


def test_the_arrays_that_are_saved_must_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "_driver", _a_driver)
    assert tkc("run", GEMM, "--target", "sm_90a", *WORDS, "--out", "D=d.npy") == 1
    assert "the kernel has no array D; there are A, B, C" in capsys.readouterr().err


def test_a_missing_package_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert tkc("run", "missing.json") == 1
    assert "missing.json cannot be read" in capsys.readouterr().err


@pytest.mark.gpu
def test_the_gemm_runs_and_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = arguments.random((100, 64), "bf16", 1), arguments.random((72, 64), "bf16", 2)
    np.save(tmp_path / "ref.npy", a.astype(np.float64) @ b.astype(np.float64).T)
    expect, out = f"C={tmp_path / 'ref.npy'}", tmp_path / "c.npy"
    assert tkc("run", GEMM, *WORDS, "--expect", expect, "--out", f"C={out}") == 0
    assert "C: relative error" in capsys.readouterr().out
    assert arguments.load(str(out), "bf16").shape == (100, 72)
    assert tkc("run", GEMM, "A=random(100,64,seed=9)", *WORDS[1:], "--expect", expect) == 1
    assert "[TK413]" in capsys.readouterr().err
