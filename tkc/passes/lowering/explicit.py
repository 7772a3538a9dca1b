"""Explicit synchronisation: identities, single fences, named barriers, groups of products, registers moved."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from tkc.diagnostics import TkcError
from tkc.ir.isa.targets import Feature
from tkc.ir.locations import location_of
from tkc.ir.stage import explicit as e
from tkc.passes.lowering.copies import hint_of, start_load, tensor_map
from tkc.passes.lowering.state import Kernel, lowers
from tkc.passes.lowering.synchronisation import attempts


@lowers(e.IdentityOp)
def identity(k: Kernel, op: e.IdentityOp) -> None:
    first = k.current_role().first_warp.value.data
    match op.which.data:
        case "lane":
            k.values[op.value] = k.lane
        case "warp":
            k.values[op.value] = k.emit("sub", ".u32", k.warp, first) if first else k.warp
        case _:
            below = 32 * first
            k.values[op.value] = k.emit("sub", ".u32", k.thread, below) if first else k.thread


@lowers(e.TryWaitOp)
def try_wait(k: Kernel, op: e.TryWaitOp) -> None:
    attempt, _ = attempts(k, op)
    k.values[op.value] = attempt()


@lowers(e.RestartOp)
def restart(k: Kernel, op: e.RestartOp) -> None:
    keep = k.number(op.keep)
    source = k.values[op.source]
    if source.started is not True and keep is not False:
        # What does not count before does not count now: both must hold.
        before = source.started
        if before is False:
            keep = False
        elif keep is True:
            keep = before
        else:
            keep = k.emit("and", ".pred", before, keep)
    k.values[op.value] = replace(source, started=keep if isinstance(keep, SSAValue) else bool(keep))


@lowers(e.TmaLoadToOp, Feature.TMA)
def load_to(k: Kernel, op: e.TmaLoadToOp) -> None:
    start_load(k, op, op.barriers, op.entry)


@lowers(e.MmaFenceOp, Feature.WGMMA)
def mma_fence(k: Kernel, op: e.MmaFenceOp) -> None:
    k.emit("wgmma.fence")


@lowers(e.MmaCommitOp, Feature.WGMMA)
def mma_commit(k: Kernel, op: e.MmaCommitOp) -> None:
    k.emit("wgmma.commit_group")


@lowers(e.FenceOp)
def fence(k: Kernel, op: e.FenceOp) -> None:
    if op.scope.data == "alias":
        k.emit("fence.proxy.alias")
    else:
        k.emit("fence", f".{op.sem.data}", f".{op.scope.data}")


@lowers(e.NamedBarrierOp)
def named_barrier(k: Kernel, op: e.NamedBarrierOp) -> None:
    threads = [] if op.threads is None else [op.threads.value.data]
    name = "barrier.cta.sync" if op.arrives is None else "barrier.cta.arrive"
    k.emit(name, op.number.value.data, *threads)


@lowers(e.ClusterBarrierOp, Feature.CLUSTER)
def cluster_barrier(k: Kernel, op: e.ClusterBarrierOp) -> None:
    if k.several:
        raise TkcError.at(
            "TK110",
            "a barrier of the cluster where clusters may hold several units, which do not turn together, is not "
            "supported yet",
            location_of(op),
        )
    does = op.does.data
    if does != "wait":
        k.emit("barrier.cluster.arrive", f".{'release' if op.sem is None else op.sem.data}")
    if does != "arrive":
        k.emit("barrier.cluster.wait", ".acquire")


@lowers(e.GridWaitOp, Feature.GRID_DEPENDENCY)
def grid_wait(k: Kernel, op: e.GridWaitOp) -> None:
    k.emit("griddepcontrol.wait")


@lowers(e.GridLaunchOp, Feature.GRID_DEPENDENCY)
def grid_launch(k: Kernel, op: e.GridLaunchOp) -> None:
    k.emit("griddepcontrol.launch_dependents")


@lowers(e.TmaPrefetchOp, Feature.TMA)
def prefetch(k: Kernel, op: e.TmaPrefetchOp) -> None:
    box = [n.value.data for n in reversed(op.box.data)]
    map = tensor_map(k, op.tensor, box, "none", loads=True)
    coordinates = [k.number(c) for c in reversed(op.coordinates)]
    k.emit("cp.async.bulk.prefetch.tensor", f".{len(box)}d", map, coordinates, **hint_of(op.hint))


@lowers(e.RegistersOp, Feature.SETMAXNREG)
def registers(k: Kernel, op: e.RegistersOp) -> None:
    k.emit("setmaxnreg", f".{op.action.data}", op.count.value.data)
