"""Looks on while a launch runs: which warp ran what, who waited how long for what, which engine was busy when.

A `Watch` costs nothing: it knows the machine, so that another thread can show how far it is, and turns Ctrl-C into a
finding. A `Counter` stands between a program and its machine: it gives the machine a program whose segments report
their end, sees every access of memory as an observer, and wraps each asynchronous operation. Time is counted in steps,
one for each instruction of a warp.
"""

from __future__ import annotations

import copy
from collections import Counter as Multiset
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tkc.diagnostics import Location
from tkc.emulator.instruction import Ending, Instruction
from tkc.emulator.report import Finding
from tkc.emulator.spaces import Observer, Origin, Region
from tkc.emulator.statistics import counted, is_wait
from tkc.emulator.trace import Trace
from tkc.emulator.warp import Warp
from tkc.ir.isa.banks import TURN, least, wavefronts
from tkc.ir.isa.memory import Kind

if TYPE_CHECKING:
    from tkc.emulator.machine import Machine
    from tkc.emulator.program import Program, Segment
    from tkc.emulator.warp import Path

COUNTED_AT_ISSUE = frozenset({"tma", "bulk"})
"""Families whose instructions count the bytes that they move by themselves."""

BANKED = frozenset({"ld", "st", "ldmatrix", "stmatrix"})
"""Instructions whose turns at the banks of shared memory are counted."""


@dataclass(slots=True)
class Waits:
    """Waits that began; those of them that were not over at once; the steps of others that went by until they were."""

    times: int = 0
    blocked: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class WarpCounts:
    """What warp `index` of every CTA did: its waits, and instructions by place (None where no `.loc` tells it)."""

    index: int
    instructions: int
    places: dict[Location | None, int]
    waits: Waits


class Watch:
    """Looks on at one launch. `machine` is None until it begins."""

    def __init__(self) -> None:
        self.machine: Machine | None = None

    def begin(self, machine: Machine) -> None:
        """The launch begins."""
        self.machine = machine

    def issued(self, steps: Iterator[None], ins: Instruction, warp: Warp) -> Iterator[None]:
        """What the machine is to do for an asynchronous operation of `steps` that `warp` has just issued."""
        return steps

    def end(self, machine: Machine) -> None:
        """The launch is over, one way or another; the report may be added to."""

    def interrupted(self, machine: Machine) -> Finding:
        """The finding for a launch that the user has stopped: where every warp is."""
        from tkc.emulator.hangs import blocked_paths

        places = [
            f"{p.warp.describe(p.mask)} can go on at line {self._line(p)}" for p in machine.ready
        ]
        for cluster in machine.live_clusters:
            for cta in cluster.ctas:
                places += [
                    f"{p.warp.describe(p.mask)} waits for {why}" for p, why in blocked_paths(cta)
                ]
        for path in machine.polling:
            places.append(f"{path.warp.describe(path.mask)} waits for {path.waits}")
        running = machine.running
        ins = self._first(running.pc) if running is not None else None
        x, y, z = machine.grid
        return machine.finding(
            "TK419",
            f"interrupted after {machine.steps} steps, with {machine.done_ctas} of {x * y * z} CTAs done",
            ins,
            running.warp if running is not None else None,
            notes=tuple(dict.fromkeys(places))[:64],
        )

    def _first(self, pc: int) -> Instruction | None:
        assert self.machine is not None
        segment = self.machine.program.segments[pc]
        return segment.instructions[0] if segment.instructions else segment.last

    def _line(self, path: Path) -> int:
        ins = self._first(path.pc)
        return ins.line if ins is not None else 0


