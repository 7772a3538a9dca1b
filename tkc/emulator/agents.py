"""Who acts in the happens-before record: lanes of warps that know the same, operations, mbarriers."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.clocks import BEFORE, HALF, LATER, ORDER, PENDING, RUN, TENSOR, Clock, Components
from tkc.emulator.events import BRIDGED
from tkc.emulator.lanes import FULL, LANES, SELECT, Vec

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.warp import Warp

OWN = (RUN, ORDER, TENSOR)
"""The rows in which a thread knows its own accesses."""
COMPLETED = (RUN, ORDER, TENSOR, BEFORE, LATER)
SCOPES = {"cta": 1, "cluster": 2, "gpu": 3, "gl": 3, "sys": 4}


class Part:
    """Lanes of a warp that know the same: `seen` is what they read and did not acquire, `ready` what a fence released.

    A fence of a lane is for its own accesses alone: `fenced` is the time of each lane's last one, by lane, and `halves`
    those of the release halves of one-way proxy fences, for all accesses and for reads.
    """

    __slots__ = ("clock", "fenced", "halves", "mask", "ready", "seen")

    def __init__(self, mask: int, clock: Clock) -> None:
        self.mask = mask
        self.clock = clock
        self.seen: Clock | None = None
        self.ready: Clock | None = None
        self.fenced: Vec | None = None
        self.halves: Vec | None = None

    def divided(self, mask: int) -> Part:
        """Some of the lanes as a part of their own."""
        made = Part(self.mask & mask, self.clock.copy())
        made.seen = self.seen.copy() if self.seen is not None else None
        made.ready = self.ready.copy() if self.ready is not None else None
        made.fenced, made.halves = self.fenced, self.halves
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
        self.fenced = _latest(self.fenced, other.fenced)
        self.halves = _latest(self.halves, other.halves)

    def release(self, lanes: Vec, time: int) -> None:
        """A fence of some lanes releases what they know, and what each of them has done."""
        self.ready = self.clock.copy()
        fenced = np.zeros(LANES, np.int32) if self.fenced is None else self.fenced.copy()
        fenced[lanes] = time
        self.fenced = fenced

    def release_half(self, reads: bool, lanes: Vec, time: int) -> None:
        """The release half of a one-way proxy fence of some lanes."""
        halves = np.zeros((2, LANES), np.int32) if self.halves is None else self.halves.copy()
        halves[int(reads), lanes] = time
        self.halves = halves

    def tell_halves(self, to: Clock, base: int, mask: int) -> None:
        """A clock learns of the release halves of some lanes."""
        if self.halves is None:
            return
        lanes = SELECT[mask]
        whole, reads = self.halves[:, lanes]
        if np.count_nonzero(whole):
            to.fit()[HALF, base + lanes] = np.maximum(to.times[HALF, base + lanes], whole)
        if np.count_nonzero(reads):
            to.released_reads(base + lanes, reads)

    def see(self, source: Clock) -> None:
        if self.seen is None:
            self.seen = source.copy()
        else:
            self.seen.join(source)


def _latest(mine: Vec | None, theirs: Vec | None) -> Vec | None:
    """The later times of two rows; neither array is changed, for parts share them."""
    if mine is None or theirs is None:
        return mine if theirs is None else theirs
    return np.maximum(mine, theirs)


class WarpClock:
    """What a warp knows. `time` is that of its accesses now; `base`, or `first`, the component of its first lane;
    `handed` the time at which it last awaited its cp.async, or let an mbarrier do so, `blocked` that of its last wait
    for work of its own; `passed` who passed the wait for others that it passed last, and when each arrived first since.
    """

    __slots__ = (
        "base",
        "blocked",
        "components",
        "copies",
        "first",
        "handed",
        "inits",
        "issued",
        "maps",
        "moves",
        "parts",
        "passed",
        "time",
    )

    def __init__(self, components: Components, warp: Warp) -> None:
        self.components = components
        self.base = components.lane(warp.cta.rank, warp.index)
        self.first = np.array(self.base)
        self.time = 1
        self.parts = [Part(FULL, Clock(components))]
        self.moves: dict[str, list[int]] = {"ld": [], "st": []}
        self.issued: dict[int, int] = {}
        self.copies = 0
        self.handed = 0
        self.blocked = 0
        self.passed: dict[Warp, int] = {}
        self.inits = 0
        self.maps = 0

    def passes(self, warp: Warp, wait: dict[Warp, int]) -> None:
        """The warp passes a wait, of which `wait` says who else does, and when they have arrived anywhere since."""
        wait[warp] = PENDING
        self.passed = wait

    def arrives(self, warp: Warp) -> None:
        """Threads of the warp arrive, for the first time since it passed a wait or once more."""
        if self.passed.get(warp) == PENDING:
            self.passed[warp] = self.time

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
        "passed",
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
        self.passed = False
        """Which wait of its thread has covered it, and whether one has left it out."""

    def describe(self) -> str:
        lane = f" lane {self.lane}" if self.lane >= 0 else ""
        return f"{self.name} of {self.warp.name}{lane}"


class Awaited:
    """What some lanes of a warp have awaited: `run` of others, by component, and until `blocked` of their own."""

    __slots__ = ("blocked", "passed", "run", "warp")

    def __init__(self, warp: Warp, mask: int) -> None:
        mine: WarpClock = warp.clock
        self.warp = warp
        self.blocked, self.passed = mine.blocked, mine.passed
        run = np.zeros(mine.components.size, np.int32)
        for part in mine.parts:
            if part.mask & mask:
                for clock in (part.clock, part.seen):
                    if clock is not None:
                        np.maximum(run, clock.fit()[RUN], out=run)
        self.run = run

    def is_known(self, known: Vec, arrivers: Collection[Warp] = ()) -> bool:
        """A31: whether a row RUN has all of it, and of an arrival since by threads of its CTA that have passed the same
        wait, and are none of the `arrivers`."""
        mine: WarpClock = self.warp.clock
        behind = known[: len(self.run)] < self.run
        behind[mine.base : mine.base + LANES] = False
        if behind.any() or _heard(self.warp, known) < self.blocked:
            return False
        return any(
            _heard(w, known) >= time
            for w, time in self.passed.items()
            if w.cta is self.warp.cta and w not in arrivers
        )


def _heard(warp: Warp, known: Vec) -> int:
    """When a row has heard from a warp last."""
    base = warp.clock.base
    return int(known[base : base + LANES].max())


class BarrierClock:
    """What the arrivals on an mbarrier have released: in the phase under way, and up to the last that is over.

    `wide` is for waits of cluster scope only: what threads of other CTAs released.
    """

    __slots__ = (
        "arrivers",
        "component",
        "current",
        "done",
        "done_wide",
        "init",
        "passed",
        "waits",
        "wide",
    )

    def __init__(self, components: Components, component: int, init: tuple[int, int]) -> None:
        self.component = component
        self.current = Clock(components)
        self.wide: Clock | None = None
        self.done: Clock | None = None
        self.done_wide: Clock | None = None
        self.init = init
        self.arrivers: dict[Any, int] = {}
        """Who has arrived, and at which line, for a hang."""
        self.waits: dict[Warp, tuple[int, Instruction, Awaited | None]] = {}
        self.passed: dict[Warp, int] = {}
        """Who has passed the wait for the phase that is over, and when they arrived first since."""
