"""One thread for the host's matrix products: they are small, and threads that spin cost more than they bring."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

_PREFIXES = ("scipy_openblas_", "openblas_")
_SUFFIXES = ("64_", "")


@cache
def _switch() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """(get, set) of the number of threads of NumPy's OpenBLAS; None where NumPy has another library."""
    folder = Path(np.__file__).parent
    places = [*folder.parent.glob("numpy.libs/*openblas*"), *folder.glob(".dylibs/*openblas*")]
    for place in places:
        try:
            library = ctypes.CDLL(str(place))
        except OSError:
            continue
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                getter = getattr(library, f"{prefix}get_num_threads{suffix}", None)
                setter = getattr(library, f"{prefix}set_num_threads{suffix}", None)
                if getter is not None and setter is not None:
                    return getter, setter
    return None


@contextmanager
def one_thread() -> Generator[None]:
    """Inside of the block the host's matrix products use one thread."""
    switch = _switch()
    if switch is None:
        yield
        return
    get, put = switch
    before = get()
    put(1)
    try:
        yield
    finally:
        put(before)
