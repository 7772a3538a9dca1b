"""Tensor copies: boxes of 1 to 5 dimensions between global and shared memory (PTX 9.7.9.27).

A box is gathered from global memory, with zeros or NaN where it lies outside of the tensor, and laid into shared memory
row after row; the swizzle XORs bits of the absolute shared address, 16 bytes at a time. A store clips what is outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from tkc.emulator.bulk import (
    Token,
    aligned,
    global_place,
    mask_reader,
    receivers,
    reduction,
    scalar_reader,
    shared_place,
    store_token,
)
from tkc.emulator.conversion import to_tf32
from tkc.emulator.instruction import Builder, Instruction, Step
from tkc.emulator.lanes import F32, S32, U8, U16, U64, Vec, view
from tkc.emulator.mbarrier import MBarrier, find
from tkc.emulator.report import Stop
from tkc.emulator.spaces import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Origin, Region
from tkc.emulator.tensormap import decode
from tkc.ir.isa.layouts import SWIZZLES
from tkc.ir.isa.memory import Done, Proxy
from tkc.ir.isa.tensormap import (
    GRANULE,
    MAP_ALIGN,
    MAP_BYTES,
    NAN_FILL,
    REDUCTIONS,
    TiledMap,
    breaches,
)

NOT_ASKED = ("no swizzle", "size of axis")
"""What a map that a kernel has edited may have, though the driver makes none so: tensormap.replace has more swizzles,
and a size of nothing is read as nothing."""


@lru_cache(maxsize=256)
def decode_map(raw: bytes) -> TiledMap:
    """The map that 128 bytes hold; raises ValueError where the copy engine cannot use it."""
    found = decode(raw)
    for breach in breaches(found):
        if not breach.startswith(NOT_ASKED):
            raise ValueError(f"a tensor map that no copy can use: {breach}")
    return found


def map_at(w: Any, address: int, ins: Instruction) -> TiledMap:
    """The tensor map at a generic address."""
    region: Region | None
    if PARAM_WINDOW <= address < LOCAL_WINDOW:
        region, offset = w.machine.params, address - PARAM_WINDOW
    elif address >= SHARED_WINDOW:
        raise Stop("TK323", "a tensor map in shared memory", ins=ins, warp=w)
    else:
        region, offset = global_place(w, address, ins, MAP_BYTES)
    aligned(address, MAP_ALIGN, "the address of the tensor map", ins, w)
    if w.machine.record is not None:
        w.machine.record.mapped = (region, offset)
    raw = region.data[offset : offset + MAP_BYTES].tobytes()
    try:
        return decode_map(raw)
    except ValueError as error:
        raise Stop("TK323", f"at {address:#x}: {error}", ins=ins, warp=w) from None


@lru_cache(maxsize=512)
def _swizzled(rows: int, row: int, pitch: int, swizzle: str, start: int, unit: int) -> Vec:
    """Offsets, relative to the last multiple of 1024 before the box, of its items of `unit` bytes in order."""
    first = start + np.arange(rows, dtype=np.int64)[:, None] * pitch
    logical = (first + np.arange(0, row, unit, dtype=np.int64)[None, :]).reshape(-1)
    made = np.asarray(SWIZZLES[swizzle].physical(logical))  # pyright: ignore
    made.flags.writeable = False
    return made


def shared_offsets(m: TiledMap, offset: int, size: int) -> tuple[Vec, int]:
    """(byte offset of each item of `size` bytes of a box, bytes of an item)."""
    unit = 8 if SWIZZLES[m.swizzle].atom == 8 else 16
    bits = m.type.shared_bits if m.interleave == "none" else inner_bits(m)
    row = m.counts[0] * bits // 8
    low = offset % 1024
    found = _swizzled(size // row, row, m.row_pitch, m.swizzle, low, unit)
    return found + (offset - low), unit


def inner_bits(m: TiledMap) -> int:
    """Bits of what axis 0 counts: an element, or with interleave a unit of 16 or 32 bytes."""
    return {"none": m.type.bits, "16B": 128, "32B": 256}[m.interleave]


class Box:
    """The part of a tensor that a copy touches: `shape` in bytes with the innermost axis last, clipped at the edges.

    A store (`writes`) takes whole granules of 16 bytes along the innermost axis, even where a row ends inside of one.
    """

    def __init__(self, m: TiledMap, coords: list[int], writes: bool = False) -> None:
        kind = m.type
        self.map = m
        # Padded types keep 16 elements in 16 bytes of shared memory, and fewer bytes of data.
        self.slot = 2 * kind.bits if kind.shared_bits != kind.bits else 0
        # Along the inner axis bytes are counted, so that packed types are whole.
        bits = inner_bits(m)
        sizes, counts, first = list(m.sizes), list(m.counts), list(coords)
        steps = list(m.element_strides)
        sizes[0], counts[0], first[0] = (v * bits // 8 for v in (sizes[0], counts[0], first[0]))
        steps[0] = 1
        if writes:
            sizes[0] = -(-sizes[0] // GRANULE) * GRANULE
        strides = (1, *m.strides)
        self.shape: list[int] = []
        self.inside: list[slice] = []
        self.strides: list[int] = []
        start = 0
        for axis in reversed(range(m.rank)):
            count = counts[axis]
            low = -(first[axis] // steps[axis]) if first[axis] < 0 else 0
            high = max(low, min(count, -(-(sizes[axis] - first[axis]) // steps[axis])))
            self.shape.append(count)
            self.inside.append(slice(low, high))
            self.strides.append(strides[axis] * steps[axis])
            start += (first[axis] + low * steps[axis]) * strides[axis]
        self.start = start
        self.empty = any(s.stop <= s.start for s in self.inside)
        self.clipped = tuple(s.stop - s.start for s in self.inside)

    @property
    def data_bytes(self) -> int:
        """Bytes that the copy counts."""
        return int(np.prod(self.shape))

    @property
    def shared_bytes(self) -> int:
        """Bytes that the box takes in shared memory."""
        return self.data_bytes // self.slot * 16 if self.slot else self.data_bytes


def _fill(m: TiledMap, count: int) -> Vec:
    """What stands outside of the tensor."""
    if m.fill == "zero":
        return np.zeros(count, U8)
    return np.full(count // 2, NAN_FILL, U16).view(U8)


def _as_loaded(m: TiledMap, data: Vec) -> Vec:
    """What a load makes of the elements: TF32 is rounded; FTZ types keep their subnormal numbers."""
    if not m.type.name.startswith("TFLOAT32"):
        return data
    return to_tf32(np.ascontiguousarray(data).view(F32), "rn").view(U8)


def _gather(
    w: Any, agent: str, origin: Origin, box: Box, ins: Instruction
) -> tuple[Vec, Vec | None]:
    """(bytes of a box as they go to shared memory, where they are unwritten or None)."""
    m = box.map
    data = _fill(m, box.data_bytes).reshape(box.shape)
    bad: Vec | None = None
    if not box.empty:
        region, offset = global_place(w, m.address + box.start, ins, 1)
        inside, unwritten = w.machine.memory.read_box(
            agent, origin, region, offset, box.clipped, tuple(box.strides)
        )
        data[tuple(box.inside)] = _as_loaded(m, inside)
        if unwritten is not None:
            bad = np.zeros(box.shape, U8)
            bad[tuple(box.inside)] = unwritten
            bad = bad.reshape(-1)
    flat = data.reshape(-1)
    if box.slot:
        padded = np.zeros((len(flat) // box.slot, 16), U8)
        padded[:, : box.slot] = flat.reshape(-1, box.slot)
        flat, bad = padded.reshape(-1), None
    return flat, bad


def _check_coordinates(
    i: Instruction, m: TiledMap, coords: list[int], w: Any, writes: bool
) -> None:
    """The copy engine faults on an innermost coordinate inside of a granule, and on stores below zero."""
    inner = coords[0] * inner_bits(m)
    if inner % (8 * GRANULE):
        raise Stop(
            "TK322",
            f"innermost coordinate {coords[0]} is byte {inner / 8:g}, no multiple of {GRANULE}",
            ins=i,
            warp=w,
        )
    if coords[0] % m.type.inner_multiple:
        raise Stop(
            "TK322",
            f"innermost coordinate {coords[0]}, no multiple of {m.type.inner_multiple} for {m.type.name}",
            ins=i,
            warp=w,
        )
    if writes and min(coords) < 0:
        raise Stop("TK321", f"a tensor store at negative coordinates {coords}", ins=i, warp=w)


def _coordinates(i: Instruction) -> Any:
    slots = [slot for slot, _ in i.srcs("coords", S32)]

    def run(w: Any, lane: int) -> list[int]:
        R = w.R
        return [int(view(R[s], S32)[lane]) for s in slots]

    return run


def _check_rank(i: Instruction, m: TiledMap, w: Any) -> None:
    rank = int(i.mod("dim", "2d")[0])
    if rank != m.rank:
        raise Stop(
            "TK323", f"a copy of rank {rank} with a tensor map of rank {m.rank}", ins=i, warp=w
        )


def _check_place(i: Instruction, m: TiledMap, offset: int, w: Any) -> None:
    aligned(offset, 128, "the shared address of a tensor copy", i, w)


def _write_shared(
    w: Any,
    agent: str,
    origin: Origin,
    m: TiledMap,
    cta: Any,
    offset: int,
    data: Vec,
    bad: Vec | None,
) -> None:
    offsets, unit = shared_offsets(m, offset, len(data))
    memory = w.machine.memory
    if unit == 16:
        memory.write(agent, origin, cta.shared, offsets, data.view(U64).reshape(-1, 2), 64, 2)
    else:
        memory.write(agent, origin, cta.shared, offsets, data.view(U64), 64, 1)
    if bad is not None:
        poisoned = bad.reshape(-1, unit).any(axis=1)
        memory.poison(cta.shared, offsets[poisoned], unit)


def _load(i: Instruction) -> Step:
    dst, address, bar = scalar_reader(i, "dst"), scalar_reader(i, "map"), scalar_reader(i, "bar")
    coordinates = _coordinates(i)
    base = scalar_reader(i, "address") if i.given("address") else None
    mask_of_lane = mask_reader(i)
    if i.given("policy"):
        i.src("policy", U64)
    pair = i.mod("cta_group") == "cta_group::2"
    gather = i.row.name.endswith("gather4")
    origin = Origin(i, Proxy.ASYNC, Done.MBARRIER_TX)

    def run(w: Any) -> None:
        for lane in w.lanes():
            m = map_at(w, address(w, lane), i)
            if base is not None:
                m = replace(m, address=base(w, lane))
                aligned(m.address, m.type.align, "the address of the tensor", i, w)
            _check_rank(i, m, w)
            coords = coordinates(w, lane)
            _check_coordinates(i, m, coords, w, False)
            boxes = _rows(m, coords) if gather else [Box(m, coords)]
            mask = mask_of_lane(w, lane)
            to, offset = shared_place(w, dst(w, lane), i)
            _check_place(i, m, offset, w)
            bar_cta, bar_offset = shared_place(w, bar(w, lane), i)
            ctas = receivers(w, mask, to, i)
            bars: list[MBarrier] = []
            for cta in ctas:
                if pair:
                    home = w.cta.cluster.ctas[(cta.rank & ~1) | (bar_cta.rank & 1)]
                elif mask is None and bar_cta is not cta:
                    raise Stop(
                        "TK321",
                        f"the copy goes to {cta.name} and its mbarrier lies in {bar_cta.name}",
                        ins=i,
                        warp=w,
                    )
                else:
                    home = cta
                bars.append(find(home, bar_offset, i, w))
            size = sum(b.data_bytes for b in boxes)
            w.machine.report.count("bytes.tma.load", size * len(ctas))
            steps = _load_steps(w, i, origin, boxes, ctas, offset, bars, size)
            w.machine.issue("tensor load", steps, i, w, lane)

    return run


def _rows(m: TiledMap, coords: list[int], writes: bool = False) -> list[Box]:
    """The four one-row boxes of gather4 and scatter4: a column and four rows."""
    return [Box(m, [coords[0], row], writes) for row in coords[1:5]]


def _load_steps(
    w: Any,
    i: Instruction,
    origin: Origin,
    boxes: list[Box],
    ctas: list[Any],
    offset: int,
    bars: list[MBarrier],
    size: int,
) -> Iterator[None]:
    agent = f"tensor copy engine, for {w.describe()}"
    parts = [_gather(w, agent, origin, box, i) for box in boxes]
    data = np.concatenate([d for d, _ in parts]) if len(parts) > 1 else parts[0][0]
    bad = parts[0][1] if len(parts) == 1 else None
    yield
    for cta, bar in zip(ctas, bars, strict=True):
        _write_shared(w, agent, origin, boxes[0].map, cta, offset, data, bad)
        yield
        bar.complete(size, i, agent)


def _store(kind: str) -> Builder:
    def build(i: Instruction) -> Step:
        address, src = scalar_reader(i, "map"), scalar_reader(i, "src")
        coordinates = _coordinates(i)
        if i.given("policy"):
            i.src("policy", U64)
        origin_read = Origin(i, Proxy.ASYNC, Done.BULK_GROUP_READ)
        origin = Origin(i, Proxy.ASYNC, Done.BULK_GROUP)

        def run(w: Any) -> None:
            for lane in w.lanes():
                m = map_at(w, address(w, lane), i)
                _check_rank(i, m, w)
                coords = coordinates(w, lane)
                _check_coordinates(i, m, coords, w, True)
                boxes = _rows(m, coords, True) if kind == "scatter" else [Box(m, coords, True)]
                cta, offset = shared_place(w, src(w, lane), i)
                if cta is not w.cta:
                    raise Stop("TK321", f"a tensor store from {cta.name}", ins=i, warp=w)
                _check_place(i, m, offset, w)
                w.machine.report.count("bytes.tma.store", sum(b.data_bytes for b in boxes))
                token = store_token(w, lane, i)
                steps = _store_steps(
                    w,
                    i,
                    origin_read,
                    origin,
                    boxes,
                    offset,
                    token,
                    i.mod("op") if kind == "reduce" else "",
                )
                w.machine.issue("tensor store", steps, i, w, lane, Done.BULK_GROUP, token=token)

        return run

    return build


_PTX_TYPES = {"FLOAT16": "f16", "BFLOAT16": "bf16", "FLOAT32": "f32", "FLOAT64": "f64"}


def _element_kind(m: TiledMap) -> str:
    name = m.type.name
    if name in _PTX_TYPES:
        return _PTX_TYPES[name]
    if m.type.floating:
        return "f32"
    return f"{'s' if name.startswith('INT') else 'u'}{m.type.bits}"


def _store_steps(
    w: Any,
    i: Instruction,
    origin_read: Origin,
    origin: Origin,
    boxes: list[Box],
    offset: int,
    token: Token,
    op: str,
) -> Iterator[None]:
    machine, memory = w.machine, w.machine.memory
    agent = f"tensor copy engine, for {w.describe()}"
    m = boxes[0].map
    size = sum(b.shared_bytes for b in boxes)
    offsets, unit = shared_offsets(m, offset, size)
    raw = memory.read(agent, origin_read, w.cta.shared, offsets, 64, unit // 8)
    data = np.ascontiguousarray(raw).view(U8).reshape(-1)
    unwritten = memory.unwritten(w.cta.shared, offsets, unit)
    yield
    token.advance(machine, False)
    yield
    at = 0
    for box in boxes:
        part = data[at : at + box.shared_bytes]
        inside = tuple(box.inside)
        if box.slot:
            # Stores of the 6-bit type take one element from each byte.
            part = _pack_six(part)
        if not box.empty:
            values = part.reshape(box.shape)[inside]
            if unwritten is not None:
                bad = np.repeat(unwritten[at // unit : (at + box.shared_bytes) // unit], unit)
                if not box.slot and bad.reshape(box.shape)[inside].any():
                    machine.found(
                        "TK320", "uninitialised shared memory is stored to global memory", i, w
                    )
            region, start = global_place(w, m.address + box.start, i, 1)
            strides = tuple(box.strides)
            if op:
                if m.type.name not in REDUCTIONS[op]:
                    raise Stop(
                        "TK323", f"reduction .{op} of elements of {m.type.name}", ins=i, warp=w
                    )
                where = "global" if m.type.name.endswith("_FTZ") else "bulk"
                dtype, fn = reduction(op, _element_kind(m), where)
                old, _ = memory.read_box(agent, origin, region, start, box.clipped, strides)
                new = np.ascontiguousarray(values)
                values = np.ascontiguousarray(fn(old.view(dtype), new.view(dtype))).view(U8)
            memory.write_box(agent, origin, region, start, strides, values)
        at += box.shared_bytes
    yield
    token.advance(machine, True)


def _pack_six(data: Vec) -> Vec:
    """Bytes with one 6-bit element each to packed elements."""
    bits = np.unpackbits(data[:, None], axis=1, bitorder="little")[:, :6]
    return np.packbits(bits.reshape(-1), bitorder="little")


SEMANTICS: dict[str, Builder] = {
    "cp.async.bulk.tensor.load": _load,
    "cp.async.bulk.tensor.load.wide": _load,
    "cp.async.bulk.tensor.load.override": _load,
    "cp.async.bulk.tensor.gather4": _load,
    "cp.async.bulk.tensor.store": _store("store"),
    "cp.async.bulk.tensor.scatter4": _store("scatter"),
    "cp.reduce.async.bulk.tensor": _store("reduce"),
}
