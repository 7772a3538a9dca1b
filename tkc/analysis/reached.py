"""Whether an index that stands under conditions and in loops is sure to leave its range in a run that comes to it.

Threads and turns of loops with numbers for bounds are tried one by one. A condition that these numbers do not tell is
taken to let the operation run. It may also choose the threads, or the turns, that keep the index within: then all of
them have to be outside.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice

from xdsl.ir import Operation, SSAValue

from tkc.analysis.guards import LANES, Varies, varies
from tkc.analysis.happens_before.evaluate import Evaluator
from tkc.ir.nest import around
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import IdentityOp, WhileOp
from tkc.ir.stage.scalar import ArithOp

MOST = 1 << 12
"""Threads and turns that are tried for one index, at most; of more, nothing is said."""

Given = dict[SSAValue, int]


class Reached:
    """One operation in one warpgroup of a role: the conditions and loops round it."""

    def __init__(self, op: Operation, role: s.RoleOp, group: int, rank: int) -> None:
        self.values = Evaluator(role, group, rank)
        self.count = LANES * role.warps.value.data // role.groups.value.data
        self.first = self.count * group
        self.identities = [o for o in self.values.ops if isinstance(o, IdentityOp | s.ElectedOp)]
        self.conditions: list[tuple[SSAValue, bool]] = []
        self.loops: list[s.ForOp] = []
        region = op.parent_region()
        for at in around(op):
            if at is role:
                break
            if isinstance(at, s.IfOp):
                self._asks(at.condition, region is at.then)
            elif isinstance(at, WhileOp):
                self._asks(bounds(at)[0], True)
            elif isinstance(at, s.ForOp):
                self.loops.insert(0, at)
            region = at.parent_region()

    def _asks(self, condition: SSAValue, taken: bool) -> None:
        op = condition.owner
        kind = op.kind.data if isinstance(op, ArithOp) else ""
        if (kind, taken) in (("and", True), ("or", False)):
            for part in op.inputs:  # pyright: ignore
                self._asks(part, taken)
        else:
            self.conditions.append((condition, taken))

    def outside(self, index: SSAValue, width: int, extent: int) -> int | None:
        """An index beyond `extent` that the operation is sure to touch if it runs; None where none is known."""
        runs = [*islice(self._runs(), MOST + 1)]
        if not runs or len(runs) > MOST or self.values.value(index, runs[0][1]) is None:
            return None
        chosen, by_thread = self._choosers(runs)
        within: set[Hashable] = set()
        beyond: dict[Hashable, int] = {}
        for thread, given in runs:
            if not self._lets(given):
                continue
            turns = [given.get(_counter(loop)) for loop in self.loops if loop not in chosen]
            key = None if by_thread else thread, *turns
            at = self.values.value(index, given)
            if at is None or 0 <= at <= extent - width:
                within.add(key)
            else:
                beyond.setdefault(key, at if at < 0 else at + width - 1)
        return next((at for key, at in beyond.items() if key not in within), None)

    @property
    def together(self) -> bool:
        """Whether all threads of the warpgroup come to the operation in the same turns, if they do."""
        asked = [c for c, _ in self.conditions] + [v for loop in self.loops for v in bounds(loop)]
        return all(varies(v) <= Varies.BY_GROUP for v in asked)

    def _runs(self) -> Iterator[tuple[int, Given]]:
        """Each thread in each turn of the loops round the operation whose bounds are numbers."""
        for t in range(self.count):
            yield from ((t, given) for given in self._turns(0, self._who(t)))

    def _who(self, thread: int) -> Given:
        """What tells a thread of the warpgroup from the others."""
        number = self.first + thread
        found: Given = {}
        for op in self.identities:
            if isinstance(op, IdentityOp):
                named = {"lane": number % LANES, "warp": number // LANES}
                found[op.value] = named.get(op.which.data, number)
            else:
                each = LANES if op.scope.data == s.By.LANE else self.count
                found[op.results[0]] = int(thread % each == 0)
        return found

    def _turns(self, depth: int, given: Given) -> Iterator[Given]:
        if depth == len(self.loops):
            yield given
            return
        loop = self.loops[depth]
        ends = [self.values.value(v, given) for v in bounds(loop)]
        if None in ends or ends[2] == 0:
            yield from self._turns(depth + 1, given)
            return
        for n in range(*ends):  # pyright: ignore
            yield from self._turns(depth + 1, {**given, _counter(loop): n})

    def _lets(self, given: Given) -> bool:
        """Whether no condition that numbers tell keeps the operation from running."""
        known = ((self.values.value(c, given), taken) for c, taken in self.conditions)
        return all(holds is None or bool(holds) is taken for holds, taken in known)

    def _choosers(self, runs: Sequence[tuple[int, Given]]) -> tuple[set[s.ForOp], bool]:
        """Loops whose turns, and whether threads, are chosen by what numbers do not tell."""
        asked = [c for c, _ in self.conditions]
        unknown = [c for c in asked if any(self.values.value(c, g) is None for _, g in runs)]
        for loop in self.loops:
            if any(_counter(loop) not in g for _, g in runs):
                unknown += bounds(loop)
        chosen = {loop for loop in self.loops if any(_made_in(loop, c) for c in unknown)}
        return chosen, any(varies(c) > Varies.BY_GROUP for c in unknown)


def bounds(loop: Operation) -> list[SSAValue]:
    """What tells how often a loop turns; nothing of other operations."""
    if isinstance(loop, s.ForOp):
        return [loop.lower, loop.upper, loop.step]
    last = loop.test.block.last_op if isinstance(loop, WhileOp) else None
    return [] if last is None else [last.operands[0]]


def _counter(loop: s.ForOp) -> SSAValue:
    return loop.body.block.args[0]


def _made_in(loop: s.ForOp, value: SSAValue) -> bool:
    """Whether a loop has to do with a value."""
    stack, seen = [value], set[SSAValue]()
    while stack:
        now = stack.pop()
        if now in seen:
            continue
        seen.add(now)
        owner = now.owner
        if isinstance(owner, ArithOp):
            stack += owner.inputs
        elif loop in around(owner):
            return True
    return False
