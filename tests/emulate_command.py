"""`tkc emulate` for tests: the texts that it runs, its words, what it said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_ptx import HANG, LOOP, SCALE, SCALE_STRUCT, TILE, TILE_BY_POINTER, TWO

from tkc.__main__ import guarded, main

EXAMPLES = Path(__file__).parents[1] / "examples"
GEMM = str(EXAMPLES / "gemm_bf16.tk")
GROUPED = str(EXAMPLES / "gemm_grouped_list.tk")
COPY = str(EXAMPLES / "tma_copy.tk")
WORDS = ("A=random(72,40,seed=1)", "B=random(80,40,seed=2)", "C=empty(72,80)")
LAUNCH = ("--grid", "2")
SCALE_WORDS = ("x=f32:random(100,seed=1)", "y=f32:empty(100)", "factor=2.0", "n=100")

TEXTS = {
    "scale": SCALE,
    "scale_struct": SCALE_STRUCT,
    "two": TWO,
    "tile": TILE,
    "tile_by_pointer": TILE_BY_POINTER,
    "hang": HANG,
    "loop": LOOP,
}
"""Name → the text of NAME.ptx in the folder of a test."""


def write_texts(folder: Path) -> None:
    """Writes every text, and the source that one of them names."""
    for name, text in TEXTS.items():
        (folder / f"{name}.ptx").write_text(text)
    (folder / "scale.tk").write_text("# not read as a program\n    y <- x * factor\n")


def emulate(*words: str) -> int:
    """The exit code of the command."""
    return guarded(main, ("emulate", *words))


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON document that the command has printed."""
    return json.loads(capsys.readouterr().out)


def one_error(err: str, *says: str) -> None:
    assert err.count("error: ") == 1, err
    for text in says:
        assert text in err
    assert "Traceback" not in err
