"""The grouped GEMM of lists with one slip about its tensor maps in each copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from tkc.driver import passes_of, run, to_module
from tkc.ir.stage import maps as m
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import const
from tkc.job import Job
from tkc.kernel import Kernel

EXAMPLE = Path(__file__).parents[2] / "examples" / "gemm_grouped_list.tk"
AFTER = "eliminate-fences"


def job(target: str) -> Job:
    return Job(EXAMPLE.read_text(), EXAMPLE.name, target, params={"BN": 64, "STAGES": 2})


def good(target: str) -> ModuleOp:
    return to_module(job(target), after=AFTER)


def kernel_of(module: ModuleOp, target: str) -> Kernel:
    """The kernel that the passes behind make of a module."""
    whole = job(target)
    names = [p.name for p in passes_of(whole)]
    before = tuple(names[: names.index(AFTER) + 1])
    return Kernel.of(run(replace(whole, without=before), module=module.clone()))


def found(
    module: ModuleOp, kind: type[Operation], role: str = "", site: str = ""
) -> list[Operation]:
    """Operations of one kind, of a role, whose name holds a text."""
    return [
        op
        for r in module.walk()
        if isinstance(r, s.RoleOp) and r.sym_name.data.startswith(role)
        for op in r.walk()
        if isinstance(op, kind) and site in getattr(op.properties.get("id"), "data", "")
    ]


def one(module: ModuleOp, kind: type[Operation], role: str = "", site: str = "") -> Operation:
    (op,) = found(module, kind, role, site)
    return op


def drop(op: Operation) -> None:
    op.detach()
    op.erase()


def behind(op: Operation, place: Operation) -> None:
    """Puts an operation behind another."""
    if op.parent is not None:
        op.detach()
    block = place.parent_block()
    assert block is not None
    block.insert_op_after(op, place)


def _no_release(module: ModuleOp) -> None:
    drop(one(module, m.MapReleaseOp, "load"))


def _no_acquire(module: ModuleOp) -> None:
    drop(one(module, m.MapAcquireOp, "load", "maps.A"))


def _no_release_before_stores(module: ModuleOp) -> None:
    drop(found(module, m.MapReleaseOp)[-1])


def _no_acquire_before_stores(module: ModuleOp) -> None:
    drop(found(module, m.MapAcquireOp)[-1])


def _acquired_before_released(module: ModuleOp) -> None:
    behind(one(module, m.MapReleaseOp, "load"), one(module, m.MapAcquireOp, "load", "maps.A"))


def _edited_after_acquired(module: ModuleOp) -> None:
    behind(one(module, m.EditMapOp, "load"), one(module, m.MapAcquireOp, "load", "maps.A"))


def _another_slot_acquired(module: ModuleOp) -> None:
    acquire = one(module, m.MapAcquireOp, "load", "maps.A")
    assert isinstance(acquire, m.MapAcquireOp)
    edited = acquire.array.owner
    assert isinstance(edited, m.EditedOp)
    first = const(0)
    other = m.EditedOp.create(
        operands=[edited.maps, first.value, edited.index], result_types=[edited.array.type]
    )
    for op in (other, first):
        op.location = acquire.location
        behind(op, edited)
    acquire.operands = [other.array]


def _acquired_by_another_role(module: ModuleOp) -> None:
    """The role that multiplies acquires, and tells nobody."""
    acquire = one(module, m.MapAcquireOp, "load", "maps.A")
    wait = one(module, s.MbarrierWaitOp, "math", "maps.full")
    assert isinstance(acquire, m.MapAcquireOp)
    assert isinstance(wait, s.MbarrierWaitOp)
    edited = acquire.array.owner
    assert isinstance(edited, m.EditedOp)
    there = m.EditedOp.create(
        operands=[edited.maps, wait.slot, _group_of(wait)], result_types=[edited.array.type]
    )
    there.location = acquire.location
    behind(there, wait)
    behind(acquire, there)
    acquire.operands = [there.array]


def _group_of(op: Operation) -> SSAValue:
    while not (isinstance(op, s.ForOp) and op.chained is not None):
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op.body.block.args[0]


def _edited_by_another_role_too(module: ModuleOp) -> None:
    edit = one(module, m.EditMapOp, "load")
    wait = one(module, s.MbarrierWaitOp, "math", "maps.full")
    assert isinstance(edit, m.EditMapOp)
    assert isinstance(wait, s.MbarrierWaitOp)
    group = _group_of(wait)
    count = next(u.operation for u in group.uses if u.operation.name == "stage.load_element")
    again = m.EditMapOp.create(
        operands=[edit.maps, wait.slot, group, count.results[0]],
        properties={**edit.properties, "id": StringAttr("math.edit")},
    )
    again.location = edit.location
    behind(again, wait)


def _edited_by_all_threads(module: ModuleOp) -> None:
    found(module, m.EditMapOp)[-1].properties["by"] = StringAttr("all")


def _loads_in_flight(module: ModuleOp) -> None:
    drop(one(module, s.MbarrierWaitOp, "load", "maps.empty"))


def _handed_back_before_its_items(module: ModuleOp) -> None:
    behind(
        one(module, s.MbarrierArriveOp, "math", "maps.release"),
        one(module, s.MbarrierWaitOp, "math", "maps.full"),
    )


def _stores_in_flight(module: ModuleOp) -> None:
    drop(one(module, s.BulkWaitOp, "", "maps.complete"))


def _stores_that_may_still_write(module: ModuleOp) -> None:
    one(module, s.BulkWaitOp, "", "maps.complete").properties["read"] = UnitAttr()


Slip = Callable[[ModuleOp], None]

SLIPS: dict[str, tuple[Slip, str, str]] = {
    "no release": (_no_release, "TK302", "a <- A[g][m, k]"),
    "no acquire": (_no_acquire, "TK302", "a <- A[g][m, k]"),
    "no release before stores": (_no_release_before_stores, "TK302", "C[g][m, n] <-"),
    "no acquire before stores": (_no_acquire_before_stores, "TK302", "C[g][m, n] <-"),
    "acquired before released": (_acquired_before_released, "TK302", "a <- A[g][m, k]"),
    "edited after acquired": (_edited_after_acquired, "TK302", "a <- A[g][m, k]"),
    "another slot acquired": (_another_slot_acquired, "TK302", "a <- A[g][m, k]"),
    "acquired by another role": (_acquired_by_another_role, "TK302", "a <- A[g][m, k]"),
    "edited by another role, too": (_edited_by_another_role_too, "TK317", "maps A, C: edited"),
    "edited by all threads": (_edited_by_all_threads, "TK301", "maps A, C: edited"),
    "loads in flight": (_loads_in_flight, "TK317", "maps A, C: edited"),
    "handed back before its items": (_handed_back_before_its_items, "TK317", "maps A, C: edited"),
    "stores in flight": (_stores_in_flight, "TK317", "maps A, C: edited"),
}
"""What is done, the code that it is found with, and where."""

FINE: dict[str, Slip] = {"stores that may still write": _stores_that_may_still_write}
"""A map is free once the copies have read it (PTX 9.7.10.28.6.2)."""
