"""What a hang says: who waits for what, in groups, what each mbarrier lacks, and who could still arrive on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tkc.emulator.report import Finding

if TYPE_CHECKING:
    from tkc.emulator.cta import Cluster, Cta
    from tkc.emulator.instruction import Instruction
    from tkc.emulator.machine import Machine
    from tkc.emulator.mbarrier import MBarrier
    from tkc.emulator.warp import Path, Warp

MOST = 64
"""Agents and notes that are listed."""
MOST_COMING = 4
"""Arrivals ahead that are listed for one mbarrier."""
ARRIVALS = (
    "mbarrier.arrive",
    "mbarrier.complete_tx",
    "cp.async.mbarrier.arrive",
    "tcgen05.commit",
    "st.async",
    "red.async",
    "clusterlaunchcontrol.try_cancel",
)
"""Instructions that arrive on an mbarrier or complete bytes there, beside the bulk copies that name one."""


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
    for path in cta.pool.waiting if cta.pool is not None else ():
        yield path, f"{path.waits} ({cta.pool.told()})"
    for other in cta.cluster.ctas:
        # A pair allocates together: who comes first waits at its peer's tensor memory.
        for path in other.tensor.waiting if other.tensor is not None else ():
            if path.warp.cta is cta:
                yield path, path.waits
    for path, _, _ in cta.cluster.waiting:
        if path.warp.cta is cta:
            yield (
                path,
                f"the cluster barrier ({cta.cluster.arrived} of {cta.cluster.live} threads there)",
            )


def _waits(machine: Machine) -> dict[Path, str]:
    """Every path that cannot go on, and for what it waits; in one order whatever the schedule was."""
    found: dict[Path, str] = {}
    for cluster in machine.live_clusters:
        for cta in cluster.ctas:
            found.update(blocked_paths(cta))
    for path in machine.polling:
        found.setdefault(path, path.waits)
    for path in machine.ready:
        found.setdefault(path, "a value that it polls, and turns round it")
    return dict(sorted(found.items(), key=_place_of))


def _place_of(item: tuple[Path, str]) -> tuple[tuple[int, ...], int, int]:
    path, _ = item
    return path.warp.cta.index[::-1], path.warp.index, path.mask


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


def _mbarriers(machine: Machine, waits: dict[Path, str]) -> Iterator[str]:
    """For each mbarrier that somebody waits for: what it lacks, and who has arrived on it and could again."""
    awaited = {id(path.poll) for path in waits if path.poll is not None}
    lost: list[str] = []
    for cluster in machine.live_clusters:
        for cta in cluster.ctas:
            for offset, barrier in sorted(cta.barriers.items()):
                where = f"{cta.name} mbarrier {_place(machine, cta, offset)}"
                arrivers = _arrivers(barrier, waits)
                if id(barrier) in awaited:
                    said = "; ".join(arrivers) or "nobody has arrived on it yet"
                    yield f"{where}: {barrier}{_lack(barrier)}; {said}; {_ahead(machine, barrier, waits)}"
                elif arrivers and not barrier.awaited:
                    lost.append(
                        f"{where} has had arrivals, and nobody has waited for it: {'; '.join(arrivers)}"
                    )
    yield from lost


def _place(machine: Machine, cta: Cta, offset: int) -> str:
    """An address of shared memory, with the variable that stands there."""
    address = f"{offset | cta.window:#x}"
    layout = machine.shared_layout
    for variable in machine.program.variables:
        start = layout.offsets.get(id(variable), -1)
        if start >= 0 and start <= offset < start + max(variable.size, 1):
            by = f"+{offset - start}" if offset > start else ""
            return f"{variable.name}{by} at {address}"
    if offset >= layout.size:
        return f"at {address} (dynamic shared memory + {offset - layout.size})"
    return f"at {address}"


def _lack(barrier: MBarrier) -> str:
    """What is odd about the phase under way."""
    if barrier.bytes:
        return f" ({barrier.promised} bytes were expected in this phase, {barrier.came} have come)"
    if barrier.pending < barrier.expected:
        return ""
    if barrier.phase:
        return (
            f" (phase {barrier.phase - 1} is over and nothing of phase {barrier.phase} has come:"
            f" parity {barrier.phase - 1 & 1} would let the wait pass)"
        )
    return " (nothing has come: parity 1 lets a first wait pass)"


def _arrivers(barrier: MBarrier, waits: dict[Path, str]) -> list[str]:
    """Who has arrived on an mbarrier last, and what keeps him from doing it again."""
    clock = barrier.clock
    known: dict[Any, int] = clock.arrivers if clock is not None else {}
    return [
        f"{agent.describe() if hasattr(agent, 'lane') else agent.name} has arrived at line {line}, and"
        f" {_doing(getattr(agent, 'warp', agent), waits, barrier)}"
        for agent, line in list(known.items())[-4:]
    ]


def _ahead(machine: Machine, barrier: MBarrier, waits: dict[Path, str]) -> str:
    """The arrivals that threads would come to after their waits: for this mbarrier so far, or for none."""
    here, elsewhere = set[int](), set[int]()
    for cluster in machine.live_clusters:
        for cta in cluster.ctas:
            for other in cta.barriers.values():
                lines = other.clock.arrivers.values() if other.clock is not None else ()
                (here if other is barrier else elsewhere).update(lines)
    coming: dict[int, list[Path]] = {}
    for path in waits:
        for line in _arrivals_after(machine, path.pc):
            coming.setdefault(line, []).append(path)
    likely = [n for n in coming if n in here] or [n for n in coming if n not in elsewhere]
    if not likely:
        return "nobody who is left comes to an arrival on it"
    said = [f"{_names(coming[line])} after its wait, at line {line}" for line in sorted(likely)]
    return f"could still arrive: {'; '.join(said[:MOST_COMING])}"


def _arrivals_after(machine: Machine, start: int) -> set[int]:
    """The lines of the arrivals and completions on ways from a segment on."""
    segments = machine.program.segments
    lines: set[int] = set()
    todo, seen = [start], {start}
    while todo:
        segment = segments[todo.pop()]
        lines |= {ins.line for ins in segment.instructions if _arrives(ins)}
        if segment.last is not None and _arrives(segment.last):
            lines.add(segment.last.line)
        fresh = [n for n in segment.targets if n not in seen]
        seen.update(fresh)
        todo += fresh
    return lines


def _arrives(ins: Instruction) -> bool:
    name = ins.row.name
    if name.startswith("cp.async.bulk"):
        return ".mbarrier::complete_tx" in ins.statement.mnemonic
    return name.startswith(ARRIVALS)


def _doing(warp: Warp, waits: dict[Path, str], here: object = None) -> str:
    """What a warp does in a hang."""
    mine = {path: why for path, why in waits.items() if path.warp is warp}
    if not mine:
        return "goes on" if warp.alive else "has ended"
    if any(path.poll is here for path in mine if here is not None):
        return "waits for it"
    return f"waits for {sorted(mine.values())[0]}"


def _meetings(machine: Machine, waits: dict[Path, str]) -> Iterator[str]:
    """For each barrier of threads that somebody waits at: who is not there."""
    for cluster in machine.live_clusters:
        if cluster.waiting:
            there = _there(path for path, _, _ in cluster.waiting)
            yield from _absent("the cluster barrier", cluster.ctas, there, waits)
        for cta in cluster.ctas:
            for number, barrier in enumerate(cta.named):
                if not barrier.waiting:
                    continue
                name = f"{cta.name} barrier {number}"
                if (barrier.expected or 0) > machine.threads:
                    yield f"{name} waits for {barrier.expected} threads, and the CTA has {machine.threads}"
                there = _there(path for path, _ in barrier.waiting)
                yield from _absent(name, [cta], there, waits)
        yield from _allocations(cluster, waits)


def _allocations(cluster: Cluster, waits: dict[Path, str]) -> Iterator[str]:
    """For each warp that waits in tcgen05.alloc: what holds the columns, or which CTA of the pair is not there."""
    for cta in cluster.ctas:
        for path in cta.tensor.waiting if cta.tensor is not None else ():
            if path.warp.cta is not cta:
                doing = "; ".join(f"warp {w.index} {_doing(w, waits)}" for w in cta.warps)
                yield (
                    f"{path.warp.cta.name} has allocated, and {cta.name} has not: both CTAs of a pair must come to"
                    f" tcgen05.alloc.cta_group::2; there {doing}"
                )
                continue
            for start, (columns, line) in sorted(cta.tensor.allocations.items()):
                yield f"{cta.name} columns {start} .. {start + columns - 1} are held since line {line}"


def _there(paths: Iterable[Path]) -> dict[Warp, int]:
    """The lanes of each warp that are there."""
    found: dict[Warp, int] = {}
    for path in paths:
        found[path.warp] = found.get(path.warp, 0) | path.mask
    return found


def _absent(
    name: str, ctas: Iterable[Cta], there: dict[Warp, int], waits: dict[Path, str]
) -> Iterator[str]:
    groups: dict[tuple[str, str], list[int]] = {}
    for cta in ctas:
        for warp in cta.warps:
            missing = warp.alive & ~there.get(warp, 0)
            if warp not in there:
                groups.setdefault((cta.name, _doing(warp, waits)), []).append(warp.index)
            elif missing:
                mine = {p: why for p, why in waits.items() if p.mask & missing}
                groups.setdefault(
                    (f"{cta.name} lanes {missing:#x} of", _doing(warp, mine)), []
                ).append(warp.index)
    for (cta_name, doing), numbers in groups.items():
        several = "warps" if len(numbers) > 1 else "warp"
        if len(numbers) > 1:
            doing = re.sub(r"^(wait|goe)s", lambda m: {"wait": "wait", "goe": "go"}[m[1]], doing)
            doing = re.sub(r"^has", "have", doing)
        yield f"not at {name}: {cta_name} {several} {_ranges(numbers)}, which {doing}"


def hang(machine: Machine) -> Finding:
    """The finding for a launch in which nothing can go on."""
    waits = _waits(machine)
    first = next((p for p in waits if p.poll is not None), next(iter(waits), None))
    ins = machine.program.segments[first.pc].last if first is not None else None
    notes = [*_mbarriers(machine, waits), *_meetings(machine, waits)]
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
