"""`tkc run`: what it says before anything runs, and on a GPU what it computes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import pytest
from backend.fakes import FakeDriver, HostMemory
from conftest import has_gpu

from tkc import arguments
from tkc.__main__ import guarded, main
from tkc.backend import cuda
from tkc.commands import run as run_command

LIST = str(Path(__file__).parents[2] / "examples" / "gemm_grouped_list.tk")
GROUPS = ("rows=[5,0,9]", "A=[random(5,40),random(0,40),random(9,40)]", "B=random(3,72,40)")
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


class _Multiplier(FakeDriver):
    """Multiplies the arrays of the launch's tensor maps, of B, A and C, where they lie in its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lib = HostMemory()

    def launch(self, launch: Any, function: Any, params: Any) -> None:
        super().launch(launch, function, params)
        maps = [call[1].tiled for call in self.calls if call[0] == "encode"]
        groups = len(maps) // 3
        for b, a, c in zip(maps[:groups], maps[groups:-groups], maps[-groups:], strict=True):
            if c.address == self.scratch(0):  # of an array without elements
                continue
            x, y, z = (self._at(tiled) for tiled in (a, b, c))
            z[...] = x.astype(np.float64) @ y.astype(np.float64).T

    def _at(self, tiled: Any) -> Any:
        columns, rows = tiled.sizes
        assert tiled.strides[0] == 2 * columns
        assert tiled.address in self.lib.held
        block = (ctypes.c_char * (2 * rows * columns)).from_address(tiled.address)
        return np.frombuffer(block, ml_dtypes.bfloat16).reshape(rows, columns)


def _multiplier(monkeypatch: pytest.MonkeyPatch) -> _Multiplier:
    driver = _Multiplier()
    monkeypatch.setattr(run_command, "_driver", lambda: driver)
    monkeypatch.setattr(cuda, "driver", lambda: driver)
    return driver


def test_each_array_of_a_list_lies_on_the_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = _multiplier(monkeypatch)
    a = [
        arguments.random((r, 40), "bf16", crc32(f"A[{i}]".encode()))
        for i, r in enumerate((5, 0, 9))
    ]
    b = arguments.random((3, 72, 40), "bf16", crc32(b"B")).astype(np.float64)
    np.savez(tmp_path / "ref.npz", *(x.astype(np.float64) @ y.T for x, y in zip(a, b, strict=True)))
    words = ("run", LIST, "-D", "BN=64", *GROUPS, "C=[empty(5,72),empty(0,72),empty(9,72)]")
    expect, out = f"C={tmp_path / 'ref.npz'}", f"C={tmp_path / 'c.npz'}"
    assert tkc(*words, "--expect", expect, "--out", out) == 0, capsys.readouterr().err
    assert "C: relative error at most 0.00" in capsys.readouterr().out
    assert [len(x) for x in arguments.load_list(str(tmp_path / "c.npz"), "bf16")] == [5, 0, 9]
    assert driver.count("launch") == 1
    assert not driver.lib.held
    _multiplier(monkeypatch)
    changed = [w.replace("random(9,40)", "random(9,40,seed=3)") for w in words]
    assert tkc(*changed, "--expect", expect) == 1
    assert "C[2]: relative error" in capsys.readouterr().err


def test_what_is_wrong_with_a_list_is_one_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = _multiplier(monkeypatch)
    words = ("run", LIST, "-D", "BN=64", *GROUPS[:1], "B=random(3,72,40)", "C=empty(3,9,72)")
    for word, says in (
        ("A=random(9,40)", "A is a list of arrays of rank 2; found one array of shape (9, 40)"),
        ("A=[random(9),random(40),random(8)]", "A[0] has rank 1 (shape (9,)); A is a list"),
        ("A=[random(9,40),random(9,40)]", "G is"),
    ):
        assert tkc(*words, word) == 1
        err = capsys.readouterr().err
        assert err.count("error: ") == 1, err
        assert says in err
    assert tkc(*words, "A=random(3,9,40)", "--out", "C=c.npy") == 1
    assert "help: --out C=c.npz" in capsys.readouterr().err
    assert not driver.launches
    assert not driver.lib.held


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