class Counter(Watch):
    """Counts a launch, and writes a trace of it where one is given."""

    def __init__(self, trace: Trace | None = None) -> None:
        super().__init__()
        self.trace = trace
        self.clock = 0
        self.bytes: dict[str, int] = {}
        self._hits: dict[int, list[int]] = {}
        self._parked: dict[Path, tuple[int, int]] = {}
        self._waits: dict[tuple[int, str], Waits] = {}
        self._position: dict[int, int] = {}
        self._in_flight: dict[int, tuple[Instruction, Warp, int]] = {}
        self._before: Observer | None = None
        self._banked: Multiset[tuple[str, int, bytes]] = Multiset()

    def begin(self, machine: Machine) -> None:
        super().begin(machine)
        machine.program = self._watched(machine.program)
        self._before = machine.memory.observer
        machine.memory.observer = self

    def issued(self, steps: Iterator[None], ins: Instruction, warp: Warp) -> Iterator[None]:
        if self.trace is None:
            return steps
        return self._noted(steps, ins, warp, self.clock + self._position.get(id(ins), 0))

    def end(self, machine: Machine) -> None:
        report = machine.report
        for path, (since, pc) in self._parked.items():
            last = machine.program.segments[pc].last
            assert last is not None
            self._waits[path.warp.index, last.row.name].steps += self.clock - since
        for (_, name), waits in self._waits.items():
            for word, count in zip(
                ("waits", "waits_blocked", "wait_steps"), astuple(waits), strict=True
            ):
                if count:
                    report.count(f"{word}.{name}", count)
        for name, count in self.bytes.items():
            report.count(f"bytes.{name}", count)
        for (word, size, places), times in self._banked.items():
            addresses: list[int] = np.frombuffer(places, np.int64).tolist()
            turns = wavefronts(addresses, size)
            report.count(f"shared_requests.{word}", times)
            report.count(f"shared_wavefronts.{word}", times * turns)
            report.count(f"shared_conflicts.{word}", times * (turns - least(len(addresses), size)))
        if self.trace is not None:
            for ins, warp, began in self._in_flight.values():
                self.trace.operation(warp.cta, ins, warp, began, self.clock, finished=False)
            self.trace.end(self.clock, machine.report)

    # Accesses of memory

    def access(
        self,
        agent: Any,
        origin: Origin,
        kind: Kind,
        region: Region,
        offsets: Any,
        size: int,
        where: Any = None,
    ) -> None:
        if self._before is not None:
            self._before.access(agent, origin, kind, region, offsets, size, where)
        family = origin.ins.family
        if family in COUNTED_AT_ISSUE:
            return
        engine = "threads" if isinstance(agent, Warp) else family
        self._moved(f"{engine}.{region.space}.{kind}", len(offsets) * size)
        if region.space == "shared" and len(offsets):
            word = origin.ins.statement.mnemonic.partition(".")[0]
            if word in BANKED:
                # The same places a multiple of all banks further on meet the same banks.
                places = (offsets + region.base).astype(np.int64)
                places -= places.min() // TURN * TURN
                self._banked[word, size, places.tobytes()] += 1

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
        if self._before is not None:
            self._before.tensor_access(agent, origin, kind, memory, lanes, start, stop)
        engine = "threads" if isinstance(agent, Warp) else origin.ins.family
        count = len(range(*lanes.indices(1 << 16))) if isinstance(lanes, slice) else len(lanes)
        self._moved(f"{engine}.tensor.{kind}", 4 * count * (stop - start))

    def _moved(self, name: str, count: int) -> None:
        self.bytes[name] = self.bytes.get(name, 0) + count

    # Warps

    def _watched(self, program: Program) -> Program:
        """The program with an ending of our own round the ending of each segment."""
        made = copy.copy(program)
        made.segments = [
            replace(segment, ending=self._ending(made, pc, segment))
            for pc, segment in enumerate(program.segments)
        ]
        return made

    def _ending(self, program: Program, pc: int, segment: Segment) -> Ending | None:
        inner, count, last = segment.ending, segment.count, segment.last
        if inner is None:
            return None
        for at, ins in enumerate(segment.instructions):
            self._position[id(ins)] = at
        name = last.row.name if last is not None else ""
        # A path that ends, or lanes that join, park as well, and wait for nothing.
        may_block = bool(segment.targets) and last is not None
        waits = last is not None and is_wait(last.row) and not segment.guards
        all_hits, parked, trace = self._hits, self._parked, self.trace
        segments = len(program.segments)
        pieces = _pieces(program, segment)

        def run(warp: Warp, path: Path) -> int:
            began = self.clock
            self.clock = began + count
            hits = all_hits.get(warp.index)
            if hits is None:
                hits = all_hits[warp.index] = [0] * segments
            hits[pc] += 1
            again = path in parked and self._woken(path, began) == pc
            if trace is not None:
                trace.ran(warp, pieces, began)
            following = inner(warp, path)
            blocks = following < 0 and may_block and bool(path.waits)
            if (waits or blocks) and not again:
                self._wait(warp.index, name, blocks)
            if blocks:
                parked[path] = (self.clock, pc)
                if trace is not None:
                    trace.parked(warp, path.waits, last, self.clock)
            return following

        return run

    def _wait(self, warp: int, name: str, blocked: bool) -> None:
        waits = self._waits.get((warp, name))
        if waits is None:
            waits = self._waits[warp, name] = Waits()
        waits.times += 1
        waits.blocked += blocked

    def _woken(self, path: Path, now: int) -> int:
        """A path that waited goes on; the segment whose end it waited at."""
        assert self.machine is not None
        since, pc = self._parked.pop(path)
        last = self.machine.program.segments[pc].last
        assert last is not None
        self._waits[path.warp.index, last.row.name].steps += now - since
        return pc

    # Asynchronous operations

    def _noted(
        self, steps: Iterator[None], ins: Instruction, warp: Warp, began: int
    ) -> Iterator[None]:
        assert self.trace is not None
        key = id(steps)
        self._in_flight[key] = (ins, warp, began)
        yield from steps
        del self._in_flight[key]
        self.trace.operation(warp.cta, ins, warp, began, max(began + 1, self.clock))

    # What was counted

    def warps(self) -> list[WarpCounts]:
        """What each warp of a CTA did, added up over all CTAs."""
        assert self.machine is not None
        program = self.machine.program
        found: list[WarpCounts] = []
        for index, hits in sorted(self._hits.items()):
            places: dict[Location | None, int] = {}
            for segment, times in zip(program.segments, hits, strict=True):
                if not times:
                    continue
                for ins in counted(segment):
                    place = program.location(ins.statement)
                    places[place] = places.get(place, 0) + times
            mine = [w for (warp, _), w in self._waits.items() if warp == index]
            waits = Waits(*(sum(x) for x in zip(*map(astuple, mine), strict=True)))
            found.append(WarpCounts(index, sum(places.values()), places, waits))
        return found


def _pieces(program: Program, segment: Segment) -> list[tuple[Location | None, int, int]]:
    """The instructions of a segment as runs of one source place: (place, first line of the PTX, count)."""
    found: list[tuple[Location | None, int, int]] = []
    instructions = list(segment.instructions)
    if segment.last is not None:
        instructions.append(segment.last)
    for ins in instructions:
        place = program.location(ins.statement)
        if found and found[-1][0] == place:
            found[-1] = (place, found[-1][1], found[-1][2] + 1)
        else:
            found.append((place, ins.line, 1))
    return found
