"""Products whose first operand registers have written to tensor memory."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.irdl import operand_def, opt_prop_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.syntax import Operation
from tkc.ir.tile.types import AccumType, SharedType


@irdl_op_definition
class TensorMmaOp(Operation):
    """`d += p @ b.T`, p a tile of bf16 in tensor memory, contracted along its last axis; `trans_b` and `alone` as in
    `tile.mma`."""

    name = "tile.tensor_mma"
    CHANGES: ClassVar[tuple[str, ...]] = ("d",)
    d = operand_def(AccumType)
    a = operand_def(AccumType)
    b = operand_def(SharedType)
    trans_b = prop_def(IntegerAttr)
    alone = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(Kind.READ, "a", Space.TENSOR),
            Touch(Kind.READ, "b", Space.SHARED),
            Touch(Kind.WRITE, "d", Space.TENSOR),
        )
    )

    def verify_(self) -> None:
        left, right, made = self.a.type, self.b.type, self.d.type
        assert isinstance(left, AccumType)
        assert isinstance(right, SharedType)
        assert isinstance(made, AccumType)
        b = right.shape[::-1] if self.trans_b.value.data else right.shape
        if len(b) != 2 or left.shape[1] != b[0] or (left.shape[0], b[1]) != made.shape:
            told = f"{list(left.shape)} @ {list(b)}"
            raise VerifyException(f"{told} does not make {list(made.shape)}")
        if not left.is_operand:
            raise VerifyException(f"{left} is no operand: tiles of bf16 in tensor memory are")


TENSOR_OPERANDS = (TensorMmaOp,)
