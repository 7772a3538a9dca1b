"""Vector clocks with proxies: what has happened before a thread, in each of the ways in which the model lets it know.

A component is a thread (a lane), an mbarrier, or a queue of a thread's asynchronous work; its time counts up. A clock
holds a row of times for each kind of knowledge. Clocks of one cluster have the same components; what is known of other
clusters, through global memory, stands aside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tkc.emulator.lanes import LANES, Vec

RUN, ORDER, TENSOR, BEFORE, LATER, GLOBAL, HALF, MAP_HALF, SHARED = range(9)
"""The rows.

RUN: it had to run before me, whatever memory says. ORDER: base causality (PTX 8.9.5). TENSOR: the same for tensor
memory, which a barrier alone does not order. BEFORE: before a tcgen05.fence::before_thread_sync on the way. LATER:
only async accesses may rely on it (A5). GLOBAL: a proxy fence for global memory lay on the way. HALF: the release
half of a one-way proxy fence. MAP_HALF: the release half of the tensormap fence. From SHARED on, a row for each CTA:
a proxy fence of that CTA for its own shared memory; and in a cluster as many again, for that of the whole cluster.
"""

READ_A = 2
"""Which of a thread's components for tensor work counts the first operands that it has read from shared memory."""

PENDING = 1 << 60
"""The time of what nobody can know yet."""
SPARE = 64


class Components:
    """The components of one cluster: `lanes` threads first, then others by name as they are asked for."""

    def __init__(self, number: int, ctas: int, warps: int) -> None:
        self.number = number
        self.ctas = ctas
        self.warps = warps
        self.lanes = ctas * warps * LANES
        self.rows = SHARED + ctas + (ctas if ctas > 1 else 0)
        self.size = self.lanes + SPARE
        self._names: dict[Any, int] = {}
        self._next = self.lanes
        self.asynchronous: list[int] = []

    def lane(self, rank: int, warp: int, lane: int = 0) -> int:
        return (rank * self.warps + warp) * LANES + lane

    def named(self, name: Any, count: int = 1, asynchronous: bool = True) -> int:
        """The first of `count` components of that name; `asynchronous` ones stand for completions."""
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = self._next
            self._next += count
            if asynchronous:
                self.asynchronous += range(found, found + count)
            while self._next > self.size:
                self.size += SPARE
        return found

    def reach(self, rank: int) -> int:
        """The row of fences of a CTA that reach all shared memory of the cluster."""
        return SHARED + (self.ctas if self.ctas > 1 else 0) + rank


class Clock:
    """Rows of times (rows, components), and `far`: those of other clusters by number.

    `maps`: the times that a CTA has acquired of a tensor map, by its rank and the map's address. `reads`: times of
    threads whose reads the release half of a one-way fence of reads has released; `read`: the same of what this thread
    has acquired, which it tells nobody. None where there is none.
    """

    __slots__ = ("components", "far", "maps", "read", "reads", "times")

    def __init__(self, components: Components, times: Vec | None = None) -> None:
        self.components = components
        self.times = (
            np.zeros((components.rows, components.size), np.int32) if times is None else times
        )
        self.far: dict[int, Vec] | None = None
        self.maps: dict[tuple[int, int], Vec] | None = None
        self.reads: Vec | None = None
        self.read: Vec | None = None

    def fit(self) -> Vec:
        """The times, as wide as the components are now."""
        missing = self.components.size - self.times.shape[1]
        if missing > 0:
            self.times = np.pad(self.times, ((0, 0), (0, missing)))
        return self.times

    def copy(self) -> Clock:
        made = Clock(self.components, self.times.copy())
        made.far = dict(self.far) if self.far else None
        made.maps = dict(self.maps) if self.maps else None
        made.reads, made.read = self.reads, self.read
        return made

    def join_halves(self, other: Clock) -> None:
        """Learns what the release halves of one-way fences have released."""
        self.join_row(HALF, other.times[HALF])
        self.join_reads(other)

    def join_reads(self, other: Clock) -> None:
        if other.reads is not None:
            self.reads = _latest(self.reads, other.reads)

    def released_reads(self, lanes: Vec, times: Vec) -> None:
        """Some threads, by their components, have released what they had read."""
        made = np.zeros(self.components.lanes, np.int32)
        made[lanes] = times
        self.reads = _latest(self.reads, made)

    def acquire_reads(self) -> None:
        """This thread may rely on the reads that have been released."""
        if self.reads is not None:
            self.read = _latest(self.read, self.reads)

    def join(self, other: Clock) -> None:
        """Learns what another clock knows."""
        if other.components is not self.components:
            self._join_far(other.components.number, other.times)
        else:
            if other.times.shape != self.times.shape:
                self.fit()
                other.fit()
            np.maximum(self.times, other.times, out=self.times)
            for place, times in (other.maps or {}).items():
                self.acquire(place, times)
            self.join_reads(other)
        if other.far:
            for number, times in other.far.items():
                if number != self.components.number:
                    self._join_far(number, times)
                else:
                    mine = self.fit()
                    np.maximum(mine[:, : times.shape[1]], times, out=mine[:, : times.shape[1]])

    def acquire(self, place: tuple[int, int], times: Vec) -> None:
        """A CTA may rely, for its copies through a tensor map, on what came before these times."""
        if self.maps is None:
            self.maps = {}
        mine = self.maps.get(place)
        self.maps[place] = times if mine is None else _later(mine, times)

    def acquired(self, place: tuple[int, int]) -> Vec:
        """What has been acquired of a tensor map, as wide as the components are now."""
        times = None if self.maps is None else self.maps.get(place)
        width = self.components.size
        return (
            np.zeros(width, np.int32) if times is None else np.pad(times, (0, width - len(times)))
        )

    def _join_far(self, number: int, times: Vec) -> None:
        if self.far is None:
            self.far = {}
        mine = self.far.get(number)
        if mine is None:
            self.far[number] = times.copy()
        else:
            width = max(mine.shape[1], times.shape[1])
            both = [np.pad(t, ((0, 0), (0, width - t.shape[1]))) for t in (mine, times)]
            self.far[number] = np.maximum(*both)

    def join_row(self, row: int, times: Vec) -> None:
        """Learns one row."""
        mine = self.fit()[row]
        width = len(times)
        np.maximum(mine[:width], times, out=mine[:width])

    def join_completions(self, other: Clock, rows: tuple[int, ...], source: int) -> None:
        """Learns of another clock's row `source` what it knows of asynchronous work, into `rows`."""
        if other.components is not self.components:
            return
        at = self.components.asynchronous
        if not at:
            return
        mine, theirs = self.fit(), other.fit()
        for row in rows:
            mine[row, at] = np.maximum(mine[row, at], theirs[source, at])


def _later(a: Vec, b: Vec) -> Vec:
    """The later of two rows of times, of which one may be shorter."""
    width = max(len(a), len(b))
    return np.maximum(*(np.pad(t, (0, width - len(t))) for t in (a, b)))


def _latest(mine: Vec | None, theirs: Vec) -> Vec:
    """Both; neither array is changed, for clocks share them."""
    return theirs if mine is None else np.maximum(mine, theirs)
