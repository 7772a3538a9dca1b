"""A kernel's own tensor maps as state: who edits, publishes, acquires and reads which slot of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from tkc.analysis.happens_before.events import Access, MapFence, Slot
from tkc.ir.isa import memory as m
from tkc.ir.isa.memory import Space
from tkc.ir.stage.maps import EditedOp, EditMapOp, MapAcquireOp, MapReleaseOp

if TYPE_CHECKING:
    from tkc.analysis.happens_before.operations import Operations


def accesses(
    ops: Operations, op: Operation, row: m.Touch, value: SSAValue, kind: str
) -> list[Access]:
    """An access of one of the kernel's own tensor maps; those that the launch makes nobody writes."""
    place = value.owner if isinstance(value.owner, EditedOp) else op
    if not isinstance(place, EditedOp | EditMapOp):
        return []
    access = Access(
        Space.MAP, place.maps, row.kind is m.Kind.WRITE, _slot(ops, place), row.proxy, row.done, kind,
        owner=ops.rank, operand=row.operand,
    )  # fmt: skip
    return [access]


def fence(ops: Operations, op: Operation) -> MapFence:
    """What a fence publishes, or what it acquires."""
    if isinstance(op, MapAcquireOp) and isinstance(place := op.array.owner, EditedOp):
        return MapFence("acquire", place.maps, _slot(ops, place))
    return MapFence("release" if isinstance(op, MapReleaseOp) else "acquire")


def _slot(ops: Operations, place: EditedOp | EditMapOp) -> Slot | None:
    one = place.maps.type.depth.data == 1  # pyright: ignore
    return Slot(None, (0,)) if one else ops.slot(ops.values.table(place.slot, place))
