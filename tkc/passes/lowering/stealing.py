"""Taking over clusters that have not started (PTX 9.7.15.18 and 9.7.15.19)."""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tkc.ir.isa.targets import Feature
from tkc.ir.ptx.emit import At
from tkc.ir.stage.stealing import AnswerOp, TryCancelOp
from tkc.passes.lowering.scalars import compute
from tkc.passes.lowering.state import Kernel, lowers


@lowers(TryCancelOp, Feature.LAUNCH_CONTROL)
def try_cancel(k: Kernel, op: TryCancelOp) -> None:
    assert op.barriers is not None
    place = At(k.address(k.slot_address(op.buffer, op.slot)), 0)
    bar = At(k.address(k.barrier_address(op.barriers, op.slot)), 0)
    everywhere = [".multicast::cluster::all"] if op.everywhere is not None else []
    k.emit("clusterlaunchcontrol.try_cancel", ".shared::cta", *everywhere, place, bar)


@lowers(AnswerOp, Feature.LAUNCH_CONTROL)
def answer(k: Kernel, op: AnswerOp) -> None:
    """Which cluster it is may be asked of a positive answer only."""
    place = k.slot_address(op.buffer, op.slot)
    words = k.emit("ld", ".shared::cta", ".b128", place)
    more = k.emit("clusterlaunchcontrol.query_cancel.is_canceled", words)

    def number() -> list[SSAValue]:
        first = k.emit("clusterlaunchcontrol.query_cancel.get_first_ctaid", words, axis="::x")
        return [_number(k, first)]

    (item,) = k.emit.if_(more, number, lambda: [k.emit.imm(0, "b32")])
    k.values[op.more], k.values[op.item] = more, item


def _number(k: Kernel, first: SSAValue) -> SSAValue:
    """The item of this unit in a cluster whose first CTA has that number; the grid lies along x.

    Where clusters hold several units, one of as many as the asking one is taken over: each of its units has an item in
    it.
    """
    if k.several:
        first = k.add(first, k.first_rank)
    return first if k.ctas == 1 else compute(k, "div", [first, k.ctas], i32)
