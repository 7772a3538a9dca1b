"""Tensor memory and registers: tcgen05.alloc, dealloc, ld, st and their waits (PTX 9.7.16.7, 9.7.16.8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.addresses import shared_parts
from tkc.emulator.instruction import (
    PARKED,
    Blocking,
    Builder,
    Collective,
    Ending,
    Instruction,
    Semantic,
)
from tkc.emulator.lanes import FULL, U32, Vec, mask_of, view
from tkc.emulator.report import Stop
from tkc.emulator.spaces import SHARED_WINDOW, Origin
from tkc.emulator.tensor_memory import TensorMemory, split_address, tensor_of
from tkc.ir.isa.fragments import QUADRANT, TENSOR_MOVES, split_move
from tkc.ir.isa.memory import Done, Proxy

WARPGROUP = 4


def whole_warp(i: Instruction, step: Callable[[Any], None]) -> Callable[[Any], None]:
    """Refuses part of a warp."""

    def run(w: Any) -> None:
        if w.mask != FULL:
            raise Stop("TK316", f"{i.statement.mnemonic} by part of a warp", ins=i, warp=w)
        step(w)

    return run


def group_size(i: Instruction) -> int:
    return int(i.mod("cta_group")[-1])


def use_group(tensor: TensorMemory, size: int, i: Instruction, w: Any) -> None:
    if tensor.group and tensor.group != size:
        raise Stop(
            "TK310",
            f"cta_group::{size} in a kernel that allocated with cta_group::{tensor.group}",
            ins=i,
            warp=w,
        )


def pair_of(w: Any, i: Instruction) -> list[Any]:
    """The two CTAs of the pair of this one."""
    cluster, rank = w.cta.cluster, w.cta.rank
    if cluster.size < 2:
        raise Stop("TK418", "cta_group::2 in a cluster of one CTA", ins=i, warp=w)
    return cluster.ctas[rank & ~1 : (rank & ~1) + 2]


def _alloc(i: Instruction) -> Semantic:
    slot, _, offset, _ = i.address("dst")
    columns = i.src("columns", U32)
    size = group_size(i)
    exclusive = i.has("exclusive")
    origin = Origin(i)

    def finish(w: Any, start: int) -> None:
        address = int(w.R[slot][0]) + offset
        if address >= SHARED_WINDOW:
            address -= SHARED_WINDOW
        for region, offsets, _ in shared_parts(w, origin, np.array([address], U32), False):
            w.machine.memory.write(w, origin, region, offsets, np.array([start], U32), 32)

    def make(following: int) -> Ending:
        def run(w: Any, path: Any) -> int:
            if w.mask != FULL:
                raise Stop("TK316", "tcgen05.alloc by part of a warp", ins=i, warp=w)
            count = w.uniform(columns)
            ctas = [w.cta] if size == 1 else pair_of(w, i)
            tensor = tensor_of(w.cta)
            use_group(tensor, size, i, w)
            if size == 2:
                # Both CTAs of a pair allocate together, and get the same columns.
                started: dict[Any, int] = ctas[0].cluster.pair_allocations.setdefault(
                    (ctas[0].rank, i.number), {}
                )
                if w.cta.rank not in started:
                    start = tensor.allocate(count, 2, i, w, exclusive)
                    if start is None:
                        return _wait_for_room(w, path, following, tensor, count)
                    started[w.cta.rank] = start
                    if w.machine.record is not None:
                        w.machine.record.lifetime(w, origin, tensor, start, count, [])
                    w.machine.activity += 1
                peer = ctas[1] if ctas[0] is w.cta else ctas[0]
                if peer.rank not in started:
                    path.pc = following - 1
                    path.waits = f"tcgen05.alloc of {peer.name}"
                    tensor_of(peer).waiting.append(path)
                    return PARKED
                for other in tensor.waiting:
                    w.machine.wake(other)
                tensor.waiting = []
                finish(w, started[w.cta.rank])
                return following
            start = tensor.allocate(count, 1, i, w, exclusive)
            if start is None:
                return _wait_for_room(w, path, following, tensor, count)
            if w.machine.record is not None:
                w.machine.record.lifetime(w, origin, tensor, start, count, [])
            finish(w, start)
            return following

        return run

    return Blocking(make)


def _wait_for_room(w: Any, path: Any, following: int, tensor: TensorMemory, count: int) -> int:
    path.pc = following - 1
    path.waits = f"{count} free columns of tensor memory"
    tensor.waiting.append(path)
    return PARKED


def _dealloc(i: Instruction) -> Semantic:
    taddr, columns = i.src("taddr", U32), i.src("columns", U32)
    size = group_size(i)
    origin = Origin(i, Proxy.TENSOR)

    def run(w: Any) -> None:
        tensor = tensor_of(w.cta)
        use_group(tensor, size, i, w)
        _, start = split_address(w.uniform(taddr))
        if w.machine.record is not None:
            pair = [] if size == 1 else [tensor_of(c) for c in pair_of(w, i)]
            w.machine.record.lifetime(w, origin, tensor, start, w.uniform(columns), pair)
        tensor.free(start, w.uniform(columns), i, w)
        for path in tensor.waiting:
            w.machine.wake(path)
        tensor.waiting = []

    return Collective(whole_warp(i, run))


def _relinquish(i: Instruction) -> Semantic:
    def run(w: Any) -> None:
        tensor_of(w.cta).permitted = False

    return Collective(whole_warp(i, run))


# Loads and stores


@lru_cache(maxsize=512)
def _places(shape: str, num: int, split: int) -> tuple[Vec, Vec, int, int]:
    """(lanes, columns) of each register (first axis) of each lane, columns in all, lanes of the shape."""
    t = np.arange(32)[None, :]
    if shape == "16x32bx2":
        r = np.arange(num)[:, None]
        rows, columns = split_move(t, r, split)  # pyright: ignore
        lanes = 16
    else:
        move = TENSOR_MOVES[shape]
        r = np.arange(move.registers * num)[:, None]
        rows, columns = move.place(t, r)  # pyright: ignore
        lanes = move.lanes
    rows, columns = np.broadcast_arrays(rows, columns)
    return rows, columns, int(columns.max()) + 1, lanes


class Move:
    """What a tcgen05.ld or st touches."""

    def __init__(self, i: Instruction, packed: bool) -> None:
        self.i = i
        self.shape = i.mod("shape") or ("16x32bx2" if "16x32bx2" in i.row.mnemonic else "32x32b")
        self.num = int(i.mod("num")[1:])
        self.packed = packed
        split = i.immediate("offset") if i.given("offset") else 0
        if packed:
            split //= 2
        self.rows, self.columns, self.width, self.lanes = _places(self.shape, self.num, split)
        self.taddr, _, self.offset, _ = i.address("taddr")
        self.simple = self.shape == "32x32b" and not packed
        done = Done.TCGEN05_WAIT
        self.origin = Origin(i, Proxy.TENSOR, done)

    def place(self, w: Any) -> tuple[TensorMemory, int, int, int]:
        """(tensor memory, first lane, first column, one past the last column)."""
        if w.taint:
            w.check_address(self.taddr, self.i)
        lane, column = split_address(w.uniform(self.taddr) + self.offset)
        quadrant = w.index % WARPGROUP * QUADRANT
        within = lane - quadrant
        if within not in ((0,) if self.lanes == 32 else (0, 16)):
            raise Stop(
                "TK321",
                f"{self.i.statement.mnemonic} at lane {lane}, and warp {w.index} reaches lanes"
                f" {quadrant} .. {quadrant + QUADRANT - 1}",
                ins=self.i,
                warp=w,
            )
        width = 2 * self.width if self.packed else self.width
        return tensor_of(w.cta), lane, column, column + width

    def load(self, w: Any) -> tuple[Vec, tuple[int, ...]]:
        """(registers of the 32 lanes, mask of the lanes in which each holds nothing)."""
        tensor, lane, start, stop = self.place(w)
        lanes = slice(lane, lane + self.lanes)
        rows, columns = self.rows, self.columns
        block = tensor.read(w, self.origin, lanes, start, stop)
        poisoned = tensor.poisoned(lanes, start, stop)
        bad: Vec | None = None
        if self.simple:
            values = np.ascontiguousarray(block.T)
            bad = poisoned.T if poisoned is not None else None
        elif self.packed:
            low, high = block[rows, 2 * columns], block[rows, 2 * columns + 1]
            values = (high << np.uint32(16)) | (low & np.uint32(0xFFFF))
            if poisoned is not None:
                bad = poisoned[rows, 2 * columns] | poisoned[rows, 2 * columns + 1]
        else:
            values = block[rows, columns]
            bad = poisoned[rows, columns] if poisoned is not None else None
        if bad is None:
            return values, (0,) * len(values)
        return values, tuple(mask_of(np.ascontiguousarray(one)) for one in bad)


def _ld(i: Instruction) -> Semantic:
    move = Move(i, i.has("pack"))
    dests = [slot for slot, _ in i.dsts("d")]
    if len(dests) != len(move.rows):
        raise ValueError(f"{len(dests)} registers, expected {len(move.rows)}")
    i.follows = True

    def run(w: Any) -> None:
        values, bad = move.load(w)
        R = w.R
        for k, slot in enumerate(dests):
            if slot >= 0:
                R[slot] = values[k]
        if w.taint or any(bad):
            for k, slot in enumerate(dests):
                w.taint_result(slot, bad[k])

    return Collective(whole_warp(i, run))


def _st(i: Instruction) -> Semantic:
    move = Move(i, i.has("unpack"))
    sources = [slot for slot, _ in i.srcs("a", U32)]
    if len(sources) != len(move.rows):
        raise ValueError(f"{len(sources)} registers, expected {len(move.rows)}")
    i.follows = True
    rows, columns = move.rows, move.columns

    def run(w: Any) -> None:
        tensor, lane, start, stop = move.place(w)
        lanes = slice(lane, lane + move.lanes)
        R = w.R
        values = np.stack([view(R[s], U32) for s in sources])
        if move.simple:
            block = values.T
        else:
            # What the shape does not cover keeps its value.
            block = np.array(tensor.data[lanes, start:stop])
            if move.packed:
                block[rows, 2 * columns] = values & np.uint32(0xFFFF)
                block[rows, 2 * columns + 1] = values >> np.uint32(16)
            else:
                block[rows, columns] = values
        before = np.array(tensor.unwritten[lanes, start:stop])
        tensor.write(w, move.origin, lanes, start, block)
        if not move.simple and before.any():
            touched = np.zeros(block.shape, bool)
            touched[rows, 2 * columns if move.packed else columns] = True
            if move.packed:
                touched[rows, 2 * columns + 1] = True
            tensor.unwritten[lanes, start:stop] = before & ~touched
        if w.taint:
            for k, slot in enumerate(sources):
                bad = w.tainted(slot)
                if bad:
                    hit = np.array([bad >> t & 1 for t in range(32)], bool)
                    tensor.unwritten[lane + rows[k][hit], start + columns[k][hit]] = True

    return Collective(whole_warp(i, run))


def _wait(i: Instruction) -> Semantic:
    what = "ld" if i.row.name.endswith("ld") else "st"

    def run(w: Any) -> None:
        if w.machine.record is not None:
            w.machine.record.moved(w, what)

    return Collective(run)


SEMANTICS: dict[str, Builder] = {
    "tcgen05.alloc": _alloc,
    "tcgen05.dealloc": _dealloc,
    "tcgen05.relinquish_alloc_permit": _relinquish,
    "tcgen05.ld": _ld,
    "tcgen05.ld.16x32bx2": _ld,
    "tcgen05.st": _st,
    "tcgen05.st.16x32bx2": _st,
    "tcgen05.wait::ld": _wait,
    "tcgen05.wait::st": _wait,
}
