"""Barriers, fences, elections and bulk groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from tkc.diagnostics import TargetError
from tkc.ir.isa.fences import ONE_WAY
from tkc.ir.isa.targets import Feature, targets_with
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import TryWaitOp
from tkc.ir.stage.ops import By, To
from tkc.ir.stage.structure import PAIR
from tkc.passes.lowering.state import Kernel, lowers

FIRST = 0
"""The rank of a cluster's first CTA."""

ALL_LANES = -1
"""The full membership mask of a warp."""


@lowers(s.MbarrierWaitOp)
def wait(k: Kernel, op: s.MbarrierWaitOp) -> None:
    attempt, parity = attempts(k, op)
    if k.trap_hangs is None:
        k.emit.repeat(attempt)
    else:
        _wait_for(k, op, attempt, k.trap_hangs, parity)


def attempts(
    k: Kernel, op: s.MbarrierWaitOp | TryWaitOp
) -> tuple[Callable[[], SSAValue], SSAValue]:
    """What asks once for a phase, and its parity."""
    place = k.barrier_address(op.barriers, op.slot)
    parity = k.register(op.parity)
    sem = "acquire" if op.sem is None else op.sem.data
    scope = "cta" if op.scope is None else op.scope.data

    def attempt() -> SSAValue:
        return k.emit(
            "mbarrier.try_wait.parity", f".{sem}", f".{scope}", ".shared::cta", place, parity
        )

    return attempt, parity


def _wait_for(
    k: Kernel, op: s.MbarrierWaitOp, attempt: Callable[[], SSAValue], limit: int, parity: SSAValue
) -> None:
    """A wait that says what it waits for, and traps, when it has lasted `limit` ns."""
    from tkc.passes.lowering.debugging import stop  # few kernels are compiled so

    began, barriers = k.emit.special("%globaltimer"), k.declared[op.barriers]
    assert isinstance(barriers, s.BarriersOp)
    who, name = k.current_role().sym_name.data, barriers.sym_name.data
    told = f"hang: role {who} still waits for barrier {name}[%d], phase of parity %d"

    def give_up() -> None:
        stop(k, op, told, k.register(op.slot), parity)

    def test() -> None:
        waited = k.emit("sub", ".u64", k.emit.special("%globaltimer"), began)
        k.emit.if_(k.emit("setp", ".ge", ".u64", waited, k.emit.imm(limit, "b64")), give_up)

    def turn() -> SSAValue:
        passed = attempt()
        k.emit.if_(passed, test, negated=True)
        return passed

    k.emit.repeat(turn)


@lowers(s.MbarrierExpectOp)
def expect(k: Kernel, op: s.MbarrierExpectOp) -> None:
    place, bytes = k.barrier_address(op.barriers, op.slot), op.bytes.value.data
    if op.rank is None:
        k.emit("mbarrier.arrive.expect_tx", ".release", ".cta", ".shared::cta", place, bytes)
    else:
        there = of_cta(k, place, op.rank)
        k.emit("mbarrier.arrive.expect_tx.cluster", ".release", ".cluster", there, bytes)


@lowers(s.MbarrierArriveOp)
def arrive(k: Kernel, op: s.MbarrierArriveOp) -> None:
    place = k.barrier_address(op.barriers, op.slot)
    count = [] if op.count is None else [op.count.value.data]
    if op.to is None:
        sem = "release" if op.sem is None else op.sem.data
        reach = "cta" if op.scope is None else op.scope.data
        order = [f".{sem}", f".{reach}"]
        if op.rank is None:
            k.emit("mbarrier.arrive", *order, ".shared::cta", place, *count)
        else:
            # Without words for it the scope is the CTA; to say so of another CTA's barrier is not PTX.
            words = [] if order == [".release", ".cta"] else order
            k.emit("mbarrier.arrive.cluster", *words, of_cta(k, place, op.rank), *count)
        return
    scope = [] if op.scope is None else [".release", f".{op.scope.data}"]
    to = To(op.to.data)
    first = FIRST if to is To.FIRST else k.first_rank if to is To.ALL else k.leader
    for number in range({To.ALL: k.ctas, To.PAIR: PAIR}.get(to, 1)):
        rank = k.add(first, number)
        k.emit("mbarrier.arrive.cluster", *scope, k.emit("mapa", k.address(place), rank), *count)


@lowers(s.Tcgen05CommitOp, Feature.TCGEN05)
def commit(k: Kernel, op: s.Tcgen05CommitOp) -> None:
    place = k.barrier_address(op.barriers, op.slot)
    what = [] if op.reads is None else [_only_reads(k, op)]
    if op.to is None and op.mask is None:
        k.emit("tcgen05.commit", k.cta_group, *what, ".shared::cluster", place)
    else:
        mask = cta_mask(k, op.mask) if op.mask is not None else _told(k, op)
        if isinstance(mask, int):  # before 13.5, ptxas takes no immediate here
            mask = k.emit("mov.imm", ".b16", mask)
        k.emit(
            "tcgen05.commit",
            k.cta_group,
            *what,
            ".shared::cluster",
            ".multicast::cluster",
            place,
            mask,
        )


def _only_reads(k: Kernel, op: s.Tcgen05CommitOp) -> str:
    if not k.target.has({Feature.TCGEN05_COMMIT_READ}):
        raise TargetError.at(
            "TK202",
            f"a commit of reads needs {Feature.TCGEN05_COMMIT_READ}; {k.target.name} has none",
            location_of(op),
            help=targets_with({Feature.TCGEN05_COMMIT_READ}),
        )
    return ".sync_restrict::shared::read::mma::a"


