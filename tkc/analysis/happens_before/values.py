"""Integers of a role as functions of how often a loop has turned: slots, phases and counters, however they are written.

What a loop carries is followed from its first value until the carried values repeat. A value that depends on data is
not known; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import IntegerAttr, i1, i32, i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp

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
    """A value by how often `loop` has turned: `before`, then `period` for ever; loop None: a constant."""

    loop: Operation | None
    period: tuple[int, ...]
    before: tuple[int, ...] = ()

    def at(self, count: int) -> int:
        first = len(self.before)
        return self.before[count] if count < first else self.period[(count - first) % len(self.period)]


@dataclass
class Orbit:
    """The carried values of a loop that are followed: for each iteration, a value for each argument."""

    loop: Operation
    states: list[dict[SSAValue, int]]
    first: int
    outside: dict[SSAValue, SSAValue]
    """Results of the loop, and arguments of loops round it, by the argument whose value they have."""


@dataclass
class Values:
    """The integers of one role copy; `group` is the number of its warpgroup."""

    role: s.RoleOp
    group: int = 0
    orbits: dict[Operation, Orbit] = field(default_factory=dict)
    known: dict[tuple[SSAValue, Operation | None], Table | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op in self.role.walk():
            if isinstance(op, s.ForOp | s.IfOp) or op.name == "stage.while":
                orbit = self._orbit(op)
                if orbit is not None:
                    self.orbits[op] = orbit

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
        if isinstance(op, s.IfOp):
            taken = self.value(op.condition, given)
            region = op.then if taken else op.otherwise
            if region is None or not region.blocks:
                raise Unknown
            last = region.block.last_op
            assert last is not None
            return self.value(last.operands[op.results.index(value)], given)
        raise Unknown

    # Loops -----------------------------------------------------------------------------------------------------------

    def _carried(self, loop: Operation) -> list[tuple[SSAValue, SSAValue, SSAValue, SSAValue]]:
        """Argument, first value, next value and result of each value that a loop carries."""
        if isinstance(loop, s.ForOp):
            body, skip = loop.body.block, 1
            inits = list(loop.inits)
            arguments = list(body.args)[skip:]
        elif loop.name == "stage.while":
            body = loop.regions[1].block
            inits = list(loop.operands)
            arguments = list(body.args)
        else:
            return []
        last = body.last_op
        yields = list(last.operands) if last is not None else []
        return list(zip(arguments, inits, yields, loop.results, strict=False))

    def _orbit(self, loop: Operation) -> Orbit | None:
        rows = [r for r in self._carried(loop) if r[0].type in (i1, i32, i64)]
        state: dict[SSAValue, int] = {}
        outside: dict[SSAValue, SSAValue] = {}
        steps: dict[SSAValue, SSAValue] = {}
        for argument, init, step, result in rows:
            names = {result: argument}
            first = self._first(init, result, loop, names, argument)
            if first is not None:
                state[argument] = first
                steps[argument] = step
                outside |= names
        counter = self._counter(loop)
        if counter is not None:
            state[counter[0]] = counter[1]
        if not state:
            return None
        return self._run(loop, state, steps, counter, outside)

    def _first(
        self, init: SSAValue, result: SSAValue, loop: Operation, names: dict[SSAValue, SSAValue], argument: SSAValue
    ) -> int | None:
        """The value at the kernel's start of what a loop carries on from where it left off; None: it does not."""
        try:
            given = self.value(init, {})
        except Unknown:
            pass
        else:
            return given if self._outermost(loop) or given is None else None
        if not isinstance(init, BlockArgument):
            return None
        outer = init.block.parent_op()
        if outer is None or outer is not self._round(loop):
            return None
        for inner, first, step, after in self._carried(outer):
            if inner is init and step is result:
                names[inner] = argument
                names[after] = argument
                return self._first(first, after, outer, names, argument)
        return None

    def _round(self, op: Operation) -> Operation | None:
        parent = op.parent_op()
        return None if isinstance(parent, s.RoleOp) else parent

    def _outermost(self, loop: Operation) -> bool:
        return self._round(loop) is None

    def _counter(self, loop: Operation) -> tuple[SSAValue, int, int, int] | None:
        """Induction variable, first value, step and how many turns, where the turns since the kernel's start give it."""
        if not isinstance(loop, s.ForOp):
            return None
        try:
            lower, step = self.value(loop.lower, {}), self.value(loop.step, {})
        except Unknown:
            return None
        turns = self.trips(loop)
        if turns is None:
            return (loop.body.block.args[0], lower, step, 0) if self._outermost(loop) else None
        return (loop.body.block.args[0], lower, step, turns) if turns else None

    def trips(self, loop: Operation) -> int | None:
        """How often a loop turns, where that is a constant."""
        if not isinstance(loop, s.ForOp):
            return None
        try:
            lower, upper, step = (self.value(v, {}) for v in (loop.lower, loop.upper, loop.step))
        except Unknown:
            return None
        return max(0, -(-(upper - lower) // step)) if step > 0 else None

    def _wrap(self, loop: Operation) -> int:
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

    def _run(
        self,
        loop: Operation,
        state: dict[SSAValue, int],
        steps: dict[SSAValue, SSAValue],
        counter: tuple[SSAValue, int, int, int] | None,
        outside: dict[SSAValue, SSAValue],
    ) -> Orbit | None:
        """Turns the loop until its state repeats, without the values that cannot be followed."""
        wrap = self._wrap(loop)
        while state:
            seen: dict[tuple[int, ...], int] = {}
            states: list[dict[SSAValue, int]] = []
            now = dict(state)
            lost: set[SSAValue] = set()
            for turn in range(LONGEST):
                key = tuple(now.values())
                if key in seen:
                    return Orbit(loop, states, seen[key], outside)
                seen[key] = turn
                states.append(now)
                after: dict[SSAValue, int] = {}
                for value in now:
                    if counter is not None and value is counter[0]:
                        after[value] = _turned(counter, turn + 1, wrap)
                        continue
                    try:
                        after[value] = self.value(steps[value], now)
                    except Unknown:
                        lost.add(value)
                        continue
                    if after[value] >= wrap and after[value] == now[value] + 1 and _only_divided(value, steps[value]):
                        after[value] -= wrap
                if lost:
                    break
                now = after
            if not lost:  # what grows without end, or too long a period
                lost = {v for v in state if len({st[v] for st in states}) > LONGEST // 2}
                if not lost:
                    return None
            state = {v: n for v, n in state.items() if v not in lost}
        return None

    # Questions -------------------------------------------------------------------------------------------------------

    def table(self, value: SSAValue, at: Operation) -> Table | None:
        """The value at an operation, as a function of the turns of one loop; None where it is not known."""
        try:
            return Table(None, (self.value(value, {}),))
        except Unknown:
            pass
        for loop, orbit in self.orbits.items():
            inside = _inside(at, loop)
            if not inside and not self._sees(at, loop):
                continue
            numbers: list[int] = []
            try:
                for state in orbit.states:
                    given = state if inside else {o: state[a] for o, a in orbit.outside.items() if a in state and not _inside(at, loop)}
                    numbers.append(self.value(value, given))
            except Unknown:
                continue
            return _table(loop, numbers, orbit.first)
        return None

    def _sees(self, at: Operation, loop: Operation) -> bool:
        """Whether an operation stands beside a loop: in the block of the loop, or in a condition there."""
        block = loop.parent_block()
        op: Operation | None = at
        while op is not None and not isinstance(op, s.RoleOp):
            if op.parent_block() is block:
                return True
            op = op.parent_op()
            if isinstance(op, s.ForOp) or (op is not None and op.name == "stage.while"):
                return False
        return isinstance(op, s.RoleOp) and block is op.body.block and at.parent_block() is block


def _turned(counter: tuple[SSAValue, int, int, int], turn: int, wrap: int) -> int:
    _, first, step, turns = counter
    return first + step * (turn % turns if turns else turn % wrap)


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


def _table(loop: Operation, numbers: list[int], first: int) -> Table:
    """The shortest repetition of a row of numbers that repeats from `first` on."""
    before, period = numbers[:first], numbers[first:]
    for n in range(1, len(period) + 1):
        if len(period) % n == 0 and period == period[:n] * (len(period) // n):
            period = period[:n]
            break
    while before and before[-1] == period[-1]:
        before.pop()
        period = [period[-1], *period[:-1]]
    return Table(loop if len(period) > 1 or before else None, tuple(period), tuple(before))


# Expressions ---------------------------------------------------------------------------------------------------------


def expression(value: SSAValue, loops: dict[Block, Hashable], group: int = 0) -> Hashable:
    """A value written out, equal for equal computations in different roles; `loops` names the loops round it."""
    op = value.owner
    if isinstance(op, Block):
        if op in loops and isinstance(value, BlockArgument) and value.index == 0:
            return ("index", loops[op])
        return ("opaque", id(value))
    if isinstance(op, ConstOp):
        return ("const", str(op.constant))
    if isinstance(op, SizeOp):
        return ("size", op.symbol.data)
    if isinstance(op, s.UnitOp):
        return ("unit", op.which.data)
    if isinstance(op, s.GroupOp):
        return ("group", group)
    if isinstance(op, ArithOp):
        return (op.kind.data, *(expression(v, loops, group) for v in op.inputs))
    return ("opaque", id(value))
