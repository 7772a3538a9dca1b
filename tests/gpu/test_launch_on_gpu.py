"""The launcher's checks on a real GPU, as one test: they live in a script that plain Python runs too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "check_launch.py"


@pytest.mark.gpu
def test_every_check_of_the_launcher_passes() -> None:
    pytest.importorskip("torch", reason="the checks need torch")
    pytest.importorskip("cupy", reason="the checks need cupy")
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
