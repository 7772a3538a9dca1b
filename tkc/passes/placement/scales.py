"""Block scales: buffers for them beside those of their tiles, copies to tensor memory, and products that take them.

Where a program says nothing of tensor memory, the role that multiplies copies an operand's scales there itself, in
front of the product: thread and order are then those that tcgen05.cp and tcgen05.mma are pipelined in.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue

from tkc.ir.isa.layouts import SCALE_ATOMS
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.ir.stage.types import BufferType, Home
from tkc.ir.tile import ops as t
from tkc.ir.tile.scales import CopyScalesOp, ScaledMmaOp
from tkc.ir.tile.types import ScaleAttr, SharedType, scale_shape
from tkc.passes.placement.state import Placement, Slot


def declare(p: Placement, op: t.SharedOp, name: str) -> None:
    """The buffer of a tile's scales in shared memory, and that in tensor memory where products copy them there."""
    tile = op.tile.type
    assert isinstance(tile, SharedType)
    if not isinstance(tile.scale, ScaleAttr):
        return
    shape = scale_shape(tile.shape, tile.scale)
    dtype, depth = tile.scale.dtype.data, tile.depth.data
    type = BufferType.of(dtype, shape, depth, Home.SHARED, SCALE_ATOMS)
    p.scales[op.tile] = _buffer(p, f"{name}.scales", type)
    columns = p.accumulators.get(op)
    if columns is not None:
        p.scale_columns[op.tile] = _buffer(p, f"{name}.scale_columns", columns)


def _buffer(p: Placement, name: str, type: BufferType) -> SSAValue:
    op = s.BufferOp.create(properties={"sym_name": StringAttr(name)}, result_types=[type])
    return p.emit.value(op, name.replace(".", "_"))


def copy_scales(p: Placement, op: CopyScalesOp) -> None:
    """`sa <- a.scales`."""
    source, destination = p.role.slots[op.source], p.role.slots[op.destination]
    source.touch(How.TCGEN05)
    destination.touch(How.TCGEN05)
    _copy(p, source, destination.buffer, destination.slot, op.pair)


def _copy(
    p: Placement, source: Slot, buffer: SSAValue, slot: SSAValue, pair: UnitAttr | None
) -> None:
    p.emit.add(
        s.CopyScalesOp.create(
            operands=[p.scales[source.tile], source.slot, buffer, slot], properties=_group(pair)
        )
    )


def _group(pair: UnitAttr | None) -> dict[str, Attribute]:
    """Whether what is started is of a pair of CTAs."""
    return {} if pair is None else {"pair": pair}


def product(p: Placement, op: t.MmaOp | ScaledMmaOp) -> None:
    """A product of two block-scaled tiles, in tensor memory (`analysis/accumulators.py` refuses registers)."""
    a, b = p.role.slots[op.a], p.role.slots[op.b]
    key = p.role.key(op.d)
    slots = [a, b, p.role.slots[key]]
    if isinstance(op, ScaledMmaOp):
        scales = [p.role.slots[op.scale_a], p.role.slots[op.scale_b]]
        slots += scales
        taken = [(x.buffer, x.slot) for x in scales]
    else:
        taken = [_at_hand(p, x, op.pair) for x in (a, b)]
    for x in slots:
        x.touch(How.TCGEN05)
    source = p.role.accumulators[key]
    operands = [source, a.buffer, a.slot, b.buffer, b.slot, *(v for pair in taken for v in pair)]
    p.role.accumulators[key] = p.emit.value(
        s.ScaledMmaOp.create(
            operands=operands, properties=_group(op.pair), result_types=[source.type]
        )
    )


def _at_hand(p: Placement, operand: Slot, pair: UnitAttr | None) -> tuple[SSAValue, SSAValue]:
    """An operand's scales in tensor memory, copied there unless a product of the same block has done so.

    A ring as deep as that of the tile goes round with it: the slot's columns are free once the slot is.
    """
    columns = p.scale_columns[operand.tile]
    type = columns.type
    assert isinstance(type, BufferType)
    slot = operand.slot if type.depth == operand.type.depth else p.emit.const(0)
    now = (operand, p.emit.block)
    if p.role.copied.get(operand.tile) != now:
        _copy(p, operand, columns, slot, pair)
        p.role.copied[operand.tile] = now
    return columns, slot
