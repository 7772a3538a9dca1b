"""Give every tile a home and every operation an owner, which turns the tile level into the stage level.

Before: `tile` operations, swizzles chosen. Roles speak of slots of pipes and of blocks of tensors.
After: `stage` operations: buffers with a home (shared memory, tensor memory, registers), rings with acquire, commit,
wait and release, copies with coordinates in elements, accumulators as linear values, register tiles as fragments in
column slices.
Here because: everything later speaks of threads, and this is the one step that knows both what was written and who
can do it; it stands before `fuse-roles`, which joins what it made. Statements are placed by the files in `placement/`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.accumulators import is_explicit
from tkc.analysis.launch import launch_of
from tkc.analysis.product_shapes import check_shapes
from tkc.analysis.roles import WARPGROUP, slots_of, too_many_threads
from tkc.analysis.shared_memory import check_slots, shared_buffers
from tkc.analysis.sharing import joined, pipes_of, shares_place
from tkc.diagnostics import Note, TargetError, TkcError
from tkc.ir.contract import to_attribute
from tkc.ir.interned import integer
from tkc.ir.isa.targets import Feature, targets_with
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.maps import MapsOp
from tkc.ir.stage.numbers import NumberOp
from tkc.ir.stage.ops import Across
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import BufferType, Home, MapsType, RingType
from tkc.ir.target import target_of
from tkc.ir.tile import ops as t
from tkc.ir.tile.scales import CopyScalesOp, ScaledMmaOp
from tkc.ir.tile.types import AccumType, SharedType
from tkc.passes.placement import scales
from tkc.passes.placement.state import Placement, Role
from tkc.passes.placement.statements import statements


@dataclass(frozen=True)
class PlaceTilesPass(ModulePass):
    """`place-tiles`."""

    name = "place-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for kernel in [k for k in op.body.block.ops if isinstance(k, t.KernelOp)]:
            placed = place(Placement(kernel, target))
            placed.location = kernel.location
            op.body.block.insert_op_before(placed, kernel)
            kernel.detach()
            kernel.erase()


def place(p: Placement) -> s.KernelOp:
    """The stage kernel: declarations and roles in the order in which they were written."""
    kernel = p.kernel
    for old, new in zip(kernel.body.block.args, p.top.args, strict=True):
        p.values[old] = new
        new.name_hint = old.name_hint
    first_warp = first_warps(p)
    roles = [op for op in kernel.body.block.ops if isinstance(op, t.RoleOp)]
    for op in kernel.body.block.ops:
        if op in roles[:1]:
            if p.home is Home.TENSOR:
                check_shapes(kernel, p.target)
            check_slots(kernel, shared_buffers(p.top.ops), p.target.shared_per_cta)
        with p.emit.at(op.location):
            if isinstance(op, t.RoleOp):
                _role(p, op, first_warp[op])
            else:
                _declaration(p, op)
    contract = {k: to_attribute(v) for k, v in launch_of(kernel).items()}
    properties: dict[str, Attribute] = {
        "sym_name": kernel.sym_name,
        "arg_names": kernel.arg_names,
        "contract": DictionaryAttr(contract),
    }
    sizes = ("cluster", "minimum", "preferred")
    clauses = (*sizes, "pair", "dependent", "clc", *_beside_clc(kernel))
    for clause in clauses:
        if clause in kernel.launch.data:
            properties[clause] = kernel.launch.data[clause]
    if _paired(kernel):
        properties["pair"] = UnitAttr()
    return s.KernelOp.create(properties=properties, regions=[Region(p.top)])


def _paired(kernel: t.KernelOp) -> bool:
    """Whether the tensor cores work for a pair of CTAs; TK106 where only some of what they do says so, which they
    cannot (PTX: all tcgen05 instructions of a kernel name one `.cta_group`)."""
    kinds = t.MmaOp | ScaledMmaOp | CopyScalesOp
    groups = {op.pair is not None: op for op in kernel.walk() if isinstance(op, kinds)}
    if len(groups) > 1:
        raise TkcError.at(
            "TK106",
            "a kernel's tensor cores work for one CTA or for a pair of CTAs, and this is of one: `, pair` ends what is "
            "of the pair",
            location_of(groups[False]),
            Note("this is of a pair", location_of(groups[True])),
        )
    return True in groups


def _beside_clc(kernel: t.KernelOp) -> tuple[str, ...]:
    """What a launch falls back to where the target hands out no items; else nothing asks for `persistent`."""
    return ("persistent",) if "clc" in kernel.launch.data else ()


def first_warps(p: Placement) -> dict[t.RoleOp, int]:
    """Warpgroups first, since tensor-memory readers and wgmma roles start at a multiple of four warps."""
    first: dict[t.RoleOp, int] = {}
    at = 0
    for wide in (True, False):
        for role, plan in p.plans.items():
            if (plan.warps % WARPGROUP == 0) == wide:
                first[role], at = at, at + plan.warps
    beyond = {
        r: plan.warps for r, plan in p.plans.items() if 32 * plan.warps > p.target.max_threads
    }
    if beyond:  # how many all of them take is known once roles are fused
        raise too_many_threads(p.kernel.sym_name.data, p.kernel, beyond, p.target)
    return first


def _declaration(p: Placement, op: Operation) -> None:
    match op:
        case SizeOp() | ConstOp() | ArithOp() | NumberOp():
            p.scalar(op)
        case t.ScheduleOp():
            pass
        case t.EditedMapsOp():
            tensor = p.values[op.tensor]
            name = f"{tensor.name_hint}.maps"
            made = MapsOp.create(
                operands=[tensor],
                properties={"sym_name": StringAttr(name)},
                result_types=[MapsType(IntAttr(op.depth.value.data))],
            )
            p.emit.value(made, f"{tensor.name_hint}_maps")
        case t.SharedOp():
            tile = op.tile.type
            assert isinstance(tile, SharedType)
            type = BufferType.of(
                tile.dtype.data, tile.shape, tile.depth.data, Home.SHARED, tile.swizzle.data
            )
            _buffer(p, op.tile, op.sym_name.data, type, op.within)
            scales.declare(p, op, op.sym_name.data)
        case s.BarriersOp():
            from tkc.passes.placement.explicit import explicit

            explicit(p, op)
        case t.AccumOp():
            _accum(p, op)
        case t.PipeOp():
            _pipe(p, op)
        case _:
            raise TkcError.at(
                "TK110", f"{op.name} at kernel level is not supported yet", location_of(op)
            )


def _buffer(
    p: Placement, tile: SSAValue, name: str, type: BufferType, within: StringAttr | None = None
) -> None:
    properties: dict[str, Attribute] = {"sym_name": StringAttr(name)}
    if is_explicit(tile):
        properties["explicit"] = UnitAttr()
    if shares_place(tile):
        properties["pipes"] = ArrayAttr([pipe.sym_name for pipe in pipes_of(tile)])
    if within is not None:
        properties["within"] = within
    p.values[tile] = p.emit.value(
        s.BufferOp.create(properties=properties, result_types=[type]), name
    )


def _pipe(p: Placement, op: t.PipeOp) -> None:
    """A ring as deep as the shallowest of its tiles: an accumulator's depth is a capacity (R12)."""
    buffers = [p.values[tile] for tile in op.tiles]
    buffers += [p.scales[tile] for tile in op.tiles if tile in p.scales]
    depth = _depth(p, op)
    properties: dict[str, Attribute] = {
        "sym_name": op.sym_name,
        "kind": StringAttr("full_empty"),
        "depth": integer(depth),
        "producers": op.producers,
        "consumers": op.consumers,
    }
    across = _across(p, op)
    if across is not None and any(shares_place(tile) for tile in op.tiles):
        raise TkcError.at(
            "TK110",
            f"pipe {op.sym_name.data} joins the CTAs of a cluster, and a tile of it rides in another pipe or shares "
            "its place: not supported yet",
            location_of(op),
        )
    if across is not None:
        properties["across"] = StringAttr(across)
    if op.turns is not None:
        properties["turns"] = op.turns
    if op.after is not None:
        properties["after"] = op.after
    p.rings[op.pipe] = p.emit.value(
        s.PipeOp.create(
            operands=buffers,
            properties=properties,
            result_types=[RingType()],
        ),
        op.sym_name.data,
    )


