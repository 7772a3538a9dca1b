"""Integers of a role as functions of how often a loop has turned: slots, phases and counters, however they are written.

What a loop carries is followed from its first value until the carried values repeat. A value that depends on data is
not known; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.happens_before.copies import DIVIDES
from tkc.analysis.happens_before.evaluate import Carried, Evaluator
from tkc.analysis.happens_before.straight import Numbers, Straight
from tkc.ir.nest import around
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp

LONGEST = 1024
"""Iterations that are looked at; counters of longer periods are not known."""


@dataclass(frozen=True)
class Table:
    """A value by how often `loop` (a chain of loops) has turned: `before`, then `period` for ever; None: a constant."""

    loop: tuple[Operation, ...] | None
    period: tuple[int, ...]
    before: tuple[int, ...] = ()

    def at(self, count: int) -> int:
        first = len(self.before)
        return (
            self.before[count] if count < first else self.period[(count - first) % len(self.period)]
        )


MOST_TURNS = 8
"""Turns after which a condition has to repeat."""


Chain = tuple[Operation, ...]
"""Loops one after another that count on together: a counter goes from the end of one to the start of the next."""


@dataclass
class Orbit:
    """Counters that a chain of loops carries on: the state in each turn, by the arguments of the chain's first loop.

    `names`: what has the value of such an argument, in the body of which loop of the chain; None: beside the chain.
    """

    chain: Chain
    states: list[dict[SSAValue, int]]
    first: int
    names: dict[tuple[Operation | None, SSAValue], SSAValue]
    rises: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """By how much more than its state says a value is after a repetition: what only grows is looked at modulo a
    number."""


@dataclass
class Counter:
    """One carried value: the chain, its argument in each loop, its first value, and what has its value outside."""

    chain: Chain
    arguments: tuple[SSAValue, ...]
    steps: tuple[SSAValue, ...]
    first: int
    outside: tuple[SSAValue, ...]


@dataclass
class Values(Evaluator):
    """The integers of a role, each with what is known of it over the turns of a loop."""

    orbits: list[Orbit] = field(default_factory=list)
    tables: dict[tuple[SSAValue, Hashable, Hashable], Table | None] = field(default_factory=dict)
    columns: dict[Hashable, tuple[Straight, list[Numbers]]] = field(default_factory=dict)
    """What is written out for tables, by the loop and the turns that are looked at."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.around: dict[Block | None, list[tuple[Orbit, Operation | None]]] = {}
        self.loops = list(self.carried)
        self.wrap = self._wrap()
        chains: dict[Chain, list[Counter]] = {}
        done: set[tuple[Operation, SSAValue]] = set()
        for loop in self.loops:
            for row in self.carried[loop]:
                if row.argument.type in (i1, i32, i64) and (loop, row.argument) not in done:
                    counter = self._counter(loop, row)
                    if counter is not None and counter.chain[0] is loop:
                        done |= set(zip(counter.chain, counter.arguments, strict=True))
                        chains.setdefault(counter.chain, []).append(counter)
        for chain in [*chains, *((loop,) for loop in self.loops if (loop,) not in chains)]:
            orbit = self._orbit(chain, chains.get(chain, []))
            if orbit is not None:
                self.orbits.append(orbit)
        self.orbits.sort(key=lambda o: -_depth(o.chain[0]))
        for orbit in [o for o in self.orbits if isinstance(o.chain[0], s.IfOp)]:
            if len(orbit.chain) == 1 and self._told_by_loop(orbit, orbit.chain[0]):
                self.orbits.remove(orbit)
                self.tables.clear()
                self.around.clear()

    def _told_by_loop(self, orbit: Orbit, condition: Operation) -> bool:
        """Whether the loop round a condition that repeats tells all that the condition counts, and no barrier's items
        are among that: they are counted by the condition's own turns."""
        assert isinstance(condition, s.IfOp)
        table = self.table(condition.condition, condition)
        if table is None or table.loop is None or table.loop != (condition.parent_op(),):
            return False
        if table.before or not 1 < len(table.period) <= MOST_TURNS:
            return False
        told = next(o for o in self.orbits if o.chain == table.loop)
        counted = {v for where, v in orbit.names if where is not None}
        known = {v for _, v in told.names}
        return counted <= known and not any(any(_barriers(v)) for v in counted)

    def has_items_beside(self, chain: Chain) -> bool:
        """Whether a loop of a chain that counts items of rings of one slot has items of other barriers, too, so that
        each loop is better looked at by itself (`ring_parts`)."""
        own = [o for o in self.orbits if o.chain == chain]
        depths = {
            barriers.depth.value.data
            for orbit in own
            for _, v in orbit.names
            for barriers in _barriers(v)
        }
        return depths == {1} and any(
            where in chain and any(_barriers(v))
            for orbit in self.orbits
            if orbit not in own
            for where, v in orbit.names
        )

    def of_copy(self, group: int, rank: int, differ: set[SSAValue]) -> Values:
        """The same of another copy of the role, whose loops carry the same; `differ`: what does not."""
        found = copy(self)
        found.group, found.rank, found.turn, found.turned = group, rank, {}, {}
        found.constants = {
            turns: {v: n for v, n in known.items() if v not in differ}
            for turns, known in self.constants.items()
        }
        found.columns = {}
        found.tables = {k: t for k, t in self.tables.items() if k[0] not in differ}
        return found

    # Loops -----------------------------------------------------------------------------------------------------------

    def _counter(self, loop: Operation, row: Carried) -> Counter | None:
        """A carried value with all that it goes through; None where its value at the kernel's start is not known."""
        chain: list[tuple[Operation, Carried]] = [(loop, row)]
        while (before := self._result_of(chain[0][1].init, loop)) is not None:
            chain.insert(0, before)
        while (after := self._init_of(chain[-1][1].result, loop)) is not None:
            chain.append(after)
        outside = [r.result for _, r in chain]
        first = self._first(chain[0][1].init, chain[-1][1].result, loop, outside)
        if first is None or self._unsigned(first):
            return None
        loops = tuple(o for o, _ in chain)
        return Counter(
            loops,
            tuple(r.argument for _, r in chain),
            tuple(r.step for _, r in chain),
            first,
            tuple(outside),
        )

    def _unsigned(self, first: int) -> bool:
        """Whether a counter begins below zero where counters are divided: `//` and `%` take what has no sign."""
        return first < 0 and self.wrap > 2

    def _round(self, op: Operation) -> Operation | None:
        """The loop or condition round an operation, None where it runs once; not a choice of threads or of a CTA."""
        for parent in around(op):
            if not isinstance(parent, s.IfOp):
                return None if isinstance(parent, s.RoleOp) else parent
            guard = self.guard(parent.condition)
            elected = guard is None or (guard.narrows and not guard.rest)
            if not elected and self.constant(parent.condition) is None:
                return parent
        return None

    def _result_of(self, value: SSAValue, beside: Operation) -> tuple[Operation, Carried] | None:
        """The loop beside another whose result a value is."""
        op = value.owner
        if (
            isinstance(op, Operation)
            and op in self.carried
            and op.parent_block() is beside.parent_block()
        ):
            return next(((op, r) for r in self.carried[op] if r.result is value), None)
        return None

    def _init_of(self, value: SSAValue, beside: Operation) -> tuple[Operation, Carried] | None:
        """The loop beside another that carries a value on."""
        for use in value.uses:
            op: Operation | None = use.operation
            if isinstance(op, s.YieldOp) and isinstance(op.parent_op(), s.IfOp):
                op = op.parent_op()  # a condition passes on what it leaves as it was
            if op in self.carried and op.parent_block() is beside.parent_block():
                return next(((op, r) for r in self.carried[op] if r.init is value), None)
        return None

    def _first(
        self, init: SSAValue, last: SSAValue, loop: Operation, outside: list[SSAValue]
    ) -> int | None:
        """The value at the kernel's start of what loops carry on from where they left off; None: they do not."""
        outer = self._round(loop)
        if outer is None:
            return self.constant(init)
        for row in self.carried.get(outer, ()):
            if row.argument is init and row.step is last:
                outside += (row.argument, row.result)
                return self._first(row.init, row.result, outer, outside)
        return None

    def _wrap(self) -> int:
        """Counters that only grow are looked at modulo this: twice the product of what they are divided by."""
        divisors: set[int] = set()
        for op in self.ops:
            if type(op) is ArithOp and op.kind.data in DIVIDES:
                d = self.constant(op.inputs[1])
                if d is None:
                    continue
                if op.kind.data in ("shr", "and"):
                    d = 1 << min(max(d, 0), 16) if op.kind.data == "shr" else 1 << d.bit_length()
                if 1 < d <= 64:
                    divisors.add(d)
        return 2 * prod(divisors)

    def _induction(self, chain: Chain) -> tuple[SSAValue, int, int, int] | None:
        """Induction variable, first value, step and turns (0: without end), where the count of turns gives it."""
        loop = chain[0]
        if len(chain) > 1 or not isinstance(loop, s.ForOp):
            return None
        lower, step = self.constant(loop.lower), self.constant(loop.step)
        if lower is None or step is None or self._unsigned(lower):
            return None
        turns = self.trips(loop)
        if turns is None and self._round(loop) is not None:
            return None
        return (loop.body.block.args[0], lower, step, turns or 0)

    def _orbit(self, chain: Chain, counters: list[Counter]) -> Orbit | None:
        """Turns a chain until its state repeats, without the counters that cannot be followed."""
        induction = self._induction(chain)
        counters = list(counters)
        while counters or induction is not None:
            found = self._turn(chain, counters, induction)
            if isinstance(found, Orbit):
                return found
            if not found:
                return None
            counters = [c for c in counters if c.arguments[0] not in found]
            if induction is not None and induction[0] in found:
                induction = None
        return None

    def _turn(
        self,
        chain: Chain,
        counters: list[Counter],
        induction: tuple[SSAValue, int, int, int] | None,
    ) -> Orbit | set[SSAValue]:
        """The orbit, or the arguments that have to be left out."""
        growing = {c.arguments[0] for c in counters if self._grows(c)}
        if growing:
            return growing
        names = [c.arguments[0] for c in counters]
        state = [c.first for c in counters]
        if induction is not None:
            names.append(induction[0])
            state.append(induction[1])
        rises = {c.arguments[0]: self.wrap for c in counters if self._by_one(c)}
        if induction is not None and not induction[3]:
            rises[induction[0]] = induction[2] * self.wrap
        after = [self._after_turn(n, counters, names) for n in range(len(chain))]
        uneven = self._uneven(counters, names, rises, after)
        if uneven:
            return uneven
        seen: dict[tuple[int, ...], int] = {}
        states: list[dict[SSAValue, int]] = []
        for turn in range(LONGEST):
            key = tuple(state)
            if key in seen:
                return Orbit(
                    chain, states, seen[key], self._names(chain, counters, induction), rises
                )
            seen[key] = turn
            states.append(dict(zip(names, state, strict=True)))
            ways = [steps(state[: len(own)]) for steps, own in after]
            state = self._next(counters, state, ways)
            lost = {c.arguments[0] for c, n in zip(counters, state, strict=True) if n is None}
            if lost:
                return lost
            if induction is not None:
                _, first, step, turns = induction
                state.append(first + step * ((turn + 1) % (turns or self.wrap)))
        return {v for v in states[0] if len({st[v] for st in states}) > LONGEST // 2} or set(
            states[0]
        )

    def _grows(self, counter: Counter) -> bool:
        """Whether a counter is stepped by a constant and never comes back: it does more than be divided."""
        for argument, step in zip(counter.arguments, counter.steps, strict=True):
            op = step.owner
            if not isinstance(op, ArithOp) or op.kind.data not in ("add", "sub"):
                return False
            by = [self.constant(v) for v in op.inputs if v is not argument]
            if op.inputs[0] is not argument or len(by) != 1 or not by[0]:
                return False
        first = counter.steps[0].owner
        assert isinstance(first, ArithOp)
        return not (first.kind.data == "add" and self.constant(first.inputs[1]) == 1)

    def _by_one(self, counter: Counter) -> bool:
        """Whether each turn adds one."""
        return all(
            isinstance(op := step.owner, ArithOp)
            and op.kind.data == "add"
            and op.inputs[0] is argument
            and self.constant(op.inputs[1]) == 1
            for argument, step in zip(counter.arguments, counter.steps, strict=True)
        )

    def _uneven(
        self,
        counters: list[Counter],
        names: list[SSAValue],
        rises: dict[SSAValue, int],
        after: list[tuple[Straight, list[SSAValue]]],
    ) -> set[SSAValue]:
        """The counters that go on otherwise where what only grows is larger: they cannot be followed."""
        found: set[SSAValue] = set()
        if not rises:
            return found
        given = [rises.get(v, 0) for v in names]
        for steps, own in after:
            risen = steps.risen(given[: len(own)])
            for counter, place in zip(counters, steps.wanted, strict=True):
                if risen[place] != rises.get(counter.arguments[0], 0):
                    found.add(counter.arguments[0])
        return found

    def _after_turn(
        self, number: int, counters: list[Counter], names: list[SSAValue]
    ) -> tuple[Straight, list[SSAValue]]:
        """What a turn of one loop of the chain makes of the counters, and of what."""
        mine = [c.arguments[number] for c in counters]
        own = [*mine, *names[len(mine) :]] if number == 0 else mine
        return Straight(self, [c.steps[number] for c in counters], own), own

    def _next(
        self, counters: list[Counter], state: list[int], ways: list[list[int | None]]
    ) -> list[int | None]:
        """The counters' next values, each of which every loop of the chain has to give alike."""
        made: list[int | None] = []
        for n, counter in enumerate(counters):
            values = {way[n] for way in ways}
            value = values.pop() if len(values) == 1 else None
            if value is not None and value == state[n] + 1 and value >= self.wrap:
                value -= self.wrap if self._by_one(counter) else 0
            made.append(value)
        return made

    def _names(
        self,
        chain: Chain,
        counters: list[Counter],
        induction: tuple[SSAValue, int, int, int] | None,
    ) -> dict[tuple[Operation | None, SSAValue], SSAValue]:
        names: dict[tuple[Operation | None, SSAValue], SSAValue] = {}
        for counter in counters:
            for loop, argument in zip(chain, counter.arguments, strict=True):
                names[loop, argument] = counter.arguments[0]
            for value in counter.outside:
                names[None, value] = counter.arguments[0]
        if induction is not None:
            names[chain[0], induction[0]] = induction[0]
        return names

    # Questions -------------------------------------------------------------------------------------------------------

    def table(self, value: SSAValue, at: Operation) -> Table | None:
        """The value at an operation, as a function of the turns of one loop; None where it is not known."""
        key = (value, at.parent_block(), tuple(self.turn.items()))
        if key not in self.tables:
            self.tables[key] = self._table(value, at)
        return self.tables[key]

    def _table(self, value: SSAValue, at: Operation) -> Table | None:
        known = self.constant(value)
        if known is not None:
            return Table(None, (known,))
        for orbit, inside in self._orbits_round(at):
            if any(loop in self.turn for loop in orbit.chain):
                continue
            straight, rows = self._written(orbit, inside)
            place = straight.place(value)
            numbers: list[int] = []
            for row in rows:
                straight.follow(row)
                number = row[place]
                if number is None:
                    break
                numbers.append(number)
            if len(numbers) == len(rows):
                if orbit.rises:
                    given = [orbit.rises.get(a, 0) for a in self._named(orbit, inside)]
                    if straight.risen(given)[place] != 0:
                        continue
                return _shortest(orbit.chain, numbers, orbit.first)
        return None

    def _named(self, orbit: Orbit, inside: Operation | None) -> list[SSAValue]:
        """What the names that `_written` begins with are of an orbit's state."""
        return [a for (where, _), a in orbit.names.items() if where is inside]

    def _orbits_round(self, at: Operation) -> list[tuple[Orbit, Operation | None]]:
        """The orbits that may tell a value at an operation, each with its loop round that; None: it stands beside."""
        block = at.parent_block()
        found = self.around.get(block)
        if found is None:
            round_it = {*around(at)}
            each = [(o, next((x for x in o.chain if x in round_it), None)) for o in self.orbits]
            each = [(o, x) for o, x in each if x is not None or _beside(at, o.chain[0])]
            found = self.around[block] = sorted(each, key=lambda pair: pair[1] is None)
        return found

    def _written(self, orbit: Orbit, inside: Operation | None) -> tuple[Straight, list[Numbers]]:
        """What is written out of an orbit's values in a loop of it or beside it, with the numbers of each state."""
        key = (orbit.chain, inside, tuple(self.turn.items()))
        if key not in self.columns:
            names = {v: a for (where, v), a in orbit.names.items() if where is inside}
            rows: list[Numbers] = [[state[a] for a in names.values()] for state in orbit.states]
            self.columns[key] = Straight(self, (), list(names)), rows
        return self.columns[key]


