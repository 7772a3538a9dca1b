"""Integers of a role from constants, from what is given, and through loops of few turns."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.guards import Guard, guard_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp

FEW = 16
"""Turns of a constant loop that are looked at one by one where its counters go through several loops."""


_ASKED = object()
"""What is in no table."""


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
        """What is known where nothing is given, by the turns that are looked at; None: that it is not."""
        self.carried: dict[Operation, list[Carried]] = {}
        self.turned: dict[Hashable, dict[int, dict[SSAValue, int]]] = {}
        """What loops carry after so many turns where nothing is given, by the loop and the turns of those round it."""
        self.guards: dict[SSAValue, Guard | None] = {}
        self.doing: dict[Block, list[Operation]] = {}
        self.ops = list(self.role.walk())
        conditions: list[s.IfOp] = []
        for op in self.ops:
            kind = type(op)
            if kind is s.ForOp or kind is WhileOp:
                self.carried[op] = _carried(op)
            elif kind is s.IfOp:
                conditions.append(op)
        self.carried |= {op: _passed(op) for op in conditions if self._counts(op)}
        for rows in self.carried.values():
            for n, row in enumerate(rows):
                step = self._chosen(row.step)
                if step is not row.step:
                    rows[n] = replace(row, step=step)

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

    def constant(self, value: SSAValue) -> int | None:
        """The integer, where it is the same throughout."""
        known = self.constants.get(turns := tuple(self.turn.items()))
        if known is None:
            known = self.constants[turns] = {}
        return known[value] if value in known else self._known(value, {}, known)

    def value(self, value: SSAValue, given: dict[SSAValue, int]) -> int | None:
        """The integer, from constants and what is given; None where these do not give it."""
        return self._known(value, given, {}) if given else self.constant(value)

    def _known(
        self, value: SSAValue, given: dict[SSAValue, int], found: dict[SSAValue, int | None]
    ) -> int | None:
        """The integer; `found` holds what has been asked before, since values share what they are made of."""
        if given and value in given:
            return given[value]
        known = found.get(value, _ASKED)
        if known is _ASKED:
            stack = [value]
            while stack:  # not by recursion: sums can be longer than Python's stack is deep
                op = stack[-1].owner
                if type(op) is ArithOp:
                    more = [v for v in op.inputs if v not in found and v not in given]
                    if more:
                        stack += more
                        continue
                now = stack.pop()
                known = found[now] = self._of(now, given, found)
        return known  # type: ignore[return-value]

    def _of(
        self, value: SSAValue, given: dict[SSAValue, int], found: dict[SSAValue, int | None]
    ) -> int | None:
        """The integer of a value from those that it is made of."""
        op = value.owner
        kind = type(op)
        if kind is ConstOp:
            return op.constant.value.data if isinstance(op.constant, IntegerAttr) else None
        if kind is ArithOp:
            return self._arith(op, given, found)
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
        return None

    def _arith(
        self, op: ArithOp, given: dict[SSAValue, int], found: dict[SSAValue, int | None]
    ) -> int | None:
        kind, inputs = op.kind.data, op.inputs
        if kind == "select":
            chosen = self._known(inputs[0], given, found)
            return None if chosen is None else self._known(inputs[1 if chosen else 2], given, found)
        numbers: list[int] = []
        for v in inputs:
            number = self._known(v, given, found)
            if number is None:
                return None
            numbers.append(number)
        if kind in ("div", "mod", "cdiv") and numbers[1] == 0:
            return None
        return int(SCALARS[kind].of(*numbers))

    def _of_branch(
        self, op: s.IfOp, at: int, given: dict[SSAValue, int], found: dict[SSAValue, int | None]
    ) -> int | None:
        """What a condition gives: of the branch that is taken, or what both give alike."""
        regions = [op.then, op.otherwise] if op.otherwise is not None else [op.then]
        lasts = [r.block.last_op for r in regions if r.blocks]
        if len(lasts) < 2:
            return None
        chosen = self._known(op.condition, given, found)
        if chosen is not None:
            lasts = [lasts[0 if chosen else 1]]
        numbers = {self._known(x.operands[at], given, found) for x in lasts if x is not None}
        return numbers.pop() if len(numbers) == 1 else None

    def _after(
        self, loop: s.ForOp, turns: int | None, argument: SSAValue, given: dict[SSAValue, int]
    ) -> int | None:
        """What a loop carries in an argument after some turns; of many turns nothing is known."""
        if turns is None or turns > FEW:
            return None
        now = self._turned(loop, turns, given) if given else self._counted(loop, turns)
        return now.get(argument)

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
        if lower is None or step is None:
            return {}
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
        known: dict[SSAValue, int | None] = {}
        for name, value in wanted:
            number = self._known(value, given, known) if given else self.constant(value)
            if number is not None:
                found[name] = number

    def trips(self, loop: Operation) -> int | None:
        """How often a loop turns, where that is a constant."""
        if not isinstance(loop, s.ForOp):
            return None
        lower, upper, step = map(self.constant, (loop.lower, loop.upper, loop.step))
        if lower is None or upper is None or step is None:
            return None
        return max(0, -(-(upper - lower) // step)) if step > 0 else None
