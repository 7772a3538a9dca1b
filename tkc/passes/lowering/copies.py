"""Copies between global and shared memory by the copy engine, and the tensor maps that they take."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import cache_policy
from tkc.ir.isa.targets import Feature
from tkc.ir.isa.tensormap import GRANULE
from tkc.ir.ptx.emit import At
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import TmaLoadToOp
from tkc.ir.tile.types import TensorType
from tkc.passes.lowering.state import Kernel, lowers
from tkc.passes.lowering.synchronisation import LEADER


def tensor_map(k: Kernel, tensor: SSAValue, box: list[int], swizzle: str, loads: bool) -> SSAValue:
    """The address of the map for boxes of this shape (innermost first), declared as a parameter on first use.

    A map needs extents of at least one, also where the tensor is empty and the map is never used.
    """
    key = (tensor, tuple(box), swizzle)
    if key in k.maps:
        return k.maps[key]
    type = tensor.type
    assert isinstance(type, TensorType)
    index = k.source.body.block.args.index(tensor)  # pyright: ignore[reportArgumentType]
    argument = k.source.arg_names.data[index].data
    sizes: list[Any] = [
        {"op": "max", "of": [{"sym": d}, 1]} if isinstance(d, str) else d
        for d in reversed(type.shape)
    ]
    axes = len(type.shape)
    name = (
        f"{argument}_map"
        if all(k2[0] is not tensor for k2 in k.maps)
        else f"{argument}_map{len(k.maps)}"
    )
    taken = {n for n, _ in k.params}
    while name in taken:  # a size may be called so
        name += "_"
    k.args.append(
        {
            "kind": "tensormap",
            "argument": argument,
            "dtype": type.dtype.data,
            "sizes": sizes,
            "strides": [{"stride": [argument, axis]} for axis in reversed(range(axes - 1))],
            "box": box,
            "swizzle": swizzle,
            "l2_promotion": "256B" if loads else "none",
            "name": name,
        }
    )
    k.params.append((name, "tensormap"))
    with k.emit.into(k.top):
        k.maps[key] = k.emit.param_address(name)
    return k.maps[key]


BOX = 256
"""The copy engine's limit on each extent of a box; a vector is copied in boxes of as many elements."""


def _boxes(
    k: Kernel, buffer: SSAValue, op: s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp
) -> tuple[list[int], int, int, int]:
    """The box innermost first, and the spans of a tile: how many, elements of each, bytes between them."""
    _, type = k.buffer(buffer)
    tile = k.tile(type)
    if len(type.shape) == 1:
        columns = min(type.shape[0], BOX)
        box = [columns, *(n.value.data for n in reversed(op.box.data[:-1]))]
        return box, type.shape[0] // columns, columns, columns * DTYPES[type.dtype.data].bytes
    columns = min(type.shape[-1], tile.span * 8 // DTYPES[type.dtype.data].bits)
    box = [columns, *(n.value.data for n in reversed(op.box.data[:-1]))]
    return box, -(-type.shape[-1] // columns), columns, tile.block


def _coordinates(k: Kernel, op: s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp, moved: int) -> list[Any]:
    numbers = [k.number(c) for c in reversed(op.coordinates)]
    return [k.add(numbers[0], moved), *numbers[1:]]


@lowers(s.TmaLoadOp, Feature.TMA)
def load(k: Kernel, op: s.TmaLoadOp) -> None:
    assert op.barriers is not None
    start_load(k, op, op.barriers, op.slot)


def start_load(
    k: Kernel, op: s.TmaLoadOp | TmaLoadToOp, barriers: SSAValue, entry: SSAValue
) -> None:
    """One box for each span; the destination is named in the cluster's window, which every PTX version takes."""
    _, type = k.buffer(op.buffer)
    box, spans, columns, stride = _boxes(k, op.buffer, op)
    place = k.slot_address(op.buffer, op.slot)
    bar = k.barrier_address(barriers, entry)
    how, mask, axis, first = [], [], 0, 0
    if isinstance(op, s.TmaLoadOp) and op.multicast is not None:
        how, mask = [".multicast::cluster"], [k.every_cta]
        axis = len(box) - 1 - op.multicast.value.data
        box[axis] //= k.ctas
        rank = k.emit.special("%cluster_ctarank")
        first = k.mul(rank, box[axis])
        place = k.at(place.base, place.offset, k.mul(rank, box[axis] * k.tile(type).span))
    if isinstance(op, s.TmaLoadOp) and op.to is not None:
        how = [*how, k.cta_group]
        bar = At(k.emit("mapa", k.address(bar), LEADER), 0)
    map = tensor_map(k, op.tensor, box, type.swizzle.data, loads=True)
    for span in range(spans):
        coordinates = _coordinates(k, op, span * columns)
        coordinates[axis] = k.add(coordinates[axis], first)
        k.emit(
            "cp.async.bulk.tensor.load",
            f".{len(box)}d",
            ".shared::cluster",
            *how,
            At(place.base, place.offset + span * stride),
            map,
            coordinates,
            bar,
            *mask,
            **_hint(op.hint),
        )


def _hint(hint: StringAttr | None) -> dict[str, Any]:
    """The modifier and operand of a priority in the L2 cache."""
    return {} if hint is None else {"hint": ".L2::cache_hint", "policy": cache_policy(hint.data)}


def require_whole_granules(k: Kernel, tensor: SSAValue) -> None:
    """The launch refuses a tensor whose rows end inside a granule, rather than write beside it."""
    type = tensor.type
    assert isinstance(type, TensorType)
    inner, bits = type.shape[-1], DTYPES[type.dtype.data].bits
    elements = GRANULE * 8 // bits
    size: Any = {"sym": inner} if isinstance(inner, str) else inner
    index = k.source.body.block.args.index(tensor)  # pyright: ignore[reportArgumentType]
    argument = k.source.arg_names.data[index].data
    shown = f"{{{inner}}}" if isinstance(inner, str) else inner
    requirement = {
        "test": {"op": "eq", "of": [{"op": "mod", "of": [size, elements]}, 0]},
        "message": f"rows of {argument} are {shown} {type.dtype.data} wide; the copy engine writes "
        f"whole {GRANULE} bytes, so the last axis must be a multiple of {elements}",
    }
    if requirement not in k.requires:
        k.requires.append(requirement)


@lowers(s.TmaStoreOp, Feature.TMA)
def store(k: Kernel, op: s.TmaStoreOp) -> None:
    require_whole_granules(k, op.tensor)
    _, type = k.buffer(op.buffer)
    box, spans, columns, stride = _boxes(k, op.buffer, op)
    map = tensor_map(k, op.tensor, box, type.swizzle.data, loads=False)
    place = k.slot_address(op.buffer, op.slot)
    name, how = "cp.async.bulk.tensor.store", []
    if op.reduce is not None:
        name, how = "cp.reduce.async.bulk.tensor", [f".{op.reduce.data}"]
    for span in range(spans):
        k.emit(
            name,
            f".{len(box)}d",
            *how,
            map,
            _coordinates(k, op, span * columns),
            At(place.base, place.offset + span * stride),
            **_hint(op.hint),
        )
