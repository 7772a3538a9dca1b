"""Which threads of a role a condition lets through, from the numbers of lanes, warps and threads that it tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import AtomicOp, LoadElementOp
from tkc.ir.stage.explicit import IdentityOp, TryWaitOp, WhileOp
from tkc.ir.stage.numbers import NumberOp
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp

LANES = 32


class Varies(IntEnum):
    """Whether a value is the same in all threads of a role, in those of each warpgroup that shares its rows, in those
    of each warp, or in none."""

    NOWHERE = 0
    BY_GROUP = 1
    BY_WARP = 2
    BY_LANE = 3


@dataclass(frozen=True)
class Guard:
    """What a condition tests: that a thread is one `lane` of its warp, that its warp is number `warp` of the role, and
    `rest`, conditions that are the same in all threads. `elected` is the scope where an election chooses the lane.
    `never`: no warp has such a lane, or two are asked for at once; `number` is the lane's, 0 of an elected one."""

    lane: bool = False
    warp: int | None = None
    elected: str = ""
    rest: tuple[SSAValue, ...] = ()
    never: bool = False
    number: int = field(default=0, compare=False)

    @property
    def narrows(self) -> bool:
        return self.lane or self.warp is not None


def varies(value: SSAValue, seen: set[SSAValue] | None = None) -> Varies:
    """How a value differs between the threads of a role."""
    seen = set() if seen is None else seen
    if value in seen:
        return Varies.NOWHERE
    seen.add(value)
    owner = value.owner
    match owner:
        case ConstOp():
            return Varies.NOWHERE
        case IdentityOp():
            return Varies.BY_WARP if owner.which.data == "warp" else Varies.BY_LANE
        case s.ElectedOp():
            return Varies.BY_LANE
        case s.GroupOp():
            return Varies.BY_GROUP
        case AtomicOp() | TryWaitOp():
            return Varies.BY_LANE
        case LoadElementOp():
            return max((varies(v, seen) for v in owner.indices), default=Varies.NOWHERE)
        case NumberOp():
            return max(varies(v, seen) for v in owner.inputs)
        case ArithOp():
            found = _numbered(value)
            if found is not None:
                return Varies.BY_WARP if found == "warp" else Varies.BY_LANE
            return max((varies(v, seen) for v in owner.inputs), default=Varies.NOWHERE)
        case s.IfOp() | s.ForOp() | WhileOp():
            sources = _sources(owner, owner.results.index(value))  # type: ignore[arg-type]
        case Block() if isinstance(loop := owner.parent_op(), s.ForOp):
            at = value.index - 1  # pyright: ignore[reportAttributeAccessIssue]
            sources = [loop.lower, loop.step] if at < 0 else _sources(loop, at)
        case Block() if isinstance(loop := owner.parent_op(), WhileOp):
            sources = _sources(loop, value.index)  # pyright: ignore[reportAttributeAccessIssue]
        case _:
            return Varies.NOWHERE
    return max((varies(v, seen) for v in sources), default=Varies.NOWHERE)


def _sources(op: Operation, at: int) -> list[SSAValue]:
    """What result `at` of a loop or condition is made of."""
    found: list[SSAValue] = []
    match op:
        case s.IfOp():
            found.append(op.condition)
        case s.ForOp():
            found += [op.inits[at], op.lower, op.upper, op.step]
        case WhileOp():
            last = op.test.block.last_op
            found += [op.inits[at], *(last.operands if last is not None else ())]
        case _:
            pass
    for region in op.regions if not isinstance(op, WhileOp) else op.regions[1:]:
        for block in region.blocks:
            if isinstance(block.last_op, s.YieldOp):
                found.append(block.last_op.values[at])
    return found


def _number(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, ConstOp) and isinstance(owner.constant, IntegerAttr):
        return owner.constant.value.data
    return None


