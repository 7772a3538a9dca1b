"""CTAs and clusters: shared memory, named barriers, the cluster barrier, and what happens when they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.bulk import check_exit
from tkc.emulator.instruction import PARKED, Instruction
from tkc.emulator.lanes import LANES, SELECT, U8
from tkc.emulator.report import Stop
from tkc.emulator.spaces import Region
from tkc.emulator.warp import Path, Warp

if TYPE_CHECKING:
    from tkc.emulator.machine import Machine
    from tkc.emulator.mbarrier import MBarrier

NAMED_BARRIERS = 16
RANK_SHIFT = 24
"""The CTA rank stands in bits 31:24 of a shared address."""


class NamedBarrier:
    """Barrier `id` of a CTA: threads that have come, how many it waits for, and the paths that wait.

    `votes` are (threads whose predicate holds, threads, warp, lanes) of a reduction; `results` its sums for each path.
    """

    __slots__ = ("arrived", "clock", "expected", "parts", "passed", "results", "votes", "waiting")

    def __init__(self) -> None:
        self.clock: Any = None
        self.passed: dict[Warp, int] = {}
        """For the record: what arrivals have released; who has left it, and when they arrived first since."""
        self.votes: list[tuple[int, int, int, int]] = []
        self.results: dict[tuple[int, int], tuple[int, int]] = {}
        self.arrived = 0
        self.expected: int | None = None
        self.waiting: list[tuple[Path, int]] = []
        self.parts: dict[int, Instruction] = {}
        """Warps of which only some threads have come, and at which instruction."""


class Cta:
    """One thread block. `shared` covers its window from the reserved first KiB on; `window` is its rank's bits."""

    def __init__(
        self, machine: Machine, cluster: Cluster, index: tuple[int, int, int], rank: int
    ) -> None:
        self.machine = machine
        self.cluster = cluster
        self.index = index
        self.rank = rank
        gx, gy, _ = machine.grid
        self.number = index[0] + gx * (index[1] + gy * index[2])
        self.window = rank << RANK_SHIFT
        self.name = f"CTA {index}"
        layout = machine.shared_layout
        size = layout.size + machine.dynamic_shared
        size = -(-size // 128) * 128
        shadow = np.ones(size, U8)
        shadow[: layout.reserved] = 0
        self.shared = Region(
            f"shared memory of {self.name}",
            "shared",
            self.window,
            np.zeros(size, U8),
            shadow,
            self,
        )
        self.barriers: dict[int, MBarrier] = {}
        self.named = [NamedBarrier() for _ in range(NAMED_BARRIERS)]
        self.engines: dict[Any, Any] = {}
        self.tensor: Any = None
        self.pool: Any = None
        self.live = machine.threads
        self.refused = False
        """Whether one of its threads has seen that no other cluster was to be had (clusterlaunchcontrol)."""
        self.left: Any = None
        self.visitors: dict[tuple[int, bool], Any] = {}
        self.visits: list[int] = []
        """For the record: what the threads that have ended knew, and who else has been in its memory."""
        self.warps = [Warp(machine, self, i) for i in range(-(-machine.threads // LANES))]
        for warp in self.warps:
            machine.fill_registers(warp)

    def ended(self, warp: Warp, mask: int) -> None:
        """Lanes of a warp have ended: barriers wait for fewer threads, and the CTA may be done."""
        self.live -= mask.bit_count()
        self.machine.activity += 1
        if warp.groups:
            check_exit(warp, mask)
        if self.machine.record is not None:
            self.machine.record.ended(warp, mask)
        if self.live:
            for barrier in self.named:
                if barrier.waiting:
                    self._release(barrier)
        self.cluster.ended(warp, mask)
        if not self.live:
            self.machine.cta_ended(self)

    # bar.sync, bar.arrive

    def _release(self, barrier: NamedBarrier) -> bool:
        expected = self.live if barrier.expected is None else barrier.expected
        if barrier.arrived < expected:
            return False
        if barrier.votes:
            total = (sum(v[0] for v in barrier.votes), sum(v[1] for v in barrier.votes))
            for _, _, warp, mask in barrier.votes:
                barrier.results[warp, mask] = total
            barrier.votes = []
        record = self.machine.record
        barrier.passed = {}
        for path, following in barrier.waiting:
            path.pc = following
            path.waits = ""
            self.machine.wake(path)
            if record is not None:
                record.barrier_leave(path.warp, path.mask, barrier)
        barrier.waiting = []
        barrier.parts.clear()
        barrier.arrived = 0
        barrier.expected = None
        self.machine.activity += 1
        return True

    def come(self, ins: Instruction, warp: Warp, number: int, count: int | None) -> NamedBarrier:
        """The active threads of a warp come to a named barrier."""
        if not 0 <= number < NAMED_BARRIERS:
            raise Stop("TK305", f"barrier {number}, expected 0..15", ins=ins, warp=warp)
        if count is not None and (count % LANES or count <= 0):
            raise Stop(
                "TK305",
                f"barrier of {count} threads, expected a multiple of 32",
                ins=ins,
                warp=warp,
            )
        barrier = self.named[number]
        if barrier.arrived == 0:
            barrier.expected = count
        elif count != barrier.expected:
            raise Stop(
                "TK305",
                f"barrier {number} is waited for with {count or 'all'} threads, and with {barrier.expected or 'all'}",
                ins=ins,
                warp=warp,
            )
        if warp.mask != warp.alive and _is_aligned(ins):
            self._part_comes(ins, warp, barrier)
        # A partial last warp counts as 32 threads where a count is given.
        lanes = warp.mask.bit_count()
        barrier.arrived += LANES if count is not None and warp.mask == warp.alive else lanes
        expected = self.live if count is None else count
        if barrier.arrived > expected:
            raise Stop(
                "TK305",
                f"{barrier.arrived} threads have come to barrier {number} of {expected}",
                ins=ins,
                warp=warp,
            )
        if self.machine.record is not None:
            self.machine.record.barrier_arrive(warp, barrier)
        return barrier

    def _part_comes(self, ins: Instruction, warp: Warp, barrier: NamedBarrier) -> None:
        """Part of a warp is at a barrier of whole warps: the other threads may end, or come here, but nowhere else."""
        if any(b.arrived and b.parts.get(warp.index, ins) is not ins for b in self.named):
            self.machine.found(
                "TK316",
                f"{ins.statement.mnemonic} by part of a warp, whose other threads have come to another one",
                ins,
                warp,
                notes=(
                    "all threads of a warp execute the same .aligned barrier together: let them meet before it",
                ),
            )
        barrier.parts[warp.index] = ins

    def barrier_sync(
        self,
        ins: Instruction,
        warp: Warp,
        path: Path,
        number: int,
        count: int | None,
        following: int,
    ) -> int:
        barrier = self.come(ins, warp, number, count)
        path.waits = f"barrier {number}"
        barrier.waiting.append((path, following))
        path.pc = following
        if self._release(barrier):
            # The path was woken with the others; it goes on through the queue.
            return PARKED
        path.waits = (
            f"barrier {number} ({barrier.arrived} of {barrier.expected or self.live} threads there)"
        )
        return PARKED

    def barrier_arrive(self, ins: Instruction, warp: Warp, number: int, count: int) -> None:
        self._release(self.come(ins, warp, number, count))


def _is_aligned(ins: Instruction) -> bool:
    """Whether a barrier is one of whole warps: `bar.sync` is `barrier.cta.sync.aligned` (PTX 9.7.15.1)."""
    mnemonic = ins.statement.mnemonic
    return mnemonic.startswith("bar.") or ".aligned" in mnemonic


class Cluster:
    """CTAs that run together and may reach each other's shared memory."""

    def __init__(
        self, machine: Machine, base: tuple[int, int, int], dims: tuple[int, int, int]
    ) -> None:
        self.machine = machine
        self.base, self.dims = base, dims
        cx, cy, cz = dims
        self.size = cx * cy * cz
        self.arrived = 0
        self.phase = 0
        self.live = machine.threads * self.size
        self.waiting: list[tuple[Path, int, int]] = []
        self.pending = 0
        """Asynchronous operations in flight that touch memory of the cluster."""
        self.components: Any = None
        self.clock: Any = None
        self.released: Any = None
        """For the record: its clocks' components, and what arrivals on the cluster barrier have released."""
        self.pair_allocations: dict[tuple[int, int], dict[int, int]] = {}
        self.ctas: list[Cta] = []
        for z in range(cz):
            for y in range(cy):
                for x in range(cx):
                    index = (base[0] + x, base[1] + y, base[2] + z)
                    self.ctas.append(Cta(machine, self, index, x + cx * (y + cy * z)))

    def cta_at(self, address: int) -> Cta | None:
        """The CTA whose shared memory a 32-bit shared address names."""
        rank = address >> RANK_SHIFT
        return self.ctas[rank] if rank < self.size else None

    # barrier.cluster: every thread arrives once a phase, and waits for the phase that it arrived in.

    def arrive(self, warp: Warp, ins: Instruction) -> None:
        marks: dict[int, int] = warp.groups.setdefault("cluster", {})
        for lane in warp.lanes():
            if marks.get(lane) == self.phase:
                raise Stop(
                    "TK305", "barrier.cluster.arrive twice without a wait", ins=ins, warp=warp
                )
            marks[lane] = self.phase
        if self.machine.record is not None:
            self.machine.record.cluster_arrive(warp, ins.mod("sem") == "relaxed")
        self.arrived += warp.mask.bit_count()
        self._release()

    def _release(self) -> None:
        if self.arrived < self.live or not self.arrived:
            return
        self.arrived = 0
        self.phase += 1
        self.machine.activity += 1
        record = self.machine.record
        if record is not None:
            record.cluster_release(self)
        for path, following, _ in self.waiting:
            path.pc = following
            path.waits = ""
            self.machine.wake(path)
            if record is not None:
                record.cluster_leave(path.warp, path.mask)
        self.waiting = []

    def wait(self, warp: Warp, path: Path, ins: Instruction, following: int) -> int:
        marks: Mapping[int, int] = warp.groups.get("cluster", {})
        for lane in warp.lanes():
            if lane not in marks:
                raise Stop("TK305", "barrier.cluster.wait without an arrive", ins=ins, warp=warp)
        phase = max(marks[lane] for lane in warp.lanes())
        if phase < self.phase:
            if self.machine.record is not None:
                self.machine.record.cluster_leave(warp, warp.mask)
            return following
        path.pc = following
        path.waits = f"the cluster barrier ({self.arrived} of {self.live} threads there)"
        self.waiting.append((path, following, phase))
        return PARKED

    def ended(self, warp: Warp, mask: int) -> None:
        """Threads have ended; of those that had arrived in this phase neither the arrival nor the thread counts."""
        marks: Mapping[int, int] = warp.groups.get("cluster", {})
        self.arrived -= sum(marks.get(lane) == self.phase for lane in SELECT[mask].tolist())
        self.live -= mask.bit_count()
        self._release()
