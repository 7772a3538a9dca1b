"""Statements of a role: loops, items of pipes, products; copies and register tiles have files of their own."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import StringAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tkc.diagnostics import TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import AccumulatorType, Home
from tkc.ir.syntax import segments
from tkc.ir.tile import ops as t
from tkc.ir.tile.types import AccumType, RegsType
from tkc.passes.placement.copies import copy
from tkc.passes.placement.explicit import changed, explicit
from tkc.passes.placement.state import Placement, Slot, integer, names

Loop = s.ForOp | s.WorkLoopOp


def statements(p: Placement, block: Block) -> None:
    """Every statement of a block, in order."""
    for op in block.ops:
        with p.emit.at(op.location):
            _statement(p, op)


def _statement(p: Placement, op: Operation) -> None:
    match op:
        case SizeOp() | ConstOp() | ArithOp():
            p.scalar(op)
        case t.ForTilesOp():
            _for_tiles(p, op)
        case t.ForBlocksOp():
            _for_blocks(p, op)
        case t.PutOp() | t.GetOp():
            _item(p, op)
        case t.ZeroOp():
            key = p.role.key(op.accum)
            source = p.role.accumulators[key]
            p.role.accumulators[key] = p.emit.value(
                s.ZeroOp.create(operands=[source], result_types=[source.type])
            )
        case t.MmaOp():
            _mma(p, op)
        case t.CopyOp():
            copy(p, op)
        case t.SliceOp() | t.ReadOp() | t.CastOp() | t.MapOp() | t.YieldOp():
            pass  # made where they are used
        case _ if explicit(p, op):
            pass
        case _:
            raise TkcError.at("TK110", f"{op.name} in a role is not supported yet", location_of(op))


# Loops ---------------------------------------------------------------------------------------------------------------


def _for_tiles(p: Placement, op: t.ForTilesOp) -> None:
    schedule = op.work.owner
    assert isinstance(schedule, t.ScheduleOp)
    extents = [
        p.emit.arith("cdiv", p.values[e], p.emit.const(n.value.data))
        for e, n in zip(schedule.extents, schedule.sizes, strict=True)
    ]

    def make(inits: list[SSAValue], body: Region, types: list[Attribute]) -> Loop:
        return s.WorkLoopOp.create(
            operands=[*extents, *inits],
            properties={
                "schedule": schedule.sym_name,
                "group": schedule.group,
                **segments(len(extents), len(inits)),
            },
            regions=[body],
            result_types=types,
        )

    _loop(p, op, len(extents), make)


def _for_blocks(p: Placement, op: t.ForBlocksOp) -> None:
    blocks = p.emit.arith("cdiv", p.values[op.extent], p.emit.const(op.size.value.data))
    bounds = (p.emit.const(0), blocks, p.emit.const(1))

    def make(inits: list[SSAValue], body: Region, types: list[Attribute]) -> Loop:
        return s.ForOp.create(operands=[*bounds, *inits], regions=[body], result_types=types)

    _loop(p, op, 1, make)


def _loop(
    p: Placement,
    op: t.ForTilesOp | t.ForBlocksOp,
    counters: int,
    make: Callable[[list[SSAValue], Region, list[Attribute]], Loop],
) -> None:
    """A loop that carries scalars, and the accumulators which its body changes."""
    if any(isinstance(v.type, RegsType) for v in op.inits):
        raise TkcError.at(
            "TK110", "a register tile carried round a loop is not supported yet", location_of(op)
        )
    flowing = changed(p, op)
    given = [p.values[v] for v in op.inits]
    inits = [*given, *(p.role.accumulators[a] for a in flowing)]
    types = [v.type for v in inits]
    body = Block(arg_types=[*[i32] * counters, *types])
    for old, new in zip(op.body.block.args, body.args, strict=False):
        p.values[old] = new
        new.name_hint = old.name_hint
    first = counters + len(given)
    p.role.accumulators.update(zip(flowing, body.args[first:], strict=True))
    with p.emit.inside(body):
        statements(p, op.body.block)
        last = op.body.block.last_op
        assert last is not None
        handed = [p.values[v] for v in last.operands]
        handed += [p.role.accumulators[a] for a in flowing]
        p.emit.add(s.YieldOp.create(operands=handed))
    loop = p.emit.add(make(inits, Region(body), types))
    for old, new in zip(op.results, loop.results, strict=False):
        p.values[old] = new
        new.name_hint = old.name_hint
    p.role.accumulators.update(zip(flowing, loop.results[len(given) :], strict=True))


# Items ---------------------------------------------------------------------------------------------------------------


def _item(p: Placement, op: t.PutOp | t.GetOp) -> None:
    """One item of each pipe: acquire or wait, the body, commit or release once the accesses are done."""
    if any(isinstance(v.type, RegsType) for v in op.values):
        raise TkcError.at(
            "TK110",
            "a register tile that outlives its get is not supported yet; use it inside",
            location_of(op),
        )
    args = list(op.body.block.args)
    opened: list[tuple[SSAValue, SSAValue, list[Slot]]] = []
    for pipe in op.pipes:
        declared = pipe.owner
        assert isinstance(declared, t.PipeOp)
        make = s.AcquireOp if isinstance(op, t.PutOp) else s.WaitOp
        ring = p.rings[pipe]
        slot = p.emit.value(make.create(operands=[ring], result_types=[i32]), "slot")
        slots = [_open(p, args.pop(0), tile, slot) for tile in declared.tiles]
        opened.append((ring, slot, slots))
    statements(p, op.body.block)
    for ring, slot, slots in opened:
        how = list(dict.fromkeys(h for x in slots for h in x.how))
        if How.WGMMA in how:
            _await_products(p)
        properties: dict[str, Attribute] = {"how": names(how)}
        if isinstance(op, t.PutOp):
            properties["bytes"] = integer(sum(x.bytes for x in slots))
            held = [
                p.role.accumulators[a]
                for a in op.body.block.args
                if a in p.role.accumulators and p.role.slots[a] in slots
            ]
            p.emit.add(s.CommitOp.create(operands=[ring, slot, *held], properties=properties))
        else:
            p.emit.add(s.ReleaseOp.create(operands=[ring, slot], properties=properties))
    for arg in op.body.block.args:
        p.role.accumulators.pop(arg, None)
    last = op.body.block.last_op
    if op.values and last is not None:
        p.values.update((r, p.values[v]) for r, v in zip(op.values, last.operands, strict=True))


def _open(p: Placement, arg: SSAValue, tile: SSAValue, slot: SSAValue) -> Slot:
    """One tile's slot; an accumulator's contents flow on as a value."""
    opened = p.role.slots[arg] = Slot(tile, p.values[tile], slot)
    if isinstance(tile.type, AccumType):
        type = AccumulatorType.of(opened.type.dtype.data, opened.type.shape)
        p.role.accumulators[arg] = p.emit.value(
            s.OpenOp.create(operands=[opened.buffer, slot], result_types=[type])
        )
    return opened


# Products ------------------------------------------------------------------------------------------------------------


def _await_products(p: Placement) -> None:
    for arg, value in p.role.accumulators.items():
        if isinstance(value.owner, s.MmaOp):
            p.role.accumulators[arg] = p.emit.value(
                s.MmaWaitOp.create(
                    operands=[value],
                    properties={"pending": integer(0), "id": p.id("products")},
                    result_types=[value.type],
                )
            )


def _mma(p: Placement, op: t.MmaOp) -> None:
    how = How.TCGEN05 if p.home is Home.TENSOR else How.WGMMA
    a, b = p.role.slots[op.a], p.role.slots[op.b]
    key = p.role.key(op.d)
    for operand in (op.a, op.b, key):
        p.role.slots[operand].touch(how)
    properties: dict[str, Attribute] = {"trans_a": op.trans_a, "trans_b": op.trans_b}
    if p.home is Home.REGISTER:
        properties["by"] = StringAttr(s.By.ALL.value)
    if op.alone is not None:
        properties["alone"] = op.alone
    source = p.role.accumulators[key]
    p.role.accumulators[key] = p.emit.value(
        s.MmaOp.create(
            operands=[source, a.buffer, a.slot, b.buffer, b.slot],
            properties=properties,
            result_types=[source.type],
        )
    )
