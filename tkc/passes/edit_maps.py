"""Give copies of a list's arrays their tensor maps: those that the launch has made, or slots that their thread sets.

Before: a copy names a list and, as its first coordinate, which of its arrays.
After: it names one array. Where the kernel edits the maps, the role that copies sets one for each group that it has
items of, once the copies through that slot are known to be complete: loads by the roles that wait for what they bring,
which hand the slot back on a ring; stores by a full wait of the thread that issues them. A release follows the edits,
an acquire precedes the first copy.
The ring of loads has its full side, too: with K = 0 a group has no loads, and its consumer could be a lap ahead. Maps
are copied from the launch's, and extents set: bases and strides stay the launch's business.
Here because: groups are loops since `lower-schedules`, and `lower-pipes` makes barriers of the rings.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from tkc.diagnostics import Note, TkcError
from tkc.ir.emit import Emitter
from tkc.ir.isa.memory import Scope
from tkc.ir.locations import location_of
from tkc.ir.stage import maps as m
from tkc.ir.stage import ops as s
from tkc.ir.stage.elements import LoadElementOp
from tkc.ir.stage.explicit import GridLaunchOp, GridWaitOp, TmaLoadToOp
from tkc.ir.stage.ops import Across
from tkc.ir.stage.types import BufferType, MapsType, RingType
from tkc.ir.syntax import SEGMENTS, segments
from tkc.ir.tile.types import TensorType, counts_of

Copy = s.TmaLoadOp | s.TmaStoreOp | TmaLoadToOp
COPIES = (s.TmaLoadOp, s.TmaStoreOp, TmaLoadToOp)


@dataclass(frozen=True)
class EditMapsPass(ModulePass):
    """`edit-maps`."""

    name = "edit-maps"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            if any(is_list(a) for a in kernel.body.block.args):
                Lists(kernel).run()


def is_list(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and value.type.is_list


class Lists:
    """The lists of one kernel."""

    def __init__(self, kernel: s.KernelOp) -> None:
        self.kernel = kernel
        self.block = kernel.body.block
        self.declared = {o.tensor: o for o in self.block.ops if isinstance(o, m.MapsOp)}
        self.roles = [o for o in self.block.ops if isinstance(o, s.RoleOp)]

    def run(self) -> None:
        if self.kernel.dependent is not None and self.declared:
            self._check_waits()
        for argument in self.block.args:
            if is_list(argument):
                check_uses(argument)
        for role in self.roles:
            for kind in (s.TmaLoadOp, s.TmaStoreOp):
                self._edit(role, kind)
        for declared in self.declared.values():
            declared.detach()
            declared.erase()
        for role in self.roles:
            self._launched(role)

    def _check_waits(self) -> None:
        """Grids of one kernel share its maps: none is edited before those ahead have ended, which `order-grids` makes
        each role wait for; TK110 where the program says itself when it does."""
        said = [o for r in self.roles for o in r.walk() if isinstance(o, GridWaitOp | GridLaunchOp)]
        for op in said:
            raise TkcError.at(
                "TK110",
                "not supported yet: `wait pdl` and `arrive pdl` beside edited tensor maps, which may be edited before "
                "that; without them every role waits before it edits",
                location_of(op),
                Note("edited maps", location_of(next(iter(self.declared.values())))),
            )

    def _launched(self, role: s.RoleOp) -> None:
        """Copies through maps that the launch has made: an array is acquired once a group, or else at each copy."""
        made: dict[tuple[SSAValue, SSAValue, bool], SSAValue] = {}
        for copy in [o for o in role.walk() if isinstance(o, COPIES) and is_list(o.tensor)]:
            tensor, index = copy.tensor, copy.coordinates[0]
            key = (tensor, index, _of_scales(copy))
            known = made.get(key)
            if known is None:
                emit = Emitter(Block(), copy.location)
                array = m.ArrayOp.create(operands=[tensor, index], result_types=[_element(tensor)])
                known = emit.value(array, f"{tensor.name_hint}{'_scales' * key[2]}")
                _fence(emit, m.MapAcquireOp, role, [known], Scope.SYS)
                loop = index.owner.parent_op() if isinstance(index.owner, Block) else None
                if isinstance(loop, s.ForOp) and loop.chained is not None:
                    made[key] = known
                    _put_first(_items_of(index), emit)
                else:
                    _put_before(copy, emit)
            _copies_of(copy, known)

    # Maps that the kernel edits

    def _edit(self, role: s.RoleOp, kind: type[s.TmaLoadOp | s.TmaStoreOp]) -> None:
        """The edits of the maps through which one role copies one way."""
        copies: dict[SSAValue, list[Copy]] = {}
        for op in role.walk():
            if isinstance(op, kind) and op.tensor in self.declared and not _of_scales(op):
                copies.setdefault(op.tensor, []).append(op)
        if not copies:
            return
        group = _group(role, [c for each in copies.values() for c in each])
        depth = max(self.declared[t].maps.type.depth.data for t in copies)  # pyright: ignore
        consumers = self._consumers(role, [c for each in copies.values() for c in each])
        way = "loads" if kind is s.TmaLoadOp else "stores"
        ring = self._ring(role, f"{role.sym_name.data}.{way}", depth, consumers)
        items = _items_of(group)
        emit = Emitter(Block(), self.declared[next(iter(copies))].location)
        slot = emit.value(s.AcquireOp.create(operands=[ring], result_types=[i32]), "slot")
        place = _of_group(emit, role, slot, depth)
        edits = [self._set(emit, role, tensor, way, place, group) for tensor in copies]
        _fence(emit, m.MapReleaseOp, role, [])
        for tensor, maps in zip(copies, edits, strict=True):
            edited = m.EditedOp.create(
                operands=[maps, place, group], result_types=[_element(tensor)]
            )
            array = emit.value(edited, tensor.name_hint)
            _fence(emit, m.MapAcquireOp, role, [array])
            for copy in copies[tensor]:
                _copies_of(copy, array)
        if consumers:
            how: dict[str, Attribute] = {"how": ArrayAttr([]), "bytes": IntegerAttr(0, i32)}
            emit.add(s.CommitOp.create(operands=[ring, slot], properties=how))
        _put_first(items, emit)
        for consumer in consumers:
            self._hand_back(consumer, ring)

    def _set(
        self,
        emit: Emitter,
        role: s.RoleOp,
        tensor: SSAValue,
        way: str,
        slot: SSAValue,
        group: SSAValue,
    ) -> SSAValue:
        """The role's own maps of a list, and the edit of one: the extents of a group's array."""
        declared = self.declared[tensor]
        depth = declared.maps.type.depth.data * role.groups.value.data  # pyright: ignore
        name = StringAttr(f"{role.sym_name.data}.{tensor.name_hint}.{way}")
        made = m.MapsOp.create(
            operands=[tensor],
            properties={"sym_name": name},
            result_types=[MapsType(IntAttr(depth))],
        )
        made.location = declared.location
        made.maps.name_hint = f"{tensor.name_hint}_maps"
        self.block.insert_op_before(made, self.roles[0])
        extents: list[SSAValue] = []
        axes: list[IntegerAttr] = []
        type = tensor.type
        assert isinstance(type, TensorType)
        for axis, dim in enumerate(type.shape[1:]):
            counts = counts_of(dim)
            if counts is not None:
                extents.append(_count(emit, self._argument(counts), group))
                axes.append(IntegerAttr(axis, i32))
        emit.add(
            m.EditMapOp.create(
                operands=[made.maps, slot, group, *extents],
                properties={"axes": ArrayAttr(axes), "id": StringAttr(f"{name.data}.edit")},
            )
        )
        return made.maps

    def _argument(self, name: str) -> SSAValue:
        names = [n.data for n in self.kernel.arg_names]
        return self.block.args[names.index(name)]

    def _consumers(self, role: s.RoleOp, copies: list[Copy]) -> list[s.RoleOp]:
        """The roles that wait for what loads bring; none of stores, which their own thread awaits."""
        found: dict[str, None] = {}
        for copy in copies:
            for pipe in self._pipes(copy):
                found |= {c.data: None for c in pipe.consumers}
        return [r for r in self.roles if r.sym_name.data in found]

    def _pipes(self, copy: Copy) -> list[s.PipeOp]:
        if not isinstance(copy, s.TmaLoadOp):
            return []
        return [o for o in self.block.ops if isinstance(o, s.PipeOp) and copy.buffer in o.buffers]

    def _ring(self, role: s.RoleOp, name: str, depth: int, consumers: list[s.RoleOp]) -> SSAValue:
        """The ring of the role's slots for maps, which reaches whoever waits for what the copies bring."""
        across = {
            _reach(copy, pipe)
            for copy in role.walk()
            if isinstance(copy, s.TmaLoadOp)
            and copy.tensor in self.declared
            and consumers
            and not _of_scales(copy)
            for pipe in self._pipes(copy)
        }
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(f"{name}.maps"),
            "kind": StringAttr("full_empty" if consumers else "maps"),
            "depth": IntegerAttr(depth, i32),
            "producers": ArrayAttr([role.sym_name]),
            "consumers": ArrayAttr([c.sym_name for c in consumers]),
        }
        if joined := {x for x in across if x is not None}:
            widest = Across.EVERY if Across.EVERY in joined else joined.pop()
            properties["across"] = StringAttr(widest)
        made = s.PipeOp.create(properties=properties, result_types=[RingType()])
        made.location = role.location
        made.ring.name_hint = "maps"
        self.block.insert_op_before(made, self.roles[0])
        return made.ring

    def _hand_back(self, role: s.RoleOp, ring: SSAValue) -> None:
        """Behind a group's items, all that was copied for them has arrived."""
        then = _items_of(_chain(role).body.block.args[0])
        emit = Emitter(Block(), role.location)
        slot = emit.value(s.WaitOp.create(operands=[ring], result_types=[i32]), "slot")
        _put_first(then, emit)
        release = s.ReleaseOp.create(operands=[ring, slot], properties={"how": ArrayAttr([])})
        release.location = role.location
        last = then.last_op
        assert last is not None
        then.insert_op_before(release, last)


