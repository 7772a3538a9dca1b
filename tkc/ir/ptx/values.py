"""Constants, parts of register tuples, registers that nobody has set: no instruction; tuples of registers: moves."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.ptx.registers import WIDTHS, RegisterType, type_of
from tkc.ir.syntax import Operation


@irdl_op_definition
class ImmOp(Operation):
    """A constant, printed in place wherever it is used: `%c = ptx.imm {value = 5} : () -> (!ptx.reg<b32>)`.

    Of class f32 and f64 the value is the bits of the number, printed as `0f3F800000`. It fits an operand of any class.
    """

    name = "ptx.imm"
    value = prop_def(IntegerAttr)
    result = result_def(RegisterType)
    traits = traits_def(Pure(), ConstantLike())

    @property
    def text(self) -> str:
        (result,), value = self.results, self.properties["value"].value.data  # pyright: ignore
        match type_of(result).kind:
            case "f32":
                return f"0f{value & 0xFFFFFFFF:08X}"
            case "f64":
                return f"0d{value & 0xFFFFFFFFFFFFFFFF:016X}"
            case _:
                return str(value)

    def verify_(self) -> None:
        type = type_of(self.result)
        value, bits = self.value.value.data, WIDTHS[type.kind]
        if type.count or type.named:
            raise VerifyException("a constant is one register without a name")
        if not -(1 << (bits - 1)) <= value < 1 << bits:
            raise VerifyException(f"{value} does not fit {type.kind}")


@irdl_op_definition
class SliceOp(Operation):
    """Registers `start`, `start + step`, … of a tuple under another value: no move is made.

    `count` 0 (`%x = ptx.slice %t {start = 3, count = 0, step = 1}`) is the single register, 1 a tuple of one.
    """

    name = "ptx.slice"
    whole = operand_def(RegisterType)
    start = prop_def(IntegerAttr)
    count = prop_def(IntegerAttr)
    step = prop_def(IntegerAttr)
    result = result_def(RegisterType)
    traits = traits_def(Pure())

    def part_of(self, whole: RegisterType) -> RegisterType:
        """The type of this part, where the tuple has type `whole`."""
        of: Any = self.properties
        return whole.part(of["start"].value.data, of["count"].value.data, of["step"].value.data)

    def verify_(self) -> None:
        (whole,), (part,) = map(type_of, self._operands), map(type_of, self.results)
        of: Any = self.properties
        start, count, step = of["start"].value.data, of["count"].value.data, of["step"].value.data
        last = start + step * (max(count, 1) - 1)
        if not whole.count:
            raise VerifyException("a single register has no parts")
        if count < 0 or step < 1 or not 0 <= start <= last < whole.count:
            raise VerifyException(f"registers {start} to {last} of a tuple of {whole.count}")
        expected = whole.part(start, count, step)
        if part is not expected and part != expected:
            raise VerifyException(f"the part is {expected}, not {part}")


@irdl_op_definition
class JoinOp(Operation):
    """A tuple of single registers of one class, each moved to its place in it."""

    name = "ptx.join"
    parts = var_operand_def(RegisterType)
    result = result_def(RegisterType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        type = type_of(self.result)
        if type.count != len(self.parts):
            raise VerifyException(f"{len(self.parts)} registers make no tuple of {type.count}")
        for part in self.parts:
            if type_of(part).count or type_of(part).kind != type.kind:
                raise VerifyException(f"{part.type} is no register of {type}")


@irdl_op_definition
class UndefOp(Operation):
    """Registers whose contents do not matter: the accumulator of a first matrix multiply that ignores it."""

    name = "ptx.undef"
    result = result_def(RegisterType)
    traits = traits_def(Pure())


def is_constant(value: SSAValue) -> bool:
    """Whether a value is a `ptx.imm`, which has no register."""
    return type(value.owner) is ImmOp


def root(value: SSAValue) -> SSAValue:
    """The value whose registers this one is a part of: itself, unless it is a slice."""
    while type(owner := value.owner) is SliceOp:
        (value,) = owner._operands  # pyright: ignore[reportPrivateUsage]
    return value
