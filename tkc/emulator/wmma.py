"""The older warp-level matrix instructions wmma.load, wmma.mma and wmma.store (PTX 9.7.14.4).

PTX leaves open which lane holds what of a fragment. Here fragments are those of mma.sync, tile after tile, as on GPUs
since Ampere; f16 operands have more registers than elements, and hold each element more than once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.addresses import parts_at
from tkc.emulator.instruction import Builder, Collective, Instruction, Semantic
from tkc.emulator.lanes import (
    F16,
    F32,
    FULL,
    LANES,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    UNSIGNED,
    Vec,
    view,
)
from tkc.emulator.report import Stop
from tkc.emulator.spaces import Origin
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
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "f32": 32, "s32": 32}
_A = {16: a_fragment_16, 32: a_fragment_32, 8: a_fragment_8}
_B = {16: b_fragment_16, 32: b_fragment_32, 8: b_fragment_8}
_LANE = np.arange(LANES)[None, :]


@lru_cache(maxsize=64)
def places(operand: str, shape: tuple[int, int, int], bits: int) -> tuple[Vec, Vec]:
    """(rows, columns) of each element of each lane (second axis): A is m x k, B k x n, C and D m x n."""
    m, n, k = shape
    found: list[Any] = []
    if operand == "a":
        if m == 8:
            found = [_B[bits](_LANE, np.arange(8 * k // LANES)[:, None])[::-1]]
        else:
            one = _A[bits](_LANE, np.arange(16 * k // LANES)[:, None])
            found = [(one[0] + 16 * tile, one[1]) for tile in range(m // 16)]
    elif operand == "b":
        one = _B[bits](_LANE, np.arange(8 * k // LANES)[:, None])
        found = [(one[0], one[1] + 8 * tile) for tile in range(n // 8)]
    else:
        tall = min(m, 16)
        one = accumulator_fragment(_LANE, np.arange(tall * 8 // LANES)[:, None])
        found = [
            (one[0] + 16 * down, one[1] + 8 * right)
            for down in range(m // tall)
            for right in range(n // 8)
        ]
    both = [np.broadcast_arrays(*place) for place in found]
    return np.concatenate([r for r, _ in both]), np.concatenate([c for _, c in both])


def _shape(i: Instruction) -> tuple[int, int, int]:
    found = _SHAPE.fullmatch(i.mod("shape"))
    if found is None:
        raise ValueError(f"shape {i.mod('shape')} is not covered")
    m, n, k = (int(x) for x in found.groups())
    return m, n, k


class _Move:
    """What a load or store touches: the byte offset of each element from the base, for a row length of `stride`."""

    def __init__(self, i: Instruction, operand: str) -> None:
        self.i = i
        self.kind = i.type
        self.bits = _BITS[self.kind]
        shape = _shape(i)
        self.rows, self.columns = places(operand, shape, self.bits)
        self.by_row = i.mod("layout") == "row"
        m, n, k = shape
        across = {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
        self.default = across[1] if self.by_row else across[0]
        self.stride = i.src("stride", U32) if i.given("stride") else -1
        self.slot, _, self.offset, _ = i.address("addr")
        self.space = i.mod("space")
        self.origin = Origin(i)

    def parts(self, w: Any) -> list[Any]:
        """For each element of a lane the places in memory."""
        if w.mask != FULL:
            raise Stop(
                "TK316", f"{self.i.statement.mnemonic} by part of a warp", ins=self.i, warp=w
            )
        if w.taint:
            w.check_address(self.slot, self.i)
        stride = w.uniform(self.stride) if self.stride >= 0 else self.default
        major, minor = (self.rows, self.columns) if self.by_row else (self.columns, self.rows)
        unit = self.bits // 8
        base = w.uniform(self.slot) + self.offset
        addresses = (base + (major * stride + minor) * unit).astype(U64)
        return [parts_at(w, self.origin, self.space, row, unit) for row in addresses]


def _load(operand: str) -> Builder:
    def build(i: Instruction) -> Semantic:
        move = _Move(i, operand or i.mod("operand"))
        dests = [slot for slot, _ in i.dsts("d")]
        bits = move.bits
        per = 32 // bits
        if len(dests) * per % len(move.rows):
            raise ValueError(f"{len(dests)} registers do not hold {len(move.rows)} elements")
        i.follows = True

        def run(w: Any) -> None:
            memory = w.machine.memory
            values = np.zeros((len(move.rows), LANES), UNSIGNED[bits])
            bad = np.zeros(values.shape, bool)
            for k, parts in enumerate(move.parts(w)):
                for region, offsets, where in parts:
                    at = slice(None) if where is None else where
                    values[k, at] = memory.read(w, move.origin, region, offsets, bits)
                    unwritten = memory.unwritten(region, offsets, bits // 8)
                    if unwritten is not None:
                        bad[k, at] = unwritten
            times = len(dests) * per // len(values)
            whole = np.tile(values, (times, 1)).reshape(len(dests), per, LANES)
            words = np.ascontiguousarray(whole.transpose(0, 2, 1)).view(U32).reshape(-1, LANES)
            marks = np.tile(bad, (times, 1)).reshape(len(dests), per, LANES).any(axis=1)
            for k, slot in enumerate(dests):
                w.put(slot, words[k])
                if w.taint or marks[k].any():
                    w.taint_result(slot, _mask(marks[k]))

        return Collective(run)

    return build


def _mask(lanes: Vec) -> int:
    return int(sum(1 << int(t) for t in np.flatnonzero(lanes)))


def _elements(w: Any, slots: list[int], bits: int, count: int) -> Vec:
    """(count, 32): the first elements of the registers of an operand, as bits."""
    raw = np.stack([view(w.R[s], U32) for s in slots])
    parts = raw[:, :, None].view(UNSIGNED[bits])
    return np.moveaxis(parts, 2, 1).reshape(-1, LANES)[:count]


def _store(i: Instruction) -> Semantic:
    move = _Move(i, "d")
    sources = [slot for slot, _ in i.srcs("a", F32 if move.kind == "f32" else U32)]
    bits, count = move.bits, len(move.rows)
    i.follows = True

    def run(w: Any) -> None:
        memory = w.machine.memory
        values = _elements(w, sources, bits, count)
        bad = w.tainted(*sources) if w.taint else 0
        for k, parts in enumerate(move.parts(w)):
            for region, offsets, where in parts:
                at = slice(None) if where is None else where
                memory.write(w, move.origin, region, offsets, values[k, at], bits)
                if bad and region.space == "global":
                    w.machine.found(
                        "TK320", f"an uninitialised value is stored to {region.name}", i, w
                    )
                elif bad:
                    memory.poison(region, offsets, bits // 8)

    return Collective(run)


def _matrix(w: Any, slots: list[int], operand: str, shape: tuple[int, int, int], kind: str) -> Vec:
    m, n, k = shape
    rows, columns = places(operand, shape, _BITS[kind])
    made = np.zeros((m, k) if operand == "a" else (k, n), F32)
    values = _elements(w, slots, _BITS[kind], len(rows))
    made[rows, columns] = decode_values(values[:, :, None].view(U8), kind)[..., 0]
    return made


def _multiply(d_kind: str, c_kind: str) -> Builder:
    def build(i: Instruction) -> Semantic:
        shape = _shape(i)
        a_kind = i.mod("atype") or "f16"
        b_kind = i.mod("btype") or "f16"
        a, b = ([s for s, _ in i.srcs(name, U32)] for name in ("a", "b"))
        c = [s for s, _ in i.srcs("c", F32 if c_kind == "f32" else U32)]
        d = [s for s, _ in i.dsts("d")]
        rows, columns = places("d", shape, 32)
        saturates = i.has("satfinite")

        def run(w: Any) -> None:
            if w.mask != FULL:
                raise Stop("TK316", f"{i.statement.mnemonic} by part of a warp", ins=i, warp=w)
            product = _matrix(w, a, "a", shape, a_kind) @ _matrix(w, b, "b", shape, b_kind)
            mine = product[rows, columns]
            old = _elements(w, c, 16 if c_kind == "f16" else 32, len(rows))
            if d_kind == "s32":
                total = mine.astype(S64) + old.view(S32)
                if saturates:
                    total = np.clip(total, -(1 << 31), (1 << 31) - 1)
                result = total.astype(S32).view(U32)
            else:
                mine = mine + old.view(F16 if c_kind == "f16" else F32)
                result = mine.astype(F32).view(U32)
            if d_kind == "f16":
                halves = mine.astype(F16).view(U16).reshape(len(d), 2, LANES).astype(U32)
                result = halves[:, 1] << np.uint32(16) | halves[:, 0]
            for k, slot in enumerate(d):
                w.put(slot, result[k])

        return Collective(run)

    return build


SEMANTICS: dict[str, Builder] = {
    "wmma.load": _load(""),
    "wmma.load.c": _load("c"),
    "wmma.load.c.packed": _load("c"),
    "wmma.store.d": _store,
    "wmma.store.d.packed": _store,
    "wmma.mma": _multiply("f32", "f32"),
    "wmma.mma.f16": _multiply("f16", "f16"),
    "wmma.mma.f32.f16": _multiply("f32", "f16"),
    "wmma.mma.f16.f32": _multiply("f16", "f32"),
    "wmma.mma.typed": _multiply("f32", "f32"),
    "wmma.mma.s32": _multiply("s32", "s32"),
}
