"""What a loop does in its first or its last turn alone, moved in front of it, or behind it.

`if k.first: wait drained` is a wait before the loop, where that turns at all; `if k.last: commit done` a commit behind
it. A wait may change places with waits, and an arrival with arrivals: nothing else may stand between.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import Pure

from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp, arith, const

_ARRIVES = (s.MbarrierArriveOp, s.Tcgen05CommitOp)


class _NotAlone(Exception):
    """What stands at an end of a loop cannot be taken out of it."""


def at_the_ends(loop: s.ForOp) -> list[tuple[s.IfOp, bool]]:
    """The conditions on a loop's first turn, and on its last (False), that something stands under."""
    counter = loop.body.block.args[0]
    if _constant(loop.step) != 1 or loop.stolen is not None:
        return []
    found: list[tuple[s.IfOp, bool]] = []
    for use in [*counter.uses]:
        test = use.operation
        if not isinstance(test, ArithOp) or test.kind.data != "eq":
            continue
        first = any(_same(v, loop.lower) for v in test.inputs)
        last = any(_is_last(v, loop.upper) for v in test.inputs)
        if first is not last:
            found += [
                (u.operation, first)
                for u in test.results[0].uses
                if isinstance(u.operation, s.IfOp)
            ]
    return found


def move_out(loop: s.ForOp) -> None:
    """Moves what can be, of a loop that turns at least once."""
    for op, first in at_the_ends(loop):
        try:
            _Move(loop, op, first).run()
        except _NotAlone:
            continue


class _Move:
    """One condition, and where its body goes."""

    def __init__(self, loop: s.ForOp, op: s.IfOp, first: bool) -> None:
        self.loop, self.op, self.first = loop, op, first
        self.made: list[Operation] = []
        self.values: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        round_it = [*self._round()]
        self._alone(round_it)
        carried = [self._carried(n) for n in range(len(self.op.results))]
        if round_it and carried:
            raise _NotAlone
        for op in [*self.op.then.block.ops][:-1]:
            self._copy(op)
        for op in round_it:  # elections, innermost first
            inside, self.made, self.values = self.made, [], {}
            self._value(op.condition)
            made = op.clone_without_regions(self.values)
            made.regions[0].add_block(Block([*inside, s.YieldOp.create()]))
            self.made.append(made)
        last = self.op.then.block.last_op
        assert last is not None
        handed = [self._value(v) for v in last.operands]
        block = self.loop.parent
        assert block is not None
        if self.first:
            block.insert_ops_before(self.made, self.loop)
            for number, result, new in zip(carried, self.op.results, handed, strict=True):
                self.loop.operands[3 + number] = new
                result.replace_all_uses_with(self.loop.body.block.args[1 + number])
        else:
            at: Operation = self.loop
            for op in self.made:
                block.insert_op_after(op, at)
                at = op
            for number, result, new in zip(carried, self.op.results, handed, strict=True):
                left = self.loop.results[number]
                mine = {id(o) for made in self.made for o in made.walk()}
                for use in [*left.uses]:
                    if id(use.operation) not in mine:
                        use.operation.operands[use.index] = new
                result.replace_all_uses_with(self.loop.body.block.args[1 + number])
        self.op.detach()
        self.op.erase()

    def _round(self) -> Iterator[s.IfOp]:
        """The conditions between, which hand nothing on and do nothing where they do not hold."""
        at = self.op.parent_op()
        while at is not self.loop:
            if not isinstance(at, s.IfOp) or at.results or _does(at.otherwise):
                raise _NotAlone
            yield at
            at = at.parent_op()

    def _alone(self, round_it: list[s.IfOp]) -> None:
        """Whether nothing stands on the way that may not change places with what is moved."""
        if _does(self.op.otherwise):
            raise _NotAlone
        kinds = (s.MbarrierWaitOp,) if self.first else _ARRIVES
        passed = False
        for at in (self.op, *round_it):
            between = at.prev_op if self.first else at.next_op
            while between is not None:
                for op in between.walk():
                    if not _idle(op):
                        passed = True
                        if not isinstance(op, kinds):
                            raise _NotAlone
                between = between.prev_op if self.first else between.next_op
        mine = [o for o in self.op.then.walk() if not _idle(o)]
        if passed and not all(isinstance(o, kinds) for o in mine):
            raise _NotAlone

    def _carried(self, number: int) -> int:
        """Which value of the loop one result is: handed on where the condition does not hold, and changed nowhere
        else."""
        if self.op.otherwise is None or not self.op.otherwise.blocks:
            raise _NotAlone
        last, end = self.op.otherwise.block.last_op, self.loop.body.block.last_op
        assert last is not None
        assert end is not None
        kept = last.operands[number]
        if not isinstance(kept, BlockArgument) or kept.block is not self.loop.body.block:
            raise _NotAlone
        place = kept.index - 1
        if place < 0 or end.operands[place] is not self.op.results[number]:
            raise _NotAlone
        inside = {id(o) for o in self.op.walk()}
        if any(id(use.operation) not in inside for use in kept.uses):
            raise _NotAlone
        if not self.first and len([*self.op.results[number].uses]) != 1:
            raise _NotAlone
        return place

    def _copy(self, op: Operation) -> None:
        for inner in op.walk():
            for value in inner.operands:
                if not _within(value, op):
                    self._value(value)
        self.made.append(op.clone(self.values))

    def _value(self, value: SSAValue) -> SSAValue:
        """What a value of the body is in front of the loop's first turn, or behind its last."""
        if value in self.values:
            return self.values[value]
        owner = value.owner
        if isinstance(owner, Block):
            known = self._argument(value, owner)
        elif not _within(value, self.loop):
            known = value
        elif isinstance(owner, ArithOp | ConstOp | s.ElectedOp):
            for part in owner.operands:
                self._value(part)
            made = owner.clone(self.values)
            self.made.append(made)
            known = made.results[owner.results.index(value)]  # pyright: ignore
        else:
            raise _NotAlone
        self.values[value] = known
        return known

    def _argument(self, value: SSAValue, block: Block) -> SSAValue:
        if block is not self.loop.body.block:
            if _within(value, self.loop):
                raise _NotAlone
            return value
        assert isinstance(value, BlockArgument)
        if not value.index:
            return self.loop.lower if self.first else self._end()
        if self.first:
            return self.loop.inits[value.index - 1]
        end = block.last_op
        assert end is not None
        handed = end.operands[value.index - 1]
        if handed is not value and handed not in self.op.results:
            raise _NotAlone  # it has gone on in the last turn
        return self.loop.results[value.index - 1]

    def _end(self) -> SSAValue:
        one = const(1)
        made = arith("sub", self.loop.upper, one.value)
        self.made += [one, made]
        return made.results[0]