_WITHIN: dict[tuple[str, int | None], str] = {
    ("mod", LANES): "lane",
    ("and", LANES - 1): "lane",
    ("div", LANES): "warp",
    ("shr", 5): "warp",
}
"""Arithmetic on a thread's number that gives its lane or warp."""
_DIVIDED = {kind for kind, _ in _WITHIN}


def _numbered(value: SSAValue) -> str | None:
    """`lane`, `warp` or `thread` where a value is that number."""
    owner = value.owner
    if isinstance(owner, IdentityOp):
        return owner.which.data
    if isinstance(owner, ArithOp) and owner.kind.data in _DIVIDED:
        number, by = owner.inputs
        found = _WITHIN.get((owner.kind.data, _number(by)))
        return found if found is not None and _numbered(number) == "thread" else None
    return None


def guard_of(condition: SSAValue) -> Guard | None:
    """What a condition tests; None where it lets other sets of threads through than a lane or a warp."""
    owner = condition.owner
    if isinstance(owner, s.ElectedOp):
        return Guard(lane=True, elected=owner.scope.data)
    if isinstance(owner, ArithOp):
        kind = owner.kind.data
        if kind == "and":
            return _both(*(guard_of(v) for v in owner.inputs))
        if kind in ("eq", "lt"):
            found = _tested(owner)
            if found is not None:
                return found
    return None if varies(condition) else Guard(rest=(condition,))


def _tested(op: ArithOp) -> Guard | None:
    left, right = op.inputs
    number, what = _number(right), _numbered(left)
    if op.kind.data == "eq" and what is None:
        number, what = _number(left), _numbered(right)
    if op.kind.data == "lt":
        number = 0 if number == 1 else None  # below 1 is 0
    if number is None or number < 0:
        return None
    if what == "lane":
        return Guard(lane=True, never=number >= LANES, number=number)
    if what == "warp":
        return Guard(warp=number)
    if what == "thread":
        return Guard(lane=True, warp=number // LANES, number=number % LANES)
    return None


def _both(a: Guard | None, b: Guard | None) -> Guard | None:
    if a is None or b is None or (a.lane and b.lane and (a.elected or b.elected)):
        return None
    contrary = a.lane and b.lane and a.number != b.number
    contrary |= a.warp is not None and b.warp is not None and a.warp != b.warp
    warp = a.warp if a.warp is not None else b.warp
    elected, rest = a.elected or b.elected, (*a.rest, *b.rest)
    number = a.number if a.lane else b.number
    return Guard(a.lane or b.lane, warp, elected, rest, contrary or a.never or b.never, number)


def passing(
    condition: SSAValue, threads: Iterable[int]
) -> tuple[frozenset[int], tuple[SSAValue, ...]] | None:
    """Those of some threads of a role, by their numbers, whose lanes, warps and numbers a condition lets through, and
    what else it asks, of all threads alike; None where it compares them with more than constants."""
    rest: list[SSAValue] = []
    asked: list[SSAValue] = []
    stack = [condition]
    while stack:
        now = stack.pop()
        if isinstance(now.owner, ArithOp) and now.owner.kind.data == "and":
            stack += now.owner.inputs
        else:
            (asked if varies(now) else rest).append(now)
    found = list(threads)
    try:
        for one in asked:
            found = [t for t in found if _of_thread(one, t)]
    except _NotOfThreads:
        return None
    return frozenset(found), tuple(rest)


class _NotOfThreads(Exception):
    """A value that a thread's number does not give."""


def _of_thread(value: SSAValue, thread: int) -> int:
    """An integer that is made of a thread's numbers and constants."""
    owner = value.owner
    if isinstance(owner, IdentityOp):
        return {"lane": thread % LANES, "warp": thread // LANES}.get(owner.which.data, thread)
    number = _number(value)
    if number is not None:
        return number
    if not isinstance(owner, ArithOp):
        raise _NotOfThreads
    inputs = [_of_thread(v, thread) for v in owner.inputs]
    if owner.kind.data in ("div", "mod", "cdiv") and not inputs[1]:
        raise _NotOfThreads
    return int(SCALARS[owner.kind.data].of(*inputs))
