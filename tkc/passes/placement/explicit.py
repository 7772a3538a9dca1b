"""Explicit synchronisation: stage operations pass with their operands mapped, slots and copies are placed."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import StringAttr, UnitAttr, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import Pure

from tkc.analysis.guards import Varies, guard_of, varies
from tkc.diagnostics import TargetError, TkcError
from tkc.ir.effects import effects_of
from tkc.ir.interned import integer
from tkc.ir.isa.memory import Await
from tkc.ir.isa.targets import Feature, targets_with
from tkc.ir.locations import location_of
from tkc.ir.stage import explicit as e
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import AtomicOp, CopyElementsOp, LoadElementOp, StoreElementOp
from tkc.ir.stage.types import AccumulatorType, Home
from tkc.ir.stage.words import words
from tkc.ir.syntax import segments
from tkc.ir.tile import explicit as x
from tkc.ir.tile import ops as t
from tkc.ir.tile.types import AccumType, SharedType, SliceType
from tkc.passes.placement import vectors
from tkc.passes.placement.columns import identity
from tkc.passes.placement.copies import Box, box_of, box_of_scales, check_box, check_once
from tkc.passes.placement.regions import Flow
from tkc.passes.placement.state import Placement, Slot


def open_accumulators(p: Placement, role: t.RoleOp) -> None:
    """Accumulators in registers flow through a role from its start: nobody else can name their registers."""
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
        case x.PartAtOp():
            first = p.emit.arith("mul", p.values[op.block], p.emit.const(op.count.value.data))
            p.values[op.part] = p.emit.arith("add", first, p.values[op.index])
        case x.BlockAtOp():
            p.values[op.block] = p.values[op.index]
        case x.BlockNumberOp():
            p.values[op.value] = p.values[op.block]
        case x.TmaLoadOp():
            _load(p, op)
        case x.ClusterCopyOp():
            _copy_across(p, op)
        case x.TmaStoreOp():
            check_once(p, op, "stores")
            slot = p.role.slots[op.source]
            check_box(slot.type, op)
            box = box_of(p, op.destination, slot.type.shape)
            p.emit.add(
                s.TmaStoreOp.create(
                    operands=[slot.buffer, slot.slot, box.tensor, *box.starts],
                    properties={"box": box.extents, **op.properties},
                )
            )
        case x.TmaPrefetchOp():
            slice = op.source.type
            assert isinstance(slice, SliceType)
            box = box_of(p, op.source, [int(n) for n in slice.shape])
            p.emit.add(
                e.TmaPrefetchOp.create(
                    operands=[box.tensor, *box.starts],
                    properties={"box": box.extents, **op.properties},
                )
            )
        case x.ReadColumnsOp():
            if _outlived(op):
                for value in vectors.oriented_of(op.value):
                    vectors.hold(p, value, op)
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
        case LoadElementOp() | StoreElementOp() | AtomicOp() | CopyElementsOp():
            _element(p, op)
        case s.ElectedOp() if op.scope.data == s.By.ONE and _warpgroups_come(p, op):
            p.values[op.value] = _one(p)
        case s.Tcgen05FenceOp() if not p.target.has({Feature.TCGEN05}):
            raise TargetError.at(  # what takes out fences without use would say nothing of it
                "TK202",
                f"{words(op)} needs {Feature.TCGEN05}; {p.target.name} has none",
                location_of(op),
                help=targets_with({Feature.TCGEN05}),
            )
        case s.StageOp() if not op.regions:
            _copy(p, op)
        case _:
            return False
    return True


def _outlived(read: x.ReadColumnsOp) -> bool:
    """Whether something may change the slot, or hand it on, before what is read is used: it is then read at once.

    Otherwise it is read where it is used, slice by slice, so that a wide tile takes few registers.
    """
    block = read.parent_block()
    todo, seen = [read.value], {read.value}
    last: list[Operation] = []
    while todo:
        for use in todo.pop().uses:
            op = use.operation
            if op.parent_block() is not block:
                return True
            if op.has_trait(Pure):
                new = [r for r in op.results if r not in seen]
                seen.update(new)
                todo += new
            last.append(op)
    pending = {id(op) for op in last}
    op = read.next_op
    while op is not None and pending:
        pending.discard(id(op))
        if pending and not op.has_trait(Pure) and not isinstance(op, x.ReadColumnsOp):
            return True
        op = op.next_op
    return False


def _copy(p: Placement, op: Operation) -> None:
    """The same operation on what its operands have become."""
    mapped = {v: p.values[v] for v in op.operands}
    copy = op.clone(mapped)
    if isinstance(copy, s.RoleBarrierOp) and p.role.plan.groups > 1:
        copy.whole = UnitAttr()  # what a program calls the role is all of its warpgroups
    one = copy.executed_by is s.By.ONE and not _awaits_its_own(op)  # type: ignore[attr-defined]
    if one and _warpgroups_come(p, op) and not _some_come(op):
        body = Block()
        with p.emit.inside(body):
            p.emit.add(copy)
            p.emit.add(s.YieldOp.create(operands=[]))
        p.emit.add(s.IfOp.create(operands=[_one(p)], regions=[Region(body)], result_types=[]))
        return
    p.emit.add(copy)
    for old, new in zip(op.results, copy.results, strict=True):
        p.values[old] = new
        new.name_hint = old.name_hint


def _awaits_its_own(op: Operation) -> bool:
    """Whether it waits for what its own thread issued, as a thread of each warpgroup may have."""
    return any(isinstance(row, Await) and not row.on for row in effects_of(op) or ())


def _warpgroups_come(p: Placement, op: Operation) -> bool:
    """Whether several warpgroups, whose rows one role splits, come to a statement."""
    guards = (guard_of(condition) for condition in _conditions(op))
    one_alone = any(g and (g.warp is not None or g.elected == s.By.ONE) for g in guards)
    return p.role.plan.groups > 1 and not one_alone


def _some_come(op: Operation) -> bool:
    """Whether threads that no election chooses come to a statement: `elect-single-thread` refuses it."""
    return any(guard_of(c) is None and varies(c) is not Varies.NOWHERE for c in _conditions(op))


def _conditions(op: Operation) -> Iterator[SSAValue]:
    """The conditions round a statement in its role."""
    around = op.parent_op()
    while around is not None and not isinstance(around, t.RoleOp):
        if isinstance(around, s.IfOp):
            yield around.condition
        around = around.parent_op()


def _one(p: Placement) -> SSAValue:
    """Whether a thread is the one that acts for all warpgroups of its role: one of the first warp."""
    scope = {"scope": StringAttr(s.By.LANE)}
    lane = p.emit.value(s.ElectedOp.create(properties=scope, result_types=[i1]))
    first = p.emit.arith("eq", identity(p, "warp"), p.emit.const(0))
    return p.emit.arith("and", lane, first)


def _element(p: Placement, op: LoadElementOp | StoreElementOp | AtomicOp | CopyElementsOp) -> None:
    """An access of one element: of a tensor as it is, of a slot by its number and the index in it."""
    if not isinstance(op.place.type, SharedType):
        _copy(p, op)
        return
    slot = p.role.slots[op.place]
    at = op.operands.index(op.place)  # type: ignore[attr-defined]
    mapped = [p.values[v] if v is not op.place else slot.buffer for v in op.operands]
    where = at + 1 + (len(op.given) if isinstance(op, AtomicOp) else 0)
    properties = dict(op.properties)
    if isinstance(op, AtomicOp):
        properties |= segments(1, len(op.given), 1 + len(op.indices))
    elif isinstance(op, CopyElementsOp):
        properties |= segments(1, len(op.start), 1, 1 + len(op.indices))
    new = p.emit.add(
        type(op).create(
            operands=[*mapped[:where], slot.slot, *mapped[where:]],
            properties=properties,
            result_types=[r.type for r in op.results],
        )
    )
    for old, made in zip(op.results, new.results, strict=True):
        p.values[old] = made
        made.name_hint = old.name_hint


def _slot(p: Placement, op: x.SlotOp) -> None:
    if op.slot in p.role.known:
        return
    slot = p.role.slots[op.slot] = Slot(op.tile, p.values[op.tile], p.values[op.index])
    if isinstance(op.tile.type, AccumType) and not slot.type.holds_scales:
        _open(p, op.slot, slot)


def _load(p: Placement, op: x.TmaLoadOp) -> None:
    check_once(p, op, "loads")
    slot = p.role.slots[op.destination]
    check_box(slot.type, op)
    _signalling(p, op, slot, slot.buffer, box_of(p, op.source, slot.type.shape))
    if slot.tile in p.scales:
        _signalling(p, op, slot, p.scales[slot.tile], box_of_scales(p, slot, op.source, op))


def _signalling(p: Placement, op: x.TmaLoadOp, slot: Slot, buffer: SSAValue, box: Box) -> None:
    """The load of a box that completes on the barrier that the program names."""
    mask, rank = ([p.values[v] for v in (x,) if v is not None] for x in (op.mask, op.rank))
    properties = {
        "box": box.extents,
        **op.properties,
        **segments(1, 1, 1, 1, 1, len(box.starts), len(mask), len(rank)),
    }
    p.emit.add(
        e.TmaLoadToOp.create(
            operands=[
                box.tensor, buffer, slot.slot, p.values[op.barriers], p.values[op.entry], *box.starts,
                *mask, *rank,
            ],
            properties=properties,
        )
    )  # fmt: skip


def _copy_across(p: Placement, op: x.ClusterCopyOp) -> None:
    """A slot's bytes, and those of its scales, to the slot of another CTA."""
    source, into = p.role.slots[op.source], p.role.slots[op.destination]
    if source.type.copied_bytes != source.type.slot_bytes:
        raise TkcError.at(
            "TK110",
            f"copies between CTAs of {source.type.dtype.data} tiles that have gaps, for elements of a byte each or "
            "products of 48 bytes, are not supported yet",
            location_of(op),
        )
    if source.type.swizzle != into.type.swizzle:
        raise TkcError.at(
            "TK207",
            f"a copy between CTAs keeps the layout of a tile: {source.type.swizzle.data} here, "
            f"{into.type.swizzle.data} there; tiles with one layout fit",
            location_of(op),
        )
    where = [p.values[v] for v in (op.barriers, op.entry, op.rank)]
    pairs = [(source.buffer, into.buffer)]
    if source.tile in p.scales:
        pairs.append((p.scales[source.tile], p.scales[into.tile]))
    for mine, there in pairs:
        operands = [mine, source.slot, there, into.slot, *where]
        p.emit.add(e.ClusterCopyOp.create(operands=operands))


