"""The progress bar: only on a terminal, only after a while."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from small_ptx import SCALE

from tkc.commands import progress
from tkc.emulator.launch import emulate
from tkc.emulator.watch import Watch


class Terminal(io.StringIO):
    """Tells when something is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "CTAs" in text:
            self.shown.set()
        return super().write(text)


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal; asked for in the test itself, as pytest puts its own there before each phase."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return made


def run(watch: Watch) -> None:
    x = np.zeros(128, np.float32)
    emulate(SCALE, grid=2, block=64, args=[x, x, np.float32(2), np.uint32(128)], watch=watch)


def test_a_long_run_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "INTERVAL", 0.001)
    watch = Watch()
    with progress.progress(watch, "scale", 2):
        run(watch)
        assert screen.shown.wait(20)
    assert re.search(r"[0-2] of 2 CTAs, \d+ steps, \d s", screen.getvalue())


def test_a_short_run_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = terminal(monkeypatch)
    watch = Watch()
    with progress.progress(watch, "scale", 2):
        run(watch)
    assert screen.getvalue() == ""


def test_what_is_no_terminal_gets_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with (tmp_path / "err").open("w+") as file:
        monkeypatch.setattr(sys, "stderr", file)
        watch = Watch()
        with progress.progress(watch, "scale", 2):
            run(watch)
        assert file.tell() == 0


def test_an_exception_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    with pytest.raises(KeyboardInterrupt), progress.progress(Watch(), "scale", 2):
        raise KeyboardInterrupt
