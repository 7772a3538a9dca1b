"""Matrices between shared memory and the registers of a warp: ldmatrix, stmatrix, movmatrix (PTX 9.7.14.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tkc.emulator.addresses import Part, resolver
from tkc.emulator.instruction import Builder, Collective, Instruction, Semantic
from tkc.emulator.lanes import FULL, U8, U16, U32, Vec, mask_of, view
from tkc.emulator.report import Stop
from tkc.emulator.spaces import Origin
from tkc.ir.isa.fragments import matrix_m8n16, matrix_m16n8_b8, matrix_m16n16_b8

_ROW = 16
"""Bytes of one row of a matrix."""


def _whole(i: Instruction, step: Any) -> Collective:
    def run(w: Any) -> None:
        if w.mask != FULL:
            raise Stop("TK316", f"{i.statement.mnemonic} by part of a warp", ins=i, warp=w)
        step(w)

    return Collective(run)


class _Rows:
    """The rows that the first lanes of a warp name."""

    def __init__(self, i: Instruction, count: int) -> None:
        self.origin = Origin(i, collective=True)
        self.resolve = resolver(i, "addr", i.mod("space", "shared"), self.origin, _ROW)
        self.count = count

    def parts(self, w: Any) -> list[Part]:
        if self.count == 32:
            return self.resolve(w)
        # Only the first lanes give addresses.
        kept, w.mask, w.full = (w.mask, w.full), (1 << self.count) - 1, False
        try:
            return self.resolve(w)
        finally:
            w.mask, w.full = kept

    def read(self, w: Any) -> tuple[Vec, Vec | None]:
        """(bytes (count, 16), which rows have unwritten bytes)."""
        memory = w.machine.memory
        found = np.zeros((self.count, _ROW), U8)
        bad: Vec | None = None
        for region, offsets, where in self.parts(w):
            raw = memory.read(w, self.origin, region, offsets, 64, 2).view(U8)
            unwritten = memory.unwritten(region, offsets, _ROW)
            if where is None:
                found = raw
            else:
                found[where] = raw
            if unwritten is not None:
                bad = np.zeros(self.count, bool) if bad is None else bad
                bad[slice(None) if where is None else where] = unwritten
        return found, bad

    def write(self, w: Any, rows: Vec, bad: bool) -> None:
        memory = w.machine.memory
        items = np.ascontiguousarray(rows).view(np.uint64)
        for region, offsets, where in self.parts(w):
            memory.write(
                w, self.origin, region, offsets, items if where is None else items[where], 64, 2
            )
            if bad:
                memory.poison(region, offsets, _ROW)


def _set(w: Any, slots: list[int], values: Vec, bad: Vec | None) -> None:
    """Writes registers; `bad` (registers, 32) says which lanes are uninitialised."""
    for k, slot in enumerate(slots):
        w.put(slot, values[k])
    if w.taint or bad is not None:
        for k, slot in enumerate(slots):
            w.taint_result(slot, mask_of(np.ascontiguousarray(bad[k])) if bad is not None else 0)


def _ldmatrix(i: Instruction) -> Semantic:
    num = int(i.mod("num")[1:])
    trans = i.has("trans")
    slots = [slot for slot, _ in i.dsts("d")]
    if len(slots) != num:
        raise ValueError(f"{len(slots)} registers, expected {num}")
    rows = _Rows(i, 8 * num)
    i.follows = True

    def run(w: Any) -> None:
        raw, unwritten = rows.read(w)
        bad: Vec | None = None
        if trans:
            matrices = raw.view(U16).reshape(num, 8, 8).transpose(0, 2, 1)
            values = np.ascontiguousarray(matrices).view(U32).reshape(num, 32)
            if unwritten is not None:
                bad = np.repeat(unwritten.reshape(num, 8).any(axis=1)[:, None], 32, axis=1)
        else:
            values = raw.view(U32).reshape(num, 32)
            if unwritten is not None:
                bad = np.repeat(unwritten.reshape(num, 8), 4, axis=1)
        _set(w, slots, values, bad)

    return _whole(i, run)


def _stmatrix(i: Instruction) -> Semantic:
    num = int(i.mod("num")[1:])
    trans = i.has("trans")
    slots = [slot for slot, _ in i.srcs("a", U32)]
    if len(slots) != num:
        raise ValueError(f"{len(slots)} registers, expected {num}")
    rows = _Rows(i, 8 * num)
    i.follows = True

    def run(w: Any) -> None:
        values = np.stack([view(w.R[s], U32) for s in slots])
        if trans:
            values = values.view(U16).reshape(num, 8, 8).transpose(0, 2, 1)
        raw = np.ascontiguousarray(values).view(U8).reshape(8 * num, _ROW)
        rows.write(w, raw, bool(w.taint and w.tainted(*slots)))

    return _whole(i, run)


def _unpacked(raw: Vec, form: str) -> Vec:
    """Rows of 16 bytes, or of 16 packed elements of 4 or 6 bits each in a byte of its own, in its low bits."""
    bits = 4 if "b4x16" in form else 6 if "b6x16" in form else 8
    if bits == 8:
        return raw
    single = np.unpackbits(raw[:, : 2 * bits], axis=1, bitorder="little")
    weights = (1 << np.arange(bits)).astype(U8)
    return (single.reshape(len(raw), 16, bits) * weights).sum(axis=2, dtype=U8)


def _ldmatrix_bytes(place: Any, per_matrix: int, registers: int) -> Builder:
    """Matrices of bytes: `place(lane, byte)` is the (row, byte) that each byte of a lane's registers comes from."""

    def build(i: Instruction) -> Semantic:
        num = int(i.mod("num")[1:])
        form = i.mod("format")
        slots = [slot for slot, _ in i.dsts("d")]
        if len(slots) != num * registers:
            raise ValueError(f"{len(slots)} registers, expected {num * registers}")
        rows = _Rows(i, per_matrix * num)
        lanes, parts = np.arange(32)[:, None], np.arange(4 * registers)[None, :]
        at_row, at_byte = np.broadcast_arrays(*place(lanes, parts))
        i.follows = True

        def run(w: Any) -> None:
            raw, unwritten = rows.read(w)
            matrices = _unpacked(raw, form).reshape(num, per_matrix, _ROW)
            picked = np.ascontiguousarray(matrices[:, at_row, at_byte]).view(U32)
            values = picked.transpose(0, 2, 1).reshape(num * registers, 32)
            bad = None
            if unwritten is not None:
                one = unwritten.reshape(num, per_matrix).any(axis=1)
                bad = np.repeat(np.repeat(one, registers)[:, None], 32, axis=1)
            _set(w, slots, np.ascontiguousarray(values), bad)

        return _whole(i, run)

    return build