def _wait_products(p: Placement, op: x.ProductsWaitOp) -> None:
    """Each accumulator in registers is handed through the wait, so that reads of it stay behind."""
    if p.home is not Home.REGISTER:
        raise TkcError.at(
            "TK202",
            f"products complete on a barrier on {p.target.name}: `commit full[slot]` after them, "
            "then `wait full[slot], phase`",
            location_of(op),
        )
    _await_known(p, {"pending": op.pending, "id": op.id})


def _await_known(p: Placement, properties: dict[str, Attribute]) -> None:
    for key, value in p.role.accumulators.items():
        if key in p.role.known.values():
            p.role.accumulators[key] = p.emit.value(
                s.MmaWaitOp.create(
                    operands=[value], properties=properties, result_types=[value.type]
                )
            )


def end_products(p: Placement, item: t.PutOp | t.GetOp) -> None:
    """A pipe's slots are released when all products are done that the program spells out in its block, whether they are
    in a group yet or not; where the block ends in such a wait, nothing is added."""
    spelled = any(isinstance(op, t.MmaOp) and op.alone is not None for op in item.walk())
    last = item.body.block.last_op
    before = last.prev_op if last is not None else None
    if not spelled or (isinstance(before, x.ProductsWaitOp) and before.pending.value.data == 0):
        return
    p.emit.add(e.MmaCommitOp.create(properties={"id": p.id("products")}))
    _await_known(p, {"pending": integer(0), "id": p.id("products")})


