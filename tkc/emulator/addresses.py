"""From the addresses of a warp's lanes to regions and offsets: state spaces, windows, and the generic space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tkc.emulator.instruction import Instruction
from tkc.emulator.lanes import SELECT, U8, U32, U64, Vec, constant
from tkc.emulator.report import Stop
from tkc.emulator.spaces import (
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    Origin,
    Region,
    out_of_bounds,
)

Part = tuple[Region, Vec, Vec | None]
"""A region, byte offsets into it, and which of the active lanes they belong to (None: all, in order)."""

Resolve = Callable[[Any], list[Part]]
"""Gives for the active lanes of a warp where their addresses lie."""

_LOW32 = np.array([0xFFFFFFFF], U64)
_SHIFT32 = np.array([32], U64)
_SHIFT24 = np.array([24], U32)


def address_reader(i: Instruction, name: str) -> Callable[[Any], Vec]:
    """A function from a warp to the addresses of its active lanes, with the offset added."""
    slot, bits, offset, _ = i.address(name)
    dtype = U32 if bits == 32 else U64
    if bits not in (32, 64):
        raise ValueError(f"an address has {bits} bits, expected 32 or 64")
    if not offset:

        def plain(w: Any) -> Vec:
            x = w.R[slot]
            if x.dtype is not dtype:
                x = x.view(dtype)
            return x if w.full else x.take(SELECT[w.mask])

        return plain
    add = constant(offset, dtype)[:1]

    def shifted(w: Any) -> Vec:
        x = w.R[slot]
        if x.dtype is not dtype:
            x = x.view(dtype)
        return (x if w.full else x.take(SELECT[w.mask])) + add

    return shifted


def local_region(w: Any) -> Region:
    """The local memory of a warp's 32 threads, one frame after the other."""
    found = w.groups.get("local")
    if found is None:
        size = w.machine.local_size
        data = np.zeros(32 * size, U8)
        found = Region(f"local memory of {w.name}", "local", 0, data, np.ones(32 * size, U8), w)
        w.groups["local"] = found
    return found


def shared_parts(w: Any, origin: Origin, addresses: Vec, cluster: bool) -> list[Part]:
    """32-bit shared addresses; with `cluster` they may name any CTA of the cluster."""
    if addresses.dtype is not U32:
        addresses = addresses.astype(U32)
    cta = w.cta
    if cta.cluster.size == 1:
        return [(cta.shared, addresses, None)]
    ranks = addresses >> _SHIFT24
    own = np.uint32(cta.rank)
    if not np.count_nonzero(ranks != own):
        return [(cta.shared, addresses - np.uint32(cta.window), None)]
    parts: list[Part] = []
    for rank in np.unique(ranks):
        where = np.flatnonzero(ranks == rank)
        if rank >= cta.cluster.size or (not cluster and rank != own):
            raise Stop(
                "TK321",
                f"{origin.ins.statement.mnemonic} at shared address {int(addresses[where[0]]):#x},"
                f" which belongs to CTA rank {int(rank)} of the cluster",
                ins=origin.ins,
                warp=w,
            )
        region = cta.cluster.ctas[int(rank)].shared
        parts.append((region, addresses[where] - np.uint32(int(rank) << 24), where))
    return parts


def global_parts(w: Any, origin: Origin, addresses: Vec, unit: int) -> list[Part]:
    """Global addresses lane by lane, where they may lie in different regions."""
    memory = w.machine.memory
    groups: dict[int, tuple[Region, list[int]]] = {}
    for k, address in enumerate(addresses.tolist()):
        region = memory.find(address)
        if region is None:
            raise out_of_bounds(w, origin, address, unit, nearest_region(memory, address))
        groups.setdefault(id(region), (region, []))[1].append(k)
    parts: list[Part] = []
    for region, where in groups.values():
        at = np.array(where)
        parts.append((region, addresses[at] - region.base_vec, at if len(groups) > 1 else None))
    return parts


