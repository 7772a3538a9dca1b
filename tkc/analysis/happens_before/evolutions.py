"""What decides how often loops turn, written out with all that loops carry, so that equal ones in different roles are
found equal.

A carried value is a system of equations: first values, and how a turn makes the next ones of them. Two equal systems
have equal values in equal turns of loops that stand alike.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.happens_before.expressions import Expressions, depth_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.scalar import ArithOp

MOST = 4000
"""Values that are looked at for one formula."""
DEEPEST = 150
"""Of what depth a formula is written out."""


TURNED: Mapping[Hashable, str] = {"gt": "lt", "ge": "le"}
"""Comparisons that are others with their sides changed."""
CONTRARY: Mapping[Hashable, str] = {"ge": "lt", "le": "gt", "ne": "eq"}
"""Comparisons that hold where others do not."""
EITHER_WAY = frozenset({"add", "mul", "eq", "ne", "and", "or", "xor", "min", "max"})


class _TooLarge(Exception):
    """A formula that is not written out."""


@dataclass(eq=False)
class _System:
    """The values that one loop carries and a formula needs, in the order in which it names them."""

    loop: Operation
    level: int
    rows: list[tuple[tuple[SSAValue, ...], SSAValue, SSAValue]]
    """Of each carried value: what has it in a turn, what it is at first, what the turn makes of it."""
    order: list[int] = field(default_factory=list[int])
    known: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def place(self, number: int) -> int:
        if number not in self.order:
            self.order.append(number)
        return self.order.index(number)

    def number(self, value: SSAValue) -> int | None:
        return next((n for n, (names, _, _) in enumerate(self.rows) if value in names), None)


@dataclass
class Evolutions:
    """Formulas of values, by the numbers of `write`."""

    write: Expressions
    left: int = 0
    plain: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def __call__(self, value: SSAValue) -> int:
        """The number of a formula, equal for equal ones; what cannot be written out is only equal to itself."""
        self.left = MOST
        try:
            return self._number(value, [], 0)
        except _TooLarge:
            return self._of(("opaque", id(value)), ())

    def asked(self, condition: SSAValue) -> tuple[int, bool]:
        """The number of a condition, or of its contrary, and whether it is the condition's own: equal for both. Of two
        floats that are no numbers, neither a comparison nor its contrary holds: these are not looked at so."""
        op = condition.owner
        whole = isinstance(op, ArithOp) and all(isinstance(v.type, IntegerType) for v in op.inputs)
        contrary = CONTRARY.get(op.kind.data) if isinstance(op, ArithOp) and whole else None
        if contrary is None:
            return self(condition), True
        assert isinstance(op, ArithOp)
        self.left = MOST
        try:
            return self._list(contrary, op.inputs, [], 0), False
        except _TooLarge:
            return self._of(("opaque", id(condition)), ()), True

    def turns(self, loop: WhileOp) -> int:
        """What decides how often a loop on a condition turns."""
        self.left = MOST
        try:
            system = _system(loop, 0)
            test = self._number(_last(loop.test.block)[0], [system], 0)
            return self._with("while", [test], system, [], 0)
        except _TooLarge:
            return self._of(("opaque", id(loop)), ())

    # Formulas --------------------------------------------------------------------------------------------------------

    def _of(self, written: Hashable, parts: Sequence[int]) -> int:
        number = self.write.numbers.setdefault(written, len(self.write.numbers))
        known = self.write.parts
        known.setdefault(number, frozenset[Hashable]().union(*(known[p] for p in parts)))
        return number

    def _number(self, value: SSAValue, systems: list[_System], deep: int) -> int:
        memo = systems[-1].known if systems else self.plain
        if value not in memo:
            self.left -= 1
            if not self.left or deep > DEEPEST:
                raise _TooLarge
            memo[value] = self._made(value, systems, deep + 1)
        return memo[value]

    def _made(self, value: SSAValue, systems: list[_System], deep: int) -> int:
        op = value.owner
        if type(op) is Block:
            return self._argument(value, op, systems, deep)
        if isinstance(op, ArithOp):
            return self._list(op.kind.data, op.inputs, systems, deep)
        if isinstance(op, LoadElementOp) and op.constant is not None:
            return self._list(("element", id(op.place)), op.indices, systems, deep)
        if isinstance(op, s.IfOp):
            lasts = [r.block for r in (op.then, op.otherwise) if r is not None and r.blocks]
            if len(lasts) == 2:
                at = op.results.index(value)
                ways = [_last(block)[at] for block in lasts]
                return self._list("select", [op.condition, *ways], systems, deep)
        if isinstance(op, s.ForOp | WhileOp) and not _stolen(op):
            return self._after(value, op, systems, deep)
        return self.write(value)

    def _list(
        self, kind: Hashable, values: Sequence[SSAValue], systems: list[_System], deep: int
    ) -> int:
        numbers = [self._number(v, systems, deep) for v in values]
        if kind in TURNED:
            kind, numbers = TURNED[kind], numbers[::-1]
        elif kind in EITHER_WAY:
            numbers.sort()
        return self._of((kind, *numbers), numbers)

    def _argument(self, value: SSAValue, block: Block, systems: list[_System], deep: int) -> int:
        for system in reversed(systems):
            number = system.number(value)
            if number is not None:
                return self._of(("carried", system.level, system.place(number)), ())
        loop = block.parent_op()
        if isinstance(loop, s.ForOp) and value is block.args[0] and not _stolen(loop):
            bounds = [self._number(v, systems, deep) for v in (loop.lower, loop.upper, loop.step)]
            return self._of(("turn", depth_of(loop), *bounds), bounds)
        if isinstance(loop, s.ForOp | WhileOp) and not _stolen(loop):
            system = _system(loop, len(systems))
            number = system.number(value)
            if number is not None:
                system.place(number)
                return self._with(("now", depth_of(loop)), [], system, systems, deep)
        return self.write(value)

    def _after(
        self, value: SSAValue, loop: s.ForOp | WhileOp, systems: list[_System], deep: int
    ) -> int:
        """What a loop leaves of a carried value."""
        system = _system(loop, len(systems))
        system.place(loop.results.index(value))
        if isinstance(loop, WhileOp):
            ends = [self._number(_last(loop.test.block)[0], [*systems, system], deep)]
        else:
            ends = [self._number(v, systems, deep) for v in (loop.lower, loop.upper, loop.step)]
        return self._with("after", ends, system, systems, deep)

    def _with(
        self, what: Hashable, ends: list[int], system: _System, systems: list[_System], deep: int
    ) -> int:
        """A formula with the equations of all values that it has named, which these name further ones in."""
        found: list[int] = []
        while len(found) < 2 * len(system.order):
            _, first, step = system.rows[system.order[len(found) // 2]]
            found.append(self._number(first, systems, deep))
            found.append(self._number(step, [*systems, system], deep))
        return self._of((what, len(ends), *ends, *found), [*ends, *found])


def _system(loop: Operation, level: int) -> _System:
    """All that a loop carries."""
    if isinstance(loop, s.ForOp):
        body = loop.body.block
        names = [(a,) for a in list(body.args)[1:]]
        inits = list(loop.inits)
    else:
        assert isinstance(loop, WhileOp)
        body = loop.body.block
        names = list(zip(loop.test.block.args, body.args, strict=True))
        inits = list(loop.inits)
    return _System(loop, level, list(zip(names, inits, _last(body), strict=False)))


def _last(block: Block) -> Sequence[SSAValue]:
    """What a block hands on."""
    last = block.last_op
    return last.operands if last is not None else ()


def _stolen(loop: Operation) -> bool:
    """Whether the hardware decides how often a loop turns."""
    return isinstance(loop, s.ForOp) and loop.stolen is not None
