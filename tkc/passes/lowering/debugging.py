"""What a program prints, and assertions: a message of the thread, and a trap."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tkc.ir.isa.system import escaped
from tkc.ir.locations import location_of
from tkc.ir.stage.debugging import AssertOp, PrintOp
from tkc.passes.lowering.state import Kernel, lowers


def stop(k: Kernel, op: Operation, told: str, *arguments: SSAValue) -> None:
    """Prints the place of an operation, a format, the CTA and the thread in it, and aborts the grid."""
    place = location_of(op)
    where = f"{place}: " if place is not None else ""
    cta = [k.emit.special(f"%ctaid.{axis}") for axis in "xyz"]
    format = f"{escaped(where)}{told}, in CTA (%d, %d, %d), thread %d\n"
    k.emit.print(format, *arguments, *cta, k.thread)
    k.emit("trap")


@lowers(PrintOp)
def print_values(k: Kernel, op: PrintOp) -> None:
    k.emit.print(op.format.data, *(k.register(v) for v in op.values))


@lowers(AssertOp)
def assertion(k: Kernel, op: AssertOp) -> None:
    holds = k.number(op.condition)
    if holds is True:
        return
    told = f"assertion failed: {escaped(op.told.data)}"
    k.emit.if_(k.register(op.condition), lambda: stop(k, op, told), negated=True)
