"""Which items of rings correspond: where a role takes and gives one back, and whether two roles' loops run alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tkc.ir.nest import outward
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.scalar import ArithOp, ConstOp

Loop = s.WorkLoopOp | s.ForOp
Take = s.AcquireOp | s.WaitOp
Give = s.CommitOp | s.ReleaseOp


class Item(NamedTuple):
    """The one place of a role where it has an item of a ring: `take` and `give` stand in the same block."""

    take: Take
    give: Give

    @property
    def slot(self) -> SSAValue:
        return self.take.slot

    @property
    def block(self) -> Block:
        block = self.take.parent_block()
        assert block is not None
        return block


def item_of(role: s.RoleOp, ring: SSAValue, end: type[s.CommitOp | s.ReleaseOp]) -> Item | None:
    """The role's item at an end of a ring (`CommitOp`: it fills it); None where it has none, or several."""
    begin = s.AcquireOp if end is s.CommitOp else s.WaitOp
    uses = [use.operation for use in ring.uses if role_of(use.operation) is role]
    takes = [op for op in uses if isinstance(op, begin)]
    gives = [op for op in uses if isinstance(op, end)]
    if len(takes) != 1 or len(gives) != 1 or gives[0].slot is not takes[0].slot:
        return None
    if takes[0].parent_block() is not gives[0].parent_block():
        return None
    return Item(takes[0], gives[0])


def role_of(op: Operation) -> s.RoleOp | None:
    """The role in which an operation stands."""
    return next((at for at in outward(op) if isinstance(at, s.RoleOp)), None)


def run_alike(one: Block, two: Block) -> bool:
    """Whether blocks of two roles run equally often and in the same order: they stand in the same nest of loops, under
    the same conditions.

    Loops over a schedule are the same by its name, counted loops by their bounds, conditions by what they compute.
    """
    return counters_of(one, two) is not None


def counters_of(one: Block, two: Block) -> dict[SSAValue, SSAValue] | None:
    """The counters of the first block's loops and those of the second's that they equal; None where nests differ."""
    here, there = _nest(one), _nest(two)
    if here is None or there is None or len(here.loops) != len(there.loops):
        return None
    counters: dict[SSAValue, SSAValue] = {}
    for a, b in zip(here.loops, there.loops, strict=True):
        if not heads_alike(a, b, counters):
            return None
        counters.update(zip(counted(a), counted(b), strict=True))
    return counters if _conditions_alike(here.conditions, there.conditions, counters) else None


def counted(loop: Loop) -> Sequence[SSAValue]:
    """The counters of a loop."""
    count = len(loop.extents) if isinstance(loop, s.WorkLoopOp) else 1
    return loop.body.block.args[:count]


Pairs = frozenset[tuple[SSAValue, SSAValue]]


def heads_alike(
    a: Loop, b: Loop, counters: dict[SSAValue, SSAValue], taken: Pairs = frozenset()
) -> bool:
    """Whether two loops turn equally often, over the same."""
    if isinstance(a, s.WorkLoopOp) and isinstance(b, s.WorkLoopOp):
        if a.schedule != b.schedule:
            return False
        heads = zip(a.extents, b.extents, strict=True)
    elif isinstance(a, s.ForOp) and isinstance(b, s.ForOp):
        heads = zip(a.operands[:3], b.operands[:3], strict=True)
    else:
        return False
    return all(same(x, y, counters, taken) for x, y in heads)


class Nest(NamedTuple):
    """What is round a block in its role: loops, outermost first, and conditions with the side on which it stands."""

    loops: list[Loop]
    conditions: list[tuple[SSAValue, int]]


def _nest(block: Block) -> Nest | None:
    """None where something else is round the block."""
    found = Nest([], [])
    parent, inner = block.parent_op(), block
    while isinstance(parent, s.WorkLoopOp | s.ForOp | s.IfOp):
        if isinstance(parent, s.IfOp):
            side = next(i for i, r in enumerate(parent.regions) if inner in r.blocks)
            found.conditions.append((parent.condition, side))
        else:
            found.loops.insert(0, parent)
        inner, parent = parent.parent_block(), parent.parent_op()
    return found if isinstance(parent, s.RoleOp) else None


