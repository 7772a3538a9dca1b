"""What a condition of the stage level says of who a thread is, and of where in a loop it stands."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tkc.analysis.guards import LANES, Guard, guard_of, passing
from tkc.analysis.happens_before.automaton import both
from tkc.analysis.happens_before.events import Some, Threads, Who
from tkc.analysis.happens_before.expressions import Expressions
from tkc.analysis.happens_before.values import Values
from tkc.ir.nest import around
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp

NAMED = (Threads.ONE, Threads.WARP, Threads.LANE)
"""Sets of threads that are a part of a role."""
_CONTRARY = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def who_acts(values: Values) -> tuple[int, int | None]:
    """The lane that acts for its warp in a role, and the warp that acts for the role; None: the first.

    The lane is 0, which elections choose, or another that all conditions ask for; the warp another than the first where
    all tests of warps name it and nothing else in the role is done by one thread.
    """
    ops = values.ops
    tests = [(op, values.guard(op.condition)) for op in ops if type(op) is s.IfOp]
    guards = [guard for _, guard in tests if guard is not None]
    lanes = {0 if guard.elected else guard.number for guard in guards if guard.lane}
    lane = lanes.pop() if len(lanes) == 1 else 0
    named = {guard.warp for guard in guards if guard.warp is not None}
    if len(named) != 1:
        return lane, None
    under = {
        o for op, guard in tests if guard is not None and guard.warp is not None for o in op.walk()
    }
    lone = any(
        op not in under
        and (
            (isinstance(op, s.StageOp) and op.executed_by is s.By.ONE)
            or (isinstance(op, s.ElectedOp) and op.scope.data == s.By.ONE)
        )
        for op in ops
    )
    return lane, None if lone else named.pop()


def let_through(guard: Guard | None, lane: int = 0, warp: int = 0) -> Threads | None:
    """The threads of a role for which a condition on who one is holds; None for others than those of warp `warp`, and
    of lane `lane` of each."""
    if guard is None or guard.never or guard.warp not in (None, warp):
        return None
    if guard.lane and guard.number != lane:
        return None
    if not guard.lane:
        return Threads.WARP
    return Threads.ONE if guard.warp is not None or guard.elected == s.By.ONE else Threads.LANE


@dataclass(frozen=True)
class Team:
    """The warps of a role's copy, and the lane and the warp that act for it; `parts`: sets of threads that are known,
    each one object, so that what one condition's threads know is known where another lets through the same."""

    warps: range
    lane: int
    warp: int
    parts: dict[tuple[Who, frozenset[int]], Some] = field(default_factory=dict)

    def narrowed(
        self, who: Who, guard: Guard | None, condition: SSAValue, taken: bool = True
    ) -> tuple[Who, tuple[SSAValue, ...]] | None:
        """The threads of `who` that a condition lets through (else those that it does not), and what else it asks; None
        where it asks of no thread. `guard`: what it tests, where that is followed."""
        if guard is None:
            return self._counted(who, condition, taken)
        if not guard.narrows:
            return None
        through = let_through(guard, self.lane, self.warp) if taken else None
        inner = None if through is None else both(who, through)
        if inner is None:
            inner = self._part(who, self._let(who, guard, taken))
        return inner, guard.rest

    def _counted(
        self, who: Who, condition: SSAValue, taken: bool
    ) -> tuple[Who, tuple[SSAValue, ...]]:
        """The same of a comparison of a thread's numbers, which is asked of thread after thread."""
        members = self._members(who)
        found = None if members is None else passing(condition, members)
        if found is None or members is None:
            return Some(who), ()
        through, rest = found
        if not taken:
            if rest:
                return Some(who), ()
            through = members - through
        return self._known(who, members, through), rest

    def _known(self, who: Who, members: frozenset[int], through: frozenset[int]) -> Who:
        """Some threads of others as what they are called, where they have a name."""
        if through == members:
            return who
        return next((t for t in NAMED if self._members(t) == through), self._part(who, through))

    def lanes(self, who: Some) -> bool:
        """Whether they are the lanes of some warps that act for these."""
        return who.members is not None and all(t % LANES == self.lane for t in who.members)

    def one_of(self, who: Some) -> Some:
        """The thread that is elected of those of one whole warp; else all of them."""
        chosen = None if who.members is None else self._elected(who.members, alone=True)
        return who if chosen is None else self._part(who, chosen)

    def _part(self, who: Who, members: frozenset[int] | None) -> Some:
        if members is None:
            return Some(who)
        if (who, members) not in self.parts:
            held = {t for t in NAMED if (self._members(t) or {-1}) <= members}
            self.parts[who, members] = Some(who, members, frozenset(held))
        return self.parts[who, members]

    def _let(self, who: Who, guard: Guard, taken: bool) -> frozenset[int] | None:
        members = self._members(who)
        if members is None or (guard.rest and not taken):
            return None
        through = members
        if guard.warp is not None:
            through = frozenset(t for t in through if t // LANES == guard.warp)
        if guard.never:
            through = frozenset[int]()
        elif guard.elected:
            elected = self._elected(through, guard.elected == s.By.ONE)
            if elected is None:
                return None
            through = elected
        elif guard.lane:
            through = frozenset(t for t in through if t % LANES == guard.number)
        return through if taken else members - through

    def _members(self, who: Who) -> frozenset[int] | None:
        if isinstance(who, Some):
            return who.members
        warps = self.warps if who in (Threads.ALL, Threads.LANE) else [self.warp]
        lanes = range(LANES) if who in (Threads.ALL, Threads.WARP) else [self.lane]
        return (
            None if who is Threads.SOME else frozenset(LANES * w + t for w in warps for t in lanes)
        )

    def _elected(self, members: frozenset[int], alone: bool) -> frozenset[int] | None:
        """The first lanes of whole warps; None where there are others, or more than are to be chosen."""
        chosen = frozenset(t for t in members if t % LANES == 0)
        if len(members) != LANES * len(chosen) or (alone and len(chosen) > 1):
            return None
        return chosen


@dataclass(frozen=True)
class Places:
    """Where in loops conditions stand; `values` and `write` are the role's."""

    values: Values
    write: Expressions

    def guard(self, condition: SSAValue, op: s.IfOp) -> tuple[str, Operation] | None:
        """`not-first` of the loop round a condition, or `nonempty` of the one before it; None: neither."""
        condition, holds = self.plain(condition)
        test = condition.owner
        if not isinstance(test, ArithOp) or len(test.inputs) != 2:
            return None
        kind = test.kind.data if holds else _CONTRARY.get(test.kind.data, "")
        outer = op.parent_op()
        if isinstance(outer, s.ForOp):
            counter = outer.body.block.args[0]
            a, b = test.inputs
            for index, other, later in ((a, b, ("ne", "gt")), (b, a, ("ne", "lt"))):
                if index is counter and self._equal(other, outer.lower) and kind in later:
                    return "not-first", outer
        before = op.prev_op
        while before is not None and not isinstance(before, s.ForOp):
            before = before.prev_op
        if before is not None and self._nonempty(test, kind, before):
            return "nonempty", before
        return None

    def late(self, op: Operation, loop: tuple[Operation, ...]) -> int:
        """Whether an arrival may be for an earlier item: under a condition on anything but who the thread is (1), and
        surely where that leaves out a loop's first turn or follows the loop (2)."""
        late = 0
        for at in around(op):
            if not isinstance(at, s.IfOp):
                break
            guard = self.values.guard(at.condition)
            asked = guard is not None and (guard.rest or not guard.narrows)
            if asked and self.values.constant(at.condition) is None:
                known = self.guard(at.condition, at)
                late = 2 if known is not None and known[0] == "not-first" else max(late, 1)
        return late if any(within(op, o) for o in loop) else 2

    def plain(self, condition: SSAValue) -> tuple[SSAValue, bool]:
        """A condition without negations, and whether it has to hold."""
        holds = True
        while isinstance(op := condition.owner, ArithOp) and op.kind.data == "xor":
            a, b = op.inputs
            for side, other in ((a, b), (b, a)):
                known = self.values.constant(side)
                if known is not None:
                    holds ^= bool(known)
                    condition = other
                    break
            else:
                break
        return condition, holds

    def _equal(self, a: SSAValue, b: SSAValue) -> bool:
        return a is b or self.write(a) == self.write(b)

    def _nonempty(self, test: ArithOp, kind: str, loop: s.ForOp) -> bool:
        """Whether a condition says that a loop from 0 turns: 0 < n, for its upper bound n or what n counts blocks
        of."""
        if self.values.constant(loop.lower) != 0 or kind not in ("lt", "gt", "ne"):
            return False
        a, b = test.inputs
        low, high = (a, b) if kind == "lt" else (b, a)
        if self.values.constant(low) != 0:
            return False
        upper = loop.upper.owner
        sizes = [loop.upper]
        if isinstance(upper, ArithOp) and upper.kind.data == "cdiv":
            sizes.append(upper.inputs[0])
        return any(self._equal(high, size) for size in sizes)


def within(op: Operation, outer: Operation) -> bool:
    """Whether an operation is another, or stands in it."""
    return op is outer or any(at is outer for at in around(op))


def asked_of(op: Operation | None) -> frozenset[tuple[Operation, bool]]:
    """The conditions round an operation that ask more than who a thread is, each with whether it has to hold."""
    found: set[tuple[Operation, bool]] = set()
    region, at = (op.parent_region(), op.parent_op()) if op is not None else (None, None)
    while at is not None and not isinstance(at, s.RoleOp):
        if isinstance(at, s.IfOp):
            guard = guard_of(at.condition)
            if guard is None or guard.rest or not guard.narrows:
                found.add((at, region is at.then))
        region, at = at.parent_region(), at.parent_op()
    return frozenset(found)


def past_conditions(op: Operation) -> Operation | None:
    """What stands round an operation and is no condition: a loop, or its role."""
    return next((at for at in around(op) if not isinstance(at, s.IfOp)), None)
