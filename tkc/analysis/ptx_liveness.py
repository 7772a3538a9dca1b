"""Where each PTX value is alive, as segments of positions along the text, holes of untaken branches left out."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from tkc.ir.ptx.control import ForOp, IfOp, RepeatOp, UntilOp, WhileOp, YieldOp
from tkc.ir.ptx.instruction import Instruction
from tkc.ir.ptx.registers import type_of
from tkc.ir.ptx.values import ImmOp, JoinOp, SliceOp, UndefOp, root

Segment = tuple[int, int]
"""First and last position, both inside. Operation number n reads at 2n and writes at 2n + 1."""

Loop = ForOp | RepeatOp | WhileOp
Structured = Loop | IfOp

_SILENT = frozenset({ImmOp, SliceOp, UndefOp})
_WITHOUT_SEGMENTS = frozenset({ImmOp, UndefOp})
# Sets of exact types, since asking an abstract base class for each operand would take most of the time.


def loop_parts(
    op: Loop,
) -> tuple[Sequence[SSAValue], Sequence[Sequence[SSAValue]], Sequence[SSAValue]]:
    """What a loop carries: the values before it, its block arguments (a row for each region), the next turn's."""
    match op:
        case ForOp():
            return op.inits, [op.body.block.args[1:]], terminator_values(op.body)
        case RepeatOp():
            return op.inits, [op.body.block.args], terminator_values(op.body)
        case WhileOp():
            return op.inits, [op.test.block.args, op.body.block.args], terminator_values(op.body)


def terminator_values(region: Region) -> Sequence[SSAValue]:
    """The values that the end of a region hands on."""
    last = region.block.last_op
    return last.values if isinstance(last, YieldOp | UntilOp) else ()


