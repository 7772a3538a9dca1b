"""Turn each loop over a schedule into a counted loop over this work unit's items, once no two loops need to be joined.

Before: `stage.work_loop` names its schedule and gives a block number for each axis.
After: `stage.for` from the unit's index by the number of units; the body begins by computing the block numbers; the
launch contract has its grid.
Here because: `fuse-roles` compares schedules by name, so it comes earlier; `lower-pipes` threads ring state through
plain loops.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.launch import expression
from tkc.ir.contract import to_attribute
from tkc.ir.emit import Emitter
from tkc.ir.stage import ops as s


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
            totals: list[Any] = []
            for loop in loops:
                total = _product([expression(e) for e in loop.extents])
                if total not in totals:
                    totals.append(total)
                lower(loop)
            ctas = grid(totals, kernel.cluster, numbered)
            kernel.contract = DictionaryAttr(
                {**kernel.contract.data, "grid": to_attribute([ctas, 1, 1])}
            )


def _product(factors: list[Any]) -> Any:
    return factors[0] if len(factors) == 1 else {"op": "mul", "of": factors}


def grid(totals: list[Any], cluster: IntegerAttr | None = None, numbered: bool = False) -> Any:
    """A persistent launch: one CTA on each multiprocessor, or as many clusters as are resident at once; no more than
    there are items. A kernel without a schedule runs once, or everywhere if it asks which unit it is, `numbered`."""
    ctas = 1 if cluster is None else cluster.value.data
    if not totals:
        most = (
            {"sym": "sm_count"}
            if cluster is None
            else {"op": "mul", "of": [{"sym": "max_clusters"}, ctas]}
        )
        return most if numbered else ctas
    items = totals[0] if len(totals) == 1 else {"op": "max", "of": totals}
    if cluster is None:
        return {"op": "min", "of": [{"sym": "sm_count"}, items]}
    return {"op": "mul", "of": [{"op": "min", "of": [{"sym": "max_clusters"}, items]}, ctas]}


def lower(loop: s.WorkLoopOp) -> None:
    """Replaces one work loop."""
    block = loop.parent_block()
    assert block is not None
    before = Emitter(Block(), loop.location)
    total = reduce(lambda x, y: before.arith("mul", x, y), loop.extents)
    index = before.value(
        s.UnitOp.create(properties={"which": StringAttr("index")}, result_types=[i32]), "unit"
    )
    count = before.value(
        s.UnitOp.create(properties={"which": StringAttr("count")}, result_types=[i32]), "units"
    )

    old = loop.body.block
    axes = len(loop.extents)
    body = Block(arg_types=[i32, *(v.type for v in loop.inits)])
    body.args[0].name_hint = "item"
    emit = Emitter(body, loop.location)
    extents = list(loop.extents)
    if loop.outermost is None:
        numbers = block_numbers(emit, body.args[0], extents, loop.group.value.data)
    else:
        down = loop.descending is not None
        numbers = ordered_numbers(emit, body.args[0], extents, loop.outermost.value.data, down)
    for arg, new in zip(old.args, [*numbers, *body.args[1:]], strict=True):
        if new.name_hint is None or new.name_hint.startswith("c"):
            new.name_hint = arg.name_hint
        arg.replace_all_uses_with(new)
    for op in list(old.ops):
        op.detach()
        body.add_op(op)
    new_loop = before.add(
        s.ForOp.create(
            operands=[index, total, count, *loop.inits],
            regions=[Region(body)],
            result_types=[r.type for r in loop.results],
        )
    )
    assert len(numbers) == axes
    for op in list(before.block.ops):
        op.detach()
        block.insert_op_before(op, loop)
    for result, new_result in zip(loop.results, new_loop.results, strict=True):
        result.replace_all_uses_with(new_result)
    loop.detach()
    loop.erase()


def block_numbers(
    emit: Emitter, item: SSAValue, extents: list[SSAValue], group: int
) -> list[SSAValue]:
    """The block number on each axis of item `item`: last axis fastest; the last two in bands of `group` rows.

    A band is walked column by column, so that neighbouring items share blocks of both axes (better hits in L2); the
    last band may be lower.
    """
    if group == 1 or len(extents) == 1:
        return _plain(emit, item, extents)
    rows, columns = extents[-2:]
    outer: list[SSAValue] = []
    if extents[:-2]:
        plane = emit.arith("mul", rows, columns)
        outer = _plain(emit, emit.arith("div", item, plane), extents[:-2])
        item = emit.arith("mod", item, plane)
    size = emit.const(group)  # the launch checks that group * columns fits 32 bits
    width = emit.arith("mul", size, columns)
    band = emit.arith("div", item, width)
    first = emit.arith("mul", band, size)
    height = emit.arith("min", emit.arith("sub", rows, first), size)
    inside = emit.arith("sub", item, emit.arith("mul", band, width))
    row = emit.arith("add", first, emit.arith("mod", inside, height))
    return [*outer, row, emit.arith("div", inside, height)]


def ordered_numbers(
    emit: Emitter, item: SSAValue, extents: list[SSAValue], axis: int, descending: bool
) -> list[SSAValue]:
    """The block numbers where all items of one block of an axis come before those of the next, or of the one before."""
    outer, *rest = _plain(emit, item, [extents[axis], *extents[:axis], *extents[axis + 1 :]])
    if descending:
        last = emit.arith("sub", extents[axis], emit.const(1))
        outer = emit.arith("sub", last, outer)
    return [*rest[:axis], outer, *rest[axis:]]


def _plain(emit: Emitter, item: SSAValue, extents: list[SSAValue]) -> list[SSAValue]:
    """Last axis fastest."""
    numbers: list[SSAValue] = []
    for extent in reversed(extents[1:]):
        numbers.insert(0, emit.arith("mod", item, extent))
        item = emit.arith("div", item, extent)
    return [item, *numbers]
