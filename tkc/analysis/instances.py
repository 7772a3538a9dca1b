"""What each role of a kernel does, in order, when the kernel runs on small numbers.

Every loop is turned, every condition decided; a warp is two threads, lane 0 and one for the other 31. Nothing here
knows the analysis of happens-before: its certificates are checked on these runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tkc.ir.certificates import label
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Effect, Signal
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.maps import EditedOp
from tkc.ir.stage.ops import By
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import AccumulatorType, BarriersType

OTHERS = 31
MOST = 60_000
"""Operations after which a run is given up."""


STOLEN = 5
"""Items that the one unit gets where the hardware hands them out."""


class Unknown(Exception):
    """Something that the numbers do not decide."""


class Each(tuple[Any, ...]):
    """A value that is not the same in all threads."""


class Opened(NamedTuple):
    """An accumulator: the slot of a buffer."""

    buffer: SSAValue
    slot: Any


class Edited(NamedTuple):
    """An array of a list, as the slot of its tensor map."""

    maps: SSAValue
    slot: Any


class Copy(NamedTuple):
    """One warpgroup's copy of a role in one CTA."""

    role: str
    copy: int
    cta: int


NOBODY = Copy("", 0, 0)
"""Before the first role."""


class Word(NamedTuple):
    """One mbarrier: entry `slot` of `barriers` in CTA `cta`."""

    barriers: SSAValue
    slot: int
    cta: int


@dataclass(eq=False, slots=True)
class Event:
    """One execution of an operation by some threads of a role's copy; `values` are its operands'.

    `arrivals` and `completions` (of bytes, with the CTA whose memory they fill) have the phases that they count for,
    `waited` the phase that is known to be complete.
    """

    op: Operation
    name: str
    threads: frozenset[int]
    values: tuple[Any, ...]
    arrivals: list[tuple[Word, int]] = field(default_factory=list)
    completions: list[tuple[Word, int, int]] = field(default_factory=list)
    waited: tuple[Word, int] | None = None
    when: int = 0
    """How many events at least come before it, one after another."""
    effects: tuple[Effect, ...] = ()
    places: dict[str, int | None] = field(default_factory=dict)
    """Which of the operands one called so is, as far as it was asked; executions of an operation share it."""

    def value(self, operand: str) -> Any:
        """The value of an operand; None where there is none, or no number."""
        if operand not in self.places:
            found = getattr(self.op, operand, None)
            self.places[operand] = next(
                (i for i, o in enumerate(self.op.operands) if o is found), None
            )
        place = self.places[operand]
        return self.values[place] if place is not None else None

    def rows(self) -> tuple[Effect, ...]:
        return self.effects


def calculate(kind: str, inputs: list[Any]) -> Any:
    """A row of the arithmetic table; of every thread where an input is."""
    if any(v is None or isinstance(v, Opened) for v in inputs):
        return None
    if kind in ("div", "mod", "cdiv") and inputs[1] == 0:
        return None
    many = next((v for v in inputs if isinstance(v, Each)), None)
    if many is None:
        return SCALARS[kind].of(*inputs)
    rows = [v if isinstance(v, Each) else (v,) * len(many) for v in inputs]
    found = Each(SCALARS[kind].of(*r) for r in zip(*rows, strict=True))
    return found[0] if all(v == found[0] for v in found) else found


def element(indices: list[Any]) -> int | None:
    """A made-up number, none, few or many, for an argument or an element of a tensor that nobody writes."""
    if not all(isinstance(i, int) for i in indices):
        return None
    return (130, 0, 300, 1, 65)[sum(indices) % 5]


