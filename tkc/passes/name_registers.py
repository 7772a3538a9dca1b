"""Gives every PTX value its final register name, and makes the moves between them explicit.

Before: ptx kernels with structured control; block arguments, results of loops and branches, and tied operands are
values of their own.

After: every register has a name in its type; a loop's initial value, block argument, next value and result have one
name, as have a branch's result and what its sides yield, and the operand and result of a tied instruction. Where that
takes a copy, a `ptx.mov` makes it. Constants stay unnamed, and a slice has the names of its part.

Here because: nothing that moves or makes values may follow, and the text needs nothing else.

A wgmma accumulator is never moved: values joined by a tied operand share registers or the pass raises `Bug`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.parallel_copy import Copy, in_order
from tkc.analysis.ptx_liveness import Liveness, Segment, Structured, loop_parts, terminator_values
from tkc.diagnostics import Bug
from tkc.ir.interned import string
from tkc.ir.isa.memory import Done, Effect, Space, Touch
from tkc.ir.locations import location_of
from tkc.ir.ptx.control import ForOp, IfOp, WhileOp
from tkc.ir.ptx.instruction import Instruction, instruction
from tkc.ir.ptx.kernel import KernelOp
from tkc.ir.ptx.registers import PREFIXES, RegisterType, reg, retype, type_of
from tkc.ir.ptx.values import ImmOp, SliceOp, UndefOp, root
from tkc.ir.syntax import construct

_MOVE_TYPES = {
    "pred": ".pred",
    "b16": ".b16",
    "b32": ".b32",
    "f32": ".b32",
    "b64": ".b64",
    "f64": ".b64",
}
"""How `mov` is typed for each register class."""

_FIRST = {kind: 1 if kind == "pred" else 0 for kind in PREFIXES}
"""The first index of each class; `%p0` is the loops' own."""


_PARTS_AND_CONSTANTS = frozenset({ImmOp, SliceOp})

_KNOWN: set[type[Operation]] = set()
_ASYNCHRONOUS: set[type[Operation]] = set()
"""Classes that have been looked at, and those of them with tied operands or registers that they use after issue."""


def _outlives(effect: Effect) -> TypeGuard[Touch]:
    """Whether an instruction touches registers after it was issued."""
    return (
        isinstance(effect, Touch) and effect.space is Space.REGISTER and effect.done is not Done.NOW
    )


def _is_asynchronous(kind: type[Operation]) -> bool:
    _KNOWN.add(kind)
    if not issubclass(kind, Instruction):
        return False
    if not (kind.SHAPE.tied or any(_outlives(e) for e in kind.ROW.effects)):
        return False
    _ASYNCHRONOUS.add(kind)
    return True


@dataclass(eq=False, slots=True)
class Web:
    """Values that share registers. `tied` ones are the accumulators of an asynchronous instruction; `pinned` ones are
    read by one after it was issued, so that nothing else may come to live in their registers."""

    kind: str
    count: int
    segments: list[Segment]
    values: list[SSAValue] = field(default_factory=list)
    tied: bool = False
    pinned: bool = False
    base: int = -1

    def meets(self, other: Web) -> bool:
        """Whether both are alive at some place."""
        mine, theirs = self.segments, other.segments
        i = j = 0
        while i < len(mine) and j < len(theirs):
            if mine[i][1] < theirs[j][0]:
                i += 1
            elif theirs[j][1] < mine[i][0]:
                j += 1
            else:
                return True
        return False

    def absorb(self, other: Web) -> None:
        """Takes over another's values; segments that touch become one."""
        joined: list[Segment] = []
        for start, end in sorted(self.segments + other.segments):
            if joined and start <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        self.segments = joined
        self.values += other.values
        self.tied |= other.tied
        self.pinned |= other.pinned


_Move = tuple[SSAValue, SSAValue, int]
"""Target, source, and which operand of the operation before which it stands reads the target."""