def _depth(p: Placement, pipe: t.PipeOp) -> int:
    """Slots of a ring: the fewest of its tiles, and of those pipes that hand the same slots on."""
    declared = {_slots(tile) for tile in pipe.tiles}
    buffers = [
        p.values[tile].type
        for one in joined(pipe)
        for tile in one.tiles
        if _slots(tile) in declared
    ]
    return min(type.depth.data for type in buffers if isinstance(type, BufferType))


def _slots(tile: SSAValue) -> int:
    assert isinstance(tile.type, SharedType | AccumType)
    return tile.type.depth.data


def _across(p: Placement, op: t.PipeOp) -> Across | None:
    """How a pipe joins the CTAs of a cluster: by copies for all of them, or by an end that leads a pair."""
    leads = {r.sym_name.data: plan.leads for r, plan in p.plans.items()}
    first, last = (
        {leads.get(name.data, False) for name in end} for end in (op.producers, op.consumers)
    )
    if len(first) > 1 or len(last) > 1:
        raise TkcError.at(
            "TK110",
            f"pipe {op.sym_name.data} has ends of which one issues products of a pair and another does not: "
            "not supported yet; a pipe of its own fits",
            location_of(op),
        )
    multicast = [
        use.operation
        for tile in op.tiles
        for slot in slots_of(tile)
        for use in slot.uses
        if isinstance(use.operation, t.CopyOp) and use.operation.multicast is not None
    ]
    if first != last:
        if True in first:
            return Across.SPREAD
        return Across.SHARED if multicast else Across.GATHER
    return Across.MULTICAST if multicast else None


def _accum(p: Placement, op: t.AccumOp) -> None:
    type = p.accumulators.get(op)
    if type is None:
        raise TargetError.at(
            "TK202",
            f"accumulator {op.sym_name.data} needs tcgen05 or wgmma; {p.target.name} has neither",
            location_of(op),
            help=targets_with({Feature.WGMMA}, {Feature.TCGEN05}),
        )
    _buffer(p, op.tile, op.sym_name.data, type, op.within)


def _role(p: Placement, role: t.RoleOp, first_warp: int) -> None:
    plan = p.plans[role]
    p.role = Role(role.sym_name.data, plan)
    body = Block()
    with p.emit.inside(body):
        if p.home is Home.REGISTER and any(is_explicit(a.tile) for a in p.accumulators):
            from tkc.passes.placement.explicit import open_accumulators

            open_accumulators(p, role)
        statements(p, role.body.block)
        if p.role.bulk:
            p.emit.add(s.BulkWaitOp.create(properties={"pending": integer(0), "id": p.id("drain")}))
    properties: dict[str, Attribute] = {
        "sym_name": role.sym_name,
        "warps": integer(plan.warps),
        "first_warp": integer(first_warp),
        "groups": integer(plan.groups),
    }
    if role.registers is not None:
        properties["registers"] = role.registers
    if plan.leads:
        properties["leads"] = UnitAttr()
    p.emit.add(s.RoleOp.create(properties=properties, regions=[Region(body)]))
