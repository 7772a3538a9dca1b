"""Accesses that were made, as numbered events: whose clock component, which time, which proxy, where in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.emulator.clocks import PENDING

if TYPE_CHECKING:
    from tkc.emulator.instruction import Instruction

LANE_BITS = 6
SEVERAL = 63
"""In the low bits of a cell: the lane that made the access, or SEVERAL where all lanes of the event's mask did."""
LANE_SHIFT, LANE_MASK, NONE = np.array(LANE_BITS), np.array(SEVERAL), np.array(0)
"""The same as arrays, with which an operation on few lanes takes half the time."""
GENERIC, BRIDGED, RAW = range(3)
"""Kinds of events: of the generic proxy; async with, or without, a proxy fence in its completion."""


@dataclass(slots=True, frozen=True)
class Who:
    """Who made an access: `agent` is a warp or an operation, `mask` the lanes."""

    ins: Instruction
    agent: Any
    mask: int
    verb: str


class Events:
    """Columns by event number; number 0 is no event. `component` is that of the first lane of the event's warp."""

    def __init__(self) -> None:
        size = 1024
        self.count = 1
        self.component = np.zeros(size, np.int64)
        self.time = np.full(size, -1, np.int64)
        self.kind = np.zeros(size, np.int8)
        self.strong = np.zeros(size, np.int8)
        self.cluster = np.zeros(size, np.int32)
        self.rank = np.zeros(size, np.int16)
        """The rank of the CTA whose agent it was."""
        self.who: list[Who | None] = [None]

    def add(
        self,
        component: int,
        time: int,
        kind: int,
        strong: int,
        cluster: int,
        rank: int,
        who: Who,
    ) -> int:
        number = self.count
        if number == len(self.component):
            for name in ("component", "time", "kind", "strong", "cluster", "rank"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self.component[number] = component
        self.time[number] = time
        self.kind[number] = kind
        self.strong[number] = strong
        self.cluster[number] = cluster
        self.rank[number] = rank
        self.who.append(who)
        self.count = number + 1
        return number

    def stamp(self, number: int, component: int, time: int, kind: int) -> None:
        """An event whose time was pending has come to be known at this time of a component."""
        if self.time[number] == PENDING:
            self.component[number] = component
            self.time[number] = time
            self.kind[number] = kind
