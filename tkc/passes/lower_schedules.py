"""Turn each loop over a schedule into a counted loop over this work unit's items, once no two loops need to be joined.

Before: `stage.work_loop` names its schedule and gives a block number for each axis.
After: `stage.for` from the unit's index by the number of units; the body begins by computing the block numbers; the
launch contract has its grid. Where the device counts the blocks of each group, a loop over groups holds that loop.
With `launch clc` the loop is over items taken over from units that have not started, one unit an item: a role of its
own asks for them, and a ring carries the answers.
Here because: `fuse-roles` compares schedules by name, so it comes earlier; `lower-pipes` threads ring state through
plain loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, i1, i32
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

from tkc.analysis.launch import expression
from tkc.diagnostics import Diagnostic, Severity, TkcError, report
from tkc.ir.contract import to_attribute
from tkc.ir.emit import Emitter
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.target import target_of
from tkc.passes.schedules.chain import is_chain, lower_chain
from tkc.passes.schedules.order import block_numbers, ordered_numbers, take_body

if TYPE_CHECKING:
    from tkc.passes.schedules.stealing import Answers


@dataclass(frozen=True)
class LowerSchedulesPass(ModulePass):
    """`lower-schedules`."""

    name = "lower-schedules"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            loops = [o for o in kernel.walk() if isinstance(o, s.WorkLoopOp)]
            numbered = any(
                isinstance(o, s.UnitOp) and o.which.data != "rank" for o in kernel.walk()
            )
            totals = list_of_totals(loops)
            answers = _answers(kernel, loops, op)
            chained = any(is_chain(loop) for loop in loops)
            for loop in loops:
                if is_chain(loop):
                    lower_chain(loop)
                else:
                    lower(loop, answers)
            ctas = grid(totals, kernel, numbered or chained, answers is not None)
            kernel.contract = DictionaryAttr(
                {**kernel.contract.data, "grid": to_attribute([ctas, 1, 1])}
            )


def list_of_totals(loops: list[s.WorkLoopOp]) -> list[Any]:
    """How many items the schedules have, each number once; none where the device counts them."""
    totals: list[Any] = []
    if any(is_chain(loop) for loop in loops):
        return totals  # only the device knows
    for loop in loops:
        total = _product([expression(e) for e in loop.extents])
        if total not in totals:
            totals.append(total)
    return totals


def _answers(kernel: s.KernelOp, loops: list[s.WorkLoopOp], module: ModuleOp) -> Answers | None:
    """Where a kernel's units get their items from, if not by counting."""
    if kernel.clc is None or not loops:
        return None
    chain = next((loop for loop in loops if is_chain(loop)), None)
    if chain is not None:
        _not_handed_out(kernel, chain)
        return None
    from tkc.passes.schedules.stealing import Answers, steals  # few kernels take over items

    return Answers(kernel, loops) if steals(kernel, target_of(module)) else None


def _not_handed_out(kernel: s.KernelOp, chain: s.WorkLoopOp) -> None:
    """TK110 where the hardware was to hand out what only the device counts; `persistent` beside it takes its place."""
    if kernel.persistent is None:
        raise TkcError.at(
            "TK110",
            "not supported yet: `launch clc` with a chain, whose items only the device counts; `launch persistent` "
            "fits, or a schedule of as many tiles a group as there is room for (examples/gemm_grouped.tk)",
            location_of(chain),
        )
    told = "the items of a chain are not handed out: the launch is persistent"
    report(Diagnostic("TK219", told, location_of(kernel), Severity.REMARK))


def _product(factors: list[Any]) -> Any:
    return factors[0] if len(factors) == 1 else {"op": "mul", "of": factors}


def grid(
    totals: list[Any], kernel: s.KernelOp, numbered: bool = False, stolen: bool = False
) -> Any:
    """A persistent launch: one CTA on each multiprocessor, or as many clusters as are resident at once; no more than
    there are items. A kernel without a schedule runs once, or everywhere if it asks which unit it is, `numbered`. Where
    items are `stolen` there is a unit for each."""
    ctas = 1 if kernel.cluster is None else kernel.cluster.value.data
    asked = ctas if kernel.minimum is None else kernel.minimum.value.data
    resident = _times({"sym": "sm_count" if asked == 1 else "max_clusters"}, asked // ctas)
    if not totals:
        return _times(resident, ctas) if numbered else ctas
    items = totals[0] if len(totals) == 1 else {"op": "max", "of": totals}
    return _times(items if stolen else {"op": "min", "of": [resident, items]}, ctas)


def _times(count: Any, each: int) -> Any:
    return count if each == 1 else {"op": "mul", "of": [count, each]}


def lower(loop: s.WorkLoopOp, answers: Answers | None = None) -> None:
    """Replaces one work loop; `answers` say what its items are, if they are not counted."""
    block = loop.parent_block()
    assert block is not None
    before = Emitter(Block(), loop.location)
    stolen = [] if answers is None else [i1, i32]
    body = Block(arg_types=[i32, *stolen, *(v.type for v in loop.inits)])
    emit = Emitter(body, loop.location)
    item = body.args[len(stolen)]
    item.name_hint = "item"
    extents, down = list(loop.extents), loop.descending is not None
    if loop.outermost is not None:
        numbers = ordered_numbers(emit, item, extents, loop.outermost.value.data, down)
    else:
        serpentine = loop.serpentine is not None
        numbers = block_numbers(emit, item, extents, loop.group.value.data, serpentine)
    take_body(loop, body, [*numbers, *body.args[1 + len(stolen) :]])
    if answers is None:
        new_loop = before.add(_counted(before, loop, body))
    else:
        new_loop = before.add(_taken_over(before, loop, body, answers))
    for op in list(before.block.ops):
        op.detach()
        block.insert_op_before(op, loop)
    for result, new_result in zip(loop.results, new_loop.results[len(stolen) :], strict=True):
        result.replace_all_uses_with(new_result)
    loop.detach()
    loop.erase()


def _counted(before: Emitter, loop: s.WorkLoopOp, body: Block) -> s.ForOp:
    """From this unit's index by the number of units."""
    total = reduce(lambda x, y: before.arith("mul", x, y), loop.extents)
    index = before.value(
        s.UnitOp.create(properties={"which": StringAttr("index")}, result_types=[i32]), "unit"
    )
    count = before.value(
        s.UnitOp.create(properties={"which": StringAttr("count")}, result_types=[i32]), "units"
    )
    return s.ForOp.create(
        operands=[index, total, count, *loop.inits],
        regions=[Region(body)],
        result_types=[r.type for r in loop.results],
    )


def _taken_over(before: Emitter, loop: s.WorkLoopOp, body: Block, answers: Answers) -> s.ForOp:
    """This unit's own item, then as long as there is one more."""
    from tkc.passes.schedules.stealing import stolen_loop

    role, last = loop.parent_op(), body.last_op
    assert isinstance(role, s.RoleOp)
    assert isinstance(last, s.YieldOp)
    carried = list(last.operands)
    last.detach()
    last.erase()
    emit = Emitter(body, loop.location)
    emit.add(s.YieldOp.create(operands=[*answers.next(emit, answers.by[role]), *carried]))
    return stolen_loop(before, body, list(loop.inits))
