"""Explicit synchronisation: stage operations pass with their operands mapped, slots and copies are placed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tkc.diagnostics import TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import explicit as e
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType, Home
from tkc.ir.tile import explicit as x
from tkc.ir.tile import ops as t
from tkc.ir.tile.types import AccumType
from tkc.passes.placement.copies import box_of, check_box
from tkc.passes.placement.state import Placement, Slot


def is_explicit(tile: SSAValue) -> bool:
    """Whether no pipe carries a declared tile."""
    return not any(isinstance(use.operation, t.PipeOp) for use in tile.uses)


def open_accumulators(p: Placement, role: t.RoleOp) -> None:
    """Accumulators in registers flow through a role from its start: nobody else can name their registers."""
    if p.home is not Home.REGISTER:
        return
    for op in role.walk():
        if not isinstance(op, x.SlotOp) or not isinstance(op.tile.type, AccumType):
            continue
        p.role.known[op.slot] = op.tile
        if op.tile not in p.role.accumulators:
            slot = p.emit.const(0)
            p.role.slots[op.tile] = Slot(op.tile, p.values[op.tile], slot)
            _open(p, op.tile, p.role.slots[op.tile])


def _open(p: Placement, key: SSAValue, slot: Slot) -> None:
    type = AccumulatorType.of(slot.type.dtype.data, slot.type.shape)
    p.role.accumulators[key] = p.emit.value(
        s.OpenOp.create(operands=[slot.buffer, slot.slot], result_types=[type])
    )


def explicit(p: Placement, op: Operation) -> bool:
    """Places one operation of explicit code; says whether it was one."""
    match op:
        case x.SlotOp():
            _slot(p, op)
        case x.PartOp():
            first = p.emit.arith("mul", p.values[op.block], p.emit.const(op.count.value.data))
            p.values[op.part] = p.emit.arith("add", first, p.values[op.index])
        case x.BlockNumberOp():
            p.values[op.value] = p.values[op.block]
        case x.LoadOp():
            _load(p, op)
        case x.StoreOp():
            slot = p.role.slots[op.source]
            check_box(slot.type, op)
            box = box_of(p, op.destination, slot.type.shape)
            p.emit.add(
                s.TmaStoreOp.create(
                    operands=[slot.buffer, slot.slot, box.tensor, *box.starts],
                    properties={"box": box.extents, **op.properties},
                )
            )
        case x.ReadColumnsOp():
            pass  # made where it is used
        case x.RestartOp():
            key = p.role.key(op.accum)
            source = p.role.accumulators[key]
            p.role.accumulators[key] = p.emit.value(
                e.RestartOp.create(operands=[source, p.values[op.keep]], result_types=[source.type])
            )
        case x.ProductsWaitOp():
            _wait_products(p, op)
        case s.ForOp():
            _loop(p, op)
        case e.WhileOp():
            _while(p, op)
        case s.IfOp():
            _if(p, op)
        case s.YieldOp():
            pass  # the region that it ends reads it
        case s.StageOp() if not op.regions:
            _copy(p, op)
        case _:
            return False
    return True


def _copy(p: Placement, op: Operation) -> None:
    """The same operation on what its operands have become."""
    mapped = {v: p.values[v] for v in op.operands}
    copy = op.clone(mapped)
    p.emit.add(copy)
    for old, new in zip(op.results, copy.results, strict=True):
        p.values[old] = new
        new.name_hint = old.name_hint


def _slot(p: Placement, op: x.SlotOp) -> None:
    if op.slot in p.role.known:
        return
    slot = p.role.slots[op.slot] = Slot(op.tile, p.values[op.tile], p.values[op.index])
    if isinstance(op.tile.type, AccumType):
        _open(p, op.slot, slot)


def _load(p: Placement, op: x.LoadOp) -> None:
    slot = p.role.slots[op.destination]
    check_box(slot.type, op)
    box = box_of(p, op.source, slot.type.shape)
    p.emit.add(
        e.TmaLoadToOp.create(
            operands=[
                box.tensor, slot.buffer, slot.slot, p.values[op.barriers], p.values[op.entry], *box.starts,
            ],
            properties={"box": box.extents, **op.properties},
        )
    )  # fmt: skip


def _wait_products(p: Placement, op: x.ProductsWaitOp) -> None:
    """Each accumulator in registers is handed through the wait, so that reads of it stay behind."""
    if p.home is not Home.REGISTER:
        raise TkcError.at(
            "TK202",
            f"products complete on a barrier on {p.target.name}: `commit full[slot]` after them, "
            "then `wait full[slot], phase`",
            location_of(op),
        )
    for key, value in p.role.accumulators.items():
        if key in p.role.known.values():
            p.role.accumulators[key] = p.emit.value(
                s.MmaWaitOp.create(
                    operands=[value],
                    properties={"pending": op.pending, "id": op.id},
                    result_types=[value.type],
                )
            )


# Regions -------------------------------------------------------------------------------------------------------------


def changed(p: Placement, op: Operation) -> list[SSAValue]:
    """The open accumulators that an operation's regions change, in order."""
    found: dict[SSAValue, None] = {}
    for inner in op.walk():
        match inner:
            case t.MmaOp():
                found[p.role.key(inner.d)] = None
            case t.ZeroOp() | x.RestartOp():
                found[p.role.key(inner.accum)] = None
            case x.ProductsWaitOp():
                found |= dict.fromkeys(p.role.known.values())
            case _:
                pass
    return [a for a in found if a in p.role.accumulators]


