"""Order in tensor memory (PTX 9.7.18.6): pipelined pairs, commits, waits for loads and stores, and lifetimes.

Pieces are 16 lanes of one column. Operations of the tensor core are complete when a commit has arrived, loads and
stores when their warp has waited; some pairs run in order without that (`PIPELINED`), also across threads with
tcgen05.fence on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.clocks import ORDER, PENDING, RUN, TENSOR, Clock
from tkc.emulator.events import BRIDGED, GENERIC, LANE_BITS, SEVERAL, Who
from tkc.emulator.lanes import LANES, Vec
from tkc.emulator.races import name_of
from tkc.ir.isa.assumptions import PIPELINED
from tkc.ir.isa.fragments import TENSOR_LANES
from tkc.ir.isa.memory import Kind

if TYPE_CHECKING:
    from tkc.emulator.agents import Op
    from tkc.emulator.record import Record
    from tkc.emulator.spaces import Origin
    from tkc.emulator.tensor_memory import TensorMemory
    from tkc.emulator.warp import Warp

GROUP = 16
LIFETIME = "alloc", "dealloc"


class TensorCells:
    """The last write and the reads since of each piece, as events; `extents` are the columns of each event."""

    def __init__(self, columns: int) -> None:
        self.last = np.zeros((TENSOR_LANES // GROUP, columns), np.int64)
        self.reads: list[Vec] = []
        self.extents: dict[int, tuple[Any, int, int]] = {}


def cells_of(memory: TensorMemory) -> TensorCells:
    if memory.cells is None:
        memory.cells = TensorCells(memory.columns)
    return memory.cells


def rows_of(lanes: Any) -> Any:
    """The 16-lane groups of a slice or a vector of lanes."""
    if isinstance(lanes, slice):
        return slice(lanes.start // GROUP, -(-lanes.stop // GROUP))
    return np.unique(lanes // GROUP)


class TensorAccess:
    """One access of tensor memory: by an operation, or by the threads of a warp."""

    def __init__(
        self, record: Record, agent: Any, op: Op | None, origin: Origin, kind: Kind, what: str
    ) -> None:
        self.record = record
        self.kind = kind
        self.what = what
        self.op = op
        self.ins = origin.ins
        events = record.events
        if op is not None:
            self.clock: Clock = op.clock
            self.thread: Any = (op.warp, op.lane)
            self.agent: Any = op
            component, time, proxy, mask = op.component, op.time, BRIDGED, 1
        else:
            w: Warp = agent
            mine = record.of(w)
            parts = [p for p in mine.parts if p.mask & w.mask]
            self.clock = parts[0].clock if len(parts) == 1 else record.common(parts)
            self.thread, self.agent = w, w
            component, proxy, mask = mine.base, GENERIC, w.mask
            time = PENDING if what in ("ld", "st") else mine.time
        self.mask = mask
        self.event = events.add(
            component,
            time,
            proxy,
            0,
            self.clock.components.number,
            op.rank if op is not None else agent.cta.rank,
            record.who(origin.ins, self.agent, mask, kind),
        )
        if op is None and what in ("ld", "st"):
            record.of(agent).moves[what].append(self.event)
            record.issues[self.event] = mine.time

    def touch(self, cells: TensorCells, rows: Any, start: int, stop: int) -> None:
        """Judges the access against what stands there, and puts it there."""
        record = self.record
        cells.extents[self.event] = (rows if isinstance(rows, slice) else None, start, stop)
        before = cells.last[rows, start:stop]
        self._judge(cells, before, Kind.WRITE)
        if self.kind is Kind.READ:
            self._keep(cells, rows, start, stop)
            return
        for slot in cells.reads:
            found = slot[rows, start:stop]
            if found.any():
                self._judge(cells, found, Kind.READ)
                slot[rows, start:stop] = 0
        cells.last[rows, start:stop] = self.event << LANE_BITS
        del record

    def _keep(self, cells: TensorCells, rows: Any, start: int, stop: int) -> None:
        events = self.record.events
        for slot in cells.reads:
            found = slot[rows, start:stop]
            held = events.component[found >> LANE_BITS] == events.component[self.event]
            if ((found == 0) | held).all():
                slot[rows, start:stop] = self.event << LANE_BITS
                return
        slot = np.zeros_like(cells.last)
        slot[rows, start:stop] = self.event << LANE_BITS
        cells.reads.append(slot)

    def _judge(self, cells: TensorCells, found: Vec, before: Kind) -> None:
        first = int(found.flat[0])
        codes = [first] if (found == first).all() else np.unique(found).tolist()
        for code in codes:
            number = code >> LANE_BITS
            if not number or (self.op is not None and number in self.op.events):
                continue
            who = self.record.events.who[number]
            assert who is not None
            if self.what == "dealloc" and what_of(who) == "dealloc":
                # Both CTAs of a pair give back the columns of both.
                continue
            if not self._ordered(cells, number, who, before):
                self._report(number, who, before)

    def _ordered(self, cells: TensorCells, number: int, who: Who, before: Kind) -> bool:
        record = self.record
        component = int(record.events.component[number])
        time = int(record.events.time[number])
        times = self.clock.fit()
        old = what_of(who)
        lifetime = self.what in LIFETIME or old in LIFETIME
        row = np.maximum(times[ORDER], times[TENSOR]) if lifetime else times[TENSOR]
        earlier: Any = who.agent
        if old == "alloc" and self.op is not None and earlier.cta is not self.op.warp.cta:
            # The other CTA of the pair allocates with this one (A24).
            return "A24" in record.grants or bool(row[component : component + LANES].max() >= time)
        if old in ("ld", "st") or old in LIFETIME:
            if earlier is self.thread:
                return time != PENDING or (old == "st" and self.what == "st")
            lanes = np.arange(component, component + LANES)
            if old == "alloc" and "A30" in record.grants:
                return bool(row[lanes].max() >= time)
            held = np.array([who.mask >> k & 1 for k in range(LANES)], bool)
            if self.op is not None and self.op.warp is earlier:
                # The lanes of a warp load and store together: their own wait is enough for an elected one of them.
                return time != PENDING and bool(row[lanes].max() >= time)
            return bool((row[lanes[held]] >= time).all())
        if row[component] >= time:
            return True
        if self.op is None:
            return False
        same = (earlier.warp, earlier.lane) == self.thread
        return (same or row[component + 1] >= time) and self._pipelined(cells, number, old, before)

    def _pipelined(self, cells: TensorCells, number: int, old: str, before: Kind) -> bool:
        for pair in PIPELINED:
            if (pair.first, pair.then) != (old, self.what):
                continue
            if pair.needs and pair.needs not in self.record.grants:
                continue
            if pair.needs == "A14" and not (before is Kind.READ and self.kind is Kind.WRITE):
                continue
            if not pair.same or cells.extents.get(number) == cells.extents.get(self.event):
                return True
        return False

    def _handed_on(self, number: int, who: Who, old: str) -> bool:
        """Whether a load or store had been issued, as this access knows, and was not awaited before it was told so."""
        record = self.record
        if old not in ("ld", "st"):
            return False
        if record.events.time[number] == PENDING:
            return True
        issued = record.issues.get(number, PENDING)
        component = int(record.events.component[number])
        return bool(self.clock.fit()[RUN, component : component + LANES].max() >= issued)

    def _report(self, number: int, who: Who, before: Kind) -> None:
        record = self.record
        old = what_of(who)
        pending = self._handed_on(number, who, old)
        new = record.events.who[self.event]
        assert new is not None
        if self.what in LIFETIME or old in LIFETIME:
            code = "TK310"
            message = (
                f"{name_of(who)} may still use the columns that line {self.ins.line} gives back"
                if self.what == "dealloc"
                else f"tensor memory is used and nothing orders this after its {old}ation"
            )
            cheapest = "a barrier that every user comes to between the last use and tcgen05.dealloc"
            if old in LIFETIME:
                cheapest = "a barrier between tcgen05.alloc and the first use"
            if pending and old in ("ld", "st"):
                code, cheapest = (
                    "TK312",
                    f"tcgen05.wait::{old} before the barrier that precedes the dealloc",
                )
        elif old in ("ld", "st"):
            code = "TK312" if pending else "TK301"
            message = f"a tcgen05.{old} and {_with_article(self.what, self.kind)} of the same columns are not ordered"
            cheapest = (
                f"tcgen05.wait::{old} in {name_of(who)} before its arrival"
                if pending
                else "an arrival after the wait and an acquiring wait, or tcgen05.fence on both sides of a barrier"
            )
        else:
            code = "TK301"
            message = f"a tcgen05.{old} and {_with_article(self.what, self.kind)} of the same columns are not ordered"
            cheapest = "tcgen05.commit to an mbarrier and an acquiring wait for it"
            if record.known_by_order(self.clock, number):
                cheapest = "tcgen05.fence::after_thread_sync after that barrier or relaxed wait"
        record.raced(code, message, who, new, "tensor memory", (f"cheapest order: {cheapest}",))


def _with_article(what: str, kind: Kind) -> str:
    return f"a {kind} by tcgen05.{what}"


def what_of(who: Who) -> str:
    """mma, cp, shift, ld, st, alloc or dealloc."""
    return who.ins.row.name.split(".")[1]


def tensor_access(
    record: Record,
    agent: Any,
    origin: Origin,
    kind: Kind,
    memory: TensorMemory,
    lanes: Any,
    start: int,
    stop: int,
) -> None:
    op = record.acting
    what = origin.ins.row.name.split(".")[1]
    access = TensorAccess(record, agent, op, origin, kind, what)
    if op is not None:
        op.events.append(access.event)
    access.touch(cells_of(memory), rows_of(lanes), start, stop)


def lifetime(
    record: Record,
    w: Warp,
    origin: Origin,
    memory: TensorMemory,
    start: int,
    columns: int,
    peers: list[Any],
) -> None:
    """Columns are given out or back: with a pair, the peer's accesses must be over as well."""
    what = origin.ins.row.name.split(".")[1]
    access = TensorAccess(record, w, None, origin, Kind.WRITE, what)
    cells = cells_of(memory)
    rows = slice(0, TENSOR_LANES // GROUP)
    if what == "alloc":
        cells.last[rows, start : start + columns] = access.event << LANE_BITS
        for slot in cells.reads:
            slot[rows, start : start + columns] = 0
        return
    access.touch(cells, rows, start, start + columns)
    for peer in peers:
        if peer is not memory:
            access.touch(cells_of(peer), rows, start, start + columns)


__all__ = ["SEVERAL", "TensorCells", "lifetime", "tensor_access"]
