"""How real lit runs a file whose lines run the kernel that it holds: by our own runner, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lit.formats
import lit.Test

RUNNER = Path(__file__).parent / "lit_runner.py"


class Format(lit.formats.ShTest):
    """Shell tests, except in the folder run/."""

    def execute(self, test: Any, litConfig: Any) -> Any:
        path = Path(test.getSourcePath())
        if path.parent.name != "run":
            return super().execute(test, litConfig)
        done = subprocess.run(
            [sys.executable, RUNNER, path], capture_output=True, text=True, check=False
        )
        return (lit.Test.FAIL if done.returncode else lit.Test.PASS), done.stdout + done.stderr
