"""The stage dialect: who does it and when, as buffers, rings, barriers and roles, with the memory effects explicit."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i32,
)
from xdsl.ir import Dialect
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Await, Done, Kind, Order, Proxy, Signal, Space, Touch
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import (
    AccumulatorType,
    BarriersType,
    BufferType,
    FragmentType,
    RingType,
)
from tkc.ir.syntax import Operation
from tkc.ir.tile.types import TensorType

READ, WRITE = Kind.READ, Kind.WRITE


class By(StrEnum):
    """Which threads of a role execute an operation.

    ONE: one thread of the role (of each warpgroup where the role splits rows over several). LANE: one lane of each
    warp. ALL: every thread.
    """

    ONE = "one"
    LANE = "lane"
    ALL = "all"


class How(StrEnum):
    """How a role fills or drains a slot, which decides how it signals that it is done."""

    TMA = "tma"
    BULK = "bulk"
    TCGEN05 = "tcgen05"
    WGMMA = "wgmma"
    GENERIC = "generic"
    TENSOR = "tensor"


class StageOp(Operation):
    """Base of the stage operations: `BY` is who executes one unless its property `by` says otherwise; None is
    neutral."""

    BY: ClassVar[By | None] = None

    @property
    def executed_by(self) -> By | None:
        by = self.properties.get("by")
        return By(by.data) if isinstance(by, StringAttr) else self.BY


# Structure -----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class KernelOp(StageOp):
    """A kernel with its roles; block arguments are the user's arguments. `contract` is the launch contract so far."""

    name = "stage.kernel"
    sym_name = prop_def(StringAttr)
    arg_names = prop_def(ArrayAttr[StringAttr])
    contract = prop_def(DictionaryAttr)
    threads = opt_prop_def(IntegerAttr)
    shared_bytes = opt_prop_def(IntegerAttr)
    tensor_columns = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), SymbolOpInterface())


@irdl_op_definition
class RoleOp(StageOp):
    """A program for warps `first_warp` up; `groups` warpgroups split its rows (1: none); `registers` a thread, if
    set."""

    name = "stage.role"
    sym_name = prop_def(StringAttr)
    warps = prop_def(IntegerAttr)
    first_warp = prop_def(IntegerAttr)
    groups = prop_def(IntegerAttr)
    registers = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    @property
    def threads(self) -> int:
        return 32 * self.warps.value.data


@irdl_op_definition
class YieldOp(StageOp):
    """Ends a region with the values that it hands on."""

    name = "stage.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class ForOp(StageOp):
    """`for i in range(lower, upper, step)`: block arguments are the counter, then the carried values."""

    name = "stage.for"
    lower = operand_def(i32)
    upper = operand_def(i32)
    step = operand_def(i32)
    inits = var_operand_def()
    body = region_def("single_block")
    carried = var_result_def()


@irdl_op_definition
class WorkLoopOp(StageOp):
    """One pass over a schedule's items for this work unit; block arguments are a block number for each axis, then
    carried values.

    `extents` are block counts; `group` as in `tile.schedule`.
    """

    name = "stage.work_loop"
    extents = var_operand_def(i32)
    inits = var_operand_def()
    schedule = prop_def(StringAttr)
    group = prop_def(IntegerAttr)
    body = region_def("single_block")
    carried = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class IfOp(StageOp):
    """Runs the first region where the condition holds, else the second (which may be empty)."""

    name = "stage.if"
    condition = operand_def(i1)
    then = region_def("single_block")
    otherwise = opt_region_def()
    values = var_result_def()


# Declarations --------------------------------------------------------------------------------------------------------


@irdl_op_definition
class BufferOp(StageOp):
    """A ring of tiles. `offset`: bytes from the start of shared memory, or the first tensor-memory column, once
    placed."""

    name = "stage.alloc"
    sym_name = prop_def(StringAttr)
    offset = opt_prop_def(IntegerAttr)
    buffer = result_def(BufferType)
    traits = traits_def(Effects(Touch(WRITE, "buffer", Space.SHARED)))


