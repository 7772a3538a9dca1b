"""Which threads of a role come to a place, as far as conditions on their numbers say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, Region, SSAValue

from tkc.analysis.guards import LANES, Guard, guard_of, varies
from tkc.diagnostics import Diagnostic, Severity
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp

Each = list[Any]
"""A value of each thread of a role; None where it is not known."""


def unmet(role: s.RoleOp) -> Iterator[Diagnostic]:
    """TK122 for each condition on threads of a role that none of those which come to it meets; for one that is written
    out several times, where that is so of all."""
    walk = _Walk(role, Reach(role.warps.value.data, role.groups.value.data > 1))
    walk.inside(role.body, walk.reach.all)
    yield from filter(None, walk.found.values())


@dataclass
class _Walk:
    """Through a role, with the threads that come to each place."""

    role: s.RoleOp
    reach: Reach
    found: dict[Any, Diagnostic | None] = field(default_factory=dict[Any, "Diagnostic | None"])

    def inside(self, region: Region, come: frozenset[int]) -> None:
        for block in region.blocks:
            for op in block.ops:
                sides = (come,) * len(op.regions)
                if isinstance(op, s.IfOp) and come and varies(op.condition):
                    sides = self._sides(op, come)
                for inner, these in zip(op.regions, sides, strict=False):
                    self.inside(inner, these)

    def _sides(self, op: s.IfOp, come: frozenset[int]) -> tuple[frozenset[int], ...]:
        guard = guard_of(op.condition)
        sides = self.reach.through(op.condition, come)
        told: Diagnostic | None = None
        if guard is not None and (guard.never or (guard.warp or 0) >= self.reach.warps):
            told = self._told(op, self._asked(guard))
        elif not sides[0] and len(come) < len(self.reach.all):
            noun = "thread" if len(come) == 1 else "threads"
            role = self.role.sym_name.data
            only = f"only {noun} {ranges(come)} of role {role} (counted from 0)"
            told = self._told(op, f"those round it let {only} come here")
        key = location_of(op) or op
        self.found[key] = told if self.found.get(key, told) is not None else None
        return sides

    def _asked(self, guard: Guard) -> str:
        """Numbers of warps and threads count from the role's own first."""
        which = f"it asks for warp {guard.warp}"
        if guard.never:
            several = "it asks for several threads at once"
            which = "no warp has such a lane" if guard.number >= LANES else several
        return f"{which}, and {self._has()}"

    def _has(self) -> str:
        warps = "1 warp" if self.reach.warps == 1 else f"{self.reach.warps} warps"
        return f"role {self.role.sym_name.data} has {warps} of 32 threads, counted from 0"

    def _told(self, op: Operation, why: str) -> Diagnostic:
        message = f"no thread meets this condition: {why}"
        return Diagnostic("TK122", message, location_of(op), Severity.WARNING)


@dataclass
class Reach:
    """The threads of one role: `warps` warps, in one warpgroup or, where `split`, in several that run the same."""

    warps: int
    split: bool = False
    known: dict[SSAValue, Each] = field(default_factory=dict[SSAValue, Each])

    @property
    def all(self) -> frozenset[int]:
        return frozenset(range(LANES * self.warps))

    def through(self, condition: SSAValue, come: frozenset[int]) -> tuple[frozenset[int], ...]:
        """Of the threads that come to a condition, those that may find it to hold, and those that may not."""
        found = self.values(condition)
        return (
            frozenset(t for t in come if found[t] is None or found[t]),
            frozenset(t for t in come if found[t] is None or not found[t]),
        )

    def values(self, value: SSAValue) -> Each:
        if value not in self.known:
            self.known[value] = self._made(value)
        return self.known[value]

    def _made(self, value: SSAValue) -> Each:
        count = LANES * self.warps
        match owner := value.owner:
            case IdentityOp() if owner.which.data in _NUMBERS and not self.split:
                return list(map(_NUMBERS[owner.which.data], range(count)))
            case ConstOp() if isinstance(owner.constant, IntegerAttr):
                return [owner.constant.value.data] * count
            case ArithOp():
                inputs = [self.values(v) for v in owner.inputs]
                return [_applied(owner.kind.data, parts) for parts in zip(*inputs, strict=True)]
            case s.ElectedOp() if owner.scope.data == "one" and not self.split:
                return [None if t < LANES else 0 for t in range(count)]
            case _:
                return [None] * count


_NUMBERS = {"thread": lambda t: t, "lane": lambda t: t % LANES, "warp": lambda t: t // LANES}


def _applied(kind: str, parts: tuple[Any, ...]) -> Any:
    if None not in parts:
        try:
            return SCALARS[kind].of(*parts)
        except (ArithmeticError, ValueError):
            return None
    return 0 if kind == "and" and 0 in parts else None  # of numbers, too


def ranges(threads: Iterable[int]) -> str:
    """`0 to 3 and 8`."""
    rows = [
        [t for _, t in row] for _, row in groupby(enumerate(sorted(threads)), lambda x: x[1] - x[0])
    ]
    told = [str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in rows]
    if len(told) > 4:
        told = [*told[:3], f"{len(told) - 3} more ranges"]
    return " and ".join(filter(None, [", ".join(told[:-1]), told[-1]]))