def _told(k: Kernel, op: s.Tcgen05CommitOp) -> Any:
    """The mask of the CTAs whose barriers a commit arrives at."""
    assert op.to is not None
    return k.moved((1 << PAIR) - 1, k.leader) if op.to.data == To.PAIR else k.every_cta()


def of_cta(k: Kernel, place: At, rank: SSAValue) -> Any:
    """The address of a place of shared memory in another CTA of the cluster."""
    return k.emit("mapa", k.address(place), k.add(k.first_rank, k.number(rank)))


def rank_in_unit(k: Kernel) -> Any:
    """The number of this CTA in its unit."""
    rank = k.emit.special("%cluster_ctarank")
    return k.bit_and(rank, k.ctas - 1) if k.several else rank


def sharers(k: Kernel) -> Any:
    """The mask of the CTAs that hold the same: all of a unit, or in a cluster of pairs those that are the same half."""
    if not k.pairs:
        return k.every_cta()
    alike = sum(1 << PAIR * pair for pair in range(k.pairs))

    def mine() -> Any:
        half = k.bit_and(k.emit.special("%cluster_ctarank"), PAIR - 1)
        return k.add(k.first_rank, half)

    return k.moved(alike, k.once("rank of the first alike", mine))


def units_in_cluster(k: Kernel) -> Any:
    ctas = k.emit.special("%cluster_nctarank")
    return k.shift_right(ctas, k.ctas.bit_length() - 1)


def cta_mask(k: Kernel, mask: SSAValue) -> Any:
    """A mask of CTAs, of 16 bits."""
    bits = k.number(mask)
    if k.several:
        bits = k.emit("shl", ".b32", k.register(mask), k.first_rank)
    return k.emit("cvt", ".u16", ".u32", bits) if isinstance(bits, SSAValue) else bits


@lowers(s.ProxyFenceOp, Feature.TMA)
def proxy_fence(k: Kernel, op: s.ProxyFenceOp) -> None:
    space = op.space.data
    if space in ONE_WAY:
        half = ONE_WAY[space]
        sem = ".release" if half.releases else ".acquire"
        k.emit("fence.proxy.async::generic", sem, half.restrict)
    else:
        k.emit("fence.proxy.async", *([f".{space}"] if space else []))


@lowers(s.Tcgen05FenceOp, Feature.TCGEN05)
def tcgen05_fence(k: Kernel, op: s.Tcgen05FenceOp) -> None:
    k.emit(f"tcgen05.fence::{op.side.data}")


@lowers(s.RoleBarrierOp)
def role_barrier(k: Kernel, op: s.RoleBarrierOp) -> None:
    """Named barriers: one for each warpgroup that splits the role's rows, and one for all; 0 is the CTA's own."""
    role = k.current_role()
    groups = role.groups.value.data
    first = k.barrier_ids[role]
    number = first
    if op.whole is not None and groups > 1:
        k.emit("barrier.cta.sync", first + groups, role.threads)
        return
    if groups > 1:
        offset = role.first_warp.value.data
        warp = k.emit("sub", ".u32", k.warp, offset) if offset else k.warp
        number = k.add(k.shift_right(warp, 2), first)
    k.emit("barrier.cta.sync", number, role.threads // groups)


@lowers(s.WarpSyncOp)
def warp_sync(k: Kernel, op: s.WarpSyncOp) -> None:
    k.emit("bar.warp.sync", ALL_LANES)


@lowers(s.ElectedOp)
def elected(k: Kernel, op: s.ElectedOp) -> None:
    """One lane by elect.sync; for one thread of several warps, joined with a test of the warp's number."""
    role = k.current_role()
    leader = k.emit("elect.sync", ALL_LANES)
    warps = role.warps.value.data // role.groups.value.data
    if op.scope.data == By.ONE and warps > 1:
        first = role.first_warp.value.data
        warp = k.emit("sub", ".u32", k.warp, first) if first else k.warp
        if role.groups.value.data > 1:
            warp = k.bit_and(warp, warps - 1)
        leading = k.emit("setp", ".eq", ".u32", warp, 0)
        leader = k.emit("and", ".pred", leader, leading)
    k.values[op.value] = leader


@lowers(s.BulkCommitOp, Feature.TMA)
def bulk_commit(k: Kernel, op: s.BulkCommitOp) -> None:
    k.emit("cp.async.bulk.commit_group")


@lowers(s.BulkWaitOp, Feature.TMA)
def bulk_wait(k: Kernel, op: s.BulkWaitOp) -> None:
    name = "cp.async.bulk.wait_group.read" if op.read is not None else "cp.async.bulk.wait_group"
    k.emit(name, op.pending.value.data)


def meet(k: Kernel) -> None:
    """All threads of the CTA, or of its cluster, meet."""
    if k.ctas == 1 and not k.several:
        k.emit("barrier.cta.sync", 0)
    else:
        k.emit("barrier.cluster.arrive", ".release")
        k.emit("barrier.cluster.wait", ".acquire")


def initialise(k: Kernel) -> None:
    """One thread makes every mbarrier and publishes them; the CTA's barrier after it lets the others see them."""
    barriers = [op for op in k.source.body.block.ops if isinstance(op, s.BarriersOp)]
    if not barriers:
        return

    def init() -> None:
        for op in barriers:
            k.emit.location = op.location
            assert op.offset is not None
            for slot in range(op.depth.value.data):
                place = At(k.base, op.offset.value.data + 8 * slot)
                count: Any = op.count.value.data
                if op.shared is not None and k.several:
                    count = k.mul(units_in_cluster(k), count)
                k.emit("mbarrier.init", ".shared::cta", place, count)
        k.emit("fence.mbarrier_init")

    k.emit.if_(k.emit("setp", ".eq", ".u32", k.thread, 0), init)