@irdl_op_definition
class BarriersOp(StageOp):
    """`depth` mbarriers that complete a phase after `count` arrivals (and the bytes expected)."""

    name = "stage.barriers"
    sym_name = prop_def(StringAttr)
    depth = prop_def(IntegerAttr)
    count = prop_def(IntegerAttr)
    offset = opt_prop_def(IntegerAttr)
    barriers = result_def(BarriersType)
    traits = traits_def(Effects(Touch(WRITE, "barriers", Space.BARRIER)))


@irdl_op_definition
class PipeOp(StageOp):
    """A ring that carries `buffers` slot by slot from `producers` to `consumers`.

    `kind` is `full_empty`, or `store`: staging slots that the role itself fills and the copy engine drains.
    """

    name = "stage.pipe"
    buffers = var_operand_def(BufferType)
    sym_name = prop_def(StringAttr)
    kind = prop_def(StringAttr)
    depth = prop_def(IntegerAttr)
    producers = prop_def(ArrayAttr[StringAttr])
    consumers = prop_def(ArrayAttr[StringAttr])
    ring = result_def(RingType)
    traits = traits_def(Effects(Touch(WRITE, "ring", Space.BARRIER)))


# Rings: replaced by barriers in lower-pipes --------------------------------------------------------------------------


@irdl_op_definition
class AcquireOp(StageOp):
    """Waits until the producer may fill the ring's next slot; its value is the slot's number."""

    name = "stage.acquire"
    ring = operand_def(RingType)
    slot = result_def(i32)
    traits = traits_def(Effects(Await("ring"), Touch(WRITE, "ring", Space.BARRIER)))


@irdl_op_definition
class CommitOp(StageOp):
    """The slot is full once the accesses of kind `how` are done; `accumulators` are the values that it carries."""

    name = "stage.commit"
    ring = operand_def(RingType)
    slot = operand_def(i32)
    accumulators = var_operand_def(AccumulatorType)
    how = prop_def(ArrayAttr[StringAttr])
    bytes = prop_def(IntegerAttr)
    traits = traits_def(Effects(Signal("ring", 1)))


@irdl_op_definition
class WaitOp(StageOp):
    """Waits until the ring's next slot is full; its value is the slot's number."""

    name = "stage.wait"
    ring = operand_def(RingType)
    slot = result_def(i32)
    traits = traits_def(Effects(Await("ring"), Touch(WRITE, "ring", Space.BARRIER)))


@irdl_op_definition
class ReleaseOp(StageOp):
    """The slot may be filled again once this role's accesses of kind `how` are done."""

    name = "stage.release"
    ring = operand_def(RingType)
    slot = operand_def(i32)
    how = prop_def(ArrayAttr[StringAttr])
    traits = traits_def(Effects(Signal("ring", 1)))


# Barriers, fences, election ------------------------------------------------------------------------------------------


@irdl_op_definition
class MbarrierWaitOp(StageOp):
    """Waits until the phase of this parity has completed; acquires at CTA scope."""

    name = "stage.mbarrier_wait"
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    parity = operand_def(i32)
    by = prop_def(StringAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Await("barriers"), Touch(WRITE, "barriers", Space.BARRIER)))


@irdl_op_definition
class MbarrierExpectOp(StageOp):
    """One arrival that also announces `bytes` of transactions to come."""

    name = "stage.mbarrier_expect"
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    bytes = prop_def(IntegerAttr)
    by = prop_def(StringAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Signal("barriers", 1)))


@irdl_op_definition
class MbarrierArriveOp(StageOp):
    """One arrival by each executing thread; releases at CTA scope."""

    name = "stage.mbarrier_arrive"
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    by = prop_def(StringAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Signal("barriers", 1)))


