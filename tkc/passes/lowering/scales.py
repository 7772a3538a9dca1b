"""Block scales: their tensor maps and copies, their columns of tensor memory, and products that take them.

Scales lie in memory in atoms of 128 rows by 4 scales, 512 bytes each, in shared memory the same. An atom takes 4
columns of tensor memory, in which every quadrant of lanes holds it; a product names the columns of its first scale and,
in the instruction descriptor, which of the 4 scales in them that is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.ir import Operation, SSAValue

from tkc.analysis.tensor_memory import LANES, columns_of
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import (
    SCALE_ATOM,
    SCALE_ATOM_BYTES,
    SCALE_ATOM_ROWS,
    SCALE_ATOM_SCALES,
    scale_column,
)
from tkc.ir.isa.mma import Instruction, encode_instruction
from tkc.ir.isa.targets import Feature
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType, BufferType
from tkc.ir.tile.types import ScaleAttr, TensorType, counts_of
from tkc.passes.lowering.collector import Steps, write_products
from tkc.passes.lowering.products import Scaling, moved, product
from tkc.passes.lowering.state import Accumulator, Kernel, Number, lowers

WORDS = SCALE_ATOM_BYTES // 4
"""An atom as a row of 32-bit words, which a box of the copy engine holds whole."""


def scales_map(k: Kernel, tensor: SSAValue, box: list[int]) -> SSAValue:
    """The address of the map of a tensor's scales for boxes of atoms, declared as a parameter on first use; of an array
    of a list, where its map lies in global memory."""
    if isinstance(tensor.owner, Operation):
        return k.values[tensor]
    spec = map_of_scales(k, tensor, box)
    return k.tensor_map((spec["argument"], tuple(box)), {"kind": "tensormap", **spec})


def map_of_scales(k: Kernel, tensor: SSAValue, box: list[int]) -> dict[str, Any]:
    """What the launch contract says of the map of a tensor's scales, or of those of each array of a list."""
    type = tensor.type
    assert isinstance(type, TensorType)
    assert isinstance(type.scale, ScaleAttr)
    argument = f"{k.argument(tensor)}.scales"
    *batch, rows, columns = type.shape
    first = int(type.is_list)
    across = _blocks(columns, SCALE_ATOM_SCALES * type.scale.block.data)
    high = None if counts_of(rows) is not None else _blocks(rows, SCALE_ATOM_ROWS)
    strides: list[Any] = [SCALE_ATOM_BYTES, {"op": "mul", "of": [across, SCALE_ATOM_BYTES]}]
    strides += [{"stride": [argument, axis]} for axis in reversed(range(first, len(batch)))]
    return {
        "argument": argument,
        "dtype": "u32",
        "sizes": [WORDS, across, high, *map(_extent, reversed(batch[first:]))],
        "strides": strides,
        "box": box,
        "swizzle": "none",
        "l2_promotion": "256B",
    }


def _extent(size: int | str) -> Any:
    """A map needs extents of at least one, also where the tensor is empty and the map is never used."""
    return {"op": "max", "of": [{"sym": size}, 1]} if isinstance(size, str) else size


def _blocks(size: int | str, each: int) -> Any:
    if isinstance(size, int):
        return -(-size // each)
    return {"op": "max", "of": [{"op": "ceildiv", "of": [{"sym": size}, each]}, 1]}


def columns(k: Kernel, buffer: SSAValue, slot: SSAValue) -> Number:
    """The address of the first column of a slot of scales."""
    declared, type = k.buffer(buffer)
    assert declared.offset is not None
    start = k.mul(k.number(slot), columns_of(type))
    return k.add(k.add(k.tensor_base, start), declared.offset.value.data)


def each_block(buffer: SSAValue, scales: int) -> int:
    """How many scales a row has, where these columns hold each 128 rows by themselves: only products take them, as
    those of A. Else 0."""
    products = [u.operation for u in buffer.uses if isinstance(u.operation, s.ScaledMmaOp)]
    return 0 if any(op.scale_b is buffer for op in products) else scales


@lowers(s.CopyScalesOp, Feature.TCGEN05)
def copy(k: Kernel, op: s.CopyScalesOp) -> None:
    """One instruction for each atom: they lie along the rows' scales first in shared memory, along rows in columns."""
    type = op.source.type
    assert isinstance(type, BufferType)
    rows, scales = type.shape
    first = columns(k, op.destination, op.destination_slot)
    source = k.descriptor(op.source, op.source_slot, SCALE_ATOM)
    across = scales // SCALE_ATOM_SCALES
    alone = each_block(op.destination, scales)
    for row in range(0, rows, SCALE_ATOM_ROWS):
        for scale in range(0, scales, SCALE_ATOM_SCALES):
            atom = row // SCALE_ATOM_ROWS * across + scale // SCALE_ATOM_SCALES
            k.emit(
                "tcgen05.cp",
                k.cta_group,
                ".32x128b.warpx4",
                k.add(first, scale_column(row, scale, rows, alone)),
                moved(k, source, atom * SCALE_ATOM_BYTES),
            )


@lowers(s.ScaledMmaOp, Feature.TCGEN05)
def scaled(k: Kernel, op: s.ScaledMmaOp) -> None:
    """One instruction for each K step and 128 rows (of each CTA), each with its columns of scales."""
    write_products(k, op, lambda each: _steps(k, each))


def _steps(k: Kernel, op: s.ScaledMmaOp) -> Steps:
    type = op.value.type
    assert isinstance(type, AccumulatorType)
    rows = min(type.shape[0], LANES)
    all_rows = rows if op.pair is None else 2 * rows
    _, scale_type = k.buffer(op.scale_a)
    depth = op.a.type.shape[1]  # type: ignore[union-attr]
    scales = scale_type.shape[1]
    alone = each_block(op.scale_a, scales)
    scaling = Scaling(scale_type.dtype.data, depth // scales, bool(alone))
    p = product(k, op, all_rows, scaling)
    per_step = p.row.scales_per_row
    source: Accumulator = k.values[op.source]
    first = {
        "a": columns(k, op.scale_a, op.scale_a_slot),
        "b": columns(k, op.scale_b, op.scale_b_slot),
    }
    a, b = p.a.at(k), p.b.at(k)

    def write(block: int, step: int, hint: str | None) -> None:
        into = k.add(source.address, block * p.n * DTYPES[type.dtype.data].bits // 32)
        enable = source.started if step == 0 else True
        scale = step * per_step
        number = scale % SCALE_ATOM_SCALES
        word = encode_instruction(
            Instruction(
                p.row.kind, p.a_dtype, p.b_dtype, DTYPES[type.dtype.data].ptx, all_rows, p.n, p.row.k,
                scale=scaling.dtype, scale_a_id=number, scale_b_id=number,
            )
        )  # fmt: skip
        across = p.a.tile.mn_step(p.a.major, block * rows)
        k.emit(
            "tcgen05.mma.block_scale",
            k.cta_group,
            p.row.kind,
            f".block{p.row.block}",
            into,
            moved(k, a, p.a.tile.k_step(p.a.major, step * p.row.k) + across),
            moved(k, b, p.b.tile.k_step(p.b.major, step * p.row.k)),
            idesc=word,
            scale_a=k.add(first["a"], scale_column(block * rows, scale, type.shape[0], alone)),
            scale_b=k.add(first["b"], scale_column(0, scale, p.n)),
            enable=k.emit.imm(int(enable), "pred") if isinstance(enable, bool) else enable,
            collector_b=hint,
        )

    k.values[op.value] = replace(source, started=True)
    return Steps(type.shape[0] // rows, p.k // p.row.k, write)
