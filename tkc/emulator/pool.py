"""Registers of a CTA that its warps give back and take (setmaxnreg, PTX 9.7.19.5).

What a CTA has is what it began with: threads times the registers that each has at entry. Threads that end give none
back: the manual does not say, an H200 does (`tests/gpu/check_pool.py`). What each has at entry is the assembler's
choice, and known only where a directive fixes it: `.maxnreg`, or `.minnctapersm` with the number of threads, which
makes the assembler use its whole share of the file. Without one of them the assembler drops the instruction, and
nothing waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.instruction import Blocking, Instruction, Semantic
from tkc.emulator.lanes import LANES

if TYPE_CHECKING:
    from tkc.emulator.cta import Cta
    from tkc.emulator.warp import Warp
    from tkc.ir.isa.targets import Target

STEP = 8
"""Registers are given in steps of 8 a thread."""


def at_entry(directives: Mapping[str, tuple[int, ...]], target: Target) -> int | None:
    """Registers a thread has at first; None where no directive says so."""
    if "maxnreg" in directives:
        return -(-directives["maxnreg"][0] // STEP) * STEP
    threads = directives.get("reqntid") or directives.get("maxntid")
    if threads is None or "minnctapersm" not in directives:
        return None
    return target.registers_at_entry(prod(threads) * max(1, directives["minnctapersm"][0]))


class Pool:
    """Registers that no thread of the CTA has, and the paths that wait for some."""

    def __init__(self, warps: int, entry: int) -> None:
        self.free = 0
        self.held = np.full((warps, LANES), entry, np.int64)
        self.all = int(self.held.sum())
        self.waiting: list[Any] = []

    def move(self, warp: Warp, count: int) -> Pool | None:
        """The active threads have `count` registers each from here on; the pool itself where there are too few."""
        lanes = [lane for lane in range(LANES) if warp.mask >> lane & 1]
        more = int((count - self.held[warp.index, lanes]).sum())
        if more > self.free:
            return self
        self.held[warp.index, lanes] = count
        self._give(warp, -more)
        return None

    def told(self) -> str:
        """What there is, for a report of a hang."""
        return f"the CTA began with {self.all}; its threads have {self.all - self.free}"

    def _give(self, warp: Warp, count: int) -> None:
        self.free += count
        if count > 0:
            waiting, self.waiting = self.waiting, []
            for path in waiting:
                path.waits = ""
                warp.machine.wake(path)


def _pool(cta: Cta) -> Pool | None:
    if cta.pool is None:
        entry = at_entry(cta.machine.program.function.directives, cta.machine.target)
        if entry is not None:
            cta.pool = Pool(len(cta.warps), entry)
    return cta.pool


def setmaxnreg(i: Instruction) -> Semantic:
    count = i.immediate("count")
    if not 24 <= count <= 256 or count % STEP:
        raise ValueError(f"{count} registers, expected a multiple of 8 in 24..256")

    def unfinished(w: Any) -> Pool | None:
        pool = _pool(w.cta)
        return None if pool is None else pool.move(w, count)

    return Blocking.until(unfinished, f"{count} registers a thread")
