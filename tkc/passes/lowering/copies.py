"""Copies between global and shared memory by the copy engine, and the tensor maps that they take."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from tkc.analysis.boxes import row_parts, split_axis
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import PADDED, cache_policy, swizzle_of
from tkc.ir.isa.targets import Feature
from tkc.ir.isa.tensormap import GRANULE, MAP_TYPES, MAX_BOX, MapType
from tkc.ir.ptx.emit import At
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import TmaLoadToOp
from tkc.ir.tile.types import TensorType, counts_of
from tkc.passes.lowering import scales
from tkc.passes.lowering.state import Kernel, lowers
from tkc.passes.lowering.synchronisation import cta_mask, of_cta, rank_in_unit, sharers


def tensor_map(k: Kernel, tensor: SSAValue, box: list[int], layout: str, loads: bool) -> SSAValue:
    """The address of the map for boxes of this shape (innermost first), declared as a parameter on first use; of an
    array of a list, where its map lies in global memory."""
    if isinstance(tensor.owner, Operation):
        return k.values[tensor]
    spec = map_of_boxes(k, tensor, box, layout, loads)
    return k.tensor_map((spec["argument"], tuple(box), layout), {"kind": "tensormap", **spec})


def map_of_boxes(
    k: Kernel, tensor: SSAValue, box: list[int], layout: str, loads: bool
) -> dict[str, Any]:
    """What the launch contract says of a map for boxes of this shape, of a tensor or of each array of a list.

    A map needs extents of at least one unit, also where the tensor is empty and the map is never used. An extent that
    only the device knows is that of the array given.
    """
    type = tensor.type
    assert isinstance(type, TensorType)
    argument = k.argument(tensor)
    first = int(type.is_list)
    axes = len(type.shape)
    kind = map_type(type.dtype.data, layout)
    if kind.inner_multiple > 1:
        require_whole(k, tensor, kind.inner_multiple)
    least = [kind.inner_multiple, *[1] * (axes - first - 1)]
    sizes: list[Any] = [
        None
        if counts_of(d) is not None
        else {"op": "max", "of": [{"sym": d}, n]}
        if isinstance(d, str)
        else d
        for d, n in zip(reversed(type.shape[first:]), least, strict=True)
    ]
    return {
        "argument": argument,
        "dtype": type.dtype.data,
        "sizes": sizes,
        "strides": [{"stride": [argument, axis]} for axis in reversed(k.axes_of(tensor)[first:-1])],
        "box": box,
        **({"type": kind.name} if kind.name != DTYPES[type.dtype.data].tensor_map else {}),
        "swizzle": swizzle_of(layout),
        "l2_promotion": "256B" if loads else "none",
    }


class Part(NamedTuple):
    """One box of a copy: how far it is from the first along the tensor's axes, innermost first, and in bytes."""

    moved: tuple[int, ...]
    bytes: int


