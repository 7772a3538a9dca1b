"""What explicit synchronisation says of tiles: a slot by its number, copies with their barrier, products on condition.

Barriers, waits and fences are operations of the stage level, which stand among these: they speak of no tile.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i1, i32
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Await, Done, Kind, Proxy, Signal, Space, Touch
from tkc.ir.stage.types import BarriersType
from tkc.ir.syntax import Operation
from tkc.ir.tile.types import AccumType, BlockType, RegsType, SharedType, SliceType

READ, WRITE = Kind.READ, Kind.WRITE


@irdl_op_definition
class SlotOp(Operation):
    """`a[i]`: slot `index` of a tile's ring, which nobody opens or closes."""

    name = "tile.slot"
    tile = operand_def(SharedType | AccumType)
    index = operand_def(i32)
    slot = result_def(SharedType | AccumType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.slot.type != self.tile.type:
            raise VerifyException(f"a slot of {self.tile.type} is not {self.slot.type}")


@irdl_op_definition
class PartAtOp(Operation):
    """`n.part(i, count)`: the `index`-th of `count` equal parts of a block."""

    name = "tile.part_at"
    block = operand_def(BlockType)
    index = operand_def(i32)
    count = prop_def(IntegerAttr)
    part = result_def(BlockType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        whole, part = self.block.type, self.part.type
        assert isinstance(whole, BlockType)
        assert isinstance(part, BlockType)
        if part.size.data * self.count.value.data != whole.size.data or part.extent != whole.extent:
            raise VerifyException(f"{part} is no {self.count.value.data}th of {whole}")


@irdl_op_definition
class BlockAtOp(Operation):
    """`blocks(M, BM)[index]`: the block of that number in its axis."""

    name = "tile.block_at"
    index = operand_def(i32)
    block = result_def(BlockType)
    traits = traits_def(Pure())


@irdl_op_definition
class BlockNumberOp(Operation):
    """A block's number in its range."""

    name = "tile.block_number"
    block = operand_def(BlockType)
    value = result_def(i32)
    traits = traits_def(Pure())


@irdl_op_definition
class TmaLoadOp(Operation):
    """`load a[slot] <- A[m, k], full[i]`: one thread starts the copy, which completes its bytes on entry `entry`.

    `mask`, `rank`, `hint` and `bulk` are as in `stage.tma_load_to`.
    """

    name = "tile.tma_load"
    source = operand_def(SliceType)
    destination = operand_def(SharedType)
    barriers = operand_def(BarriersType)
    entry = operand_def(i32)
    mask = opt_operand_def(i32)
    rank = opt_operand_def(i32)
    hint = opt_prop_def(StringAttr)
    bulk = opt_prop_def(UnitAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(
        Effects(
            Touch(READ, "source", Space.GLOBAL, Proxy.ASYNC, Done.MBARRIER_TX),
            Touch(WRITE, "destination", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
            Signal("barriers", bytes_of="destination"),
        )
    )


@irdl_op_definition
class ClusterCopyOp(Operation):
    """`copy b[j] <- a[i], full[j], at = 1`: one thread starts the copy into a slot of CTA `rank` of the cluster, which
    completes its bytes on entry `entry` there."""

    name = "tile.cluster_copy"
    source = operand_def(SharedType)
    destination = operand_def(SharedType)
    barriers = operand_def(BarriersType)
    entry = operand_def(i32)
    rank = operand_def(i32)
    traits = traits_def(
        Effects(
            Touch(READ, "source", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
            Touch(WRITE, "destination", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX, at="rank"),
            Signal("barriers", bytes_of="destination"),
        )
    )


@irdl_op_definition
class TmaPrefetchOp(Operation):
    """`prefetch A[m, k]`: one thread asks for a slice to be brought into the L2 cache."""

    name = "tile.tma_prefetch"
    source = operand_def(SliceType)
    hint = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Touch(READ, "source", Space.GLOBAL, Proxy.ASYNC)))


@irdl_op_definition
class TmaStoreOp(Operation):
    """`store C[m, n] <- c[slot]`: one thread starts the copy, into its open group of stores.

    `reduce`, `hint` and `bulk` are as in `stage.tma_store`.
    """

    name = "tile.tma_store"
    source = operand_def(SharedType)
    destination = operand_def(SliceType)
    reduce = opt_prop_def(StringAttr)
    hint = opt_prop_def(StringAttr)
    bulk = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(READ, "source", Space.SHARED, Proxy.ASYNC, Done.BULK_GROUP_READ),
            Touch(WRITE, "destination", Space.GLOBAL, Proxy.ASYNC, Done.BULK_GROUP),
        )
    )


@irdl_op_definition
class ReadColumnsOp(Operation):
    """`read(d[i], first, count)`: columns `column` up, as many as the result has; zero where a condition given does not
    hold."""

    name = "tile.read_columns"
    tile = operand_def(SharedType | AccumType)
    column = operand_def(i32)
    nonzero = var_operand_def(i1)
    value = result_def(RegsType)
    traits = traits_def(Effects(Touch(READ, "tile", Space.SHARED)))

    def verify_(self) -> None:
        tile, value = self.tile.type, self.value.type
        assert isinstance(tile, SharedType | AccumType)
        assert isinstance(value, RegsType)
        if tile.dtype != value.dtype or tile.shape[:-1] != value.shape[:-1]:
            raise VerifyException(f"columns of {tile} are not {value}")


@irdl_op_definition
class RestartOp(Operation):
    """The accumulator counts as zero for the next product unless `keep` holds."""

    name = "tile.restart"
    CHANGES: ClassVar[tuple[str, ...]] = ("accum",)
    accum = operand_def(AccumType)
    keep = operand_def(i1)
    traits = traits_def(Effects(Touch(WRITE, "accum", Space.TENSOR)))


@irdl_op_definition
class ProductsWaitOp(Operation):
    """`wait products <= 1`: until at most `pending` groups of products in registers are under way."""

    name = "tile.products_wait"
    CHANGES: ClassVar[tuple[str, ...]] = ("*",)
    pending = prop_def(IntegerAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Await("", Done.WGMMA_GROUP)))


OPERATIONS = (
    SlotOp, PartAtOp, BlockAtOp, BlockNumberOp, TmaLoadOp, TmaPrefetchOp, TmaStoreOp, ReadColumnsOp, RestartOp,
    ProductsWaitOp, ClusterCopyOp,
)  # fmt: skip
