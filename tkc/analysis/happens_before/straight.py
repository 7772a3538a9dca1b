"""Integers of a role computed again and again from other values: written out once as a list of steps.

Counters that only grow are looked at modulo a number. Whether a value is then what it is says by how much it rises
where the counters rise by that number: `t % 4` by nothing, if it is a multiple of 4, `t // 2` by half of it; of `t < 9`
nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.happens_before.evaluate import FEW, Evaluator
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import SCALARS, ArithOp

Numbers = list[int | None]
Step = Callable[[Numbers], int | None]


class Straight:
    """Values as functions of `names`; None where one is not known."""

    def __init__(
        self, evaluator: Evaluator, values: Sequence[SSAValue], names: Sequence[SSAValue]
    ) -> None:
        self.evaluator, self.names = evaluator, names
        self.places = {name: n for n, name in enumerate(names)}
        self.steps: list[Step] = []
        self.rises: list[Step] = []
        self.never: set[int] = set()  # the places of what is known at no time
        self.wanted = [self.place(value) for value in values]

    def __call__(self, given: Sequence[int | None]) -> Numbers:
        numbers: Numbers = list(given)
        self.follow(numbers)
        return [numbers[n] for n in self.wanted]

    def risen(self, given: Sequence[int | None]) -> Numbers:
        """By how much all that is written out rises where the names rise so; None where that is not known."""
        numbers: Numbers = list(given)
        for rise in self.rises:
            numbers.append(rise(numbers))
        return numbers

    def place(self, value: SSAValue) -> int:
        """Where a value is among the numbers, written out if it is not yet."""
        if value not in self.places:
            self._write(value)
        return self.places[value]

    def follow(self, numbers: Numbers) -> None:
        """Takes the steps that these numbers, which begin with those of `names`, have not gone through."""
        for step in self.steps[len(numbers) - len(self.names) :]:
            numbers.append(step(numbers))

    def _write(self, value: SSAValue) -> None:
        places, stack = self.places, [(value, self._parts(value))]
        while stack:  # not by recursion: sums can be longer than Python's stack is deep
            now, parts = stack[-1]
            more = [v for v in parts if v not in places]
            if more:
                stack += [(v, self._parts(v)) for v in more]
                continue
            stack.pop()
            if now not in places:
                at = [places[v] for v in parts]
                self.steps.append(self._step(now, at))
                self.rises.append(self._rise(now, at))
                places[now] = len(self.names) + len(self.steps) - 1
                if self._unknown(now, at):
                    self.never.add(places[now])

    def _unknown(self, value: SSAValue, parts: list[int]) -> bool:
        op = value.owner
        if type(op) is ArithOp:
            return any(n in self.never for n in parts[: 1 if op.kind.data == "select" else None])
        return (
            not isinstance(op, s.ForOp | Block | s.IfOp) and self.evaluator.constant(value) is None
        )

    def _parts(self, value: SSAValue) -> list[SSAValue]:
        """What a value is made of, as far as that is written out."""
        op = value.owner
        if type(op) is ArithOp:
            return list(op.inputs)
        if type(op) is s.IfOp:
            lasts = [r.block.last_op for r in (op.then, op.otherwise) if r is not None and r.blocks]
            if len(lasts) == 2:
                at = op.results.index(value)
                return [op.condition, *(x.operands[at] for x in lasts if x is not None)]
        kept = self._kept(value)
        if kept is not None:
            return [kept]
        loop = self._turned(op)
        if loop is not None:
            return [loop.lower, loop.step, *(row.init for row in self.evaluator.carried[loop])]
        return []

    def _turned(self, op: Operation | Block) -> s.ForOp | None:
        """The loop whose turns so far give a value: those of one that is looked at turn by turn, or all."""
        loop = op.parent_op() if type(op) is Block else op
        if type(loop) is not s.ForOp or (loop in self.evaluator.turn) is not (type(op) is Block):
            return None
        turns = self._turns(loop)
        return loop if turns is not None and turns <= FEW else None

    def _turns(self, loop: s.ForOp) -> int | None:
        turns = self.evaluator.turn.get(loop)
        return turns if turns is not None else self.evaluator.trips(loop)

    def _kept(self, value: SSAValue) -> SSAValue | None:
        """What a loop carries on without a change."""
        op = value.owner
        loop = op.parent_op() if type(op) is Block else op
        for row in self.evaluator.carried.get(loop, ()) if type(loop) is s.ForOp else ():
            if value in (row.argument, row.result) and row.step is row.argument:
                return row.init
        return None

    def _step(self, value: SSAValue, parts: list[int]) -> Step:
        op = value.owner
        if type(op) is s.IfOp and parts:
            return _branch(*parts)
        if type(op) is ArithOp:
            if op.kind.data == "select":
                return _chosen(*parts)
            return _of(op.kind.data, parts)
        if len(parts) == 1:
            (same,) = parts
            return lambda numbers: numbers[same]
        if parts:
            return self._after(value, parts)
        return self._otherwise(value)

    def _rise(self, value: SSAValue, parts: list[int]) -> Step:
        """By how much a value rises, from how much its parts do."""
        op, constant = value.owner, self.evaluator.constant
        if type(op) is ArithOp and op.kind.data != "select":
            if op.kind.data not in RISES or len(parts) != 2:
                return lambda rises: _level(rises, parts)
            of, one, other = RISES[op.kind.data], *parts
            a, b = (constant(v) for v in op.inputs)

            def rise(rises: Numbers) -> int | None:
                x, y = rises[one], rises[other]
                return None if x is None or y is None else 0 if x == y == 0 else of(x, y, a, b)

            return rise
        if parts and type(op) in (s.IfOp, ArithOp):
            test, *ways = parts
            alike = (
                type(op) is s.IfOp and test in self.never
            )  # it is what both ways give, or not known
            return lambda rises: (
                rises[ways[0]]
                if (alike or rises[test] == 0) and rises[ways[0]] == rises[ways[1]]
                else None
            )
        if len(parts) == 1:
            (same,) = parts
            return lambda rises: rises[same]
        if parts:
            return self._after(value, parts, rising=True)
        if constant(value) is not None:
            return lambda _: 0
        every = [*range(len(self.names))]
        return lambda rises: _level(rises, every)

    def _after(self, value: SSAValue, parts: list[int], rising: bool = False) -> Step:
        """What a loop carries after few turns, or by how much that rises."""
        evaluator, loop = self.evaluator, self._turned(value.owner)
        assert loop is not None
        turns, rows, count = self._turns(loop) or 0, evaluator.carried[loop], len(self.names)
        carried, counter = [row.argument for row in rows], loop.body.block.args[0]
        given = carried if type(value.owner) is Block else [row.result for row in rows]
        if value is not counter and value not in given:
            return lambda _: None
        number = given.index(value) if value is not counter else None
        inside = {n: t for n, t in evaluator.turn.items() if n is not loop}
        looked_at, evaluator.turn = evaluator.turn, inside
        body = Straight(evaluator, [row.step for row in rows], [*carried, counter, *self.names])
        evaluator.turn = looked_at
        lower, by, *inits = parts

        def after(numbers: Numbers) -> int | None:
            first, step = numbers[lower], numbers[by]
            if first is None or step is None:
                return None
            if number is None:
                return first + turns * step
            state, beside = [numbers[n] for n in inits], numbers[:count]
            for turn in range(turns):
                given = [*state, first + turn * step, *beside]
                state = [body.risen(given)[n] for n in body.wanted] if rising else body(given)
            return state[number]

        return after

    def _otherwise(self, value: SSAValue) -> Step:
        known = self.evaluator.constant(value)
        if known is not None or not isinstance(value.owner, s.ForOp | Block | s.IfOp):
            return lambda _: known
        names, evaluator, turn = self.names, self.evaluator, self.evaluator.turn

        def through(numbers: Numbers) -> int | None:
            given = {v: n for v, n in zip(names, numbers, strict=False) if n is not None}
            looked_at, evaluator.turn = evaluator.turn, turn
            known = evaluator.value(value, given)
            evaluator.turn = looked_at
            return known

        return through


def _level(rises: Numbers, parts: Sequence[int]) -> int | None:
    """Nothing, where no part rises; else it is not known."""
    return 0 if all(rises[n] == 0 for n in parts) else None


def _in_parts(by: Callable[[int], int], left: Callable[[int, int], int]) -> Rise:
    """Of a division of what rises by a constant that divides that rise."""

    def rise(x: int, y: int, a: int | None, b: int | None) -> int | None:
        if y or b is None or b < 0 or (each := by(b)) <= 0:
            return None
        return None if x % each else left(x, each)

    return rise


def _times(x: int, y: int, a: int | None, b: int | None) -> int | None:
    if not y and b is not None:
        return x * b
    return y * a if not x and a is not None else None


Rise = Callable[[int, int, "int | None", "int | None"], "int | None"]
"""From by how much two values rise, and from what they are where that is constant."""

RISES: dict[str, Rise] = {
    "add": lambda x, y, a, b: x + y,
    "sub": lambda x, y, a, b: x - y,
    "mul": _times,
    "div": _in_parts(lambda b: b, lambda x, each: x // each),
    "shr": _in_parts(lambda b: 1 << b if b < 32 else 0, lambda x, each: x // each),
    "mod": _in_parts(lambda b: b, lambda x, each: 0),
    "and": _in_parts(lambda b: 1 << b.bit_length(), lambda x, each: 0),
}
"""Of the operations that something rising may go through. Of others nothing may rise."""


def _of(kind: str, parts: list[int]) -> Step:
    of = SCALARS[kind].of
    if len(parts) != 2:
        return lambda _: None
    one, other = parts

    def step(numbers: Numbers) -> int | None:
        a, b = numbers[one], numbers[other]
        if a is None or b is None:
            return None
        try:
            return int(of(a, b))
        except (ArithmeticError, ValueError):
            return None

    return step


def _chosen(test: int, one: int, other: int) -> Step:
    def step(numbers: Numbers) -> int | None:
        holds = numbers[test]
        return None if holds is None else numbers[one if holds else other]

    return step


def _branch(test: int, one: int, other: int) -> Step:
    """Of the branch that is taken, or what both give alike."""

    def step(numbers: Numbers) -> int | None:
        holds = numbers[test]
        if holds is None:
            return numbers[one] if numbers[one] == numbers[other] else None
        return numbers[one if holds else other]

    return step
