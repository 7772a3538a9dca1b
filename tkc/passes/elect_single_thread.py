"""Guard what one thread does by `elect.sync`, so that ptxas sees straight code and emits no loop over lanes.

Before: operations say who executes them (`one` thread of the role, one `lane` of each warp, `all`), nothing is guarded.
After: single-thread operations stand in conditions on an elected predicate, computed once at the role's start: a
role that only one thread runs is guarded whole; elsewhere each run of such operations is. Guards that the program
wrote (`elect:`, `lane == 0`, `thread % 32 == 0`, a warp's number, several of these) become branches on the same
predicates where that is the same program; inside a test of the warp alone, runs get a guard of their own.
Here because: every operation that one thread must issue exists by now (barriers, fences), and lowering prints one
branch for each condition; a guard that ptxas does not recognise costs a serialising loop round each copy or product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import MemoryEffectKind, Pure, only_has_effect

from tkc.analysis.guards import Guard, Varies, guard_of, varies
from tkc.diagnostics import Diagnostic, Note, Severity, TkcError, report
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import IdentityOp, NamedBarrierOp, WhileOp
from tkc.ir.stage.ops import By
from tkc.ir.stage.scalar import arith, const
from tkc.ir.stage.tensor_operands import TensorMmaOp
from tkc.ir.stage.types import AccumulatorType
from tkc.ir.stage.words import words
from tkc.ir.syntax import all_inside


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
        for role in [r for r in all_inside(op) if isinstance(r, s.RoleOp)]:
            RoleElection(role).run()


def who(op: Operation, *, alone: bool = False) -> Who:
    """Who executes an operation with all that is in it; under a test of threads, some.

    `alone`: no other thread does anything, so that what it reads for itself need not be read by others.
    """
    if isinstance(op, s.IfOp):
        guard = guard_of(op.condition)
        if guard is None or guard.narrows:
            return Who.MIXED
    if op.regions:
        inner = [o for region in op.regions for block in region.blocks for o in block.ops]
        return _join([who(o, alone=alone) for o in inner])
    by = op.executed_by if isinstance(op, s.StageOp) else None
    if by is None or (alone and _only_reads(op)):
        return Who.NEUTRAL
    return Who(by.value)


def _only_reads(op: Operation) -> bool:
    """Whether each thread reads for itself, and nobody else notices."""
    return isinstance(op, s.StageOp) and op.EACH and only_has_effect(op, MemoryEffectKind.READ)


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
    while (
        isinstance(op := value.owner, s.MmaOp | s.ScaledMmaOp | TensorMmaOp)
        and op.parent_block() is body
    ):
        value = op.source
    return value


class Where(StrEnum):
    """Which threads come to a place: all of the role, all of one warp, or some that no election can tell."""

    ROLE = "role"
    WARP = "warp"
    SOME = "some"


class RoleElection:
    """One role."""

    def __init__(self, role: s.RoleOp) -> None:
        self.role = role
        self.warps = role.warps.value.data
        self.elected: dict[Who, SSAValue] = {}
        self.chosen: dict[int, SSAValue] = {}
        self.looked = False
        """Whether conditions that no thread meets have been told."""

    def run(self) -> None:
        block = self.role.body.block
        if _join([who(op, alone=True) for op in block.ops]) is Who.ONE:
            inner = Block()
            for op in list(block.ops):
                op.detach()
                inner.add_op(op)
            self._guard(block, None, inner, Who.ONE)
        else:
            self._block(block, Where.ROLE)

    def _block(self, block: Block, where: Where) -> None:
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
                if where is Where.SOME and isinstance(op, s.StageOp) and op.ALONE:
                    self._close(run, kind)
                    run, kind = [], Who.NEUTRAL
                    continue
                if where is Where.SOME:
                    raise _several(op)
                if where is Where.WARP:
                    executed = Who.LANE
                if executed is not kind:
                    self._close(run, kind)
                    run, kind = [], executed
                run.append(op)
                continue
            self._close(run, kind)
            run, kind = [], Who.NEUTRAL
            if isinstance(op, s.IfOp):
                self._condition(op, where)
                continue
            inside = where
            if any(varies(v) for v in _decides(op)):
                check_alone(
                    op, op.regions, "under a loop that threads leave one by one", warp=False
                )
                inside = Where.SOME
            for region in op.regions:
                for inner in region.blocks:
                    self._block(inner, inside)
        self._close(run, kind)

    # Guards that the program wrote

    def _condition(self, op: s.IfOp, where: Where) -> None:
        """A condition: one that tests threads is an election where it can be, any other is looked into."""
        guard = guard_of(op.condition)
        if not self.looked and (guard is None or guard.narrows):
            from tkc.analysis.reach import unmet

            self.looked = True
            for told in unmet(self.role):
                report(told)
        if guard is not None and guard.warp is not None and self.warps == 1 and guard.warp == 0:
            guard = replace(guard, warp=None)
        if guard is not None and not guard.narrows:
            self._inside(op.regions, where)
        elif guard is not None and guard.lane:
            check_alone(op, op.regions[:1], "which one thread of a warp runs alone", warp=False)
            if guard.never:  # as it is written: an election would choose a lane
                self._inside(op.regions[:1], Where.SOME if where is Where.SOME else Where.WARP)
            else:
                self._elect(op, guard, where)
            for region in op.regions[1:]:
                check_alone(op, [region], "which all threads of a warp but one run", warp=False)
                self._inside([region], Where.SOME)
        elif guard is not None:
            check_alone(op, op.regions, "which one warp of the role runs alone", warp=True)
            self._inside(op.regions[:1], Where.WARP)
            self._inside(op.regions[1:], Where.SOME)
        else:
            by = varies(op.condition)
            where_alone = "which some threads of the role run alone"
            if by is Varies.BY_WARP:
                where_alone += (
                    "; whole warps may part, as by `warp < 2`, to meet at numbered barriers (`sync 3, 64`), else roles "
                    "do: `role math[i in 0, 1], warps 4`"
                )
            check_alone(op, op.regions, where_alone, warp=by < Varies.BY_LANE)
            self._inside(op.regions, Where.SOME)

    def _inside(self, regions: Sequence[Region], where: Where) -> None:
        for region in regions:
            for block in region.blocks:
                self._block(block, where)

    def _elect(self, op: s.IfOp, guard: Guard, where: Where) -> None:
        """Puts an elected predicate in the place of a test of the lane, and the rest of the condition beside it."""
        if where is Where.SOME or (where is Where.WARP and guard.warp is not None):
            self._keep(op, "not all lanes of a warp come to it")
            return
        inner = [o for region in op.regions[:1] for o in region.walk()]
        if not guard.elected and any(
            varies(v) is Varies.BY_LANE for o in inner for v in o.operands if _outside(v, op)
        ):
            self._keep(op, "what it guards uses the number of a lane")
            return
        if not guard.elected and any(isinstance(o, IdentityOp) for o in inner):
            self._keep(op, "what it guards asks for the number of a lane")
            return
        if guard.warp is not None:
            predicate = self._of_warp(guard.warp)
        elif guard.elected == By.ONE and where is Where.ROLE:
            predicate = self._predicate(Who.ONE)
        else:
            predicate = self._predicate(Who.LANE if self.warps > 1 else Who.ONE)
        block = op.parent_block()
        assert block is not None
        for condition in guard.rest:
            joined = arith("and", predicate, condition)
            joined.location = op.location
            block.insert_op_before(joined, op)
            predicate = joined.value
        old = op.condition
        op.operands = [predicate]
        _sweep(old)

    def _keep(self, op: s.IfOp, why: str) -> None:
        report(
            Diagnostic(
                "TK220",
                f"the condition stays as it is written, no election: {why}",
                location_of(op),
                Severity.REMARK,
            )
        )

    def _of_warp(self, warp: int) -> SSAValue:
        """Whether a thread is the elected lane of one warp of the role, made once."""
        if warp not in self.chosen:
            lane = self._predicate(Who.LANE)
            which = IdentityOp.create(properties={"which": StringAttr("warp")}, result_types=[i32])
            number = const(warp)
            equal = arith("eq", which.value, number.value)
            both = arith("and", lane, equal.value)
            after = lane.owner
            block = self.role.body.block
            assert isinstance(after, Operation)
            for op in (which, number, equal, both):
                op.location = self.role.location
                block.insert_op_after(op, after)
                after = op
            both.value.name_hint = f"elected_warp_{warp}"
            self.chosen[warp] = both.value
        return self.chosen[warp]

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


def _decides(op: Operation) -> list[SSAValue]:
    """What a loop's turns depend on."""
    if isinstance(op, s.ForOp):
        return [op.lower, op.upper, op.step]
    if isinstance(op, WhileOp) and op.test.block.last_op is not None:
        return list(op.test.block.last_op.operands)
    return []


