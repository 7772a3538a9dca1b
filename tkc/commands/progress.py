"""The progress of a long emulation: a bar on a terminal, after a second, drawn by a thread of its own."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tkc.emulator.watch import Watch

DELAY = 1.0
"""Seconds of silence: what takes no longer needs no bar."""

INTERVAL = 0.2


@contextmanager
def progress(watch: Watch, name: str, ctas: int) -> Generator[None]:
    """Shows how many of its CTAs a watched launch has done, and its steps, while the block runs.

    The thread only reads the machine's counters, so that the launch does not know of it.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = Event()
    thread = Thread(target=_show, args=(watch, name, ctas, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(watch: Watch, name: str, ctas: int, over: Event) -> None:
    began = perf_counter()
    if over.wait(DELAY):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, auto_refresh=False
    ) as bars:
        # The time of one CTA cannot be told: its bar only moves.
        task = bars.add_task(name, total=ctas if ctas > 1 else None, state="")
        while True:
            machine = watch.machine
            if machine is not None:
                seconds = perf_counter() - began
                state = f"{machine.done_ctas:,} of {ctas:,} CTAs, {machine.steps:,} steps, {seconds:.0f} s"
                bars.update(task, completed=machine.done_ctas, state=state)
            bars.refresh()
            if over.wait(INTERVAL):
                return
