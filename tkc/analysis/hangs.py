"""Whether the roles of a kernel wait for one another for ever, in a run on small numbers.

Each thread goes on as far as it can, and what it issues is complete at once, so that no schedule gets further: a run
that stops like that stops on every machine. What the sizes do not decide is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.guards import Varies, guard_of, varies
from tkc.analysis.instances import Copy, Event, Unknown, Word
from tkc.analysis.items import role_of
from tkc.analysis.lockstep import in_lockstep
from tkc.analysis.machine import Code, Machine, every
from tkc.analysis.phases import OTHERS, Deed, Phases, Turn, awaits, blocks_of, does, tells
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import ClusterBarrierOp, NamedBarrierOp
from tkc.ir.stage.scalar import SizeOp
from tkc.ir.stage.types import BarriersType

if TYPE_CHECKING:
    from tkc.analysis.happens_before.report import Finding


class Stop(NamedTuple):
    """Where a role waits for ever, and for what."""

    role: str
    op: Operation
    word: Word


@dataclass(frozen=True, slots=True)
class Hang:
    """Roles of which each waits for the next, the last one for the first (one that nobody tells any more, where
    `alone`); on these sizes."""

    stops: tuple[Stop, ...]
    alone: bool
    sizes: Mapping[str, int]


@dataclass(eq=False, slots=True)
class Stream:
    """What some threads of a role's copy do to barriers, and how far they have come."""

    copy: Copy
    deeds: list[Deed]
    at: int = 0
    seen: dict[Word, int] = field(default_factory=dict)

    def advance(self, told: set[Deed]) -> bool:
        """Goes on as far as it can; the first thread that comes to a deed does it for all."""
        start = self.at
        while self.at < len(self.deeds):
            deed = self.deeds[self.at]
            if not awaits(deed, self.seen):
                break
            if deed not in told:
                told.add(deed)
                tells(deed)
            self.at += 1
        return self.at > start

    @property
    def stop(self) -> Stop:
        deed = self.deeds[self.at]
        assert deed.word is not None, "whoever is stuck waits"
        return Stop(self.copy.role, deed.event.op, deed.word)


def hang_of(kernel: s.KernelOp) -> Hang | None:
    """A hang of a kernel on the smallest sizes that show it; None where none is found."""
    if not _may(kernel) or any(_by_another_lane(op) for op in kernel.walk()):
        return None
    code = Code(kernel, asked=frozenset())
    sizes = blocks_of(code.sizes)
    for counts in _counts(kernel, list(sizes)):
        found = _run(kernel, code, sizes, counts)
        if found is None:
            continue
        for name in counts:  # fewer blocks may do
            while counts[name] > 1:
                fewer = _run(kernel, code, sizes, counts | {name: counts[name] - 1})
                if fewer is None:
                    break
                found, counts = fewer, counts | {name: counts[name] - 1}
        return found
    return None


_MEETINGS = frozenset({NamedBarrierOp, ClusterBarrierOp})


def _may(kernel: s.KernelOp) -> bool:
    """Whether there may be a circle: not where pipes join the roles to a tree, or roles may go side by side."""
    if any([type(op) in _MEETINGS for op in kernel.walk()]):
        return True
    return not (_joins_a_tree(kernel) or in_lockstep(kernel))


def _joins_a_tree(kernel: s.KernelOp) -> bool:
    """Whether pipes of two slots and more join the roles to a tree: two roles at the ends of one ring wait for each
    other only if one holds all of its slots, which the frontend refuses."""
    ends: dict[str, set[str]] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, s.BarriersOp):
            pipe = op.sym_name.data.rpartition(".")[0]
            if not pipe or op.depth.value.data < 2:
                return False
            users = [role_of(use.operation) for use in op.results[0].uses]
            ends.setdefault(pipe, set()).update(r.sym_name.data for r in users if r is not None)
    joined: dict[str, frozenset[str]] = {}
    for roles in ends.values():
        groups = {joined.get(role, frozenset((role,))) for role in roles}
        if len(roles) > 2 or len(groups) < len(roles):
            return False
        whole = frozenset().union(*groups)
        joined |= dict.fromkeys(whole, whole)
    return True


def _by_another_lane(op: Operation) -> bool:
    """Whether lanes come to barriers by a condition that lanes 1 to 31 of a warp, which are one here, do not share."""
    if not isinstance(op, s.IfOp) or varies(op.condition) is not Varies.BY_LANE:
        return False
    guard = guard_of(op.condition)
    if guard is not None and (not guard.lane or guard.number == 0):
        return False
    return any(
        isinstance(inner, NamedBarrierOp)
        or any(isinstance(v.type, BarriersType) for v in inner.operands)
        for inner in op.walk()
    )


