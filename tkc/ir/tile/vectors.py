"""Register values of one value a row or a column: reductions, spreading, and what is loaded without a tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, UnitAttr, f32, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.syntax import Operation
from tkc.ir.tile.types import BlockType, RegsType, SliceType


def joined(shapes: Sequence[tuple[int | str, ...]]) -> tuple[int | str, ...] | None:
    """The shape over which values of these shapes spread: an axis of 1 fits every extent; None where two differ."""
    if len({len(s) for s in shapes}) != 1:
        return None
    made: list[int | str] = []
    for extents in zip(*shapes, strict=True):
        wide = {n for n in extents if n != 1}
        if len(wide) > 1:
            return None
        made.append(wide.pop() if wide else 1)
    return tuple(made)


@irdl_op_definition
class ReduceOp(Operation):
    """`row_sum(x)`: one value for each row, `[rows, 1]`; `col_sum(x)`: one for each column, `[1, columns]`.

    With `block` and `extent`, columns at or beyond the extent of the axis that the block is of count as the neutral
    element of a reduction along rows.
    """

    name = "tile.reduce"
    KINDS: ClassVar[tuple[str, ...]] = ("add", "min", "max")
    source = operand_def(RegsType)
    block = opt_operand_def(BlockType)
    extent = opt_operand_def(i32)
    kind = prop_def(StringAttr)
    value = result_def(RegsType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    @property
    def axis(self) -> int:
        """The axis of the tile that is reduced: 1 leaves one value a row, 0 one a column."""
        value = self.value.type
        assert isinstance(value, RegsType)
        return 1 if value.shape[1] == 1 else 0

    def verify_(self) -> None:
        source, value = self.source.type, self.value.type
        assert isinstance(source, RegsType)
        assert isinstance(value, RegsType)
        if self.kind.data not in self.KINDS:
            raise VerifyException(
                f"no reduction {self.kind.data!r}; one of {', '.join(self.KINDS)}"
            )
        if len(source.shape) != 2 or value.shape not in (
            (source.shape[0], 1),
            (1, source.shape[1]),
        ):
            raise VerifyException(f"a reduction of {source} does not make {value}")
        if self.axis == 0 and self.block is not None:
            raise VerifyException("a reduction over rows has no mask of columns")
        if (self.block is None) != (self.extent is None):
            raise VerifyException("a masked reduction has a block and an extent")


@irdl_op_definition
class TotalOp(Operation):
    """`tile_sum(x)`: one number of one value a row, `[rows, 1]`, which all threads of the role get."""

    name = "tile.total"
    source = operand_def(RegsType)
    kind = prop_def(StringAttr)
    number = result_def(f32)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source = self.source.type
        assert isinstance(source, RegsType)
        if self.kind.data not in ReduceOp.KINDS:
            raise VerifyException(
                f"no reduction {self.kind.data!r}; one of {', '.join(ReduceOp.KINDS)}"
            )
        if source.dtype.data != "f32" or len(source.shape) != 2 or source.shape[1] != 1:
            raise VerifyException(f"a number is made of one value a row of f32, not of {source}")


@irdl_op_definition
class MaskOp(Operation):
    """`mask x where j <= m`: x where `rows · R + columns · C < limit`, elsewhere `otherwise` if given, else `fill`.

    R and C are the positions of an element on the axes that the blocks `row` and `column` are of; where there is no
    block its factor is 0. With `positions`: the number `rows · R + columns · C - limit`, and x only says the shape.
    """

    name = "tile.mask"
    source = operand_def(RegsType)
    row = opt_operand_def(BlockType)
    column = opt_operand_def(BlockType)
    limit = operand_def(i32)
    otherwise = opt_operand_def(RegsType)
    rows = prop_def(IntegerAttr)
    columns = prop_def(IntegerAttr)
    fill = prop_def(FloatAttr)
    positions = opt_prop_def(UnitAttr)
    value = result_def(RegsType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source = self.source.type
        assert isinstance(source, RegsType)
        if source != self.value.type or source.dtype.data != "f32" or len(source.shape) != 2:
            raise VerifyException(f"a mask is of f32 tiles, and keeps the type, not of {source}")
        if self.otherwise is not None and self.otherwise.type != source:
            raise VerifyException(f"a mask of {source} is {self.otherwise.type} elsewhere")
        for axis, (block, factor) in enumerate(
            ((self.row, self.rows), (self.column, self.columns))
        ):
            of = None if block is None else block.type
            size = of.size.data if isinstance(of, BlockType) else None
            if size not in (None, source.shape[axis]) or (size is None) != (factor.value.data == 0):
                raise VerifyException(
                    f"axis {axis} of {source} is no block of {size} times {factor.value.data}"
                )


@irdl_op_definition
class FillOp(Operation):
    """A scalar in every element: `tile.fill %zero : (f32) -> (!tile.regs<f32, [128, 1]>)`."""

    name = "tile.fill"
    scalar = operand_def(f32)
    value = result_def(RegsType)
    traits = traits_def(Pure())


@irdl_op_definition
class ReshapeOp(Operation):
    """The same elements with axes of 1 put in or left out: a vector as one row `[1, n]` or as one column `[n, 1]`."""

    name = "tile.reshape"
    source = operand_def(RegsType)
    value = result_def(RegsType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, value = self.source.type, self.value.type
        assert isinstance(source, RegsType)
        assert isinstance(value, RegsType)
        same = [n for n in source.shape if n != 1] == [n for n in value.shape if n != 1]
        if not same or source.dtype != value.dtype:
            raise VerifyException(f"{source} is not {value} with axes of 1 put in or left out")


@irdl_op_definition
class TransposeOp(Operation):
    """`x.T` of a register tile: a view, which the copy that it goes to turns."""

    name = "tile.transpose"
    source = operand_def(RegsType)
    value = result_def(RegsType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, value = self.source.type, self.value.type
        assert isinstance(source, RegsType)
        assert isinstance(value, RegsType)
        if source.shape[::-1] != value.shape or source.dtype != value.dtype:
            raise VerifyException(f"the transpose of {source} is not {value}")


@irdl_op_definition
class LoadOp(Operation):
    """`read(bias[n])`: a block of a tensor straight into registers; elements beyond the tensor are unspecified."""

    name = "tile.load"
    slice = operand_def(SliceType)
    value = result_def(RegsType)
    traits = traits_def(Effects(Touch(Kind.READ, "slice", Space.GLOBAL)))

    def verify_(self) -> None:
        slice, value = self.slice.type, self.value.type
        assert isinstance(slice, SliceType)
        assert isinstance(value, RegsType)
        if (slice.dtype, slice.shape) != (value.dtype, value.shape) or len(value.shape) != 1:
            raise VerifyException(f"a load of {slice} does not give {value}: it is of one axis")


VECTORS = [ReduceOp, TotalOp, MaskOp, FillOp, ReshapeOp, TransposeOp, LoadOp]
