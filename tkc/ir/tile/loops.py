"""Blocks of blocks, and the integer that a loop over single elements gives."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i32
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.syntax import Operation
from tkc.ir.tile.types import BlockType


@irdl_op_definition
class IndexOp(Operation):
    """The number of a block as an integer: with blocks of one element, the index of the element."""

    name = "tile.index"
    block = operand_def(BlockType)
    index = result_def(i32)
    traits = traits_def(Pure())


@irdl_op_definition
class PartOp(Operation):
    """`m.part(i, n)`: part `index` of the n equal parts of a block, itself a block of the axis."""

    name = "tile.part"
    whole = operand_def(BlockType)
    index = prop_def(IntegerAttr)
    part = result_def(BlockType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        whole, part = self.whole.type, self.part.type
        assert isinstance(whole, BlockType)
        assert isinstance(part, BlockType)
        count, rest = divmod(whole.size.data, part.size.data)
        if rest or part.extent != whole.extent or not 0 <= self.index.value.data < count:
            raise VerifyException(f"{part} is no part {self.index.value.data} of {whole}")


@irdl_op_definition
class ShareOp(Operation):
    """The share of a block that this CTA of the cluster has: one of as many equal parts as there are CTAs, by rank.

    In a cluster of pairs `of` says whether it is its `pair`'s, one of as many as there are pairs, or its own `half` of
    the pair's.
    """

    name = "tile.share"
    whole = operand_def(BlockType)
    of = opt_prop_def(StringAttr)
    part = result_def(BlockType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        whole, part = self.whole.type, self.part.type
        assert isinstance(whole, BlockType)
        assert isinstance(part, BlockType)
        if whole.size.data % part.size.data or part.extent != whole.extent:
            raise VerifyException(f"{part} is no share of {whole}")


@irdl_op_definition
class ForPartsOp(Operation):
    """`for k in blocks(s, BK):` the blocks of an axis that lie in a larger block `s` of it, and inside its extent.

    There is at least one, since a block has at least one element. Block arguments are as in `tile.for_blocks`.
    """

    name = "tile.for_parts"
    within = operand_def(BlockType)
    extent = operand_def(i32)
    inits = var_operand_def()
    size = prop_def(IntegerAttr)
    body = region_def("single_block")
    carried = var_result_def()

    def verify_(self) -> None:
        from tkc.ir.tile.ops import check_loop

        whole, size = self.within.type, self.size.value.data
        assert isinstance(whole, BlockType)
        if size < 1 or whole.size.data % size:
            raise VerifyException(
                f"blocks of {size} do not fill a block of {whole.size.data}: it is no multiple"
            )
        check_loop(self, 1, self.inits)


@irdl_op_definition
class ForSpanOp(Operation):
    """`for j in keys(m):` the blocks of an axis from number `first` to before `last`, both inside its extent.

    With `some` there is one wherever the axis has an element. Block arguments are as in `tile.for_blocks`.
    """

    name = "tile.for_span"
    extent = operand_def(i32)
    first = operand_def(i32)
    last = operand_def(i32)
    inits = var_operand_def()
    size = prop_def(IntegerAttr)
    some = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    carried = var_result_def()

    def verify_(self) -> None:
        from tkc.ir.tile.ops import check_loop

        if self.size.value.data < 1:
            raise VerifyException("blocks have at least one element")
        check_loop(self, 1, self.inits)


LOOPS = [IndexOp, PartOp, ShareOp, ForPartsOp, ForSpanOp]
