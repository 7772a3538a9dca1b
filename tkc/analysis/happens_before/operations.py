"""What one operation of a role touches, signals and awaits, from the rows that it carries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from tkc.analysis.happens_before import maps
from tkc.analysis.happens_before.areas import Area, Formulas
from tkc.analysis.happens_before.automaton import both
from tkc.analysis.happens_before.conditions import Places, Team
from tkc.analysis.happens_before.events import (
    Access,
    Act,
    Arrive,
    AwaitGroup,
    Barrier,
    CloseGroup,
    Complete,
    Event,
    GridWait,
    Loop,
    Meet,
    ProxyFence,
    Slot,
    Some,
    TensorFence,
    ThreadFence,
    Threads,
    Turns,
    Wait,
    Who,
)
from tkc.analysis.happens_before.evolutions import Evolutions
from tkc.analysis.happens_before.expressions import Expressions
from tkc.analysis.happens_before.numbering import Numbering
from tkc.analysis.happens_before.opened import opened_by
from tkc.analysis.happens_before.properties import (
    atomic,
    backed,
    kind_of,
    number,
    scope_of,
    sem_of,
    what,
    widths,
    word,
)
from tkc.analysis.happens_before.separate import loops_apart
from tkc.analysis.happens_before.storage import placed
from tkc.analysis.happens_before.turns import Waits
from tkc.analysis.happens_before.values import Chain, Table, Values
from tkc.ir.effects import effects_of
from tkc.ir.isa import memory as m
from tkc.ir.isa.fences import ONE_WAY
from tkc.ir.isa.memory import Done, Proxy, Sem, Space
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import CopiesArriveOp, ElementOp
from tkc.ir.stage.explicit import TryWaitOp
from tkc.ir.stage.maps import ArrayOp, EditedOp, argument_of
from tkc.ir.stage.types import AccumulatorType, BarriersType, BufferType, FragmentLayout, Home
from tkc.ir.tile.types import TensorType

WHO = {s.By.ONE: Threads.ONE, s.By.LANE: Threads.LANE, s.By.ALL: Threads.ALL}


CLUSTER = "cluster"
"""The barrier of the cluster, among those that threads meet at."""


Touch = Callable[["Operations"], list[Access]]
Deed = Callable[["Operations"], list[Act]]
"""What an operation touches or does in any copy of its role that its numbers are the same in, given the copy."""


class Said(NamedTuple):
    """What an operation does in all copies of a role; `filled`: the operands whose bytes it counts."""

    by: Threads
    name: str
    touches: list[Touch]
    deeds: list[Deed]
    filled: frozenset[str | None]


@dataclass
class Operations(Numbering):
    """The operations of one role, or of one warpgroup of it, in CTA `rank` of `cluster`; `acts`: the lane and the warp
    that act for others."""

    role: s.RoleOp
    group: int
    rank: int
    cluster: int
    barriers: dict[Hashable, Barrier]
    write: Expressions
    values: Values
    acts: tuple[int, int | None]
    loops: dict[Chain, Loop] = field(default_factory=dict)
    held: list[Event] = field(default_factory=list[Event])

    def __post_init__(self) -> None:
        self.places = Places(self.values, self.write)
        self.evolve = Evolutions(self.write)
        self.formulas = Formulas(self.role, self.values, self.write)
        groups = self.role.groups.value.data
        self.warps = self.role.warps.value.data // groups
        self.lane, warp = self.acts
        self.warp = self.group * self.warps if warp is None or groups > 1 else warp
        mine = range(self.group * self.warps, (self.group + 1) * self.warps)
        self.team = Team(mine, self.lane, self.warp)
        self.turns: Turns | None = None
        self.waits = Waits(self.role)
        self.said: dict[Hashable, Said] = {}
        self.apart: Set[Operation] = frozenset[Operation]()
        """Operations of which copies of the role do not say the same."""

    def events(self, op: Operation, who: Who) -> list[Event]:
        """The operation's events: one, or one for each CTA that it signals, and more where it does several things."""
        key = (op, tuple(self.values.turn.items()), len(self.loops))
        said = self.said.get(key)
        if said is None:
            said = self._said(op)
            if self.turns is None and op not in self.apart:
                self.said[key] = said
        by, name, touches, deeds, filled = said
        accesses = [a for touch in touches for a in touch(self)]
        acts = [a for deed in deeds for a in deed(self)]
        if not accesses and not acts:
            return []
        assert isinstance(op, s.StageOp)
        threads = self._comers(op, who, by)
        found: list[Event] = []
        if acts and isinstance(acts[0], Complete):  # each copy's bytes complete by themselves
            for act in acts:
                assert isinstance(act, Complete)
                mine = [a for a in accesses if a.operand not in filled or a.owner == act.owner]
                found.append(Event(name, threads, tuple(mine), act, op))
            return found
        found.append(Event(name, threads, tuple(accesses), acts[0] if acts else None, op))
        return found + [Event(name, threads, (), act, op) for act in acts[1:]]

    def _said(self, op: Operation) -> Said:
        rows = effects_of(op)
        if not rows or not isinstance(op, s.StageOp):
            return Said(Threads.ALL, "", [], [], frozenset())
        touches = [self._touch(op, row) for row in rows if isinstance(row, m.Touch)]
        filled = frozenset(r.bytes_of for r in rows if isinstance(r, m.Signal))
        by, name = op.executed_by, word(op, "id") or op.name.removeprefix("stage.")
        deeds = self._deeds(op, rows)
        return Said(WHO[by] if by is not None else Threads.ALL, name, touches, deeds, filled)

    def answered(self, asked: TryWaitOp, at: Operation, who: Who) -> list[Event]:
        """The wait that an answer of yes stands for, at an operation that it leads to."""
        key = (asked.barriers, self.rank)
        item = self._item(asked.barriers, asked.slot, asked.parity, at)
        index = self.index(item)
        if index is None or key not in self.barriers:
            return []
        wait = Wait(key, index, sem_of(asked, Sem.ACQUIRE), scope_of(asked))
        return [Event(word(asked, "id"), who, (), wait, asked)]

    def _comers(self, op: s.StageOp, who: Who, threads: Threads) -> Who:
        """Of the threads that a condition lets through, those that execute an operation of `threads`: each for itself
        where it meets no other; for what one thread does the elected one of a warp, and each of a lane of each warp."""
        if who is Threads.ALL:
            return threads
        alone = op.EACH and (who is not Threads.WARP or threads is Threads.ALL)
        alone |= op.ALONE and isinstance(who, Some)
        alone |= who is Threads.LANE and threads is Threads.ONE and self.warps > 1
        if isinstance(who, Some):
            alone |= self.team.lanes(who)
            if not alone and threads is not Threads.ALL:
                return Threads.SOME
        if alone and isinstance(who, Some) and threads is not Threads.ALL:
            return self.team.one_of(who)
        met = who if alone else both(who, threads)
        return met if met is not None else Threads.SOME

    # Accesses --------------------------------------------------------------------------------------------------------

    def _touch(self, op: Operation, row: m.Touch) -> Touch:
        """An operation's accesses by one of its rows."""
        value: SSAValue | None = getattr(op, row.operand)
        if value is None:
            return _nothing
        if row.space is Space.MAP:
            return lambda ops: maps.accesses(ops, op, row, value, kind_of(op))
        if type(value.type) is TensorType:
            return self._global(op, row, value)
        space, done = row.space, row.done
        buffer, index = value, self._slot_operand(op, row.operand)
        if type(value.type) is AccumulatorType:
            opened = opened_by(value)
            if opened is None:
                return lambda _: [Access(space, "unknown", True)]
            buffer, index = opened.buffer, opened.slot
        if type(buffer.type) is not BufferType:
            return _nothing
        if isinstance(op, ElementOp):
            return self._element(op, row, buffer)
        home = buffer.type.home.data
        if home == Home.REGISTER:
            return self._register(op, row, buffer)
        if done is Done.TCGEN05_COMMIT and home == Home.SHARED and self._in_registers(op):
            done = Done.WGMMA_GROUP
        table = Table(None, (0,)) if buffer.type.depth.data == 1 else None
        if index is not None:
            table = self.values.table(index, op)
        writes, called = row.kind is m.Kind.WRITE, what(op.name.removeprefix("stage."), row.operand)
        fragment, turned, one = self._fragment(op), "transposed" in op.properties, atomic(op)
        part = region = lines = columns = None
        if fragment is not None:
            part = self._part(op, fragment)
            region = self._extent(op, fragment, turned)
            lines = self._extent(op, fragment, not turned)
            columns = self._columns(op, fragment) if space is Space.TENSOR else None
        storage, ring, part = placed(buffer, space, part)

        def made(ops: Operations) -> list[Access]:
            slot, share = ops.slot(table), ops.share(op)
            return [
                Access(
                    space, buffer, writes, slot, row.proxy, done, called, owner, part, region, lines, one, share,
                    operand=row.operand, columns=columns, storage=storage, ring=ring,
                )
                for owner in ops.owners(op, row)
            ]  # fmt: skip

        return made

    def _register(self, op: Operation, row: m.Touch, buffer: SSAValue) -> Touch:
        """An access of an accumulator in registers, which is the role's own."""
        kept = Access(
            row.space, buffer, row.kind is m.Kind.WRITE, Slot(None, (0,)), row.proxy, row.done,
            operand=row.operand, columns=self._columns(op, self._fragment(op)),
        )  # fmt: skip
        name = word(op, "id") or op.name.removeprefix("stage.")

        def made(ops: Operations) -> list[Access]:
            ops.held.append(Event(name, Threads.ALL, (kept,), None, op))
            return []

        return made

    def _element(self, op: ElementOp, row: m.Touch, buffer: SSAValue) -> Touch:
        """An access of one element of a vector in shared memory by each thread; of several, where it copies them."""
        slot, *indices = op.indices_of(row.operand)
        table, area = (
            self.values.table(slot, op),
            self.formulas.area(op, indices, widths(op, len(indices))),
        )
        storage, ring, _ = placed(buffer, Space.SHARED, None)
        return lambda ops: [Access(
            Space.SHARED, buffer, row.kind is m.Kind.WRITE, ops.slot(table), done=row.done, what=kind_of(op),
            owner=ops.rank, atomic=atomic(op), operand=row.operand, area=area, element=True, storage=storage, ring=ring,
        )]  # fmt: skip

    def _global(self, op: Operation, row: m.Touch, array: SSAValue) -> Touch:
        tensor, called = argument_of(array), kind_of(op)
        if not self.write.written(tensor):
            read = Access(
                Space.GLOBAL, tensor, False, None, row.proxy, row.done, called, operand=row.operand
            )  # fmt: skip
            return lambda _: [read]
        element = isinstance(op, ElementOp)
        indices = op.indices_of(row.operand) if element else list(op.coordinates)  # pyright: ignore
        if isinstance(array.owner, ArrayOp | EditedOp):
            indices = [array.owner.index, *indices]
        wide = widths(op, len(indices))
        numbers = [self.write(v) for v in indices]
        counters = {c for n in numbers for c in self.write.counters(n)}
        sure = set(loops_apart(indices, wide))
        area, one = self.formulas.area(op, indices, wide), atomic(op)

        def made(ops: Operations) -> list[Access]:
            part, distinct = ops.box(numbers, counters)
            return [Access(
                Space.GLOBAL, tensor, row.kind is m.Kind.WRITE, None, row.proxy, row.done, called,
                part=part, atomic=one, distinct=distinct, operand=row.operand,
                apart=tuple([x for c, x in ops.loops.items() if len(c) == 1 and c[0] in sure]),
                area=area, element=element,
            )]  # fmt: skip

        return made

    def owners(self, op: Operation, row: m.Touch) -> list[int]:
        """The CTAs whose memory an operation touches by one of its rows, every CTA where it is not known; the own one
        first, so that all CTAs say it alike."""
        return sorted(self._touched(op, row), key=lambda r: r ^ self.rank)

    def _touched(self, op: Operation, row: m.Touch) -> list[int]:
        if row.at:
            known = self.values.constant(getattr(op, row.at))
            return list(range(self.cluster)) if known is None else [known]
        if "pair" in op.properties:
            return [self.rank & ~1, self.rank | 1]
        if {"multicast", "everywhere"} & set(op.properties):
            return s.sharers(op, self.rank, self.cluster)
        return self._masked(op) or [self.rank]

    def share(self, op: Operation) -> int | None:
        """Which part of a slot a copy for several CTAs fills in each of them."""
        if "multicast" not in op.properties:
            return None
        return s.sharers(op, self.rank, self.cluster).index(self.rank)

    def _masked(self, op: Operation) -> list[int]:
        """The CTAs of a mask, none where there is none; every CTA where it is not known."""
        mask = getattr(op, "mask", None)
        if not isinstance(mask, SSAValue):
            return []
        known = self.values.constant(mask)
        bits = (1 << self.cluster) - 1 if known is None else known
        return [r for r in range(self.cluster) if bits >> r & 1]

    def _slot_operand(self, op: Operation, operand: str) -> SSAValue | None:
        for name in (f"{operand}_slot", "slot"):
            found = getattr(op, name, None)
            if isinstance(found, SSAValue):
                return found
        return None

    def _in_registers(self, op: Operation) -> bool:
        """Whether an operation's accumulator is in registers, so that its groups are wgmma's."""
        source = getattr(op, "source", None)
        opened = opened_by(source) if isinstance(source, SSAValue) else None
        return opened is not None and opened.buffer.type.home.data == Home.REGISTER

    def _fragment(self, op: Operation) -> SSAValue | None:
        """The fragment that an operation moves from or to columns of a slot."""
        if not isinstance(getattr(op, "column", None), SSAValue):
            return None
        for name in ("value", "source", "fragment"):
            found = getattr(op, name, None)
            if isinstance(found, SSAValue) and hasattr(found.type, "layout"):
                return found
        return None

    def _part(self, op: Operation, fragment: SSAValue) -> Hashable:
        """What of a slot each thread touches: equal for fragments of the same rows, of which each thread has whole ones
        (in the layout of products: every eighth column), and of other layouts at the same place."""
        layout, shape = fragment.type.layout.data, fragment.type.shape  # pyright: ignore
        if shape[0] == 1 or (layout == FragmentLayout.WGMMA and shape[1] == 1):
            return None  # several threads hold each
        column: SSAValue = op.column  # pyright: ignore
        row, first = self._number(getattr(op, "row", None)), self._number(column)
        if "transposed" in op.properties:
            return ("turned", layout, tuple(shape), row, first)
        whole = layout != FragmentLayout.WGMMA or (isinstance(first, int) and first % 8 == 0)
        return (layout, shape[0], row) if whole else (layout, tuple(shape), row, first)

    def _number(self, value: SSAValue | None) -> Hashable:
        """An integer, or how it is computed."""
        if value is None:
            return 0
        known = self.values.constant(value)
        return known if known is not None else ("value", self.write(value))

    def _extent(self, op: Operation, fragment: SSAValue, rows: bool) -> tuple[int, int] | None:
        """Where the rows or the columns of a fragment lie along the axis of the slot that they are of, where that is a
        constant."""
        first = self._number(getattr(op, "row", None) if rows else op.column)  # pyright: ignore
        if not isinstance(first, int):
            return None
        return first, first + fragment.type.shape[0 if rows else 1]  # pyright: ignore

    def _columns(self, op: Operation, fragment: SSAValue | None) -> Area | None:
        """The columns of a slot of an accumulator that a fragment takes, turn after turn of loops."""
        if fragment is None:
            return None
        return self.formulas.area(op, [op.column], [fragment.type.shape[1]])  # pyright: ignore

    def box(self, numbers: list[int], counters: set[Hashable]) -> tuple[Hashable, tuple[Loop, ...]]:
        """Where in a tensor an operation is, and the loops each turn of which is elsewhere."""
        named = self.write.loops
        turns = tuple(
            [t for o, t in self.values.turn.items() if named.get(o.regions[0].block) in counters]
        )
        loops = tuple([
            loop
            for chain, loop in self.loops.items()
            if len(chain) == 1
            and type(chain[0]) is s.ForOp
            and named.get(chain[0].body.block) in counters
        ])  # fmt: skip
        own = (
            self.group if "group" in counters else None,
            self.rank if "rank" in counters else None,
        )
        return (*numbers, *own, turns), loops

    def slot(self, table: Table | None) -> Slot | None:
        if table is None:
            return None
        if table.loop is None:
            return Slot(None, table.period)
        loop = self.loops.get(table.loop)
        return None if loop is None else Slot(loop, table.period, table.before)

    # Acts ------------------------------------------------------------------------------------------------------------

    def _deeds(self, op: Operation, rows: tuple[m.Effect, ...]) -> list[Deed]:
        """What the operation does beside its touches, in order."""
        signals = any(type(r) is m.Signal for r in rows)
        found: list[Deed] = []
        for row in rows:
            match row:
                case m.Touch(done=done):
                    if done is Done.TCGEN05_WAIT:
                        found.append(_always(AwaitGroup(done)))
                case m.Await(on="", done=done):
                    if done is not Done.NOW and not signals:
                        read = "read" in op.properties
                        found.append(_always(AwaitGroup(done, number(op, "pending"), read)))
                case m.Await(on=on):
                    if type(getattr(op, on).type) is BarriersType:
                        found.append(self._wait(op, getattr(op, on)))
                case m.Signal(barrier=name):
                    barrier = getattr(op, name)
                    if barrier is not None and type(barrier.type) is BarriersType:
                        found.append(self._signal(op, row, barrier, rows))
                case m.Close(done=done):
                    found.append(_always(CloseGroup(done)))
                case m.Meet(among="grid"):
                    found.append(_always(GridWait()))
                case m.Meet(among=among):
                    found.append(_meeting(op, among))
                case m.Order(first=Proxy.GENERIC, then=Proxy.ASYNC, space=Space.SHARED):
                    found.append(_always(proxy_fence(op)))
                case m.Order(then=Proxy.TENSORMAP):
                    found.append(_map_fence(op))
                case m.Order(first=Proxy.TENSOR, then=Proxy.TENSOR):
                    found.append(_always(TensorFence(word(op, "side").startswith("before"))))
                case _:
                    pass
        if self._closes_itself(op, rows):
            found.append(_always(CloseGroup(Done.WGMMA_GROUP)))
        if not found and word(op, "sem") in list(Sem):
            found.append(_always(ThreadFence(sem_of(op, Sem.ACQ_REL), scope_of(op))))
        return found

    def _wait(self, op: Operation, barrier: SSAValue) -> Deed:
        item, sem, scope = self._waited(op, barrier), sem_of(op, Sem.ACQUIRE), scope_of(op)
        return lambda ops: [Wait((barrier, ops.rank), ops.index(item), sem, scope)]

    def _signal(
        self, op: Operation, row: m.Signal, barrier: SSAValue, rows: tuple[m.Effect, ...]
    ) -> Deed:
        """Arrivals, or a copy's bytes, on the barriers of the CTAs that an operation names."""
        item = self._arrived(op, barrier)
        if row.bytes_of:
            size = getattr(op, row.bytes_of).type.copied_bytes
            [filled] = [r for r in rows if isinstance(r, m.Touch) and r.operand == row.bytes_of]

            def completed(ops: Operations) -> list[Act]:
                owners, made = ops.owners(op, filled), list[Act]()
                share = len(owners) if "multicast" in op.properties else 1
                for owner in owners:
                    key = (barrier, ops.of(op, owner))
                    made.append(Complete(key, ops.index_on(key, item), size // share, owner))
                return made

            return completed
        if isinstance(op, CopiesArriveOp):
            counted = op.uncounted is None
            copies = counted or backed(op)
            return lambda ops: [
                Arrive((barrier, ops.rank), ops.index(item), int(counted), copies=copies)
            ]
        tracked = any(isinstance(r, m.Await) and r.done is Done.TCGEN05_COMMIT for r in rows)
        count, announced = number(op, "count", row.arrivals), number(op, "bytes")
        sem, scope, reads = sem_of(op, Sem.RELEASE), scope_of(op), "reads" in op.properties

        def arrived(ops: Operations) -> list[Act]:
            keys = [(barrier, rank) for rank in ops.told(op)]
            return [
                Arrive(key, ops.index_on(key, item), count, announced, tracked, sem, scope, reads)
                for key in keys
            ]

        return arrived

    def told(self, op: Operation) -> list[int | None]:
        """The CTAs on whose barriers an operation arrives, the own one first; None: one that is not known."""
        if word(op, "to") == s.To.ALL:
            found = list(range(self.cluster))
        elif word(op, "to") == s.To.PAIR:
            found = [self.rank, self.rank ^ 1]
        else:
            found = self._masked(op)
        return sorted(found, key=lambda r: r ^ self.rank) or [self.of(op, self.rank)]

    def of(self, op: Operation, own: int) -> int | None:
        """The CTA whose barrier is signalled, where nothing says otherwise that of CTA `own`."""
        if word(op, "to") == s.To.LEADER:
            return own & ~1
        if word(op, "to") == s.To.FIRST:
            return 0
        rank = getattr(op, "rank", None)
        return self.values.constant(rank) if isinstance(rank, SSAValue) else own

    def _closes_itself(self, op: Operation, rows: tuple[m.Effect, ...]) -> bool:
        """A product in registers is a group by itself, unless fences and groups stand round it."""
        tracked = any(isinstance(r, m.Touch) and r.done is Done.TCGEN05_COMMIT for r in rows)
        return tracked and self._in_registers(op) and "alone" not in op.properties


def _nothing(_: Operations) -> list[Access]:
    return []


def _always(act: Act) -> Deed:
    return lambda _: [act]


def _map_fence(op: Operation) -> Deed:
    return lambda ops: [maps.fence(ops, op)]


def _meeting(op: Operation, among: str) -> Deed:
    whole = "whole" in op.properties
    does = word(op, "does", "arrive" if "arrives" in op.properties else "sync")

    def made(ops: Operations) -> list[Act]:
        if whole and ops.role.groups.value.data > 1:
            # All warpgroups run one program, so each place where they meet is a barrier of its own.
            return [Meet("cta", (op, ops.rank), count=ops.role.threads)]
        if among == "cluster":
            return [Meet(among, CLUSTER, relaxed=word(op, "sem") == Sem.RELAXED, does=does)]
        if among == "named":
            place = (number(op, "number"), ops.rank)
            return [Meet("cta", place, count=number(op, "threads"), does=does)]
        return [Meet(among)]

    return made


def restated(event: Event) -> Act | None:
    """What an event does now that its operation may have got another space, scope or order, or awaits reads alone."""
    act = event.act
    if isinstance(act, ProxyFence):
        return proxy_fence(event.op)
    if isinstance(act, AwaitGroup):
        return replace(act, read="read" in event.op.properties)
    if isinstance(act, Wait | Arrive):
        default = Sem.ACQUIRE if isinstance(act, Wait) else Sem.RELEASE
        return replace(act, sem=sem_of(event.op, default), scope=scope_of(event.op))
    return act


def proxy_fence(op: Operation) -> ProxyFence:
    said = word(op, "space")
    where = {"global": Space.GLOBAL, "all": None, "": None}.get(said, Space.SHARED)
    half = ONE_WAY.get(said)
    if half is None:
        return ProxyFence(where, said == "shared::cluster")
    return ProxyFence(where, False, "release" if half.releases else "acquire", half.reads)
