"""Control flow of a decoded kernel: branches with divergence, reconvergence points, and reads before writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tkc.emulator.instruction import PARKED, Ending, Instruction
from tkc.emulator.report import Stop

if TYPE_CHECKING:
    from tkc.emulator.machine import Path, Warp
    from tkc.emulator.program import Segment


def leave(warp: Warp, path: Path) -> int:
    """The active lanes end."""
    warp.leave(path)
    return PARKED


def trap(instruction: Instruction) -> Ending:
    def run(warp: Warp, path: Path) -> int:
        raise Stop("TK410", "trap was executed", ins=instruction, warp=warp)

    return run


def branch(slot: int, negated: bool, taken: int, other: int, here: int, ins: Instruction) -> Ending:
    """Lanes where the predicate holds (or not, if `negated`) go to `taken`, the others to `other`."""

    def run(warp: Warp, path: Path) -> int:
        mask = warp.mask
        p = warp.R[slot]
        go = mask & ~p if negated else mask & p
        if warp.taint:
            warp.check_control(slot, ins)
        if go == mask:
            return taken
        if not go:
            return other
        return warp.split(path, here, ((taken, go), (other, mask & ~go)))

    return run


def switch(slot: int, targets: list[int], here: int, ins: Instruction) -> Ending:
    """brx.idx: lane by lane to the target that the index names."""

    def run(warp: Warp, path: Path) -> int:
        index = warp.R[slot]
        if warp.taint:
            warp.check_control(slot, ins)
        parts: dict[int, int] = {}
        for lane in warp.lanes():
            value = int(index[lane])
            if value >= len(targets):
                raise Stop(
                    "TK321", f"brx index {value} of {len(targets)} targets", ins=ins, warp=warp
                )
            parts[targets[value]] = parts.get(targets[value], 0) | 1 << lane
        if len(parts) == 1:
            return next(iter(parts))
        return warp.split(path, here, tuple(parts.items()))

    return run


def dispatch(slot: int, targets: Mapping[int | None, int], here: int, ins: Instruction) -> Ending:
    """An indirect call: lane by lane to the segment of the function whose address it holds."""

    def run(warp: Warp, path: Path) -> int:
        addresses = warp.R[slot]
        if warp.taint:
            warp.check_control(slot, ins)
        parts: dict[int, int] = {}
        for lane in warp.lanes():
            target = targets.get(int(addresses[lane]))
            if target is None:
                raise Stop(
                    "TK321",
                    f"{int(addresses[lane]):#x} is the address of no function that fits this call",
                    ins=ins,
                    warp=warp,
                )
            parts[target] = parts.get(target, 0) | 1 << lane
        if len(parts) == 1:
            return next(iter(parts))
        return warp.split(path, here, tuple(parts.items()))

    return run


def reconvergence(successors: Sequence[Sequence[int]]) -> list[int]:
    """The immediate post-dominator of each segment, -1 where there is none (lanes meet again only at the exit)."""
    count = len(successors)
    leaf = count
    forward = [list(s) or [leaf] for s in successors] + [[]]
    backward: list[list[int]] = [[] for _ in range(count + 1)]
    for node, nexts in enumerate(forward):
        for following in nexts:
            backward[following].append(node)
    # Post order of the reversed graph from the exit.
    order: list[int] = []
    seen = {leaf}
    stack: list[tuple[int, int]] = [(leaf, 0)]
    while stack:
        node, at = stack[-1]
        if at < len(backward[node]):
            stack[-1] = (node, at + 1)
            before = backward[node][at]
            if before not in seen:
                seen.add(before)
                stack.append((before, 0))
        else:
            order.append(node)
            stack.pop()
    rank = {node: i for i, node in enumerate(order)}
    parent: dict[int, int] = {leaf: leaf}
    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node == leaf:
                continue
            best = -1
            for following in forward[node]:
                if following in parent:
                    best = following if best < 0 else _meet(best, following, parent, rank)
            if best >= 0 and parent.get(node) != best:
                parent[node] = best
                changed = True
    return [-1 if parent.get(n, leaf) == leaf else parent[n] for n in range(count)]


def _meet(a: int, b: int, parent: Mapping[int, int], rank: Mapping[int, int]) -> int:
    while a != b:
        while rank[a] < rank[b]:
            a = parent[a]
        while rank[b] < rank[a]:
            b = parent[b]
    return a


def maybe_uninitialised(
    segments: Sequence[Segment], registers: Mapping[int, int], entries: Sequence[int] = (0,)
) -> list[int]:
    """Slots of registers that some path from an entry reads before it writes all lanes of them, in order."""
    written: list[int] = []
    exposed: list[int] = []
    for segment in segments:
        gen = use = 0
        instructions = list(segment.instructions)
        if segment.last is not None:
            instructions.append(segment.last)
        for ins in instructions:
            for slot in ins.sources:
                if not gen >> slot & 1:
                    use |= 1 << slot
            if ins.statement.guard is None:
                for slot in ins.dests:
                    if slot >= 0:
                        gen |= 1 << slot
        written.append(gen)
        exposed.append(use)
    count = len(segments)
    everything = (1 << (max(registers, default=0) + 1)) - 1
    before: list[list[int]] = [[] for _ in range(count)]
    for node, segment in enumerate(segments):
        for following in segment.targets:
            before[following].append(node)
    out = [everything] * count
    into = [everything] * count
    for entry in entries:
        out[entry] = written[entry]
        into[entry] = 0
    work = list(range(count))
    while work:
        node = work.pop(0)
        if node not in entries:
            arrives = everything
            for previous in before[node]:
                arrives &= out[previous]
            into[node] = arrives
        made = into[node] | written[node]
        if made != out[node] or node in entries:
            if made != out[node]:
                out[node] = made
                work.extend(segments[node].targets)
    bad = 0
    for node in range(count):
        bad |= exposed[node] & ~into[node]
    return [slot for slot in sorted(registers) if bad >> slot & 1]
