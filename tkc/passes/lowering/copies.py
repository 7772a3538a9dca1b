"""Copies between global and shared memory by the copy engine, and the tensor maps that they take."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from tkc.analysis.boxes import row_parts, split_axis
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import cache_policy
from tkc.ir.isa.targets import Feature
from tkc.ir.isa.tensormap import GRANULE, MAX_BOX
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


class Part(NamedTuple):
    """One box of a copy: how far it is from the first along the tensor's axes, innermost first, and in bytes."""

    moved: tuple[int, ...]
    bytes: int


def _boxes(
    k: Kernel, buffer: SSAValue, op: s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp
) -> tuple[list[int], list[Part]]:
    """The extents of the boxes of a copy, innermost first, and the boxes: spans of columns, and parts of many rows."""
    _, type = k.buffer(buffer)
    tile = k.tile(type)
    rows = [n.value.data for n in reversed(op.box.data[:-1])]
    still = (0,) * len(rows)
    if len(type.shape) == 1:
        columns = min(type.shape[0], MAX_BOX)
        stride = columns * DTYPES[type.dtype.data].bytes
        count = type.shape[0] // columns
        return [columns, *rows], [Part((i * columns, *still), i * stride) for i in range(count)]
    columns = min(type.shape[-1], tile.span * 8 // DTYPES[type.dtype.data].bits)
    spans = -(-type.shape[-1] // columns)
    axis = split_axis(rows)
    if axis is None:
        return [columns, *rows], [Part((i * columns, *still), i * tile.block) for i in range(spans)]
    count = row_parts(rows[axis])
    assert count is not None, "place-tiles has checked it"
    rows[axis] //= count
    share = math.prod(rows[: axis + 1]) * tile.span
    parts = [
        Part(
            (i * columns, *still[:axis], j * rows[axis], *still[axis + 1 :]),
            i * tile.block + j * share,
        )
        for i in range(spans)
        for j in range(count)
    ]
    return [columns, *rows], parts


def _coordinates(
    k: Kernel, op: s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp, moved: tuple[int, ...]
) -> list[Any]:
    numbers = [k.number(c) for c in reversed(op.coordinates)]
    return [k.add(number, far) for number, far in zip(numbers, moved, strict=True)]


@lowers(s.TmaLoadOp, Feature.TMA)
def load(k: Kernel, op: s.TmaLoadOp) -> None:
    assert op.barriers is not None
    start_load(k, op, op.barriers, op.slot)


def start_load(
    k: Kernel, op: s.TmaLoadOp | TmaLoadToOp, barriers: SSAValue, entry: SSAValue
) -> None:
    """Box by box; the destination is named in the cluster's window, which every PTX version takes."""
    _, type = k.buffer(op.buffer)
    box, parts = _boxes(k, op.buffer, op)
    place = k.slot_address(op.buffer, op.slot)
    how, mask, first = [], [], 0
    bar = k.barrier_address(barriers, entry)
    multicast = op.multicast if isinstance(op, s.TmaLoadOp) else None
    if multicast is not None:
        how, mask = [".multicast::cluster"], [k.every_cta]
        axis = len(box) - 1 - multicast.value.data
        box[axis] //= k.ctas
        rank = k.emit.special("%cluster_ctarank")
        first = k.mul(rank, box[axis])
        place = k.at(place.base, place.offset, k.mul(rank, box[axis] * k.tile(type).span))
    if isinstance(op, s.TmaLoadOp) and op.to is not None:
        how = [*how, k.cta_group]
        bar = At(k.emit("mapa", k.address(bar), LEADER), 0)
    map = tensor_map(k, op.tensor, box, type.swizzle.data, loads=True)
    for part in parts:
        coordinates = _coordinates(k, op, part.moved)
        if multicast is not None:
            coordinates[axis] = k.add(coordinates[axis], first)
        k.emit(
            "cp.async.bulk.tensor.load",
            f".{len(box)}d",
            ".shared::cluster",
            *how,
            At(place.base, place.offset + part.bytes),
            map,
            coordinates,
            bar,
            *mask,
            **_hint(op.hint if isinstance(op, TmaLoadToOp) else None),
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
    box, parts = _boxes(k, op.buffer, op)
    map = tensor_map(k, op.tensor, box, type.swizzle.data, loads=False)
    place = k.slot_address(op.buffer, op.slot)
    name, how = "cp.async.bulk.tensor.store", []
    if op.reduce is not None:
        name, how = "cp.reduce.async.bulk.tensor", [f".{op.reduce.data}"]
    for part in parts:
        k.emit(
            name,
            f".{len(box)}d",
            *how,
            map,
            _coordinates(k, op, part.moved),
            At(place.base, place.offset + part.bytes),
            **_hint(op.hint),
        )