def nearest_region(memory: Any, address: int) -> Region | None:
    """The region that an address misses by least, for the message."""
    near: Region | None = None
    best = 1 << 20
    for region in memory.regions:
        distance = min(abs(address - region.base), abs(address - region.base - region.size))
        if distance < best:
            near, best = region, distance
    return near


def _local_parts(w: Any, origin: Origin, addresses: Vec, unit: int) -> list[Part]:
    size = w.machine.local_size
    offsets = addresses.astype(np.int64)
    if np.count_nonzero((offsets < 0) | (offsets + unit > size)):
        raise Stop(
            "TK321",
            f"{origin.ins.statement.mnemonic} outside of the {size} bytes of local memory",
            ins=origin.ins,
            warp=w,
        )
    return [(local_region(w), offsets + SELECT[w.mask] * size, None)]


def _generic_parts(w: Any, origin: Origin, addresses: Vec, unit: int) -> list[Part]:
    high = addresses >> _SHIFT32
    first = int(high[0])
    if not np.count_nonzero(high != high[0]):
        window = first << 32
        if window == SHARED_WINDOW:
            return shared_parts(w, origin, (addresses & _LOW32).astype(U32), True)
        if window == LOCAL_WINDOW:
            return _local_parts(w, origin, addresses & _LOW32, unit)
        if window == PARAM_WINDOW:
            return [(w.machine.params, addresses & _LOW32, None)]
        return global_parts(w, origin, addresses, unit)
    parts: list[Part] = []
    for one in np.unique(high):
        where = np.flatnonzero(high == one)
        for region, offsets, inner in _generic_parts(w, origin, addresses[where], unit):
            parts.append((region, offsets, where if inner is None else where[inner]))
    return parts


def resolver(i: Instruction, name: str, space: str, origin: Origin, unit: int) -> Resolve:
    """How the addresses of operand `name` in a state space (empty: generic) become regions and offsets."""
    read = address_reader(i, name)
    slot = i.sources[-1] if i.sources else -1

    def checked(w: Any) -> Vec:
        if w.taint and slot >= 0:
            w.check_address(slot, i)
        return read(w)

    if space.startswith("shared"):
        cluster = space == "shared::cluster"

        def shared(w: Any) -> list[Part]:
            addresses = checked(w)
            if addresses.dtype is U32 and w.cta.cluster.size == 1:
                return [(w.cta.shared, addresses, None)]
            return shared_parts(w, origin, addresses, cluster)

        return shared
    if space in ("global", "const"):
        # The region of the last access, in the memory of one launch: the program may be launched again.
        last: list[Any] = [None, None]

        def from_global(w: Any) -> list[Part]:
            addresses = checked(w)
            if addresses.dtype is not U64:
                addresses = addresses.astype(U64)
            memory = w.machine.memory
            if last[0] is memory:
                region = last[1]
                offsets = addresses - region.base_vec
                # Offsets below the region wrap round to very large ones.
                if int(offsets.max()) + unit <= region.size:
                    return [(region, offsets, None)]
            parts = global_parts(w, origin, addresses, unit)
            last[:] = [memory, parts[0][0]]
            return parts

        return from_global
    if space == "local":
        return lambda w: _local_parts(w, origin, checked(w), unit)
    if space.startswith("param"):
        return lambda w: [(w.machine.params, checked(w), None)]
    if space:
        raise ValueError(f"state space .{space} is not covered")
    return lambda w: _generic_parts(w, origin, checked(w).astype(U64), unit)


def parts_at(w: Any, origin: Origin, space: str, addresses: Vec, unit: int) -> list[Part]:
    """Where addresses (u64, one for each active lane) of a state space lie; empty: the generic space."""
    if space.startswith("shared"):
        return shared_parts(w, origin, addresses, space == "shared::cluster")
    if space in ("global", "const"):
        return global_parts(w, origin, addresses, unit)
    return _generic_parts(w, origin, addresses, unit)
