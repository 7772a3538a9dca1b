"""Integers of a role as functions of how often a loop has turned: slots, phases and counters, however they are written.

What a loop carries is followed from its first value until the carried values repeat. A value that depends on data is
not known; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import IntegerAttr, i1, i32, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tkc.analysis.guards import guard_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp

FEW = 16
"""Turns of a constant loop that are looked at one by one where its counters go through several loops."""

LONGEST = 1024
"""Iterations that are looked at; counters of longer periods are not known."""

_KINDS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "cdiv": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
    "select": lambda p, a, b: a if p else b,
}


class Unknown(Exception):
    """A value that no constant and no followed counter gives."""


@dataclass(frozen=True)
class Table:
    """A value by how often `loop` (a chain of loops) has turned: `before`, then `period` for ever; None: a constant."""

    loop: tuple[Operation, ...] | None
    period: tuple[int, ...]
    before: tuple[int, ...] = ()

    def at(self, count: int) -> int:
        first = len(self.before)
        return self.before[count] if count < first else self.period[(count - first) % len(self.period)]


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


@dataclass
class Counter:
    """One carried value: the chain, its argument in each loop, its first value, and what has its value outside."""

    chain: Chain
    arguments: tuple[SSAValue, ...]
    steps: tuple[SSAValue, ...]
    first: int
    outside: tuple[SSAValue, ...]


@dataclass
class Values:
    """The integers of one role in CTA `rank` of its unit, in its warpgroup `group`."""

    role: s.RoleOp
    group: int = 0
    rank: int = 0
    orbits: list[Orbit] = field(default_factory=list)
    tables: dict[Hashable, Table | None] = field(default_factory=dict)
    turn: dict[Operation, int] = field(default_factory=dict)
    """Loops of few turns that are looked at turn by turn, and the turn."""

    def __post_init__(self) -> None:
        self.loops = [op for op in self.role.walk() if isinstance(op, s.ForOp) or op.name == "stage.while"]
        self.carried = {loop: _carried(loop) for loop in self.loops}
        self.wrap = self._wrap()
        chains: dict[Chain, list[Counter]] = {}
        done: set[SSAValue] = set()
        for loop in self.loops:
            for row in self.carried[loop]:
                if row.argument.type in (i1, i32, i64) and row.argument not in done:
                    counter = self._counter(loop, row)
                    if counter is not None and counter.chain[0] is loop:
                        done |= set(counter.arguments)
                        chains.setdefault(counter.chain, []).append(counter)
        for chain in [*chains, *((loop,) for loop in self.loops if (loop,) not in chains)]:
            orbit = self._orbit(chain, chains.get(chain, []))
            if orbit is not None:
                self.orbits.append(orbit)

    # Evaluation ------------------------------------------------------------------------------------------------------

    def value(self, value: SSAValue, given: dict[SSAValue, int]) -> int:
        """The integer, from constants and what is given; raises Unknown."""
        if value in given:
            return given[value]
        op = value.owner
        if isinstance(op, ConstOp) and isinstance(op.constant, IntegerAttr):
            return op.constant.value.data
        if isinstance(op, ArithOp):
            if op.kind.data == "select":
                return self.value(op.inputs[1 if self.value(op.inputs[0], given) else 2], given)
            numbers = [self.value(v, given) for v in op.inputs]
            if op.kind.data in ("div", "mod", "cdiv") and numbers[1] == 0:
                raise Unknown
            return _KINDS[op.kind.data](*numbers)
        if isinstance(op, s.GroupOp):
            return self.group
        if isinstance(op, s.UnitOp) and op.which.data == "rank":
            return self.rank
        if isinstance(op, s.ForOp):
            same = next(r for r in self.carried[op] if r.result is value)
            if same.step is same.argument:
                return self.value(same.init, given)
            turns = self.trips(op)
            if turns is None or turns > FEW:
                raise Unknown
            after = self._turned(op, turns, given)
            if same.argument not in after:
                raise Unknown
            return after[same.argument]
        if isinstance(op, Block) and (loop := op.parent_op()) in self.carried:
            same = next((r for r in self.carried[loop] if r.argument is value), None)  # pyright: ignore
            if same is not None and same.step is same.argument:
                return self.value(same.init, given)
        if isinstance(op, Block) and (loop := op.parent_op()) in self.turn:
            assert isinstance(loop, s.ForOp)
            now = self._turned(loop, self.turn[loop], given)
            if value not in now:
                raise Unknown
            return now[value]
        if isinstance(op, s.IfOp):
            taken = self.value(op.condition, given)
            region = op.then if taken else op.otherwise
            if region is None or not region.blocks:
                raise Unknown
            last = region.block.last_op
            assert last is not None
            return self.value(last.operands[op.results.index(value)], given)
        raise Unknown

    def constant(self, value: SSAValue) -> int | None:
        """The value, where it is the same throughout."""
        try:
            return self.value(value, {})
        except Unknown:
            return None

    def _turned(self, loop: s.ForOp, turns: int, given: dict[SSAValue, int]) -> dict[SSAValue, int]:
        """What a loop carries after some turns, as far as it is known, and its induction variable then."""
        now: dict[SSAValue, int] = {}
        rows = self.carried[loop]
        self._try(now, ((r.argument, r.init) for r in rows), given)
        lower, step = self.value(loop.lower, given), self.value(loop.step, given)
        counter = loop.body.block.args[0]
        hidden = self.turn.pop(loop, None)
        for turn in range(turns):
            now[counter] = lower + turn * step
            after: dict[SSAValue, int] = {}
            self._try(after, ((r.argument, r.step) for r in rows), given | now)
            now = after
        if hidden is not None:
            self.turn[loop] = hidden
        now[counter] = lower + turns * step
        return now

    def _try(
        self, found: dict[SSAValue, int], wanted: Iterable[tuple[SSAValue, SSAValue]], given: dict[SSAValue, int]
    ) -> None:
        for name, value in wanted:
            try:
                found[name] = self.value(value, given)
            except Unknown:
                continue

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
        if first is None:
            return None
        loops = tuple(o for o, _ in chain)
        return Counter(loops, tuple(r.argument for _, r in chain), tuple(r.step for _, r in chain), first, tuple(outside))

    def _round(self, op: Operation) -> Operation | None:
        """The loop or condition round an operation, None where it runs once; not a choice of threads or of a CTA."""
        parent = op.parent_op()
        while isinstance(parent, s.IfOp):
            guard = guard_of(parent.condition)
            elected = guard is None or (guard.narrows and not guard.rest)
            if not elected and self.constant(parent.condition) is None:
                return parent
            parent = parent.parent_op()
        return None if isinstance(parent, s.RoleOp) else parent

    def _result_of(self, value: SSAValue, beside: Operation) -> tuple[Operation, Carried] | None:
        """The loop beside another whose result a value is."""
        op = value.owner
        if isinstance(op, Operation) and op in self.carried and op.parent_block() is beside.parent_block():
            return next(((op, r) for r in self.carried[op] if r.result is value), None)
        return None

    def _init_of(self, value: SSAValue, beside: Operation) -> tuple[Operation, Carried] | None:
        """The loop beside another that carries a value on."""
        for use in value.uses:
            op = use.operation
            if op in self.carried and op.parent_block() is beside.parent_block():
                return next(((op, r) for r in self.carried[op] if r.init is value), None)
        return None

    def _first(self, init: SSAValue, last: SSAValue, loop: Operation, outside: list[SSAValue]) -> int | None:
        """The value at the kernel's start of what loops carry on from where they left off; None: they do not."""
        outer = self._round(loop)
        if outer is None:
            try:
                return self.value(init, {})
            except Unknown:
                return None
        for row in self.carried.get(outer, ()):
            if row.argument is init and row.step is last:
                outside += (row.argument, row.result)
                return self._first(row.init, row.result, outer, outside)
        return None

    def trips(self, loop: Operation) -> int | None:
        """How often a loop turns, where that is a constant."""
        if not isinstance(loop, s.ForOp):
            return None
        try:
            lower, upper, step = (self.value(v, {}) for v in (loop.lower, loop.upper, loop.step))
        except Unknown:
            return None
        return max(0, -(-(upper - lower) // step)) if step > 0 else None

    def _wrap(self) -> int:
        """Counters that only grow are looked at modulo this: twice the product of what they are divided by."""
        divisors: set[int] = set()
        for op in self.role.walk():
            if isinstance(op, ArithOp) and op.kind.data in ("div", "mod", "and", "shr"):
                try:
                    d = self.value(op.inputs[1], {})
                except Unknown:
                    continue
                d = 1 << d if op.kind.data == "shr" and 0 <= d < 16 else d + (op.kind.data == "and")
                if 1 < d <= 64:
                    divisors.add(d)
        return 2 * prod(divisors)

    def _induction(self, chain: Chain) -> tuple[SSAValue, int, int, int] | None:
        """Induction variable, first value, step and turns (0: without end), where the count of turns gives it."""
        loop = chain[0]
        if len(chain) > 1 or not isinstance(loop, s.ForOp):
            return None
        try:
            lower, step = self.value(loop.lower, {}), self.value(loop.step, {})
        except Unknown:
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
        self, chain: Chain, counters: list[Counter], induction: tuple[SSAValue, int, int, int] | None
    ) -> Orbit | set[SSAValue]:
        """The orbit, or the arguments that have to be left out."""
        state = {c.arguments[0]: c.first for c in counters}
        if induction is not None:
            state[induction[0]] = induction[1]
        seen: dict[tuple[int, ...], int] = {}
        states: list[dict[SSAValue, int]] = []
        for turn in range(LONGEST):
            key = tuple(state.values())
            if key in seen:
                return Orbit(chain, states, seen[key], self._names(chain, counters, induction))
            seen[key] = turn
            states.append(state)
            after: dict[SSAValue, int] = {}
            lost: set[SSAValue] = set()
            for counter in counters:
                value = self._next(chain, counters, counter, state)
                if value is None:
                    lost.add(counter.arguments[0])
                else:
                    after[counter.arguments[0]] = value
            if lost:
                return lost
            if induction is not None:
                argument, first, step, turns = induction
                count = (turn + 1) % (turns or self.wrap)
                after[argument] = first + step * count
            state = after
        return {v for v in states[0] if len({st[v] for st in states}) > LONGEST // 2} or set(states[0])

    def _next(self, chain: Chain, counters: list[Counter], counter: Counter, state: dict[SSAValue, int]) -> int | None:
        """A counter's next value, which every loop of the chain has to give alike."""
        values: set[int] = set()
        for n, step in enumerate(counter.steps):
            given = {c.arguments[n]: state[c.arguments[0]] for c in counters}
            if n == 0:
                given |= {a: v for a, v in state.items() if a not in given}
            try:
                values.add(self.value(step, given))
            except Unknown:
                return None
        if len(values) != 1:
            return None
        value, argument = values.pop(), counter.arguments[0]
        grown = value == state[argument] + 1 and value >= self.wrap
        if grown and all(_only_divided(a, s) for a, s in zip(counter.arguments, counter.steps, strict=True)):
            return value - self.wrap
        return value

    def _names(
        self, chain: Chain, counters: list[Counter], induction: tuple[SSAValue, int, int, int] | None
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
        try:
            return Table(None, (self.value(value, {}),))
        except Unknown:
            pass
        for orbit in self.orbits:
            inside = next((loop for loop in orbit.chain if _inside(at, loop)), None)
            if inside is None and not _beside(at, orbit.chain[0]):
                continue
            names = [(v, a) for (where, v), a in orbit.names.items() if where is inside]
            try:
                numbers = [self.value(value, {v: state[a] for v, a in names}) for state in orbit.states]
            except Unknown:
                continue
            return _shortest(orbit.chain, numbers, orbit.first)
        return None


@dataclass(frozen=True)
class Carried:
    """One value that a loop carries."""

    argument: SSAValue
    init: SSAValue
    step: SSAValue
    result: SSAValue


def _carried(loop: Operation) -> list[Carried]:
    if isinstance(loop, s.ForOp):
        body, inits, skip = loop.body.block, list(loop.inits), 1
    else:
        body, inits, skip = loop.regions[1].block, list(loop.operands), 0
    last = body.last_op
    steps = list(last.operands) if last is not None else []
    return [
        Carried(*row)
        for row in zip(list(body.args)[skip:], inits, steps, loop.results, strict=False)
    ]


def _beside(at: Operation, loop: Operation) -> bool:
    """Whether an operation stands in the block of a loop or, under conditions only, within it."""
    block = loop.parent_block()
    op: Operation | None = at
    while op is not None and op.parent_block() is not block:
        op = op.parent_op()
        if not isinstance(op, s.IfOp):
            return False
    return op is not None


def _only_divided(value: SSAValue, step: SSAValue) -> bool:
    """Whether a growing counter is only counted on, handed on and divided."""
    for v in (value, step):
        for use in v.uses:
            op = use.operation
            if isinstance(op, s.YieldOp | s.ForOp) or op.name == "stage.while":
                continue
            if not isinstance(op, ArithOp) or op.kind.data not in ("add", "div", "mod", "and", "shr"):
                return False
    return True


def _inside(op: Operation, loop: Operation) -> bool:
    at: Operation | None = op.parent_op()
    while at is not None:
        if at is loop:
            return True
        at = at.parent_op()
    return False


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


# Expressions ---------------------------------------------------------------------------------------------------------


class Expressions:
    """Values written out and numbered: equal numbers are equal computations, also in different roles.

    `loops` names loops by their bounds, so that their counters are equal, too.
    """

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.known: dict[SSAValue, int] = {}
        self.loops: dict[Block, Hashable] = {}
        self.parts: dict[int, frozenset[Hashable]] = {}

    def __call__(self, value: SSAValue) -> int:
        key = value
        if key not in self.known:
            written, uses = self._write(value)
            number = self.numbers.setdefault(written, len(self.numbers))
            self.known[key] = number
            self.parts[number] = uses
        return self.known[key]

    def counters(self, number: int) -> frozenset[Hashable]:
        """The loops whose counters an expression has, and `group` and `rank` where it has these."""
        return self.parts[number]

    def _write(self, value: SSAValue) -> tuple[Hashable, frozenset[Hashable]]:
        op = value.owner
        if isinstance(op, Block):
            if op in self.loops and isinstance(value, BlockArgument) and value.index == 0:
                return ("index", self.loops[op]), frozenset({self.loops[op]})
            return ("opaque", id(value)), frozenset()
        if isinstance(op, ArithOp):
            inputs = [self(v) for v in op.inputs]
            return (op.kind.data, *inputs), frozenset().union(*(self.parts[i] for i in inputs))
        if isinstance(op, ConstOp):
            return ("const", str(op.constant)), frozenset()
        if isinstance(op, SizeOp):
            return ("size", op.symbol.data), frozenset()
        if isinstance(op, s.UnitOp):
            return ("unit", op.which.data), frozenset({"rank"} if op.which.data == "rank" else ())
        if isinstance(op, s.GroupOp):
            return ("group",), frozenset({"group"})
        return ("opaque", id(value)), frozenset()
