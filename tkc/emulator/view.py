"""What one access may rely on: the accesses that come before it in the model's sense, and those that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tkc.emulator.clocks import GLOBAL, LATER, ORDER, RUN, SHARED, TENSOR, Clock
from tkc.emulator.events import GENERIC, LANE_BITS, LANE_MASK, LANE_SHIFT, RAW, SEVERAL
from tkc.emulator.lanes import SELECT, Vec
from tkc.ir.isa.memory import Kind

if TYPE_CHECKING:
    from tkc.emulator.findings import Findings as Record


class View:
    """One access: `clock` is what its agent knew, `home` the CTA rank that owns shared memory (None: global memory).

    `performer` is the rank of the CTA whose agent accesses, `ignored` events are its own operation's.
    """

    __slots__ = (
        "bridged",
        "clock",
        "cluster",
        "event",
        "home",
        "ignored",
        "is_async",
        "kind",
        "order",
        "performer",
        "place",
        "reads",
        "record",
        "strong",
    )

    def __init__(
        self,
        record: Record,
        clock: Clock,
        event: int,
        is_async: bool,
        home: int | None,
        performer: int,
        strong: int = 0,
        ignored: list[int] | None = None,
        through_map: int | None = None,
        in_tensor_core: bool = False,
    ) -> None:
        self.record = record
        self.clock = clock
        self.cluster = clock.components.number
        self.event = event
        self.is_async = is_async
        self.home = home
        self.performer = performer
        self.strong = strong
        self.ignored = ignored
        times = clock.fit()
        order = times[ORDER]
        if is_async:
            if through_map is not None:
                fenced = clock.acquired((performer, through_map))
            elif home is None:
                fenced = times[GLOBAL]
            else:
                fenced = times[SHARED + home]
                if performer != home:
                    reach = times[clock.components.reach(performer)]
                    # A1: the CTA that owns the memory performs the access, so that its fences count too.
                    fenced = np.maximum(fenced, reach) if record.grants_home else reach
            self.bridged = np.minimum(fenced, order)
            self.reads = self.bridged
            if clock.components.ctas > 1 and "A25" in record.grants:
                # Reads that a fence has covered, and of which an arrival of small scope tells.
                self.reads = np.minimum(fenced, times[RUN])
            if clock.read is not None and home is not None:
                self.reads = self._released(clock.read)
            self.order = np.maximum(order, times[LATER]) if record.grants_later else order
            if in_tensor_core:
                # tcgen05.fence::after_thread_sync orders the tensor core's reads of shared memory too.
                self.order = np.maximum(self.order, times[TENSOR])
        else:
            self.bridged = self.order = order
            self.reads = order

    def _released(self, read: Vec) -> Vec:
        """What is known of generic reads, some of which one-way fences have released."""
        found = self.reads.copy()
        np.maximum(found[: len(read)], read, out=found[: len(read)])
        return found

    def past(self, event: int) -> Past:
        return Past(self.record, event)

    def unordered(self, codes: Vec, own: Vec | None, reads: bool = False) -> Vec | None:
        """Where the cells hold an access that does not come before this one; None where none does. `reads`: the cells
        hold reads."""
        if len(codes) > 48 and own is None:
            first = codes[0]
            if (codes == first).all():
                if not first:
                    return None
                found = self._unordered(codes[:1], None, reads)
                return None if found is None else np.ones(len(codes), bool)
        return self._unordered(codes, own, reads) if np.count_nonzero(codes) else None

    def _unordered(self, codes: Vec, own: Vec | None, reads: bool) -> Vec | None:
        events = self.record.events
        bridged = self.reads if reads else self.bridged
        number = codes >> LANE_SHIFT
        lane = codes & LANE_MASK
        component = events.component[number]
        component += lane
        time = events.time[number]
        if self.is_async:
            known = np.where(
                events.kind.take(number) == GENERIC,
                bridged.take(component, mode="clip"),
                self.order.take(component, mode="clip"),
            )
        else:
            known = self.order.take(component, mode="clip")
        bad = known < time
        several = lane == LANE_MASK
        some = np.count_nonzero(several)
        if not (some or np.count_nonzero(bad) or self.home is None or self.record.strict):
            return None
        if own is not None:
            bad &= component != own
        if some:
            self._all_lanes(codes, number, several, bad, own, bridged)
        if self.home is None:
            other = events.cluster.take(number) != self.cluster
            other &= number != 0
            if np.count_nonzero(other):
                self._elsewhere(number, component, time, other, bad)
        if self.record.strict:
            self._strictly(number, component, time, bad)
        if self.strong and np.count_nonzero(bad):
            strong = events.strong.take(number)
            bad &= strong < self.strong if self.strong > 0 else strong > self.strong
        if not np.count_nonzero(bad):
            return None
        if self.ignored:
            bad &= ~np.isin(number, self.ignored)
            return bad if np.count_nonzero(bad) else None
        return bad

    def _all_lanes(
        self, codes: Vec, number: Vec, several: Vec, bad: Vec, own: Vec | None, bridged: Vec
    ) -> None:
        """Accesses that several lanes made: each of them must come before."""
        events = self.record.events
        for one in np.unique(number[several]).tolist():
            here = several & (number == one)
            who = events.who[one]
            assert who is not None
            lanes = events.component[one] + SELECT[who.mask]
            row = bridged if self.is_async and events.kind[one] == GENERIC else self.order
            late = lanes[row.take(lanes, mode="clip") < events.time[one]]
            if not len(late):
                bad[here] = False
            elif own is None or len(late) > 1:
                bad[here] = True
            else:
                bad[here] = own[here] != late[0]

    def _elsewhere(self, number: Vec, component: Vec, time: Vec, other: Vec, bad: Vec) -> None:
        """Accesses of other clusters, of which this one knows through global memory."""
        events = self.record.events
        far = self.clock.far or {}
        for cluster in np.unique(events.cluster[number[other]]).tolist():
            here = other & (events.cluster[number] == cluster)
            times = far.get(cluster)
            if times is None:
                bad[here] = True
                continue
            order = times[ORDER]
            fenced = np.minimum(times[GLOBAL], order) if self.is_async else order
            at = component[here]
            several = (codes_lane := at) >= len(order)
            at = np.where(several, 0, codes_lane)
            known = np.where(events.kind[number[here]] == GENERIC, fenced[at], order[at])
            bad[here] = (known < time[here]) | several

    def _strictly(self, number: Vec, component: Vec, time: Vec, bad: Vec) -> None:
        """Completions that bridge nothing: a later generic access needs a proxy fence of its own."""
        events = self.record.events
        raw = events.kind.take(number) == RAW
        raw &= time > 0
        if self.is_async and not self.record.grants_home:
            other = events.kind.take(number) != GENERIC
            other &= (events.rank.take(number) != self.performer) & (time > 0)
            bad |= other & (self.bridged.take(component, mode="clip") < time)
        if not self.is_async and np.count_nonzero(raw):
            times = self.clock.times
            fenced = times[GLOBAL] if self.home is None else times[SHARED + self.home]
            bad |= raw & (fenced.take(component, mode="clip") < time)

    def replaces(self, found: Vec, codes: int | Vec) -> Vec:
        """Which reads need not be kept beside this one: earlier ones of the same thread, or known to a generic one."""
        events = self.record.events
        number = found >> LANE_BITS
        mine = events.component[self.event]
        lanes = codes & SEVERAL
        same = events.component.take(number) + (found & SEVERAL) == mine + lanes
        if self.is_async or self.strong:
            return same
        ordered = self._unordered(found, None, True)
        if ordered is None:
            return same | (events.kind.take(number) == GENERIC)
        return same | (~ordered & (events.kind.take(number) == GENERIC))

    def conflict(self, before: Kind, now: Kind, codes: Vec, last: Vec) -> None:
        """Accesses that do not come before this one, and the last writes of those places."""
        self.record.conflict(self, before, now, codes, last)


class Past(View):
    """An access of which nothing is left but its event: it is not judged again."""

    __slots__ = ()

    def __init__(self, record: Record, event: int) -> None:
        self.record = record
        self.event = event
        self.is_async = record.events.kind[event] != GENERIC
        self.strong = 1

    def unordered(self, codes: Vec, own: Vec | None, reads: bool = False) -> Vec | None:
        return None
