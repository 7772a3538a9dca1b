"""Accesses of single elements of tensors and shared tiles, by each thread that comes to them."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, f32, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    EqAttrConstraint,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.memory import Await, Close, Done, Kind, Proxy, Signal, Space, Touch
from tkc.ir.stage.numbers import ui32
from tkc.ir.stage.structure import By, StageOp
from tkc.ir.stage.types import BarriersType, BufferType
from tkc.ir.tile.types import SharedType, TensorType

READ = Touch(Kind.READ, "place", Space.GENERIC)
WRITE = Touch(Kind.WRITE, "place", Space.GENERIC)
NUMBER = (
    EqAttrConstraint(f32) | EqAttrConstraint(i32) | EqAttrConstraint(i64) | EqAttrConstraint(ui32)
)
PLACE = TensorType | BufferType | SharedType
"""A tensor; a buffer, whose first index is the slot; at the tile level a slot. Floats of 8 and 16 bits
are f32 numbers, s8 and u8 are i32."""


class ElementOp(StageOp):
    """`strong`: two such accesses of one place are no race (PTX 8.7, morally strong)."""

    @property
    def strong(self) -> bool:
        return "sem" in self.properties

    @property
    def elements(self) -> int:
        """How many elements it touches, along the last axis."""
        return 1

    def indices_of(self, operand: str) -> list[SSAValue]:
        """Where it touches an operand: the slot first where that is a buffer."""
        return list(self.indices)  # pyright: ignore


@irdl_op_definition
class LoadElementOp(ElementOp):
    """The element at `indices`; `sem` and `scope` as PTX spells them, weak where there are none.

    `constant`: of a tensor that nobody writes while the kernel runs, so that equal indices give equal values.
    """

    name = "stage.load_element"
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    place = operand_def(PLACE)
    indices = var_operand_def(i32)
    sem = opt_prop_def(StringAttr)
    scope = opt_prop_def(StringAttr)
    constant = opt_prop_def(UnitAttr)
    value = result_def(NUMBER)
    traits = traits_def(Effects(READ))


@irdl_op_definition
class StoreElementOp(ElementOp):
    """`source` becomes the element at `indices`; `sem` and `scope` as in a load."""

    name = "stage.store_element"
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(NUMBER)
    place = operand_def(PLACE)
    indices = var_operand_def(i32)
    sem = opt_prop_def(StringAttr)
    scope = opt_prop_def(StringAttr)
    traits = traits_def(Effects(WRITE))


@irdl_op_definition
class AtomicOp(ElementOp):
    """Updates the element at `indices` by `kind` in one step; its value is what was there.

    `cas` takes the value that it compares with and the new one.
    """

    name = "stage.atomic"
    KINDS: ClassVar[dict[str, int]] = {
        "add": 1, "min": 1, "max": 1, "and": 1, "or": 1, "xor": 1, "exch": 1, "cas": 2,
    }  # fmt: skip
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    place = operand_def(PLACE)
    given = var_operand_def(NUMBER)
    indices = var_operand_def(i32)
    kind = prop_def(StringAttr)
    sem = opt_prop_def(StringAttr)
    scope = opt_prop_def(StringAttr)
    value = result_def(NUMBER)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Effects(READ, WRITE))

    @property
    def strong(self) -> bool:
        return True

    def verify_(self) -> None:
        count = self.KINDS.get(self.kind.data)
        if count is None:
            raise VerifyException(f"no atomic {self.kind.data!r}; one of {', '.join(self.KINDS)}")
        if count != len(self.given):
            raise VerifyException(f"{self.kind.data} takes {count} values, not {len(self.given)}")


@irdl_op_definition
class CopyElementsOp(ElementOp):
    """Starts a copy of `bytes` bytes from an element of a tensor on to the element at `indices` on, by each thread."""

    name = "stage.copy_elements"
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    tensor = operand_def(TensorType)
    start = var_operand_def(i32)
    place = operand_def(PLACE)
    indices = var_operand_def(i32)
    bytes = prop_def(IntegerAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def elements(self) -> int:
        return self.bytes.value.data * 8 // DTYPES[self.place.type.dtype.data].bits  # pyright: ignore

    def indices_of(self, operand: str) -> list[SSAValue]:
        return list(self.start if operand == "tensor" else self.indices)

    @property
    def slot(self) -> SSAValue | None:
        """The number of the slot, where the place is a buffer."""
        return self.indices[0] if isinstance(self.place.type, BufferType) else None

    @property
    def strong(self) -> bool:
        """Two copies are not judged by each other: which elements they write is not known, as of single stores."""
        return True

    traits = traits_def(
        Effects(
            Touch(Kind.READ, "tensor", Space.GLOBAL, Proxy.GENERIC, Done.CP_ASYNC_GROUP),
            Touch(Kind.WRITE, "place", Space.SHARED, Proxy.GENERIC, Done.CP_ASYNC_GROUP),
        )
    )


@irdl_op_definition
class CopiesCommitOp(StageOp):
    """Closes the thread's group of copies of elements."""

    name = "stage.copies_commit"
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Close(Done.CP_ASYNC_GROUP)))


@irdl_op_definition
class CopiesWaitOp(StageOp):
    """Waits until at most `pending` of the thread's groups of copies are under way."""

    name = "stage.copies_wait"
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    pending = prop_def(IntegerAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Await("", Done.CP_ASYNC_GROUP)))


@irdl_op_definition
class CopiesArriveOp(StageOp):
    """An arrival of each thread once its copies of elements so far are done; one that is `uncounted` raises the phase's
    count by itself. It tells of the copies alone."""

    name = "stage.copies_arrive"
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    uncounted = opt_prop_def(UnitAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Signal("barriers", 1)))


ELEMENTS = (
    LoadElementOp, StoreElementOp, AtomicOp, CopyElementsOp, CopiesCommitOp, CopiesWaitOp, CopiesArriveOp,
)  # fmt: skip
