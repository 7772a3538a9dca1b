"""Fragments of one value a row or a column, parts of fragments, and accesses of global memory by threads."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, UnitAttr, f32, i32
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.stage.structure import By, StageOp
from tkc.ir.stage.types import FragmentType
from tkc.ir.tile.types import TensorType


@irdl_op_definition
class FillOp(StageOp):
    """A scalar in every element of a fragment."""

    name = "stage.fill"
    BY: ClassVar[By | None] = By.ALL
    scalar = operand_def(f32)
    value = result_def(FragmentType)
    traits = traits_def(Pure())


@irdl_op_definition
class MaskOp(StageOp):
    """A fragment where `rows · r + columns · c < limit`, and `fill` elsewhere, or the elements of another one; r and c
    count from its first element. With `positions`: the number `rows · r + columns · c - limit` in each element."""

    name = "stage.mask"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    limit = operand_def(i32)
    otherwise = opt_operand_def(FragmentType)
    rows = prop_def(IntegerAttr)
    columns = prop_def(IntegerAttr)
    fill = prop_def(FloatAttr)
    positions = opt_prop_def(UnitAttr)
    value = result_def(FragmentType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.source.type != self.value.type:
            raise VerifyException(f"a mask of {self.source.type} gives {self.value.type}")


@irdl_op_definition
class PartOp(StageOp):
    """Columns `start` up of a fragment that is held whole."""

    name = "stage.part"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    start = prop_def(IntegerAttr)
    value = result_def(FragmentType)
    traits = traits_def(Pure())


@irdl_op_definition
class ReduceOp(StageOp):
    """Each thread's columns of a row and `carry`, as one value a row.

    Where `valid` is given, columns from it on count as the neutral element: it is relative to the fragment's first.
    """

    name = "stage.reduce"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    carry = operand_def(FragmentType)
    valid = opt_operand_def(i32)
    kind = prop_def(StringAttr)
    value = result_def(FragmentType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.carry.type != self.value.type:
            raise VerifyException(f"a reduction onto {self.carry.type} gives {self.value.type}")


@irdl_op_definition
class CombineLanesOp(StageOp):
    """One value a row of what the lanes that share a row hold; every one of them gets it."""

    name = "stage.combine_lanes"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    kind = prop_def(StringAttr)
    value = result_def(FragmentType)
    traits = traits_def(Pure())


@irdl_op_definition
class FoldRowsOp(StageOp):
    """The rows that a warp holds of a fragment as one, of each 32 columns one number for each lane.

    Which column a lane's is, the layout says (`placement/columns.py`); columns past the last give any number.
    Without a `kind` nothing is reduced: each lane picks its columns of one value a column, which several lanes hold.
    """

    name = "stage.fold_rows"
    COLUMNS: ClassVar[int] = 32
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    kind = opt_prop_def(StringAttr)
    numbers = var_result_def(f32)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source = self.source.type
        assert isinstance(source, FragmentType)
        count = -(-source.shape[1] // self.COLUMNS)
        if source.dtype.data != "f32" or len(self.numbers) != count:
            raise VerifyException(f"{source} folds into {count} numbers of f32 for each lane")
        if source.a_column != (self.kind is None):
            raise VerifyException("one value a column is picked, and a tile is folded by a kind")


@irdl_op_definition
class FoldWarpOp(StageOp):
    """One value a row of the rows that a warp holds as one number, which each of its lanes gets."""

    name = "stage.fold_warp"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    kind = prop_def(StringAttr)
    number = result_def(f32)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source = self.source.type
        assert isinstance(source, FragmentType)
        if source.dtype.data != "f32" or source.shape[1] != 1 or source.shape[0] == 1:
            raise VerifyException(f"{source} is no fragment of one f32 value a row")


@irdl_op_definition
class LoadGlobalOp(StageOp):
    """Elements of one axis of a tensor, from `coordinates` on, as one value a row or a column.

    Past the end of `axis`, whose extent is `extent`, the last element is read again.
    """

    name = "stage.load_global"
    BY: ClassVar[By | None] = By.ALL
    tensor = operand_def(TensorType)
    extent = operand_def(i32)
    coordinates = var_operand_def(i32)
    axis = prop_def(IntegerAttr)
    value = result_def(FragmentType)
    traits = traits_def(Effects(Touch(Kind.READ, "tensor", Space.GLOBAL)))


@irdl_op_definition
class StoreGlobalOp(StageOp):
    """Writes one value a row to elements of one axis of a tensor; those at or past `extent` are dropped, and those of
    rows from `limit` on. With `add` each is added to what is there, atomically."""

    name = "stage.store_global"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    tensor = operand_def(TensorType)
    extent = operand_def(i32)
    coordinates = var_operand_def(i32)
    axis = prop_def(IntegerAttr)
    limit = opt_prop_def(IntegerAttr)
    add = opt_prop_def(UnitAttr)
    traits = traits_def(Effects(Touch(Kind.WRITE, "tensor", Space.GLOBAL)))


VECTORS = [
    FillOp, MaskOp, PartOp, ReduceOp, CombineLanesOp, FoldRowsOp, FoldWarpOp, LoadGlobalOp, StoreGlobalOp,
]  # fmt: skip
