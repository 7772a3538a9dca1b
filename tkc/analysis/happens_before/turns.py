"""Several items of one barrier in each turn of a loop: how many there are, and which of them an operation is for.

A slot and a parity say an item modulo two rounds of the ring, so that they alone do not tell three items a turn from
one. Counted are the waits of a role on a barrier that stand side by side in a loop, each of them once in every turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from tkc.analysis.happens_before.conditions import within
from tkc.analysis.happens_before.values import Chain, Table
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


def of_wait(op: Operation, barrier: SSAValue, loops: Iterable[Chain], known: Waits) -> Turn | None:
    """Which of a turn's items a wait is for; None where there is one a turn, or the waits do not stand side by side."""
    block, loop = op.parent_block(), op.parent_op()
    if block is None or not isinstance(loop, s.ForOp):
        return None
    waits = known.of(barrier)
    if len(waits) < 2 or op not in waits or any(w.parent_block() is not block for w in waits):
        return None
    chain = max((c for c in loops if loop in c), key=len, default=None)
    places = [o for o in block.ops if o in waits]
    numbers = _numbers(places)
    count = numbers[-1] + 1
    return None if chain is None or count < 2 else Turn(chain, count, numbers[places.index(op)])


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
    op: Operation, barrier: SSAValue, loops: Iterable[Chain], known: Waits
) -> Turn | None:
    """Which of a turn's items an arrival is for: that of the wait for the same slot, or the last one before it."""
    partner = known.partner(barrier)
    block = op.parent_block()
    if partner is None or block is None:
        return None
    waits = known.of(partner)
    if not any(o.parent_block() is block for o in waits):
        return None
    slot = getattr(op, "slot", None)
    before = [o for o in takewhile(lambda o: o is not op, block.ops) if o in waits]
    same = [o for o in before if o.slot is slot]  # type: ignore[attr-defined]
    found = before if len(same) == len(before) else same
    return of_wait(found[-1], partner, loops, known) if found else None


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