def _conditions_alike(
    here: list[tuple[SSAValue, int]],
    there: list[tuple[SSAValue, int]],
    counters: dict[SSAValue, SSAValue],
) -> bool:
    """Whether each condition of one block is also one of the other, inside the same loops or outside of them: what
    they compute is the same for the same turn of each loop."""

    def among(
        condition: SSAValue, side: int, others: list[tuple[SSAValue, int]], way: bool
    ) -> bool:
        pairs = [(condition, c) if way else (c, condition) for c, other in others if other == side]
        return any(same(a, b, counters) for a, b in pairs)

    return all(among(c, side, there, True) for c, side in here) and all(
        among(c, side, here, False) for c, side in there
    )


def _pure(op: Operation | Block) -> bool:
    """Whether equal operands give equal results."""
    return isinstance(op, ConstOp | ArithOp | s.UnitOp) or (
        isinstance(op, LoadElementOp) and op.constant is not None
    )


def same(
    a: SSAValue,
    b: SSAValue,
    counters: dict[SSAValue, SSAValue] | None = None,
    taken: Pairs = frozenset(),
) -> bool:
    """Whether two scalars are the same arithmetic on the same sizes, constants and corresponding counters of loops.

    Values that loops carry are the same where they begin so, and a turn makes the same of the same: pairs in `taken`
    are taken to be the same on the way round.
    """
    if a is b or (a, b) in taken:
        return True
    counters = {} if counters is None else counters
    if type(a) is BlockArgument or type(b) is BlockArgument:
        return counters.get(a) is b or _carried_alike(carried(a), carried(b), counters, taken)
    x, y = a.owner, b.owner
    if isinstance(x, s.WorkLoopOp | s.ForOp):
        return _carried_alike(carried(a), carried(b), counters, taken)
    if isinstance(x, s.IfOp) and isinstance(y, s.IfOp):
        return same(x.condition, y.condition, counters, taken) and all(
            same(i, j, counters, taken) for i, j in zip(handed(x, a), handed(y, b), strict=True)
        )
    return (
        _pure(x)
        and _pure(y)
        and type(x) is type(y)
        and x.properties == y.properties
        and len(x.operands) == len(y.operands)
        and all(same(i, j, counters, taken) for i, j in zip(x.operands, y.operands, strict=True))
    )


class Carried(NamedTuple):
    """A value that a loop carries: before it, at the start of a turn, at its end."""

    loop: Loop
    init: SSAValue
    turn: SSAValue
    next: SSAValue


def carried(x: SSAValue) -> Carried | None:
    """What a loop's result is, or the argument of its body."""
    match x:
        case BlockArgument():
            loop, at = x.block.parent_op(), x.index
        case OpResult():
            loop, at = x.op, x.index
        case _:
            return None
    if not isinstance(loop, s.WorkLoopOp | s.ForOp):
        return None
    args, last = loop.body.block.args, loop.body.block.last_op
    first = len(args) - len(loop.results)
    if isinstance(x, BlockArgument):
        at -= first
    if at < 0 or last is None:
        return None
    return Carried(loop, loop.inits[at], args[first + at], last.operands[at])


def _carried_alike(
    a: Carried | None, b: Carried | None, counters: dict[SSAValue, SSAValue], taken: Pairs
) -> bool:
    if a is None or b is None or not heads_alike(a.loop, b.loop, counters, taken):
        return False
    inside = taken | {(a.turn, b.turn), *zip(counted(a.loop), counted(b.loop), strict=True)}
    return same(a.init, b.init, counters, taken) and same(a.next, b.next, counters, inside)


def handed(op: s.IfOp, result: SSAValue) -> list[SSAValue]:
    """What each side of a condition hands on as a result."""
    assert isinstance(result, OpResult)
    ends = [r.block.last_op for r in op.regions if r.blocks]
    return [last.operands[result.index] for last in ends if last is not None]


def ancestor(op: Operation, block: Block) -> Operation | None:
    """The operation of a block that `op` is or is in."""
    found: Operation | None = op
    while found is not None and found.parent_block() is not block:
        found = found.parent_op()
    return found


def comes_before(first: Operation, second: Operation, block: Block) -> bool:
    """Whether what stands in `first` is over when `second` begins, both in a block or in something in it."""
    a, b = ancestor(first, block), ancestor(second, block)
    if a is None or b is None or a is b:
        return False
    for op in block.ops:
        if op is a:
            return True
        if op is b:
            return False
    return False
