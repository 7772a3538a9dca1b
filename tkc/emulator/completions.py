"""Asynchronous work: how it is issued, on what it completes, and who has waited for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.agents import COMPLETED, OWN, SCOPES, BarrierClock, Op
from tkc.emulator.clocks import LATER, ORDER, READ_A, RUN, SHARED, TENSOR, Clock
from tkc.emulator.events import BRIDGED, GENERIC, RAW
from tkc.emulator.fences import Fences
from tkc.emulator.lanes import LANES, SELECT, Vec
from tkc.ir.isa.assumptions import notes_on
from tkc.ir.isa.memory import Done, Kind

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.machine import Machine
    from tkc.emulator.mbarrier import MBarrier
    from tkc.emulator.warp import Warp


class Completions(Fences):
    """mbarriers, operations, and the waits of threads for their own."""

    def __init__(self, machine: Machine, model: str) -> None:
        super().__init__(machine, model)
        self._ran: dict[tuple[int, int], dict[int, Vec]] = {}

    # mbarriers

    def barrier_init(self, w: Warp, barrier: MBarrier) -> None:
        mine = self.of(w)
        at = self.init_component(w)
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
        bar.arrivers[w] = ins.line
        self.of(w).arrives(w)
        release = ins.mod("sem", "release") != "relaxed"
        if barrier.cta is w.cta:
            self.publish(w, mask, bar.current, release)
            return
        told = Clock(self.of(w).components)
        base = self.of(w).base + SELECT[mask][0]
        self.remote(barrier.cta, base, self.of(w).time, ins, w, self.awaited(w, mask))
        self.publish(w, mask, told, release)
        bar.current.join_row(RUN, told.times[RUN])
        bar.current.join_halves(told)
        if not release:
            return
        if "A25" in self.grants:
            # Reads alone: a view of writes asks for the order as well.
            for row in range(SHARED, SHARED + told.components.ctas):
                bar.current.join_row(row, told.times[row])
        if "A2" in self.grants:
            bar.current.join_completions(told, COMPLETED, ORDER)
            # Tensor memory is no data of the generic proxy.
            bar.current.join_row(TENSOR, told.times[TENSOR])
        if SCOPES.get(ins.mod("scope", "cta"), 1) > 1:
            if bar.wide is None:
                bar.wide = Clock(self.of(w).components)
            bar.wide.join(told)

    def copies_arrive(self, w: Warp, barrier: MBarrier, number: int, ins: Instruction) -> None:
        """cp.async.mbarrier.arrive: releases the copies of the warp so far, and nothing else (PTX 8.9.1.1).

        That the warp has come so far is told, too: it must, for the phase to be over.
        """
        bar: BarrierClock = barrier.clock
        at = self._copy_component(w)
        self._check_init(w, w.mask, barrier, ins)
        self.of(w).handed = self.of(w).time
        self.came(w, w.mask, bar.current)
        bar.current.fit()[COMPLETED, at] = number

    def relaxed_complete(self, w: Warp, barrier: MBarrier, mask: int) -> None:
        """mbarrier.complete_tx of threads: a relaxed operation, after all that they have done (PTX 9.7.15.15.12)."""
        self.publish(w, mask, barrier.clock.current, release=False)

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

    def commit(self, barrier: MBarrier, ins: Instruction, reads: bool = False) -> None:
        """tcgen05.commit arrives: what its thread had issued to the tensor core is complete; with `reads` only that
        products have read their first operands (sync_restrict::shared::read::mma::a)."""
        op = self.acting
        assert op is not None
        self._known_barrier(op.clock, barrier, ins, op.warp)
        for component in (READ_A,) if reads else (0, 1, READ_A):
            self._completed(op, barrier, op.component + component, op.time)

    def _completed(self, op: Op, barrier: MBarrier, component: int, time: int) -> None:
        bar: BarrierClock = barrier.clock
        local = barrier.cta.rank == op.rank
        bar.arrivers[op.warp] = op.ins.line
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
        for w, (time, ins, awaited) in bar.waits.items():
            base = self.of(w).base
            if run[base : base + LANES].max() < time:
                late = awaited is not None and awaited.is_known(run, bar.arrivers)
                self._lapped(w, barrier, ins, late)
        bar.waits = {}
        bar.passed = {}
        bar.done = bar.current.copy()
        bar.done_wide = bar.wide.copy() if bar.wide is not None else None

    def _lapped(self, w: Warp, barrier: MBarrier, ins: Instruction, late: bool) -> None:
        self.machine.found(
            "TK306",
            f"phase {barrier.phase} of the mbarrier at {barrier.address:#x} may be over before this wait has seen"
            f" phase {barrier.phase - 1}",
            ins,
            w,
            warning=late,
            notes=(
                "a wait by parity tells only the last phase from the one before: let an arrival of the next phase"
                " come after every wait for this one",
                *notes_on(("A31",) if late else ()),
            ),
        )

    def waited(self, w: Warp, barrier: MBarrier, mask: int, ins: Instruction) -> None:
        """A wait has seen its phase over."""
        bar: BarrierClock = barrier.clock
        self._check_init(w, mask, barrier, ins)
        bar.waits[w] = (self.of(w).time, ins, self.awaited(w, mask))
        self.of(w).passes(w, bar.passed)
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
        time = mine.time
        clock = self.snapshot(w, mask)
        op = Op(name, w, -1 if lane is None else lane, ins, clock)
        op.issue = (mine.base + int(SELECT[mask][0]), time)
        op.component = mine.components.named("never", asynchronous=False)
        if done is Done.TCGEN05_COMMIT:
            assert lane is not None
            op.component = self.tensor_component(w, lane)
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
        mine.blocked = mine.time
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

    def left_out(self, group: list[Any]) -> None:
        """A wait of the thread for its bulk groups has let this one be."""
        for token in group:
            if token.operation is not None:
                token.operation.passed = True

    def copied(self, w: Warp, number: int) -> None:
        """cp.async up to a number have been awaited by the active lanes."""
        at = self._copy_component(w)
        mine = self.of(w)
        mine.handed = mine.blocked = mine.time
        mine.time += 1
        for part in mine.split(w.mask, w.alive):
            times = part.clock.fit()
            times[COMPLETED, at] = np.maximum(times[COMPLETED, at], number)

    def multiplied(self, w: Warp, number: int) -> None:
        """wgmma up to a number have been awaited by a warp, for itself or (A12) for its warpgroup."""
        at = self._group_component(w)
        places = range(at, at + 4) if "A12" in self.grants else (at + w.index % 4,)
        self.of(w).blocked = self.of(w).time
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
        mine.blocked = mine.time
