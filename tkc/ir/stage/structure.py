"""The structure of a stage program: kernels, roles, loops and conditions, and what a kernel declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    BaseAttr,
    EqAttrConstraint,
    operand_def,
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

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.stage.types import BarriersType, BufferType, RingType
from tkc.ir.syntax import Operation
from tkc.ir.tile.types import TensorType

PAIR = 2
"""CTAs of a pair (PTX 9.7.18.2: .cta_group::2)."""


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


class Across(StrEnum):
    """How a ring joins the CTAs of a cluster (R15).

    MULTICAST: each fills a part of everyone's slots. GATHER: all fill slots that the leader of a pair uses. SPREAD: the
    leader fills slots that all use. SHARED: GATHER, where each pair fills a part of all pairs' slots. ANSWER: one
    thread of the cluster has everyone's slots filled. EVERY: each fills its own slots, which everyone knows to be in
    use.
    """

    MULTICAST = "multicast"
    GATHER = "gather"
    SPREAD = "spread"
    SHARED = "shared"
    ANSWER = "answer"
    EVERY = "every"

    @property
    def unshared(self) -> Across | None:
        """How a ring joins CTAs otherwise alike, into which nothing is copied for several of them."""
        return {Across.MULTICAST: None, Across.SHARED: Across.GATHER}.get(self, self)


class To(StrEnum):
    """Whose barrier of the cluster is signalled, where it is not the CTA's own."""

    ALL = "all"
    PAIR = "pair"
    LEADER = "leader"
    FIRST = "first"


class StageOp(Operation):
    """Base of the stage operations.

    `BY` is who executes one unless its property `by` says otherwise; None is neutral. `EACH`: a thread may execute it
    for itself, since it meets no other there. `ALONE`: each thread does that comes to it where no election can be.
    `STATE_OF`: the accumulator, as an operand, whose next state the result is. `FOR_COPIES`: a role that copies scales
    and does no more consists of such, and of numbers.
    """

    BY: ClassVar[By | None] = None
    EACH: ClassVar[bool] = False
    ALONE: ClassVar[bool] = False
    STATE_OF: ClassVar[str | None] = None
    FOR_COPIES: ClassVar[bool] = False

    @property
    def executed_by(self) -> By | None:
        by = self.properties.get("by")
        return self.BY if by is None else By(by.data)  # pyright: ignore


# Structure -----------------------------------------------------------------------------------------------------------


@irdl_op_definition
class KernelOp(StageOp):
    """A kernel with its roles; block arguments are the user's arguments. `contract` is the launch contract so far.

    `cluster` CTAs work together on each item; as a `pair` they share the accumulators of tensor memory. A
    `dependent` kernel may start before the one ahead of it has ended. With `clc` there is a unit for each item, and one
    that is done takes over another that has not started; where `persistent` stands beside it and the target has no such
    thing, units are as many as are resident. The launch asks for clusters of several units: of `minimum` CTAs where
    that divides the grid, and of `preferred` where as many are free together.
    """

    name = "stage.kernel"
    sym_name = prop_def(StringAttr)
    arg_names = prop_def(ArrayAttr[StringAttr])
    contract = prop_def(DictionaryAttr)
    cluster = opt_prop_def(IntegerAttr)
    pair = opt_prop_def(UnitAttr)
    dependent = opt_prop_def(UnitAttr)
    minimum = opt_prop_def(IntegerAttr)
    preferred = opt_prop_def(IntegerAttr)
    clc = opt_prop_def(UnitAttr)
    persistent = opt_prop_def(UnitAttr)
    threads = opt_prop_def(IntegerAttr)
    shared_bytes = opt_prop_def(IntegerAttr)
    tensor_columns = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), SymbolOpInterface())

    @property
    def most_ctas(self) -> int | None:
        """CTAs of the largest cluster that holds several units; None where none does."""
        largest = self.preferred or self.minimum
        return None if largest is None else largest.value.data


