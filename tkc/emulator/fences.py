"""Fences: between proxies, of threads, of new mbarriers, of tensor maps and of tensor memory (PTX 9.7.15.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tkc.emulator.agents import COMPLETED
from tkc.emulator.clocks import (
    BEFORE,
    GLOBAL,
    HALF,
    MAP_HALF,
    ORDER,
    READ_A,
    SHARED,
    TENSOR,
    Clock,
)
from tkc.emulator.lanes import SELECT
from tkc.emulator.ordering import Ordering

if TYPE_CHECKING:
    from tkc.emulator.warp import Warp


class Fences(Ordering):
    """What each fence does to the clocks of the active lanes."""

    def init_component(self, w: Warp) -> int:
        """The component that counts the mbarriers that a warp has initialised."""
        name = ("init", w.cta.rank, w.index)
        return self.of(w).components.named(name, asynchronous=False)

    def tensor_component(self, w: Warp, lane: int) -> int:
        """Three components: what a thread's tensor work has completed, what of it is in order without that, and which
        first operands it has read from shared memory."""
        return self.of(w).components.named(("tensor", w.cta.rank, w.index, lane), READ_A + 1)

    def fence_proxy(self, w: Warp, space: str) -> None:
        """fence.proxy.async: what is known now may be relied on across the proxies, for this CTA's memory."""
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

    def fence_half(self, w: Warp, acquires: bool, reads: bool = False) -> None:
        """The one-way proxy fences: each thread releases its own accesses (`reads`: those that read only), the
        acquiring CTA may then use them."""
        mine = self.of(w)
        components = mine.components
        for part in mine.split(w.mask, w.alive):
            times = part.clock.fit()
            if acquires:
                part.tell_halves(part.clock, mine.base, part.mask & w.mask)
                times = part.clock.times
                rows = range(SHARED, components.rows)
                for row in rows:
                    np.maximum(times[row], times[HALF], out=times[row])
                np.maximum(times[ORDER], times[HALF], out=times[ORDER])
                part.clock.acquire_reads()
            else:
                part.release_half(reads, SELECT[part.mask & w.mask], mine.time)
        mine.time += 1

    def map_component(self, w: Warp) -> int:
        """The component that counts the tensor maps that a warp has put into global memory."""
        return self.of(w).components.named(("maps", w.cta.rank, w.index), asynchronous=False)

    def map_written(self, w: Warp) -> None:
        """tensormap.cp_fenceproxy has copied: one operation of the warp, which all of its threads have awaited."""
        mine, at = self.of(w), self.map_component(w)
        for part in mine.split(w.mask, w.alive):
            part.clock.fit()[list(COMPLETED), at] = mine.maps
        self.fence_map(w)

    def fence_map(self, w: Warp, maps: Mapping[int, int] | None = None) -> None:
        """fence.proxy.tensormap: a release, or an acquire, of the map that each lane names, by one that has come to
        know of the release. It is the CTA's, whose other threads may be told of it."""
        mine = self.of(w)
        for part in mine.split(w.mask, w.alive):
            times = part.clock.fit()
            known = times[ORDER].copy()
            known[mine.lanes(part.mask & w.mask)] = mine.time
            if maps is None:
                np.maximum(times[MAP_HALF], known, out=times[MAP_HALF])
                continue
            released = np.minimum(times[MAP_HALF], known)
            named = {maps[lane] for lane in SELECT[part.mask & w.mask].tolist()}
            for address in named:
                part.clock.acquire((w.cta.rank, address), released)
        mine.time += 1

    def fence(self, w: Warp, acquires: bool, releases: bool) -> None:
        """fence.acq_rel and its kin: what was seen is acquired, what is known is ready to be released."""
        mine = self.of(w)
        for part in mine.split(w.mask, w.alive):
            if acquires and part.seen is not None:
                part.clock.join(part.seen)
                part.seen = None
            if releases:
                part.release(SELECT[part.mask & w.mask], mine.time)
        mine.time += 1

    def fence_init(self, w: Warp) -> None:
        """fence.mbarrier_init: the thread's new mbarriers may be used by who hears of it, even without a release."""
        mine = self.of(w)
        at = self.init_component(w)
        for part in mine.split(w.mask, w.alive):
            if part.ready is None:
                part.ready = Clock(mine.components)
            times = part.ready.fit()
            times[ORDER, at] = max(int(times[ORDER, at]), int(part.clock.fit()[ORDER, at]))

    def cover_inits(self, w: Warp) -> None:
        if not self.of(w).inits:
            return
        at = self.init_component(w)
        for part in self.of(w).split(w.mask, w.alive):
            if part.ready is not None and (times := part.ready.fit())[ORDER, at]:
                times[ORDER, at] = part.clock.fit()[ORDER, at]

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
                    at = self.tensor_component(w, lane) + 1
                    times[COMPLETED, at] = mine.issued[lane]
        mine.time += 1