def _run(
    kernel: s.KernelOp, code: Code, sizes: Mapping[str, int], counts: Mapping[str, int]
) -> Hang | None:
    chosen = {name: sizes[name] * counts[name] for name in sizes}
    try:
        phases = Phases(kernel, Machine(chosen, code, invents=False).kernel(), {})
        deeds = _with_meetings(phases)
        phases.begin()
        streams = [x for copy, mine in deeds.items() for x in _streams(copy, mine)]
        told: set[Deed] = set()
        while any([stream.advance(told) for stream in streams]):
            pass
    except Unknown:
        return None
    stuck = [x for x in streams if x.at < len(x.deeds)]
    return Hang(*_circle(stuck, told), chosen) if stuck else None


def _with_meetings(phases: Phases) -> dict[Copy, list[Deed]]:
    """What the copies of roles do to mbarriers, and to barriers of threads, of a CTA or the cluster: they arrive, and
    who waits leaves with the phase that it arrived at."""
    words: dict[tuple[int, int], Word] = {}
    found: dict[Copy, list[Deed]] = {}
    arrived: dict[tuple[Copy, Word], dict[int, int]] = {}
    for copy, trace in phases.traces.items():
        known = {deed.event: deed for deed in phases.deeds[copy]}
        mine = found.setdefault(copy, [])
        for event in trace:
            if event in known and event.deed is not None and event.deed.meets is None:
                mine.append(known[event])
            met = _meeting(phases, copy, event)
            if met is None:
                continue
            slot, cta, count = met
            if (slot, cta) not in words:
                words[slot, cta] = phases.words[0, slot, cta] = Word(None, slot, cta, count)
            word, half = words[slot, cta], does(event.op)
            came = _came(arrived.setdefault((copy, word), {}), event)
            if half != "wait":
                mine.append(Deed(event, None, 0, [(word, _threads(event), 0, None)]))
                came += 1
                arrived[copy, word] |= dict.fromkeys(event.threads, came)
            if half != "arrive":
                mine.append(Deed(event, word, Turn(came - 1), []))
    often = {key: max(each.values(), default=0) for key, each in arrived.items()}
    _end(phases, found, words.get((CLUSTER, 0)), often)
    return found


def _came(arrived: Mapping[int, int], event: Event) -> int:
    """How often the threads of an event have come to a barrier."""
    often = {arrived.get(thread, 0) for thread in event.threads}
    if len(often) > 1:
        raise Unknown("threads that meet have come to a barrier unequally often")
    return max(often, default=0)


CLUSTER = -1
"""The barrier of the cluster, among the numbered ones."""


def _meeting(phases: Phases, copy: Copy, event: Event) -> tuple[int, int, int] | None:
    """The number of a barrier of threads of several roles, the CTA that it is of, and its threads."""
    op = event.op
    if isinstance(op, NamedBarrierOp) and op.threads is not None:
        return op.number.value.data, copy.cta, op.threads.value.data
    if not isinstance(op, ClusterBarrierOp):
        return None
    if event.threads != _all_threads(phases, copy):
        raise Unknown("a barrier of the cluster that not all threads come to")
    return CLUSTER, 0, sum(_weight(_all_threads(phases, c)) for c in phases.traces)


