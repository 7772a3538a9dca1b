"""Whether runs on small numbers have shown all that a kernel does: which conditions and loops went one way only, how
often loops would have to turn until they go the other way, and whether they never do.

A condition on counters repeats, or has passed its last threshold, after so many turns as its numbers say; one on
anything else must have been seen both ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import lcm
from typing import NamedTuple

from xdsl.ir import Operation

from tkc.analysis.instances import Instruction
from tkc.analysis.machine import BOTH, SIDES, Code
from tkc.analysis.turning import must_turn
from tkc.ir.certificates import label
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.scalar import SCALARS, ArithOp

PERIODS = frozenset({"mod", "div", "cdiv"})
"""By what their second number is, what they give changes, or repeats."""

COUNTING = frozenset(
    {"add", "sub", "mul", "min", "max", "and", "or", "xor", "select", *PERIODS}
    | {kind for kind, row in SCALARS.items() if row.predicate}
)
"""Arithmetic of which turns and constants say when its results change for the last time, or repeat."""


@dataclass
class Cone:
    """All that a number is made of: comparisons, the loops whose turns it counts, the constants, and the periods;
    `plain`: nothing else."""

    comparisons: list[Instruction] = field(default_factory=list[Instruction])
    loops: list[Instruction] = field(default_factory=list[Instruction])
    most: int = 1
    period: int = 1
    plain: bool = True

    @property
    def turns(self) -> int:
        """After how many turns of its loops it has been all that it can be."""
        return self.period * (self.most + 1) + 2


class Decision(NamedTuple):
    """A condition or a loop that has not been seen to go each way, or a comparison that it rests on."""

    op: s.IfOp | s.ForOp
    cone: Cone

    @property
    def settled(self) -> bool:
        """Whether what has not been seen never is."""
        turns = self.cone.turns
        return self.cone.plain and all(x.turns >= turns or x.fixed for x in self.cone.loops)

    def __str__(self) -> str:
        place = location_of(self.op)
        what = "a condition" if isinstance(self.op, s.IfOp) else "a loop"
        where = f" ({place})" if place else f" ({label(self.op)})" if label(self.op) else ""
        return f"{what} has gone one way only{where}"


def always_turned(code: Code) -> set[Operation]:
    """Loops that have turned whenever runs came to them, though they need not."""
    found: set[Operation] = set()
    for one in Look(code).decisions:
        if isinstance(one.op, s.ForOp) and one.seen == SIDES[True]:
            if not (one.fixed or one.op.stolen is not None or must_turn(one.op)):
                found.add(one.op)
    return found


def undecided(code: Code) -> list[Decision]:
    """The conditions and loops of a kernel of which runs have not shown everything."""
    look = Look(code)
    return [d for one in look.decisions if (d := look.decision(one)) is not None]


@dataclass
class Look:
    """The instructions of a kernel by what they give."""

    code: Code
    decisions: list[Instruction] = field(default_factory=list[Instruction])
    made: dict[int, Instruction] = field(default_factory=dict[int, Instruction])
    handed: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """What a number that a loop or a condition hands on may be."""

    def __post_init__(self) -> None:
        for role, first in self.code.top:
            self._look(first)
            if role is not None:
                self._look(role.body)

    def _look(self, code: Sequence[Instruction]) -> None:
        for one in code:
            self.made |= dict.fromkeys(one.outputs, one)
            match one.op:
                case s.ForOp():
                    _, inits, (args, body, yields), _ = one.more
                    self.made |= dict.fromkeys(args, one)
                    for to in (args[1:], one.outputs):
                        for place, *sources in zip(to, inits, yields, strict=True):
                            self.handed[place] = sources
                    self.decisions.append(one)
                    self._look(body)
                case s.IfOp():
                    blocks = [b for b in one.more if b is not None]
                    for n, place in enumerate(one.outputs):
                        self.handed[place] = [one.inputs[0], *(b[2][n] for b in blocks)]
                    self.decisions.append(one)
                    for _, body, _ in blocks:
                        self._look(body)
                case _:
                    pass

    def decision(self, one: Instruction) -> Decision | None:
        """What is to be said of a condition or a loop; None where it never came to it, or all of it was seen."""
        if not one.seen or not _matters(one):
            return None
        if isinstance(one.op, s.ForOp):
            bounds, _, _, stolen = one.more
            one_way = not stolen and not one.seen & SIDES[True]
        else:
            assert isinstance(one.op, s.IfOp)
            bounds, one_way = one.inputs, one.seen != BOTH
        if all(place in self.code.constants for place in bounds):
            return None
        cone = self._cone(bounds)
        if isinstance(one.op, s.IfOp):
            one_way |= any(x.seen != BOTH for x in cone.comparisons)
        return Decision(one.op, cone) if one_way else None

    def _cone(self, places: Sequence[int]) -> Cone:
        cone, known, left = Cone(), set[int](), list(places)
        while left:
            place = left.pop()
            if place in known:
                continue
            known.add(place)
            if place in self.code.constants:
                number = self.code.constants[place]
                if isinstance(number, int):
                    cone.most = max(cone.most, abs(number))
                else:
                    cone.plain = False
                continue
            if place in self.code.settled:
                self._settled(place, cone)
            else:
                left += self._takes(place, cone)
        return cone

    def _settled(self, place: int, cone: Cone) -> None:
        """Adds a number that stays as it is while a role runs: which copy it is of all that run, or one of a launch,
        which other runs have to vary."""
        one = self.made.get(place)
        if one is not None and SCALARS.get(_kind(one), SCALARS["add"]).predicate:
            cone.comparisons.append(one)
            known = (self.code.constants.get(v) for v in one.inputs)
            cone.most = max(cone.most, *(abs(n) for n in known if isinstance(n, int)), 1)
        cone.plain &= self._of_copies(place)

    def _of_copies(self, place: int) -> bool:
        """Whether a number says which of the copies that run a role is, and nothing else."""
        if place in self.code.constants:
            return True
        one = self.made.get(place)
        if one is not None and isinstance(one.op, ArithOp):
            return all(self._of_copies(v) for v in one.inputs)
        ranked = one is not None and isinstance(one.op, s.UnitOp) and one.more in s.RANKS
        return ranked or (one is not None and isinstance(one.op, s.GroupOp))

    def _takes(self, place: int, cone: Cone) -> Iterator[int]:
        """The numbers that one is made of."""
        one = self.made.get(place)
        if one is not None and isinstance(one.op, s.ForOp):
            if one not in cone.loops:
                cone.loops.append(one)
            if place not in self.handed:
                yield from (one.more[0][0], one.more[0][2])  # from where it counts, and by how much
        if place in self.handed:
            yield from self.handed[place]
        elif one is not None and isinstance(one.op, ArithOp):
            yield from self._counted(one, _kind(one), cone)
        elif one is None or not isinstance(one.op, s.ForOp):
            cone.plain = False

    def _counted(self, one: Instruction, kind: str, cone: Cone) -> Iterator[int]:
        if SCALARS[kind].predicate:
            cone.comparisons.append(one)
        by = self.code.constants.get(one.inputs[-1])
        if kind in PERIODS and isinstance(by, int) and by > 0:
            cone.period = lcm(cone.period, by)
            yield one.inputs[0]
            return
        cone.plain &= kind in COUNTING and kind not in PERIODS
        yield from one.inputs


def _kind(one: Instruction) -> str:
    return one.op.kind.data if isinstance(one.op, ArithOp) else ""


def _matters(one: Instruction) -> bool:
    """Whether something is done, or decided, by which way it goes."""
    if isinstance(one.op, s.ForOp):
        return bool(one.more[2][1])
    return bool(one.outputs) or any(b is not None and b[1] for b in one.more)
