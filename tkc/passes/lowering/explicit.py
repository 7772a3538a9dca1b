"""Explicit synchronisation: identities, single fences, named barriers, groups of products, registers moved."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from tkc.ir.isa.targets import Feature
from tkc.ir.stage import explicit as e
from tkc.passes.lowering.copies import start_load
from tkc.passes.lowering.state import Kernel, lowers


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
    k.emit("fence", f".{op.sem.data}", f".{op.scope.data}")


@lowers(e.NamedBarrierOp)
def named_barrier(k: Kernel, op: e.NamedBarrierOp) -> None:
    threads = [] if op.threads is None else [op.threads.value.data]
    k.emit("barrier.cta.sync", op.number.value.data, *threads)


@lowers(e.RegistersOp, Feature.SETMAXNREG)
def registers(k: Kernel, op: e.RegistersOp) -> None:
    k.emit("setmaxnreg", f".{op.action.data}", op.count.value.data)
