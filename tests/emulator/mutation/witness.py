"""A second judge of one run: its accesses byte by byte, and the edges of the memory model between them as sets.

It hears what the emulator's own record hears, and nothing of what that decides: which thread accessed which bytes by
which instruction, who arrived where, what completed. It judges each pair of accesses of a byte by the manual's rules and
the assumptions of `practice` (A... are rows of `tkc/ir/isa/assumptions.py`; sections are those of PTX ISA 9.4), with no
clocks and no cells. What it cannot see: effects on values, counts, hangs; those show by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar
from unittest import mock

import numpy as np
from emulator.mutation.knowledge import Apart, Group, Groups, Known, key_of
from emulator.mutation.places import (
    ENTRY,
    SEVERAL,
    Access,
    Bytes,
    Judge,
    Work,
    is_strong,
    reach,
    scope_of,
    sum_of,
    what_of,
)

from tkc.emulator import Report, launch
from tkc.ir.isa.memory import Done, Kind, Proxy


class Object:
    """What has been told through an mbarrier, a barrier or a word."""

    def __init__(self, about: Any = None) -> None:
        self.about = about
        self.now, self.wide = Known(), Known()
        self.done, self.done_wide = Known(), Known()
        self.init = 0
        self.init_by: Any = None
        self.waits: dict[Any, int] = {}


class Witness(Judge):
    """Hears a launch. `faults` are what nothing orders: (rule, line before, line now)."""

    masks: ClassVar[dict[Any, set[int]]] = {}
    """Of each warp, the sets of lanes that acted together in the run before."""
    hearing = False
    """Whether this run only finds those sets."""

    def __init__(self, machine: Any, model: str) -> None:
        super().__init__(machine, model)
        self.groups = Groups(self.masks)
        self.objects: dict[Any, Object] = {}
        self.works: dict[int, Work] = {}
        self.heard: dict[tuple[int, int], list[tuple[str, Any, Known]]] = {}
        """By word the scope, the CTA and the knowledge of each release since it was last written anew."""
        self.copies: dict[Any, list[tuple[int, Work]]] = {}
        self.products: dict[Any, list[tuple[int, Work]]] = {}
        self.tensor_work: dict[tuple[Any, int], list[Work]] = {}
        self.visits: dict[int, tuple[Any, int]] = {}
        self.exits: dict[int, Known] = {}
        self.ready_inits: dict[Group, int] = {}
        self.kept: list[Any] = []
        """Operations, so that their numbers are not given out again."""
        self.moved_bits = self.work_bits = 0
        """Of loads and stores of tensor memory, and of operations that no group of stores completes."""
        self.ahead = self.groups.bits.new()
        """The bit of the grids ahead."""
        Witness.latest = self

    latest: Witness | None = None

    # Who

    def lanes(self, w: Any, mask: int) -> list[Group]:
        self.masks.setdefault(key_of(w), set()).add(mask)
        return [] if self.hearing else list(self.groups.of(w, mask))

    @property
    def report(self) -> Report:
        return self.machine.report

    def object(self, key: Any, about: Any = None) -> Object:
        found = self.objects.get(key)
        if found is None:
            found = self.objects[key] = Object(about)
        return found

    # Accesses of bytes

    def access(
        self,
        agent: Any,
        origin: Any,
        kind: Kind,
        region: Any,
        offsets: Any,
        size: int,
        where: Any = None,
    ) -> None:
        if region.space in ("local", "param") or int(offsets.max()) + size > region.size:
            return
        op = self.acting
        work = self.works.get(id(op)) if op is not None else None
        if self.hearing:
            if op is None:
                self.lanes(agent, agent.mask)
                for lane in range(32) if is_strong(origin.ins) else ():
                    if agent.mask >> lane & 1:
                        self.lanes(agent, 1 << lane)
            return
        if work is not None:
            work.generic = origin.proxy is Proxy.GENERIC
        held = self.bytes.get(id(region))
        if held is None:
            held = self.bytes[id(region)] = (region, Bytes(region.size))
        home = region.owner if region.space == "shared" else None
        places = (np.asarray(offsets, np.int64)[:, None] + np.arange(size)).reshape(-1)
        access = self._entry(agent, origin, kind, work)
        number = len(self.accesses) << ENTRY
        self.accesses.append(access)
        if work is not None:
            codes: Any = np.full(len(places), number | SEVERAL)
        else:
            lanes = np.flatnonzero([agent.mask >> n & 1 for n in range(32)])
            if where is not None:
                lanes = lanes[where]
            if origin.collective or len(lanes) != len(offsets):
                one = agent.mask.bit_length() - 1
                lane = one if agent.mask & (agent.mask - 1) == 0 else SEVERAL
                if access.ins.row.name == "tensormap.cp_fenceproxy" and kind is Kind.WRITE:
                    lane = SEVERAL
                codes = np.full(len(places), number | lane)
            else:
                codes = np.repeat(number | lanes, size)
        self._remote(home, access)
        if self.dependent and home is None and not region.constant:
            knows = [work.known] if work is not None else [g.known for g, _ in access.bits]
            if not all(k.met & self.ahead for k in knows):
                self.fault("grid", None, origin.ins)
        self._touch(held[1], access, codes, places, home)
        if work is None and kind is Kind.WRITE and access.strong:
            self._release_word(agent, region, offsets, where, origin.ins)
        if work is None and kind is Kind.READ and access.strong:
            self._acquire_word(agent, region, offsets, where, origin.ins)

    def _entry(self, agent: Any, origin: Any, kind: Kind, work: Work | None) -> Access:
        strong = is_strong(origin.ins)
        if work is not None:
            return Access(origin.ins, kind, work.warp, work, (), strong, first=origin.first)
        bits = tuple((g, g.now()) for g in self.lanes(agent, agent.mask))
        return Access(origin.ins, kind, agent, None, bits, strong, agent.mask)

    # Words of memory (8.8)

    def _release_word(self, w: Any, region: Any, offsets: Any, where: Any, ins: Any) -> None:
        sem, scope = ins.mod("sem"), scope_of(ins)
        for lane, offset in self._each(w, offsets, where):
            for group in self.groups.of(w, 1 << lane):
                if not ins.row.name.startswith(("atom", "red")):
                    self.heard[id(region), offset] = []
                told = group.told() if sem in ("release", "acq_rel") else group.came()
                self.heard.setdefault((id(region), offset), []).append((scope, w.cta, told))

    def _acquire_word(self, w: Any, region: Any, offsets: Any, where: Any, ins: Any) -> None:
        acquires = ins.mod("sem") in ("acquire", "acq_rel") and not ins.row.name.startswith("red")
        scope = scope_of(ins)
        for lane, offset in self._each(w, offsets, where):
            for other, cta, told in self.heard.get((id(region), offset), ()):
                if scope in reach(w.cta, cta) and other in reach(w.cta, cta):
                    for group in self.groups.of(w, 1 << lane):
                        group.learn(told, acquires)

    @staticmethod
    def _each(w: Any, offsets: Any, where: Any) -> Iterator[tuple[int, int]]:
        lanes = np.flatnonzero([w.mask >> n & 1 for n in range(32)])
        if where is not None:
            lanes = lanes[where]
        yield from zip(lanes.tolist(), np.asarray(offsets).tolist(), strict=False)

    # Barriers

    def grids_awaited(self, w: Any) -> None:
        """griddepcontrol.wait (9.7.15.14): its thread knows that the grids ahead are over, and who hears of it."""
        super().grids_awaited(w)
        for group in self.lanes(w, w.mask):
            group.known.met |= self.ahead

    def meet(self, w: Any, mask: int) -> None:
        super().meet(w, mask)
        whole = Known()
        groups = self.lanes(w, mask)
        for group in groups:
            whole.join(group.told())
        for group in groups:
            group.learn(whole)

    def barrier_arrive(self, w: Any, barrier: Any) -> None:
        super().barrier_arrive(w, barrier)
        for group in self.lanes(w, w.mask):
            self.object(id(barrier), barrier).now.join(group.told())

    def barrier_leave(self, w: Any, mask: int, barrier: Any) -> None:
        super().barrier_leave(w, mask, barrier)
        for group in self.lanes(w, mask):
            # Awaited loads and stores of tensor memory (A20), and not what the tensor core does.
            group.learn(self.object(id(barrier), barrier).now, True, self.moved_bits)

    def cluster_arrive(self, w: Any, relaxed: bool) -> None:
        super().cluster_arrive(w, relaxed)
        for group in self.lanes(w, w.mask):
            if self.ready_inits.get(group):
                # A26: and what it has initialised since.
                self.ready_inits[group] |= self._inits_of(group)
            inits = self.ready_inits.get(group, 0)
            told = group.came() if relaxed else group.told()
            told.met |= inits
            self.object(id(w.cta.cluster), w.cta.cluster).now.join(told)

    def cluster_release(self, cluster: Any) -> None:
        super().cluster_release(cluster)
        held = self.object(id(cluster), cluster)
        held.done = held.now.copy()
        for cta in cluster.ctas:
            held.done.join(self.exits.get(id(cta), Known()))  # A28

    def cluster_leave(self, w: Any, mask: int) -> None:
        super().cluster_leave(w, mask)
        for group in self.lanes(w, mask):
            group.learn(self.object(id(w.cta.cluster), w.cta.cluster).done)

    # mbarriers

    def barrier_init(self, w: Any, barrier: Any) -> None:
        super().barrier_init(w, barrier)
        for group in self.lanes(w, w.mask):
            made = self.objects[id(barrier)] = Object(barrier)
            made.init, made.init_by = group.now(), group

    def _initialised(self, group: Group, barrier: Any, ins: Any) -> None:
        held = self.object(id(barrier), barrier)
        if held.init and group is not held.init_by and not held.init & group.known.met:
            self.fault("init", None, ins)

    def arrive(self, w: Any, barrier: Any, mask: int, ins: Any) -> None:
        super().arrive(w, barrier, mask, ins)
        held = self.object(id(barrier), barrier)
        release = ins.mod("sem", "release") != "relaxed"
        for group in self.lanes(w, mask):
            self._initialised(group, barrier, ins)
            if barrier.cta is not w.cta:
                self._visit(barrier.cta, group.now(), ins)
            told = group.told() if release else group.came()
            if barrier.cta is w.cta:
                held.now.join(told)
                continue
            held.now.ran |= told.ran
            held.now.half |= told.half
            if release:
                # A2: completions that it has seen but of its groups of stores, and tensor memory; the rest needs its scope.
                held.now.met |= told.met & self.work_bits
                held.now.seen |= told.seen
                for key, bits in told.fenced.items():  # A25: for reads
                    held.now.fenced[key] = held.now.fenced.get(key, 0) | bits
                held.now.tensor |= told.tensor
                held.now.before |= told.before
                if ins.mod("scope", "cta") in ("cluster", "gpu", "sys"):
                    held.wide.join(told)

    def copies_arrive(self, w: Any, barrier: Any, number: int, ins: Any) -> None:
        super().copies_arrive(w, barrier, number, ins)
        held = self.object(id(barrier), barrier)
        for group in self.lanes(w, w.mask):
            self._initialised(group, barrier, ins)
            held.now.ran |= group.told().ran
            self.handed |= group.own
        for time, work in self.copies.get(w, ()):
            if time <= number:
                held.now.met |= work.read | work.write

    def relaxed_complete(self, w: Any, barrier: Any, mask: int) -> None:
        super().relaxed_complete(w, barrier, mask)
        for group in self.lanes(w, mask):
            self.object(id(barrier), barrier).now.ran |= group.told().ran

    def complete(self, barrier: Any, ins: Any) -> None:
        super().complete(barrier, ins)
        if self.acting is not None and not self.hearing:
            work = self.works[id(self.acting)]
            self._work_over(work, barrier, work.all)

    def commit(self, barrier: Any, ins: Any, reads: bool = False) -> None:
        super().commit(barrier, ins, reads)
        if not self.hearing:
            work = self.works[id(self.acting)]
            self._work_over(work, barrier, work.first if reads else work.earlier)

    def _work_over(self, work: Work, barrier: Any, bits: int) -> None:
        """complete_tx and the arrival of a commit: their own accesses, and no more (8.9.1.1, 9.7.18.12.1; A4)."""
        held = self.object(id(barrier), barrier)
        if held.init and work.own is not held.init_by and not held.init & work.known.met:
            self.fault("init", None, work.ins)
        if barrier.cta is not work.warp.cta:
            self._visit(barrier.cta, bits, work.ins)
        held.now.ran |= work.known.ran | bits
        held.now.met |= bits
        held.now.tensor |= bits
        held.now.before |= bits
        held.now.seen |= work.known.met | work.known.seen

    def phase_over(self, barrier: Any) -> None:
        super().phase_over(barrier)
        if self.hearing:
            return
        held = self.object(id(barrier), barrier)
        for bits, ins in held.waits.values():
            if not bits & held.now.ran:
                self.fault("lapped", None, ins)
        held.waits = {}
        held.done, held.done_wide = held.now.copy(), held.wide.copy()

    def waited(self, w: Any, barrier: Any, mask: int, ins: Any) -> None:
        super().waited(w, barrier, mask, ins)
        held = self.object(id(barrier), barrier)
        acquire = ins.mod("sem", "acquire") != "relaxed"
        for group in self.lanes(w, mask):
            self._initialised(group, barrier, ins)
            held.waits[w] = (held.waits.get(w, (0, ins))[0] | group.now(), ins)
            group.learn(held.done, acquire)
            if ins.mod("scope", "cta") in ("cluster", "gpu", "sys"):
                group.learn(held.done_wide, acquire)

    # Operations

    def issued(self, name: str, w: Any, lane: int | None, ins: Any, done: Any) -> Any:
        mapped = self.mapped
        op = super().issued(name, w, lane, ins, done)
        mask = w.mask if lane is None else 1 << lane
        groups = self.lanes(w, mask)
        if not self.hearing:
            work = self._work(op, groups, -1 if lane is None else lane, name == "cp.async")
            if done is not Done.BULK_GROUP:
                self.work_bits |= work.all
            if name == "cp.async":
                self.copies.setdefault(w, []).append((op.time, work))
            if name.startswith("tcgen05"):
                before = self.tensor_work.setdefault((w, lane), [])
                work.earlier = sum_of(x.all for x in before)
                if name != "tcgen05.commit":
                    before.append(work)
                else:
                    work.first = sum_of(x.first for x in before)
            if mapped is not None and mapped[0].space == "global":
                self._reads_map(work, *mapped)
        return op

    def issued_together(self, name: str, warps: list[Any], ins: Any, number: int) -> Any:
        op = super().issued_together(name, warps, ins, number)
        groups = [g for w in warps for g in self.lanes(w, w.alive)]
        if not self.hearing:
            work = self._work(op, groups, -1, False)
            self.work_bits |= work.all
            self.products.setdefault(_warpgroup(warps[0]), []).append((number + 1, work))
        return op

    def _work(self, op: Any, groups: list[Group], lane: int, generic: bool) -> Work:
        """What it may rely on: what all the threads know that issue it (A8 for wgmma)."""
        known: Known | None = None
        ran = 0
        alone = groups[0] if len(groups) == 1 and lane >= 0 else None
        fenced = dict(alone.own_fenced) if alone is not None else {}
        then = alone.own if alone is not None else 0
        for group in groups:
            told = group.told() if alone is None and op.name != "wgmma" else group.known.copy()
            told.ran |= group.own
            told.tensor |= group.own_tensor
            group.stretch = 0
            ran |= told.ran
            if known is None:
                known = told
            else:
                known.common(told)
        assert known is not None
        # Nothing of it runs before all have come to it.
        known.ran = ran
        new = self.groups.bits.new
        work = Work(op.name, op.warp, lane, op.ins, new(), new(), new(), known, alone, generic)
        work.fenced_by_itself, work.own_then = fenced, then
        work.first = new()
        work.acquired_reads = alone.reads if alone is not None else 0
        self.works[id(op)] = work
        self.kept.append(op)
        return work

    def _reads_map(self, work: Work, region: Any, offset: int) -> None:
        held = self.bytes.setdefault(id(region), (region, Bytes(region.size)))[1]
        places = np.arange(offset, offset + 128)
        acquired = work.known.maps.get((work.warp.cta.number, region.base + offset), 0)
        for code in np.unique(held.last[places]).tolist():
            was = self.accesses[code >> ENTRY]
            if not code:
                continue
            bits = [b for _, b in was.of(code & 63)] if was.work is None else [was.told]
            if not all(b & acquired for b in bits):
                self.fault("map", was.ins, work.ins)
        number = len(self.accesses) << ENTRY | SEVERAL
        self.accesses.append(Access(work.ins, Kind.READ, work.warp, work, (), False))
        for place in places.tolist():
            held.reads[place] = self._with(int(held.reads[place]), number)

    def stored(self, w: Any, lane: int, op: Any, reads: bool) -> None:
        super().stored(w, lane, op, reads)
        for group in self.lanes(w, 1 << lane) if op is not None else ():
            work = self.works[id(op)]
            group.known.met |= work.read if reads else work.read | work.write

    def copied(self, w: Any, number: int) -> None:
        super().copied(w, number)
        for group in self.lanes(w, w.mask):
            self.handed |= group.own
            group.stretch = 0
            for time, work in self.copies.get(w, ()):
                if time <= number:
                    group.known.met |= work.read | work.write

    def multiplied(self, w: Any, number: int) -> None:
        super().multiplied(w, number)
        for group in self.lanes(w, w.mask):
            for time, work in self.products.get(_warpgroup(w), ()):
                if time <= number:
                    group.known.met |= work.read | work.write  # A12
                    group.known.ran |= work.known.ran

    # Fences

    def fence_proxy(self, w: Any, space: str) -> None:
        super().fence_proxy(w, space)
        shared = [("shared", w.cta.number)]
        reach = [("reach", w.cta.number)]
        keys = {"shared::cta": shared, "shared::cluster": shared + reach, "global": ["global"]}
        for group in self.lanes(w, w.mask):
            group.fence_proxy(keys.get(space, [*shared, *reach, "global"]))

    def fence_half(self, w: Any, acquires: bool, reads: bool = False) -> None:
        super().fence_half(w, acquires, reads)
        keys: list[Any] = [("shared", c.number) for c in w.cta.cluster.ctas]
        for group in self.lanes(w, w.mask):
            group.fence_half(acquires, [*keys, "global"], reads)

    def fence_map(self, w: Any, maps: Mapping[int, int] | None = None) -> None:
        """Each lane acquires the map that it names."""
        super().fence_map(w, maps)
        for group in self.lanes(w, w.mask):
            named = {maps[n] for n in range(32) if group.mask >> n & 1} if maps else ()
            group.fence_map(None if maps is None else [(w.cta.number, at) for at in named])

    def map_written(self, w: Any) -> None:
        """tensormap.cp_fenceproxy: a write of the warp that all its threads have awaited, then a release (9.7.15.17)."""
        last = self.accesses[-1]
        groups = self.lanes(w, w.mask)
        for group in groups:
            group.known.met |= sum_of(b for _, b in last.bits)
        super().map_written(w)

    def fence(self, w: Any, acquires: bool, releases: bool) -> None:
        super().fence(w, acquires, releases)
        for group in self.lanes(w, w.mask):
            group.fence(acquires, releases)

    def fence_init(self, w: Any) -> None:
        super().fence_init(w)
        for group in self.lanes(w, w.mask):
            self.ready_inits[group] = self._inits_of(group)

    def _inits_of(self, group: Group) -> int:
        return sum_of(o.init for o in self.objects.values() if o.init_by is group)

    def fence_tensor(self, w: Any, before: bool) -> None:
        super().fence_tensor(w, before)
        for group in self.lanes(w, w.mask):
            lanes = [n for n in range(32) if group.mask >> n & 1]
            issued = sum_of(x.issued for n in lanes for x in self.tensor_work.get((w, n), ()))
            group.fence_tensor(before, issued)

    # Tensor memory (9.7.18.6)

    def tensor_access(
        self, agent: Any, origin: Any, kind: Kind, memory: Any, lanes: Any, start: int, stop: int
    ) -> None:
        op = self.acting
        rows = np.arange(128)[lanes]
        places = (rows[:, None] * memory.columns + np.arange(start, stop)).reshape(-1)
        if op is None:
            groups = self.lanes(agent, agent.mask)
        if self.hearing:
            return
        if op is not None:
            access = Access(origin.ins, kind, agent, self.works[id(op)], (), False)
        else:
            bit = self.groups.bits.new()
            what = what_of(origin.ins)
            if what in ("ld", "st"):
                key = (agent, what)
                self.unawaited[key] = self.unawaited.get(key, 0) | bit
                self.moved_bits |= bit
            bits = tuple((g, bit) for g in groups)
            access = Access(origin.ins, kind, agent, None, bits, False, agent.mask)
        self._touch_tensor(memory, access, places)

    def lifetime(
        self, w: Any, origin: Any, memory: Any, start: int, columns: int, pair: list[Any]
    ) -> None:
        super().lifetime(w, origin, memory, start, columns, pair)
        groups = self.lanes(w, w.mask)
        if self.hearing:
            return
        bits = tuple((g, g.now()) for g in groups)
        for group, bit in bits:
            group.own_tensor |= (
                bit  # an arrival tells of it as of other accesses of tensor memory (A2)
            )
        access = Access(origin.ins, Kind.WRITE, w, None, bits, False, w.mask)
        for one in pair or [memory]:
            rows = np.arange(128)[:, None] * one.columns
            places = (rows + np.arange(start, start + columns)).reshape(-1)
            if what_of(origin.ins) == "alloc":
                held = self._tensor(one)
                held.reads[places] = held.last[places] = 0
            self._touch_tensor(one, access, places)

    def moved(self, w: Any, what: str) -> None:
        super().moved(w, what)
        bits = self.unawaited.pop((w, what), 0)
        for group in self.lanes(w, w.mask):
            group.own_tensor |= bits

    # The end of a CTA

    def _visit(self, cta: Any, bits: int, ins: Any) -> None:
        if not cta.live:
            self.fault("exit", None, ins)
        held = self.visits.get(id(cta), (cta, 0))
        self.visits[id(cta)] = (cta, held[1] | bits)

    def _remote(self, home: Any, access: Access) -> None:
        if home is None or home is access.warp.cta:
            return
        bits = access.told if access.work is not None else sum_of(b for _, b in access.bits)
        self._visit(home, bits, access.ins)

    def ended(self, w: Any, mask: int) -> None:
        super().ended(w, mask)
        for group in self.lanes(w, mask):
            self.exits.setdefault(id(w.cta), Known()).join(group.told())
        if not w.cta.live and id(w.cta) in self.visits:
            missing = self.visits[id(w.cta)][1] & ~self.exits[id(w.cta)].ran
            if missing & ~self.exits[id(w.cta)].met:
                self.fault("exit", None, None)


def _warpgroup(w: Any) -> Any:
    return (w.cta.index, w.index // 4)


Masks = dict[Any, set[int]]
"""Of each warp of a launch, the sets of lanes that act together."""


def opinion(run: Callable[[], object], masks: Masks | None = None) -> Witness:
    """The witness of a launch that `run` makes: `wrong` is what nothing orders, `report` says whether it came to its end.

    It must know which lanes act together, and runs once more to see that, unless `masks` of a launch like it say enough;
    they are added to.
    """
    Witness.masks = {} if masks is None else masks
    if Witness.masks:
        try:
            return _heard(run)
        except Apart:
            pass
    Witness.hearing = True
    try:
        _heard(run)
    finally:
        Witness.hearing = False
    return _heard(run)


def _heard(run: Callable[[], object]) -> Witness:
    with mock.patch.object(launch, "Record", Witness):
        run()
    found, Witness.latest = Witness.latest, None
    assert found is not None
    return found
