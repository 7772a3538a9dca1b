"""What a hang says: who waits for what, in groups, what each mbarrier lacks, and who could still arrive on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tkc.emulator.report import Finding

if TYPE_CHECKING:
    from tkc.emulator.cta import Cta
    from tkc.emulator.machine import Machine
    from tkc.emulator.mbarrier import MBarrier
    from tkc.emulator.warp import Path

MOST = 64
"""Agents and notes that are listed."""


def blocked_paths(cta: Cta) -> Iterator[tuple[Path, str]]:
    """The paths of a CTA that wait, and for what."""
    for number, barrier in enumerate(cta.named):
        expected = barrier.expected or cta.live
        for path, _ in barrier.waiting:
            yield path, f"barrier {number} ({barrier.arrived} of {expected} threads there)"
    for warp in cta.warps:
        for group in warp.parked.values():
            for path, *_ in group:
                yield path, path.waits
    for path in cta.tensor.waiting if cta.tensor is not None else ():
        if path.warp.cta is cta:
            yield path, path.waits
    for path, _, _ in cta.cluster.waiting:
        if path.warp.cta is cta:
            yield (
                path,
                f"the cluster barrier ({cta.cluster.arrived} of {cta.cluster.live} threads there)",
            )


def _waits(machine: Machine) -> dict[Path, str]:
    """Every path that cannot go on, and for what it waits."""
    found: dict[Path, str] = {}
    for cluster in machine.live_clusters:
        for cta in cluster.ctas:
            found.update(blocked_paths(cta))
    for path in machine.polling:
        found.setdefault(path, path.waits)
    for path in machine.ready:
        found.setdefault(path, "a value that it polls, and turns round it")
    return found


def _names(paths: Iterable[Path]) -> str:
    """Warps of one CTA with their lanes: `CTA (0, 0, 0) warps 0-3, 8`, and how many CTAs do the same."""
    by_cta: dict[str, list[int]] = {}
    for path in paths:
        warp = path.warp
        whole = path.mask == warp.alive and path.mask.bit_count() == warp.threads
        name = warp.cta.name if whole else f"{warp.cta.name} (lanes {path.mask:#010x})"
        by_cta.setdefault(name, []).append(warp.index)
    return "; ".join(
        f"{name} warp{'s' if len(set(w)) > 1 else ''} {_ranges(sorted(set(w)))}"
        for name, w in by_cta.items()
    )


def _ranges(numbers: list[int]) -> str:
    parts: list[str] = []
    start = before = numbers[0]
    for number in (*numbers[1:], -2):
        if number == before + 1:
            before = number
            continue
        parts.append(str(start) if start == before else f"{start}-{before}")
        start = before = number
    return ", ".join(parts)


def _line(machine: Machine, path: Path) -> str:
    last = machine.program.segments[path.pc].last
    return f" at line {last.line}" if last is not None else ""


def _agents(machine: Machine, waits: dict[Path, str]) -> list[str]:
    """One sentence for all warps of a CTA that wait for the same at the same place."""
    groups: dict[tuple[str, str, str], list[Path]] = {}
    for path, why in waits.items():
        groups.setdefault((path.warp.cta.name, why, _line(machine, path)), []).append(path)
    found: list[str] = []
    for (_, why, line), paths in groups.items():
        verb = "waits" if len(paths) == 1 else "wait"
        found.append(f"{_names(paths)} {verb} for {why}{line}")
    return found


def _barriers(machine: Machine, waits: dict[Path, str]) -> list[str]:
    """For each mbarrier that somebody waits for: what it lacks, and who has arrived on it and could again."""
    awaited: dict[int, MBarrier] = {}
    for path in waits:
        if path.poll is not None:
            awaited[id(path.poll)] = path.poll
    found: list[str] = []
    for cluster in machine.live_clusters:
        for cta in cluster.ctas:
            for offset, barrier in sorted(cta.barriers.items()):
                if id(barrier) in awaited:
                    where = f"{cta.name} mbarrier at {offset | cta.window:#x}"
                    found.append(f"{where}: {barrier}; {_arrivers(barrier, waits)}")
    return found


def _arrivers(barrier: MBarrier, waits: dict[Path, str]) -> str:
    clock = barrier.clock
    known: dict[Any, int] = clock.arrivers if clock is not None else {}
    if not known:
        return "nobody has arrived on it yet"
    parts: list[str] = []
    for agent, line in list(known.items())[-4:]:
        warp = getattr(agent, "warp", agent)
        now = sorted({w for p, w in waits.items() if p.warp is warp})
        state = (
            f"which waits for {now[0]}"
            if now
            else "which has ended"
            if not warp.alive
            else "which goes on"
        )
        parts.append(
            f"{agent.describe() if agent is not warp else warp.name} (line {line}), {state}"
        )
    return "could still arrive: " + "; ".join(parts)


def hang(machine: Machine) -> Finding:
    """The finding for a launch in which nothing can go on."""
    waits = _waits(machine)
    first = next((p for p in waits if p.poll is not None), next(iter(waits), None))
    ins = machine.program.segments[first.pc].last if first is not None else None
    notes = _barriers(machine, waits)
    pending = [f"{o.name} of line {o.ins.line} is under way" for o in machine.operations]
    finding = machine.finding(
        "TK314",
        f"nothing can go on: {len(waits)} waits that nobody can end",
        ins,
        None,
        False,
        (),
        tuple(dict.fromkeys((*notes, *pending)))[:MOST],
    )
    agents = _agents(machine, waits)
    more = [f"and {len(agents) - MOST} more like these"] if len(agents) > MOST else []
    return replace(finding, agents=(*agents[:MOST], *more))
