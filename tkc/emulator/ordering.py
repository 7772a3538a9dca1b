"""How warps tell each other what they know: barriers of a warp, a CTA and a cluster, and the end of a CTA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.agents import OWN, Awaited, Op, WarpClock
from tkc.emulator.clocks import ORDER, RUN, TENSOR, Clock, Components
from tkc.emulator.events import Events, Who
from tkc.emulator.lanes import SELECT
from tkc.ir.isa.assumptions import STRICT, granted, notes_on
from tkc.ir.isa.memory import Kind

if TYPE_CHECKING:
    from tkc.emulator.cta import Cluster, Cta
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.machine import Machine
    from tkc.emulator.warp import Warp


class Ordering:
    """The clocks of one launch under one profile."""

    def __init__(self, machine: Machine, model: str) -> None:
        self.machine = machine
        self.grants = granted(model)
        self.strict = model == STRICT
        self.grants_later = "A5" in self.grants
        self.grants_home = "A1" in self.grants
        self.events = Events()
        self.acting: Op | None = None
        self.mapped: tuple[Any, int] | None = None
        """(region, offset) of the tensor map that the operation to be issued next reads."""
        self.map_reads: set[int] = set()
        self.dependent = False
        """Whether the grid ahead may still run (a programmatic dependent launch)."""
        self._ahead: dict[int, int] = {}
        """The component that stands for it, by cluster."""
        self._who: dict[tuple[int, int, int, str], Who] = {}
        self._clusters = 0

    # The grids ahead

    def grids_awaited(self, w: Warp) -> None:
        """griddepcontrol.wait: the active lanes know that the grids ahead are over."""
        if not self.dependent:
            return
        mine = self.of(w)
        at = mine.components.lanes
        for part in mine.split(w.mask, w.alive):
            part.clock.fit()[: len(OWN), at] = 1

    def check_grids(self, clock: Clock, ins: Instruction, agent: Any) -> None:
        """An access of global memory: whoever makes it knows that the grids ahead are over."""
        at = clock.components.lanes
        far = clock.far or {}
        if clock.fit()[ORDER, at] or any(t[ORDER, self._ahead[n]] for n, t in far.items()):
            return
        self.machine.found(
            "TK318",
            f"{ins.statement.mnemonic.split('.')[0]} touches global memory, and nothing orders this after a"
            " griddepcontrol.wait: the grid ahead may still write there, or read what this one writes",
            ins,
            agent if not isinstance(agent, Op) else agent.describe(),
            notes=(
                "cheapest order: griddepcontrol.wait in the same thread before it, or in one whose arrival or barrier"
                " it awaits (the bytes of a copy tell nobody of it)",
            ),
        )

    # Who is who

    def components(self, cluster: Cluster) -> Components:
        found = cluster.components
        if found is None:
            warps = len(cluster.ctas[0].warps)
            found = cluster.components = Components(self._clusters, cluster.size, warps)
            self._clusters += 1
            if self.dependent:
                # The first name stands right behind the threads.
                found.named("grids ahead", asynchronous=False)
                self._ahead[found.number] = found.lanes
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
        """Some lanes put what they know into a clock; without `release`, that they came, and what fences released."""
        mine = self.of(w)
        for part in mine.parts:
            here = part.mask & mask
            if not here:
                continue
            own = mine.lanes(here)
            part.tell_halves(to, mine.base, here)
            if release:
                to.join(part.clock)
                to.fit()[: len(OWN), own] = mine.time
                continue
            times = part.clock.times
            to.join_row(RUN, times[RUN])
            to.join_halves(part.clock)
            to.times[RUN, own] = mine.time
            if part.ready is not None:
                to.join(part.ready)
            if part.fenced is not None:
                known = to.fit()[: len(OWN), own]
                np.maximum(known, part.fenced[SELECT[here]], out=known)
                to.times[: len(OWN), own] = known
        mine.time += 1

    def came(self, w: Warp, mask: int, to: Clock) -> None:
        """Some lanes tell a clock that they came so far, and nothing that they know."""
        mine = self.of(w)
        for part in mine.parts:
            if here := part.mask & mask:
                to.join_row(RUN, part.clock.times[RUN])
                to.fit()[RUN, mine.lanes(here)] = mine.time
        mine.time += 1

    def snapshot(self, w: Warp, mask: int) -> Clock:
        """What some lanes know now, with their own accesses."""
        mine = self.of(w)
        parts = [p for p in mine.parts if p.mask & mask]
        if len(parts) == 1:
            made = parts[0].clock.copy()
            made.fit()[: len(OWN), mine.lanes(mask)] = mine.time
            mine.time += 1
            return made
        made = Clock(mine.components)
        self.publish(w, mask, made)
        return made

    def learn(
        self, w: Warp, mask: int, source: Clock, acquire: bool = True, tensor: bool = True
    ) -> None:
        """Some lanes learn what a clock holds: `tensor` memory's order with the rest, or by a fence of its own."""
        for part in self.of(w).split(mask, w.alive):
            clock = part.clock
            if not acquire:
                part.see(source)
                clock.join_row(RUN, source.fit()[RUN])
                clock.join_halves(source)
            elif tensor:
                clock.join(source)
            else:
                kept = clock.fit()[TENSOR].copy()
                clock.join(source)
                # Loads and stores of tensor memory that were awaited (A20), not what the tensor core does.
                first = clock.components.lanes if "A20" in self.grants else 0
                clock.times[TENSOR, first : len(kept)] = kept[first:]
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
        first.tell_halves(first.clock, mine.base, mask)
        mine.time += 1

    # Barriers of a CTA and of a cluster

    def barrier_arrive(self, w: Warp, barrier: Any) -> None:
        if barrier.clock is None:
            barrier.clock = Clock(self.of(w).components)
        self.of(w).arrives(w)
        self.publish(w, w.mask, barrier.clock)

    def barrier_leave(self, w: Warp, mask: int, barrier: Any) -> None:
        self.learn(w, mask, barrier.clock, tensor=False)
        mine = self.of(w)
        mine.passes(w, barrier.passed)
        if len(mine.parts) > 1 and not (w.alive & ~mask):
            self.meet(w, mask)

    def cover_inits(self, w: Warp) -> None:
        """What the active lanes have initialised since their last fence.mbarrier_init is covered by that, too (A26)."""

    def cluster_arrive(self, w: Warp, relaxed: bool) -> None:
        cluster = w.cta.cluster
        if cluster.clock is None:
            cluster.clock = Clock(self.of(w).components)
        if relaxed and "A26" in self.grants:
            self.cover_inits(w)
        self.publish(w, w.mask, cluster.clock, not relaxed)

    def cluster_leave(self, w: Warp, mask: int) -> None:
        self.learn(w, mask, w.cta.cluster.released)
        self.of(w).passed = {}
        if len(self.of(w).parts) > 1 and not (w.alive & ~mask):
            self.meet(w, mask)

    def cluster_release(self, cluster: Cluster) -> None:
        cluster.released = cluster.clock.copy() if cluster.clock is not None else None
        if cluster.released is not None and "A28" in self.grants:
            for cta in cluster.ctas:
                if cta.left is not None:
                    cluster.released.join(cta.left)

    # Other CTAs' memory, and the end of a CTA

    def awaited(self, w: Warp, mask: int) -> Awaited | None:
        """What some lanes have awaited, where it may excuse them (A31)."""
        return Awaited(w, mask) if "A31" in self.grants else None

    def remote(
        self,
        cta: Cta,
        component: int,
        time: int,
        ins: Instruction,
        agent: Any,
        awaited: Awaited | None = None,
    ) -> None:
        """An agent of another CTA has touched this one's shared memory or mbarriers; `awaited` of one that arrives."""
        if not cta.live:
            self._exited(cta, ins, agent, awaited)
        cta.visitors[component, awaited is None] = (time, ins, agent, awaited)

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
        for (component, _), (time, ins, agent, awaited) in cta.visitors.items():
            if known[component] < time:
                self._exited(cta, ins, agent, awaited)
        events = self.events
        for event in cta.visits:
            if known[events.component[event]] < events.time[event]:
                who = events.who[event]
                assert who is not None
                self._exited(cta, who.ins, who.agent)

    def _exited(
        self, cta: Cta, ins: Instruction, agent: Any, awaited: Awaited | None = None
    ) -> None:
        name = agent.describe()
        left = cta.left
        late = awaited is not None and left is not None and awaited.is_known(left.fit()[RUN])
        self.machine.found(
            "TK313",
            f"{cta.name} may have ended when {name} reaches its shared memory",
            ins,
            agent if not isinstance(agent, Op) else name,
            warning=late,
            notes=(
                "cheapest order: barrier.cluster.arrive and .wait by all threads before they end",
                *notes_on(("A31",) if late else ()),
            ),
        )