def _within(value: SSAValue, op: Operation) -> bool:
    """Whether a value is made in an operation."""
    owner = value.owner
    at = owner.parent_op() if isinstance(owner, Block) else owner
    while at is not None and at is not op:
        at = at.parent_op()
    return at is op


def _idle(op: Operation) -> bool:
    """Whether an operation only computes, or holds others."""
    return op.has_trait(Pure) or isinstance(op, s.IfOp | s.ElectedOp | s.YieldOp)


def _does(region: object) -> bool:
    blocks = getattr(region, "blocks", ())
    return any(not _idle(o) for b in blocks for op in b.ops for o in op.walk())


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, ConstOp) and isinstance(op.constant, IntegerAttr):
        return op.constant.value.data
    return None


def _same(a: SSAValue, b: SSAValue, deep: int = 8) -> bool:
    """Whether two values are computed alike."""
    if a is b:
        return True
    one, other = a.owner, b.owner
    if isinstance(one, ConstOp) and isinstance(other, ConstOp):
        return one.constant == other.constant
    return (
        isinstance(one, ArithOp)
        and isinstance(other, ArithOp)
        and one.kind == other.kind
        and deep > 0
        and all(_same(x, y, deep - 1) for x, y in zip(one.inputs, other.inputs, strict=True))
    )


def _is_last(value: SSAValue, upper: SSAValue) -> bool:
    """Whether a value is the last that a counter has: one less than its bound, or than what that is at least 1 of."""
    op, bound = value.owner, upper.owner
    if isinstance(bound, ArithOp) and bound.kind.data == "max" and _constant(bound.inputs[1]) == 1:
        upper = bound.inputs[0]
    return (
        isinstance(op, ArithOp)
        and op.kind.data == "sub"
        and _constant(op.inputs[1]) == 1
        and _same(op.inputs[0], upper)
    )