@irdl_op_definition
class Tcgen05CommitOp(StageOp):
    """One arrival once this thread's earlier tcgen05 copies and products are done."""

    name = "stage.tcgen05_commit"
    BY: ClassVar[By | None] = By.ONE
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Await("", Done.TCGEN05_COMMIT), Signal("barriers", 1)))


@irdl_op_definition
class ProxyFenceOp(StageOp):
    """Orders the generic and the async proxy in `space` both ways; `guards` names the buffers it stands there for."""

    name = "stage.proxy_fence"
    BY: ClassVar[By | None] = By.ALL
    space = prop_def(StringAttr)
    guards = prop_def(ArrayAttr[StringAttr])
    id = prop_def(StringAttr)
    by = opt_prop_def(StringAttr)
    traits = traits_def(
        Effects(
            Order(Proxy.GENERIC, Proxy.ASYNC, Space.SHARED),
            Order(Proxy.ASYNC, Proxy.GENERIC, Space.SHARED),
        )
    )


@irdl_op_definition
class Tcgen05FenceOp(StageOp):
    """`tcgen05.fence::before_thread_sync` or `::after_thread_sync`, as `side` says."""

    name = "stage.tcgen05_fence"
    BY: ClassVar[By | None] = By.ALL
    side = prop_def(StringAttr)
    id = prop_def(StringAttr)
    by = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.TENSOR, Proxy.TENSOR, Space.TENSOR)))


@irdl_op_definition
class RoleBarrierOp(StageOp):
    """All threads of the role (of the warpgroup where rows are split) meet."""

    name = "stage.role_barrier"
    BY: ClassVar[By | None] = By.ALL
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.GENERIC, Proxy.GENERIC)))


@irdl_op_definition
class WarpSyncOp(StageOp):
    """The lanes of each warp meet; orders their accesses."""

    name = "stage.warp_sync"
    BY: ClassVar[By | None] = By.ALL
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.GENERIC, Proxy.GENERIC)))


@irdl_op_definition
class ElectedOp(StageOp):
    """Whether this thread is the one that `scope` elects: `one` of the role or warpgroup, or a `lane` of each warp.

    The same thread each time, so that bulk groups and tcgen05 commits, which belong to a thread, stay with it.
    """

    name = "stage.elected"
    scope = prop_def(StringAttr)
    value = result_def(i1)
    traits = traits_def(Pure())


@irdl_op_definition
class UnitOp(StageOp):
    """The `index` of this work unit (a CTA), or the `count` of them in the launch, as `which` says."""

    name = "stage.unit"
    which = prop_def(StringAttr)
    value = result_def(i32)
    traits = traits_def(Pure())


@irdl_op_definition
class GroupOp(StageOp):
    """The number of this thread's warpgroup in its role, from 0."""

    name = "stage.group"
    value = result_def(i32)
    traits = traits_def(Pure())


# Copies --------------------------------------------------------------------------------------------------------------


@irdl_op_definition
class TmaLoadOp(StageOp):
    """Starts a copy of the box at `coordinates` (elements, outermost first) into a slot; out-of-bounds elements are
    zero.

    `box` is its extent on each axis of the tensor, 1 on an axis that the tile does not have.
    """

    name = "stage.tma_load"
    BY: ClassVar[By | None] = By.ONE
    tensor = operand_def(TensorType)
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    coordinates = var_operand_def(i32)
    barriers = opt_operand_def(BarriersType)
    box = prop_def(ArrayAttr[IntegerAttr])
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(
        Effects(
            Touch(READ, "tensor", Space.GLOBAL, Proxy.ASYNC, Done.MBARRIER_TX),
            Touch(WRITE, "buffer", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
            Signal("barriers", bytes_of="buffer"),
        )
    )


@irdl_op_definition
class TmaStoreOp(StageOp):
    """Starts a copy of a slot to the box at `coordinates`; elements outside the tensor are dropped."""

    name = "stage.tma_store"
    BY: ClassVar[By | None] = By.ONE
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    tensor = operand_def(TensorType)
    coordinates = var_operand_def(i32)
    box = prop_def(ArrayAttr[IntegerAttr])
    traits = traits_def(
        Effects(
            Touch(READ, "buffer", Space.SHARED, Proxy.ASYNC, Done.BULK_GROUP_READ),
            Touch(WRITE, "tensor", Space.GLOBAL, Proxy.ASYNC, Done.BULK_GROUP),
        )
    )


@irdl_op_definition
class BulkCommitOp(StageOp):
    """Closes the thread's group of bulk copies; also where the group is empty, since groups are counted."""

    name = "stage.bulk_commit"
    BY: ClassVar[By | None] = By.ONE
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.ASYNC, Proxy.ASYNC)))