@irdl_op_definition
class RoleOp(StageOp):
    """A program for warps `first_warp` up; `groups` warpgroups split its rows (1: none); `registers` a thread, if
    set.

    One that `leads` acts for its pair: it runs in the pair's first CTA only.
    """

    name = "stage.role"
    sym_name = prop_def(StringAttr)
    warps = prop_def(IntegerAttr)
    first_warp = prop_def(IntegerAttr)
    groups = prop_def(IntegerAttr)
    registers = opt_prop_def(IntegerAttr)
    leads = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    @property
    def threads(self) -> int:
        return 32 * self.warps.value.data


def solo(role: RoleOp) -> bool:
    """Whether one thread runs all of a role: one warp, of which nothing asks for more than a thread."""
    return role.warps.value.data == 1 and not any(
        isinstance(o, StageOp) and o.executed_by is By.ALL for o in role.walk()
    )


def remove_role(role: RoleOp) -> None:
    """Erases a role from its kernel; the warps of roles behind it move up."""
    block, removed = role.parent_block(), role.first_warp.value.data
    assert block is not None
    role.detach()
    for other in block.ops:
        if isinstance(other, RoleOp) and other.first_warp.value.data > removed:
            moved = other.first_warp.value.data - role.warps.value.data
            other.properties["first_warp"] = IntegerAttr(moved, other.first_warp.type)
    role.erase()


@irdl_op_definition
class YieldOp(StageOp):
    """Ends a region with the values that it hands on."""

    name = "stage.yield"
    FOR_COPIES: ClassVar[bool] = True
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class ForOp(StageOp):
    """`for i in range(lower, upper, step)`: block arguments are the counter, then the carried values.

    One over `stolen` items (0 to `stage.unit` items by 1, a number that only shows as it goes) turns while the first
    value that it carries holds; the second is the number of the item. One over groups whose items a loop in it runs
    names the `chained` schedule.
    """

    name = "stage.for"
    FOR_COPIES: ClassVar[bool] = True
    lower = operand_def(i32)
    upper = operand_def(i32)
    step = operand_def(i32)
    inits = var_operand_def()
    stolen = opt_prop_def(UnitAttr)
    chained = opt_prop_def(StringAttr)
    body = region_def("single_block")
    carried = var_result_def()


@irdl_op_definition
class WorkLoopOp(StageOp):
    """One pass over a schedule's items for this work unit; block arguments are a block number for each axis, then
    carried values.

    `extents` are block counts; `group`, `serpentine`, `outermost` and `descending` as in `tile.schedule`. One that is a
    tensor is of blocks of `sizes` on that axis of its element at the first axis's number.
    """

    name = "stage.work_loop"
    FOR_COPIES: ClassVar[bool] = True
    extents = var_operand_def(EqAttrConstraint(i32) | BaseAttr(TensorType))
    sizes = opt_prop_def(ArrayAttr[IntegerAttr])
    inits = var_operand_def()
    schedule = prop_def(StringAttr)
    group = prop_def(IntegerAttr)
    serpentine = opt_prop_def(UnitAttr)
    outermost = opt_prop_def(IntegerAttr)
    descending = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    carried = var_result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


@irdl_op_definition
class IfOp(StageOp):
    """Runs the first region where the condition holds, else the second (which may be empty)."""

    name = "stage.if"
    FOR_COPIES: ClassVar[bool] = True
    condition = operand_def(i1)
    then = region_def("single_block")
    otherwise = opt_region_def()
    values = var_result_def()


# Declarations --------------------------------------------------------------------------------------------------------


@irdl_op_definition
class BufferOp(StageOp):
    """A ring of tiles. `staging` marks one that the compiler made for a store, `explicit` one that no pipe
    carries, whose synchronisation the program spells out.

    `within`: the name of the buffer in whose place it lies, slot by slot where both have as many, else from its first
    slot on. `pipes`: those that carry it, where it has its place, or its pipe, not to itself.

    `offset`: bytes from the start of shared memory, or the first tensor-memory column, once placed; `stride`: bytes
    from one slot to the next where those are not its type's.
    """

    name = "stage.alloc"
    sym_name = prop_def(StringAttr)
    within = opt_prop_def(StringAttr)
    pipes = opt_prop_def(ArrayAttr[StringAttr])
    stride = opt_prop_def(IntegerAttr)
    offset = opt_prop_def(IntegerAttr)
    staging = opt_prop_def(UnitAttr)
    explicit = opt_prop_def(UnitAttr)
    buffer = result_def(BufferType)
    traits = traits_def(Effects(Touch(Kind.WRITE, "buffer", Space.SHARED)))


