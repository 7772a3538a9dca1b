"""A trace of a launch for Chrome's viewer or Perfetto: a lane for each warp and each asynchronous engine of a CTA.

Time is the machine's: one step, an instruction of a warp, is a microsecond of the viewer. Warps show the source lines
that they run and what they wait for; engines show each operation from its issue to its completion. Engines work on
several operations at once, and have as many lanes as they need.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tkc.diagnostics import Location
from tkc.emulator.instruction import Instruction
from tkc.emulator.report import Report

if TYPE_CHECKING:
    from tkc.emulator.cta import Cta
    from tkc.emulator.warp import Warp

MOST_EVENTS = 500_000
"""What a trace holds before it stops to grow; a viewer takes about ten seconds to open as many."""

ENGINES: Mapping[str, str] = {
    "tma": "copy engine",
    "bulk": "copy engine",
    "cp_async": "copy engine",
    "wgmma": "tensor core",
    "mma": "tensor core",
    "tcgen05": "tensor core",
    "tensor_moves": "tensor core",
}
"""Family of an instruction → the engine that does the work of its operations."""

Piece = tuple[Location | None, int, int]
"""(source place, line of the PTX, instructions) of a run of instructions."""

_ENGINE_LANES = 1000
_LANES_OF_AN_ENGINE = 100


class Lane:
    """What a warp did: slices of (begin, end, place, PTX line), and waits of (begin, end, reason, PTX line)."""

    __slots__ = ("cta", "index", "slices", "waiting", "waits")

    def __init__(self, warp: Warp) -> None:
        self.cta = warp.cta
        self.index = warp.index
        self.slices: list[tuple[int, int, Location | None, int]] = []
        self.waits: list[tuple[int, int, str, int]] = []
        self.waiting: tuple[int, str, int] | None = None


class Trace:
    """The events of one launch, gathered by a `Watch`; `text` writes them."""

    def __init__(self) -> None:
        self.lanes: dict[Warp, Lane] = {}
        self.operations: list[tuple[Cta, str, str, int, int, int, str, bool]] = []
        self.events = 0
        self.cut = False
        """Whether events were left out at the end."""
        self.findings: list[tuple[int, str]] = []

    # What the watch calls

    def ran(self, warp: Warp, pieces: Sequence[Piece], began: int) -> None:
        """A warp has run some instructions, one step each."""
        lane = self.lanes.get(warp)
        if lane is None:
            lane = self.lanes[warp] = Lane(warp)
        if lane.waiting is not None:
            since, why, line = lane.waiting
            lane.waiting = None
            if began > since and self._room():
                lane.waits.append((since, began, why, line))
        slices = lane.slices
        for place, line, count in pieces:
            end = began + count
            if slices and slices[-1][1] == began and slices[-1][2] == place:
                slices[-1] = (slices[-1][0], end, place, slices[-1][3])
            elif self._room():
                slices.append((began, end, place, line))
            began = end

    def parked(self, warp: Warp, why: str, ins: Instruction | None, now: int) -> None:
        """A warp waits from now on."""
        self.lanes[warp].waiting = (now, why, ins.line if ins is not None else 0)

    def operation(
        self,
        cta: Cta,
        ins: Instruction,
        warp: Warp,
        began: int,
        end: int,
        *,
        finished: bool = True,
    ) -> None:
        """An asynchronous operation of a CTA's engine, issued by a warp."""
        if self._room():
            engine = ENGINES.get(ins.family, ins.family)
            mnemonic = ins.statement.mnemonic
            self.operations.append(
                (cta, engine, mnemonic, began, max(end, began + 1), ins.line, warp.name, finished)
            )

    def end(self, now: int, report: Report) -> None:
        """The launch is over: who still waits has waited until now."""
        for lane in self.lanes.values():
            if lane.waiting is not None:
                since, why, line = lane.waiting
                lane.waits.append((since, max(now, since + 1), why, line))
                lane.waiting = None
        self.findings = [(now, f"{f.message} [{f.code}]") for f in report.findings]

    def _room(self) -> bool:
        self.events += 1
        if self.events > MOST_EVENTS:
            self.cut = True
            return False
        return True

    # Writing

    def text(
        self,
        sources: Mapping[str, str] | None = None,
        roles: Mapping[int, str] | None = None,
    ) -> str:
        """The trace as JSON. `sources` give the lines of source files, `roles` a word for a warp's number."""
        lines = {name: text.split("\n") for name, text in (sources or {}).items()}
        events = [json.dumps(event) for event in self._all(lines, roles or {})]
        return '{"displayTimeUnit": "ms", "traceEvents": [\n' + ",\n".join(events) + "\n]}\n"

    def _all(
        self, sources: Mapping[str, Sequence[str]], roles: Mapping[int, str]
    ) -> Iterator[dict[str, Any]]:
        ctas = {lane.cta.number: lane.cta for lane in self.lanes.values()}
        ctas.update({cta.number: cta for cta, *_ in self.operations})
        for number, cta in sorted(ctas.items()):
            yield _named("process", number, 0, cta.name)
        for lane in sorted(self.lanes.values(), key=lambda lane: (lane.cta.number, lane.index)):
            number, thread = lane.cta.number, lane.index + 1
            role = roles.get(lane.index)
            yield _named(
                "thread", number, thread, f"warp {lane.index}" + (f" ({role})" if role else "")
            )
            for begin, end, place, line in lane.slices:
                yield _slice(
                    _source_line(place, line, sources),
                    "run",
                    number,
                    thread,
                    begin,
                    end,
                    {"source": str(place) if place else "", "ptx line": line},
                )
            for begin, end, why, line in lane.waits:
                yield _slice(
                    f"waits for {why}", "wait", number, thread, begin, end, {"ptx line": line}
                )
        yield from self._engine_events()
        for now, text in self.findings:
            yield {"name": text, "cat": "finding", "ph": "i", "s": "g", "ts": now, "pid": 0}

    def _engine_events(self) -> Iterator[dict[str, Any]]:
        engines = list(dict.fromkeys(ENGINES.values()))
        busy: dict[tuple[int, str], list[int]] = {}
        for cta, engine, name, begin, end, line, warp, finished in sorted(
            self.operations, key=lambda o: o[3]
        ):
            if engine not in engines:
                engines.append(engine)
            until = busy.setdefault((cta.number, engine), [])
            at = next((k for k, time in enumerate(until) if time <= begin), len(until))
            if at == len(until):
                until.append(0)
            until[at] = end
            thread = _ENGINE_LANES + engines.index(engine) * _LANES_OF_AN_ENGINE + at
            facts: dict[str, Any] = {"issued by": warp, "ptx line": line}
            if not finished:
                facts["state"] = "in flight at the end"
            yield _slice(name, "engine", cta.number, thread, begin, end, facts)
        for (number, engine), until in busy.items():
            for at in range(len(until)):
                thread = _ENGINE_LANES + engines.index(engine) * _LANES_OF_AN_ENGINE + at
                label = engine if len(until) == 1 else f"{engine} {at + 1}"
                yield _named("thread", number, thread, label)


def _named(kind: str, cta: int, thread: int, name: str) -> dict[str, Any]:
    return {
        "name": f"{kind}_name",
        "ph": "M",
        "pid": cta,
        "tid": thread,
        "args": {"name": name},
    }


def _slice(
    name: str, kind: str, cta: int, thread: int, begin: int, end: int, facts: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": kind,
        "ph": "X",
        "ts": begin,
        "dur": end - begin,
        "pid": cta,
        "tid": thread,
        "args": facts,
    }


def _source_line(
    place: Location | None, ptx_line: int, sources: Mapping[str, Sequence[str]]
) -> str:
    """What a slice of a warp is called: the source line where it is known, else its place."""
    if place is None:
        return f"PTX {ptx_line}"
    lines = sources.get(place.file)
    if lines is not None and 0 < place.line <= len(lines):
        text = lines[place.line - 1].split("#")[0].strip()
        return f"{place.line}: {text}" if text else str(place)
    return str(place)
