"""Block scales: their way from shared to tensor memory, and the products that take them from there."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr, i32
from xdsl.irdl import operand_def, opt_prop_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Done, Kind, Proxy, Space, Touch
from tkc.ir.stage.structure import By, StageOp
from tkc.ir.stage.types import AccumulatorType, BufferType

READ, WRITE = Kind.READ, Kind.WRITE


@irdl_op_definition
class CopyScalesOp(StageOp):
    """Starts a copy of a slot of scales from shared memory to a slot of tensor memory (tcgen05.cp 32x128b.warpx4).

    Later products of the same thread see it without waiting (PTX: tcgen05.cp and tcgen05.mma are pipelined). With
    `pair`, in each CTA of a pair, between its own memories.
    """

    name = "stage.copy_scales"
    FOR_COPIES: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ONE
    source = operand_def(BufferType)
    source_slot = operand_def(i32)
    destination = operand_def(BufferType)
    destination_slot = operand_def(i32)
    pair = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(READ, "source", Space.SHARED, Proxy.ASYNC, Done.TCGEN05_COMMIT),
            Touch(WRITE, "destination", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_COMMIT),
        )
    )

    def verify_(self) -> None:
        source, destination = self.source.type, self.destination.type
        assert isinstance(source, BufferType)
        assert isinstance(destination, BufferType)
        if (source.dtype, source.dims) != (destination.dtype, destination.dims) or not (
            source.holds_scales and destination.holds_scales
        ):
            raise VerifyException(f"{source} does not fit {destination}")


@irdl_op_definition
class ScaledMmaOp(StageOp):
    """Starts `accumulator += a · bᵀ` of block-scaled operands, their scales in slots of tensor memory.

    With `pair`, of both CTAs' accumulators and operands, where each has the scales of its rows of a and all of b's.
    """

    name = "stage.scaled_mma"
    STATE_OF: ClassVar[str | None] = "source"
    BY: ClassVar[By | None] = By.ONE
    source = operand_def(AccumulatorType)
    a = operand_def(BufferType)
    a_slot = operand_def(i32)
    b = operand_def(BufferType)
    b_slot = operand_def(i32)
    scale_a = operand_def(BufferType)
    scale_a_slot = operand_def(i32)
    scale_b = operand_def(BufferType)
    scale_b_slot = operand_def(i32)
    pair = opt_prop_def(UnitAttr)
    value = result_def(AccumulatorType)
    traits = traits_def(
        Effects(
            Touch(READ, "a", Space.SHARED, Proxy.ASYNC, Done.TCGEN05_COMMIT),
            Touch(READ, "b", Space.SHARED, Proxy.ASYNC, Done.TCGEN05_COMMIT),
            Touch(READ, "scale_a", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_COMMIT),
            Touch(READ, "scale_b", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_COMMIT),
            Touch(WRITE, "source", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_COMMIT),
        )
    )

    def verify_(self) -> None:
        for scales in (self.scale_a.type, self.scale_b.type):
            assert isinstance(scales, BufferType)
            if not scales.holds_scales:
                raise VerifyException(f"{scales} holds no scales")


SCALED: list[type[StageOp]] = [CopyScalesOp, ScaledMmaOp]
