"""The public names: there, typed, and loaded no sooner than they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tkc
from tkc.diagnostics import TkcError

PACKAGES = Path(__file__).parent / "gpu" / "packages"
COMPILER = ("xdsl", "lark", "numpy", "ml_dtypes", "rich", "click", "cuda")


def test_names() -> None:
    assert set(tkc.__all__) == {
        "TARGETS",
        "Kernel",
        "TensorMap",
        "TkcError",
        "compile",
        "emulate",
        "load",
        "scales",
    }
    assert {*tkc.__all__, "__version__"} <= set(dir(tkc))
    assert tkc.TkcError is TkcError
    assert "sm_100a" in tkc.TARGETS
    assert callable(tkc.compile)
    with pytest.raises(AttributeError, match="module 'tkc' has no attribute 'nothing'"):
        _ = tkc.nothing  # type: ignore[attr-defined]


def test_import_tkc_is_enough_for_its_modules() -> None:
    code = "import tkc; print(tkc.scales.interleave.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["interleave"]


AXPY = (Path(__file__).parents[1] / "examples" / "axpy.tk").read_text()


def test_params_may_be_integers_of_numpy() -> None:
    import numpy as np

    assert tkc.compile(AXPY, params={"BLOCK": np.int64(1024)}).params["BLOCK"] == 1024  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (b"kernel", {}, "the source is a bytes; expected a pathlib.Path, or the text as str"),
        (None, {}, "the source is a NoneType"),
        ("examples/axpy.tk", {}, "looks like a file's name"),
        (AXPY, {"target": None}, "target is None, NoneType; expected a text"),
        (AXPY, {"passes": ["set-target"]}, "list; expected a text"),
        (AXPY, {"kernel": 3}, "kernel is 3, int; expected a text"),
    ],
)
def test_arguments_of_another_type_are_errors(source: Any, options: Any, said: str) -> None:
    with pytest.raises(TkcError) as caught:
        tkc.compile(source, **options)
    assert said in str(caught.value)


def modules_after(code: str) -> set[str]:
    """Top packages, and rooms of tkc, that a fresh Python holds after running `code`."""
    shown = "import sys; print(*{n.split('.')[0] for n in sys.modules}, *(n for n in sys.modules if n[:4] == 'tkc.'))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{shown}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_tkc_imports_nothing() -> None:
    found = modules_after("import tkc")
    assert {n for n in found if n.startswith("tkc.")} == {"tkc.version"}
    assert not found & set(COMPILER)


def test_loading_and_binding_need_no_compiler() -> None:
    """The whole way to a driver call, where the driver is not there."""
    found = modules_after(
        "import tkc\n"
        f"k = tkc.load({str(PACKAGES / 'tile_copy.json')!r})\n"
        "import tkc.backend.launch, tkc.backend.assemble\n"
        "from tkc.backend.arrays import View\n"
        "from tkc.backend.bind import bind\n"
        "v = View(4096, (8, 64), (128, 2), 'bf16', 'cuda', 0)\n"
        "assert bind(k.contract, [v, v]).grid == (1, 1, 1)"
    )
    assert not found & set(COMPILER)
    assert not {
        n for n in found if n.startswith(("tkc.ir.ptx", "tkc.passes", "tkc.frontend", "tkc.driver"))
    }


def test_without_a_gpu_a_launch_says_so() -> None:
    code = (
        "import ctypes, tkc\n"
        "def gone(name): raise OSError(name)\n"
        "ctypes.CDLL = gone\n"
        f"k = tkc.load({str(PACKAGES / 'increment.json')!r})\n"
        "try: k.launch(1)\n"
        "except tkc.TkcError as error: assert 'TK409' in str(error), error\n"
        "else: raise SystemExit('launched')"
    )
    modules_after(code)
