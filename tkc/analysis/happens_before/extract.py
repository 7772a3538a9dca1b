"""Events of a kernel at the stage level, read from the rows that its operations carry.

Roles whose rows several warpgroups split become one role a warpgroup. Slots, phases and counters are followed by
`values`; what is not known stays unknown, so that nothing is ordered by it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.guards import Guard, guard_of
from tkc.analysis.happens_before.automaton import both
from tkc.analysis.happens_before.events import (
    Access,
    Act,
    Arrive,
    AwaitGroup,
    Barrier,
    Beside,
    Choice,
    CloseGroup,
    Complete,
    Event,
    Index,
    Item,
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
from tkc.analysis.happens_before.values import FEW, Expressions, Table, Values
from tkc.ir.effects import effects_of
from tkc.ir.isa import memory as m
from tkc.ir.isa.memory import Done, Proxy, Scope, Sem, Space
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp
from tkc.ir.stage.types import AccumulatorType, BarriersType, BufferType, Home
from tkc.ir.tile.types import TensorType

_CONTRARY = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}

WHO = {s.By.ONE: Threads.ONE, s.By.LANE: Threads.LANE, s.By.ALL: Threads.ALL}


def program(kernel: s.KernelOp) -> Program:
    """The kernel's events."""
    made = Program(kernel.sym_name.data, [])
    expressions = Expressions()
    for op in kernel.body.block.ops:
        if isinstance(op, s.BarriersOp):
            made.barriers[op.barriers] = Barrier(
                op.sym_name.data, op.depth.value.data, op.count.value.data, op=op
            )
    for op in kernel.body.block.ops:
        if isinstance(op, s.RoleOp):
            for group in range(op.groups.value.data):
                made.roles.append(RoleEvents(op, group, made.barriers, expressions).role())
    number_meetings(made)
    return made


def number_meetings(made: Program) -> None:
    """Numbers how often each role has met the others at each named barrier; one of a single role is that role's."""
    sites: dict[Hashable, dict[Role, list[tuple[Event, Loop | None]]]] = {}
    for role in made.roles:
        for event, loop in _placed(role.body, None):
            if isinstance(event.act, Meet) and event.act.barrier is not None:
                sites.setdefault(event.act.barrier, {}).setdefault(role, []).append((event, loop))
    for roles in sites.values():
        for role, mine in roles.items():
            loops = {loop for _, loop in mine}
            for number, (event, loop) in enumerate(mine):
                assert isinstance(event.act, Meet)
                if len(roles) == 1 and event.act.count == 32 * role.warps:
                    event.act = Meet("role")
                elif len(loops) == 1:
                    rate = 1 if loop is None else len(mine)
                    event.act = replace(event.act, index=Index(loop, number, rate))


