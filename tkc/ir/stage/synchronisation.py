"""Who waits for whom: rings, the barriers that `lower-pipes` makes of them, fences, elections and bulk groups."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i1, i32
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Await, Close, Done, Kind, Meet, Order, Proxy, Signal, Space, Touch
from tkc.ir.stage.structure import By, StageOp
from tkc.ir.stage.types import AccumulatorType, BarriersType, RingType

# Rings: replaced by barriers in lower-pipes --------------------------------------------------------------------------


@irdl_op_definition
class AcquireOp(StageOp):
    """Waits until the producer may fill the ring's next slot; its value is the slot's number."""

    name = "stage.acquire"
    ring = operand_def(RingType)
    slot = result_def(i32)
    traits = traits_def(Effects(Await("ring"), Touch(Kind.WRITE, "ring", Space.BARRIER)))


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
    traits = traits_def(Effects(Await("ring"), Touch(Kind.WRITE, "ring", Space.BARRIER)))


@irdl_op_definition
class ReleaseOp(StageOp):
    """The slot may be filled again once this role's accesses of kind `how` are done."""

    name = "stage.release"
    ring = operand_def(RingType)
    slot = operand_def(i32)
    how = prop_def(ArrayAttr[StringAttr])
    traits = traits_def(Effects(Signal("ring", 1)))


@irdl_op_definition
class TurnOp(StageOp):
    """Whether the ring's next item is for this role: item i goes to role i mod `count`."""

    name = "stage.turn"
    ring = operand_def(RingType)
    index = prop_def(IntegerAttr)
    count = prop_def(IntegerAttr)
    mine = result_def(i1)
    traits = traits_def(Effects(Touch(Kind.READ, "ring", Space.BARRIER)))


@irdl_op_definition
class SkipOp(StageOp):
    """The ring's next item passes, which is for another role."""

    name = "stage.skip"
    ring = operand_def(RingType)
    traits = traits_def(Effects(Touch(Kind.WRITE, "ring", Space.BARRIER)))


# Barriers, fences, election ------------------------------------------------------------------------------------------


@irdl_op_definition
class MbarrierWaitOp(StageOp):
    """Waits until the phase of this parity has completed; acquires at CTA scope, or as `sem` and `scope` say."""

    name = "stage.mbarrier_wait"
    FOR_COPIES: ClassVar[bool] = True
    EACH: ClassVar[bool] = True
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    parity = operand_def(i32)
    by = prop_def(StringAttr)
    id = prop_def(StringAttr)
    sem = opt_prop_def(StringAttr)
    scope = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Await("barriers"), Touch(Kind.WRITE, "barriers", Space.BARRIER)))


@irdl_op_definition
class MbarrierExpectOp(StageOp):
    """One arrival that also announces `bytes` of transactions to come, in the CTA `rank` where one is given."""

    name = "stage.mbarrier_expect"
    EACH: ClassVar[bool] = True
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    rank = opt_operand_def(i32)
    bytes = prop_def(IntegerAttr)
    by = prop_def(StringAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Signal("barriers", 1)))


@irdl_op_definition
class MbarrierArriveOp(StageOp):
    """One arrival, or `count`, by each executing thread, on the CTA's own barrier, on that of the CTA `rank`, or on
    those that `to` says; releases at CTA scope, or as `sem` and `scope` say."""

    name = "stage.mbarrier_arrive"
    EACH: ClassVar[bool] = True
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    rank = opt_operand_def(i32)
    by = prop_def(StringAttr)
    id = prop_def(StringAttr)
    count = opt_prop_def(IntegerAttr)
    to = opt_prop_def(StringAttr)
    sem = opt_prop_def(StringAttr)
    scope = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Signal("barriers", 1)))


@irdl_op_definition
class Tcgen05CommitOp(StageOp):
    """One arrival once this thread's earlier tcgen05 copies and products are done; in every CTA where `to`
    is all, in those of `mask` where there is one. With `reads`, once products have read their `a` of shared memory,
    which tells nothing else."""

    name = "stage.tcgen05_commit"
    FOR_COPIES: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ONE
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    mask = opt_operand_def(i32)
    id = prop_def(StringAttr)
    to = opt_prop_def(StringAttr)
    reads = opt_prop_def(UnitAttr)
    traits = traits_def(Effects(Await("", Done.TCGEN05_COMMIT), Signal("barriers", 1)))


@irdl_op_definition
class ProxyFenceOp(StageOp):
    """Orders the generic and the async proxy in `space` both ways; `guards` names the buffers it stands there for."""

    name = "stage.proxy_fence"
    EACH: ClassVar[bool] = True
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
    FOR_COPIES: ClassVar[bool] = True
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    side = prop_def(StringAttr)
    id = prop_def(StringAttr)
    by = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.TENSOR, Proxy.TENSOR, Space.TENSOR)))


@irdl_op_definition
class RoleBarrierOp(StageOp):
    """All threads of the role meet; where rows are split, those of each warpgroup, or with `whole` of all of them."""

    name = "stage.role_barrier"
    BY: ClassVar[By | None] = By.ALL
    id = prop_def(StringAttr)
    whole = opt_prop_def(UnitAttr)
    traits = traits_def(Effects(Meet("role"), Order(Proxy.GENERIC, Proxy.GENERIC)))


@irdl_op_definition
class WarpSyncOp(StageOp):
    """The lanes of each warp meet; orders their accesses."""

    name = "stage.warp_sync"
    BY: ClassVar[By | None] = By.ALL
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Meet("warp"), Order(Proxy.GENERIC, Proxy.GENERIC)))


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
class BulkCommitOp(StageOp):
    """Closes the thread's group of bulk copies; also where the group is empty, since groups are counted."""

    name = "stage.bulk_commit"
    BY: ClassVar[By | None] = By.ONE
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Close(Done.BULK_GROUP), Order(Proxy.ASYNC, Proxy.ASYNC)))


@irdl_op_definition
class BulkWaitOp(StageOp):
    """Waits until at most `pending` of the thread's bulk groups are under way; with `read`, only for their sources."""

    name = "stage.bulk_wait"
    BY: ClassVar[By | None] = By.ONE
    pending = prop_def(IntegerAttr)
    read = opt_prop_def(UnitAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Await("", Done.BULK_GROUP), Order(Proxy.ASYNC, Proxy.GENERIC)))
