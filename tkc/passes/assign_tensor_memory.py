"""Give every accumulator and ring of block scales its columns of tensor memory, beside the placing of shared memory.

Before: tensor-memory buffers without an offset.
After: each has its first column; the kernel has the number of columns to allocate.
Here because: depths are settled (`place-tiles`, `fuse-roles`), and lowering makes addresses of columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.passes import ModulePass

from tkc.analysis.tensor_memory import LANES, columns_given, columns_of, columns_to_allocate
from tkc.diagnostics import Diagnostic, Note, Severity, TkcError, report
from tkc.ir.isa.targets import Target
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import BufferType, Home
from tkc.ir.target import target_of


@dataclass(frozen=True)
class AssignTensorMemoryPass(ModulePass):
    """`assign-tensor-memory`."""

    name = "assign-tensor-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        limit = columns_given(target_of(op))
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            placed, taken = place(kernel)
            if not placed:
                continue
            columns = columns_to_allocate(taken)
            if columns > limit:
                raise too_many(kernel, placed, taken, limit)
            firsts = {buffer.buffer: first for buffer, first, _ in placed}
            for buffer in buffers_of(kernel):
                first = firsts[s.storage(buffer.buffer)]
                buffer.properties["offset"] = IntegerAttr(first, i32)
            kernel.properties["tensor_columns"] = IntegerAttr(columns, i32)
            report(column_map(kernel, placed, columns))
            alone = has_it_alone(kernel, columns, target_of(op))
            if alone is not None:
                report(alone)


class Placed(NamedTuple):
    """A ring of tensor memory: its first column, and the columns of one slot."""

    buffer: s.BufferOp
    first: int
    each: int

    @property
    def depth(self) -> int:
        return self.buffer.buffer.type.depth.data  # type: ignore[union-attr]


def buffers_of(kernel: s.KernelOp) -> list[s.BufferOp]:
    """The rings of tensor memory, in the order of the program."""
    buffers = [b for b in kernel.body.block.ops if isinstance(b, s.BufferOp)]
    return [b for b in buffers if _type(b).home.data == Home.TENSOR]


def place(kernel: s.KernelOp) -> tuple[list[Placed], int]:
    """Every ring of tensor memory one after the other, accumulators first, and the columns that they take in all."""
    buffers = [b for b in buffers_of(kernel) if b.within is None]
    placed: list[Placed] = []
    at = 0
    for buffer in sorted(buffers, key=lambda b: _type(b).holds_scales):
        placed.append(Placed(buffer, at, columns_of(_type(buffer))))
        at += placed[-1].each * placed[-1].depth
    return placed, at


def _type(op: s.BufferOp) -> BufferType:
    type = op.buffer.type
    assert isinstance(type, BufferType)
    return type


def too_many(kernel: s.KernelOp, placed: list[Placed], taken: int, limit: int) -> TkcError:
    return TkcError.at(
        "TK205",
        f"kernel {kernel.sym_name.data} needs {taken} columns of tensor memory; the target gives {limit}; "
        f"{taken - limit} fewer would fit",
        location_of(placed[-1].buffer),
        *(Note(_share(p), location_of(p.buffer)) for p in placed),
    )


def _share(placed: Placed) -> str:
    """What a ring takes, and that columns are whole where its rows leave half of the lanes free."""
    told = f"{placed.buffer.sym_name.data} takes {placed.each * placed.depth} columns"
    rows = _type(placed.buffer).shape[0]
    if rows >= LANES:
        return told
    return f"{told}, of whose {LANES} lanes it uses {rows}: {LANES} rows take as many"


def column_map(kernel: s.KernelOp, placed: list[Placed], columns: int) -> Diagnostic:
    """Which columns each ring has."""
    rings = [
        f"{p.buffer.sym_name.data} {p.first} to {p.first + p.each * p.depth - 1}"
        + (f" ({p.depth} slots of {p.each})" if p.depth > 1 else "")
        for p in placed
    ]
    return Diagnostic(
        "TK221",
        f"kernel {kernel.sym_name.data} allocates {columns} columns of tensor memory: {', '.join(rings)}",
        location_of(kernel),
        Severity.REMARK,
    )


def has_it_alone(kernel: s.KernelOp, columns: int, target: Target) -> Diagnostic | None:
    """That no second CTA comes to a multiprocessor, where columns and shared memory would be enough for one.

    ThunderKittens 2.0 found that the driver's occupancy query answers one CTA for any kernel that touches tensor
    memory, however little of it.
    """
    shared = 0 if kernel.shared_bytes is None else kernel.shared_bytes.value.data
    if 2 * columns > target.tensor_columns or 2 * shared > target.shared_per_cta:
        return None
    return Diagnostic(
        "TK221",
        f"kernel {kernel.sym_name.data} has a multiprocessor to itself, though two CTAs would find their {columns} "
        f"columns and {shared} bytes of shared memory: the driver runs one that touches tensor memory at a time "
        "(reported for B200 by ThunderKittens 2.0), so that deeper rings cost nothing",
        location_of(kernel),
        Severity.REMARK,
    )