def _placed(body: list[Item], loop: Loop | None) -> Iterator[tuple[Event, Loop | None]]:
    """Events with the loop that they stand in; None: in none, or not in each of its turns."""
    for item in body:
        if isinstance(item, Event):
            yield item, loop
        elif isinstance(item, Loop):
            yield from _placed(item.body, item)
        elif isinstance(item, Choice):
            for branch in item.branches:
                yield from _placed(branch.body, branch)
        else:
            yield from _placed([*item.one, *item.other], loop)


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
    write: Expressions
    loops: dict[tuple[Operation, ...], Loop] = field(default_factory=dict)

    def role(self) -> Role:
        self.values = Values(self.op, self.group)
        groups = self.op.groups.value.data
        name = self.op.sym_name.data + (f"[{self.group}]" if groups > 1 else "")
        body = self._block(self.op.body.block, Threads.ALL)
        return Role(name, body, self.op.warps.value.data // groups, copy=self.group, copies=groups)

    # Structure -------------------------------------------------------------------------------------------------------

    def _block(self, block: Block, who: Threads) -> list[Item]:
        found: list[Item] = []
        chains = {orbit.chain[0]: orbit.chain for orbit in self.values.orbits if len(orbit.chain) > 1}
        within: set[Operation] = set()
        for op in block.ops:
            if op in within:
                continue
            if op in chains and self._alone(chains[op]):
                whole, between = self._chain(chains[op], who)
                found.append(Beside([whole], between) if between else whole)
                within |= set(chains[op])
                within |= _between(chains[op])
            else:
                found += self._one(op, who)
        return found

    def _one(self, op: Operation, who: Threads) -> list[Item]:
        if isinstance(op, s.ForOp) and self._few(op):
            return self._turn_by_turn(op, who)
        if isinstance(op, s.ForOp) or op.name == "stage.while":
            return self._loop(op, who)
        if isinstance(op, s.IfOp):
            return self._if(op, who)
        return [*self._events(op, who)]

    def _few(self, op: s.ForOp) -> bool:
        """Whether a loop has few turns and its counters go on in others that something stands between."""
        turns = self.values.trips(op)
        if turns is None or turns > FEW:
            return False
        return any(len(o.chain) > 1 and op in o.chain and not self._alone(o.chain) for o in self.values.orbits)

    def _turn_by_turn(self, op: s.ForOp, who: Threads) -> list[Item]:
        found: list[Item] = []
        self._named(op)
        for turn in range(self.values.trips(op) or 0):
            self.values.turn[op] = turn
            found += self._block(op.body.block, who)
        self.values.turn.pop(op, None)
        return found

    def _alone(self, chain: tuple[Operation, ...]) -> bool:
        """Whether nothing synchronises between the loops of a chain."""
        return not any(
            isinstance(row, m.Await | m.Signal | m.Order | m.Close | m.Meet)
            for op in _between(chain)
            for inner in op.walk()
            for row in effects_of(inner) or ()
        )

    def _chain(self, chain: tuple[Operation, ...], who: Threads) -> tuple[Loop, list[Item]]:
        """Loops that count on together, as one whose turns are turns of one of them; and what stands between."""
        whole = Loop("+".join(_name(op) for op in chain), [])
        self.loops[chain] = whole
        branches: list[Loop] = []
        for number, op in enumerate(chain):
            inner = self._named(op)
            whole.low, whole.high = whole.low + inner.low, whole.high + inner.high if number else inner.high
            branch = Loop(inner.name, [], ("turn", number, inner.key), 0, 1, op=op)
            self.loops[(op,)] = branch
            branch.body = self._block(op.body.block if isinstance(op, s.ForOp) else op.regions[1].block, who)
            branches.append(branch)
        whole.key = ("chain", *(b.key for b in branches))
        whole.body = [Choice(branches)]
        return whole, [e for op in chain[0].parent_block().ops if op in _between(chain) for e in self._one(op, who)]  # pyright: ignore

    def _named(self, op: Operation) -> Loop:
        """An empty loop with what is known of its turns."""
        loop = Loop(_name(op), [], op=op)
        if isinstance(op, s.ForOp):
            loop.key = ("for", *(self.write(v, self.group) for v in (op.lower, op.upper, op.step)))
            self.write.loops[op.body.block] = loop.key
            trips = self.values.trips(op)
            if trips is not None:
                loop.low, loop.high = trips, trips
        return loop

    def _loop(self, op: Operation, who: Threads) -> list[Item]:
        loop = self._named(op)
        self.loops[(op,)] = loop
        if isinstance(op, s.ForOp):
            loop.body = self._block(op.body.block, who)
            return [loop]
        test = self._block(op.regions[0].block, who)
        loop.body = [*test, *self._block(op.regions[1].block, who)]
        return [loop, *(self._block(op.regions[0].block, who) if test else ())]

    def _if(self, op: s.IfOp, who: Threads) -> list[Item]:
        regions = [(r, n == 0) for n, r in enumerate((op.then, op.otherwise)) if r is not None and r.blocks]
        guard = guard_of(op.condition)
        if guard is None or guard.narrows:
            inner = both(who, _let_through(guard))
            body = self._block(op.then.block, Threads.SOME if inner is None else inner)
            for region, taken in regions:
                body += [] if taken else self._block(region.block, Threads.SOME)
            if guard is not None and guard.rest and body:
                key = ("if", *(self.write(c, self.group) for c in guard.rest))
                return [Loop("if", body, key, 0, 1, op=op)]
            return body
        branches: list[Loop] = []
        for region, taken in regions:
            branch = Loop("if", [], ("if", taken, self.write(op.condition, self.group)), 0, 1, op=op)
            branch.guard = self._guard(op.condition, op) if taken else None
            if taken:
                self.loops[(op,)] = branch
            branch.body = self._block(region.block, who)
            branches.append(branch)
        if not any(b.body for b in branches):
            return []
        return [Choice(branches)] if len(branches) > 1 else [branches[0]]

    def _guard(self, condition: SSAValue, op: s.IfOp) -> tuple[str, Loop] | None:
        condition, holds = self._plain(condition)
        test = condition.owner
        if not isinstance(test, ArithOp):
            return None
        kind = test.kind.data if holds else _CONTRARY.get(test.kind.data, "")
        outer = op.parent_op()
        if isinstance(outer, s.ForOp):
            counter = outer.body.block.args[0]
            for (a, b), later in ((test.inputs, ("ne", "gt")), (reversed(test.inputs), ("ne", "lt"))):
                if a is counter and self._equal(b, outer.lower) and kind in later:
                    return ("not-first", self.loops[(outer,)])
        before = op.prev_op
        while before is not None and not isinstance(before, s.ForOp):
            before = before.prev_op
        if before is not None and (before,) in self.loops and self._nonempty(test, kind, before):
            return ("nonempty", self.loops[(before,)])
        return None

    def _plain(self, condition: SSAValue) -> tuple[SSAValue, bool]:
        """A condition without negations, and whether it has to hold."""
        holds = True
        while isinstance(op := condition.owner, ArithOp) and op.kind.data == "xor":
            for side, other in (op.inputs, reversed(op.inputs)):
                table = self._table(side, op)
                if table is not None and table.loop is None:
                    holds ^= bool(table.period[0])
                    condition = other
                    break
            else:
                break
        return condition, holds

    def _equal(self, a: SSAValue, b: SSAValue) -> bool:
        return a is b or self.write(a, self.group) == self.write(b, self.group)

    def _nonempty(self, test: ArithOp, kind: str, loop: s.ForOp) -> bool:
        """Whether a condition says that a loop from 0 turns: 0 < n, for its upper bound n or what n counts blocks
        of."""
        if not self.write.zero(loop.lower) or kind not in ("lt", "gt", "ne"):
            return False
        low, high = (test.inputs[0], test.inputs[1]) if kind == "lt" else (test.inputs[1], test.inputs[0])
        if not self.write.zero(low):
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
        if who is not Threads.ALL:  # a thread that a condition lets through acts for itself where it meets no other
            met = who if op.EACH else both(who, threads)
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
            part, distinct = self._box(op)
            atomic = "add" in op.properties or "reduce" in op.properties
            return [
                Access(
                    Space.GLOBAL, value, row.kind is m.Kind.WRITE, None, row.proxy, done,
                    op.name.removeprefix("stage."), part=part, atomic=atomic, distinct=distinct,
                )
            ]  # fmt: skip
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
            self.write(column, self.group), None if at is None else self.write(at, self.group),
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

    def _box(self, op: Operation) -> tuple[Hashable, tuple[Loop, ...]]:
        """Where in a tensor an operation is, and the loops each turn of which is elsewhere."""
        numbers = [self.write(v, self.group) for v in getattr(op, "coordinates", ())]
        counters = {c for n in numbers for c in self.write.counters(n)}
        turns = tuple(t for o, t in self.values.turn.items() if self.write.loops.get(o.regions[0].block) in counters)
        loops = tuple(
            loop for chain, loop in self.loops.items()
            if len(chain) == 1 and isinstance(chain[0], s.ForOp) and self.write.loops.get(chain[0].body.block) in counters
        )  # fmt: skip
        return (*numbers, turns), loops

    def _table(self, value: SSAValue, op: Operation) -> Table | None:
        return self.values.table(value, op)

    def _slot(self, table: Table | None) -> Slot | None:
        if table is None:
            return None
        if table.loop is None:
            return Slot(None, table.period)
        loop = self.loops.get(table.loop)
        return None if loop is None else Slot(loop, table.period, table.before)

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
                case m.Meet(among="named"):
                    found.append(Meet("cta", ("barrier", _number(op, "number")), count=_number(op, "threads")))
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
        return self._index(loop, offset, rate)

    def _arrived(self, op: Operation, barrier: SSAValue) -> Index | None:
        depth = self.barriers[barrier].depth
        entry = self._entry(op)
        slots = None if entry is None else self._table(entry, op)
        if slots is None:
            return None
        if slots.loop is None and depth > 1:
            return Index(None, slots.period[0]) if _outside(op) else None
        loop = slots.loop or self._turns(barrier, op)
        if loop is None:
            return Index(None, slots.period[0]) if _outside(op) else None
        found = fit(Table(loop, slots.period, slots.before), None, depth, self._late(op, loop))
        return None if found is None else self._index(found[0], found[2], found[1])

    def _late(self, op: Operation, loop: tuple[Operation, ...]) -> int:
        """Whether an arrival may be for an earlier item: under a condition on anything but who the thread is (1), and
        surely where that leaves out a loop's first turn or follows the loop (2)."""
        at, late = op.parent_op(), 0
        while isinstance(at, s.IfOp):
            guard = guard_of(at.condition)
            if guard is not None and (guard.rest or not guard.narrows):
                known = self._guard(at.condition, at)
                late = 2 if known is not None and known[0] == "not-first" else max(late, 1)
            at = at.parent_op()
        return late if any(_inside(op, o) for o in loop) else 2

    def _turns(self, barrier: SSAValue, op: Operation) -> tuple[Operation, ...] | None:
        """The loop that numbers the items of a ring of one: that of this role's waits, else the one round."""
        for use in barrier.uses:
            parity = getattr(use.operation, "parity", None)
            if parity is not None and _inside(use.operation, self.op):
                table = self._table(parity, use.operation)
                if table is not None and table.loop is not None:
                    return table.loop
        at = op.parent_op()
        while at is not None and not isinstance(at, s.RoleOp):
            for chain in self.loops:
                if at in chain and not isinstance(at, s.IfOp):
                    return chain if len(chain) > 1 else next((c for c in self.loops if at in c and len(c) > 1), chain)
            at = at.parent_op()
        return None

    def _index(self, loop: tuple[Operation, ...] | None, offset: int, rate: int) -> Index | None:
        if loop is None:
            return Index(None, offset, rate)
        known = self.loops.get(loop)
        return None if known is None else Index(known, offset, rate)


def _offsets(rate: int, depth: int, wait: bool, late: int) -> list[int]:
    """Offsets that an item may have, likeliest first; `late`: 1 under a condition, 2 where the item is an earlier one."""
    if wait:
        return sorted(range(-depth, depth), key=lambda o: (abs(o), o))
    earlier = {0: range(0), 1: range(0, -depth, -1), 2: range(-1, -depth - 1, -1)}[late]
    return [*earlier, *range(depth + rate - 1)]


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


def _between(chain: tuple[Operation, ...]) -> set[Operation]:
    """What stands between the loops of a chain."""
    found: set[Operation] = set()
    op = chain[0].next_op
    while op is not None and op is not chain[-1]:
        if op not in chain:
            found.add(op)
        op = op.next_op
    return found


def _name(op: Operation) -> str:
    hint = op.body.block.args[0].name_hint if isinstance(op, s.ForOp) else "while"
    return hint or "for"


def _outside(op: Operation) -> bool:
    """Whether an operation stands in no loop."""
    at = op.parent_op()
    while isinstance(at, s.IfOp):
        at = at.parent_op()
    return isinstance(at, s.RoleOp)


def _inside(op: Operation, role: Operation) -> bool:
    at: Operation | None = op
    while at is not None and at is not role:
        at = at.parent_op()
    return at is role


def _let_through(guard: Guard | None) -> Threads:
    """The threads of a role for which a condition on who one is holds; those of a later warp are not told apart."""
    if guard is None or guard.warp not in (None, 0):
        return Threads.SOME
    if not guard.lane:
        return Threads.WARP
    return Threads.ONE if guard.warp == 0 or guard.elected == s.By.ONE else Threads.LANE


def fit(
    slots: Table, parities: Table | None, depth: int, late: int = 0
) -> tuple[tuple[Operation, ...] | None, int, int] | None:
    """Loop, rate and offset of the items that a row of slots (and parities, of a wait) numbers.

    The item of turn i is rate · i + offset: its slot is that modulo `depth`, and a wait's parity that of its round. A
    wait is for one of the two rounds that its parity may mean: the round under way or the one before (offset < 0). An
    arrival under a condition may be for an earlier item (`late`, as in `_offsets`), no other.
    """
    loop = slots.loop if slots.loop is not None else (parities.loop if parities is not None else None)
    if parities is not None and parities.loop is not None and slots.loop is not None and parities.loop != slots.loop:
        return None
    if loop is None:
        if parities is None:
            return None
        slot, parity = slots.period[0], parities.period[0]
        return None, 1, slot if parity == 0 else slot - depth
    first = max(len(slots.before), len(parities.before) if parities else 0)
    turns = range(first, first + 2 * max(depth, len(slots.period), len(parities.period) if parities else 1) + 2)
    for rate in range(1, 9):
        for offset in _offsets(rate, depth, parities is not None, late):
            if all(
                slots.at(i) == (rate * i + offset) % depth
                and (parities is None or parities.at(i) == (rate * i + offset) // depth % 2)
                for i in turns
            ):
                return loop, rate, offset
    return None


