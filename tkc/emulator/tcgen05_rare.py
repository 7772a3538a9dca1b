"""The rarer forms of tcgen05: weight-stationary multiplies and loads that reduce (PTX 9.7.16.8.1, 9.7.16.10.9.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tkc.emulator.instruction import Builder, Collective, Instruction, Semantic
from tkc.emulator.lanes import F32, FULL, S32, U32, U64, Vec, view
from tkc.emulator.report import Stop
from tkc.emulator.tcgen05 import Multiply
from tkc.emulator.tensor_moves import Move, whole_warp
from tkc.ir.isa.mma import Instruction as Descriptor

_MASK_ON = 1 << 39
"""The bit of a zero-column mask that says that it is one."""


class _Stationary(Multiply):
    """tcgen05.mma.ws: B may stay in a buffer of the tensor core, which shows only in the time that it takes."""

    stationary = True

    def __init__(self, i: Instruction) -> None:
        super().__init__(i)
        self.zero = i.src("zero_columns", U64) if i.given("zero_columns") else -1

    def issue(self, w: Any) -> None:
        if self.zero >= 0 and w.uniform(self.zero) & _MASK_ON:
            raise Stop("TK323", "a zero-column mask is not covered", ins=self.i, warp=w)
        super().issue(w)

    def _a_tensor(
        self, cta: Any, agent: str, what: Descriptor, address: int, rows: int
    ) -> tuple[Vec, Vec | None]:
        if rows < 128:
            raise Stop(
                "TK323",
                f"A of {rows} rows in tensor memory of tcgen05.mma.ws is not covered",
                ins=self.i,
                warp=agent,
            )
        return super()._a_tensor(cta, agent, what, address, rows)


def _stationary(i: Instruction) -> Semantic:
    return _Stationary(i).issue


def _load_reduced(i: Instruction) -> Semantic:
    """tcgen05.ld, and the largest or smallest of the values of each lane."""
    move = Move(i, False)
    dests = [slot for slot, _ in i.dsts("d")]
    reduced = i.dst("r", 32)
    if len(dests) != len(move.rows):
        raise ValueError(f"{len(dests)} registers, expected {len(move.rows)}")
    floating = not i.row.name.endswith(".int")
    dtype = F32 if floating else S32 if i.type == "s32" else U32
    larger, absolute = i.mod("op") == "max", i.has("abs")
    fn: Any = np.maximum if larger else np.minimum
    if floating and not i.has("nan"):
        fn = np.fmax if larger else np.fmin
    i.follows = True

    def run(w: Any) -> None:
        values, bad = move.load(w)
        numbers = view(values, dtype)
        for k, slot in enumerate(dests):
            w.put(slot, values[k])
            w.taint_result(slot, bad[k])
        result = fn.reduce(np.abs(numbers) if absolute else numbers, axis=0)
        if floating:
            result = np.where(np.isnan(result), np.uint32(0x7FFFFFFF).view(F32), result)
        w.put(reduced, result.astype(dtype))
        any_bad = 0
        for one in bad:
            any_bad |= one
        w.taint_result(reduced, any_bad & FULL)

    return Collective(whole_warp(i, run))


SEMANTICS: dict[str, Builder] = {
    "tcgen05.mma.ws": _stationary,
    "tcgen05.mma.ws.ts": _stationary,
    "tcgen05.ld.red": _load_reduced,
    "tcgen05.ld.red.int": _load_reduced,
    "tcgen05.ld.red.16x32bx2": _load_reduced,
    "tcgen05.ld.red.16x32bx2.int": _load_reduced,
}
