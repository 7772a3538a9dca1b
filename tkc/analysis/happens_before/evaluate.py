"""Integers of a role from constants, from what is given, and through loops of few turns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.guards import Guard, guard_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp

FEW = 16
"""Turns of a constant loop that are looked at one by one where its counters go through several loops."""


_ASKED = object()
"""What is in no table."""


class Unknown(Exception):
    """A value that no constant and no followed counter gives."""


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


def _passed(op: s.IfOp) -> list[Carried]:
    """What a condition leaves as it was where it does not hold, and steps where it does."""
    if op.otherwise is None or not op.otherwise.blocks:
        return []
    last, other = op.then.block.last_op, op.otherwise.block.last_op
    if last is None or other is None:
        return []
    return [
        Carried(kept, kept, step, result)
        for kept, step, result in zip(other.operands, last.operands, op.results, strict=False)
        if kept is not step and isinstance(kept.owner, Block | s.IfOp)
    ]


@dataclass
class Evaluator:
    """The integers of one role in CTA `rank` of its unit, in its warpgroup `group`."""

    role: s.RoleOp
    group: int = 0
    rank: int = 0
    turn: dict[Operation, int] = field(default_factory=dict)
    """Loops of few turns that are looked at turn by turn, and the turn."""

    def __post_init__(self) -> None:
        self.constants: dict[Hashable, dict[SSAValue, int | None]] = {}
        """What is known where nothing is given, by the turns that are looked at."""
        self.carried: dict[Operation, list[Carried]] = {}
        self.turned: dict[Hashable, dict[int, dict[SSAValue, int]]] = {}
        """What loops carry after so many turns where nothing is given, by the loop and the turns of those round it."""
        self.guards: dict[SSAValue, Guard | None] = {}
        self.doing: dict[Block, list[Operation]] = {}
        self.ops = list(self.role.walk())
        for op in self.ops:
            if type(op) is s.ForOp or op.name == "stage.while":
                self.carried[op] = _carried(op)
        for op in self.ops:
            if type(op) is s.IfOp and self._counts(op):
                self.carried[op] = _passed(op)
        for rows in self.carried.values():
            rows[:] = [replace(row, step=self._chosen(row.step)) for row in rows]

    def _chosen(self, step: SSAValue) -> SSAValue:
        """What a turn leaves, through conditions of which this CTA takes one side always."""
        while isinstance(op := step.owner, s.IfOp) and op.otherwise is not None:
            known = self.constant(op.condition) if self.guard(op.condition) is not None else None
            region = op.then if known else op.otherwise
            last = region.block.last_op if known is not None and region.blocks else None
            if last is None:
                break
            step = last.operands[op.results.index(step)]
        return step

    def _counts(self, op: s.IfOp) -> bool:
        """Whether a condition is one of the kernel's, of neither threads nor CTAs."""
        return self.guard(op.condition) is not None and self.constant(op.condition) is None

    def guard(self, condition: SSAValue) -> Guard | None:
        """What a condition tests of who a thread is; None where that is not followed."""
        if condition not in self.guards:
            self.guards[condition] = guard_of(condition)
        return self.guards[condition]

    # Evaluation ------------------------------------------------------------------------------------------------------

    def value(self, value: SSAValue, given: dict[SSAValue, int]) -> int:
        """The integer, from constants and what is given; raises Unknown."""
        found: dict[SSAValue, int | None] = {}
        if not given:
            found = self.constants.setdefault(tuple(self.turn.items()), found)
        return self._known(value, given, found)

    def _known(
        self, value: SSAValue, given: dict[SSAValue, int], found: dict[SSAValue, int | None]
    ) -> int:
        """The integer; `found` holds what has been asked before, since values share what they are made of."""
        if given and value in given:
            return given[value]
        known = found.get(value, _ASKED)
        if known is _ASKED:
            stack = [value]
            while stack:  # not by recursion: sums can be longer than Python's stack is deep
                op = stack[-1].owner
                if type(op) is ArithOp:
                    more = [v for v in op.operands if v not in found and v not in given]
                    if more:
                        stack += more
                        continue
                now = stack.pop()
                try:
                    known = self._of(now, given, found)
                except Unknown:
                    known = None
                found[now] = known
        if known is None:
            raise Unknown
        return known

    def _constant(self, op: ConstOp) -> int:
        if isinstance(op.constant, IntegerAttr):
            return op.constant.value.data
        raise Unknown

    def _of(
        self, value: SSAValue, given: dict[SSAValue, int], found: dict[SSAValue, int | None]
    ) -> int:
        """The integer of a value from those that it is made of."""
        op = value.owner
        if type(op) is ConstOp:
            return self._constant(op)
        if type(op) is ArithOp:
            kind, inputs = op.kind.data, op.operands
            if kind == "select":
                taken = inputs[1 if self._known(inputs[0], given, found) else 2]
                return self._known(taken, given, found)
            numbers = [self._known(v, given, found) for v in inputs]
            if kind in ("div", "mod", "cdiv") and numbers[1] == 0:
                raise Unknown
            return int(SCALARS[kind].of(*numbers))
        kind = type(op)
        if kind is s.GroupOp:
            return self.group
        if kind is s.UnitOp and op.which.data in s.RANKS:
            return s.RANKS[op.which.data](self.rank)
        if kind is s.ForOp:
            same = next(r for r in self.carried[op] if r.result is value)
            if same.step is same.argument:
                return self._known(same.init, given, found)
            return self._after(op, self.trips(op), same.argument, given)
        if kind is Block and (loop := op.parent_op()) in self.carried:
            same = next((r for r in self.carried[loop] if r.argument is value), None)  # pyright: ignore
            if same is not None and same.step is same.argument:
                return self._known(same.init, given, found)
        if kind is Block and (loop := op.parent_op()) in self.turn:
            assert isinstance(loop, s.ForOp)
            return self._after(loop, self.turn[loop], value, given)
        if kind is s.IfOp:
            return self._of_branch(op, op.results.index(value), given, found)
        raise Unknown

    def _of_branch(
        self, op: s.IfOp, at: int, given: dict[SSAValue, int], found: dict[SSAValue, int | None]
    ) -> int:
        """What a condition gives: of the branch that is taken, or what both give alike."""
        regions = [op.then, op.otherwise] if op.otherwise is not None else [op.then]
        lasts = [r.block.last_op for r in regions if r.blocks]
        if len(lasts) < 2:
            raise Unknown
        try:
            lasts = [lasts[0 if self._known(op.condition, given, found) else 1]]
        except Unknown:
            pass
        numbers = {self._known(x.operands[at], given, found) for x in lasts if x is not None}
        if len(numbers) != 1:
            raise Unknown
        return numbers.pop()

    def _after(
        self, loop: s.ForOp, turns: int | None, argument: SSAValue, given: dict[SSAValue, int]
    ) -> int:
        """What a loop carries in an argument after some turns; raises Unknown, for many turns always."""
        if turns is None or turns > FEW:
            raise Unknown
        now = self._turned(loop, turns, given) if given else self._counted(loop, turns)
        if argument not in now:
            raise Unknown
        return now[argument]

    def constant(self, value: SSAValue) -> int | None:
        """The value, where it is the same throughout."""
        try:
            return self.value(value, {})
        except Unknown:
            return None

    def _counted(self, loop: s.ForOp, turns: int) -> dict[SSAValue, int]:
        """What a loop carries after some turns where nothing is given, which is asked turn after turn."""
        round_it = tuple([(o, n) for o, n in self.turn.items() if o is not loop])
        known = self.turned.setdefault((loop, round_it), {})
        if turns not in known:
            known[turns] = self._turned(loop, turns, {}, known.get(turns - 1))
        return known[turns]

    def _turned(
        self,
        loop: s.ForOp,
        turns: int,
        given: dict[SSAValue, int],
        before: dict[SSAValue, int] | None = None,
    ) -> dict[SSAValue, int]:
        """What a loop carries after some turns, as far as it is known, and its induction variable then; `before`: the
        same of one turn less."""
        rows = self.carried[loop]
        lower, step = self.value(loop.lower, given), self.value(loop.step, given)
        counter = loop.body.block.args[0]
        if before is None:
            now: dict[SSAValue, int] = {}
            self._try(now, [(r.argument, r.init) for r in rows], given)
            now[counter] = lower
        else:
            now = before
        hidden = self.turn.pop(loop, None)
        for turn in range(0 if before is None else turns - 1, turns):
            after: dict[SSAValue, int] = {}
            self._try(after, [(r.argument, r.step) for r in rows], given | now)
            after[counter] = lower + (turn + 1) * step
            now = after
        if hidden is not None:
            self.turn[loop] = hidden
        return now

    def _try(
        self,
        found: dict[SSAValue, int],
        wanted: Iterable[tuple[SSAValue, SSAValue]],
        given: dict[SSAValue, int],
    ) -> None:
        for name, value in wanted:
            try:
                found[name] = self.value(value, given)
            except Unknown:
                continue

    def trips(self, loop: Operation) -> int | None:
        """How often a loop turns, where that is a constant."""
        if not isinstance(loop, s.ForOp):
            return None
        try:
            lower, upper, step = (self.value(v, {}) for v in (loop.lower, loop.upper, loop.step))
        except Unknown:
            return None
        return max(0, -(-(upper - lower) // step)) if step > 0 else None