# Regions -------------------------------------------------------------------------------------------------------------


def _loop(p: Placement, op: s.ForOp) -> None:
    bounds = [p.values[v] for v in (op.lower, op.upper, op.step)]
    flow = Flow(p, op, op.inits)
    region = flow.region(op.body.block, 1)
    new = s.ForOp.create(operands=[*bounds, *flow.inits], regions=[region], result_types=flow.types)
    flow.leave(p.emit.add(new), op.results)


def _while(p: Placement, op: e.WhileOp) -> None:
    flow = Flow(p, op, op.inits)
    test = flow.region(op.test.block, hands=False)
    body = flow.region(op.body.block)
    new = e.WhileOp.create(operands=flow.inits, regions=[test, body], result_types=flow.types)
    flow.leave(p.emit.add(new), op.results)


def _if(p: Placement, op: s.IfOp) -> None:
    flow = Flow(p, op)
    regions = [flow.region(r.block, takes=False) for r in op.regions if r.blocks]
    if flow.accumulators and len(regions) == 1:
        regions.append(flow.otherwise())
    last = regions[0].block.last_op
    assert last is not None
    new = s.IfOp.create(
        operands=[p.values[op.condition]],
        regions=regions,
        result_types=[v.type for v in last.operands],
    )
    flow.leave(p.emit.add(new), op.results)
