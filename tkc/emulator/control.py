"""Branches, barriers of CTAs and clusters, fences and launch control (PTX 9.7.12, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tkc.emulator.instruction import (
    Blocking,
    Branch,
    Builder,
    Collective,
    Ending,
    Instruction,
    Leave,
    Semantic,
)
from tkc.emulator.lanes import FULL, U32, constant, lowest
from tkc.emulator.pool import setmaxnreg
from tkc.emulator.syntax import Name


def _bra(i: Instruction) -> Semantic:
    target = i.one("target")
    if not isinstance(target, Name):
        raise ValueError("the target must be a label")
    return Branch(target.text)


def _brx(i: Instruction) -> Semantic:
    table = i.one("targets")
    if not isinstance(table, Name):
        raise ValueError("the targets must be a label")
    labels = i.statement.scope.table(table.text)
    if not labels:
        raise ValueError(f"no list of targets {table.text}")
    return Branch("", labels, i.src("index", U32))


def _barrier_sync(i: Instruction) -> Semantic:
    number = i.src("id", U32)
    count = i.src("count", U32) if i.given("count") else -1

    def make(following: int) -> Ending:
        def run(w: Any, path: Any) -> int:
            threads = w.uniform(count) if count >= 0 else None
            return w.cta.barrier_sync(i, w, path, w.uniform(number), threads, following)

        return run

    return Blocking(make)


def _barrier_arrive(i: Instruction) -> Semantic:
    number, count = i.src("id", U32), i.src("count", U32)

    def run(w: Any) -> None:
        w.cta.barrier_arrive(i, w, w.uniform(number), w.uniform(count))

    return run


def _barrier_red(i: Instruction) -> Semantic:
    """A barrier that gives every thread the number of those whose predicate holds, or whether all or any does."""
    number = i.src("id", U32)
    count = i.src("count", U32) if i.given("count") else -1
    p, negated = i.predicate("p")
    op = "popc" if i.row.name.endswith("popc") else i.mod("op")
    d = i.dst("d", 32 if op == "popc" else 1)

    def make(following: int) -> Ending:
        def run(w: Any, path: Any) -> int:
            if path.token is not None and path.token[0] == "red":
                _, mask, barrier = path.token
                path.token = None
                total = barrier.results.pop((w.index, mask))
                if op == "popc":
                    w.put(d, constant(total[0], U32))
                else:
                    holds = total[0] == total[1] if op == "and" else total[0] > 0
                    w.put_predicate(d, FULL if holds else 0)
                return following
            threads = w.uniform(count) if count >= 0 else None
            holding = ((w.R[p] ^ FULL if negated else w.R[p]) & w.mask).bit_count()
            barrier = w.cta.named[w.uniform(number)]
            barrier.votes.append((holding, w.mask.bit_count(), w.index, w.mask))
            path.token = ("red", w.mask, barrier)
            # The path comes back here when everybody has come.
            return w.cta.barrier_sync(i, w, path, w.uniform(number), threads, following - 1)

        return run

    return Blocking(make)


def _nothing(i: Instruction) -> Semantic:
    """Registers that the instruction names are read, and nothing else happens that values could show."""
    return lambda w: None


def _warp_sync(i: Instruction) -> Semantic:
    def run(w: Any) -> None:
        if w.machine.record is not None:
            w.machine.record.meet(w, w.mask)

    return Collective(run, i.src("mask", U32))


Fence = Callable[[Any, Any, Instruction], None]
"""What a fence does to the happens-before record, for the active lanes of a warp."""


def _thread_fence(record: Any, w: Any, i: Instruction) -> None:
    sem = i.mod("sem", "sc")
    record.fence(w, sem != "release", sem != "acquire")


_FENCES: dict[str, Fence] = {
    "fence.proxy.async": lambda r, w, i: r.fence_proxy(w, i.mod("space")),
    "fence.proxy.async::generic": lambda r, w, i: r.fence_half(
        w, i.mod("sem") == "acquire", i.mod("restrict").endswith("::read")
    ),
    "fence.proxy.tensormap.release": lambda r, w, i: r.fence_map(w),
    "fence.mbarrier_init": lambda r, w, i: r.fence_init(w),
    "fence": _thread_fence,
    "fence.restricted": _thread_fence,
    "membar": _thread_fence,
}


def _fence(i: Instruction) -> Semantic:
    """Nothing that values could show; the record hears of it."""
    tell = _FENCES[i.row.name]

    def run(w: Any) -> None:
        if w.machine.record is not None:
            tell(w.machine.record, w, i)

    return run


def _elect(i: Instruction) -> Semantic:
    p = i.dst("p", 1)
    d = i.dst("d", 32) if i.given("d") else -1
    mask = i.src("mask", U32)

    def run(w: Any) -> None:
        lane = lowest(w.mask & w.uniform(mask))
        w.put_predicate(p, 1 << lane)
        if d >= 0:
            w.put(d, constant(lane, U32))

    return Collective(run, mask)


def _cluster_arrive(i: Instruction) -> Semantic:
    return lambda w: w.cta.cluster.arrive(w, i)


def _cluster_wait(i: Instruction) -> Semantic:
    def make(following: int) -> Ending:
        return lambda w, path: w.cta.cluster.wait(w, path, i, following)

    return Blocking(make)


def _nanosleep(i: Instruction) -> Semantic:
    i.src("time", U32)

    def make(following: int) -> Ending:
        return lambda w, path: w.machine.spin(path, following)

    return Blocking(make)


def _wait_for_grids(i: Instruction) -> Semantic:
    def run(w: Any) -> None:
        if w.machine.record is not None:
            w.machine.record.grids_awaited(w)

    return run


SEMANTICS: dict[str, Builder] = {
    "griddepcontrol.wait": _wait_for_grids,
    "bra": _bra,
    "brx.idx": _brx,
    "ret": lambda i: Leave(returns=True),
    "exit": lambda i: Leave(),
    "trap": lambda i: Leave(trap=True),
    "brkpt": _nothing,
    "bar.warp.sync": _warp_sync,
    "barrier.cta.sync": _barrier_sync,
    "barrier.cta.arrive": _barrier_arrive,
    "bar.sync": _barrier_sync,
    "bar.arrive": _barrier_arrive,
    "bar.red": _barrier_red,
    "bar.red.popc": _barrier_red,
    "elect.sync": _elect,
    "elect.sync.lane": _elect,
    "setmaxnreg": setmaxnreg,
    "barrier.cluster.arrive": _cluster_arrive,
    "barrier.cluster.wait": _cluster_wait,
    **dict.fromkeys(
        (
            "fence.proxy.alias",
            "membar.proxy.alias",
            "griddepcontrol.launch_dependents",
            "prefetch",
            "prefetchu",
            "prefetch.tensormap",
            "cp.async.bulk.prefetch",
            "cp.async.bulk.prefetch.tensor",
            "cp.async.bulk.prefetch.tensor.gather4",
            "cp.async.bulk.prefetch.tensor.keep",
            "cp.async.bulk.prefetch.keep",
            "applypriority",
            "applypriority.async.bulk",
            "applypriority.async.bulk.tensor",
            "discard",
            "pmevent",
        ),
        _nothing,
    ),
    **dict.fromkeys(_FENCES, _fence),
    "nanosleep": _nanosleep,
}
