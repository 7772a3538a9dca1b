"""Sparse multiplies, mma.sp and wgmma.mma_async.sp: A has two of every four columns, and metadata says which.

A is widened to the dense matrix, with zeros in the columns that it has not, and multiplied as any other. Zeros take no
part in the sums of tensor cores, so this is exact, except that an infinity or a NaN of B counts in those columns too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.instruction import Builder, Collective, Instruction, Semantic
from tkc.emulator.lanes import F32, U32, Vec, view
from tkc.emulator.mma import Multiply
from tkc.emulator.report import Stop
from tkc.emulator.wgmma import ROWS, Operation, whole_warp
from tkc.ir.isa.fragments import metadata_place

_WARP_ROWS = 16
_SECOND = 0b1110
"""Metadata of 32-bit elements: the second of two columns is kept; 0b0100 is the first."""


@lru_cache(maxsize=64)
def _places(bits: int, depth: int, selector: int) -> tuple[Vec, Vec]:
    """(lanes, lowest bits) of the metadata of each row of a warp and each group of columns."""
    groups = depth // (2 if bits == 32 else 4)
    found = [
        [metadata_place(bits, depth, selector, row, group) for group in range(groups)]
        for row in range(_WARP_ROWS)
    ]
    both = np.array(found)
    return both[:, :, 0], both[:, :, 1].astype(U32)


def _lanes_used(bits: int, depth: int, selector: int) -> int:
    """The mask of the lanes whose metadata counts."""
    return int(np.bitwise_or.reduce(1 << _places(bits, depth, selector)[0].reshape(-1)))


def widen(stored: Vec, metadata: Vec, bits: int, selector: int, i: Instruction, w: Any) -> Vec:
    """The dense rows of one warp's part of A: (16, K / 2) to (16, K). Stops where metadata has no meaning."""
    depth = 2 * stored.shape[1]
    lanes, low = _places(bits, depth, selector)
    kept = (metadata[lanes] >> low) & U32.type(0xF)
    first, second = kept & U32.type(3), kept >> U32.type(2)
    if bits == 32:
        legal = (kept == _SECOND) | (kept == 0b0100)
    else:
        legal = first < second
    if not legal.all():
        row, group = np.argwhere(~legal)[0]
        raise Stop(
            "TK323",
            f"metadata {int(kept[row, group]):#06b} of row {row}, group {group} names no columns in order",
            ins=i,
            warp=w,
        )
    dense = np.zeros((_WARP_ROWS, depth), F32)
    rows = np.arange(_WARP_ROWS)[:, None]
    groups: Vec = np.arange(len(lanes[0]))[None, :]
    if bits == 32:
        dense[rows, 2 * groups + (kept == _SECOND)] = stored
    else:
        dense[rows, 4 * groups + first] = stored[:, 0::2]
        dense[rows, 4 * groups + second] = stored[:, 1::2]
    return dense


class _SparseMultiply(Multiply):
    """mma.sp of one warp."""

    def __init__(self, i: Instruction) -> None:
        super().__init__(i, i.mod("atype"), i.mod("btype"), "f32")
        self.meta = i.src("meta", U32)
        self.selector = i.immediate("selector")
        self.used = _lanes_used(self.bits, self.k, self.selector)

    def matrix(
        self, w: Any, slots: list[int], kind: str, which: str, shape: tuple[int, int]
    ) -> Vec:
        if which != "a":
            return super().matrix(w, slots, kind, which, shape)
        stored = super().matrix(w, slots, kind, which, (shape[0], shape[1] // 2))
        metadata = view(w.R[self.meta], U32)
        return widen(stored, metadata, self.bits, self.selector, self.i, w)

    def bad_rows(self, w: Any) -> bool:
        return bool(w.holds_nothing(self.meta) & self.used)


class _SparseOperation(Operation):
    """wgmma.mma_async.sp of one warpgroup."""

    def __init__(self, i: Instruction) -> None:
        super().__init__(i)
        self.stored = self.k // 2
        self.more = [i.src("meta", U32)]
        self.selector = i.immediate("selector")
        self.used = _lanes_used(self.bits, self.k, self.selector)

    def dense(
        self, a: Vec, bad: Vec | None, came: dict[int, tuple[Any, ...]]
    ) -> tuple[Vec, Vec | None]:
        made = np.empty((ROWS, self.k), F32)
        for quarter, (warp, _, _, snapshot, _) in came.items():
            part = slice(_WARP_ROWS * quarter, _WARP_ROWS * (quarter + 1))
            metadata = view(snapshot[-1], U32)
            made[part] = widen(a[part], metadata, self.bits, self.selector, self.i, warp)
            if warp.taint and warp.holds_nothing(self.more[0]) & self.used:
                bad = np.zeros(ROWS, bool) if bad is None else bad.copy()
                bad[part] = True
        return made, bad


def _warp(i: Instruction) -> Semantic:
    return Collective(_SparseMultiply(i).run)


def _warpgroup(i: Instruction) -> Semantic:
    operation = _SparseOperation(i)
    return Collective(whole_warp(i, operation.issue))


SEMANTICS: dict[str, Builder] = {
    "mma.sp": _warp,
    "wgmma.mma_async.sp": _warpgroup,
    "wgmma.mma_async.sp.rs": _warpgroup,
}
