"""What a launch leaves behind."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _memory_goes_back() -> Iterator[None]:
    """After each file, what launches have left in pieces goes back to the system: the C library keeps it otherwise."""
    yield
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
