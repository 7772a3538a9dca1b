"""What must have been done to a module before a pass, and by which: asked by `tkc-opt`, where passes run in any order.

Each row is what the IR looks like where a pass has not run yet. A pass that a row lists would find what it cannot use,
or would make something else than was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tkc.analysis.guards import guard_of
from tkc.diagnostics import TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import By
from tkc.ir.stage.types import Home
from tkc.ir.tile import ops as t
from tkc.ir.tile.loops import ShareOp
from tkc.ir.tile.types import AUTO, SharedType
from tkc.passes import PASSES

BARRIERS = (
    "assign-shared", "insert-fences", "refuse-hangs", "prove-ownership", "eliminate-fences", "elect-single-thread",
    "lower-stage-to-ptx",
)  # fmt: skip
"""Passes that want to see every barrier."""
STAGES = (
    "fuse-roles", "cothread-copies", "lower-schedules", "edit-maps", "order-grids", "lower-pipes",
    "assign-tensor-memory", "assign-registers", *BARRIERS,
)  # fmt: skip
WRITTEN = ("name-registers", "check-target")


def _is_split(kernel: t.KernelOp) -> bool:
    return any(isinstance(op, ShareOp) for op in kernel.walk())


def _unsplit(op: Operation) -> str | None:
    if not isinstance(op, t.KernelOp) or _is_split(op):
        return None
    schedules = [o for o in op.body.block.ops if isinstance(o, t.ScheduleOp)]
    if "cluster" not in op.launch.data:
        return "items are of a whole pair still" if "pair" in op.launch.data else None
    across = any(o.across is not None and o.work.uses.get_length() for o in schedules)
    return "items are of one CTA of a cluster still" if across else None


def _unchosen(op: Operation) -> str | None:
    tile = op.tile.type if isinstance(op, t.SharedOp) else None
    auto = isinstance(tile, SharedType) and tile.swizzle.data == AUTO
    return f"tile {op.sym_name.data} has no swizzle yet" if auto else None  # type: ignore[attr-defined]


def _unplaced(op: Operation) -> str | None:
    return f"kernel {op.sym_name.data} is of tiles still" if isinstance(op, t.KernelOp) else None


def _unscheduled(op: Operation) -> str | None:
    return (
        "a loop over items of a schedule is there still" if isinstance(op, s.WorkLoopOp) else None
    )


def _piped(op: Operation) -> str | None:
    return f"pipe {op.sym_name.data} has no barriers yet" if isinstance(op, s.PipeOp) else None


def _without_bytes(op: Operation) -> str | None:
    shared = isinstance(op, s.BarriersOp) or (
        isinstance(op, s.BufferOp) and op.buffer.type.home.data == Home.SHARED  # type: ignore[union-attr]
    )
    missing = shared and "offset" not in op.properties
    return f"{op.sym_name.data} has no place in shared memory yet" if missing else None  # type: ignore[attr-defined]


def _without_columns(op: Operation) -> str | None:
    tensor = isinstance(op, s.BufferOp) and op.buffer.type.home.data == Home.TENSOR  # type: ignore[union-attr]
    missing = tensor and "offset" not in op.properties
    return f"{op.sym_name.data} has no columns of tensor memory yet" if missing else None  # type: ignore[attr-defined]


def _without_threads(op: Operation) -> str | None:
    missing = isinstance(op, s.KernelOp) and op.threads is None
    return f"kernel {op.sym_name.data} has no count of threads yet" if missing else None  # type: ignore[attr-defined]


def _unguarded(op: Operation) -> str | None:
    """What one thread does, and no condition of one thread stands round it; reads are everybody's own."""
    if not isinstance(op, s.StageOp) or op.executed_by not in (By.ONE, By.LANE) or op.EACH:
        return None
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, s.RoleOp):
        if isinstance(parent, s.IfOp):
            guard = guard_of(parent.condition)
            if guard is None or guard.narrows:
                return None
        parent = parent.parent_op()
    return "what one thread does, all would do" if parent is not None else None


def _unwritten(op: Operation) -> str | None:
    return f"kernel {op.sym_name.data} is no PTX yet" if isinstance(op, s.KernelOp) else None


class Row(NamedTuple):
    """The pass that does something, what shows that it has not been done, and the passes that need it."""

    by: str
    undone: Callable[[Operation], str | None]
    needed_by: tuple[str, ...]


ROWS = (
    Row("split-over-cluster", _unsplit, ("order-stores", "select-swizzle", "place-tiles")),
    Row("select-swizzle", _unchosen, ("place-tiles",)),
    Row("place-tiles", _unplaced, (*STAGES, *WRITTEN)),
    Row("lower-schedules", _unscheduled, ("edit-maps", "order-grids", "lower-pipes", *BARRIERS)),
    Row("lower-pipes", _piped, BARRIERS),
    Row("elect-single-thread", _unguarded, ("lower-stage-to-ptx",)),
    Row("assign-shared", _without_bytes, ("lower-stage-to-ptx",)),
    Row("assign-tensor-memory", _without_columns, ("lower-stage-to-ptx",)),
    Row("assign-registers", _without_threads, ("lower-stage-to-ptx",)),
    Row("lower-stage-to-ptx", _unwritten, WRITTEN),
)


def check(name: str, module: ModuleOp) -> None:
    """TK119 where a pass comes too early for a module, or a second time where once is all that it can."""
    if name == "split-over-cluster":
        for op in module.body.block.ops:
            if isinstance(op, t.KernelOp) and _is_split(op):
                raise TkcError.at(
                    "TK119",
                    f"{name} has been done already: each CTA has its share of an item",
                    location_of(op),
                    help="leave it out",
                )
    rows = [row for row in ROWS if name in row.needed_by]
    missing = [(row, *found) for row in rows if (found := _first(row, module)) is not None]
    if not missing:
        return
    row, op, told = missing[0]
    order = list(PASSES)
    before = sorted((one.by for one, *_ in missing), key=order.index)
    raise TkcError.at(
        "TK119",
        f"{name} comes behind {row.by}: {told}",
        location_of(op),
        help=f"-p '{','.join((*before, name))}', or all that `tkc compile --print-pipeline` has before it",
    )


def _first(row: Row, module: ModuleOp) -> tuple[Operation, str] | None:
    for op in module.walk():
        told = row.undone(op)
        if told is not None:
            return op, told
    return None
