"""How often each accumulator is held: its depth is a capacity, and a target may have room for less (R12)."""

from __future__ import annotations

from tkc.analysis.roles import rows_of
from tkc.analysis.tensor_memory import columns_given, columns_of, depths_that_fit
from tkc.diagnostics import Diagnostic, Severity, report
from tkc.ir.isa.targets import Target
from tkc.ir.locations import location_of
from tkc.ir.stage.types import BufferType, Home
from tkc.ir.tile.ops import AccumOp, KernelOp
from tkc.ir.tile.types import AccumType


def accumulator_buffers(
    kernel: KernelOp, target: Target, home: Home | None
) -> dict[AccumOp, BufferType]:
    """Each accumulator as a buffer of the depth that it gets; a remark (TK219) says where that is less than written.

    None at all where the target has no home for accumulators.
    """
    if home is None:
        return {}
    accums = [o for o in kernel.body.block.ops if isinstance(o, AccumOp)]
    types = [_buffer(accum, home) for accum in accums]
    if home is Home.REGISTER:
        depths = [1] * len(types)
    else:
        depths = depths_that_fit(types, columns_given(target))
    held: dict[AccumOp, BufferType] = {}
    for accum, type, depth in zip(accums, types, depths, strict=True):
        held[accum] = BufferType.of(type.dtype.data, type.shape, depth, home)
        if depth < type.depth.data:
            report(
                Diagnostic(
                    "TK219",
                    f"accumulator {accum.sym_name.data} is held {_times(depth)}, "
                    f"{_reason(accum, type, target, home)}; its depth of {type.depth.data} is a capacity",
                    location_of(accum),
                    Severity.REMARK,
                )
            )
    return held


def _buffer(accum: AccumOp, home: Home) -> BufferType:
    tile = accum.tile.type
    assert isinstance(tile, AccumType)
    return BufferType.of(tile.dtype.data, tile.shape, tile.depth.data, home)


def _times(depth: int) -> str:
    return "once" if depth == 1 else f"{depth} times"


def _reason(accum: AccumOp, type: BufferType, target: Target, home: Home) -> str:
    if home is Home.REGISTER:
        rows = rows_of(accum, home)
        return f"in the registers of {rows.groups} warpgroup(s) that split its {type.shape[0]} rows"
    return f"since one takes {columns_of(type)} of the {columns_given(target)} columns of tensor memory"