def _boxes(
    k: Kernel, buffer: SSAValue, op: s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp
) -> tuple[list[int], list[Part]]:
    """The extents of the boxes of a copy, innermost first, and the boxes: spans of columns, and parts of many rows."""
    _, type = k.buffer(buffer)
    if type.holds_scales:
        return [scales.WORDS, *(n.value.data for n in reversed(op.box.data))], [Part((), 0)]
    tile = k.tile(type)
    rows = [n.value.data for n in reversed(op.box.data[:-1])]
    still = (0,) * len(rows)
    if len(type.shape) == 1:
        columns = min(type.shape[0], MAX_BOX)
        stride = columns * DTYPES[type.dtype.data].bytes
        count = type.shape[0] // columns
        return [columns, *rows], [Part((i * columns, *still), i * stride) for i in range(count)]
    columns = min(type.shape[-1], tile.held * 8 // type.bits)
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


def boxes_of(k: Kernel, op: s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp) -> tuple[list[int], str]:
    """The extents of a copy's boxes, innermost first, of which a load for the whole cluster takes its share; and how
    they lie in shared memory."""
    box, _ = _boxes(k, op.buffer, op)
    if isinstance(op, s.TmaLoadOp) and op.multicast is not None:
        box[len(box) - 1 - op.multicast.value.data] //= k.pairs or k.ctas
    return box, k.buffer(op.buffer)[1].swizzle.data


def _coordinates(
    k: Kernel, op: s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp, moved: tuple[int, ...]
) -> list[Any]:
    numbers = [k.number(c) for c in reversed(op.coordinates)]
    if k.buffer(op.buffer)[1].holds_scales:
        return [0, *numbers]
    return [k.add(number, far) for number, far in zip(numbers, moved, strict=True)]


@lowers(s.TmaLoadOp, Feature.TMA)
def load(k: Kernel, op: s.TmaLoadOp) -> None:
    assert op.barriers is not None
    start_load(k, op, op.barriers, op.slot)


def start_load(
    k: Kernel, op: s.TmaLoadOp | TmaLoadToOp, barriers: SSAValue, entry: SSAValue
) -> None:
    """Box by box; the destination is named in the cluster's window, which every PTX version takes."""
    if isinstance(op, TmaLoadToOp) and op.bulk is not None:
        from tkc.passes.lowering.bulk import load_bulk

        load_bulk(k, op)
        return
    _, type = k.buffer(op.buffer)
    box, parts = _boxes(k, op.buffer, op)
    place = k.slot_address(op.buffer, op.slot)
    how, mask, first = [], [], 0
    bar = k.barrier_address(barriers, entry)
    multicast = op.multicast if isinstance(op, s.TmaLoadOp) else None
    if multicast is not None:
        how, mask = [".multicast::cluster"], [sharers(k)]
        axis = len(box) - 1 - multicast.value.data
        box[axis] //= k.pairs or k.ctas
        rank = k.shift_right(rank_in_unit(k), 1) if k.pairs else rank_in_unit(k)
        first = k.mul(rank, box[axis])
        place = k.at(place.base, place.offset, k.mul(rank, box[axis] * k.tile(type).span))
    if isinstance(op, TmaLoadToOp) and op.mask is not None:
        how, mask = [".multicast::cluster"], [cta_mask(k, op.mask)]
    if isinstance(op, TmaLoadToOp) and op.rank is not None:
        how, bar = [*how, ".cta_group::2"], At(of_cta(k, bar, op.rank), 0)
    if isinstance(op, s.TmaLoadOp) and op.to is not None:
        how = [*how, k.cta_group]
        bar = At(k.emit("mapa", k.address(bar), k.leader), 0)
    if type.holds_scales:
        map = scales.scales_map(k, op.tensor, box)
    else:
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
            **hint_of(op.hint),
        )


def hint_of(hint: StringAttr | None) -> dict[str, Any]:
    """The modifier and operand of a priority in the L2 cache."""
    return {} if hint is None else {"hint": ".L2::cache_hint", "policy": cache_policy(hint.data)}


def map_type(dtype: str, layout: str) -> MapType:
    """How the copy engine sees the elements of a tensor whose tiles have this layout."""
    if layout == PADDED:
        return next(
            t for t in MAP_TYPES.values() if (t.bits, t.shared_bits) == (DTYPES[dtype].bits, 8)
        )
    return MAP_TYPES[DTYPES[dtype].tensor_map]


def require_whole(k: Kernel, tensor: SSAValue, multiple: int) -> None:
    """The launch refuses rows that are no whole number of what the copy engine takes of narrow elements at once."""
    type = tensor.type
    assert isinstance(type, TensorType)
    inner, argument = type.shape[-1], k.argument(tensor)
    size: Any = {"sym": inner} if isinstance(inner, str) else inner
    shown = f"{{{inner}}}" if isinstance(inner, str) else inner
    requirement = {
        "test": {"op": "eq", "of": [{"op": "mod", "of": [size, multiple]}, 0]},
        "message": f"rows of {argument} are {shown} {type.dtype.data} wide; the copy engine takes "
        f"multiples of {multiple}",
    }
    if requirement not in k.requires:
        k.requires.append(requirement)


def require_whole_granules(k: Kernel, tensor: SSAValue) -> None:
    """The launch refuses a tensor whose rows end inside a granule, rather than write beside it."""
    type = tensor.type
    assert isinstance(type, TensorType)
    inner, bits = type.shape[-1], DTYPES[type.dtype.data].bits
    elements = GRANULE * 8 // bits
    size: Any = {"sym": inner} if isinstance(inner, str) else inner
    argument = k.argument(tensor)
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
    if op.bulk is not None:
        from tkc.passes.lowering.bulk import store_bulk

        store_bulk(k, op)
        return
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
            **hint_of(op.hint),
        )
