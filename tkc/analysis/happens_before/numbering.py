"""Which item of a barrier a wait or an arrival of a role is about, as a function of how often a loop has turned."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from tkc.analysis.happens_before import turns
from tkc.analysis.happens_before.conditions import Places, within
from tkc.analysis.happens_before.events import Barrier, Index, Loop, Turns
from tkc.analysis.happens_before.items import fit
from tkc.analysis.happens_before.values import Chain, Table, Values
from tkc.ir.nest import around
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import ConstOp

Numbered = tuple[Chain | None, int, int]
"""Items of a barrier: the loop that counts them, how many of them there are in a turn, and the first."""


def depth_of(barrier: SSAValue) -> int:
    """How many barriers there are, of which an item is one."""
    declared = barrier.owner
    return declared.depth.value.data if isinstance(declared, s.BarriersOp) else 1


class Numbering:
    """The items of one role; `turns` are those of a loop that are looked at, where these are some only."""

    role: s.RoleOp
    barriers: dict[Hashable, Barrier]
    values: Values
    places: Places
    loops: dict[Chain, Loop]
    turns: Turns | None
    waits: turns.Waits

    def _entry(self, op: Operation) -> SSAValue | None:
        """The operand that numbers the barrier."""
        for name in ("entry", "slot"):
            found = getattr(op, name, None)
            if isinstance(found, SSAValue):
                return found
        return None

    def _waited(self, op: Operation, barrier: SSAValue) -> Numbered | None:
        entry, parity = self._entry(op), getattr(op, "parity", None)
        return None if entry is None or parity is None else self._item(barrier, entry, parity, op)

    def _item(
        self, barrier: SSAValue, entry: SSAValue, parity: SSAValue, at: Operation
    ) -> Numbered | None:
        """The item that a slot and a parity name at an operation."""
        slots, parities = self.values.table(entry, at), self.values.table(parity, at)
        if slots is None or parities is None:
            return None
        depth = depth_of(barrier)
        turn = (
            turns.of_wait(at, barrier, self.loops, self.waits, self._counted_by)
            if self.turns is None
            else None
        )
        if turn is not None:
            slots, parities = turn.table(slots), turn.table(parities)
            likely = [(turn.count, turn.number), (turn.count, turn.number - depth)]
            found = fit(slots, parities, depth, likely=likely)
        else:
            told = slots.loop or parities.loop or ()
            if depth == 1 and turns.among_others(at, barrier, self.loops, self.waits, told):
                return None
            if slots.loop is None and parities.loop is None and not self._outside(at):
                slots = replace(slots, loop=self._turns(barrier, at))
            found = fit(slots, parities, depth, turns=self._counted(slots, parities))
        return found

    def _arrived(self, op: Operation, barrier: SSAValue) -> Numbered | None:
        """The item that an operation arrives at, or whose bytes it brings."""
        depth = depth_of(barrier)
        entry = self._entry(op)
        slots = None if entry is None else self.values.table(entry, op)
        if slots is None:
            return None
        turn = (
            turns.of_arrival(op, barrier, self.loops, self.waits, self._counted_by)
            if self.turns is None
            else None
        )
        if turn is not None:
            return fit(turn.table(slots), None, depth, likely=[(turn.count, turn.number)])
        loop = slots.loop
        if loop is None and not self._outside(op):
            loop = self._turns(barrier, op)
        if loop is None:
            return (None, 1, slots.period[0]) if self._outside(op) else None
        return fit(
            Table(loop, slots.period, slots.before), None, depth,
            0 if self.turns is not None else self.places.late(op, loop), self._counted(slots, None),
        )  # fmt: skip

    def _turns(self, barrier: SSAValue, op: Operation) -> Chain | None:
        """The loop that numbers items whose slots do not tell: that of this role's waits for the barrier, or for
        another beside the operation; else the one round it."""
        for use in barrier.uses:
            if within(use.operation, self.role) and (found := self._loop_of(use.operation)):
                return found
        entry = self._entry(op)
        for use in () if entry is None or isinstance(entry.owner, ConstOp) else entry.uses:
            if use.operation.parent_block() is op.parent_block() and (
                found := self._loop_of(use.operation)
            ):  # a wait for the slot, which another barrier of its ring tells
                return found
        at: Operation | None = op
        while at is not None and not isinstance(at, s.RoleOp):
            block = at.parent_block()
            for beside in block.ops if block is not None else ():
                if found := self._loop_of(beside):
                    return found
            at = at.parent_op()
            if at is not None and not isinstance(at, s.IfOp | s.RoleOp):
                chains = [c for c in self.loops if at in c]
                if chains:
                    return max(chains, key=len)
        return None

    def _loop_of(self, wait: Operation) -> Chain | None:
        """The loop whose turns a wait counts items by."""
        parity = getattr(wait, "parity", None)
        table = None if parity is None else self.values.table(parity, wait)
        return None if table is None else table.loop

    def _outside(self, op: Operation) -> bool:
        """Whether an operation stands in no loop, but for such of one turn."""
        for at in around(op):
            if isinstance(at, s.RoleOp):
                break
            once = at in self.values.turn and self.values.trips(at) == 1
            if not once and not isinstance(at, s.IfOp):
                return False
        return True

    def _counted_by(self, wait: Operation, chain: Chain) -> bool:
        """Whether nothing but the turns of a chain tells a wait's item."""
        entry, parity = self._entry(wait), getattr(wait, "parity", None)
        tables = [self.values.table(v, wait) if v is not None else None for v in (entry, parity)]
        return all(t is not None and t.loop in (None, chain) for t in tables)

    def _counted(self, *tables: Table | None) -> Turns | None:
        """The turns of the loop of tables in which the operation at hand runs, where these are some only."""
        loops = {self.loops.get(t.loop) for t in tables if t is not None and t.loop is not None}
        return self.turns if self.turns is not None and loops == {self.turns.loop} else None

    def index_on(self, key: Hashable, item: Numbered | None) -> Index | None:
        """The same of a barrier, where there is such a one."""
        return self.index(item) if key in self.barriers else None

    def index(self, item: Numbered | None) -> Index | None:
        """An item by this copy's own loop."""
        if item is None:
            return None
        loop, rate, offset = item
        if loop is None:
            return Index(None, offset, rate)
        known = self.loops.get(loop)
        return None if known is None else Index(known, offset, rate)
