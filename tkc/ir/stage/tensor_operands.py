"""Products whose first operand registers have written to tensor memory."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Done, Kind, Proxy, Space, Touch
from tkc.ir.stage.structure import By, StageOp
from tkc.ir.stage.types import AccumulatorType, BufferType


@irdl_op_definition
class TensorMmaOp(StageOp):
    """Starts `source += left · b`, `left` a slot of bf16 in tensor memory; `trans_b` and `alone` as in `stage.mma`."""

    name = "stage.tensor_mma"
    STATE_OF: ClassVar[str | None] = "source"
    BY: ClassVar[By | None] = By.ONE
    source = operand_def(AccumulatorType)
    left = operand_def(AccumulatorType)
    b = operand_def(BufferType)
    b_slot = operand_def(i32)
    trans_b = prop_def(IntegerAttr)
    alone = opt_prop_def(UnitAttr)
    value = result_def(AccumulatorType)
    traits = traits_def(
        Effects(
            Touch(Kind.READ, "left", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_COMMIT),
            Touch(Kind.READ, "b", Space.SHARED, Proxy.ASYNC, Done.TCGEN05_COMMIT),
            Touch(Kind.WRITE, "source", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_COMMIT),
        )
    )


TENSOR_OPERANDS = (TensorMmaOp,)