class Naming:
    """The naming of one kernel."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.body = kernel.body.block
        self.webs: dict[SSAValue, Web] = {}
        self.undefined: list[Operation] = []
        self.asynchronous: list[Instruction] = []
        self.copies: list[tuple[Operation, list[_Move]]] = []
        self.in_flight: set[SSAValue] = set()

    def run(self) -> None:
        self._prepare(self.body)
        self._split_undefined()
        self.liveness = Liveness(self.body)
        self._join_tied()
        loops = self.liveness.structured
        for op in loops:
            self._join_arguments(op)
        # Next values first: a move there runs every turn, one before the loop only once.
        for op in loops:
            self._join_next_values(op)
        # What may be in flight so far; a tuple that only starts accumulators may be copied to several of them.
        self.in_flight = {v for web in self.webs.values() if web.tied for v in web.values}
        for op in loops:
            self._join_initial_values(op)
        # Their order depends on what shares registers, so that it comes after every joining.
        for before, copies in self.copies:
            self._copy(copies, before)
        self._assign()

    def web(self, value: SSAValue) -> Web:
        found = self.webs.get(value)
        if found is None:
            type = type_of(value)
            segments = self.liveness.segments.get(value, [])
            found = self.webs[value] = Web(type.kind, type.count, list(segments), [value])
        return found

    def _prepare(self, block: Block) -> None:
        """Takes names away that an earlier run gave, and finds what the joining looks at."""
        for argument in block.args:
            if type_of(argument).named:
                retype(argument, type_of(argument).unnamed())
        op = block.first_op
        while op is not None:
            for result in op.results:
                if type_of(result).named:
                    retype(result, type_of(result).unnamed())
            kind = type(op)
            if kind is UndefOp:
                self.undefined.append(op)
            elif kind in _ASYNCHRONOUS or (kind not in _KNOWN and _is_asynchronous(kind)):
                self.asynchronous.append(op)  # pyright: ignore[reportArgumentType]
            for region in op.regions:
                self._prepare(region.block)
            op = op.next_op

    def _split_undefined(self) -> None:
        """An undefined value for each use: they cost nothing, and each may then share its user's registers."""
        for op in self.undefined:
            block, value = op.parent, op.results[0]
            if block is not None and value.has_more_than_one_use():
                for use in list(value.uses)[:-1]:
                    copy = construct(UndefOp, (), (value.type,), {}, op.location)
                    block.insert_op_after(copy, op)
                    use.operation.operands[use.index] = copy.result

    # Which values share registers

    def _join(self, first: SSAValue, second: SSAValue, *, same: bool = False) -> bool:
        """Lets two values share registers if they are never alive together; says whether they do.

        `same` values are one by their nature, as a loop's block argument and its result are.
        """
        if type(second.owner) in _PARTS_AND_CONSTANTS or type(first.owner) in _PARTS_AND_CONSTANTS:
            return False
        one, other = self.web(first), self.web(second)
        if one is other:
            return True
        if one.kind != other.kind or one.count != other.count or one.meets(other):
            return False
        if (one.pinned or other.pinned) and not (same or one.tied or other.tied):
            return False
        if len(one.values) < len(other.values):
            one, other = other, one
        one.absorb(other)
        for value in other.values:
            self.webs[value] = one
        return True

    def _must_join(self, op: Operation, first: SSAValue, second: SSAValue) -> None:
        if not self._join(first, second, same=True):
            where = location_of(op)
            raise Bug(
                "name-registers",
                f"{op.name}{f' at {where}' if where else ''}: {second.type} cannot be in the registers of the "
                "accumulator that follows it without a move, since it is a part or a constant, or is used later on",
            )

    def _join_tied(self) -> None:
        for op in self.asynchronous:
            tied = op.SHAPE.tied
            for result, operand in tied.items():
                written, read = getattr(op, result), getattr(op, operand)
                self.web(written).tied = True
                self._must_join(op, written, read)
            for effect in op.ROW.effects:
                if _outlives(effect) and effect.operand not in {*tied, *tied.values()}:
                    for value in op.group(effect.operand):
                        self.web(root(value)).pinned = True

    def _join_arguments(self, op: Structured) -> None:
        if not isinstance(op, IfOp):
            _, rows, _ = loop_parts(op)
            for arguments in (*rows[1:], op.carried):
                for first, second in zip(rows[0], arguments, strict=True):
                    self._must_join(op, first, second)

    def _join_next_values(self, op: Structured) -> None:
        rows = [op.out] * 2 if isinstance(op, IfOp) else [loop_parts(op)[1][0]]
        regions = op.regions[-1:] if isinstance(op, WhileOp) else op.regions
        for targets, region in zip(rows, regions, strict=False):
            values = terminator_values(region)
            last = region.block.last_op
            if values and last is not None:
                first = len(last.operands) - len(values)
                indices = range(first, first + len(values))
                self._join_or_copy(op, targets, values, last, indices, inside=True)

    def _join_initial_values(self, op: Structured) -> None:
        if isinstance(op, IfOp):
            return
        inits, rows, _ = loop_parts(op)
        first = len(op.operands) - len(inits)
        targets, sources = list(rows[0]), list(inits)
        indices = list(range(first, first + len(inits)))
        if isinstance(op, ForOp):
            targets.insert(0, op.body.block.args[0])
            sources.insert(0, op.lower)
            indices.insert(0, 0)
        self._join_or_copy(op, targets, sources, op, indices, inside=False)

    def _join_or_copy(
        self,
        op: Operation,
        targets: Sequence[SSAValue],
        sources: Sequence[SSAValue],
        before: Operation,
        indices: Sequence[int],
        *,
        inside: bool,
    ) -> None:
        """Joins each source, operand number `indices` of `before`, with its target, or notes a copy before `before`.

        `inside` marks the end of a loop's body or of a branch, where an accumulator may not be written at all.
        """
        copies: list[_Move] = []
        for target, source, index in zip(targets, sources, indices, strict=True):
            if self._join(target, source):
                continue
            if self.web(target).tied and (inside or root(source) in self.in_flight):
                self._must_join(op, target, source)
            copies.append((target, source, index))
        if copies:
            self.copies.append((before, copies))

    def _copy(self, copies: Sequence[_Move], before: Operation) -> None:
        block = before.parent
        if block is None:
            return
        plan: list[Copy] = []
        for target, source, _ in copies:
            origin = root(source)
            constant = isinstance(origin.owner, ImmOp)
            plan.append(
                Copy(self.web(target), None if constant else self.web(origin), origin is source)
            )
        saved: dict[int, SSAValue] = {}
        for step in in_order(plan):
            target, source, index = copies[step.index]
            type = type_of(target).unnamed()
            move = _move(saved.get(step.index, source), type, before)
            block.insert_op_before(move, before)
            made = move.results[0]
            if step.saves:
                saved[step.index] = made
                self.webs[made] = Web(type.kind, type.count, [], [made])
            else:
                web = self.web(target)
                web.values.append(made)
                self.webs[made] = web
                before.operands[index] = made

    # Names

    def _assign(self) -> None:
        free = dict(_FIRST)

        def name(value: SSAValue) -> None:
            type = type_of(value)
            web = webs.get(value)
            if web is None or web.base < 0:
                base = free[type.kind]
                free[type.kind] += type.count or 1
                if web is not None:
                    web.base = base
            else:
                base = web.base
            retype(value, reg(type.kind, type.count, base))

        webs = self.webs
        _for_each_value(self.body, name)


def _move(source: SSAValue, type: RegisterType, at: Operation) -> Operation:
    """A move of `source` to registers of `type`, at the place of `at`."""
    kind = instruction("mov")
    if type.kind not in _MOVE_TYPES:
        raise Bug("name-registers", f"nothing moves a register of class {type.kind}")
    properties = {"type": string(_MOVE_TYPES[type.kind])}
    return construct(kind, (source,), (type,), properties, at.location)


def _for_each_value(block: Block, name: Callable[[SSAValue], None]) -> None:
    """Names the values of a block in the order of the text; slices follow their tuples."""
    for argument in block.args:
        name(argument)
    op = block.first_op
    while op is not None:
        if type(op) is SliceOp:
            (whole,), (part,) = op._operands, op.results  # pyright: ignore[reportPrivateUsage]
            retype(part, op.part_of(type_of(whole)))
        elif type(op) is not ImmOp:
            for result in op.results:
                name(result)
        for region in op.regions:
            _for_each_value(region.block, name)
        op = op.next_op


@dataclass(frozen=True)
class NameRegistersPass(ModulePass):
    name = "name-registers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                Naming(kernel).run()
