"""The fences of a kernel: which they are, what each costs, and how PTX spells them."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tkc.analysis.items import role_of
from tkc.ir.isa.fences import ONE_WAY, price
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import FenceOp
from tkc.ir.stage.ops import By


def fences_of(kernel: s.KernelOp) -> Iterator[Operation]:
    """The operations whose only work is to order: every fence but those of wgmma's registers."""
    for op in kernel.walk():
        if isinstance(op, s.ProxyFenceOp | s.Tcgen05FenceOp | FenceOp):
            yield op


def cost(fence: Operation) -> int:
    """What a fence costs the role: its row's cost, for each warp that executes it, and tenfold in each loop."""
    role, depth = role_of(fence), 0
    assert role is not None
    at = fence.parent_op()
    while at is not None and at is not role:
        depth += isinstance(at, s.ForOp)
        at = at.parent_op()
    each = price(fence.space.data) if isinstance(fence, s.ProxyFenceOp) else 0
    warps = (
        1 if isinstance(fence, s.StageOp) and fence.executed_by is By.ONE else role.warps.value.data
    )
    return each * warps * 10**depth


def spelled(op: Operation) -> str:
    """A synchronisation in the words of PTX, without operands."""
    match op:
        case s.ProxyFenceOp():
            space = op.space.data
            if space in ONE_WAY:
                half = ONE_WAY[space]
                sem = "release" if half.releases else "acquire"
                return f"fence.proxy.async::generic.{sem}{half.restrict}.cluster"
            return "fence.proxy.async" + (f".{space}" if space else "")
        case s.Tcgen05FenceOp():
            return f"tcgen05.fence::{op.side.data}"
        case FenceOp():
            return f"fence.{op.sem.data}.{op.scope.data}"
        case _:
            words = [op.name.removeprefix("stage.")]
            for name in ("sem", "scope"):
                word = op.properties.get(name)
                words += [word.data] if isinstance(word, StringAttr) else []
            words += ["read"] if "read" in op.properties else []
            return ".".join(words)
