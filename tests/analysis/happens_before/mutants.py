"""Programs at the stage level with one operation taken out."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Close, Meet, Order, Signal


def synchronises(op: Operation) -> bool:
    """Whether all that an operation does is to synchronise."""
    rows = effects_of(op) or ()
    return "id" in op.properties and any(
        isinstance(r, Await | Close | Meet | Order | Signal) for r in rows
    )


def sites(module: ModuleOp) -> list[Operation]:
    return [op for op in module.walk() if synchronises(op)]


def site_id(op: Operation) -> str:
    return op.properties["id"].data  # pyright: ignore


def without(module: ModuleOp, number: int) -> ModuleOp:
    """A copy of the module that lacks its n-th site; a value that goes through it goes round."""
    copy = module.clone()
    op = sites(copy)[number]
    for result in op.results:
        result.replace_all_uses_with(op.operands[0])
    op.detach()
    op.erase()
    return copy


def mutants(module: ModuleOp) -> Iterator[tuple[str, ModuleOp]]:
    """Each site's operation and id, and the module without it."""
    for number, op in enumerate(sites(module)):
        yield f"{op.name.removeprefix('stage.')} {site_id(op)}", without(module, number)
