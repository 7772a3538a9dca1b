"""Guard what one thread does by `elect.sync`, so that ptxas sees straight code and emits no loop over lanes.

Before: operations say who executes them (`one` thread of the role, one `lane` of each warp, `all`), nothing is guarded.
After: single-thread operations stand in conditions on an elected predicate, computed once at the role's start: a
role that only one thread runs is guarded whole; elsewhere each run of such operations is.
Here because: every operation that one thread must issue exists by now (barriers, fences), and lowering prints one
branch for each condition; a guard that ptxas does not recognise costs a serialising loop round each copy or product.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, i1
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import By
from tkc.ir.stage.types import AccumulatorType


class Who(StrEnum):
    """Who executes a statement: one of `By`, nobody in particular, or different threads in different parts."""

    ONE = "one"
    LANE = "lane"
    ALL = "all"
    NEUTRAL = "neutral"
    MIXED = "mixed"


@dataclass(frozen=True)
class ElectSingleThreadPass(ModulePass):
    """`elect-single-thread`."""

    name = "elect-single-thread"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for role in [r for r in op.walk() if isinstance(r, s.RoleOp)]:
            RoleElection(role).run()


def who(op: Operation) -> Who:
    """Who executes an operation with all that is in it."""
    if isinstance(op, s.ForOp | s.IfOp):
        return _join(
            [who(inner) for region in op.regions for block in region.blocks for inner in block.ops]
        )
    by = op.executed_by if isinstance(op, s.StageOp) else None
    return Who(by.value) if by is not None else Who.NEUTRAL


def _join(parts: list[Who]) -> Who:
    kinds = dict.fromkeys(p for p in parts if p is not Who.NEUTRAL)
    if not kinds:
        return Who.NEUTRAL
    return next(iter(kinds)) if len(kinds) == 1 else Who.MIXED


def _may_leave(result: SSAValue) -> bool:
    """Whether one thread's result may be used by code that all run: an accumulator is a place, the same for all."""
    return not result.uses.get_length() or isinstance(result.type, AccumulatorType)


def _within(op: Operation, body: Block) -> bool:
    """Whether an operation stands in a block, or in a region of one that does."""
    block = op.parent_block()
    while block is not None and block is not body:
        parent = block.parent_op()
        block = parent.parent_block() if parent is not None else None
    return block is body


def _before(value: SSAValue, body: Block) -> SSAValue:
    """What an accumulator was before the products of a block."""
    while isinstance(op := value.owner, s.MmaOp | s.ScaledMmaOp) and op.parent_block() is body:
        value = op.source
    return value


class RoleElection:
    """One role."""

    def __init__(self, role: s.RoleOp) -> None:
        self.role = role
        self.elected: dict[Who, SSAValue] = {}

    def run(self) -> None:
        block = self.role.body.block
        if _join([who(op) for op in block.ops]) is Who.ONE:
            inner = Block()
            for op in list(block.ops):
                op.detach()
                inner.add_op(op)
            self._guard(block, None, inner, Who.ONE)
        else:
            self._block(block)

    def _block(self, block: Block) -> None:
        """Guards each run of single-thread operations; pure operations between them stay outside, before the run."""
        run: list[Operation] = []
        kind = Who.NEUTRAL
        for op in list(block.ops):
            executed = who(op)
            if executed is Who.NEUTRAL and op.has_trait(Pure):
                if any(operand.owner in run for operand in op.operands):
                    self._close(run, kind)
                    run, kind = [], Who.NEUTRAL
                continue
            if executed in (Who.ONE, Who.LANE) and all(_may_leave(r) for r in op.results):
                if executed is not kind:
                    self._close(run, kind)
                    run, kind = [], executed
                run.append(op)
                continue
            self._close(run, kind)
            run, kind = [], Who.NEUTRAL
            for region in op.regions:
                for inner in region.blocks:
                    self._block(inner)
        self._close(run, kind)

    def _close(self, run: list[Operation], kind: Who) -> None:
        if not run:
            return
        block = run[-1].parent_block()
        after = run[-1].next_op
        assert block is not None
        inner = Block()
        for op in run:
            op.detach()
            inner.add_op(op)
        self._guard(block, after, inner, kind)

    def _guard(self, block: Block, before: Operation | None, body: Block, kind: Who) -> None:
        """Accumulators used after the region leave it: after its products for the elected thread, else as before."""
        last = body.last_op
        assert last is not None
        leaving = [
            r
            for op in body.ops
            for r in op.results
            if any(not _within(use.operation, body) for use in r.uses)
        ]
        sources = [_before(r, body) for r in leaving]
        regions = [Region(body)]
        if leaving:
            regions.append(Region(Block([s.YieldOp.create(operands=sources)])))
        guarded = s.IfOp.create(
            operands=[self._predicate(kind)],
            regions=regions,
            result_types=[r.type for r in leaving],
        )
        for inside, outside in zip(leaving, guarded.results, strict=True):
            inside.replace_uses_with_if(outside, lambda use: not _within(use.operation, body))
        body.add_op(s.YieldOp.create(operands=leaving))
        guarded.location = last.location
        if before is None:
            block.add_op(guarded)
        else:
            block.insert_op_before(guarded, before)

    def _predicate(self, kind: Who) -> SSAValue:
        """The elected predicate, made once at the role's start: the same thread then issues and waits throughout."""
        if kind not in self.elected:
            op = s.ElectedOp.create(
                properties={"scope": StringAttr(By(kind.value).value)}, result_types=[i1]
            )
            op.location = self.role.location
            block = self.role.body.block
            if block.first_op is None:
                block.add_op(op)
            else:
                block.insert_op_before(op, block.first_op)
            op.value.name_hint = f"elected_{kind.value}"
            self.elected[kind] = op.value
        return self.elected[kind]
