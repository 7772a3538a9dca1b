"""The warp's own matrix multiply, mma.sync (PTX 9.7.14.5).

Sums are the hardware's own, bit for bit (see `sums.py`); f64 is a chain of fused multiply-adds; integers are exact.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.instruction import Builder, Collective, Instruction, Semantic
from tkc.emulator.lanes import F16, F32, F64, FULL, S32, S64, U8, U16, U32, Vec, mask_of, view
from tkc.emulator.report import Stop
from tkc.emulator.rounding import exact64
from tkc.emulator.sums import add_products, row_of
from tkc.emulator.tiles import decode_values
from tkc.ir.isa.fragments import (
    a_fragment_8,
    a_fragment_16,
    a_fragment_32,
    accumulator_fragment,
    b_fragment_8,
    b_fragment_16,
    b_fragment_32,
)

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "e4m3": 8,
    "e5m2": 8,
}


def _a4(t: Any, v: Any) -> Any:
    return t // 4 + 8 * ((v >> 3) & 1), 8 * (t % 4) + (v & 7) + 32 * (v >> 4)


def _b4(t: Any, v: Any) -> Any:
    return 8 * (t % 4) + (v & 7) + 32 * (v >> 3), t // 4


def _a1(t: Any, v: Any) -> Any:
    return t // 4 + 8 * ((v >> 5) & 1), 32 * (t % 4) + (v & 31) + 128 * (v >> 6)


def _b1(t: Any, v: Any) -> Any:
    return 32 * (t % 4) + (v & 31) + 128 * (v >> 5), t // 4


def _b_row(bits: int) -> Any:
    """A of 8 rows: the places of B with rows and columns exchanged."""
    return lambda t, v: _B[bits](t, v)[::-1]


_A = {16: a_fragment_16, 32: a_fragment_32, 64: a_fragment_32, 8: a_fragment_8, 4: _a4, 1: _a1}
_B: dict[int, Any] = {
    16: b_fragment_16,
    32: b_fragment_32,
    64: b_fragment_32,
    8: b_fragment_8,
    4: _b4,
    1: _b1,
}


@lru_cache(maxsize=256)
def _places(which: str, bits: int, rows: int, values: int) -> tuple[Vec, Vec]:
    """(rows, columns) of each value (first axis) of each lane (second)."""
    t, v = np.arange(32)[None, :], np.arange(values)[:, None]
    if which == "a":
        place = _A[bits] if rows == 16 else _b_row(bits)
    elif which == "b":
        place = _B[bits]
    else:
        place = accumulator_fragment
    r, c = np.broadcast_arrays(*place(t, v))
    return r, c


def _values(w: Any, slots: list[int], kind: str) -> Vec:
    """(values, 32) numbers of the registers of an operand."""
    if kind == "f64":
        return np.stack([view(w.R[s], F64) for s in slots])
    raw = np.stack([view(w.R[s], U32) for s in slots])
    if kind in ("s4", "u4"):
        nibbles = (raw[:, None, :] >> (4 * np.arange(8, dtype=U32))[None, :, None]) & np.uint32(0xF)
        flat = nibbles.reshape(-1, 32).astype(np.int32)
        return np.where((flat > 7) & (kind == "s4"), flat - 16, flat).astype(F32)
    if kind == "b1":
        bits = (raw[:, None, :] >> np.arange(32, dtype=U32)[None, :, None]) & np.uint32(1)
        return bits.reshape(-1, 32).astype(F32)
    decoded = decode_values(raw[:, :, None].view(U8), kind)
    return np.moveaxis(decoded, 2, 1).reshape(-1, 32)


class Multiply:
    """One mma.sync, decoded."""

    def __init__(self, i: Instruction, a_kind: str, b_kind: str, d_kind: str) -> None:
        shape = _SHAPE.fullmatch(i.mod("shape"))
        if shape is None:
            raise ValueError(f"shape {i.mod('shape')} is not covered")
        self.i = i
        self.m, self.n, self.k = (int(x) for x in shape.groups())
        self.a_kind, self.b_kind, self.d_kind = a_kind, b_kind, d_kind
        self.bits = _BITS[a_kind]
        if self.n != 8 or (self.m == 8 and self.bits == 16):
            raise ValueError(f"shape {i.mod('shape')} of .{a_kind} is not covered")
        wide = F64 if a_kind == "f64" else U32
        self.a = [s for s, _ in i.srcs("a", wide)]
        self.b = [s for s, _ in i.srcs("b", wide)]
        self.c = [
            s for s, _ in i.srcs("c", F64 if d_kind == "f64" else F32 if d_kind == "f32" else U32)
        ]
        self.d = [s for s, _ in i.dsts("d")]
        self.sat = i.has("satfinite")
        self.op = i.mod("op")
        self.round = i.mod("round", "rn")
        self.exact = F64 if a_kind == "f64" else F32
        i.follows = True

    def matrix(
        self, w: Any, slots: list[int], kind: str, which: str, shape: tuple[int, int]
    ) -> Vec:
        """An operand from the registers of the warp."""
        values = _values(w, slots, kind)
        rows, columns = _places(which, self.bits, self.m if which == "a" else 16, len(values))
        made = np.zeros(shape, self.exact)
        made[rows, columns] = values
        return made

    def run(self, w: Any) -> None:
        if w.mask != FULL:
            raise Stop(
                "TK316", f"{self.i.statement.mnemonic} by part of a warp", ins=self.i, warp=w
            )
        a = self.matrix(w, self.a, self.a_kind, "a", (self.m, self.k))
        b = self.matrix(w, self.b, self.b_kind, "b", (self.k, self.n))
        count = self.m * self.n // 32
        rows, columns = _places("d", 32, 16, count)
        c = self._accumulator(w, rows, columns)
        d = self._sum(a, b, c)
        result = d[rows, columns]
        if self.d_kind == "f16":
            halves = result.astype(F16).view(U16).astype(U32)
            result = halves[1::2] << np.uint32(16) | halves[0::2]
        for k, slot in enumerate(self.d):
            w.put(slot, result[k])
        if w.taint:
            self._follow(w, rows, columns)

    def bad_rows(self, w: Any) -> bool:
        """Whether something else than A's registers makes every row of A uninitialised."""
        return False

    def _accumulator(self, w: Any, rows: Vec, columns: Vec) -> Vec:
        R = w.R
        dtype = {"f64": F64, "s32": S32}.get(self.d_kind, F32)
        c = np.zeros((self.m, self.n), dtype)
        if self.d_kind == "f16":
            packed = np.stack([view(R[s], U32) for s in self.c])
            c[rows[0::2], columns[0::2]] = (packed & np.uint32(0xFFFF)).astype(U16).view(F16)
            c[rows[1::2], columns[1::2]] = (packed >> np.uint32(16)).astype(U16).view(F16)
        else:
            c[rows, columns] = np.stack([view(R[s], dtype) for s in self.c])
        return c

    def _sum(self, a: Vec, b: Vec, c: Vec) -> Vec:
        if self.d_kind == "s32":
            product = a @ (1 - b) + (1 - a) @ b if self.op.startswith("xor") else a @ b
            total = product.astype(S64) + c
            return (np.clip(total, -(1 << 31), (1 << 31) - 1) if self.sat else total).astype(S32)
        if self.d_kind == "f64":
            fused = exact64("fma", self.round)
            total = c.reshape(-1)
            for k in range(self.k):
                x, y = np.broadcast_arrays(a[:, k, None], b[None, k, :])
                total = fused(x.reshape(-1), y.reshape(-1), total)
            return total.reshape(c.shape)
        row = row_of("mma.sync", self.a_kind, self.d_kind)
        assert row is not None
        return add_products(row, (self.a_kind, self.b_kind), a, b.T, c)

    def _follow(self, w: Any, rows: Vec, columns: Vec) -> None:
        """A row of D is uninitialised where a register of that row of A is, a column likewise with B."""
        bad = np.full((self.m, self.n), self.bad_rows(w))
        for slots, which, axis in ((self.a, "a", 0), (self.b, "b", 1)):
            per = max(1, 32 // self.bits) if self.bits < 64 else 1
            at_rows, at_columns = _places(
                which, self.bits, self.m if which == "a" else 16, per * len(slots)
            )
            for k, slot in enumerate(slots):
                lanes = w.holds_nothing(slot)
                if lanes:
                    hit = np.array([lanes >> t & 1 for t in range(32)], bool)
                    index = (at_rows if axis == 0 else at_columns)[k * per][hit]
                    if axis == 0:
                        bad[index, :] = True
                    else:
                        bad[:, index] = True
        lanes_bad = bad[rows, columns]
        step = len(lanes_bad) // len(self.d)
        for k, slot in enumerate(self.d):
            marked = lanes_bad[k * step : (k + 1) * step].any(axis=0)
            w.taint_result(slot, mask_of(marked) | w.holds_nothing(self.c[k]))


def _mma(d_kind: str) -> Builder:
    def build(i: Instruction) -> Semantic:
        if i.has("kind"):
            raise ValueError(f"kind {i.mod('kind')} is not covered")
        a, b = ("f64", "f64") if d_kind == "f64" else (i.mod("atype"), i.mod("btype"))
        return Collective(Multiply(i, a, b, d_kind).run)

    return build


SEMANTICS: dict[str, Builder] = {
    "mma.sync": _mma("f32"),
    "mma.sync.f16": _mma("f16"),
    "mma.sync.s32": _mma("s32"),
    "mma.sync.f64": _mma("f64"),
}
