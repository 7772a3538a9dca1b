"""`tkc completion`, and what the scripts ask for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

SHELLS = ("bash", "zsh", "fish")


def tkc(*words: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tkc", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **more},
    )
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_that_it_can_read(shell: str) -> None:
    script = tkc("completion", shell)
    assert f"_TKC_COMPLETE={shell}_complete" in script
    path = shutil.which(shell)
    if path is not None:
        subprocess.run([path, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("tkc comp", {"compile", "completion"}),
        ("tkc compile --tim", {"--timing"}),
        ("tkc compile --target sm_90", {"sm_90", "sm_90a"}),
        ("tkc compile --remarks sw", {"swizzle"}),
        ("tkc compile --no-insert", {"--no-insert-fences"}),
        ("tkc compile --print-ir-after lower-p", {"lower-pipes"}),
        ("tkc check --explain TK20", {*(f"TK20{n}" for n in range(1, 10))}),
        ("tkc emulate --schedule r", {"random"}),
        ("tkc facts sm_103", {"sm_103f", "sm_103a"}),
    ],
)
def test_words_are_completed(line: str, wanted: set[str]) -> None:
    said = tkc(
        _TKC_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1)
    )
    assert {word.partition(",")[2] for word in said.split()} == wanted