def _barriers(value: SSAValue) -> Iterator[s.BarriersOp]:
    """The barriers of which a counter, or what is computed of it, is the slot or the parity."""
    seen: set[SSAValue] = set()
    stack = [value]
    while stack:
        now = stack.pop()
        if now in seen:
            continue
        seen.add(now)
        for use in now.uses:
            op = use.operation
            if isinstance(op, ArithOp):
                stack += op.results
            else:
                yield from (v.owner for v in op.operands if isinstance(v.owner, s.BarriersOp))
    return False


def _depth(op: Operation) -> int:
    return sum(1 for _ in around(op))


def _beside(at: Operation, loop: Operation) -> bool:
    """Whether an operation stands in the block of a loop or, under conditions only, within it."""
    block = loop.parent_block()
    op: Operation | None = at
    while op is not None and op.parent_block() is not block:
        op = op.parent_op()
        if not isinstance(op, s.IfOp):
            return False
    return op is not None


def _shortest(chain: Chain, numbers: list[int], first: int) -> Table:
    """The shortest repetition of a row of numbers that repeats from `first` on."""
    before, period = numbers[:first], numbers[first:]
    for n in range(1, len(period) + 1):
        if len(period) % n == 0 and period == period[:n] * (len(period) // n):
            period = period[:n]
            break
    while before and before[-1] == period[-1]:
        before.pop()
        period = [period[-1], *period[:-1]]
    return Table(chain if len(period) > 1 or before else None, tuple(period), tuple(before))
