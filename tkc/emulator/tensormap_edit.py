"""Edits of tensor maps in memory: tensormap.replace, its publication and its acquisition (PTX 9.7.9.28, 9.7.15.4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tkc.emulator.bulk import aligned, global_place, scalar_reader, shared_place
from tkc.emulator.instruction import Builder, Collective, Instruction, Semantic, Step
from tkc.emulator.lanes import U8, U32, U64
from tkc.emulator.report import Stop
from tkc.emulator.spaces import SHARED_WINDOW, Origin
from tkc.emulator.tensormap import edit
from tkc.ir.isa.memory import Proxy
from tkc.ir.isa.tensormap import MAP_ALIGN, MAP_BYTES


def _place(w: Any, address: int, space: str, i: Instruction) -> tuple[Any, int]:
    """(region, offset) of a map in shared or global memory."""
    if space.startswith("shared") or address >= SHARED_WINDOW:
        cta, offset = shared_place(w, address, i)
        return cta.shared, offset
    return global_place(w, address, i, MAP_BYTES)


def _replace(i: Instruction) -> Step:
    """One field of a map; each active lane does it."""
    words = i.statement.mnemonic.split(".")
    field = words[words.index("tile") + 1]
    space = i.mod("space")
    address = scalar_reader(i, "map")
    wide = field in ("global_address", "global_stride")
    value, _ = i.src_wide("value", U64 if wide else U32)
    axis = i.immediate("axis") if i.given("axis") else 0
    origin = Origin(i)

    def run(w: Any) -> None:
        memory = w.machine.memory
        for lane in w.lanes():
            region, offset = _place(w, address(w, lane), space, i)
            aligned(offset, 64, "the address of the tensor map", i, w)
            raw, _ = memory.read_box(w, origin, region, offset, (MAP_BYTES,), (1,))
            changed = bytearray(raw.tobytes())
            try:
                edit(changed, field, int(w.R[value].view(U64 if wide else U32)[lane]), axis)
            except ValueError as error:
                raise Stop("TK323", str(error), ins=i, warp=w) from None
            memory.write_box(w, origin, region, offset, (1,), np.frombuffer(bytes(changed), U8))

    return run


def _publish(i: Instruction) -> Semantic:
    """Copies a map from shared to global memory, by the whole warp, and releases it to the tensormap proxy."""
    dst, src = scalar_reader(i, "dst"), scalar_reader(i, "src")
    origin = Origin(i, Proxy.GENERIC)

    def run(w: Any) -> None:
        memory = w.machine.memory
        lane = (w.mask & -w.mask).bit_length() - 1
        cta, offset = shared_place(w, src(w, lane), i)
        region, at = global_place(w, dst(w, lane), i, MAP_BYTES)
        raw, _ = memory.read_box(w, origin, cta.shared, offset, (MAP_BYTES,), (1,))
        memory.write_box(w, origin, region, at, (1,), raw)
        if w.machine.record is not None:
            w.machine.record.map_written(w)

    return Collective(run)


def _acquire(i: Instruction) -> Step:
    """Nothing that values could show; the record hears which map each lane acquires."""
    address = scalar_reader(i, "map")

    def run(w: Any) -> None:
        maps = {lane: address(w, lane) for lane in w.lanes()}
        for at in maps.values():
            aligned(at, MAP_ALIGN, "the address of the tensor map", i, w)
        if w.machine.record is not None:
            w.machine.record.fence_map(w, maps)

    return run


def _query(i: Instruction) -> Step:
    p = i.dst("p", 1)
    i.address("map")
    return lambda w: w.put_predicate(p, 0)


SEMANTICS: dict[str, Builder] = {
    **dict.fromkeys(
        (
            "tensormap.replace",
            "tensormap.replace.code",
            "tensormap.replace.address",
            "tensormap.replace.axis",
            "tensormap.replace.stride",
        ),
        _replace,
    ),
    "tensormap.cp_fenceproxy": _publish,
    "fence.proxy.tensormap.acquire": _acquire,
    "tensormap.query": _query,
}
