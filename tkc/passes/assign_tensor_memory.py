"""Give every accumulator its columns of tensor memory, beside the placing of shared memory.

Before: tensor-memory buffers without an offset.
After: each has its first column; the kernel has the number of columns to allocate, a power of two from 32.
Here because: depths are settled (`place-tiles`, `fuse-roles`), and lowering makes addresses of columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.passes import ModulePass

from tkc.analysis.tensor_memory import columns_given, columns_of
from tkc.diagnostics import Note, TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import BufferType, Home
from tkc.ir.target import target_of

FEWEST = 32
"""The smallest allocation (PTX 9.7.18.7: a power of two from 32 to 512 columns)."""


@dataclass(frozen=True)
class AssignTensorMemoryPass(ModulePass):
    """`assign-tensor-memory`."""

    name = "assign-tensor-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        limit = columns_given(target_of(op))
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            at = 0
            placed: list[tuple[s.BufferOp, int]] = []
            for buffer in kernel.body.block.ops:
                if not isinstance(buffer, s.BufferOp):
                    continue
                type = buffer.buffer.type
                assert isinstance(type, BufferType)
                if type.home.data == Home.TENSOR:
                    buffer.properties["offset"] = IntegerAttr(at, i32)
                    placed.append((buffer, columns_of(type) * type.depth.data))
                    at += placed[-1][1]
            if not placed:
                continue
            columns = max(FEWEST, 1 << (at - 1).bit_length())
            if columns > limit:
                raise TkcError.at(
                    "TK205",
                    f"kernel {kernel.sym_name.data} needs {at} columns of tensor memory; the target gives "
                    f"{limit}; {at - limit} fewer would fit",
                    location_of(placed[-1][0]),
                    *(
                        Note(f"{b.sym_name.data} takes {n} columns", location_of(b))
                        for b, n in placed
                    ),
                )
            kernel.properties["tensor_columns"] = IntegerAttr(columns, i32)
