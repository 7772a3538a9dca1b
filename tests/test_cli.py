"""The command line as processes: both entry points, pipes, interrupts, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tkc

SCRIPTS = Path(sys.executable).parent
EXAMPLE = Path(__file__).parent.parent / "examples" / "gemm_bf16.tk"


def run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tkc", *words], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_the_version_names_what_tkc_stands_on() -> None:
    done = run("--version")
    assert done.returncode == 0
    first, *rest = done.stdout.splitlines()
    assert first == f"tkc {tkc.__version__}"
    assert [line.split()[0] for line in rest] == ["xdsl", "Python", "ptxas"]


def test_help_lists_every_command_and_each_has_help() -> None:
    from tkc.commands import COMMANDS

    done = run("--help")
    assert done.returncode == 0
    assert all(f"  {name}" in done.stdout for name in COMMANDS)
    for name in COMMANDS:
        done = run(name, "--help")
        assert (done.returncode, done.stderr) == (0, "")
        assert "usage" in done.stdout.lower()


@pytest.mark.parametrize("script", ["tkc", "tkc-opt"])
def test_the_installed_scripts_run(script: str) -> None:
    done = subprocess.run([SCRIPTS / script, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_opt_is_the_same_in_both_spellings(tmp_path: Path) -> None:
    (tmp_path / "a.mlir").write_text("builtin.module {\n}\n")
    done = run("opt", "a.mlir", "-p", "set-target{arch=sm_90a}", cwd=tmp_path)
    assert done.returncode == 0
    assert 'tkc.target = "sm_90a"' in done.stdout
    assert run("opt", "a.mlir", "-p", "set-targe", cwd=tmp_path).returncode == 2


def test_opt_reads_standard_input_where_a_dash_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tkc", "opt", "-", "-p", "set-target{arch=sm_90a}"],
        input="builtin.module {\n}\n", capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert 'tkc.target = "sm_90a"' in done.stdout


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tkc", "facts"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert done.returncode == -signal.SIGPIPE
    assert done.stderr == ""


def test_an_interrupt_ends_the_command_with_one_word(tmp_path: Path) -> None:
    fifo = tmp_path / "k.tk"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [sys.executable, "-m", "tkc", "compile", str(fifo), "-o", "-"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a shell's background ignores it
    )
    deadline = time.monotonic() + 20  # long enough to be waiting, where the system does not say
    while not _waits_for(process.pid, str(fifo)) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.strip() == "interrupted"


def _waits_for(pid: int, path: str) -> bool:
    """Whether a process sleeps in the opening of a pipe that nobody writes to."""
    try:
        return (
            "fifo" in Path(f"/proc/{pid}/wchan").read_text()
            or "wait_for_partner" in Path(f"/proc/{pid}/stack").read_text()
        )
    except OSError:
        return False


HEAVY = (
    "numpy", "ml_dtypes", "rich", "cuda", "argparse", "ctypes.util", "subprocess", "xdsl.universe",
    "xdsl.xdsl_opt_main",
    "tkc.backend.assemble", "tkc.backend.launch", "tkc.emulator", "tkc.arguments", "tkc.reproducer",
)  # fmt: skip
"""What compiling to PTX must not load: numpy alone would be a quarter of the time that a compilation may take."""


def test_compiling_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from tkc.__main__ import main; "
        f"code = main(['compile', {str(EXAMPLE)!r}, '-o', {str(tmp_path / 'k.ptx')!r}]); "
        f"print(code, *(m for m in {HEAVY!r} if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_said() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tkc", "facts"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "output cannot be written: no space left on device" in done.stderr
    assert "Traceback" not in done.stderr