def _reach(copy: s.TmaLoadOp, pipe: s.PipeOp) -> Across | None:
    """How a load through one CTA's map joins it to others that wait for what it brings: not as the pipe does where only
    other loads are for the whole cluster."""
    across = None if pipe.across is None else Across(pipe.across.data)
    if copy.multicast is None:
        return None if across is None else across.unshared
    if across is Across.SHARED:
        raise TkcError.at(
            "TK110",
            "not supported yet: a load for a whole cluster of pairs through a map that the kernel edits; one pair, or "
            "a load without `multicast`, fits",
            location_of(copy),
        )
    return Across.EVERY


def _of_scales(copy: Copy) -> bool:
    """Whether it copies block scales. Their maps are those of the launch, which end where each group's array does:
    scales of rows behind the group's make only rows that are not stored."""
    buffer = copy.buffer.type
    return isinstance(buffer, BufferType) and buffer.holds_scales


def check_uses(argument: SSAValue) -> None:
    """TK110 where an array of a list is used other than by a copy of a block."""
    for use in argument.uses:
        op = use.operation
        if not isinstance(op, (*COPIES, m.MapsOp)) or "bulk" in op.properties:
            raise TkcError.at(
                "TK110",
                f"not supported yet: this use of an array of the list {argument.name_hint}, which is copied in blocks "
                "by the tensor copy engine",
                location_of(op),
            )
        if isinstance(op, TmaLoadToOp) and any(
            isinstance(u.operation, m.MapsOp) for u in argument.uses
        ):
            raise TkcError.at(
                "TK110",
                f"not supported yet: a load by hand through a map of {argument.name_hint} that the kernel edits, since "
                "nothing says when it is done",
                location_of(op),
            )


