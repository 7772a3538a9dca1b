"""The stage dialect: who does it and when, as buffers, rings, barriers and roles, with the memory effects explicit.

The structure and the synchronisation have files of their own; what moves and computes data is here.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i1, i32
from xdsl.ir import Dialect, SSAValue
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
from tkc.ir.stage.debugging import DEBUGGING
from tkc.ir.stage.elements import ELEMENTS
from tkc.ir.stage.explicit import OPERATIONS as EXPLICIT
from tkc.ir.stage.maps import MAPS
from tkc.ir.stage.numbers import NUMBERS
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.stage.scales import SCALED
from tkc.ir.stage.scales import CopyScalesOp as CopyScalesOp
from tkc.ir.stage.scales import ScaledMmaOp as ScaledMmaOp
from tkc.ir.stage.stealing import STEALING
from tkc.ir.stage.structure import (
    RANKS as RANKS,
)
from tkc.ir.stage.structure import (
    Across as Across,
)
from tkc.ir.stage.structure import (
    BarriersOp,
    BufferOp,
    By,
    ForOp,
    GroupOp,
    IfOp,
    KernelOp,
    PipeOp,
    RoleOp,
    StageOp,
    UnitOp,
    WorkLoopOp,
    YieldOp,
)
from tkc.ir.stage.structure import (
    How as How,
)
from tkc.ir.stage.structure import (
    To as To,
)
from tkc.ir.stage.structure import (
    sharers as sharers,
)
from tkc.ir.stage.structure import (
    solo as solo,
)
from tkc.ir.stage.structure import (
    storage as storage,
)
from tkc.ir.stage.synchronisation import (
    AcquireOp,
    BulkCommitOp,
    BulkWaitOp,
    CommitOp,
    ElectedOp,
    MbarrierArriveOp,
    MbarrierExpectOp,
    MbarrierWaitOp,
    ProxyFenceOp,
    ReleaseOp,
    RoleBarrierOp,
    SkipOp,
    Tcgen05CommitOp,
    Tcgen05FenceOp,
    TurnOp,
    WaitOp,
    WarpSyncOp,
)
from tkc.ir.stage.tensor_operands import TENSOR_OPERANDS
from tkc.ir.stage.types import (
    AccumulatorType,
    BarriersType,
    BufferType,
    FragmentType,
    MapsType,
    RingType,
)
from tkc.ir.stage.vectors import VECTORS
from tkc.ir.tile.types import TensorType

READ, WRITE = Kind.READ, Kind.WRITE


# Copies --------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class TmaLoadOp(StageOp):
    """Starts a copy of the box at `coordinates` (elements, outermost first) into a slot; out-of-bounds elements are
    zero.

    `box` is its extent on each axis of the tensor, 1 on an axis that the tile does not have. With
    `multicast` it goes to every CTA of the cluster, and each loads its share along that axis of the tensor for all. The
    barrier is the CTA's own, or, `to` the leader, that of the pair's first. `hint` is a priority in the L2 cache.
    """

    name = "stage.tma_load"
    BY: ClassVar[By | None] = By.ONE
    tensor = operand_def(TensorType)
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    coordinates = var_operand_def(i32)
    barriers = opt_operand_def(BarriersType)
    box = prop_def(ArrayAttr[IntegerAttr])
    multicast = opt_prop_def(IntegerAttr)
    to = opt_prop_def(StringAttr)
    hint = opt_prop_def(StringAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(
        Effects(
            Touch(READ, "tensor", Space.GLOBAL, Proxy.ASYNC, Done.MBARRIER_TX),
            Touch(READ, "map", Space.MAP, Proxy.TENSORMAP, Done.MBARRIER_TX),
            Touch(WRITE, "buffer", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
            Signal("barriers", bytes_of="buffer"),
        )
    )

    @property
    def map(self) -> SSAValue:
        """The tensor, as the map of it that is read."""
        return self.tensor


@irdl_op_definition
class TmaStoreOp(StageOp):
    """Starts a copy of a slot to the box at `coordinates`; elements outside the tensor are dropped.

    `reduce` adds the slot to what is there, each element atomically; `hint` is a priority in the L2 cache; `bulk` as in
    `stage.tma_load_to`.
    """

    name = "stage.tma_store"
    BY: ClassVar[By | None] = By.ONE
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    tensor = operand_def(TensorType)
    coordinates = var_operand_def(i32)
    box = prop_def(ArrayAttr[IntegerAttr])
    reduce = opt_prop_def(StringAttr)
    hint = opt_prop_def(StringAttr)
    bulk = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(READ, "buffer", Space.SHARED, Proxy.ASYNC, Done.BULK_GROUP_READ),
            Touch(WRITE, "tensor", Space.GLOBAL, Proxy.ASYNC, Done.BULK_GROUP),
            Touch(READ, "map", Space.MAP, Proxy.TENSORMAP, Done.BULK_GROUP_READ),
        )
    )

    @property
    def map(self) -> SSAValue:
        """The tensor, as the map of it that is read."""
        return self.tensor


# Matrix products and accumulators ------------------------------------------------------------------------------------


@irdl_op_definition
class OpenOp(StageOp):
    """The accumulator in a slot, as a linear value."""

    name = "stage.open"
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    value = result_def(AccumulatorType)
    traits = traits_def(Pure())


@irdl_op_definition
class ZeroOp(StageOp):
    """The accumulator counts as zero; writes nothing: the next product takes no input from it."""

    name = "stage.zero"
    STATE_OF: ClassVar[str | None] = "source"
    source = operand_def(AccumulatorType)
    value = result_def(AccumulatorType)
    traits = traits_def(Pure())


@irdl_op_definition
class MmaOp(StageOp):
    """Starts `accumulator += a · b`, operands `[slot]` of their buffers; `trans_*` as in `tile.mma`, after which K is
    a's last axis. With `pair`, of both CTAs' accumulators and operands. `alone`: the fences and groups of products
    round it are operations of their own."""

    name = "stage.mma"
    STATE_OF: ClassVar[str | None] = "source"
    BY: ClassVar[By | None] = By.ONE
    source = operand_def(AccumulatorType)
    a = operand_def(BufferType)
    a_slot = operand_def(i32)
    b = operand_def(BufferType)
    b_slot = operand_def(i32)
    trans_a = prop_def(IntegerAttr)
    trans_b = prop_def(IntegerAttr)
    by = opt_prop_def(StringAttr)
    alone = opt_prop_def(UnitAttr)
    pair = opt_prop_def(UnitAttr)
    value = result_def(AccumulatorType)
    traits = traits_def(
        Effects(
            Touch(READ, "a", Space.SHARED, Proxy.ASYNC, Done.TCGEN05_COMMIT),
            Touch(READ, "b", Space.SHARED, Proxy.ASYNC, Done.TCGEN05_COMMIT),
            Touch(WRITE, "source", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_COMMIT),
        )
    )


@irdl_op_definition
class MmaWaitOp(StageOp):
    """Waits until at most `pending` groups of products in registers are under way."""

    name = "stage.mma_wait"
    STATE_OF: ClassVar[str | None] = "source"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(AccumulatorType)
    pending = prop_def(IntegerAttr)
    id = prop_def(StringAttr)
    value = result_def(AccumulatorType)
    traits = traits_def(
        Effects(Await("", Done.WGMMA_GROUP), Touch(WRITE, "source", Space.REGISTER, Proxy.ASYNC))
    )


@irdl_op_definition
class ReadAccumulatorOp(StageOp):
    """Columns `column` up of the rows of block `row_block`, as a fragment; all zero where `nonzero` is given and
    false."""

    name = "stage.read_accumulator"
    BY: ClassVar[By | None] = By.ALL
    accumulator = operand_def(AccumulatorType)
    column = operand_def(i32)
    nonzero = opt_operand_def(i1)
    row_block = prop_def(IntegerAttr)
    value = result_def(FragmentType)
    traits = traits_def(
        Effects(Touch(READ, "accumulator", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_WAIT))
    )


@irdl_op_definition
class WriteAccumulatorOp(StageOp):
    """The accumulator with a fragment in columns `column` up of the rows of block `row_block`."""

    name = "stage.write_accumulator"
    STATE_OF: ClassVar[str | None] = "accumulator"
    BY: ClassVar[By | None] = By.ALL
    accumulator = operand_def(AccumulatorType)
    fragment = operand_def(FragmentType)
    column = operand_def(i32)
    row_block = prop_def(IntegerAttr)
    value = result_def(AccumulatorType)
    traits = traits_def(
        Effects(Touch(WRITE, "accumulator", Space.TENSOR, Proxy.TENSOR, Done.TCGEN05_WAIT))
    )


# Fragments -----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class LoadSharedOp(StageOp):
    """Columns `column` up of a slot, from row `row` on (0), as a fragment.

    `limit`: of one value a row those from it on repeat the last one before it, counted from the fragment's first.
    """

    name = "stage.load_shared"
    BY: ClassVar[By | None] = By.ALL
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    column = operand_def(i32)
    row = opt_operand_def(i32)
    limit = opt_prop_def(IntegerAttr)
    value = result_def(FragmentType)
    traits = traits_def(Effects(Touch(READ, "buffer", Space.SHARED)))


@irdl_op_definition
class StoreSharedOp(StageOp):
    """Writes a fragment into columns `column` up of a slot, from row `row` on (0).

    `transposed`: the fragment's columns are the rows from `column` on. `limit`: of one value a row those from it on are
    dropped, counted from the fragment's first.
    """

    name = "stage.store_shared"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    column = operand_def(i32)
    row = opt_operand_def(i32)
    transposed = opt_prop_def(UnitAttr)
    limit = opt_prop_def(IntegerAttr)
    traits = traits_def(Effects(Touch(WRITE, "buffer", Space.SHARED)))


@irdl_op_definition
class CastOp(StageOp):
    """Converts a fragment's dtype; rounds to nearest even."""

    name = "stage.cast"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    value = result_def(FragmentType)
    traits = traits_def(Pure())