def _all_threads(phases: Phases, copy: Copy) -> frozenset[int]:
    roles = (op for op in phases.kernel.body.block.ops if isinstance(op, s.RoleOp))
    role = next(op for op in roles if op.sym_name.data == copy.role)
    return every(2 * (role.warps.value.data // role.groups.value.data), 1)


def _weight(threads: frozenset[int]) -> int:
    return sum(1 if t % 2 == 0 else OTHERS for t in threads)


def _threads(event: Event) -> int:
    return _weight(event.threads)


def _end(
    phases: Phases,
    deeds: dict[Copy, list[Deed]],
    word: Word | None,
    arrived: Mapping[tuple[Copy, Word], int],
) -> None:
    """Threads that have ended count as ones that come to the barrier of the cluster, as often as others do."""
    if word is None:
        return
    most = max(arrived.get((copy, word), 0) for copy in deeds)
    comes = next(
        d.event for mine in deeds.values() for d in mine if d.tells and d.tells[0][0] is word
    )
    for copy, mine in deeds.items():
        threads = _all_threads(phases, copy)
        for _ in range(most - arrived.get((copy, word), 0)):
            event = Event(comes.of, threads, comes.values)
            mine.append(Deed(event, None, 0, [(word, _weight(threads), 0, None)]))


def _streams(copy: Copy, deeds: list[Deed]) -> Iterator[Stream]:
    """The threads of a copy, by what they do; without those of which others do all, and more."""
    kinds = {deed.event.threads for deed in deeds}
    does = {frozenset(k for k in kinds if thread in k) for thread in frozenset().union(*kinds)}
    for mine in does:
        if not any(mine < other for other in does):
            yield Stream(copy, [d for d in deeds if d.event.threads in mine])


# Why -----------------------------------------------------------------------------------------------------------------


def _circle(stuck: list[Stream], told: set[Deed]) -> tuple[tuple[Stop, ...], bool]:
    """Where each waits for the next; or the one for whom nobody is left."""
    way = [stuck[0]]
    while True:
        wanted = way[-1].stop.word
        after = next(
            (
                x for x in stuck
                for d in x.deeds[x.at :]
                if d not in told and any(word is wanted for word, *_ in d.tells)
            ),
            None,
        )  # fmt: skip
        if after is None:
            return (way[-1].stop,), True
        if after in way:
            stops = {x.copy.role: x.stop for x in way[way.index(after) :]}
            return tuple(stops.values()), False
        way.append(after)


def of_pipes(hang: Hang) -> bool:
    """Whether pipes made all barriers that it is about."""
    return all("." in _name(stop.word) for stop in hang.stops)


def finding(hang: Hang) -> Finding:
    """The hang, where each role of it waits."""
    from tkc.analysis.happens_before.report import Finding

    sizes = ", ".join(f"{name} = {n:,}" for name, n in hang.sizes.items())
    where = f" where {sizes}" if sizes else ""
    first, *others = hang.stops
    if hang.alone:
        message = f"role {_waits(first)} for ever{where}: nobody is left who would arrive"
    elif not others:
        message = f"role {_waits(first)} for ever{where}: it is the one that would end the wait"
    else:
        roles = " and ".join(stop.role for stop in hang.stops)
        message = f"roles {roles} wait for one another for ever{where}: role " + ", role ".join(
            map(_waits, hang.stops)
        )
    last = others[-1] if others else None
    return Finding(
        "TK314",
        message,
        "protocol",
        first.op,
        last.op if last is not None else None,
        remedy=_remedy(hang),
        roles=tuple(stop.role for stop in hang.stops),
        other=f"role {_waits(first)}",
    )


def _name(word: Word) -> str:
    if word.barriers is None:
        return "the barrier of the cluster" if word.slot == CLUSTER else f"barrier {word.slot}"
    declared = word.barriers.owner
    assert isinstance(declared, s.BarriersOp)
    return declared.sym_name.data


def _waits(stop: Stop) -> str:
    pipe, _, end = _name(stop.word).rpartition(".")
    what = {"full": f"an item of {pipe}", "empty": f"a free slot of {pipe}"}.get(end)
    return f"{stop.role} waits for {what if pipe and what else _name(stop.word)}"


def _remedy(hang: Hang) -> str:
    names = [_name(stop.word).rpartition(".") for stop in hang.stops]
    filled = list(dict.fromkeys(pipe for pipe, _, end in names if pipe and end == "empty"))
    if not filled:
        return ""
    return f"more slots for {' or '.join(filled)}, or puts in the order in which the items are got"


# Sizes ---------------------------------------------------------------------------------------------------------------


def _counts(kernel: s.KernelOp, names: list[str]) -> Iterator[dict[str, int]]:
    """Of each symbol, how many blocks: such that every ring turns more than once; and one."""
    outer, inner, depths = set[str](), set[str](), ([1], [1])
    for role in kernel.body.block.ops:
        if isinstance(role, s.RoleOp):
            _look(role.body.block, 0, (outer, inner), depths)
    first = next((n for n in names if n in outer), None)
    found = {
        n: max(depths[1]) + 1 if n in inner else max(depths[0]) + 1 if n == first else 1
        for n in names
    }
    yield found
    if any(n > 1 for n in found.values()):
        yield dict.fromkeys(names, 1)


def _look(
    block: Block, depth: int, symbols: tuple[set[str], set[str]], depths: tuple[list[int], ...]
) -> None:
    """The symbols that decide how often outer and inner loops turn, and the depths of the rings that are awaited in
    them."""
    inside = int(depth > 1)
    for op in block.ops:
        if isinstance(op, s.MbarrierWaitOp) and isinstance(op.barriers.owner, s.BarriersOp):
            depths[inside].append(op.barriers.owner.depth.value.data)
        elif isinstance(op, s.ForOp):
            symbols[int(depth > 0)].update(_symbols(op.lower), _symbols(op.upper))
        for region in op.regions:
            for inner in region.blocks:
                _look(inner, depth + (not isinstance(op, s.IfOp)), symbols, depths)


def _symbols(value: SSAValue) -> set[str]:
    """The sizes that a value is made of."""
    found, seen, todo = set[str](), set[SSAValue](), [value]
    while todo:
        one = todo.pop()
        if one in seen or not isinstance(one.owner, Operation):
            continue
        seen.add(one)
        if isinstance(one.owner, SizeOp):
            found.add(one.owner.symbol.data)
        todo += one.owner.operands
    return found
