"""Products whose first operand lies in tensor memory (PTX: tcgen05.mma with `[a]`)."""

from __future__ import annotations

from dataclasses import replace

from tkc.analysis.tensor_memory import LANES
from tkc.diagnostics import TkcError
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import Major
from tkc.ir.isa.mma import Instruction, encode_instruction, select
from tkc.ir.isa.targets import Feature
from tkc.ir.locations import location_of
from tkc.ir.stage.tensor_operands import TensorMmaOp
from tkc.ir.stage.types import AccumulatorType, BufferType
from tkc.passes.lowering.products import moved, operand
from tkc.passes.lowering.state import Accumulator, Kernel, lowers

PACKED = 2
"""Elements of 16 bits in a column of tensor memory."""


@lowers(TensorMmaOp, Feature.TCGEN05)
def tensor_mma(k: Kernel, op: TensorMmaOp) -> None:
    """One instruction for each K step and 128 rows; row r of the operand lies in lane r, its columns two by two."""
    left, type, right = op.left.type, op.value.type, op.b.type
    assert isinstance(left, AccumulatorType)
    assert isinstance(type, AccumulatorType)
    assert isinstance(right, BufferType)
    rows, depth = left.shape
    a, b, d = left.dtype.data, right.dtype.data, DTYPES[type.dtype.data].ptx
    found = select(k.target.features, a, b, d, 1)
    row = next((r for r in found if r.fits(LANES, type.shape[1])), None)
    if row is None or rows % LANES or depth % row.k:
        raise TkcError.at(
            "TK203",
            f"a product of {list(left.shape)} in tensor memory with {type.shape[1]} columns is not to be had: operands "
            f"there are {LANES} rows or a multiple, and {row.k if row else 16} columns or a multiple",
            location_of(op),
        )
    major = Major.K if op.trans_b.value.data else Major.MN
    second = operand(k, op.b, op.b_slot, major)
    at = second.at(k)
    source: Accumulator = k.values[op.source]
    first: Accumulator = k.values[op.left]
    word = encode_instruction(
        Instruction(
            row.kind, a, b, d, LANES, type.shape[1], row.k,
            a_mn_major=False, b_mn_major=major is Major.MN,
        )
    )  # fmt: skip
    for block in range(rows // LANES):
        for step in range(depth // row.k):
            enable = source.started if step == 0 else True
            k.emit(
                "tcgen05.mma.ts",
                k.cta_group,
                row.kind,
                k.add(source.address, block * type.shape[1]),
                k.add(first.address, (block * depth + step * row.k) // PACKED),
                moved(k, at, second.tile.k_step(major, step * row.k)),
                idesc=word,
                enable=k.emit.imm(int(enable), "pred") if isinstance(enable, bool) else enable,
            )
    k.values[op.value] = replace(source, started=True)
