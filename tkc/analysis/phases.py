"""Which phase of which mbarrier each arrival and wait of a run is about, and the runs that certificates are checked on.

The roles' events happen in turn, those of the first role that can go on first, and once more in the other order: where
the two differ, the numbers decide nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from tkc.analysis.decisions import undecided
from tkc.analysis.instances import (
    Copy,
    Deed,
    Event,
    Instruction,
    Unknown,
    Word,
)
from tkc.analysis.machine import MOST, STOLEN, Code, Machine
from tkc.ir.isa.memory import Await, Meet, Signal, Touch
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import BarriersType

OTHERS = 31


def word_of(op: Operation, name: str) -> str:
    found = op.properties.get(name)
    return found.data if isinstance(found, StringAttr) else ""


def number(op: Operation, name: str, default: int = 0) -> int:
    found = op.properties.get(name)
    return found.value.data if isinstance(found, IntegerAttr) else default


def owners(event: Event, cta: int, cluster: int, operand: str = "") -> list[int]:
    """The CTAs whose memory an event touches by an operand, or of whose barriers it is."""
    if at := _at(event, operand):
        rank = event.value(at)
        if not isinstance(rank, int):
            raise Unknown("a CTA whose number is not known")
        return [rank]
    if "pair" in event.op.properties:
        return [cta & ~1, cta | 1]
    if {"multicast", "everywhere"} & set(event.op.properties):
        return s.sharers(event.op, cta, cluster)
    mask = event.value("mask")
    if mask is None:
        return [cta]
    return [r for r in range(cluster) if mask >> r & 1]


def _at(event: Event, operand: str) -> str:
    """The operand that says in which CTA's memory another one is; empty where none does."""
    for row in event.of.effects:
        if isinstance(row, Touch) and row.operand == operand and row.at:
            return row.at
    return ""


class Turn(NamedTuple):
    """The phase of a numbered barrier of threads that an event waits for: how often its role came to it before."""

    number: int


Meetings = dict[Hashable, dict[Copy, list[int]]]
"""How often each role has arrived at each barrier of threads of several roles, and whether it stands there."""


Share = tuple[int, int, int, "int | None"]
"""A CTA whose barrier is told, arrivals, bytes, and for a copy's own bytes the CTA whose memory they fill."""


class Rows(NamedTuple):
    """The barriers that an operation waits for, and those that it signals by which rows; its operands: which is the
    slot, which say whose barriers they are, and the parity; whether threads of several roles may meet."""

    waits: SSAValue | None
    tells: list[tuple[Signal, SSAValue]]
    slot: int | None
    asked: tuple[int, ...]
    parity: int | None
    meets: bool
    shares: dict[Hashable, list[tuple[SSAValue, Share]]]
    """What it tells whose barriers, by all that this depends on but the slot."""


