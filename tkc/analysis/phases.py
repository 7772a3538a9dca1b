"""Which phase of which mbarrier each arrival and wait of a run is about, and the runs that certificates are checked on.

The roles' events happen in turn, those of the first role that can go on first, and once more in the other order: where
the two differ, the numbers decide nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from tkc.analysis.instances import Code, Copy, Event, Instruction, Machine, Unknown, Word
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


def entry(event: Event) -> int:
    """Which barrier of a row an event is about."""
    found = event.value("entry")
    found = event.value("slot") if found is None else found
    if not isinstance(found, int):
        raise Unknown("a barrier whose number is not known")
    return found


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


@dataclass(eq=False, slots=True)
class Deed:
    """What an event does to barriers: those it waits for, with the parity, or a numbered barrier's `Turn`; those it
    tells, with arrivals, bytes, and for a copy's own bytes the CTA whose memory they fill; `meets`: the barrier of
    threads that it comes to."""

    event: Event
    waits: list[tuple[Word, Any]]
    tells: list[tuple[Word, int, int, int | None]]
    meets: Hashable = None


Meetings = dict[Hashable, dict[Copy, list[int]]]
"""How often each role has arrived at each barrier of threads of several roles, and whether it stands there."""


Share = tuple[int, int, int, "int | None"]
"""A CTA whose barrier is told, arrivals, bytes, and for a copy's own bytes the CTA whose memory they fill."""

Rows = tuple[list[SSAValue], list[tuple[Signal, SSAValue]], bool]
"""The barriers that an operation waits for, those that it signals, and whether threads of several roles may meet."""