def _region(
    p: Placement, block: Block, arguments: Sequence[Attribute], accumulators: Sequence[SSAValue]
) -> Region:
    """A placed region: its first arguments are the old ones, then the accumulators that flow through it."""
    from tkc.passes.placement.statements import statements

    outer = {a: p.role.accumulators[a] for a in accumulators}
    body = Block(arg_types=list(arguments))
    for old, new in zip(block.args, body.args, strict=False):
        p.values[old] = new
        new.name_hint = old.name_hint
    if arguments:
        p.role.accumulators.update(zip(accumulators, body.args[len(block.args) :], strict=True))
    with p.emit.inside(body):
        statements(p, block)
        last = block.last_op
        assert last is not None
        given = [p.values[v] for v in last.operands]
        flowing = [p.role.accumulators[a] for a in accumulators]
        p.emit.add(s.YieldOp.create(operands=[*given, *flowing]))
    p.role.accumulators.update(outer)
    return Region(body)


def _bind(p: Placement, old: Operation, new: Operation, accumulators: Sequence[SSAValue]) -> None:
    count = len(old.results)
    for before, after in zip(old.results, new.results, strict=False):
        p.values[before] = after
        after.name_hint = before.name_hint
    p.role.accumulators.update(zip(accumulators, new.results[count:], strict=True))


def _loop(p: Placement, op: s.ForOp) -> None:
    flowing = changed(p, op)
    inits = [*(p.values[v] for v in op.inits), *(p.role.accumulators[a] for a in flowing)]
    types = [v.type for v in inits]
    bounds = [p.values[v] for v in (op.lower, op.upper, op.step)]
    region = _region(p, op.body.block, [i32, *types], flowing)
    new = s.ForOp.create(operands=[*bounds, *inits], regions=[region], result_types=types)
    _bind(p, op, p.emit.add(new), flowing)


def _while(p: Placement, op: e.WhileOp) -> None:
    flowing = changed(p, op)
    inits = [*(p.values[v] for v in op.inits), *(p.role.accumulators[a] for a in flowing)]
    types = [v.type for v in inits]
    test = _region(p, op.test.block, types, flowing)
    last = test.block.last_op
    assert last is not None
    last.operands = last.operands[:1]
    body = _region(p, op.body.block, types, flowing)
    new = e.WhileOp.create(operands=inits, regions=[test, body], result_types=types)
    _bind(p, op, p.emit.add(new), flowing)


def _if(p: Placement, op: s.IfOp) -> None:
    flowing = changed(p, op)
    types = [*op.result_types, *(p.role.accumulators[a].type for a in flowing)]
    regions = [_region(p, region.block, (), flowing) for region in op.regions if region.blocks]
    if flowing and len(regions) == 1:
        other = Block([s.YieldOp.create(operands=[p.role.accumulators[a] for a in flowing])])
        regions.append(Region(other))
    new = s.IfOp.create(operands=[p.values[op.condition]], regions=regions, result_types=types)
    _bind(p, op, p.emit.add(new), flowing)
