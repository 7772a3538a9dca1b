"""Scalar values of both levels: sizes, constants and arithmetic that a loop bound or a coordinate is made of."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, StringAttr, f32, i1, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    EqAttrConstraint,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.interned import integer, string
from tkc.ir.syntax import Operation


@dataclass(frozen=True, slots=True)
class Scalar:
    """A row of the arithmetic table.

    `of` is what it gives on numbers; `predicate`: the result is `i1`; `contract`: the name in a launch contract.
    """

    arity: int
    of: Callable[..., Any]
    predicate: bool = False
    contract: str | None = None


def _cdiv(a: int, b: int) -> int:
    return -(-a // b)


def _select(p: Any, a: Any, b: Any) -> Any:
    return a if p else b


TO_F32 = "to_f32"

SCALARS: dict[str, Scalar] = {
    "add": Scalar(2, operator.add, contract="add"),
    "sub": Scalar(2, operator.sub, contract="sub"),
    "mul": Scalar(2, operator.mul, contract="mul"),
    "div": Scalar(2, operator.floordiv, contract="floordiv"),
    "cdiv": Scalar(2, _cdiv, contract="ceildiv"),
    "mod": Scalar(2, operator.mod, contract="mod"),
    "min": Scalar(2, min, contract="min"),
    "max": Scalar(2, max, contract="max"),
    "and": Scalar(2, operator.and_),
    "or": Scalar(2, operator.or_),
    "xor": Scalar(2, operator.xor),
    "shl": Scalar(2, operator.lshift),
    "shr": Scalar(2, operator.rshift),
    "eq": Scalar(2, operator.eq, predicate=True, contract="eq"),
    "ne": Scalar(2, operator.ne, predicate=True),
    "lt": Scalar(2, operator.lt, predicate=True, contract="lt"),
    "le": Scalar(2, operator.le, predicate=True),
    "gt": Scalar(2, operator.gt, predicate=True),
    "ge": Scalar(2, operator.ge, predicate=True),
    "select": Scalar(3, _select, contract="select"),
    TO_F32: Scalar(1, float),
    "neg": Scalar(1, operator.neg),
    "abs": Scalar(1, abs),
    "exp": Scalar(1, math.exp),
    "exp2": Scalar(1, lambda a: 2.0**a),
    "log": Scalar(1, math.log),
    "log2": Scalar(1, math.log2),
    "sqrt": Scalar(1, math.sqrt),
    "rsqrt": Scalar(1, lambda a: 1 / math.sqrt(a)),
    "rcp": Scalar(1, lambda a: 1 / a),
    "tanh": Scalar(1, math.tanh),
    "finite": Scalar(1, lambda a: 0.0 if a == -math.inf else a),
    "guard_div": Scalar(2, lambda a, b: a / b if b else 0.0),
}
"""`div`, `cdiv` and `mod` of integers are of non-negative ones (sizes, block numbers), so all roundings agree on them.
The rows after `select` make f32: of an i32, which rounds to nearest even, or as `tile.map` does of f32."""


@irdl_op_definition
class SizeOp(Operation):
    """A symbol that the launch binds, such as the extent of a tensor's axis: `%M = stage.size {symbol = "M"}`."""

    name = "stage.size"
    symbol = prop_def(StringAttr)
    value = result_def(EqAttrConstraint(i32) | EqAttrConstraint(i64))
    traits = traits_def(Pure())


@irdl_op_definition
class ConstOp(Operation):
    """A scalar constant."""

    name = "stage.const"
    constant = prop_def(IntegerAttr | FloatAttr)
    value = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.constant.type != self.value.type:
            raise VerifyException(f"a constant of {self.constant.type} is not {self.value.type}")


@irdl_op_definition
class ArithOp(Operation):
    """Arithmetic by the table: `%t = stage.arith %a, %b {kind = "cdiv"}`; `select` takes predicate, then, else."""

    name = "stage.arith"
    TYPES: ClassVar[tuple[Attribute, ...]] = (i1, i32, i64, f32)
    inputs = var_operand_def()
    kind = prop_def(StringAttr)
    value = result_def()
    traits = traits_def(Pure())

    def verify_(self) -> None:
        row = SCALARS.get(self.kind.data)
        if row is None:
            raise VerifyException(f"no scalar {self.kind.data!r}; one of {', '.join(SCALARS)}")
        if len(self.inputs) != row.arity:
            raise VerifyException(
                f"{self.kind.data} takes {row.arity} inputs, not {len(self.inputs)}"
            )
        inputs = self.inputs[1:] if self.kind.data == "select" else self.inputs
        types = list(dict.fromkeys(v.type for v in inputs))
        if len(types) != 1 or types[0] not in self.TYPES:
            raise VerifyException(
                f"{self.kind.data} takes inputs of one scalar type, not {', '.join(map(str, types))}"
            )
        if self.kind.data == TO_F32:
            if (types[0], self.value.type) != (i32, f32):
                raise VerifyException(f"{TO_F32} of {types[0]} does not give {self.value.type}")
        elif row.predicate:
            if self.value.type != i1:
                raise VerifyException(f"{self.kind.data} gives i1, not {self.value.type}")
        elif self.value.type != inputs[0].type:
            raise VerifyException(
                f"{self.kind.data} of {inputs[0].type} gives {inputs[0].type}, not {self.value.type}"
            )


def const(value: int, type: IntegerType = i32) -> ConstOp:
    """An integer constant."""
    return ConstOp.create(properties={"constant": integer(value, type)}, result_types=(type,))


def arith(kind: str, *inputs: SSAValue) -> ArithOp:
    """Arithmetic with the result type that the table gives."""
    type = i1 if SCALARS[kind].predicate else f32 if kind == TO_F32 else inputs[-1].type
    return ArithOp.create(operands=inputs, properties={"kind": string(kind)}, result_types=(type,))