@dataclass
class Phases:
    """Every mbarrier's phase while the events of a run happen."""

    kernel: s.KernelOp
    traces: Mapping[Copy, list[Event]]
    rows: dict[Instruction, Rows]
    words: dict[tuple[int, int, int], Word] = field(default_factory=dict)
    shares: dict[Hashable, list[Share]] = field(default_factory=dict)
    """What an operation tells barriers, by all that this depends on but their slot."""
    cluster: int = 1

    def __post_init__(self) -> None:
        self.cluster = 1 if self.kernel.cluster is None else self.kernel.cluster.value.data
        self.deeds = {copy: list(self._deeds(copy)) for copy in self.traces}

    def settle(self) -> None:
        """Fills in the phases of all events."""
        order = list(self.traces)
        forward = self._run(order)
        if self._run(order[::-1]) != forward:
            raise Unknown("which phase an arrival counts for depends on who is first")

    # What events do --------------------------------------------------------------------------------------------------

    def _deeds(self, copy: Copy) -> Iterator[Deed]:
        for event in self.traces[copy]:
            known = self.rows.get(event.of)
            if known is None:
                known = self.rows[event.of] = _rows(event)
            meets = _meets(event, copy) if known[2] else None
            if not (known[0] or known[1] or meets):
                continue
            waits = [
                (self._word(b, entry(event), copy.cta), event.value("parity")) for b in known[0]
            ]
            tells = [
                t for row, barriers in known[1] for t in self._told(copy, event, row, barriers)
            ]
            yield Deed(event, waits, tells, meets)

    def _word(self, barriers: SSAValue, slot: int, cta: int) -> Word:
        key = id(barriers), slot, cta
        if key not in self.words:
            declared = barriers.owner
            assert isinstance(declared, s.BarriersOp)
            self.words[key] = Word(barriers, slot, cta, declared.count.value.data)
        return self.words[key]

    def _told(
        self, copy: Copy, event: Event, row: Signal, barriers: SSAValue
    ) -> list[tuple[Word, int, int, int | None]]:
        slot, at = entry(event), event.value(_at(event, row.bytes_of) if row.bytes_of else "")
        key = event.of, row, copy.cta, event.threads, event.value("mask"), event.value("rank"), at
        shares = self.shares.get(key)
        if shares is None:
            shares = self.shares[key] = list(self._shares(copy, event, row))
        return [(self._word(barriers, slot, rank), *more) for rank, *more in shares]

    def _shares(self, copy: Copy, event: Event, row: Signal) -> Iterator[Share]:
        op = event.op
        if row.bytes_of:
            size = getattr(op, row.bytes_of).type.copied_bytes
            many = len(s.sharers(op, copy.cta, self.cluster))
            share = many if "multicast" in op.properties else 1
            for owner in owners(event, copy.cta, self.cluster, row.bytes_of):
                yield self._of(event, owner), 0, -(size // share), owner
            return
        everyone = sum(1 if t % 2 == 0 else OTHERS for t in event.threads)
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

    def _run(self, order: list[Copy]) -> list[tuple[int | None, ...]]:
        """Fills in the phases of all events; gives them as one list, to be compared."""
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
                deeds, here = self.deeds[copy], at[copy]
                while here < len(deeds) and _happens(deeds[here], seen[copy], copy, met):
                    here += 1
                going |= here > at[copy]
                at[copy] = here
        if any(at[c] < len(self.deeds[c]) for c in order):
            raise Unknown("the run does not end")
        return [
            (*(p for _, p in e.arrivals), *(p for _, p, _ in e.completions), e.waited[1] if e.waited else None)
            for copy in self.traces for e in (d.event for d in self.deeds[copy])
        ]  # fmt: skip


def _rows(event: Event) -> Rows:
    op = event.op
    waits = [
        value
        for row in event.of.effects
        if isinstance(row, Await) and row.on
        if isinstance((value := getattr(op, row.on)).type, BarriersType)
    ]
    signals = [
        (row, value)
        for row in event.of.effects
        if isinstance(row, Signal) and row.barrier
        if (value := getattr(op, row.barrier)) is not None and isinstance(value.type, BarriersType)
    ]
    among = next((row.among for row in event.of.effects if isinstance(row, Meet)), "")
    return waits, signals, among in ("cluster", "named")


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
    if deed.meets is None:
        return True
    mine, half = met[deed.meets][copy], does(deed.event.op)
    arrived, stands = mine
    if half == "arrive" or (half == "sync" and not stands):
        arrived += 1
    waits = half != "arrive" and any(
        other is not mine and other[0] < arrived for other in met[deed.meets].values()
    )
    mine[:] = arrived, int(waits)
    return not waits


def _happens(deed: Deed, seen: dict[Word, int], copy: Copy, met: Meetings) -> bool:
    """Whether an event could happen now; then it has."""
    if not (_met(deed, copy, met) and awaits(deed, seen)):
        return False
    tells(deed)
    return True


def awaits(deed: Deed, seen: dict[Word, int]) -> bool:
    """Whether an event need not wait any more. `seen`: the latest phases that its threads have waited for."""
    for word, parity in deed.waits:
        if isinstance(parity, Turn):
            if word.phase <= parity.number:
                return False
            continue
        if not isinstance(parity, int):
            raise Unknown("a phase that is not known")
        wanted = seen.get(word, -1)
        wanted += wanted % 2 != parity % 2
        if word.phase <= wanted:
            return False
        if word.phase > wanted + 1:
            raise Unknown("a phase ends before all have seen the one before it")
        seen[word] = wanted
        deed.event.waited = (word, wanted)
    return True


def tells(deed: Deed) -> None:
    """What an event does to barriers that others wait for."""
    event = deed.event
    event.arrivals, event.completions = [], []
    for word, arrivals, bytes, owner in deed.tells:
        if owner is None:
            event.arrivals.append((word, word.phase))
        else:
            event.completions.append((word, word.phase, owner))
        word.missing -= arrivals
        word.bytes += bytes
        if word.missing < 0:
            raise Unknown("more arrivals than a phase takes")
        if word.missing == 0 and word.bytes == 0:
            word.phase += 1
            word.missing = word.count


def date(traces: Mapping[Copy, list[Event]]) -> None:
    """Fills in how many events come before each one at least."""
    tellers: dict[tuple[Word, int], list[Event]] = {}
    before: dict[Event, Event] = {}
    for trace in traces.values():
        before |= zip(trace[1:], trace, strict=False)
        for event in trace:
            for word, phase in (*event.arrivals, *((w, p) for w, p, _ in event.completions)):
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


def runs(kernel: s.KernelOp) -> Iterator[tuple[str, dict[Copy, list[Event]]]]:
    """Runs of a kernel with few, many and no items in its loops, so that every ring turns; each with its sizes."""
    sizes, code = blocks_of(kernel), Code(kernel)
    rows: dict[Instruction, Rows] = {}
    deepest = max(
        (op.depth.value.data for op in kernel.body.block.ops if isinstance(op, s.BarriersOp)),
        default=1,
    )
    turns = (1, deepest + 2, 2, 0)
    names = list(sizes)
    blocks = [[turns[(i + shift) % 4] for i in range(len(names))] for shift in range(len(turns))]
    if all(0 in row for row in blocks):  # of four sizes one always is none
        blocks.append([2] * len(names))
    for row in blocks:
        chosen = {name: sizes[name] * (n - 1) + 1 for name, n in zip(names, row, strict=True)}
        chosen = {name: max(0, n) for name, n in chosen.items()}
        traces = Machine(chosen, code).kernel()
        Phases(kernel, traces, rows).settle()
        yield ", ".join(f"{a} = {b}" for a, b in chosen.items()), traces


def blocks_of(kernel: s.KernelOp) -> dict[str, int]:
    """Each symbol that the kernel asks for, and the largest number by which it is divided into blocks."""
    found: dict[str, int] = {}
    for op in kernel.walk():
        if isinstance(op, SizeOp):
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
