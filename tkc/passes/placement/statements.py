"""Statements of a role: loops, items of pipes, products; copies and register tiles have files of their own."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import StringAttr, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tkc.analysis.sharing import block_of
from tkc.diagnostics import TkcError
from tkc.ir.interned import integer
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import IdentityOp
from tkc.ir.stage.numbers import NumberOp
from tkc.ir.stage.ops import How
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.stage.tensor_operands import TensorMmaOp as StageTensorMmaOp
from tkc.ir.stage.types import AccumulatorType, Home
from tkc.ir.syntax import segments
from tkc.ir.tile import ops as t
from tkc.ir.tile import vectors as tv
from tkc.ir.tile.loops import ForPartsOp, ForSpanOp, IndexOp, PartOp, ShareOp
from tkc.ir.tile.scales import CopyScalesOp, ScaledMmaOp
from tkc.ir.tile.tensor_operands import TensorMmaOp
from tkc.ir.tile.types import AccumType, BlockType, ScaleAttr, TensorType
from tkc.passes.placement import scales, sums, vectors
from tkc.passes.placement.copies import copy
from tkc.passes.placement.keeping import (
    check_grows,
    keep,
    meet_before,
    overwritten,
    taken_round,
)
from tkc.passes.placement.regions import Flow
from tkc.passes.placement.state import Placement, Slot, names

Loop = s.ForOp | s.WorkLoopOp
Counted = t.ForBlocksOp | ForSpanOp | ForPartsOp | s.ForOp
ORDER = ("serpentine", "outermost", "descending")
"""What a schedule says of the order of its items, beside `group`."""


def statements(p: Placement, block: Block) -> None:
    """Every statement of a block, in order."""
    for op in block.ops:
        with p.emit.at(op.location):
            statement(p, op)


def statement(p: Placement, op: Operation) -> None:
    match op:
        case ArithOp() if p.role.plan.groups > 1 and _of_group(p, op):
            pass
        case SizeOp() | ConstOp() | ArithOp() | NumberOp():
            p.scalar(op)
        case t.ForTilesOp():
            _for_tiles(p, op)
        case t.ForBlocksOp() | ForPartsOp() | ForSpanOp():
            _for_blocks(p, op)
        case PartOp():
            whole, part = op.whole.type, op.part.type
            assert isinstance(whole, BlockType)
            assert isinstance(part, BlockType)
            count = p.emit.const(whole.size.data // part.size.data)
            first = p.emit.arith("mul", p.values[op.whole], count)
            p.values[op.part] = p.emit.arith("add", first, p.emit.const(op.index.value.data))
        case ShareOp():
            first = p.emit.arith("mul", p.values[op.whole], p.emit.const(p.shares(op)))
            p.values[op.part] = p.emit.arith("add", first, p.rank_of(op))
        case IndexOp():
            p.values[op.index] = p.values[op.block]
        case t.PutOp() | t.GetOp():
            _item(p, op)
        case t.TurnOp():
            properties = {"index": op.index, "count": op.count}
            made = s.TurnOp.create(
                operands=[p.rings[op.pipe]], properties=properties, result_types=[i1]
            )
            p.values[op.mine] = p.emit.value(made, "turn")
        case t.SkipOp():
            p.emit.add(s.SkipOp.create(operands=[p.rings[op.pipe]]))
        case t.ZeroOp():
            key = p.role.key(op.accum)
            source = p.role.accumulators[key]
            if not isinstance(source.owner, s.OpenOp | s.ZeroOp):
                raise TkcError.at(
                    "TK110",
                    "clearing an accumulator after a product of the same item is not supported yet; "
                    "clear it first, or put another item",
                    location_of(op),
                )
            p.role.accumulators[key] = p.emit.value(
                s.ZeroOp.create(operands=[source], result_types=[source.type])
            )
        case t.MmaOp() | ScaledMmaOp() | TensorMmaOp():
            sums.check_condition(p, op)
            sums.check_written(p, op)
            _product(p, op)
        case CopyScalesOp():
            scales.copy_scales(p, op)
        case t.KeepOp():
            keep(p, op)
        case t.CopyOp():
            copy(p, op)
        case (
            tv.ReduceOp()
            | tv.TotalOp()
            | tv.MaskOp()
            | tv.FillOp()
            | tv.ReshapeOp()
            | tv.TransposeOp()
            | t.CastOp()
            | t.MapOp()
        ):
            vectors.statement(p, op)
        case t.ReadOp():
            if overwritten(op):
                vectors.hold(p, op.value, op)
        case t.SliceOp() | tv.LoadOp() | t.YieldOp():
            pass  # made where they are used
        case _:
            from tkc.passes.placement.explicit import explicit

            if explicit(p, op):
                return
            raise TkcError.at("TK110", f"{op.name} in a role is not supported yet", location_of(op))


# Loops ---------------------------------------------------------------------------------------------------------------


def _for_tiles(p: Placement, op: t.ForTilesOp) -> None:
    schedule = op.work.owner
    assert isinstance(schedule, t.ScheduleOp)
    counted = any(isinstance(e.type, TensorType) for e in schedule.extents)
    extents = [
        p.values[e]
        if isinstance(e.type, TensorType)
        else p.emit.arith("cdiv", p.values[e], p.emit.const(n.value.data))
        for e, n in zip(schedule.extents, schedule.sizes, strict=True)
    ]

    def make(inits: list[SSAValue], body: Region, types: list[Attribute]) -> Loop:
        return s.WorkLoopOp.create(
            operands=[*extents, *inits],
            properties={
                "schedule": schedule.sym_name,
                "group": schedule.group,
                **({"sizes": schedule.sizes} if counted else {}),
                **{n: p for n, p in schedule.properties.items() if n in ORDER},
                **segments(len(extents), len(inits)),
            },
            regions=[body],
            result_types=types,
        )

    _loop(p, op, len(extents), make)


def bounds(p: Placement, op: Counted) -> tuple[SSAValue, SSAValue, SSAValue]:
    """The first number of a loop over blocks or integers, the one behind its last, and the step."""
    match op:
        case s.ForOp():
            return p.values[op.lower], p.values[op.upper], p.values[op.step]
        case t.ForBlocksOp():
            blocks = p.emit.arith("cdiv", p.values[op.extent], p.emit.const(op.size.value.data))
            return p.emit.const(0), blocks, p.emit.const(1)
        case ForSpanOp():
            return p.values[op.first], p.values[op.last], p.emit.const(1)
        case ForPartsOp():  # from the first in the larger block to its end or that of the axis
            whole = op.within.type
            assert isinstance(whole, BlockType)
            each = p.emit.const(whole.size.data // op.size.value.data)
            first = p.emit.arith("mul", p.values[op.within], each)
            blocks = p.emit.arith("cdiv", p.values[op.extent], p.emit.const(op.size.value.data))
            last = p.emit.arith("min", p.emit.arith("add", first, each), blocks)
            return first, last, p.emit.const(1)


def _for_blocks(p: Placement, op: t.ForBlocksOp | ForPartsOp | ForSpanOp) -> None:
    """Block numbers of an axis."""
    ends = bounds(p, op)

    def make(inits: list[SSAValue], body: Region, types: list[Attribute]) -> Loop:
        return s.ForOp.create(operands=[*ends, *inits], regions=[body], result_types=types)

    _loop(p, op, 1, make)


def _loop(
    p: Placement,
    op: t.ForTilesOp | t.ForBlocksOp | ForPartsOp | ForSpanOp,
    counters: int,
    make: Callable[[list[SSAValue], Region, list[Attribute]], Loop],
) -> None:
    """A loop that carries the accumulators which its body changes, and register values."""
    flow = Flow(p, op, op.inits)
    region = flow.region(op.body.block, counters)
    flow.leave(p.emit.add(make(flow.inits, region, flow.types)), op.carried)


# Items ---------------------------------------------------------------------------------------------------------------


def _item(p: Placement, op: t.PutOp | t.GetOp) -> None:
    """One item of each pipe: acquire or wait, the body, commit or release once the accesses are done."""
    args = list(op.body.block.args)
    if isinstance(op, t.PutOp):
        meet_before(p, op)
    opened: list[tuple[SSAValue, SSAValue, list[Slot]]] = []
    for pipe in op.pipes:
        declared = pipe.owner
        assert isinstance(declared, t.PipeOp)
        make = s.AcquireOp if isinstance(op, t.PutOp) else s.WaitOp
        ring = p.rings[pipe]
        slot = p.emit.value(make.create(operands=[ring], result_types=[i32]), "slot")
        slots = [_open(p, args.pop(0), tile, slot) for tile in declared.tiles]
        opened.append((ring, slot, slots))
    if isinstance(op, t.GetOp):
        sums.find(p, op)
    statements(p, op.body.block)
    last = op.body.block.last_op
    assert isinstance(last, t.YieldOp)
    for value, result in zip(last.values, op.values, strict=True):
        if value in p.role.columns and (value, 0) not in p.role.held:
            p.role.columns[result] = p.role.columns[value]
            continue
        vectors.bind(p, result, vectors.held(p, value, op))
    for ring, slot, slots in opened:
        how = list(dict.fromkeys(h for x in slots for h in x.how))
        if How.WGMMA in how:
            if p.role.known:
                from tkc.passes.placement.explicit import end_products

                end_products(p, op)
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


def _open(p: Placement, arg: SSAValue, tile: SSAValue, slot: SSAValue) -> Slot:
    """One tile's slot; an accumulator's contents flow on as a value."""
    opened = p.role.slots[arg] = Slot(tile, p.values[tile], slot)
    block = block_of(arg)
    round_ = taken_round(block, arg) if isinstance(block, t.PutOp) else None
    if round_ is not None:
        opened.taken = p.role.slots[round_]
    if isinstance(tile.type, AccumType) and not opened.type.holds_scales:
        type = AccumulatorType.of(opened.type.dtype.data, opened.type.shape)
        p.role.accumulators[arg] = p.emit.value(
            s.OpenOp.create(operands=[opened.buffer, slot], result_types=[type])
        )
    return opened


def _tensor_mma(p: Placement, op: TensorMmaOp) -> None:
    key, left, b = p.role.key(op.d), p.role.key(op.a), p.role.slots[op.b]
    for slot in (p.role.slots[key], p.role.slots[left], b):
        slot.touch(How.TCGEN05)
    source = p.role.accumulators[key]
    properties = {n: v for n, v in op.properties.items() if n in ("trans_b", "alone")}
    p.role.accumulators[key] = p.emit.value(
        StageTensorMmaOp.create(
            operands=[source, p.role.accumulators[left], b.buffer, b.slot],
            properties=properties,
            result_types=[source.type],
        )
    )


GROUP = 4
"""Warps of a warpgroup."""


def _of_group(p: Placement, op: ArithOp) -> bool:
    """`warp // 4`, `warp < 4`: of warpgroups that share a role's rows, what asks for the warpgroup alone is said so;
    every later step then knows that it is the same in all of its threads."""
    kind = op.kind.data
    if kind not in ("div", "lt", "ge") or not isinstance(op.inputs[0].owner, IdentityOp):
        return False
    by = op.inputs[1].owner
    if op.inputs[0].owner.which.data != "warp" or not isinstance(by, ConstOp):
        return False
    count = by.constant.value.data
    if not isinstance(count, int) or count % GROUP or (kind == "div" and count != GROUP):
        return False
    made = p.emit.value(s.GroupOp.create(result_types=[i32]))
    if kind != "div":
        made = p.emit.arith(kind, made, p.emit.const(count // GROUP))
    p.values[op.value] = made
    return True


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


def _product(p: Placement, op: t.MmaOp | ScaledMmaOp | TensorMmaOp) -> None:
    if isinstance(op, TensorMmaOp):
        _tensor_mma(p, op)
    elif isinstance(op, ScaledMmaOp) or isinstance(op.a.type.scale, ScaleAttr):  # type: ignore[union-attr]
        scales.product(p, op)
    else:
        _mma(p, op)


def _mma(p: Placement, op: t.MmaOp) -> None:
    how = How.TCGEN05 if p.home is Home.TENSOR else How.WGMMA
    a, b = p.role.slots[op.a], p.role.slots[op.b]
    key = p.role.key(op.d)
    check_grows(p, op)
    for operand in (op.a, op.b, key):
        p.role.slots[operand].touch(how)
    properties: dict[str, Attribute] = {"trans_a": op.trans_a, "trans_b": op.trans_b}
    if p.home is Home.REGISTER:
        properties["by"] = StringAttr(s.By.ALL.value)
    if op.pair is not None:
        properties["pair"] = op.pair
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
