"""Copies of bytes in a row, without a tensor map: between global memory and a shared vector, and between CTAs."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.targets import Feature
from tkc.ir.isa.tensormap import GRANULE
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import ClusterCopyOp, TmaLoadToOp
from tkc.ir.tile.types import TensorType
from tkc.passes.lowering.copies import hint_of
from tkc.passes.lowering.state import Kernel, lowers
from tkc.passes.lowering.synchronisation import cta_mask, of_cta
from tkc.passes.lowering.vectors import Line

REDUCED = {"f32": [".f32"], "i32": [".s32"], "bf16": [".noftz", ".bf16"], "f16": [".noftz", ".f16"]}
"""The type of a reduction of bytes in a row (PTX: cp.reduce.async.bulk)."""


def _global(k: Kernel, op: TmaLoadToOp | s.TmaStoreOp, bytes: int) -> SSAValue:
    """The address where a copy starts; copies are of whole blocks, since nothing is clipped."""
    type = op.tensor.type
    assert isinstance(type, TensorType)
    count = bytes * 8 // DTYPES[type.dtype.data].bits
    if op.box.data[-1].value.data != count or bytes % GRANULE:
        raise TkcError.at(
            "TK207",
            f"a bulk copy is of a multiple of {GRANULE} bytes along the last axis of a tensor; this one is of {bytes} "
            f"bytes of {type}",
            location_of(op),
        )
    inner = type.shape[-1]
    size: Any = {"sym": inner} if isinstance(inner, str) else inner
    index = k.source.body.block.args.index(op.tensor)  # pyright: ignore[reportArgumentType]
    argument = k.source.arg_names.data[index].data
    shown = f"{{{inner}}}" if isinstance(inner, str) else inner
    requirement = {
        "test": {"op": "eq", "of": [{"op": "mod", "of": [size, count]}, 0]},
        "message": f"rows of {argument} are {shown} {type.dtype.data} wide and copied in blocks of {count}, "
        "of which a bulk copy takes whole ones only",
    }
    if requirement not in k.requires:
        k.requires.append(requirement)
    k.pointer(op.tensor, GRANULE)
    starts = [k.register(c) for c in op.coordinates]
    return Line(k, op.tensor, len(starts) - 1, starts).at(starts[-1])


def load_bulk(k: Kernel, op: TmaLoadToOp) -> None:
    """`load v[slot] <- X[m], full[slot], bulk`."""
    _, type = k.buffer(op.buffer)
    bytes = type.slot_bytes
    place = k.slot_address(op.buffer, op.slot)
    how, mask = [], []
    if op.mask is not None:
        how, mask = [".multicast::cluster"], [cta_mask(k, op.mask)]
    k.emit(
        "cp.async.bulk.load",
        ".shared::cluster",
        *how,
        At(k.address(place), 0),
        At(_global(k, op, bytes), 0),
        bytes,
        At(k.address(k.barrier_address(op.barriers, op.entry)), 0),
        *mask,
        **hint_of(op.hint),
    )


@lowers(ClusterCopyOp, Feature.CLUSTER)
def copy_across(k: Kernel, op: ClusterCopyOp) -> None:
    """`copy b[j] <- a[i], full[j], at = rank`."""
    _, type = k.buffer(op.buffer)
    if type.slot_bytes % GRANULE:
        raise TkcError.at(
            "TK207",
            f"a copy between CTAs is of a multiple of {GRANULE} bytes; this one is of {type.slot_bytes}",
            location_of(op),
        )
    there, bar = (
        At(of_cta(k, place, op.rank), 0)
        for place in (k.slot_address(op.buffer, op.slot), k.barrier_address(op.barriers, op.entry))
    )
    here = At(k.address(k.slot_address(op.source, op.source_slot)), 0)
    k.emit("cp.async.bulk.cluster", there, here, type.slot_bytes, bar)


def store_bulk(k: Kernel, op: s.TmaStoreOp) -> None:
    """`store Y[m] <- v[slot], bulk`, and its sums, least and greatest values."""
    _, type = k.buffer(op.buffer)
    bytes, dtype = type.slot_bytes, type.dtype.data
    place = At(k.address(k.slot_address(op.buffer, op.slot)), 0)
    there = At(_global(k, op, bytes), 0)
    if op.reduce is None:
        k.emit("cp.async.bulk.store", there, place, bytes, **hint_of(op.hint))
        return
    reduce = op.reduce.data
    of = REDUCED[dtype][-1:] if reduce != "add" else REDUCED[dtype]
    k.emit("cp.reduce.async.bulk", f".{reduce}", *of, there, place, bytes, **hint_of(op.hint))
