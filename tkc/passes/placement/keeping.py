"""What a slot holds beyond a block: `keep`, values read before it is written again, sums that may be nothing."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from tkc.analysis.roles import slot_owner
from tkc.analysis.sharing import block_of, place_of, role_round, shares_place, tiles_in
from tkc.diagnostics import TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.ir.stage.types import Home
from tkc.ir.tile import ops as t
from tkc.ir.tile.scales import ScaledMmaOp
from tkc.ir.tile.tensor_operands import TensorMmaOp
from tkc.ir.tile.types import AccumType, RegsType, SharedType, SliceType
from tkc.passes.placement.state import Placement

Product = t.MmaOp | ScaledMmaOp | TensorMmaOp


def keep(p: Placement, op: t.KeepOp) -> None:
    """A slot is handed on when all that the role does to what lies there is done."""
    slot = p.role.slots[op.tile]
    role = role_round(op)
    assert role is not None
    place = place_of(op.tile)
    for inner in role.walk():
        for how in _how(p, inner, place):
            slot.touch(how)


def _how(p: Placement, op: Operation, place: SSAValue) -> list[How]:
    """The ways in which an operation touches a place."""
    registers = [How.TENSOR if isinstance(place.type, AccumType) else How.GENERIC]
    match op:
        case t.MmaOp() | ScaledMmaOp() | TensorMmaOp() if any(
            place_of(x) is place for x in (op.d, op.a, op.b)
        ):
            return [How.TCGEN05 if p.home is Home.TENSOR else How.WGMMA]
        case t.ReadOp() if place_of(op.tile) is place:
            return registers
        case t.CopyOp() if _at(op.source, place):
            return [How.BULK]
        case t.CopyOp() if _at(op.destination, place) and isinstance(op.source.type, RegsType):
            return registers
        case _:
            return []


def _at(end: SSAValue, place: SSAValue) -> bool:
    return isinstance(end.type, SharedType | AccumType) and place_of(end) is place


# Values --------------------------------------------------------------------------------------------------------------


def overwritten(read: t.ReadOp) -> bool:
    """Whether something in the block of a read writes there before the value is last used: it is then read at once.

    What is written from the value alone, element by element, may still be read slice by slice as it is written.
    """
    if not shares_place(slot_owner(read.tile)):
        return False
    block = read.parent_block()
    assert block is not None
    order = {op: i for i, op in enumerate(block.ops)}
    place = place_of(read.tile)
    writes = [op for op in block.ops if order[op] > order[read] and _writes(op, place)]
    if not writes:
        return False
    last, users = _uses(read.value, order)
    first = order[writes[0]]
    return last > first or (last == first and not _as_it_goes(read, writes[0], users[first]))


def _as_it_goes(read: t.ReadOp, write: Operation, users: list[Operation]) -> bool:
    """Whether a write alone uses what was read, and puts each element where it was read."""
    if users != [write] or not isinstance(write, t.CopyOp):
        return False
    one, other = slot_owner(read.tile), slot_owner(write.destination)
    return one is other or (isinstance(one.type, AccumType) and one.type == other.type)


def _writes(op: Operation, place: SSAValue) -> bool:
    """Whether an operation, or one inside it, writes to a place."""
    for inner in op.walk():
        for name in getattr(inner, "CHANGES", ()):
            end = getattr(inner, name, None)
            if (
                isinstance(end, SSAValue)
                and not isinstance(end.type, SliceType)
                and _at(end, place)
            ):
                return True
    return False


def _uses(value: SSAValue, order: dict[Operation, int]) -> tuple[int, dict[int, list[Operation]]]:
    """The last operation of a block that uses a value or what is computed of it, and who uses it there."""
    users: dict[int, list[Operation]] = {}
    todo, seen = [value], {value}
    while todo:
        for use in todo.pop().uses:
            op: Operation | None = use.operation
            if op.has_trait(Pure):
                new = [r for r in op.results if r not in seen]
                seen.update(new)
                todo += new
                if not isinstance(op, t.YieldOp):
                    continue
            at: Operation | None = op
            while at is not None and at not in order:
                at = at.parent_op()
            if at is not None:
                users.setdefault(order[at], []).append(op)
    return max(users, default=-1), users


# Sums ----------------------------------------------------------------------------------------------------------------


def products_of(p: Placement, slot: SSAValue, at: Operation) -> list[Product]:
    """The products that make up what a slot of a shared accumulator holds where a block begins; nothing where it surely
    holds something. TK110 where that is not known."""
    block = block_of(slot)
    assert block is not None
    if isinstance(block, t.PutOp):
        before = taken_round(block, slot)
        return products_of(p, before, at) if before is not None else _anywhere(p, slot, at)
    pipe = _pipe_of(block, slot)
    found: list[Product] = []
    for use in pipe.pipe.uses:
        if isinstance(put := use.operation, t.PutOp):
            found += _put(p, put, _slot_in(put, pipe, slot), at)
    return found


def _put(p: Placement, put: t.PutOp, slot: SSAValue, at: Operation) -> list[Product]:
    """What a put hands on: its own products, what it wrote, or what it found."""
    users = [use.operation for use in slot.uses]
    if any(isinstance(op, t.CopyOp) and op.destination is slot for op in users):
        return []
    cleared = any(isinstance(op, t.ZeroOp) for op in users)
    products = [op for op in users if isinstance(op, Product) and op.d is slot]
    if cleared and not products:
        raise TkcError.at(
            "TK110",
            "not supported yet: `= 0` in a loop of a put without any product: it stands in the put itself",
            location_of(put),
        )
    if cleared:
        return products
    before = taken_round(put, slot)
    if before is not None:
        return products_of(p, before, at)
    taken = [] if products else _taken(put, slot)
    if taken and all(_written(one) for one in taken):
        return []
    return [] if products else _anywhere(p, slot, at)


def _taken(put: t.PutOp, slot: SSAValue) -> list[SSAValue]:
    """The slots of the tile that the role of a put gets."""
    role, tile = role_round(put), slot_owner(slot)
    assert role is not None
    gets = [op for op in role.walk() if isinstance(op, t.GetOp)]
    return [arg for op in gets for arg in op.body.block.args if slot_owner(arg) is tile]


def _written(slot: SSAValue) -> bool:
    """Whether a block writes its slot from registers, or adds to it, which asks for something there by itself."""
    users = [use.operation for use in slot.uses]
    return any(
        (isinstance(op, t.CopyOp) and op.destination is slot)
        or (isinstance(op, Product) and op.d is slot)
        for op in users
    )


def _anywhere(p: Placement, slot: SSAValue, at: Operation) -> list[Product]:
    """What an earlier block left: surely something, where no sum of the tile can be nothing."""
    tile = slot_owner(slot)
    for op in p.kernel.walk():
        if isinstance(op, t.ZeroOp) and slot_owner(op.accum) is tile:
            products = [u.operation for u in op.accum.uses if isinstance(u.operation, Product)]
            if all(_may_be_none(product) for product in products):
                raise TkcError.at(
                    "TK110",
                    "not supported yet: a sum that an earlier block may have left without any product: its loop may "
                    "turn no times; the role that gets it may write it, as in `d = read(d)`",
                    location_of(at),
                )
    return []


def _may_be_none(product: Product) -> bool:
    return product.parent_block() is not product.d.owner


def taken_round(block: t.PutOp, slot: SSAValue) -> SSAValue | None:
    """The slot of a get round a put, which the put hands on."""
    tile, parent = slot_owner(slot), block.parent_op()
    while isinstance(parent, t.PutOp | t.GetOp):
        if isinstance(parent, t.GetOp):
            for arg in parent.body.block.args:
                if slot_owner(arg) is tile:
                    return arg
        parent = parent.parent_op()
    return None


def _pipe_of(block: t.PutOp | t.GetOp, slot: SSAValue) -> t.PipeOp:
    index = list(block.body.block.args).index(slot)  # type: ignore[arg-type]
    for pipe in block.pipes:
        declared = pipe.owner
        assert isinstance(declared, t.PipeOp)
        if index < len(declared.tiles):
            return declared
        index -= len(declared.tiles)
    raise AssertionError(slot)


def _slot_in(put: t.PutOp, pipe: t.PipeOp, slot: SSAValue) -> SSAValue:
    """The slot of the same tile that a put of a pipe opens."""
    tile = slot_owner(slot)
    args = iter(put.body.block.args)
    for one in put.pipes:
        declared = one.owner
        assert isinstance(declared, t.PipeOp)
        for known in declared.tiles:
            arg = next(args)
            if declared is pipe and known is tile:
                return arg
    raise AssertionError(slot)


def check_grows(p: Placement, op: Product) -> None:
    """TK110 where a product adds to what another block may have left without any sum."""
    key = p.role.key(op.d)
    block = block_of(key)
    if block is None or any(isinstance(u.operation, t.ZeroOp) for u in key.uses):
        return
    if shares_place(slot_owner(key)) and any(_may_be_none(x) for x in products_of(p, key, op)):
        raise TkcError.at(
            "TK110",
            "not supported yet: a product that adds to a sum of another block, whose loop may turn no times",
            location_of(op),
        )


# Order in a role -----------------------------------------------------------------------------------------------------


def meet_before(p: Placement, op: t.PutOp) -> None:
    """The threads of a role meet before it writes to a place that it has used as another tile: what one thread writes,
    others may have to read."""
    role, plan = role_round(op), p.role.plan
    assert role is not None
    mine = {slot_owner(arg) for arg in op.body.block.args if isinstance(arg.type, SharedType)}
    if plan.warps == 1 or not any(len(tiles_in(place_of(tile))) > 1 for tile in mine):
        return
    # where accumulators are in registers, the role that issues the products becomes one with this
    joined = p.home is Home.REGISTER and plan.accumulator is not None
    if not joined and not _reads_elsewhere(role, mine):
        return
    p.emit.add(s.RoleBarrierOp.create(properties={"id": p.id("place"), "whole": UnitAttr()}))


def _reads_elsewhere(role: t.RoleOp, mine: set[SSAValue]) -> bool:
    """Whether a role reads what lies in the place of some tiles as another tile."""
    places = {place_of(tile) for tile in mine}
    read = (slot_owner(op.tile) for op in role.walk() if isinstance(op, t.ReadOp))
    return any(tile not in mine and place_of(tile) in places for tile in read)
