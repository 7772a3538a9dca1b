"""What the properties of one operation say of what it does."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from tkc.analysis.happens_before.events import CONSTANT
from tkc.ir.effects import effects_of
from tkc.ir.isa import memory as m
from tkc.ir.isa.memory import Scope, Sem
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import CopiesArriveOp, ElementOp, StoreElementOp
from tkc.ir.stage.maps import arrays_of
from tkc.ir.stage.scalar import ConstOp


def atomic(op: Operation) -> bool:
    """Whether two such operations on one place are no race."""
    return bool({"add", "reduce"} & set(op.properties)) or bool(getattr(op, "strong", False))


_WHAT = {
    ("read_accumulator", ""): "ld",
    ("copy_scales", ""): "cp",
    ("scaled_mma", ""): "mma",
    ("scaled_mma", "scale_a"): "mma.scale",
    ("scaled_mma", "scale_b"): "mma.scale",
    ("tensor_mma", ""): "mma",
    ("tensor_mma", "left"): "mma.a",
}
"""What a tcgen05 operation, or its access of one operand, is called in the pairs of the manual."""


def backed(arrival: CopiesArriveOp) -> bool:
    """Whether an arrival that the phase does not count keeps it from completing: once all of its threads have come
    here, some arrive at the phase as well, next in their program."""
    threads, after = {s.By.ALL}, arrival.next_op
    while after is not None and not after.regions and not isinstance(after, s.MbarrierWaitOp):
        if isinstance(after, s.WarpSyncOp):
            threads.add(s.By.LANE)
        elif isinstance(after, s.RoleBarrierOp):
            threads |= {s.By.LANE, s.By.ONE}
        elif isinstance(after, s.MbarrierArriveOp) and after.executed_by in threads:
            if after.rank is None and arrival.operands[:2] == after.operands[:2]:
                return True
        after = after.next_op
    return False


def written(tensor: SSAValue) -> bool:
    """Whether anything in the kernel writes a tensor, or an array of a list."""
    return any(
        isinstance(row, m.Touch)
        and row.kind is m.Kind.WRITE
        and getattr(use.operation, row.operand) is value
        for value in arrays_of(tensor)
        for use in value.uses
        for row in effects_of(use.operation) or ()
    )


def kind_of(op: Operation) -> str:
    """What an access is called; a compare-and-swap and the store of a constant by names of their own."""
    if isinstance(op, StoreElementOp) and isinstance(op.source.owner, ConstOp):
        return CONSTANT
    return "cas" if word(op, "kind") == "cas" else op.name.removeprefix("stage.")


def widths(op: Operation, axes: int) -> list[int]:
    """How many elements an operation touches along each axis of a tensor."""
    box = op.properties.get("box")
    if isinstance(box, ArrayAttr):
        sizes = [n.value.data for n in box]  # pyright: ignore
        return [1] * (axes - len(sizes)) + sizes
    found = [1] * axes
    if isinstance(op, ElementOp):
        found[-1] = op.elements
    axis = op.properties.get("axis")
    if isinstance(axis, IntegerAttr):
        fragment = getattr(op, "source", None) or op.value  # pyright: ignore
        rows = max(fragment.type.shape)  # pyright: ignore
        found[axis.value.data] = min(rows, number(op, "limit", rows))
    return found


def what(name: str, operand: str) -> str:
    return _WHAT.get((name, operand)) or _WHAT.get((name, ""), name)


def number(op: Operation, name: str, default: int = 0) -> int:
    found = op.properties.get(name)
    return found.value.data if isinstance(found, IntegerAttr) else default


def word(op: Operation, name: str, default: str = "") -> str:
    found = op.properties.get(name)
    return found.data if found is not None and isinstance(found, StringAttr) else default


def sem_of(op: Operation, default: Sem) -> Sem:
    said = word(op, "sem")
    return Sem(said) if said in list(Sem) else default


def scope_of(op: Operation) -> Scope:
    said = word(op, "scope")
    return Scope(said) if said in list(Scope) else Scope.CTA
