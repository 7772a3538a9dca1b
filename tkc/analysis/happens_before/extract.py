"""Events of a kernel at the stage level, read from the rows that its operations carry.

Roles whose rows several warpgroups split become one role a warpgroup. Slots, phases and counters are followed by
`values`; what is not known stays unknown, so that nothing is ordered by it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import inf

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.happens_before.automaton import both
from tkc.analysis.happens_before.events import (
    Access,
    Act,
    Arrive,
    AwaitGroup,
    Barrier,
    CloseGroup,
    Complete,
    Event,
    Index,
    Loop,
    Meet,
    Program,
    ProxyFence,
    Role,
    Slot,
    TensorFence,
    ThreadFence,
    Threads,
    Wait,
)
from tkc.analysis.happens_before.values import Table, Values, expression
from tkc.ir.effects import effects_of
from tkc.ir.isa import memory as m
from tkc.ir.isa.memory import Done, Proxy, Scope, Sem, Space
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp
from tkc.ir.stage.types import AccumulatorType, BarriersType, BufferType, Home
from tkc.ir.tile.types import TensorType

WHO = {s.By.ONE: Threads.ONE, s.By.LANE: Threads.LANE, s.By.ALL: Threads.ALL}


def program(kernel: s.KernelOp) -> Program:
    """The kernel's events."""
    made = Program(kernel.sym_name.data, [])
    for op in kernel.body.block.ops:
        if isinstance(op, s.BarriersOp):
            made.barriers[op.barriers] = Barrier(
                op.sym_name.data, op.depth.value.data, op.count.value.data, op=op
            )
    for op in kernel.body.block.ops:
        if isinstance(op, s.RoleOp):
            for group in range(op.groups.value.data):
                made.roles.append(RoleEvents(op, group, made.barriers).role())
    return made


def _number(op: Operation, name: str, default: int = 0) -> int:
    found = op.properties.get(name)
    return found.value.data if isinstance(found, IntegerAttr) else default


def _word(op: Operation, name: str, default: str = "") -> str:
    found = op.properties.get(name)
    return found.data if isinstance(found, StringAttr) else default


