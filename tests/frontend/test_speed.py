"""How long the front end takes, in processor time of this process, so that a busy machine does not matter."""

from __future__ import annotations

import subprocess
import sys
from time import process_time

from programs import GEMM

from tkc.frontend import compile_source


def test_the_gemm_takes_at_most_25_ms_warm() -> None:
    seconds: list[float] = []
    for _ in range(8):
        began = process_time()
        compile_source(GEMM, "k.tk")
        seconds.append(process_time() - began)
    assert min(seconds) <= 0.025


def test_a_right_program_loads_nothing_that_only_errors_need() -> None:
    code = (
        "import sys; from tkc.frontend import compile_source; compile_source(sys.stdin.read(), 'k.tk');"
        "print(*sorted({'difflib', 'numpy', 'tkc.frontend.slips', 'tkc.ir.ptx', 'tkc.passes', 'rich', 'click'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=GEMM, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_a_wrong_program_is_refused_quickly() -> None:
    from programs import changed, mistakes

    text = changed(GEMM, ("role load:", "role load"), ("a <- A[m, k]", "a <- A[m k]"))
    mistakes(text)
    began = process_time()
    mistakes(text)
    assert process_time() - began <= 0.1
