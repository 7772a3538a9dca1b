"""Block scales at the tile level where the program itself says where they are in tensor memory."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.irdl import operand_def, opt_prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.syntax import Operation
from tkc.ir.tile.types import AccumType, ScaleAttr, SharedType, kind_of, scale_shape


def scales_fit(tile: SharedType, scales: AccumType) -> bool:
    """Whether a tile of tensor memory has the shape and the dtype of a shared tile's scales."""
    return isinstance(tile.scale, ScaleAttr) and (
        scales.dtype == tile.scale.dtype and scales.shape == scale_shape(tile.shape, tile.scale)
    )


def check_scaled(left: SharedType, right: SharedType, trans_a: bool, trans_b: bool) -> None:
    """Operands of a product both have scales of one dtype and block along the contracted axis, or neither has any."""
    if kind_of(left.scale) != kind_of(right.scale):
        raise VerifyException(f"{left} @ {right}: the scales differ")
    if isinstance(left.scale, ScaleAttr) and (trans_a or not trans_b):
        raise VerifyException(
            f"{left} @ {right}: scales lie along the contracted axis, which is the last of each operand"
        )


@irdl_op_definition
class CopyScalesOp(Operation):
    """`sa <- a.scales`: the scales of a shared tile, to tensor memory; with `pair`, in each CTA of a pair."""

    name = "tile.copy_scales"
    source = operand_def(SharedType)
    destination = operand_def(AccumType)
    pair = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(Kind.READ, "source", Space.SHARED), Touch(Kind.WRITE, "destination", Space.TENSOR)
        )
    )

    def verify_(self) -> None:
        source, destination = self.source.type, self.destination.type
        assert isinstance(source, SharedType)
        assert isinstance(destination, AccumType)
        if not scales_fit(source, destination):
            raise VerifyException(f"the scales of {source} do not fit {destination}")


@irdl_op_definition
class ScaledMmaOp(Operation):
    """`d += scaled(a, sa) @ scaled(b, sb).T`: a product of block-scaled tiles with scales that are in tensor memory."""

    name = "tile.scaled_mma"
    CHANGES: ClassVar[tuple[str, ...]] = ("d",)
    d = operand_def(AccumType)
    a = operand_def(SharedType)
    scale_a = operand_def(AccumType)
    b = operand_def(SharedType)
    scale_b = operand_def(AccumType)
    pair = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(Kind.READ, "a", Space.SHARED),
            Touch(Kind.READ, "b", Space.SHARED),
            Touch(Kind.READ, "scale_a", Space.TENSOR),
            Touch(Kind.READ, "scale_b", Space.TENSOR),
            Touch(Kind.WRITE, "d", Space.TENSOR),
        )
    )

    def verify_(self) -> None:
        left, right, made = self.a.type, self.b.type, self.d.type
        assert isinstance(left, SharedType)
        assert isinstance(right, SharedType)
        assert isinstance(made, AccumType)
        check_scaled(left, right, trans_a=False, trans_b=True)
        for tile, scales in ((left, self.scale_a.type), (right, self.scale_b.type)):
            assert isinstance(scales, AccumType)
            if not scales_fit(tile, scales):
                raise VerifyException(f"{scales} are not the scales of {tile}")
        columns = right.shape[0] if self.pair is None else 2 * right.shape[0]
        if right.scale.rows.data not in (0, columns) or (self.pair and not right.scale.rows.data):  # type: ignore[union-attr]
            raise VerifyException(
                f"a product of {columns} columns takes as many rows of scales of {right}"
            )
        if left.shape[1] != right.shape[1] or (left.shape[0], columns) != made.shape:
            raise VerifyException(f"{left} @ {right} does not make {list(made.shape)}")


SCALED: list[type[Operation]] = [CopyScalesOp, ScaledMmaOp]
