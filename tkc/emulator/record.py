"""The happens-before record: who accessed what, what orders it, and which pairs nothing orders.

Warps and operations tell it what they access and how they synchronise; it keeps a clock for each group of lanes and for
each object through which they meet (`clocks.py`), and the last accesses of every piece of memory (`shadow.py`). What it
finds depends on which accesses happen, and not on when: the values may be right by luck.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.clocks import (
    BEFORE,
    GLOBAL,
    HALF,
    LATER,
    MAP,
    MAP_HALF,
    ORDER,
    PENDING,
    RUN,
    SHARED,
    TENSOR,
    Clock,
    Components,
)
from tkc.emulator.events import BRIDGED, GENERIC, LANE_BITS, RAW, SEVERAL, Events, Who
from tkc.emulator.lanes import BOOLS, FULL, LANES, SELECT, Vec
from tkc.emulator.races import Pair, describe
from tkc.emulator.shadow import Shadow
from tkc.emulator.unused import Uses
from tkc.emulator.view import View
from tkc.ir.isa.assumptions import STRICT, granted
from tkc.ir.isa.memory import Done, Kind, Proxy

if TYPE_CHECKING:
    from tkc.emulator.cta import Cluster, Cta
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.machine import Machine
    from tkc.emulator.mbarrier import MBarrier
    from tkc.emulator.spaces import Origin, Region
    from tkc.emulator.warp import Warp

OWN = (RUN, ORDER, TENSOR)
"""The rows in which a thread knows its own accesses."""
COMPLETED = (RUN, ORDER, TENSOR, BEFORE, LATER)
SCOPES = {"cta": 1, "cluster": 2, "gpu": 3, "gl": 3, "sys": 4}


class Part:
    """Lanes of a warp that know the same: `seen` is what they read and did not acquire, `ready` what a fence released."""

    __slots__ = ("clock", "mask", "ready", "seen")

    def __init__(self, mask: int, clock: Clock) -> None:
        self.mask = mask
        self.clock = clock
        self.seen: Clock | None = None
        self.ready: Clock | None = None

    def divided(self, mask: int) -> Part:
        """Some of the lanes as a part of their own."""
        made = Part(self.mask & mask, self.clock.copy())
        made.seen = self.seen.copy() if self.seen is not None else None
        made.ready = self.ready.copy() if self.ready is not None else None
        self.mask &= ~mask
        return made

    def join(self, other: Part) -> None:
        self.mask |= other.mask
        self.clock.join(other.clock)
        if other.seen is not None:
            self.see(other.seen)
        if other.ready is not None:
            if self.ready is None:
                self.ready = other.ready
            else:
                self.ready.join(other.ready)

    def see(self, source: Clock) -> None:
        if self.seen is None:
            self.seen = source.copy()
        else:
            self.seen.join(source)


class WarpClock:
    """What a warp knows. `time` is that of its accesses now; `base` the component of its first lane."""

    __slots__ = ("base", "components", "copies", "inits", "issued", "moves", "parts", "time")

    def __init__(self, components: Components, warp: Warp) -> None:
        self.components = components
        self.base = components.lane(warp.cta.rank, warp.index)
        self.time = 1
        self.parts = [Part(FULL, Clock(components))]
        self.moves: dict[str, list[int]] = {"ld": [], "st": []}
        self.issued: dict[int, int] = {}
        self.copies = 0
        self.inits = 0

    def lanes(self, mask: int) -> Any:
        """An index of the components of some lanes."""
        if mask == FULL:
            return slice(self.base, self.base + LANES)
        return self.base + SELECT[mask]

    def split(self, mask: int, alive: int) -> list[Part]:
        """The parts that make up the lanes of a mask."""
        found: list[Part] = []
        for part in list(self.parts):
            mine = part.mask & mask
            if not mine:
                continue
            if part.mask & alive & ~mask:
                part = part.divided(mask)
                self.parts.append(part)
            found.append(part)
        return found


class Op:
    """An asynchronous operation: what its issuer knew, and the events of its accesses.

    Its accesses are complete at `time` of `component`, or while that is pending at a time that its completion gives.
    """

    __slots__ = (
        "clock",
        "component",
        "events",
        "ins",
        "issue",
        "kind",
        "lane",
        "name",
        "pending",
        "place",
        "rank",
        "time",
        "waited",
        "warp",
    )

    def __init__(self, name: str, warp: Warp, lane: int, ins: Instruction, clock: Clock) -> None:
        self.name = name
        self.warp = warp
        self.lane = lane
        self.ins = ins
        self.clock = clock
        self.rank = warp.cta.rank
        self.component = 0
        self.time = PENDING
        self.kind = BRIDGED
        self.events: list[int] = []
        self.pending: list[int] = []
        self.issue = (0, 0)
        self.place: Any = None
        self.waited = ""

    def describe(self) -> str:
        lane = f" lane {self.lane}" if self.lane >= 0 else ""
        return f"{self.name} of {self.warp.name}{lane}"


class BarrierClock:
    """What the arrivals on an mbarrier have released: in the phase under way, and up to the last that is over.

    `wide` is for waits of cluster scope only: what threads of other CTAs released.
    """

    __slots__ = ("component", "current", "done", "done_wide", "init", "waits", "wide")

    def __init__(self, components: Components, component: int, init: tuple[int, int]) -> None:
        self.component = component
        self.current = Clock(components)
        self.wide: Clock | None = None
        self.done: Clock | None = None
        self.done_wide: Clock | None = None
        self.init = init
        self.waits: dict[Warp, tuple[int, int, Instruction]] = {}


class Record:
    """The record of one launch under one profile; `found` is called with every new finding's pair."""

    def __init__(self, machine: Machine, model: str) -> None:
        self.machine = machine
        self.grants = granted(model)
        self.strict = model == STRICT
        self.grants_later = "A5" in self.grants
        self.events = Events()
        self.acting: Op | None = None
        self.words: dict[tuple[int, int], Clock] = {}
        self.pairs: dict[tuple[str, int, int], Pair] = {}
        self._who: dict[tuple[int, int, int, str], Who] = {}
        self._order: dict[int, tuple[int, bool, bool, bool]] = {}
        self._clusters = 0
        self._uses: Uses | None = None
        self._writing: Any = None
        self._ran: dict[tuple[int, int], dict[int, Vec]] = {}

    # Who is who

    def components(self, cluster: Cluster) -> Components:
        found = cluster.components
        if found is None:
            warps = len(cluster.ctas[0].warps)
            found = cluster.components = Components(self._clusters, cluster.size, warps)
            self._clusters += 1
        return found

    def of(self, w: Warp) -> WarpClock:
        found = w.clock
        if found is None:
            found = w.clock = WarpClock(self.components(w.cta.cluster), w)
        return found

    def who(self, ins: Instruction, agent: Any, mask: int, kind: Kind) -> Who:
        key = (id(ins), id(agent), mask, kind)
        found = self._who.get(key)
        if found is None:
            found = self._who[key] = Who(ins, agent, mask, str(kind))
        return found

    # Learning and telling

    def publish(self, w: Warp, mask: int, to: Clock, release: bool = True) -> None:
        """Some lanes put what they know into a clock; without `release`, that they have come, and what fences released."""
        mine = self.of(w)
        for part in mine.parts:
            here = part.mask & mask
            if not here:
                continue
            own = mine.lanes(here)
            if release:
                to.join(part.clock)
                to.fit()[: len(OWN), own] = mine.time
                continue
            times = part.clock.times
            to.join_row(RUN, times[RUN])
            to.join_row(HALF, times[HALF])
            to.times[RUN, own] = mine.time
            if part.ready is not None:
                to.join(part.ready)
        mine.time += 1

    def learn(
        self, w: Warp, mask: int, source: Clock, acquire: bool = True, tensor: bool = True
    ) -> None:
        """Some lanes learn what a clock holds: `tensor` memory's order with the rest, or by a fence of its own."""
        for part in self.of(w).split(mask, w.alive):
            clock = part.clock
            if not acquire:
                part.see(source)
                clock.join_row(RUN, source.fit()[RUN])
                clock.join_row(HALF, source.times[HALF])
            elif tensor:
                clock.join(source)
            else:
                kept = clock.fit()[TENSOR].copy()
                clock.join(source)
                clock.times[TENSOR, : len(kept)] = kept
                clock.times[TENSOR, len(kept) :] = 0

    def meet(self, w: Warp, mask: int) -> None:
        """bar.warp.sync, and everything that orders all lanes of a warp: they know each other's accesses."""
        mine = self.of(w)
        parts = mine.split(mask, w.alive)
        first = parts[0]
        for other in parts[1:]:
            first.join(other)
            mine.parts.remove(other)
        first.clock.fit()[: len(OWN), mine.lanes(mask)] = mine.time
        mine.time += 1

    # Fences

    def fence_proxy(self, w: Warp, space: str) -> None:
        """fence.proxy.async: what is known now may be relied on across the proxies, for memory of this CTA (PTX 9.7.15.4)."""
        mine = self.of(w)
        components = mine.components
        rank = w.cta.rank
        rows = {
            "shared::cta": [SHARED + rank],
            "shared::cluster": [SHARED + rank],
            "global": [GLOBAL],
        }.get(space, [SHARED + rank, GLOBAL])
        if components.ctas > 1 and space in ("", "shared::cluster"):
            rows = [*rows, components.reach(rank)]
        for part in mine.split(w.mask, w.alive):
            times = part.clock.fit()
            known = times[ORDER].copy()
            known[mine.lanes(part.mask & w.mask)] = mine.time
            for row in rows:
                np.maximum(times[row], known, out=times[row])
        mine.time += 1

    def fence_half(self, w: Warp, acquires: bool) -> None:
        """The one-way proxy fences: each thread releases its own accesses, the acquiring CTA may then use them."""
        mine = self.of(w)
        rank, components = w.cta.rank, mine.components
        for part in mine.split(w.mask, w.alive):
            times = part.clock.fit()
            if acquires:
                rows = range(SHARED, components.rows)
                for row in rows:
                    np.maximum(times[row], times[HALF], out=times[row])
                np.maximum(times[ORDER], times[HALF], out=times[ORDER])
            else:
                times[HALF, mine.lanes(part.mask & w.mask)] = mine.time
        del rank
        mine.time += 1

    def fence_map(self, w: Warp, acquires: bool) -> None:
        """fence.proxy.tensormap: a release, then an acquire that has come to know of it."""
        mine = self.of(w)
        for part in mine.split(w.mask, w.alive):
            times = part.clock.fit()
            if acquires:
                np.maximum(times[MAP], np.minimum(times[MAP_HALF], times[ORDER]), out=times[MAP])
            else:
                known = times[ORDER].copy()
                known[mine.lanes(part.mask & w.mask)] = mine.time
                np.maximum(times[MAP_HALF], known, out=times[MAP_HALF])
        mine.time += 1

    def fence(self, w: Warp, acquires: bool, releases: bool) -> None:
        """fence.acq_rel and its kin: what was seen is acquired, what is known is ready to be released."""
        mine = self.of(w)
        for part in mine.split(w.mask, w.alive):
            if acquires and part.seen is not None:
                part.clock.join(part.seen)
                part.seen = None
            if releases:
                ready = part.clock.copy()
                ready.fit()[: len(OWN), mine.lanes(part.mask & w.mask)] = mine.time
                part.ready = ready
        mine.time += 1

    def fence_init(self, w: Warp) -> None:
        """fence.mbarrier_init: the thread's new mbarriers may be used by who hears of it, even without a release."""
        mine = self.of(w)
        at = self._init_component(w)
        for part in mine.split(w.mask, w.alive):
            if part.ready is None:
                part.ready = Clock(mine.components)
            times = part.ready.fit()
            times[ORDER, at] = max(int(times[ORDER, at]), int(part.clock.fit()[ORDER, at]))

    def fence_tensor(self, w: Warp, before: bool) -> None:
        """tcgen05.fence: earlier tensor work may be ordered by what follows, or later work by what came before."""
        mine = self.of(w)
        for part in mine.split(w.mask, w.alive):
            times = part.clock.fit()
            if not before:
                if part.seen is not None:
                    np.maximum(times[BEFORE], part.seen.fit()[BEFORE], out=times[BEFORE])
                np.maximum(times[TENSOR], times[BEFORE], out=times[TENSOR])
                continue
            lanes = part.mask & w.mask
            np.maximum(times[BEFORE], times[TENSOR], out=times[BEFORE])
            times[BEFORE, mine.lanes(lanes)] = mine.time
            for lane in SELECT[lanes].tolist() if mine.issued else ():
                if lane in mine.issued:
                    at = self._tensor_component(w, lane) + 1
                    times[COMPLETED, at] = mine.issued[lane]
        mine.time += 1

    # Barriers of a CTA and of a cluster

    def barrier_arrive(self, w: Warp, barrier: Any) -> None:
        if barrier.clock is None:
            barrier.clock = Clock(self.of(w).components)
        self.publish(w, w.mask, barrier.clock)

    def barrier_leave(self, w: Warp, mask: int, barrier: Any) -> None:
        self.learn(w, mask, barrier.clock, tensor=False)
        mine = self.of(w)
        if len(mine.parts) > 1 and not (w.alive & ~mask):
            self.meet(w, mask)

    def cluster_arrive(self, w: Warp, relaxed: bool) -> None:
        cluster = w.cta.cluster
        if cluster.clock is None:
            cluster.clock = Clock(self.of(w).components)
        self.publish(w, w.mask, cluster.clock, not relaxed)

    def cluster_leave(self, w: Warp, mask: int) -> None:
        self.learn(w, mask, w.cta.cluster.released)
        if len(self.of(w).parts) > 1 and not (w.alive & ~mask):
            self.meet(w, mask)

    def cluster_release(self, cluster: Cluster) -> None:
        cluster.released = cluster.clock.copy() if cluster.clock is not None else None

    # mbarriers

    def _init_component(self, w: Warp) -> int:
        name = ("init", w.cta.rank, w.index)
        return self.of(w).components.named(name, asynchronous=False)

    def barrier_init(self, w: Warp, barrier: MBarrier) -> None:
        mine = self.of(w)
        at = self._init_component(w)
        mine.inits += 1
        for part in mine.split(w.mask, w.alive):
            part.clock.fit()[: len(OWN), at] = mine.inits
        components = mine.components
        component = components.named(("mbarrier", len(components.asynchronous), id(barrier)))
        barrier.clock = BarrierClock(components, component, (at, mine.inits))

    def _known_barrier(self, clock: Clock, barrier: MBarrier, ins: Instruction, agent: Any) -> None:
        at, number = barrier.clock.init
        if clock.fit()[ORDER, at] < number:
            self.machine.found(
                "TK303",
                f"the mbarrier at {barrier.address:#x} is used, and nothing orders this after its initialisation",
                ins,
                agent,
                notes=(
                    "cheapest order: fence.mbarrier_init.release.cluster after mbarrier.init, then a barrier that"
                    " every user comes to (bar.sync in one CTA, barrier.cluster in a cluster)",
                ),
            )

    def _check_init(self, w: Warp, mask: int, barrier: MBarrier, ins: Instruction) -> None:
        for part in self.of(w).parts:
            if part.mask & mask:
                self._known_barrier(part.clock, barrier, ins, w)

    def arrive(self, w: Warp, barrier: MBarrier, mask: int, ins: Instruction) -> None:
        """Threads arrive on an mbarrier: a release, of the scope that the instruction says."""
        bar: BarrierClock = barrier.clock
        self._check_init(w, mask, barrier, ins)
        release = ins.mod("sem", "release") != "relaxed"
        if barrier.cta is w.cta:
            self.publish(w, mask, bar.current, release)
            return
        told = Clock(self.of(w).components)
        self.remote(barrier.cta, self.of(w).base + SELECT[mask][0], self.of(w).time, ins, w)
        self.publish(w, mask, told, release)
        bar.current.join_row(RUN, told.times[RUN])
        bar.current.join_row(HALF, told.times[HALF])
        if not release:
            return
        if "A2" in self.grants:
            bar.current.join_completions(told, COMPLETED, ORDER)
        if SCOPES.get(ins.mod("scope", "cta"), 1) > 1:
            if bar.wide is None:
                bar.wide = Clock(self.of(w).components)
            bar.wide.join(told)

    def copies_arrive(self, w: Warp, barrier: MBarrier, number: int, ins: Instruction) -> None:
        """cp.async.mbarrier.arrive: releases the copies of the warp so far, and nothing else (PTX 8.9.1.1)."""
        bar: BarrierClock = barrier.clock
        at = self._copy_component(w)
        self._check_init(w, w.mask, barrier, ins)
        bar.current.fit()[COMPLETED, at] = number

    def complete(self, barrier: MBarrier, ins: Instruction) -> None:
        """The operation at work completes on an mbarrier: a release of its own accesses alone."""
        op = self.acting
        if op is None:
            return
        bar: BarrierClock = barrier.clock
        self._known_barrier(op.clock, barrier, ins, op.warp)
        time = barrier.phase + 1
        for event in op.pending:
            self.events.stamp(event, bar.component, time, op.kind)
        op.pending = []
        self._completed(op, barrier, bar.component, time)

    def commit(self, barrier: MBarrier, ins: Instruction) -> None:
        """tcgen05.commit arrives: what its thread had issued to the tensor core is complete."""
        op = self.acting
        assert op is not None
        self._known_barrier(op.clock, barrier, ins, op.warp)
        self._completed(op, barrier, op.component, op.time)
        self._completed(op, barrier, op.component + 1, op.time)

    def _completed(self, op: Op, barrier: MBarrier, component: int, time: int) -> None:
        bar: BarrierClock = barrier.clock
        local = barrier.cta.rank == op.rank
        if not local:
            self.remote(barrier.cta, component, time, op.ins, op)
        bar.current.join_row(RUN, op.clock.fit()[RUN])
        if local or "A2" in self.grants:
            to = bar.current
        else:
            bar.current.times[RUN, component] = time
            if bar.wide is None:
                bar.wide = Clock(bar.current.components)
            to = bar.wide
        times = to.fit()
        times[COMPLETED, component] = np.maximum(times[COMPLETED, component], time)
        if self.grants_later:
            to.join_completions(op.clock, (LATER,), ORDER)
            to.join_completions(op.clock, (LATER,), LATER)

    def phase_over(self, barrier: MBarrier) -> None:
        """A phase is over: what its arrivals released is there to be acquired."""
        bar: BarrierClock = barrier.clock
        run = bar.current.fit()[RUN]
        for w, (_, time, ins) in bar.waits.items():
            base = self.of(w).base
            if run[base : base + LANES].max() < time:
                self._lapped(w, barrier, ins)
        bar.waits = {}
        bar.done = bar.current.copy()
        bar.done_wide = bar.wide.copy() if bar.wide is not None else None

    def _lapped(self, w: Warp, barrier: MBarrier, ins: Instruction) -> None:
        self.machine.found(
            "TK306",
            f"phase {barrier.phase} of the mbarrier at {barrier.address:#x} may be over before this wait has seen"
            f" phase {barrier.phase - 1}",
            ins,
            w,
            notes=(
                "a wait by parity tells only the last phase from the one before: let an arrival of the next phase"
                " come after every wait for this one",
            ),
        )

    def waited(self, w: Warp, barrier: MBarrier, mask: int, ins: Instruction) -> None:
        """A wait has seen its phase over."""
        bar: BarrierClock = barrier.clock
        self._check_init(w, mask, barrier, ins)
        bar.waits[w] = (mask, self.of(w).time, ins)
        if bar.done is None:
            return
        acquire = ins.mod("sem", "acquire") != "relaxed"
        self.learn(w, mask, bar.done, acquire)
        if bar.done_wide is not None and SCOPES.get(ins.mod("scope", "cta"), 1) > 1:
            self.learn(w, mask, bar.done_wide, acquire)

    # Operations

    def issued(self, name: str, w: Warp, lane: int | None, ins: Instruction, done: Done) -> Op:
        """An operation that one lane, or with None the active lanes together, have issued."""
        mine = self.of(w)
        mask = w.mask if lane is None else 1 << lane
        clock = Clock(mine.components)
        time = mine.time
        self.publish(w, mask, clock)
        op = Op(name, w, -1 if lane is None else lane, ins, clock)
        op.issue = (mine.base + int(SELECT[mask][0]), time)
        op.component = mine.components.named("never", asynchronous=False)
        if done is Done.TCGEN05_COMMIT:
            assert lane is not None
            op.component = self._tensor_component(w, lane)
            if name != "tcgen05.commit":
                mine.issued[lane] = mine.issued.get(lane, 0) + 1
            op.time = mine.issued.get(lane, 0)
            op.kind = BRIDGED if "A6" in self.grants else RAW
        elif done is Done.CP_ASYNC_GROUP:
            mine.copies += 1
            op.component, op.time, op.kind = self._copy_component(w), mine.copies, GENERIC
        return op

    def issued_together(self, name: str, warps: list[Warp], ins: Instruction, number: int) -> Op:
        """An operation of a warpgroup: it may rely on what all four warps know."""
        first = warps[0]
        components = self.of(first).components
        clock: Clock | None = None
        for w in warps:
            mine = self.of(w)
            told = Clock(components)
            self.publish(w, w.alive, told)
            for part in mine.parts:
                known = part.clock.fit().copy()
                known[: len(OWN), mine.lanes(w.alive)] = told.times[: len(OWN), mine.lanes(w.alive)]
                if clock is None:
                    clock = Clock(components, known)
                else:
                    np.minimum(clock.fit(), known, out=clock.times)
        assert clock is not None
        op = Op(name, first, -1, ins, clock)
        op.component = self._group_component(first)
        op.time = number + 1
        ran = Clock(components)
        for w in warps:
            for part in self.of(w).parts:
                ran.join_row(RUN, part.clock.fit()[RUN])
            ran.times[RUN, self.of(w).lanes(w.alive)] = self.of(w).time - 1
        self._ran.setdefault((id(first.cta), first.index // 4), {})[op.time] = ran.times[RUN]
        return op

    def follow(self, op: Op, steps: Iterator[None]) -> Iterator[None]:
        """The steps of an operation, with the operation named as the one at work."""
        while True:
            before, self.acting = self.acting, op
            try:
                next(steps)
            except StopIteration:
                return
            finally:
                self.acting = before
            yield

    def _tensor_component(self, w: Warp, lane: int) -> int:
        """Two components: what a thread's tensor work has completed, and what of it is in order without that."""
        return self.of(w).components.named(("tensor", w.cta.rank, w.index, lane), 2)

    def _copy_component(self, w: Warp) -> int:
        return self.of(w).components.named(("copies", w.cta.rank, w.index), asynchronous=False)

    def _group_component(self, w: Warp) -> int:
        return self.of(w).components.named(("wgmma", w.cta.rank, w.index // 4), 4)

    # Waits of a thread for its own work

    def stored(self, w: Warp, lane: int, op: Op | None, reads: bool) -> None:
        """A bulk group has been awaited by its thread: its sources are read, or all of it is done."""
        if op is None or op.waited == "all" or (reads and op.waited):
            return
        mine = self.of(w)
        op.waited = "read" if reads else "all"
        kind = BRIDGED if not reads or "A7" in self.grants else RAW
        left: list[int] = []
        for event in op.pending:
            who = self.events.who[event]
            assert who is not None
            if reads and who.verb != Kind.READ:
                left.append(event)
            else:
                self.events.stamp(event, mine.base + lane, mine.time, kind)
        op.pending = left
        op.component, op.time, op.kind = (
            (mine.base + lane, mine.time, kind) if not reads else (op.component, op.time, op.kind)
        )

    def copied(self, w: Warp, number: int) -> None:
        """cp.async up to a number have been awaited by the active lanes."""
        at = self._copy_component(w)
        for part in self.of(w).split(w.mask, w.alive):
            times = part.clock.fit()
            times[COMPLETED, at] = np.maximum(times[COMPLETED, at], number)

    def multiplied(self, w: Warp, number: int) -> None:
        """wgmma up to a number have been awaited by a warp, for itself or (A12) for its warpgroup."""
        at = self._group_component(w)
        places = range(at, at + 4) if "A12" in self.grants else (at + w.index % 4,)
        # Nothing of a warpgroup runs before all four warps have come to it.
        ran = self._ran.get((id(w.cta), w.index // 4), {})
        for done in [n for n in ran if n < number]:
            del ran[done]
        for part in self.of(w).split(w.mask, w.alive):
            times = part.clock.fit()
            for one in places:
                times[COMPLETED, one] = np.maximum(times[COMPLETED, one], number)
            if number in ran:
                part.clock.join_row(RUN, ran[number])

    def moved(self, w: Warp, what: str) -> None:
        """tcgen05.wait::ld or ::st: the warp's loads or stores of tensor memory are done."""
        mine = self.of(w)
        for event in mine.moves[what]:
            self.events.stamp(event, mine.base, mine.time, GENERIC)
        mine.moves[what] = []

    # Accesses

    def access(
        self,
        agent: Any,
        origin: Origin,
        kind: Kind,
        region: Region,
        offsets: Vec,
        size: int,
        where: Vec | None = None,
    ) -> None:
        if region.space == "local" or region.space == "param":
            return
        if int(offsets.max()) + size > region.size:
            # Outside of the region: the access itself stops the launch.
            return
        cells = region.cells
        if cells is None:
            cells = region.cells = Shadow(region.size)
            if region.space == "global":
                cells.log = []
        if self.acting is not None:
            self._operation(self.acting, origin, kind, region, cells, offsets, size)
        else:
            self._threads(agent, origin, kind, region, cells, offsets, size, where)

    def _operation(
        self,
        op: Op,
        origin: Origin,
        kind: Kind,
        region: Region,
        cells: Shadow,
        offsets: Vec,
        size: int,
    ) -> None:
        is_async = origin.proxy is not Proxy.GENERIC
        strong = _strength(origin.ins.row.name)
        event = self._event(op, origin.ins, kind, GENERIC if not is_async else op.kind, strong)
        home = region.owner.rank if region.space == "shared" else None
        view = View(self, op.clock, event, is_async, home, op.rank, strong, op.events)
        view.place = region
        if home is not None and home != op.rank:
            self._remote_event(region.owner, event, op)
        several = self.strict and origin.done is Done.WGMMA_GROUP
        cells.touch(
            view, kind, offsets, size, event << LANE_BITS | (SEVERAL if several else 0), None
        )

    def _event(self, op: Op, ins: Instruction, kind: Kind, proxy: int, strong: int = 0) -> int:
        mask = 0xF if op.name == "wgmma" else 1
        event = self.events.add(
            op.component,
            op.time,
            proxy,
            strong,
            op.clock.components.number,
            self.who(ins, op, mask, kind),
        )
        op.events.append(event)
        if op.time == PENDING:
            op.pending.append(event)
        return event

    def _threads(
        self,
        w: Warp,
        origin: Origin,
        kind: Kind,
        region: Region,
        cells: Shadow,
        offsets: Vec,
        size: int,
        where: Vec | None,
    ) -> None:
        mine = w.clock or self.of(w)
        mask = w.mask
        ins = origin.ins
        strong, acquires, releases, changes = self._semantics(ins)
        if strong and kind is Kind.READ and self.words:
            self._see(w, region, offsets, where, acquires)
        event = self.events.add(
            mine.base,
            mine.time,
            GENERIC,
            strong,
            mine.components.number,
            self.who(ins, w, mask, kind),
        )
        lanes: Vec | None = SELECT[mask]
        if where is not None:
            lanes = lanes[where]
        elif origin.collective or len(offsets) != len(lanes):
            lanes = None
        home = None
        if region.space == "shared":
            home = region.owner.rank
            if home != w.cta.rank:
                self.remote(region.owner, mine.base + int(SELECT[mask][0]), mine.time, ins, w)
        if kind is Kind.WRITE:
            self._writing = (region, offsets, size)
        parts = [p for p in mine.parts if p.mask & mask]
        need = min(strong, 3) if home is None or home != w.cta.rank else min(strong, 1)
        if lanes is None:
            clock = parts[0].clock if len(parts) == 1 else _common(parts)
            view = View(self, clock, event, False, home, w.cta.rank, need)
            view.place = region
            single = mask & (mask - 1) == 0
            lane = mask.bit_length() - 1 if single else SEVERAL
            own = np.full(len(offsets), mine.base + lane) if single else None
            cells.touch(view, kind, offsets, size, event << LANE_BITS | lane, own)
        else:
            for part in parts:
                view = View(self, part.clock, event, False, home, w.cta.rank, need)
                view.place = region
                here, places = lanes, offsets
                if len(parts) > 1:
                    mine_too = BOOLS[part.mask][lanes]
                    here, places = lanes[mine_too], offsets[mine_too]
                    if not len(here):
                        continue
                codes = here.astype(np.int64) | event << LANE_BITS
                cells.touch(view, kind, places, size, codes, here + mine.base)
        if strong and kind is Kind.WRITE:
            self._tell(w, region, offsets, where, releases, changes)

    def tensor_access(
        self,
        agent: Any,
        origin: Origin,
        kind: Kind,
        memory: Any,
        lanes: Any,
        start: int,
        stop: int,
    ) -> None:
        return

    # Strong accesses: synchronisation through words of memory

    def _semantics(self, ins: Instruction) -> tuple[int, bool, bool, bool]:
        """(scope of a strong access or 0, acquires, releases, reads and writes at once)."""
        found = self._order.get(id(ins))
        if found is None:
            name = ins.row.name.partition(".")[0]
            sem, scope = ins.mod("sem"), SCOPES.get(ins.mod("scope", "gpu"), 3)
            changes = name in ("atom", "red")
            if name not in ("ld", "st", "atom", "red") or (not changes and sem in ("", "weak")):
                found = (0, False, False, False)
            else:
                if sem in ("volatile", "mmio"):
                    scope = 4
                found = (
                    scope,
                    sem in ("acquire", "acq_rel") and name != "red",
                    sem in ("release", "acq_rel"),
                    changes,
                )
            self._order[id(ins)] = found
        return found

    def _see(
        self, w: Warp, region: Region, offsets: Vec, where: Vec | None, acquires: bool
    ) -> None:
        lanes = SELECT[w.mask] if where is None else SELECT[w.mask][where]
        masks: dict[int, int] = {}
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=False):
            if (id(region), offset) in self.words:
                masks[offset] = masks.get(offset, 0) | 1 << lane
        for offset, mask in masks.items():
            self.learn(w, mask, self.words[id(region), offset], acquires)

    def _tell(
        self,
        w: Warp,
        region: Region,
        offsets: Vec,
        where: Vec | None,
        releases: bool,
        changes: bool,
    ) -> None:
        mine = self.of(w)
        ready = any(p.ready is not None and p.mask & w.mask for p in mine.parts)
        if not releases and not ready and (changes or not self.words):
            return
        lanes = SELECT[w.mask] if where is None else SELECT[w.mask][where]
        masks: dict[int, int] = {}
        for lane, offset in zip(lanes.tolist(), offsets.tolist(), strict=False):
            masks[offset] = masks.get(offset, 0) | 1 << lane
        for offset, mask in masks.items():
            key = (id(region), offset)
            if not releases and not ready:
                self.words.pop(key, None)
                continue
            told = Clock(mine.components)
            self.publish(w, mask, told, releases)
            before = self.words.get(key)
            if changes and before is not None:
                told.join(before)
            self.words[key] = told

    # Other CTAs' memory, and the end of a CTA

    def remote(self, cta: Cta, component: int, time: int, ins: Instruction, agent: Any) -> None:
        """An agent of another CTA has touched this one's shared memory or mbarriers."""
        if not cta.live:
            self._exited(cta, ins, agent)
        cta.visitors[component] = (time, ins, agent)

    def _remote_event(self, cta: Cta, event: int, op: Op) -> None:
        if not cta.live:
            self._exited(cta, op.ins, op)
        cta.visits.append(event)

    def ended(self, w: Warp, mask: int) -> None:
        """Lanes have ended; with the last of a CTA, everything that others did to its memory must be over."""
        cta = w.cta
        if cta.cluster.size == 1:
            return
        if cta.left is None:
            cta.left = Clock(self.of(w).components)
        self.publish(w, mask, cta.left)
        if cta.live:
            return
        known = cta.left.fit()[RUN]
        for component, (time, ins, agent) in cta.visitors.items():
            if known[component] < time:
                self._exited(cta, ins, agent)
        events = self.events
        for event in cta.visits:
            if known[events.component[event]] < events.time[event]:
                who = events.who[event]
                assert who is not None
                self._exited(cta, who.ins, who.agent)

    def _exited(self, cta: Cta, ins: Instruction, agent: Any) -> None:
        name = agent.describe()
        self.machine.found(
            "TK313",
            f"{cta.name} may have ended when {name} reaches its shared memory",
            ins,
            agent if not isinstance(agent, Op) else name,
            notes=(
                "cheapest order: barrier.cluster.arrive and .wait by all threads before they end",
            ),
        )

    # Findings

    def conflict(self, view: View, before: Kind, now: Kind, codes: Vec, last: Vec) -> None:
        """Accesses of `codes` do not come before that of the view: a finding for each pair of instructions.

        `last` are the writes that stood there.
        """
        events = self.events
        numbers, first = np.unique(codes >> LANE_BITS, return_index=True)
        for number, at in zip(numbers.tolist(), first.tolist(), strict=True):
            if view.ignored and number in view.ignored:
                continue
            old, new = events.who[number], events.who[view.event]
            assert old is not None and new is not None
            pair = Pair(view, number, int(codes[at]) & SEVERAL, before, now, old, new)
            if self.harmless(pair, int(last[at])):
                continue
            code, message, notes = describe(self, pair)
            key = (code, old.ins.line, new.ins.line)
            if key in self.pairs:
                continue
            self.pairs[key] = pair
            self.machine.raced(code, message, pair, notes)

    def harmless(self, pair: Pair, last: int) -> bool:
        """Whether a pair that is not ordered changes nothing, by one of the profile's assumptions."""
        old, new = pair.old, pair.new
        threads = not isinstance(old.agent, Op), not isinstance(new.agent, Op)
        if pair.lane == SEVERAL and old.agent is new.agent and pair.before is Kind.WRITE:
            # Each of the lanes has written the place itself.
            return not new.mask & ~old.mask
        if not threads[0]:
            return False
        if new.ins.row.name == "tcgen05.alloc" and old.agent is new.agent:
            # All lanes of the warp write the word, each after its own reads (PTX 9.7.18.6.1).
            return True
        events, grants = self.events, self.grants
        if not threads[1]:
            writer = events.who[last >> LANE_BITS]
            word = writer is not None and writer.ins.row.name == "tcgen05.alloc"
            return word and "A19" in grants and self._ordered(pair)
        if "A16" in grants and old.ins is new.ins and (pair.before, pair.now) == (Kind.WRITE,) * 2:
            return self._changes_nothing()
        strong = (
            self._semantics(new.ins)[0] if pair.before is Kind.READ else events.strong[pair.number]
        )
        if (
            "A18" in grants
            and Kind.READ in (pair.before, pair.now)
            and strong
            and pair.view.home is None
        ):
            return True
        if "A17" in grants:
            if pair.before is Kind.READ:
                return self._unused(old, self._late_lanes(pair))
            if pair.now is Kind.READ:
                return self._unused(new, new.mask)
        return False

    def _late_lanes(self, pair: Pair) -> int:
        """The lanes of the first access that do not come before the second."""
        lanes = SELECT[pair.old.mask] if pair.lane == SEVERAL else np.array([pair.lane])
        times = self.events.time[pair.number]
        at = int(self.events.component[pair.number]) + lanes
        late = lanes[pair.view.clock.fit()[ORDER].take(at, mode="clip") < times]
        mask = sum(1 << int(lane) for lane in late)
        new = pair.new
        if pair.old.agent is new.agent and new.mask & (new.mask - 1) == 0:
            mask &= ~new.mask
        return mask

    def _ordered(self, pair: Pair) -> bool:
        times = pair.view.clock.fit()[ORDER]
        at = self.lane_component(pair.number, pair.lane)
        return bool((times[at] >= self.events.time[pair.number]).all())

    def _changes_nothing(self) -> bool:
        """Whether the write at hand writes what is there already."""
        values, (region, offsets, size) = self.machine.memory.values, self._writing
        if values is None:
            return False
        width, count = 8 * values.dtype.itemsize, values.shape[1] if values.ndim > 1 else 1
        if width // 8 * count != size:
            return False
        there = region.view(width, count)[offsets // np.array(size, offsets.dtype)]
        return bool(np.array_equal(there, values.view(there.dtype)))

    def _unused(self, who: Who, lanes: int) -> bool:
        """Whether lanes that read use nothing of it."""
        if self._uses is None:
            self._uses = Uses(self.machine.program)
        guard = self._uses.guard(who.ins)
        if guard is None:
            return False
        held = who.agent.R[guard[0]]
        if held is None:
            return False
        return not (~held if guard[1] else held) & lanes

    # For a report

    def lane_component(self, number: int, lane: int) -> list[int]:
        """The components that stand for an access: several where several lanes made it."""
        start = int(self.events.component[number])
        if lane != SEVERAL:
            return [start + lane]
        who = self.events.who[number]
        assert who is not None
        return [start + int(x) for x in SELECT[who.mask]]


def _strength(name: str) -> int:
    """The scope of an operation's accesses that are atomic: negative in the async proxy, 0 where they are weak."""
    if name.startswith("cp.reduce"):
        return -3 if not name.endswith("cluster") else -2
    return 2 if name == "red.async" else 0


def _common(parts: list[Part]) -> Clock:
    """What all parts know."""
    made = parts[0].clock.copy()
    for part in parts[1:]:
        np.minimum(made.fit(), part.clock.fit(), out=made.times)
    return made