@irdl_op_definition
class BulkWaitOp(StageOp):
    """Waits until at most `pending` of the thread's bulk groups are under way; with `read`, only for their sources."""

    name = "stage.bulk_wait"
    BY: ClassVar[By | None] = By.ONE
    pending = prop_def(IntegerAttr)
    read = opt_prop_def(UnitAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Await("", Done.BULK_GROUP), Order(Proxy.ASYNC, Proxy.GENERIC)))


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
    source = operand_def(AccumulatorType)
    value = result_def(AccumulatorType)
    traits = traits_def(Pure())


@irdl_op_definition
class MmaOp(StageOp):
    """Starts `accumulator += a · b`, operands `[slot]` of their buffers; `trans_*` as in `tile.mma`, after which K is
    a's last axis."""

    name = "stage.mma"
    BY: ClassVar[By | None] = By.ONE
    source = operand_def(AccumulatorType)
    a = operand_def(BufferType)
    a_slot = operand_def(i32)
    b = operand_def(BufferType)
    b_slot = operand_def(i32)
    trans_a = prop_def(IntegerAttr)
    trans_b = prop_def(IntegerAttr)
    by = opt_prop_def(StringAttr)
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


# Fragments -----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class LoadSharedOp(StageOp):
    """Columns `column` up of a slot, as a fragment."""

    name = "stage.load_shared"
    BY: ClassVar[By | None] = By.ALL
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    column = operand_def(i32)
    value = result_def(FragmentType)
    traits = traits_def(Effects(Touch(READ, "buffer", Space.SHARED)))


@irdl_op_definition
class StoreSharedOp(StageOp):
    """Writes a fragment into columns `column` up of a slot."""

    name = "stage.store_shared"
    BY: ClassVar[By | None] = By.ALL
    source = operand_def(FragmentType)
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    column = operand_def(i32)
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
    """An elementwise operation over fragments and scalars; kinds as in `tile.map`."""

    name = "stage.map"
    BY: ClassVar[By | None] = By.ALL
    inputs = var_operand_def()
    kind = prop_def(StringAttr)
    value = result_def(FragmentType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        for v in self.inputs:
            if isinstance(v.type, FragmentType) and v.type != self.value.type:
                raise VerifyException(
                    f"{self.kind.data} of {v.type} does not make {self.value.type}"
                )


STAGE = Dialect(
    "stage",
    [
        SizeOp, ConstOp, ArithOp,
        KernelOp, RoleOp, YieldOp, ForOp, WorkLoopOp, IfOp, BufferOp, BarriersOp, PipeOp,
        AcquireOp, CommitOp, WaitOp, ReleaseOp,
        MbarrierWaitOp, MbarrierExpectOp, MbarrierArriveOp, Tcgen05CommitOp, ProxyFenceOp, Tcgen05FenceOp,
        RoleBarrierOp, WarpSyncOp, ElectedOp, UnitOp, GroupOp,
        TmaLoadOp, TmaStoreOp, BulkCommitOp, BulkWaitOp,
        OpenOp, ZeroOp, MmaOp, MmaWaitOp, ReadAccumulatorOp, LoadSharedOp, StoreSharedOp, CastOp, MapOp,
    ],
    [BufferType, AccumulatorType, FragmentType, BarriersType, RingType],
)  # fmt: skip