def _chain(role: s.RoleOp) -> s.ForOp:
    """The role's loop over groups."""
    found = [o for o in role.walk() if isinstance(o, s.ForOp) and o.chained is not None]
    if len(found) != 1:
        raise TkcError.at(
            "TK110",
            f"not supported yet: tensor maps edited for role {role.sym_name.data}, which has {len(found)} loops over "
            "a chain of groups instead of one",
            location_of(role),
        )
    return found[0]


def _group(role: s.RoleOp, copies: list[Copy]) -> SSAValue:
    """The group whose arrays are copied; TK110 where that is another number."""
    group = _chain(role).body.block.args[0]
    for copy in copies:
        if copy.coordinates[0] is not group:
            raise TkcError.at(
                "TK110",
                "not supported yet: a copy of another array than that of the schedule's group, through a map that the "
                "kernel edits",
                location_of(copy),
                Note("groups are those of this loop", location_of(_chain(role))),
            )
    return group


def _items_of(group: SSAValue) -> Block:
    """Where a group's items are run, if the unit has any."""
    body = group.owner
    assert isinstance(body, Block)
    chosen = next(o for o in body.ops if isinstance(o, s.IfOp))
    return chosen.then.block


def _count(emit: Emitter, counts: SSAValue, group: SSAValue) -> SSAValue:
    """How many a group has: the loop over groups has read it, if it counts items by it."""
    body = group.owner
    assert isinstance(body, Block)
    for op in body.ops:
        if isinstance(op, LoadElementOp) and op.place is counts and list(op.indices) == [group]:
            return op.value
    load = LoadElementOp.create(
        operands=[counts, group], properties={"constant": UnitAttr()}, result_types=[i32]
    )
    return emit.value(load, "count")


