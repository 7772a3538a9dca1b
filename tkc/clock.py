"""When this process began, for `--timing`: loaded by the command line before anything else."""

from __future__ import annotations

from time import perf_counter, process_time

_LOADED = perf_counter()
_START_UP = process_time()


def start_up_seconds() -> float:
    """Processor time that the process had taken when this module was loaded."""
    return _START_UP


def seconds_since_start() -> float:
    """Time since the process began, start-up included."""
    return _START_UP + perf_counter() - _LOADED
