"""The happens-before record: who accessed what, what orders it, and which pairs nothing orders.

Warps and operations tell it what they access and how they synchronise; it keeps a clock for each group of lanes and for
each object through which they meet (`clocks.py`), and the last accesses of every piece of memory (`shadow.py`). What it
finds depends on which accesses happen, and not on when: the values may be right by luck.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.agents import Op, Part
from tkc.emulator.clocks import PENDING, READ_A, Clock
from tkc.emulator.events import GENERIC, LANE_BITS, SEVERAL
from tkc.emulator.findings import Findings
from tkc.emulator.lanes import BOOLS, SELECT, Vec
from tkc.emulator.shadow import Shadow
from tkc.emulator.tensor_order import lifetime, tensor_access
from tkc.emulator.view import View
from tkc.ir.isa.memory import Done, Kind, Proxy
from tkc.ir.isa.tensormap import MAP_BYTES

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.spaces import Origin, Region
    from tkc.emulator.warp import Warp


class Record(Findings):
    """The record of one launch: the observer of its memory."""

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
        cells = region.cells or self._cells(region)
        if self.acting is not None:
            self._operation(self.acting, origin, kind, region, cells, offsets, size)
        else:
            self._threads(agent, origin, kind, region, cells, offsets, size, where)

    def _cells(self, region: Region) -> Shadow:
        if region.cells is None:
            region.cells = Shadow(region.size)
            if region.space == "global":
                region.cells.log = []
        return region.cells

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
        proxy = GENERIC if not is_async else op.kind
        component = op.component + (READ_A if origin.first else 0)
        event = self._event(op, origin.ins, kind, proxy, strong, component)
        home = region.owner.rank if region.space == "shared" else None
        tensor = op.name.startswith("tcgen05")
        view = View(
            self,
            op.clock,
            event,
            is_async,
            home,
            op.rank,
            strong,
            op.events,
            in_tensor_core=tensor,
        )
        view.place = region
        if self.dependent and home is None and not region.constant:
            self.check_grids(op.clock, origin.ins, op)
        if home is not None and home != op.rank:
            self._remote_event(region.owner, event, op)
        several = self.strict and origin.done is Done.WGMMA_GROUP
        cells.touch(
            view, kind, offsets, size, event << LANE_BITS | (SEVERAL if several else 0), None
        )

    def issued(self, name: str, w: Warp, lane: int | None, ins: Instruction, done: Done) -> Op:
        op = super().issued(name, w, lane, ins, done)
        mapped, self.mapped = self.mapped, None
        if mapped is not None and mapped[0].space == "global":
            self._map_read(op, *mapped)
        return op

    def _map_read(self, op: Op, region: Region, offset: int) -> None:
        """A copy reads its tensor map, through a proxy of its own."""
        event = self._event(op, op.ins, Kind.READ, op.kind)
        self.map_reads.add(event)
        at = region.base + offset
        view = View(self, op.clock, event, True, None, op.rank, 0, op.events, through_map=at)
        view.place = region
        self._cells(region).touch(
            view, Kind.READ, np.array([offset]), MAP_BYTES, event << LANE_BITS, None
        )

    def _event(
        self,
        op: Op,
        ins: Instruction,
        kind: Kind,
        proxy: int,
        strong: int = 0,
        component: int | None = None,
    ) -> int:
        mask = 0xF if op.name == "wgmma" else 1
        event = self.events.add(
            op.component if component is None else component,
            op.time,
            proxy,
            strong,
            op.clock.components.number,
            op.rank,
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
        strong, acquires, releases, changes = self.semantics(ins)
        if strong and kind is Kind.READ and self.words:
            self.see(w, ins, region, offsets, where, acquires)
        joint = ins.row.name == "tensormap.cp_fenceproxy"
        if joint and kind is Kind.READ:
            # Its write follows, and whoever has awaited that need not wait for the read.
            mine.maps += 1
        event = self.events.add(
            self.map_component(w) if joint else mine.base,
            mine.maps if joint else mine.time,
            GENERIC,
            strong,
            mine.components.number,
            w.cta.rank,
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
        parts = mine.parts
        if len(parts) > 1:
            parts = [p for p in parts if p.mask & mask]
        if self.dependent and home is None and not region.constant:
            for part in parts:
                self.check_grids(part.clock, ins, w)
        need = min(strong, 3) if home is None or home != w.cta.rank else min(strong, 1)
        if lanes is None:
            clock = parts[0].clock if len(parts) == 1 else self.common(parts)
            view = View(self, clock, event, False, home, w.cta.rank, need)
            view.place = region
            single = mask & (mask - 1) == 0
            lane = 0 if joint else mask.bit_length() - 1 if single else SEVERAL
            own = np.full(len(offsets), mine.base + lane) if single and not joint else None
            cells.touch(view, kind, offsets, size, event << LANE_BITS | lane, own)
        else:
            # What lanes write together is one access, whatever each of them knows.
            own = [event] if len(parts) > 1 and kind is Kind.WRITE else None
            for part in parts:
                view = View(self, part.clock, event, False, home, w.cta.rank, need, own)
                view.place = region
                here, places = lanes, offsets
                if len(parts) > 1:
                    mine_too = BOOLS[part.mask][lanes]
                    here, places = lanes[mine_too], offsets[mine_too]
                    if not len(here):
                        continue
                codes = here + np.array(event << LANE_BITS)
                cells.touch(view, kind, places, size, codes, here + mine.first)
        if strong and kind is Kind.WRITE:
            self.tell(w, ins, region, offsets, where, releases, changes)

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
        tensor_access(self, agent, origin, kind, memory, lanes, start, stop)

    def lifetime(
        self, w: Warp, origin: Origin, memory: Any, start: int, columns: int, pair: list[Any]
    ) -> None:
        """tcgen05.alloc or dealloc of columns, with the tensor memories of the pair."""
        lifetime(self, w, origin, memory, start, columns, pair)

    def common(self, parts: list[Part]) -> Clock:
        """What all parts know."""
        made = parts[0].clock.copy()
        for part in parts[1:]:
            np.minimum(made.fit(), part.clock.fit(), out=made.times)
            theirs = part.clock.maps or {}
            shared = (made.maps or {}).keys() & theirs.keys()
            made.maps = {p: np.minimum(made.acquired(p), part.clock.acquired(p)) for p in shared}
        return made


def _strength(name: str) -> int:
    """The scope of an operation's accesses that are atomic: negative in the async proxy, 0 where they are weak."""
    if name.startswith("cp.reduce"):
        return -3 if not name.endswith("cluster") else -2
    return 2 if name == "red.async" else 0