class Liveness:
    """The segments of every value of a kernel's body that holds registers; slices count as uses of their tuple.

    Constants and undefined values have none: they may share registers with anything.
    """

    def __init__(self, body: Block) -> None:
        self.segments: dict[SSAValue, list[Segment]] = {}
        self.structured: list[Structured] = []
        """Loops and branches, inner ones before those round them."""
        self._place: dict[Operation, int] = {}
        self._end: dict[Operation, int] = {}
        self._entry: dict[Region, int] = {}
        self._born: dict[SSAValue, int] = {}
        self._loops: list[tuple[int, dict[SSAValue, None]]] = []
        self._free: dict[Operation, dict[SSAValue, None]] = {}
        self._now = 0
        self._number(body)
        self._open: dict[SSAValue, int] = {}
        self._opened: list[SSAValue] = []
        self._block(body)
        for value, end in self._open.items():
            self.segments.setdefault(value, []).append((0, end))
        for segments in self.segments.values():
            segments.sort()

    # Forward: a number for each operation, and which outer values each loop uses.

    def _number(self, block: Block) -> None:
        born = self._born
        for argument in block.args:
            born[argument] = self._now
        op = block.first_op
        while op is not None:
            self._now += 1
            self._place[op] = self._now
            if self._loops:
                for value in op._operands:  # pyright: ignore[reportPrivateUsage]
                    if type(value.owner) is SliceOp:
                        value = root(value)
                    if born.get(value, 0) < self._loops[-1][0]:
                        self._note_free(value)
            for result in op.results:
                born[result] = self._now
            if op.regions:
                self._number_regions(op)
            op = op.next_op

    def _number_regions(self, op: Operation) -> None:
        loop = isinstance(op, Loop)
        if loop:
            free: dict[SSAValue, None] = {}
            self._free[op] = free
            self._loops.append((self._now, free))
        for region in op.regions:
            self._now += 1
            self._entry[region] = self._now
            self._number(region.block)
        if loop:
            self._loops.pop()
        self._now += 1
        self._end[op] = self._now
        # Results are born after the regions.
        for result in op.results:
            self._born[result] = self._now
        if isinstance(op, Structured):
            self.structured.append(op)

    def _note_free(self, value: SSAValue) -> None:
        born = self._born.get(value, 0)
        for start, free in reversed(self._loops):
            if born >= start:
                return
            free[value] = None

    # Backward: segments open at a last use and close at the definition.

    def _use(self, value: SSAValue, at: int) -> None:
        if type(value.owner) is SliceOp:
            value = root(value)
        if value not in self._open and type(value.owner) not in _WITHOUT_SEGMENTS:
            self._open[value] = at
            self._opened.append(value)

    def _define(self, value: SSAValue, at: int) -> None:
        end = self._open.pop(value, at)
        self.segments.setdefault(value, []).append((at, end))

    def _block(self, block: Block) -> None:
        op = block.last_op
        while op is not None:
            if not op.regions:
                if type(op) not in _SILENT:
                    self._plain(op)
            elif isinstance(op, IfOp):
                self._branch(op)
            elif isinstance(op, Loop):
                self._loop(op)
            op = op.prev_op

    def _plain(self, op: Operation) -> None:
        now = 2 * self._place[op]
        mapped = 0
        for result in op.results:
            self._define(result, now + 1)
            mapped = type_of(result).count
        if isinstance(
            op, JoinOp
        ):  # moves, one after the other: no source may be where an earlier one goes
            for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
                self._use(operand, now + 1)
            return
        if not (mapped and isinstance(op, Instruction) and op.SHAPE.maps):
            for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
                self._use(operand, now)
            return
        # Several lines: a register that is not read at the place where it is written must outlive them all. Those come
        # first, since the latest use of a value is the one that counts.
        late: list[SSAValue] = []
        aligned: list[SSAValue] = []
        for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
            same = type_of(operand).count == mapped and type(operand.owner) is not SliceOp
            (aligned if same else late).append(operand)
        for operand in late:
            self._use(operand, now + 1)
        for operand in aligned:
            self._use(operand, now)

    def _carry(self, argument: SSAValue, terminator: Operation | None, end: int) -> None:
        """The next turn's value sits in the argument's register from the end of the body on."""
        at = 2 * self._place[terminator] + 1 if terminator is not None else 2 * end
        self.segments.setdefault(argument, []).append((at, 2 * end))

    def _loop(self, op: Loop) -> None:
        start, end = self._place[op], self._end[op]
        for result in op.results:
            self._define(result, 2 * end + 1)
        for value in self._free[op]:
            self._use(value, 2 * end)
        body = op.body.block
        for argument in body.args[1:] if isinstance(op, ForOp) else body.args:
            self._carry(argument, body.last_op, end)
        match op:
            case ForOp():
                self._use(op.upper, 2 * end)
                self._use(op.step, 2 * end)
                self._use(body.args[0], 2 * end)
                self._region(body, 2 * start + 1)
            case RepeatOp():
                last = body.last_op
                if isinstance(last, UntilOp):
                    self._use(last.condition, 2 * end)
                self._region(body, 2 * start + 1)
            case WhileOp():
                test = op.test.block
                proceed = test.last_op
                decided = self._place[proceed] if proceed is not None else start
                self._region(body, 2 * decided + 1)
                for argument in test.args:
                    self._use(argument, 2 * decided)
                self._region(test, 2 * start + 1)
        for operand in op._operands:  # pyright: ignore[reportPrivateUsage]
            if not (isinstance(op, ForOp) and operand in (op.upper, op.step)):
                self._use(operand, 2 * start)

    def _region(self, block: Block, at: int) -> None:
        self._block(block)
        for argument in block.args:
            self._define(argument, at)

    def _branch(self, op: IfOp) -> None:
        start, end = self._place[op], self._end[op]
        for result in op.out:
            self._define(result, 2 * end + 1)
        before: dict[SSAValue, None] = {}
        outer = self._opened
        for region in op.regions:
            last = region.block.last_op
            if last is not None:
                written = 2 * self._place[last] + 1
                for result in op.out:
                    self.segments[result].append((written, written))
            self._opened = []
            self._block(region.block)
            # What only this side reads is dead on the other: the segment ends where the side begins.
            for value in self._opened:
                last_use = self._open.pop(value, None)
                if last_use is not None:
                    self.segments.setdefault(value, []).append((2 * self._entry[region], last_use))
                    before[value] = None
        self._opened = outer
        for value in before:
            self._use(value, 2 * start)
        self._use(op.condition, 2 * start)
