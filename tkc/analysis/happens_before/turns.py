"""Several items of one barrier in each turn of a loop: how many there are, and which of them an operation is for.

A slot and a parity say an item modulo two rounds of the ring, so that they alone do not tell three items a turn from
one. Counted are the waits of a role on a barrier that come in each turn of a loop, or under a condition that counts its
items by itself, as many in each branch of a condition within.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.happens_before.conditions import within
from tkc.analysis.happens_before.values import Chain, Table
from tkc.ir.nest import around
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ArithOp, ConstOp

PARTNERS = {"full": "empty", "empty": "full"}
"""The barriers of a ring: who waits for the one arrives at the other."""


class Turn(NamedTuple):
    """Items `number` of `count` in each turn of a loop."""

    loop: Chain
    count: int
    number: int

    def table(self, of: Table) -> Table:
        """A value by the turns of the loop, of which it need not know where it is always the same."""
        return of if of.loop is not None else replace(of, loop=self.loop)


@dataclass(eq=False)
class Waits:
    """What waits for barriers in a role, as far as it has been asked for."""

    role: s.RoleOp
    known: dict[SSAValue, set[Operation]] = field(default_factory=dict)
    partners: dict[SSAValue, SSAValue | None] = field(default_factory=dict)

    def of(self, barrier: SSAValue) -> set[Operation]:
        found = self.known.get(barrier)
        if found is None:
            users = (use.operation for use in barrier.uses)
            found = {op for op in users if type(op) is s.MbarrierWaitOp and within(op, self.role)}
            self.known[barrier] = found
        return found

    def partner(self, barrier: SSAValue) -> SSAValue | None:
        """The other barriers of a pipe's ring."""
        if barrier not in self.partners:
            self.partners[barrier] = _partner(barrier)
        return self.partners[barrier]


Counted = Callable[[Operation, Chain], bool]
"""Whether nothing but the turns of a loop or condition tells a wait's item."""


def of_wait(
    op: Operation,
    barrier: SSAValue,
    loops: Iterable[Chain],
    known: Waits,
    counted: Counted,
) -> Turn | None:
    """Which of a turn's items a wait is for, or of those of a condition that counts them by itself; None where there is
    one a turn, or a turn need not have each of the waits."""
    waits = known.of(barrier)
    if len(waits) < 2 or op not in waits:
        return None
    for chain in _chains(op, loops, counted):
        numbers: dict[Operation, int] = {}
        counts = {_number(_body(loop), waits, numbers, 0) for loop in chain}
        count = counts.pop() if len(counts) == 1 else None
        if count is not None and count > 1 and len(numbers) == len(waits):
            return Turn(chain, count, numbers[op])
    return None


def among_others(
    op: Operation,
    barrier: SSAValue,
    loops: Collection[Chain],
    known: Waits,
    told: Chain,
) -> bool:
    """Whether a wait for a pipe of one slot stands under a condition that others of its turn do not stand under: if two
    of its waits are left out, the others still have the same parity, which then does not tell the item. `told`: the
    loops or conditions whose turns tell its parity."""
    waits = known.of(barrier)
    if len(waits) < 2 or known.partner(barrier) is None:
        return False
    under = takewhile(lambda at: isinstance(at, s.IfOp), around(op))
    asked = [at for at in under if (at,) in loops and at not in told]
    outer = next((at for at in around(op) if not isinstance(at, s.IfOp)), None)
    others = [w for w in waits if outer in around(w)]
    return any(at not in around(w) for w in others for at in asked)


def _chains(op: Operation, loops: Iterable[Chain], counted: Counted) -> Iterator[Chain]:
    """The loops or conditions whose turns may count a wait's items."""
    for at in around(op):
        chain = max((c for c in loops if at in c), key=len, default=None)
        direct = isinstance(at, s.ForOp) and at is op.parent_op()
        if chain is not None and (direct or counted(op, chain)):
            yield chain
        if not isinstance(at, s.IfOp):
            return


def _body(loop: Operation) -> Block:
    return loop.then.block if isinstance(loop, s.IfOp) else loop.regions[-1].block


def _number(
    block: Block, waits: set[Operation], numbers: dict[Operation, int], first: int
) -> int | None:
    """Numbers the waits of a block, and gives the number after the last; None where one is in a loop within it, or
    branches of a condition have unlike numbers of them."""
    here: list[Operation] = []
    for op in block.ops:
        if op in waits:
            here.append(op)
        elif op.regions and any(op in around(w) for w in waits):
            regions = [r for r in op.regions if r.blocks]
            if not isinstance(op, s.IfOp) or len(regions) < 2:
                return None
            first = _numbered(here, numbers, first)
            here = []
            ends = {_number(r.block, waits, numbers, first) for r in regions}
            if len(ends) > 1 or (end := ends.pop()) is None:
                return None
            first = end
    return _numbered(here, numbers, first)


def _numbered(waits: list[Operation], numbers: dict[Operation, int], first: int) -> int:
    """Numbers waits that follow one another, and gives the number after the last."""
    if not waits:
        return first
    found = [first + n for n in _numbers(waits)]
    numbers.update(zip(waits, found, strict=True))
    return found[-1] + 1


def _numbers(waits: list[Operation]) -> list[int]:
    """Which item each wait of a turn is for: two in a row for the same slot and parity are for the same one, as items
    that follow one another differ in one of the two."""
    numbers = [0]
    for before, wait in pairwise(waits):
        numbers.append(numbers[-1] + (_named(before) != _named(wait)))
    return numbers


def _named(wait: Operation) -> tuple[object, ...]:
    """The slot and the parity of a wait, written out as far as two waits of one item write them alike."""
    assert isinstance(wait, s.MbarrierWaitOp)
    parity = wait.parity.owner
    if not isinstance(parity, ArithOp):
        return wait.slot, wait.parity
    parts = (v.owner.constant if isinstance(v.owner, ConstOp) else v for v in parity.inputs)
    return wait.slot, parity.kind, *parts


def of_arrival(
    op: Operation,
    barrier: SSAValue,
    loops: Iterable[Chain],
    known: Waits,
    counted: Counted,
) -> Turn | None:
    """Which of a turn's items an arrival is for: that of the wait for the same slot, or the last one before it."""
    partner = known.partner(barrier)
    block = op.parent_block()
    if partner is None or block is None:
        return None
    waits = {o for o in known.of(partner) if o.parent_block() is block}
    slot, before, at = getattr(op, "slot", None), list[Operation](), op.prev_op
    while at is not None and len(before) < len(waits):
        if at in waits:
            before.insert(0, at)
        at = at.prev_op
    same = [o for o in before if o.slot is slot]  # type: ignore[attr-defined]
    found = before if len(same) == len(before) else same
    return of_wait(found[-1], partner, loops, known, counted) if found else None


def _partner(barrier: SSAValue) -> SSAValue | None:
    declared = barrier.owner
    if not isinstance(declared, s.BarriersOp):
        return None
    name, _, side = declared.sym_name.data.rpartition(".")
    block = declared.parent_block()
    if not name or side not in PARTNERS or block is None:
        return None
    wanted = f"{name}.{PARTNERS[side]}"
    others = (o for o in block.ops if type(o) is s.BarriersOp)
    return next((o.barriers for o in others if o.sym_name.data == wanted), None)
