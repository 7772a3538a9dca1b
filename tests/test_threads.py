"""Threads that compile at once make what each makes alone: what is kept between compiles is of no one program."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tkc

EXAMPLES = Path(__file__).parent.parent / "examples"
JOBS = [
    (name, target)
    for name in ("axpy", "transpose", "silu_mul", "gemm_int8")
    for target in ("sm_90a", "sm_100a")
]


def compiled(job: tuple[str, str]) -> tuple[str, object]:
    kernel = tkc.compile(EXAMPLES / f"{job[0]}.tk", target=job[1])
    return kernel.ptx, kernel.contract


def test_eight_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TKC_CACHE", "off")
    often, before = 1e-5, sys.getswitchinterval()
    sys.setswitchinterval(often)
    try:
        with ThreadPoolExecutor(len(JOBS)) as pool:
            together = list(pool.map(compiled, JOBS, timeout=60))
    finally:
        sys.setswitchinterval(before)
    assert together == [compiled(job) for job in JOBS]
