"""What explicit synchronisation adds to the stage level: identities, loops on conditions, single fences and groups."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, UnitAttr, i1, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
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
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Await, Close, Done, Kind, Meet, Order, Proxy, Signal, Space, Touch
from tkc.ir.stage.structure import By, StageOp
from tkc.ir.stage.types import AccumulatorType, BarriersType, BufferType
from tkc.ir.tile.types import TensorType

IDENTITIES = ("lane", "warp", "thread")


@irdl_op_definition
class IdentityOp(StageOp):
    """Who a thread is: its `lane` in its warp, its `warp` or `thread` number in its role, from 0, as `which` says."""

    name = "stage.identity"
    which = prop_def(StringAttr)
    value = result_def(i32)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.which.data not in IDENTITIES:
            raise VerifyException(
                f"no identity {self.which.data!r}; one of {', '.join(IDENTITIES)}"
            )


@irdl_op_definition
class WhileOp(StageOp):
    """Turns while a condition holds: the first region takes the carried values and yields it, the second yields the
    next values."""

    name = "stage.while"
    inits = var_operand_def()
    test = region_def("single_block")
    body = region_def("single_block")
    carried = var_result_def()


@irdl_op_definition
class TryWaitOp(StageOp):
    """Whether the phase of this parity has completed; waits for it a while. Where it has, acquires as
    `stage.mbarrier_wait`; what follows from that depends on what is made of the answer, so that it has no row."""

    name = "stage.mbarrier_try"
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    barriers = operand_def(BarriersType)
    slot = operand_def(i32)
    parity = operand_def(i32)
    id = prop_def(StringAttr)
    sem = opt_prop_def(StringAttr)
    scope = opt_prop_def(StringAttr)
    value = result_def(i1)
    traits = traits_def(Effects(Touch(Kind.WRITE, "barriers", Space.BARRIER)))


@irdl_op_definition
class RestartOp(StageOp):
    """The accumulator as it is where `keep` holds, else counting as zero; writes nothing, as `stage.zero`."""

    name = "stage.restart"
    STATE_OF: ClassVar[str | None] = "source"
    source = operand_def(AccumulatorType)
    keep = operand_def(i1)
    value = result_def(AccumulatorType)
    traits = traits_def(Pure())


@irdl_op_definition
class TmaLoadToOp(StageOp):
    """`stage.tma_load` that signals a barrier of its own choice: entry `entry` of `barriers`, in CTA `rank` if given.

    With a `mask`, every CTA of it gets the box, in the same slot, and the signal. `hint` is a priority in the L2 cache;
    a `bulk` copy is of bytes in a row, without a tensor map.
    """

    name = "stage.tma_load_to"
    BY: ClassVar[By | None] = By.ONE
    tensor = operand_def(TensorType)
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    barriers = operand_def(BarriersType)
    entry = operand_def(i32)
    coordinates = var_operand_def(i32)
    mask = opt_operand_def(i32)
    rank = opt_operand_def(i32)
    box = prop_def(ArrayAttr[IntegerAttr])
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    hint = opt_prop_def(StringAttr)
    bulk = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(Kind.READ, "tensor", Space.GLOBAL, Proxy.ASYNC, Done.MBARRIER_TX),
            Touch(Kind.READ, "map", Space.MAP, Proxy.TENSORMAP, Done.MBARRIER_TX),
            Touch(Kind.WRITE, "buffer", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
            Signal("barriers", bytes_of="buffer"),
        )
    )

    @property
    def map(self) -> SSAValue:
        """The tensor, as the map of it that is read."""
        return self.tensor


@irdl_op_definition
class ClusterCopyOp(StageOp):
    """Copies a slot of this CTA's shared memory to a slot in CTA `rank` of the cluster, and signals entry `entry` of
    `barriers` there. The two buffers have one layout: bytes are copied in a row."""

    name = "stage.cluster_copy"
    BY: ClassVar[By | None] = By.ONE
    source = operand_def(BufferType)
    source_slot = operand_def(i32)
    buffer = operand_def(BufferType)
    slot = operand_def(i32)
    barriers = operand_def(BarriersType)
    entry = operand_def(i32)
    rank = operand_def(i32)
    traits = traits_def(
        Effects(
            Touch(Kind.READ, "source", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX),
            Touch(Kind.WRITE, "buffer", Space.SHARED, Proxy.ASYNC, Done.MBARRIER_TX, at="rank"),
            Signal("barriers", bytes_of="buffer"),
        )
    )

    def verify_(self) -> None:
        source, target = self.source.type, self.buffer.type
        assert isinstance(source, BufferType)
        assert isinstance(target, BufferType)
        if (source.dtype, source.dims, source.swizzle) != (
            target.dtype,
            target.dims,
            target.swizzle,
        ):
            raise VerifyException(f"bytes of {source} in a row are not {target}")


@irdl_op_definition
class TmaPrefetchOp(StageOp):
    """Asks for the box at `coordinates` to be brought into the L2 cache."""

    name = "stage.tma_prefetch"
    BY: ClassVar[By | None] = By.ONE
    tensor = operand_def(TensorType)
    coordinates = var_operand_def(i32)
    box = prop_def(ArrayAttr[IntegerAttr])
    hint = opt_prop_def(StringAttr)
    traits = traits_def(Effects(Touch(Kind.READ, "tensor", Space.GLOBAL, Proxy.ASYNC)))


@irdl_op_definition
class MmaFenceOp(StageOp):
    """Orders register accesses of accumulators before products that follow (wgmma.fence)."""

    name = "stage.mma_fence"
    BY: ClassVar[By | None] = By.ALL
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.GENERIC, Proxy.ASYNC, Space.REGISTER)))


@irdl_op_definition
class MmaCommitOp(StageOp):
    """Closes the group of products in registers that are under way (wgmma.commit_group)."""

    name = "stage.mma_commit"
    BY: ClassVar[By | None] = By.ALL
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Close(Done.WGMMA_GROUP), Order(Proxy.ASYNC, Proxy.ASYNC)))


@irdl_op_definition
class FenceOp(StageOp):
    """`fence.acq_rel` and its like, of this thread's accesses through the generic proxy; `sem` proxy and `scope` alias:
    of accesses through different addresses."""

    name = "stage.fence"
    EACH: ClassVar[bool] = True
    BY: ClassVar[By | None] = By.ALL
    sem = prop_def(StringAttr)
    scope = prop_def(StringAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.GENERIC, Proxy.GENERIC)))


@irdl_op_definition
class NamedBarrierOp(StageOp):
    """`threads` threads meet at barrier `number` of the CTA; all of the CTA's where no count is given. Those that only
    `arrive` wait for nobody."""

    name = "stage.named_barrier"
    BY: ClassVar[By | None] = By.ALL
    number = prop_def(IntegerAttr)
    threads = opt_prop_def(IntegerAttr)
    arrives = opt_prop_def(UnitAttr)
    id = prop_def(StringAttr)
    traits = traits_def(
        Effects(Await("", Done.NOW), Meet("named"), Order(Proxy.GENERIC, Proxy.GENERIC))
    )


@irdl_op_definition
class ClusterBarrierOp(StageOp):
    """All threads of the cluster meet (`sync`), or arrive first and wait later, as `does` says; `sem` relaxed: an
    arrival that publishes nothing."""

    name = "stage.cluster_barrier"
    DOES: ClassVar[tuple[str, ...]] = ("sync", "arrive", "wait")
    BY: ClassVar[By | None] = By.ALL
    does = prop_def(StringAttr)
    sem = opt_prop_def(StringAttr)
    id = prop_def(StringAttr)
    traits = traits_def(
        Effects(Await("", Done.NOW), Meet("cluster"), Order(Proxy.GENERIC, Proxy.GENERIC))
    )

    def verify_(self) -> None:
        if self.does.data not in self.DOES:
            raise VerifyException(
                f"no {self.does.data!r} of a cluster; one of {', '.join(self.DOES)}"
            )


@irdl_op_definition
class GridWaitOp(StageOp):
    """Until the grids that this one depends on have ended and what they wrote is seen (griddepcontrol.wait)."""

    name = "stage.grid_wait"
    EACH: ClassVar[bool] = True
    by = prop_def(StringAttr)
    id = prop_def(StringAttr)
    traits = traits_def(
        Effects(Await("", Done.NOW), Meet("grid"), Order(Proxy.GENERIC, Proxy.GENERIC))
    )


@irdl_op_definition
class GridLaunchOp(StageOp):
    """The grid that depends on this one may start, once every CTA has said so (griddepcontrol.launch_dependents)."""

    name = "stage.grid_launch"
    EACH: ClassVar[bool] = True
    by = prop_def(StringAttr)
    id = prop_def(StringAttr)
    traits = traits_def(Effects(Order(Proxy.GENERIC, Proxy.GENERIC)))


@irdl_op_definition
class RegistersOp(StageOp):
    """Every warp of the warpgroup gives back or asks for registers: `count` a thread (setmaxnreg)."""

    name = "stage.registers"
    BY: ClassVar[By | None] = By.ALL
    action = prop_def(StringAttr)
    count = prop_def(IntegerAttr)
    traits = traits_def(Effects(Order(Proxy.GENERIC, Proxy.GENERIC)))


OPERATIONS = (
    IdentityOp, WhileOp, TryWaitOp, RestartOp, TmaLoadToOp, MmaFenceOp, MmaCommitOp, FenceOp, NamedBarrierOp,
    RegistersOp, TmaPrefetchOp, ClusterBarrierOp, GridWaitOp, GridLaunchOp, ClusterCopyOp,
)  # fmt: skip
