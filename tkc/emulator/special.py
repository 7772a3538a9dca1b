"""Special registers: what `%tid.x` and its kin hold for a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.lanes import LANE, LANES, U32, Vec, constant

if TYPE_CHECKING:
    from tkc.emulator.machine import Warp

_AXES = ("x", "y", "z")

SPECIAL_BITS = {
    **{f"%{n}.{a}": 32 for n in ("tid", "ntid", "ctaid", "nctaid") for a in _AXES},
    **{
        f"%{n}.{a}": 32
        for n in ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for a in _AXES
    },
    **dict.fromkeys(("%cluster_ctarank", "%cluster_nctarank"), 32),
    **dict.fromkeys(("%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid"), 32),
    **{f"%lanemask_{n}": 32 for n in ("eq", "le", "lt", "ge", "gt")},
    **dict.fromkeys(("%dynamic_smem_size", "%total_smem_size", "%aggr_smem_size"), 32),
    **dict.fromkeys(("%clock", "%clock_hi", "%globaltimer_lo", "%globaltimer_hi"), 32),
    **dict.fromkeys(("%clock64", "%globaltimer", "%gridid", "%current_graph_exec"), 64),
    "%reserved_smem_offset_begin": 32,
    "%reserved_smem_offset_end": 32,
    "%reserved_smem_offset_cap": 32,
    "%is_explicit_cluster": 1,
}
"""Bits of each special register that is covered."""

CLOCKS = frozenset(
    {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}
)
"""Those that change while a kernel runs."""


def _lane_masks() -> dict[str, Vec]:
    one = np.uint64(1)
    bit = one << LANE.astype(np.uint64)
    below = bit - one
    everything = np.uint64(0xFFFFFFFF)
    return {
        "eq": bit.astype(U32),
        "lt": below.astype(U32),
        "le": (below | bit).astype(U32),
        "gt": (everything & ~(below | bit)).astype(U32),
        "ge": (everything & ~below).astype(U32),
    }


_LANE_MASKS = _lane_masks()


def special_value(warp: Warp, name: str, dtype: np.dtype[Any]) -> Any:
    """The value of a special register for each lane of a warp."""
    cta, machine = warp.cta, warp.machine
    body = name[1:]
    word, _, axis = body.partition(".")
    if axis in _AXES and word in ("tid", "ntid", "ctaid", "nctaid"):
        if word == "tid":
            return warp.thread_index[_AXES.index(axis)].astype(dtype)
        values = {"ntid": machine.block, "ctaid": cta.index, "nctaid": machine.grid}[word]
        return constant(values[_AXES.index(axis)], dtype)
    if axis in _AXES:
        at = _AXES.index(axis)
        size = cta.cluster.dims[at]
        values = {
            "clusterid": cta.index[at] // size,
            "nclusterid": machine.grid[at] // size,
            "cluster_ctaid": cta.index[at] % size,
            "cluster_nctaid": size,
        }
        return constant(values[word], dtype)
    if word == "laneid":
        return LANE.astype(dtype)
    if word.startswith("lanemask_"):
        return _LANE_MASKS[word[9:]].astype(dtype)
    if word == "is_explicit_cluster":
        return 0xFFFFFFFF if cta.cluster.size > 1 else 0
    shared = machine.shared_layout
    values = {
        "cluster_ctarank": cta.rank,
        "cluster_nctarank": cta.cluster.size,
        "warpid": warp.index,
        "nwarpid": -(-machine.threads // LANES),
        "smid": cta.number % machine.sm_count,
        "nsmid": machine.sm_count,
        "gridid": 1,
        "current_graph_exec": 0,
        "dynamic_smem_size": machine.dynamic_shared,
        "total_smem_size": shared.size - shared.reserved + machine.dynamic_shared,
        "aggr_smem_size": shared.size + machine.dynamic_shared,
        "reserved_smem_offset_begin": 0,
        "reserved_smem_offset_end": shared.reserved,
        "reserved_smem_offset_cap": shared.reserved,
    }
    return constant(values.get(word, 0), dtype)