@dataclass
class Machine:
    """Runs roles; `sizes` gives every symbol a number."""

    sizes: Mapping[str, int]
    values: dict[SSAValue, Any] = field(default_factory=dict[SSAValue, Any])
    events: list[Event] = field(default_factory=list[Event])
    steps: int = 0
    at: Copy = NOBODY
    count: int = 2
    mask: frozenset[int] = frozenset()
    known: dict[Operation, tuple[str, tuple[Effect, ...], dict[str, int | None]]] = field(
        default_factory=dict
    )
    """Of an operation that makes events: its label, its effects, the places of its operands."""

    def kernel(self, kernel: s.KernelOp) -> dict[Copy, list[Event]]:
        found: dict[Copy, list[Event]] = {}
        arguments = [a for a in kernel.body.block.args if a.type == i32]
        self.values.update((a, element([n])) for n, a in enumerate(arguments, 1))
        cluster = kernel.cluster.value.data if kernel.cluster is not None else 1
        for rank in range(cluster):
            for op in kernel.body.block.ops:
                self.at = Copy("", 0, rank)
                if not isinstance(op, s.RoleOp):
                    self._step(op)
                    continue
                for group in range(op.groups.value.data):
                    self.at, self.events = Copy(op.sym_name.data, group, rank), []
                    self.count = 2 * (op.warps.value.data // op.groups.value.data)
                    self.mask = frozenset(range(self.count))
                    self._block(op.body.block)
                    found[self.at] = self.events
        return found

    def _block(self, block: Block) -> list[Any]:
        """The values that the block hands on."""
        for op in block.ops:
            if type(op) is s.YieldOp:
                return [self.values.get(v) for v in op.operands]
            self._step(op)
        return []

    def _step(self, op: Operation) -> None:
        self.steps += 1
        if self.steps > MOST:
            raise Unknown("the run is too long")
        way = WAYS.get(type(op))
        if way is not None:
            way(self, op)
        elif isinstance(op, LoadElementOp) and op.constant is not None:
            self.values[op.value] = element([self.values.get(v) for v in op.indices])
        else:
            self._event(op)

    def _const(self, op: ConstOp) -> None:
        if op.value not in self.values:
            constant = op.constant
            self.values[op.value] = (
                constant.value.data if isinstance(constant, IntegerAttr) else None
            )

    def _size(self, op: SizeOp) -> None:
        self.values[op.value] = self.sizes[op.symbol.data]

    def _arith(self, op: ArithOp) -> None:
        self.values[op.results[0]] = calculate(
            op.kind.data, [self.values.get(v) for v in op.operands]
        )

    def _unit(self, op: s.UnitOp) -> None:
        ranks = {name: of(self.at.cta) for name, of in s.RANKS.items()}
        units = {"index": 0, "count": 1, "items": STOLEN, **ranks}
        self.values[op.value] = units[op.which.data]

    def _group(self, op: s.GroupOp) -> None:
        self.values[op.value] = self.at.copy

    def _elected(self, op: s.ElectedOp) -> None:
        one = op.scope.data == By.ONE
        self.values[op.value] = Each(t == 0 if one else t % 2 == 0 for t in range(self.count))

    def _identity(self, op: IdentityOp) -> None:
        self.values[op.value] = Each(
            {"lane": t % 2, "warp": t // 2, "thread": 32 * (t // 2) + t % 2}[op.which.data]
            for t in range(self.count)
        )

    def _open(self, op: s.OpenOp) -> None:
        self.values[op.results[0]] = Opened(op.buffer, self.values.get(op.slot))

    def _edited(self, op: EditedOp) -> None:
        self.values[op.array] = Edited(op.maps, self.values.get(op.slot))

    def _loop(self, op: s.ForOp) -> None:
        bounds = [self.values.get(v) for v in (op.lower, op.upper, op.step)]
        if not all(isinstance(b, int) for b in bounds):
            raise Unknown("a loop whose bounds are no numbers")
        carried = [self.values.get(v) for v in op.inits]
        for i in range(*bounds):
            self.values.update(zip(op.body.block.args, [i, *carried], strict=True))
            carried = self._block(op.body.block)
            if op.stolen is not None:  # the one unit gets one item after another
                carried[:2] = [True, i + 1]
        self.values.update(zip(op.results, carried, strict=True))

    def _if(self, op: s.IfOp) -> None:
        condition = self.values.get(op.condition)
        other = op.otherwise.block if op.otherwise is not None and op.otherwise.blocks else None
        if isinstance(condition, Each):
            before, results = self.mask, []
            for block, wanted in ((op.then.block, True), (other, False)):
                self.mask = before & {t for t, c in enumerate(condition) if bool(c) is wanted}
                if block is not None and self.mask:
                    results.append(self._block(block))
            self.mask = before
            same = [
                v[0] if all(x == v[0] for x in v) else None for v in zip(*results, strict=False)
            ]
            self.values.update(zip(op.results, same, strict=False))
            return
        if condition is None:
            raise Unknown("a condition that is no number")
        block = op.then.block if condition else other
        if block is not None:
            self.values.update(zip(op.results, self._block(block), strict=True))

    def _event(self, op: Operation) -> None:
        if op.regions:
            raise Unknown(f"{op.name} cannot be run on numbers")
        accumulator = next(
            (self.values.get(v) for v in op.operands if isinstance(v.type, AccumulatorType)), None
        )
        for result in op.results:
            self.values[result] = accumulator if isinstance(result.type, AccumulatorType) else None
        if op not in self.known:
            self.known[op] = (label(op), effects_of(op) or (), {})
        name, effects, places = self.known[op]
        if not effects or not isinstance(op, s.StageOp) or not self.at.role:
            return
        values = tuple([self.values.get(v) for v in op.operands])
        self.events.append(Event(op, name, self._who(op), values, effects=effects, places=places))

    def _who(self, op: s.StageOp) -> frozenset[int]:
        """The threads that execute an operation: those that its conditions let through, or of them whom it names."""
        everyone = len(self.mask) == self.count
        if not everyone and op.EACH:
            return self.mask
        step = {By.ONE: self.count, By.LANE: 2}.get(op.executed_by or By.ALL, 1)
        found = self.mask & frozenset(range(0, self.count, step))
        if not found:
            raise Unknown("nobody executes an operation")
        return found


WAYS: Mapping[type[Operation], Callable[..., None]] = {
    ConstOp: Machine._const, SizeOp: Machine._size, ArithOp: Machine._arith, s.UnitOp: Machine._unit,
    s.GroupOp: Machine._group, s.ElectedOp: Machine._elected, IdentityOp: Machine._identity, s.OpenOp: Machine._open,
    s.ForOp: Machine._loop, s.IfOp: Machine._if, EditedOp: Machine._edited,
}  # fmt: skip
"""What an operation does to values, by its class: asking each class in turn takes longer than the work."""


# Barriers ------------------------------------------------------------------------------------------------------------


def _word(op: Operation, name: str) -> str:
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


def owners(event: Event, cta: int, cluster: int) -> list[int]:
    """The CTAs whose memory an event touches."""
    if "pair" in event.op.properties:
        return [cta & ~1, cta | 1]
    if {"multicast", "everywhere"} & set(event.op.properties):
        return s.sharers(event.op, cta, cluster)
    mask = event.value("mask")
    if mask is None:
        return [cta]
    return [r for r in range(cluster) if mask >> r & 1]


@dataclass
class Barriers:
    """Every mbarrier's phase while the roles' events happen, those of the first role that can go on first."""

    kernel: s.KernelOp
    traces: Mapping[Copy, list[Event]]
    phase: dict[Word, int] = field(default_factory=dict[Word, int])
    missing: dict[Word, int] = field(default_factory=dict[Word, int])
    bytes: dict[Word, int] = field(default_factory=dict[Word, int])
    seen: dict[tuple[Copy, Word], int] = field(default_factory=dict[tuple[Copy, Word], int])
    latest: dict[tuple[Word, int], int] = field(default_factory=dict[tuple[Word, int], int])
    """When the last of a phase's arrivals was."""

    def run(self, order: list[Copy]) -> list[tuple[int | None, ...]]:
        """Fills in the phases of all events; gives them as one list, to be compared."""
        self.cluster = self.kernel.cluster.value.data if self.kernel.cluster is not None else 1
        at = dict.fromkeys(order, 0)
        going = True
        while going:
            going = False
            for copy in order:
                trace = self.traces[copy]
                while at[copy] < len(trace) and self._happens(copy, trace[at[copy]]):
                    self._date(trace[at[copy]], trace[at[copy] - 1] if at[copy] else None)
                    at[copy] += 1
                    going = True
        if any(at[c] < len(self.traces[c]) for c in order):
            raise Unknown("the run does not end")
        return [
            (*(p for _, p in e.arrivals), *(p for _, p, _ in e.completions), e.waited[1] if e.waited else None)
            for copy in self.traces for e in self.traces[copy]
        ]  # fmt: skip

    def _date(self, event: Event, before: Event | None) -> None:
        event.when = before.when + 1 if before is not None else 0
        if event.waited is not None:
            event.when = max(event.when, self.latest.get(event.waited, -1) + 1)
        for word, phase in (*event.arrivals, *((w, p) for w, p, _ in event.completions)):
            self.latest[word, phase] = max(self.latest.get((word, phase), 0), event.when)

    def _count(self, word: Word) -> int:
        declared = word.barriers.owner
        assert isinstance(declared, s.BarriersOp)
        return declared.count.value.data

    def _happens(self, copy: Copy, event: Event) -> bool:
        """Whether the event could happen now; then it has."""
        rows = event.rows()
        for row in rows:
            if (
                isinstance(row, Await)
                and row.on
                and isinstance(getattr(event.op, row.on).type, BarriersType)
            ):
                if not self._wait(
                    copy, event, Word(getattr(event.op, row.on), entry(event), copy.cta)
                ):
                    return False
        event.arrivals, event.completions = [], []
        for row in rows:
            if (
                isinstance(row, Signal)
                and row.barrier
                and getattr(event.op, row.barrier) is not None
            ):
                barriers = getattr(event.op, row.barrier)
                if isinstance(barriers.type, BarriersType):
                    self._signal(copy, event, row, barriers)
        return True

    def _wait(self, copy: Copy, event: Event, word: Word) -> bool:
        parity = event.value("parity")
        if not isinstance(parity, int):
            raise Unknown("a phase that is not known")
        seen = self.seen.get((copy, word), -1)
        wanted = seen if seen % 2 == parity % 2 else seen + 1
        if self.phase.get(word, 0) <= wanted:
            return False
        self.seen[copy, word] = wanted
        event.waited = (word, wanted)
        return True

    def _signal(self, copy: Copy, event: Event, row: Signal, barriers: SSAValue) -> None:
        if row.bytes_of:
            size = getattr(event.op, row.bytes_of).type.copied_bytes
            many = len(s.sharers(event.op, copy.cta, self.cluster))
            share = many if "multicast" in event.op.properties else 1
            for owner in owners(event, copy.cta, self.cluster):
                word = Word(barriers, entry(event), self._of(event, owner))
                event.completions.append((word, self.phase.get(word, 0), owner))
                self._count_down(word, 0, -(size // share))
            return
        everyone = sum(1 if t % 2 == 0 else OTHERS for t in event.threads)
        weight = everyone * number(event.op, "count", row.arrivals)
        for rank in self._told(copy, event):
            word = Word(barriers, entry(event), rank)
            event.arrivals.append((word, self.phase.get(word, 0)))
            self._count_down(word, weight, number(event.op, "bytes") * everyone)

    def _told(self, copy: Copy, event: Event) -> list[int]:
        if _word(event.op, "to") == s.To.ALL:
            return list(range(self.cluster))
        if _word(event.op, "to") == s.To.PAIR:
            return [copy.cta & ~1, copy.cta | 1]
        if event.value("mask") is not None:
            return owners(event, copy.cta, self.cluster)
        return [self._of(event, copy.cta)]

    def _of(self, event: Event, own: int) -> int:
        if _word(event.op, "to") == s.To.LEADER:
            return own & ~1
        if _word(event.op, "to") == s.To.FIRST:
            return 0
        rank = event.value("rank")
        if rank is None and isinstance(getattr(event.op, "rank", None), SSAValue):
            raise Unknown("a CTA whose number is not known")
        return own if rank is None else rank

    def _count_down(self, word: Word, arrivals: int, bytes: int) -> None:
        self.missing[word] = self.missing.get(word, self._count(word)) - arrivals
        self.bytes[word] = self.bytes.get(word, 0) + bytes
        if self.missing[word] < 0:
            raise Unknown("more arrivals than a phase takes")
        if self.missing[word] == 0 and self.bytes[word] == 0:
            self.phase[word] = self.phase.get(word, 0) + 1
            self.missing[word] = self._count(word)


# Sizes ---------------------------------------------------------------------------------------------------------------


def runs(kernel: s.KernelOp) -> Iterator[tuple[str, dict[Copy, list[Event]]]]:
    """Runs of a kernel with few, many and no items in its loops, so that every ring turns; each with its sizes."""
    sizes = _blocks(kernel)
    deepest = max(
        (op.depth.value.data for op in kernel.body.block.ops if isinstance(op, s.BarriersOp)),
        default=1,
    )
    turns = (1, deepest + 2, 2, 0)
    names = list(sizes)
    rows = [[turns[(i + shift) % 4] for i in range(len(names))] for shift in range(len(turns))]
    if all(0 in row for row in rows):
        rows.append([2] * len(names))
    for row in rows:
        chosen = {name: sizes[name] * (n - 1) + 1 for name, n in zip(names, row, strict=True)}
        chosen = {name: max(0, n) for name, n in chosen.items()}
        traces = Machine(chosen).kernel(kernel)
        order = list(traces)
        forward = Barriers(kernel, traces).run(order)
        if Barriers(kernel, traces).run(order[::-1]) != forward:
            raise Unknown("which phase an arrival counts for depends on who is first")
        yield ", ".join(f"{a} = {b}" for a, b in chosen.items()), traces


def _blocks(kernel: s.KernelOp) -> dict[str, int]:
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
