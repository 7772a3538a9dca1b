"""Items that the hardware hands out: a cluster that has not started is taken over (PTX 9.7.15.18)."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, UnitAttr, i1, i32
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Done, Kind, Proxy, Signal, Space, Touch
from tkc.ir.stage.structure import By, StageOp
from tkc.ir.stage.types import BarriersType, BufferType


@irdl_op_definition
class TryCancelOp(StageOp):
    """Asks for a cluster of this grid that has not started; the answer, 16 bytes, arrives in a slot of `buffer`.

    With `everywhere` it arrives in that slot of every CTA of the cluster, on the barrier of each. Not to be asked again
    once an answer was negative.
    """

    name = "stage.try_cancel"
    BY: ClassVar[By | None] = By.ONE
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    barriers = opt_operand_def(BarriersType)
    everywhere = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(Kind.WRITE, "buffer", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
            Signal("barriers", bytes_of="buffer"),
        )
    )


@irdl_op_definition
class AnswerOp(StageOp):
    """Reads the answer in a slot: whether there is one `more` item, and the number of that `item` (else any number)."""

    name = "stage.answer"
    EACH: ClassVar[bool] = True
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    by = prop_def(StringAttr)
    more = result_def(i1)
    item = result_def(i32)
    traits = traits_def(Effects(Touch(Kind.READ, "buffer", Space.SHARED)))


STEALING: list[type[StageOp]] = [TryCancelOp, AnswerOp]