def _stmatrix_bytes(i: Instruction) -> Semantic:
    num = int(i.mod("num")[1:])
    slots = [slot for slot, _ in i.srcs("a", U32)]
    if len(slots) != num:
        raise ValueError(f"{len(slots)} registers, expected {num}")
    rows = _Rows(i, 8 * num)
    at_row, at_byte = np.broadcast_arrays(
        *matrix_m16n8_b8(np.arange(32)[:, None], np.arange(4)[None, :])
    )
    i.follows = True

    def run(w: Any) -> None:
        raw = np.zeros((num, 8, _ROW), U8)
        for k, slot in enumerate(slots):
            x = view(w.R[slot], U32)
            raw[k, at_row, at_byte] = np.ascontiguousarray(x).view(U8).reshape(32, 4)
        rows.write(w, raw.reshape(8 * num, _ROW), bool(w.taint and w.tainted(*slots)))

    return _whole(i, run)


def _movmatrix(i: Instruction) -> Semantic:
    d, a = i.dst("d", 32), i.src("a", U32)

    def run(w: Any) -> None:
        x = np.ascontiguousarray(view(w.R[a], U32)).view(U16).reshape(8, 8).T
        w.put(d, np.ascontiguousarray(x).view(U32).reshape(32))

    return _whole(i, run)


SEMANTICS: dict[str, Builder] = {
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
    "ldmatrix.b8": _ldmatrix_bytes(matrix_m16n16_b8, 16, 2),
    "ldmatrix.narrow": _ldmatrix_bytes(matrix_m8n16, 8, 1),
    "stmatrix.b8": _stmatrix_bytes,
    "movmatrix": _movmatrix,
}
