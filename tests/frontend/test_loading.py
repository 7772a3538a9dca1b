"""What the front end loads: nothing that only errors, dumps or other rooms need."""

from __future__ import annotations

import subprocess
import sys

from programs import GEMM


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