def _of_group(emit: Emitter, role: s.RoleOp, slot: SSAValue, depth: int) -> SSAValue:
    """Each warpgroup that copies for itself has slots of its own."""
    if role.groups.value.data == 1:
        return slot
    group = emit.value(s.GroupOp.create(result_types=[i32]), "group")
    return emit.arith("add", emit.arith("mul", group, emit.const(depth)), slot)


def _element(tensor: SSAValue) -> TensorType:
    assert isinstance(tensor.type, TensorType)
    return tensor.type.element


def _fence(
    emit: Emitter,
    kind: type[m.MapReleaseOp | m.MapAcquireOp],
    role: s.RoleOp,
    operands: list[SSAValue],
    scope: Scope = Scope.GPU,
) -> None:
    """At the scope of the GPU for the kernel's own edits, as the manual and all libraries have it; of the system for
    what the host has written."""
    what = kind.name.removeprefix("stage.map_")
    of = f".{operands[0].name_hint}" if operands else ""
    properties: dict[str, Attribute] = {
        "scope": StringAttr(scope.value),
        "id": StringAttr(f"{role.sym_name.data}.maps{of}.{what}"),
    }
    emit.add(kind.create(operands=operands, properties=properties))


_FIRST: dict[type[Operation], tuple[int, int]] = {
    s.TmaLoadOp: (0, 3),
    s.TmaStoreOp: (2, 3),
    TmaLoadToOp: (0, 5),
}
"""Which operand of a copy is the tensor, and which its first coordinate."""


def _copies_of(copy: Copy, array: SSAValue) -> None:
    """The copy is of the array: the first coordinate, which one of the list, goes."""
    tensor, first = _FIRST[type(copy)]
    operands = list(copy.operands)
    operands[tensor] = array
    operands.pop(first)
    copy.properties["box"] = ArrayAttr(copy.box.data[1:])
    if isinstance(copy, s.TmaLoadOp) and copy.multicast is not None:
        copy.properties["multicast"] = IntegerAttr(copy.multicast.value.data - 1, i32)
    sizes = copy.properties.get(SEGMENTS)
    if isinstance(sizes, DenseArrayBase):
        left = [n - (i == first) for i, n in enumerate(sizes.get_values())]
        copy.properties.update(segments(*left))
    copy.operands = operands


def _put_first(block: Block, emit: Emitter) -> None:
    first = block.first_op
    assert first is not None
    _put_before(first, emit)


def _put_before(place: Operation, emit: Emitter) -> None:
    block = place.parent_block()
    assert block is not None
    for op in list(emit.block.ops):
        op.detach()
        block.insert_op_before(op, place)