def _outside(value: SSAValue, op: Operation) -> bool:
    """Whether a value comes from outside an operation."""
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent_block()
    while block is not None:
        parent = block.parent_op()
        if parent is op:
            return False
        block = parent.parent_block() if parent is not None else None
    return True


def _sweep(value: SSAValue) -> None:
    """Erases the pure operations that only a condition had a use for."""
    todo = [value]
    while todo:
        owner = todo.pop().owner
        pure = isinstance(owner, Operation) and owner.has_trait(Pure)
        if (
            isinstance(owner, Operation)
            and pure
            and not any(r.uses.get_length() for r in owner.results)
        ):
            todo += owner.operands
            owner.detach()
            owner.erase()


def check_alone(decides: Operation, regions: Sequence[Region], where: str, *, warp: bool) -> None:
    """TK121 where threads are to meet, or to do together, in a place that not all of them reach; `decides` says which.

    With `warp`, whole warps reach it, which may meet by themselves and come to numbered barriers.
    """
    for region in regions:
        for op in region.walk():
            together = isinstance(op, s.StageOp) and op.executed_by is By.ALL and not op.EACH
            numbered = isinstance(op, NamedBarrierOp) and op.threads is not None
            meets = warp and (isinstance(op, s.WarpSyncOp) or numbered)
            if together and not meets:
                raise TkcError.at(
                    "TK121",
                    f"{words(op)} takes all threads of the role and stands in a place {where}",
                    location_of(op),
                    Note("this differs between threads", location_of(decides)),
                    help="let all threads come to it, and only what differs stand under the condition",
                )


def _several(op: Operation) -> TkcError:
    lane = isinstance(op, s.StageOp) and op.executed_by is By.LANE
    who, round_it = (
        ("a lane of each warp", "`elect warp:`") if lane else ("one thread", "an election")
    )
    return TkcError.at(
        "TK121",
        f"{words(op)} is of {who} and stands in a place that some threads of the role reach, not one "
        f"nor a whole warp; {round_it} round it says which does it",
        location_of(op),
    )
