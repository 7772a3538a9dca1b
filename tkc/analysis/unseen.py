"""Which accesses of a kernel the analysis of happens-before does not follow, so that a fence may order them unseen."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from tkc.ir.effects import effects_of
from tkc.ir.isa.fences import form
from tkc.ir.isa.memory import Kind, Proxy, Space, Touch
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import BufferType

EVERYTHING = frozenset({Space.SHARED, Space.GLOBAL, Space.TENSOR})


def ordered_by(fence: Operation) -> frozenset[Space]:
    """The spaces whose accesses a fence may order."""
    if isinstance(fence, s.Tcgen05FenceOp):
        return frozenset({Space.TENSOR})
    row = form(fence.space.data) if isinstance(fence, s.ProxyFenceOp) else None
    return row.covers if row is not None else EVERYTHING - {Space.TENSOR}


def hidden_spaces(kernel: s.KernelOp) -> frozenset[Space]:
    """Spaces with accesses that the analysis does not follow: of single elements, and of operations without rows. Reads
    of what nothing in the kernel writes are none: no order of its own changes what they find."""
    touches: list[tuple[SSAValue, Touch]] = []
    for op in kernel.walk():
        rows = effects_of(op)
        if rows is None and not op.regions and not op.has_trait(Pure):
            return EVERYTHING
        touches += [
            (getattr(op, r.operand), r)
            for r in rows or ()
            if isinstance(r, Touch) and getattr(op, r.operand) is not None
        ]
    written = {value for value, row in touches if row.kind is Kind.WRITE}
    return frozenset(
        Space.SHARED if isinstance(value.type, BufferType) else Space.GLOBAL
        for value, row in touches
        if row.space is Space.GENERIC and value in written
    )


def tensors_cross(kernel: s.KernelOp) -> bool:
    """Whether threads and the copy engine both touch tensors, in this CTA or another that the analysis does not see."""
    rows = [
        r
        for op in kernel.walk()
        for r in effects_of(op) or ()
        if isinstance(r, Touch) and r.space is Space.GLOBAL
    ]
    return {Proxy.GENERIC, Proxy.ASYNC} <= {r.proxy for r in rows}