@dataclass
class RoleEvents:
    """One role, or one warpgroup of it."""

    op: s.RoleOp
    group: int
    barriers: dict[Hashable, Barrier]
    loops: dict[Operation, Loop] = field(default_factory=dict)
    keys: dict[Block, Hashable] = field(default_factory=dict)
    waits: dict[SSAValue, int] = field(default_factory=dict)

    def role(self) -> Role:
        self.values = Values(self.op, self.group)
        groups = self.op.groups.value.data
        name = self.op.sym_name.data + (f"[{self.group}]" if groups > 1 else "")
        body = self._block(self.op.body.block, Threads.ALL, self.op.sym_name.data)
        return Role(name, body, self.op.warps.value.data // groups)

    # Structure -------------------------------------------------------------------------------------------------------

    def _block(self, block: Block, who: Threads, key: Hashable) -> list[Event | Loop]:
        found: list[Event | Loop] = []
        for op in block.ops:
            if isinstance(op, s.ForOp) or op.name == "stage.while":
                found += self._loop(op, who)
            elif isinstance(op, s.IfOp):
                found += self._if(op, who)
            else:
                found += self._events(op, who)
        return found

    def _loop(self, op: Operation, who: Threads) -> list[Event | Loop]:
        loop = Loop(op.name, [], op=op)
        if isinstance(op, s.ForOp):
            loop.name = op.body.block.args[0].name_hint or "for"
            loop.key = ("for", *(expression(v, self.keys) for v in (op.lower, op.upper, op.step)))
            trips = self.values.trips(op)
            if trips is not None:
                loop.low, loop.high = trips, trips
            self.keys[op.body.block] = loop.key
        self.loops[op] = loop
        if isinstance(op, s.ForOp):
            loop.body = self._block(op.body.block, who, loop.key)
        else:
            test = self._block(op.regions[0].block, who, None)
            loop.body = [*test, *self._block(op.regions[1].block, who, None)]
            if any(isinstance(e, Event) for e in test):
                return [loop, *self._block(op.regions[0].block, who, None)]
        return [loop]

    def _if(self, op: s.IfOp, who: Threads) -> list[Event | Loop]:
        threads = self._elected(op.condition)
        if threads is not None:
            inner = both(who, threads) if who is not Threads.ALL else threads
            body = self._block(op.then.block, inner if inner is not None else Threads.SOME, None)
            if op.otherwise is not None and op.otherwise.blocks:
                body += self._block(op.otherwise.block, Threads.SOME, None)
            return body
        found: list[Event | Loop] = []
        for region, taken in ((op.then, True), (op.otherwise, False)):
            if region is None or not region.blocks:
                continue
            loop = Loop("if", [], ("if", taken, expression(op.condition, self.keys)), 0, 1, op=op)
            loop.guard = self._guard(op.condition, op) if taken else None
            if taken:
                self.loops[op] = loop
            loop.body = self._block(region.block, who, None)
            if loop.body:
                found.append(loop)
        return found

    def _elected(self, condition: SSAValue) -> Threads | None:
        """The threads for which a condition on who one is holds."""
        op = condition.owner
        if isinstance(op, s.ElectedOp):
            return WHO[s.By(op.scope.data)]
        if _of_threads(condition):
            return Threads.SOME
        return None

    def _guard(self, condition: SSAValue, op: s.IfOp) -> tuple[str, Loop] | None:
        test = condition.owner
        if not isinstance(test, ArithOp):
            return None
        outer = op.parent_op()
        if test.kind.data in ("ne", "gt", "lt") and isinstance(outer, s.ForOp):
            index, other = test.inputs if test.kind.data != "lt" else (test.inputs[1], test.inputs[0])
            if index is outer.body.block.args[0] and self._equal(other, outer.lower):
                return ("not-first", self.loops[outer])
        before = op.prev_op
        while before is not None and not isinstance(before, s.ForOp):
            before = before.prev_op
        if before is not None and self._nonempty(test, before):
            return ("nonempty", self.loops[before])
        return None

    def _equal(self, a: SSAValue, b: SSAValue) -> bool:
        return a is b or expression(a, self.keys) == expression(b, self.keys)

    def _nonempty(self, test: ArithOp, loop: s.ForOp) -> bool:
        """Whether a condition says that a loop from 0 turns: 0 < n, for its upper bound n or what n counts blocks
        of."""
        if expression(loop.lower, {}) not in (("const", "0 : i32"), ("const", "0 : i64")):
            return False
        kind = test.kind.data
        low, high = test.inputs if kind in ("lt", "ne") else (test.inputs[-1], test.inputs[0])
        if kind not in ("lt", "gt", "ne"):
            return False
        if kind == "ne":
            high, low = test.inputs
        if expression(low, {}) not in (("const", "0 : i32"), ("const", "0 : i64")):
            return False
        upper = loop.upper.owner
        sizes = [loop.upper]
        if isinstance(upper, ArithOp) and upper.kind.data == "cdiv":
            sizes.append(upper.inputs[0])
        return any(self._equal(high, size) for size in sizes)

    # Events ----------------------------------------------------------------------------------------------------------

    def _events(self, op: Operation, who: Threads) -> list[Event]:
        rows = effects_of(op)
        if not rows or not isinstance(op, s.StageOp):
            return []
        by = op.executed_by
        threads = WHO[by] if by is not None else Threads.ALL
        if who is not Threads.ALL:
            met = both(who, threads)
            threads = met if met is not None else Threads.SOME
        accesses = tuple(a for row in rows if isinstance(row, m.Touch) for a in self._access(op, row))
        acts = self._acts(op, rows)
        if not accesses and not acts:
            return []
        name = _word(op, "id") or op.name.removeprefix("stage.")
        first = Event(name, threads, accesses, acts[0] if acts else None, op)
        return [first, *(Event(f"{name}+", threads, (), act, op) for act in acts[1:])]

    def _access(self, op: Operation, row: m.Touch) -> list[Access]:
        value: SSAValue | None = getattr(op, row.operand)
        if value is None:
            return []
        space, done, slot = row.space, row.done, None
        if isinstance(value.type, TensorType):
            return [Access(Space.GLOBAL, value, row.kind is m.Kind.WRITE, None, row.proxy, done, op.name.removeprefix("stage."), part=self._box(op), atomic="add" in op.properties or "reduce" in op.properties)]
        buffer = value
        index = self._slot_operand(op, row.operand)
        if isinstance(value.type, AccumulatorType):
            opened = opened_by(value)
            if opened is None:
                return [Access(space, "unknown", True)]
            buffer, index = opened.buffer, opened.slot
        if not isinstance(buffer.type, BufferType):
            return []
        home = Home(buffer.type.home.data)
        if home is Home.REGISTER:
            return []
        if done is Done.TCGEN05_COMMIT and home is Home.SHARED and self._in_registers(op):
            done = Done.WGMMA_GROUP
        if index is not None:
            table = self._table(index, op)
            slot = self._slot(table)
        elif buffer.type.depth.data == 1:
            slot = Slot(None, (0,))
        what = {"mma": "mma", "read_accumulator": "ld"}.get(op.name.removeprefix("stage."), op.name.removeprefix("stage."))
        return [
            Access(
                space, buffer, row.kind is m.Kind.WRITE, slot, row.proxy, done, what,
                part=self._part(op, row), region=self._region(op, row),
            )
        ]  # fmt: skip

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

    def _part(self, op: Operation, row: m.Touch) -> Hashable:
        """What of a slot each thread touches: equal for the same fragment at the same place."""
        fragment = next((v for v in (getattr(op, "source", None), getattr(op, "value", None)) if isinstance(v, SSAValue)), None)
        column = getattr(op, "column", None)
        if fragment is None or not isinstance(column, SSAValue) or "transposed" in op.properties:
            return None
        at = getattr(op, "row", None)
        return (
            str(getattr(fragment.type, "layout", "")), str(getattr(fragment.type, "dims", "")),
            expression(column, {}), None if at is None else expression(at, {}),
        )  # fmt: skip

    def _region(self, op: Operation, row: m.Touch) -> tuple[int, int] | None:
        """The columns of a slot that a fragment takes, where they are constants and its rows are whole."""
        fragment = next((v for v in (getattr(op, "value", None), getattr(op, "source", None)) if isinstance(v, SSAValue) and hasattr(v.type, "layout")), None)
        column = getattr(op, "column", None)
        if fragment is None or not isinstance(column, SSAValue) or "transposed" in op.properties:
            return None
        table = self._table(column, op)
        if table is None or table.loop is not None:
            return None
        width = fragment.type.shape[1]  # pyright: ignore
        return (table.period[0], table.period[0] + width)

    def _box(self, op: Operation) -> Hashable:
        coordinates = getattr(op, "coordinates", ())
        return tuple(expression(v, self.keys, self.group) for v in coordinates)

    def _table(self, value: SSAValue, op: Operation) -> Table | None:
        return self.values.table(value, op)

    def _slot(self, table: Table | None) -> Slot | None:
        if table is None:
            return None
        return Slot(self.loops[table.loop] if table.loop is not None else None, table.period, table.before)

    # Acts ------------------------------------------------------------------------------------------------------------

    def _acts(self, op: Operation, rows: tuple[m.Effect, ...]) -> list[Act]:
        """What the operation does beside its touches, in order."""
        awaited = [r for r in rows if isinstance(r, m.Await)]
        signals = [r for r in rows if isinstance(r, m.Signal)]
        found: list[Act] = []
        tracked = any(r.done is Done.TCGEN05_COMMIT for r in awaited)
        for row in rows:
            match row:
                case m.Await(on="", done=done) if done is not Done.NOW and not signals:
                    found.append(AwaitGroup(done, _number(op, "pending"), "read" in op.properties))
                case m.Await(on=on) if on:
                    barrier = getattr(op, on)
                    if isinstance(barrier.type, BarriersType):
                        found.append(Wait(barrier, self._waited(op, barrier), _sem(op, Sem.ACQUIRE), _scope(op)))
                case m.Signal(barrier=name) if (barrier := getattr(op, name)) is not None:
                    if not isinstance(barrier.type, BarriersType):
                        continue
                    index = self._arrived(op, barrier)
                    if row.bytes_of:
                        size = getattr(op, row.bytes_of).type.slot_bytes
                        found.append(Complete(barrier, index, size))
                    else:
                        found.append(
                            Arrive(
                                barrier, index, _number(op, "count", row.arrivals), _number(op, "bytes"),
                                tracked, _sem(op, Sem.RELEASE), _scope(op),
                            )
                        )  # fmt: skip
                case m.Close(done=done):
                    found.append(CloseGroup(done))
                case m.Meet(among=among):
                    found.append(Meet(among))
                case m.Order(first=Proxy.GENERIC, then=Proxy.ASYNC, space=Space.SHARED):
                    found.append(self._proxy_fence(op))
                case m.Order(first=Proxy.TENSOR, then=Proxy.TENSOR):
                    found.append(TensorFence(_word(op, "side").startswith("before")))
                case m.Touch(done=Done.TCGEN05_WAIT):
                    found.append(AwaitGroup(Done.TCGEN05_WAIT))
                case _:
                    pass
        if self._closes_itself(op, rows):
            found.append(CloseGroup(Done.WGMMA_GROUP))
        if not found and _word(op, "sem") and any(isinstance(r, m.Order) for r in rows):
            found.append(ThreadFence(_sem(op, Sem.ACQ_REL), _scope(op)))
        return found

    def _closes_itself(self, op: Operation, rows: tuple[m.Effect, ...]) -> bool:
        """A product in registers is a group by itself, unless fences and groups stand round it."""
        tracked = any(isinstance(r, m.Touch) and r.done is Done.TCGEN05_COMMIT for r in rows)
        return tracked and self._in_registers(op) and "alone" not in op.properties

    def _proxy_fence(self, op: Operation) -> ProxyFence:
        space = _word(op, "space")
        where = {"global": Space.GLOBAL, "all": None, "": None}.get(space, Space.SHARED)
        return ProxyFence(where, cluster="cluster" in space or where is None)

    def _entry(self, op: Operation) -> SSAValue | None:
        """The operand that numbers the barrier."""
        for name in ("entry", "slot"):
            found = getattr(op, name, None)
            if isinstance(found, SSAValue):
                return found
        return None

    def _waited(self, op: Operation, barrier: SSAValue) -> Index | None:
        depth = self.barriers[barrier].depth
        entry, parity = self._entry(op), getattr(op, "parity", None)
        if entry is None or parity is None:
            return None
        slots, parities = self._table(entry, op), self._table(parity, op)
        if slots is None or parities is None:
            return None
        found = fit(slots, parities, depth)
        if found is None:
            return None
        loop, rate, offset = found
        return Index(self.loops[loop] if loop is not None else None, offset, rate)

    def _arrived(self, op: Operation, barrier: SSAValue) -> Index | None:
        depth = self.barriers[barrier].depth
        entry = self._entry(op)
        slots = None if entry is None else self._table(entry, op)
        if slots is None:
            return None
        loop = slots.loop
        if loop is None:
            loop = self._alone_in(op)
            if loop is None:
                return Index(None, slots.period[0], 1)
        found = fit(Table(loop, slots.period, slots.before), None, depth)
        if found is None:
            return None
        return Index(self.loops[loop], found[2], found[1])

    def _alone_in(self, op: Operation) -> Operation | None:
        """The loop that numbers the items of a ring of one."""
        at = op.parent_op()
        while at is not None and at not in self.loops:
            at = at.parent_op()
        return at


def _sem(op: Operation, default: Sem) -> Sem:
    word = _word(op, "sem")
    return Sem(word) if word else default


def _scope(op: Operation) -> Scope:
    word = _word(op, "scope")
    return Scope(word) if word in list(Scope) else Scope.CTA


def opened_by(accumulator: SSAValue) -> s.OpenOp | None:
    """The operation that opened an accumulator's slot, back through products, loops and conditions."""
    seen: set[SSAValue] = set()
    value = accumulator
    while value not in seen:
        seen.add(value)
        op = value.owner
        if isinstance(op, s.OpenOp):
            return op
        if isinstance(op, Block):
            loop = op.parent_op()
            assert loop is not None
            if isinstance(loop, s.ForOp):
                value = loop.inits[value.index - 1]  # pyright: ignore
            else:
                value = loop.operands[value.index]  # pyright: ignore
        elif isinstance(op, s.ForOp):
            value = op.inits[op.results.index(value)]
        elif isinstance(op, s.IfOp):
            last = op.then.block.last_op
            assert last is not None
            value = last.operands[op.results.index(value)]
        elif hasattr(op, "source"):
            value = op.source  # pyright: ignore
        elif op.name == "stage.while":
            value = op.operands[op.results.index(value)]
        else:
            return None
    return None


def _of_threads(value: SSAValue) -> bool:
    """Whether a value depends on who the thread is."""
    op = value.owner
    if isinstance(op, s.ElectedOp) or (isinstance(op, Operation) and op.name == "stage.identity"):
        return True
    return isinstance(op, ArithOp) and any(_of_threads(v) for v in op.inputs)


def fit(slots: Table, parities: Table | None, depth: int) -> tuple[Operation | None, int, int] | None:
    """Loop, rate and offset of the items that a row of slots (and parities, of a wait) numbers.

    The item of turn i is rate · i + offset: its slot is that modulo `depth`, and a wait's parity that of its round. A
    wait is for one of the two rounds that its parity may mean: the round under way or the one before (offset < 0).
    """
    loop = slots.loop if slots.loop is not None else (parities.loop if parities is not None else None)
    if parities is not None and parities.loop is not None and slots.loop is not None and parities.loop is not slots.loop:
        return None
    if loop is None:
        if parities is None:
            return None
        slot, parity = slots.period[0], parities.period[0]
        return None, 1, slot if parity == 0 else slot - depth
    first = max(len(slots.before), len(parities.before) if parities else 0)
    turns = range(first, first + 2 * max(depth, len(slots.period), len(parities.period) if parities else 1) + 2)
    low = -depth if parities is not None else 1 - depth
    for rate in range(1, 9):
        for offset in sorted(range(low, depth + rate - 1 if parities is None else depth), key=lambda o: (o > rate - 1, abs(o))):
            if all(
                slots.at(i) == (rate * i + offset) % depth
                and (parities is None or parities.at(i) == (rate * i + offset) // depth % 2)
                for i in turns
            ):
                return loop, rate, offset
    return None


__all__ = ["RoleEvents", "inf", "program"]
