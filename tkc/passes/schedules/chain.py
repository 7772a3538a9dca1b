"""Items of groups, one after another, of sizes that only the device knows: a loop over groups, in it one over items.

Every role counts for itself, from the same constant counts, so that all have the same items and none waits to be told.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, UnitAttr, i32
from xdsl.ir import Block, Region, SSAValue

from tkc.ir.emit import Emitter
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.tile.types import TensorType
from tkc.passes.schedules.order import block_numbers, take_body


def is_chain(loop: s.WorkLoopOp) -> bool:
    return any(isinstance(e.type, TensorType) for e in loop.extents)


def lower_chain(loop: s.WorkLoopOp) -> None:
    """Replaces one work loop: each unit takes every so many-th item, counted on from group to group."""
    block = loop.parent_block()
    assert block is not None
    before = Emitter(Block(), loop.location)
    unit, units = _unit(before, "index", "unit"), _unit(before, "count", "units")
    zero, one = before.const(0), before.const(1)
    groups = Block(arg_types=[i32, i32, *(v.type for v in loop.inits)])
    emit = Emitter(groups, loop.location)
    group, first = groups.args[:2]
    group.name_hint, first.name_hint = loop.body.block.args[0].name_hint, "first"
    extents = _extents(emit, loop, group)
    count = extents[0]
    for extent in extents[1:]:
        count = emit.arith("mul", count, extent)
    carried = _items(emit, loop, [group, first, count, units], extents, list(groups.args[2:]))
    left = emit.arith("max", emit.arith("sub", count, first), emit.const(0))
    taken = emit.arith("mul", emit.arith("cdiv", left, units), units)
    behind = emit.arith("sub", emit.arith("add", first, taken), count, hint="first")
    emit.add(s.YieldOp.create(operands=[behind, *carried]))
    new = before.add(
        s.ForOp.create(
            operands=[zero, loop.extents[0], one, unit, *loop.inits],
            properties={"chained": loop.schedule},
            regions=[Region(groups)],
            result_types=[i32, *(r.type for r in loop.results)],
        )
    )
    for op in list(before.block.ops):
        op.detach()
        block.insert_op_before(op, loop)
    for result, new_result in zip(loop.results, new.results[1:], strict=True):
        result.replace_all_uses_with(new_result)
    loop.detach()
    loop.erase()


def _unit(emit: Emitter, which: str, hint: str) -> SSAValue:
    op = s.UnitOp.create(properties={"which": StringAttr(which)}, result_types=[i32])
    return emit.value(op, hint)


def _extents(emit: Emitter, loop: s.WorkLoopOp, group: SSAValue) -> list[SSAValue]:
    """How many blocks a group has on each axis but the first; a count below 0 is none."""
    assert loop.sizes is not None
    found: list[SSAValue] = []
    for extent, size in list(zip(loop.extents, loop.sizes, strict=True))[1:]:
        if not isinstance(extent.type, TensorType):
            found.append(extent)
            continue
        load = LoadElementOp.create(
            operands=[extent, group], properties={"constant": UnitAttr()}, result_types=[i32]
        )
        number = emit.arith("max", emit.value(load, "count"), emit.const(0))
        found.append(emit.arith("cdiv", number, emit.const(size.value.data)))
    return found


def _items(
    emit: Emitter,
    loop: s.WorkLoopOp,
    numbers: list[SSAValue],
    extents: list[SSAValue],
    carried: list[SSAValue],
) -> list[SSAValue]:
    """The loop over this unit's items of a group, where it has any; gives what is carried on."""
    group, first, count, units = numbers
    some = emit.arith("lt", first, count, hint="some")
    types = [v.type for v in carried]
    body = Block(arg_types=[i32, *types])
    inner = Emitter(body, loop.location)
    item = body.args[0]
    item.name_hint = "item"
    blocks = block_numbers(inner, item, extents, loop.group.value.data, loop.serpentine is not None)
    take_body(loop, body, [group, *blocks, *body.args[1:]])
    then = Block()
    with emit.inside(then):
        turns = s.ForOp.create(
            operands=[first, count, units, *carried], regions=[Region(body)], result_types=types
        )
        emit.add(turns)
        emit.add(s.YieldOp.create(operands=[*turns.results]))
    regions = [Region(then)]
    if carried:
        regions.append(Region(Block([s.YieldOp.create(operands=carried)])))
    chosen = s.IfOp.create(operands=[some], regions=regions, result_types=types)
    return list(emit.add(chosen).results)