@irdl_op_definition
class MapOp(StageOp):
    """An elementwise operation over fragments and scalars, which spread as in `tile.map`."""

    name = "stage.map"
    BY: ClassVar[By | None] = By.ALL
    inputs = var_operand_def()
    kind = prop_def(StringAttr)
    value = result_def(FragmentType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        value = self.value.type
        assert isinstance(value, FragmentType)
        for v in self.inputs:
            if isinstance(v.type, FragmentType) and not v.type.spreads_over(value):
                raise VerifyException(f"{self.kind.data} of {v.type} does not make {value}")


STAGE = Dialect(
    "stage",
    [
        SizeOp, ConstOp, ArithOp,
        KernelOp, RoleOp, YieldOp, ForOp, WorkLoopOp, IfOp, BufferOp, BarriersOp, PipeOp,
        AcquireOp, CommitOp, WaitOp, ReleaseOp, TurnOp, SkipOp,
        MbarrierWaitOp, MbarrierExpectOp, MbarrierArriveOp, Tcgen05CommitOp, ProxyFenceOp, Tcgen05FenceOp,
        RoleBarrierOp, WarpSyncOp, ElectedOp, UnitOp, GroupOp,
        TmaLoadOp, TmaStoreOp, BulkCommitOp, BulkWaitOp,
        OpenOp, ZeroOp, MmaOp, MmaWaitOp, ReadAccumulatorOp, WriteAccumulatorOp, LoadSharedOp, StoreSharedOp, CastOp,
        MapOp, *VECTORS,
        *SCALED, *STEALING, *EXPLICIT, *ELEMENTS, *DEBUGGING, *MAPS, *NUMBERS, *TENSOR_OPERANDS,
    ],
    [BufferType, AccumulatorType, FragmentType, BarriersType, MapsType, RingType],
)  # fmt: skip
