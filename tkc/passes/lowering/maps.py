"""Tensor maps in global memory: where they lie, how one is set and published (PTX 9.7.9.28, 9.7.15.4)."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from tkc.diagnostics import Note, TkcError
from tkc.ir.isa.targets import Feature
from tkc.ir.isa.tensormap import MAP_BYTES
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At
from tkc.ir.stage import maps as m
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import TmaLoadToOp
from tkc.ir.tile.types import TensorType
from tkc.passes.lowering.copies import boxes_of, map_of_boxes
from tkc.passes.lowering.scales import map_of_scales
from tkc.passes.lowering.state import Kernel, lowers

SPACE = "map_space"
"""The parameter that says where the kernel's own maps lie."""

VECTOR_BYTES = 16
AT_ONCE = 32
"""Bytes of a map that are under way at once: more would not fit a role of 24 registers a thread."""


def _copies(array: SSAValue) -> list[Any]:
    return [
        u.operation
        for u in array.uses
        if isinstance(u.operation, s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp)
    ]


def _launched(k: Kernel, tensor: SSAValue, arrays: list[SSAValue]) -> SSAValue:
    """Where the launch has put the maps of a list, for boxes as those of the copies of these arrays."""
    copies = [c for array in arrays for c in _copies(array)]
    first = copies[0]
    box, layout = boxes_of(k, first)
    for other in copies[1:]:
        if boxes_of(k, other) != (box, layout):
            raise TkcError.at(
                "TK110",
                f"not supported yet: copies of arrays of {k.argument(tensor)} by one role in boxes of different forms",
                location_of(other),
                Note("the other form", location_of(first)),
            )
    if k.buffer(first.buffer)[1].holds_scales:
        spec = map_of_scales(k, tensor, box)
    else:
        spec = map_of_boxes(k, tensor, box, layout, not isinstance(first, s.TmaStoreOp))
    return k.map_table((spec["argument"], tuple(box), layout), spec)


def _map(k: Kernel, base: SSAValue, index: Any) -> SSAValue:
    """The address of map `index` from a base on."""
    if isinstance(index, int):
        return k.emit("add", ".u64", base, index * MAP_BYTES) if index else base
    return k.emit("add", ".u64", base, k.emit("mul.wide", ".u32", index, MAP_BYTES))


def _own(k: Kernel, maps: SSAValue, slot: SSAValue) -> SSAValue:
    """The address of a slot of this CTA's own maps; all roles' lie one after another."""
    if SPACE not in k.spaces:
        declared = [o for o in k.source.body.block.ops if isinstance(o, m.MapsOp)]
        total = sum(o.maps.type.depth.data for o in declared)  # pyright: ignore
        name = k.scratch(SPACE, total * MAP_BYTES)
        with k.emit.into(k.top):
            base = k.emit.param(name, "pointer")
            own = k.emit("mul.wide", ".u32", k.emit.special("%ctaid.x"), total * MAP_BYTES)
            k.spaces[SPACE] = k.emit("add", ".u64", base, own)
    before = 0
    for op in k.source.body.block.ops:
        if isinstance(op, m.MapsOp):
            if op.maps is maps:
                break
            before += op.maps.type.depth.data  # pyright: ignore
    return _map(k, k.spaces[SPACE], k.add(k.number(slot), before))


@lowers(m.MapsOp, Feature.TENSORMAP_REPLACE)
def declare(k: Kernel, op: m.MapsOp) -> None:
    """Nothing: the launch gives the space."""


@lowers(m.EditMapOp, Feature.TENSORMAP_REPLACE)
def edit(k: Kernel, op: m.EditMapOp) -> None:
    """The launch's map of the array, whole, and then what only the device knows of it."""
    declared = op.maps.owner
    assert isinstance(declared, m.MapsOp)
    edited = [u.operation for u in op.maps.uses if isinstance(u.operation, m.EditedOp)]
    arrays: list[SSAValue] = [e.array for e in edited]
    source = _map(k, _launched(k, declared.tensor, arrays), k.number(op.index))
    target = _own(k, op.maps, op.slot)
    for first in range(0, MAP_BYTES, AT_ONCE):
        offsets = range(first, first + AT_ONCE, VECTOR_BYTES)
        words = [k.emit("ld.vec", ".global.v4.b32", At(source, offset)) for offset in offsets]
        for offset, word in zip(offsets, words, strict=True):
            k.emit("st.vec", ".global.v4.b32", At(target, offset), word)
    type = declared.tensor.type
    assert isinstance(type, TensorType)
    innermost = len(type.shape) - 2
    for axis, extent in zip(op.axes, op.extents, strict=True):
        k.emit(
            "tensormap.replace.axis",
            ".global_dim",
            ".global",
            At(target, 0),
            innermost - axis.value.data,
            k.register(extent),
        )


@lowers(m.EditedOp, Feature.TENSORMAP_REPLACE)
def edited(k: Kernel, op: m.EditedOp) -> None:
    k.values[op.array] = _own(k, op.maps, op.slot)


@lowers(m.ArrayOp, Feature.TMA)
def array(k: Kernel, op: m.ArrayOp) -> None:
    k.values[op.array] = _map(k, _launched(k, op.tensor, [op.array]), k.number(op.index))


@lowers(m.MapReleaseOp, Feature.TMA)
def release(k: Kernel, op: m.MapReleaseOp) -> None:
    k.emit("fence.proxy.tensormap.release", f".{op.scope.data}")


@lowers(m.MapAcquireOp, Feature.TMA)
def acquire(k: Kernel, op: m.MapAcquireOp) -> None:
    k.emit(
        "fence.proxy.tensormap.acquire", f".{op.scope.data}", At(k.values[op.array], 0), MAP_BYTES
    )