@dataclass
class Phases:
    """Every mbarrier's phase while the events of a run happen."""

    kernel: s.KernelOp
    traces: Mapping[Copy, list[Event]]
    rows: dict[Instruction, Rows]
    words: dict[tuple[int, int, int], Word] = field(default_factory=dict)
    cluster: int = 1

    def __post_init__(self) -> None:
        self.cluster = 1 if self.kernel.cluster is None else self.kernel.cluster.value.data
        self.deeds = {copy: list(self._deeds(copy)) for copy in self.traces}

    def settle(self) -> None:
        """Fills in the phases of all events."""
        order = list(self.traces)
        self._run(order)
        self._run(order[::-1])

    # What events do --------------------------------------------------------------------------------------------------

    def _deeds(self, copy: Copy) -> Iterator[Deed]:
        rows, known = self.rows, dict[Hashable, tuple[Word | None, list[Any]]]()
        for event in self.traces[copy]:
            of, values = event.of, event.values
            row = rows.get(of)
            if row is None:
                row = rows[of] = _rows(event)
            meets = _meets(event, copy) if row.meets else None
            if row.waits is None and not row.tells:
                if meets is not None:
                    event.deed = Deed(event, None, 0, [], meets)
                    yield event.deed
                continue
            slot = None if row.slot is None else values[row.slot]
            key = of, event.threads, slot
            if row.asked:
                key = *key, *[values[i] for i in row.asked]
            words = known.get(key)
            if words is None:
                words = known[key] = self._words(copy, event, row, slot)
            parity = None if row.parity is None else values[row.parity]
            event.deed = Deed(event, words[0], parity, words[1], meets)
            yield event.deed

    def _words(
        self, copy: Copy, event: Event, row: Rows, slot: Any
    ) -> tuple[Word | None, list[tuple[Word, int, int, int | None]]]:
        """The barrier that an event waits for, and what it tells which."""
        if not isinstance(slot, int):
            raise Unknown("a barrier whose number is not known")
        key = copy.cta, event.threads, *[event.values[i] for i in row.asked]
        shares = row.shares.get(key)
        if shares is None:
            shares = row.shares[key] = [
                (barriers, share)
                for signal, barriers in row.tells
                for share in self._shares(copy, event, signal)
            ]
        tells = [(self._word(of, slot, rank), *more) for of, (rank, *more) in shares]
        return None if row.waits is None else self._word(row.waits, slot, copy.cta), tells

    def _word(self, barriers: SSAValue, slot: int, cta: int) -> Word:
        key = id(barriers), slot, cta
        if key not in self.words:
            declared = barriers.owner
            assert isinstance(declared, s.BarriersOp)
            self.words[key] = Word(barriers, slot, cta, declared.count.value.data)
        return self.words[key]

    def _shares(self, copy: Copy, event: Event, row: Signal) -> Iterator[Share]:
        op = event.op
        everyone = sum(1 if t % 2 == 0 else OTHERS for t in event.threads)
        if row.bytes_of:
            size = getattr(op, row.bytes_of).type.copied_bytes
            many = len(s.sharers(op, copy.cta, self.cluster))
            share = many if "multicast" in op.properties else 1
            for owner in owners(event, copy.cta, self.cluster, row.bytes_of):
                yield self._of(event, owner), 0, -(size // share) * everyone, owner
            return
        weight = everyone * number(op, "count", row.arrivals)
        for rank in self._ranks(copy, event):
            yield rank, weight, number(op, "bytes") * everyone, None

    def _ranks(self, copy: Copy, event: Event) -> list[int]:
        if word_of(event.op, "to") == s.To.ALL:
            return list(range(self.cluster))
        if word_of(event.op, "to") == s.To.PAIR:
            return [copy.cta & ~1, copy.cta | 1]
        if event.value("mask") is not None:
            return owners(event, copy.cta, self.cluster)
        return [self._of(event, copy.cta)]

    def _of(self, event: Event, own: int) -> int:
        if word_of(event.op, "to") == s.To.LEADER:
            return own & ~1
        if word_of(event.op, "to") == s.To.FIRST:
            return 0
        rank = event.value("rank")
        if rank is None and isinstance(getattr(event.op, "rank", None), SSAValue):
            raise Unknown("a CTA whose number is not known")
        return own if rank is None else rank

    # When they happen ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Sets all barriers to their first phase."""
        for word in self.words.values():
            word.phase, word.missing, word.bytes = 0, word.count, 0

    def _run(self, order: list[Copy]) -> None:
        """Fills in the phases of all events, or finds those that are there."""
        self.begin()
        at = dict.fromkeys(order, 0)
        seen: dict[Copy, dict[Word, int]] = {copy: {} for copy in order}
        met: Meetings = {}
        for copy in order:
            for meets in {d.meets for d in self.deeds[copy] if d.meets is not None}:
                met.setdefault(meets, {})[copy] = [0, 0]
        going = True
        while going:
            going = False
            for copy in order:
                here = _go_on(self.deeds[copy], at[copy], seen[copy], copy, met)
                going |= here > at[copy]
                at[copy] = here
        if any(at[c] < len(self.deeds[c]) for c in order):
            raise Unknown("the run does not end")


def _rows(event: Event) -> Rows:
    op, of = event.op, event.of
    waits = [
        value
        for row in of.effects
        if isinstance(row, Await) and row.on
        if isinstance((value := getattr(op, row.on)).type, BarriersType)
    ]
    signals = [
        (row, value)
        for row in of.effects
        if isinstance(row, Signal) and row.barrier
        if (value := getattr(op, row.barrier)) is not None and isinstance(value.type, BarriersType)
    ]
    filled = [_at(event, row.bytes_of) for row, _ in signals if row.bytes_of]
    whose = dict.fromkeys(of.place(name) for name in ("mask", "rank", *filled) if name)
    asked = tuple(p for p in whose if p is not None)
    named = of.place("entry")
    slot = of.place("slot") if named is None else named
    if len(waits) > 1:
        raise Unknown(f"{op.name} waits for several barriers")
    among = next((row.among for row in of.effects if isinstance(row, Meet)), "")
    meets = among in ("cluster", "named")
    return Rows(waits[0] if waits else None, signals, slot, asked, of.place("parity"), meets, {})


def _meets(event: Event, copy: Copy) -> Hashable:
    """The barrier of threads that a role comes to: that of the cluster, or one of its CTA's."""
    if "number" in event.op.properties:
        return copy.cta, number(event.op, "number")
    return "cluster"


def does(op: Operation) -> str:
    """Which half of a meeting an operation is: it arrives, waits, or does both (`sync`)."""
    return "arrive" if "arrives" in op.properties else word_of(op, "does") or "sync"


def _met(deed: Deed, copy: Copy, met: Meetings) -> bool:
    """Whether a role can go on from a barrier of threads, where it has then arrived."""
    mine, half = met[deed.meets][copy], does(deed.event.op)
    arrived, stands = mine
    if half == "arrive" or (half == "sync" and not stands):
        arrived += 1
    waits = half != "arrive" and any(
        other is not mine and other[0] < arrived for other in met[deed.meets].values()
    )
    mine[:] = arrived, int(waits)
    return not waits


def _go_on(deeds: list[Deed], at: int, seen: dict[Word, int], copy: Copy, met: Meetings) -> int:
    """Lets a role's deeds from one on happen, as far as they can now; gives the first that cannot."""
    for deed in islice(deeds, at, None):
        if deed.meets is not None and not _met(deed, copy, met):
            return at
        if deed.word is not None and not awaits(deed, seen):
            return at
        if deed.tells:
            phases = tells(deed)
            if deed.phases is None:
                deed.phases = phases
            elif deed.phases != phases:
                raise Unknown("which phase an arrival counts for depends on who is first")
        at += 1
    return at


def awaits(deed: Deed, seen: dict[Word, int]) -> bool:
    """Whether an event need not wait any more. `seen`: the latest phases that its threads have waited for."""
    word, parity = deed.word, deed.parity
    if word is None:
        return True
    if isinstance(parity, Turn):
        return word.phase > parity.number
    if not isinstance(parity, int):
        raise Unknown("a phase that is not known")
    wanted = seen.get(word, -1)
    wanted += (wanted ^ parity) & 1
    if word.phase <= wanted:
        return False
    if word.phase > wanted + 1:
        raise Unknown("a phase ends before all have seen the one before it")
    seen[word] = deed.seen = wanted
    return True


def tells(deed: Deed) -> list[int]:
    """What an event does to barriers that others wait for; gives the phases for which it counts."""
    phases: list[int] = []
    for word, arrivals, bytes, _ in deed.tells:
        phases.append(word.phase)
        word.missing -= arrivals
        word.bytes += bytes
        if word.missing < 0:
            raise Unknown("more arrivals than a phase takes")
        if not (word.missing or word.bytes):
            word.phase += 1
            word.missing = word.count
    return phases


def date(traces: Mapping[Copy, list[Event]]) -> None:
    """Fills in how many events come before each one at least."""
    tellers: dict[tuple[Word, int], list[Event]] = {}
    before: dict[Event, Event] = {}
    for trace in traces.values():
        before |= zip(trace[1:], trace, strict=False)
        for event in trace:
            for word, phase, _ in event.told():
                tellers.setdefault((word, phase), []).append(event)
    dated: set[Event] = set()
    left = [e for trace in traces.values() for e in reversed(trace)]
    while left:
        event = left[-1]
        earlier = [before[event]] if event in before else []
        earlier += tellers.get(event.waited, ()) if event.waited is not None else ()
        missing = [e for e in earlier if e not in dated]
        if missing:
            left += missing
            continue
        left.pop()
        dated.add(event)
        event.when = max((e.when + 1 for e in earlier), default=0)


# Sizes ---------------------------------------------------------------------------------------------------------------


def runs(code: Code) -> Iterator[tuple[str, dict[Copy, list[Event]]]]:
    """Runs of a kernel with few, many and no items in its loops, so that every ring turns; each with its sizes, but for
    those that would be like one before.

    Where they leave a branch or a loop's body out, there are longer ones, and ones with other numbers. Raises Unknown
    where those do not show either what the kernel does there.
    """
    sizes, rows, before = blocks_of(code.sizes), dict[Instruction, Rows](), set[Hashable]()
    for row in _few(code.kernel, len(sizes)):
        chosen = {
            name: max(0, sizes[name] * (n - 1) + 1) for name, n in zip(sizes, row, strict=True)
        }
        yield from _run(Machine(chosen, code), rows, before)
    if left := [d for d in undecided(code) if not d.settled]:
        for chosen, items, shift in _more(sizes, max(d.cone.turns for d in left)):
            yield from _run(Machine(chosen, code, items, shift), rows, before)
            left = [d for d in undecided(code) if not d.settled]
            if not left:
                return
        raise Unknown(str(left[0]))


def _run(
    machine: Machine, rows: dict[Instruction, Rows], before: set[Hashable]
) -> Iterator[tuple[str, dict[Copy, list[Event]]]]:
    """A run, unless each copy of a role does in it what it did in one `before`."""
    traces = machine.kernel()
    did = tuple(machine.given)
    if did not in before:
        before.add(did)
        Phases(machine.code.kernel, traces, rows).settle()
        yield ", ".join(f"{a} = {b}" for a, b in machine.sizes.items()), traces


def _few(kernel: s.KernelOp, names: int) -> list[list[int]]:
    """How many blocks each size has, in one run after another.

    Each in turn more than the deepest ring has slots, so that one loop goes round it, while the others are few but
    there, and once two, so that a long loop goes on where the one before it has left the ring; then each in turn none.
    """
    deepest = max(
        (op.depth.value.data for op in kernel.body.block.ops if isinstance(op, s.BarriersOp)),
        default=1,
    )
    many = deepest + 2
    if names < 2:
        return [[1], [many], [2], [0]] if names else [[]]
    long, empty = ([[1] * names for _ in range(names)] for _ in range(2))
    for at in range(names):
        long[at][at], empty[at][at - 1], empty[at][at] = many, many, 0
    long[-1][-2] = 2
    if names > 2:
        long[-2][-1] = 2
    else:
        long.append([1, many])
    return [*long[::-1], *empty]


def _more(sizes: Mapping[str, int], turns: int) -> Iterator[tuple[dict[str, int], int, int]]:
    """Sizes, items that the hardware hands out, and a shift of other numbers: first so large that each loop in turn has
    so many turns."""
    for long in sizes or [""]:
        yield {name: of * turns if name == long else 1 for name, of in sizes.items()}, STOLEN, 0
    if turns <= MOST:
        yield dict(sizes), turns, 0
    for shift in range(1, 5):
        yield {name: 2 * of for name, of in sizes.items()}, STOLEN, shift


def blocks_of(asked: Iterable[SizeOp]) -> dict[str, int]:
    """Each symbol that a kernel asks for, and the largest number by which it is divided into blocks."""
    found: dict[str, int] = {}
    for op in asked:
        name = op.symbol.data
        found.setdefault(name, 1)
        for use in op.value.uses:
            divided = use.operation
            if (
                isinstance(divided, ArithOp)
                and divided.kind.data in ("cdiv", "div")
                and use.index == 0
            ):
                by = divided.inputs[1].owner
                if isinstance(by, ConstOp) and isinstance(by.constant, IntegerAttr):
                    found[name] = max(found[name], by.constant.value.data)
    return found
