"""Which numbers a slot or a parity that loops carry has in turn after turn, over the kernel's whole life."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, SSAValue

from tkc.analysis.items import Carried, carried, handed
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp


class Uncounted(Exception):
    """Something that is not made of constants and of what the loop carries."""


@dataclass(eq=False, slots=True)
class Counters:
    """The values of one loop, by the number of its turn; turns go on where the loop stands in others."""

    loop: s.ForOp | None
    known: dict[tuple[SSAValue, int], int] = field(default_factory=dict)
    carried: dict[SSAValue, Carried] = field(default_factory=dict)
    """What the loop carries, of what was asked."""

    def at(self, value: SSAValue, turn: int) -> int:
        found = self.known.get((value, turn))
        if found is None:
            found = self.known[value, turn] = self._at(value, turn)
        return found

    def repeats(self, after: int) -> bool:
        """Whether everything asked for goes on after so many turns as it began."""
        return all([self.at(value, 0) == self.at(value, after) for value in list(self.carried)])

    def _at(self, value: SSAValue, turn: int) -> int:
        if isinstance(value, BlockArgument):
            here = self.carried.get(value) or carried(value)
            if here is None or here.loop is not self.loop:
                raise Uncounted
            self.carried[value] = here
            return self.at(here.next, turn - 1) if turn else self._first(here)
        op = value.owner
        if isinstance(op, ConstOp) and isinstance(op.constant, IntegerAttr):
            return op.constant.value.data
        if isinstance(op, ArithOp):
            return int(SCALARS[op.kind.data].of(*[self.at(v, turn) for v in op.operands]))
        if isinstance(op, s.IfOp):
            return self.at(handed(op, value)[0 if self.at(op.condition, turn) else 1], turn)
        raise Uncounted

    def _first(self, here: Carried) -> int:
        """What a loop carries at the kernel's start; a loop round it hands on what it has left."""
        outer = carried(here.init) if isinstance(here.init, BlockArgument) else None
        if outer is None:
            return self.at(here.init, 0)
        left = carried(outer.next)
        if left is None or left.turn is not here.turn:
            raise Uncounted
        return self._first(outer)
