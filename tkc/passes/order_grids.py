"""Let a kernel of `launch dependent` overlap the grid ahead of it, and the next one overlap it.

Before: nothing says where a dependent kernel waits, unless the program does.
After: each role that touches global memory waits for the grids ahead just before the first statement that does; the
role that copies in lets the next grid start behind its last copy, when what is left needs no more of the memory's time.
Where a program says `wait pdl` or `arrive pdl` itself, it is left as written.
Here because: loops over items stand, so that their edges are places, and whether one thread runs a role is asked next.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from tkc.diagnostics import TargetError
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.isa.targets import Feature, Target, targets_with
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import GridLaunchOp, GridWaitOp
from tkc.ir.stage.ops import By
from tkc.ir.target import target_of
from tkc.ir.tile.types import TensorType


@dataclass(frozen=True)
class OrderGridsPass(ModulePass):
    """`order-grids`."""

    name = "order-grids"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            if kernel.dependent is not None:
                order(kernel, target_of(op))


def order(kernel: s.KernelOp, target: Target) -> None:
    """Places the waits and the one trigger of a kernel; TK202 where the target has no such launch."""
    if not target.has({Feature.GRID_DEPENDENCY}):
        raise TargetError.at(
            "TK202",
            f"`launch dependent` needs {Feature.GRID_DEPENDENCY}; {target.name} has none",
            location_of(kernel),
            help=targets_with({Feature.GRID_DEPENDENCY}),
        )
    if any(isinstance(o, GridWaitOp | GridLaunchOp) for o in kernel.walk()):
        return
    roles = [o for o in kernel.body.block.ops if isinstance(o, s.RoleOp)]
    for role in roles:
        first = next((o for o in role.body.block.ops if touches(o)), None)
        if first is not None:
            _place(GridWaitOp, role, "pdl.wait", before=first)
    role = _last_reader(roles)
    if role is not None:
        last = [o for o in role.body.block.ops if touches(o, Kind.READ)][-1]
        _place(GridLaunchOp, role, "pdl.launch", before=last.next_op)


def touches(op: Operation, kind: Kind | None = None) -> bool:
    """Whether an operation, or one inside it, touches global memory (in that way)."""
    for inner in op.walk():
        for row in effects_of(inner) or ():
            if isinstance(row, Touch) and (kind is None or row.kind is kind):
                value = getattr(inner, row.operand)
                tensor = value is not None and isinstance(value.type, TensorType)
                if tensor and row.space in (Space.GLOBAL, Space.GENERIC):
                    return True
    return False


def _last_reader(roles: list[s.RoleOp]) -> s.RoleOp | None:
    """The role that copies in what others work on, else any that reads global memory."""
    loaders = [r for r in roles if any(isinstance(o, s.TmaLoadOp) for o in r.walk())]
    readers = [r for r in roles if touches(r, Kind.READ)]
    return next(iter([*loaders, *readers]), None)


def _place(
    kind: type[GridWaitOp | GridLaunchOp], role: s.RoleOp, what: str, before: Operation | None
) -> None:
    """One such operation in front of another, or at the role's end: of one thread where one runs the role."""
    by = By.ONE if s.solo(role) or kind is GridLaunchOp else By.ALL
    new = kind.create(
        properties={
            "by": StringAttr(by.value),
            "id": StringAttr(f"{role.sym_name.data}.{what}"),
        }
    )
    new.location = role.location
    if before is None:
        role.body.block.add_op(new)
    else:
        role.body.block.insert_op_before(new, before)