def storage(buffer: SSAValue) -> SSAValue:
    """The buffer in whose place one lies; itself where it has a place of its own."""
    owner = buffer.owner
    if not isinstance(owner, BufferOp) or owner.within is None:
        return buffer
    block = owner.parent_block()
    for op in block.ops if block is not None else ():
        if isinstance(op, BufferOp) and op.sym_name == owner.within:
            return op.buffer
    raise VerifyException(f"{owner.sym_name.data} lies in {owner.within.data}, which is not there")


@irdl_op_definition
class BarriersOp(StageOp):
    """`depth` mbarriers that complete a phase after `count` arrivals (and the bytes expected); of each unit in the
    cluster where they are `shared` by its units."""

    name = "stage.barriers"
    sym_name = prop_def(StringAttr)
    depth = prop_def(IntegerAttr)
    count = prop_def(IntegerAttr)
    shared = opt_prop_def(UnitAttr)
    offset = opt_prop_def(IntegerAttr)
    barriers = result_def(BarriersType)
    traits = traits_def(Effects(Touch(Kind.WRITE, "barriers", Space.BARRIER)))


@irdl_op_definition
class PipeOp(StageOp):
    """A ring that carries `buffers` slot by slot from `producers` to `consumers`.

    `kind` is `full_empty`, or `store`: staging slots that the role itself fills and the copy engine drains; or
    `maps`: slots that the role itself fills and stores through, until those stores are complete. `across` says how
    the ring joins CTAs of a cluster, if it does. With `turns` consumers take one item after another. `after`: rings of
    the same buffers through which an item goes on, so that its slot is free when it is released there, too.
    """

    name = "stage.pipe"
    buffers = var_operand_def(BufferType)
    sym_name = prop_def(StringAttr)
    kind = prop_def(StringAttr)
    depth = prop_def(IntegerAttr)
    producers = prop_def(ArrayAttr[StringAttr])
    consumers = prop_def(ArrayAttr[StringAttr])
    across = opt_prop_def(StringAttr)
    turns = opt_prop_def(UnitAttr)
    after = opt_prop_def(ArrayAttr[StringAttr])
    ring = result_def(RingType)
    traits = traits_def(Effects(Touch(Kind.WRITE, "ring", Space.BARRIER)))


RANKS: Mapping[str, Callable[[int], int]] = {
    "rank": lambda rank: rank,
    "cluster": lambda rank: rank,
    "pair": lambda rank: rank >> 1,
    "half": lambda rank: rank & 1,
}
"""Numbers of `stage.unit` that follow from a CTA's rank, where a cluster is one unit."""


def sharers(op: Operation, rank: int, cluster: int) -> list[int]:
    """The CTAs that an operation of CTA `rank` writes into at once: all of the cluster, or, where pairs' leaders are
    told, those that are the same half of their pair."""
    to = op.properties.get("to")
    if isinstance(to, StringAttr) and to.data == To.LEADER:
        return list(range(rank & 1, cluster, 2))
    return list(range(cluster))


@irdl_op_definition
class UnitOp(StageOp):
    """The `index` of this work unit (a CTA or cluster), the `count` of them in the launch, this CTA's `rank` in its
    unit or in its `cluster`, which may hold several units, the number of its `pair` and which `half` of it this CTA
    is, or how many `items` the unit gets before it ends, which nothing knows ahead, as `which` says."""

    name = "stage.unit"
    WHICH: ClassVar[tuple[str, ...]] = (
        "index",
        "count",
        "rank",
        "cluster",
        "pair",
        "half",
        "items",
    )
    which = prop_def(StringAttr)
    value = result_def(i32)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if self.which.data not in self.WHICH:
            raise VerifyException(
                f"no {self.which.data!r} of a work unit; one of {', '.join(self.WHICH)}"
            )


@irdl_op_definition
class GroupOp(StageOp):
    """The number of this thread's warpgroup in its role, from 0."""

    name = "stage.group"
    value = result_def(i32)
    traits = traits_def(Pure())
