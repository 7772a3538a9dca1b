"""Calls of the functions that the system provides: assertions and printing (CUDA: system calls)."""

from __future__ import annotations

from typing import Any

from tkc.emulator.instruction import Builder, Instruction, Semantic
from tkc.emulator.report import Stop
from tkc.emulator.syntax import Name


def _assertion(i: Instruction) -> Semantic:
    def run(w: Any) -> None:
        raise Stop("TK410", "an assertion of the kernel failed", ins=i, warp=w)

    return run


_SYSTEM = {
    "__assertfail": _assertion,
    "__assert_fail": _assertion,
    # What a kernel prints is dropped; the number of arguments that it returns is never looked at.
    "vprintf": lambda i: lambda w: None,
}
"""By name; a module declares those that it calls without a body."""


def _call(i: Instruction) -> Semantic:
    target = i.one("target")
    name = target.text if isinstance(target, Name) else ""
    if name not in _SYSTEM:
        raise ValueError(f"a call of {name or 'an address'} is not covered")
    return _SYSTEM[name](i)


SEMANTICS: dict[str, Builder] = {"call": _call}
