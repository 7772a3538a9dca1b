"""Give every tile a home and every operation an owner, which turns the tile level into the stage level.

Before: `tile` operations, swizzles chosen. Roles speak of slots of pipes and of blocks of tensors.
After: `stage` operations: buffers with a home (shared memory, tensor memory, registers), rings with acquire, commit,
wait and release, copies with coordinates in elements, accumulators as linear values, register tiles as fragments in
column slices.
Here because: everything later speaks of threads, and this is the one step that knows both what was written and who
can do it; it stands before `fuse-roles`, which joins what it made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from tkc.analysis.launch import launch_of
from tkc.analysis.roles import (
    WARPGROUP,
    RolePlan,
    Rows,
    accumulator_home,
    plan_role,
    rows_of,
    slot_owner,
)
from tkc.analysis.swizzle import Use, choose
from tkc.diagnostics import Diagnostic, Severity, TargetError, TkcError, report
from tkc.ir.contract import to_attribute
from tkc.ir.emit import Emitter
from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.targets import Target
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.stage.types import (
    AccumulatorType,
    BufferType,
    FragmentLayout,
    FragmentType,
    Home,
    RingType,
)
from tkc.ir.syntax import segments
from tkc.ir.target import target_of
from tkc.ir.tile import ops as t
from tkc.ir.tile.types import AccumType, BlockType, RegsType, SharedType, SliceType

STORE_SLOTS = 2
"""Staging slots of a store (rule R22): one is filled while the copy engine drains the other."""

TMA_BOX = 256
"""The copy engine's limit on each extent of a box (cuTensorMapEncodeTiled)."""


def integer(value: int) -> IntegerAttr:
    return IntegerAttr(value, i32)


def names(values: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(v) for v in values])


@dataclass
class Slot:
    """A slot that a put or get has opened: its buffer's ring position, and how the role touches it."""

    tile: SSAValue
    buffer: SSAValue
    slot: SSAValue
    how: list[How] = field(default_factory=list)
    bytes: int = 0

    def touch(self, how: How, bytes: int = 0) -> None:
        if how not in self.how:
            self.how.append(how)
        self.bytes += bytes


@dataclass
class Role:
    """The state of the role that is being placed."""

    name: str
    plan: RolePlan
    slots: dict[SSAValue, Slot] = field(default_factory=dict)
    accumulators: dict[SSAValue, SSAValue] = field(default_factory=dict)
    stores: dict[SSAValue, tuple[SSAValue, SSAValue]] = field(default_factory=dict)
    bulk: bool = False


class Placement:
    """One kernel on its way from the tile level to the stage level."""

    def __init__(self, kernel: t.KernelOp, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        self.home = accumulator_home(target)
        self.values: dict[SSAValue, SSAValue] = {}
        self.rings: dict[SSAValue, SSAValue] = {}
        self.role: Role
        self.emit = Emitter(
            Block(arg_types=[a.type for a in kernel.body.block.args]), kernel.location
        )
        self.top = self.emit.block
        self.plans = {
            r: plan_role(r, self.home) for r in kernel.body.block.ops if isinstance(r, t.RoleOp)
        }

    def run(self) -> s.KernelOp:
        for old, new in zip(self.kernel.body.block.args, self.top.args, strict=True):
            self.values[old] = new
            new.name_hint = old.name_hint
        first_warp = self._first_warps()
        for op in self.kernel.body.block.ops:
            with self.emit.at(op.location):
                match op:
                    case t.RoleOp():
                        self._role(op, first_warp[op])
                    case _:
                        self._declaration(op)
        return s.KernelOp.create(
            properties={
                "sym_name": self.kernel.sym_name,
                "arg_names": self.kernel.arg_names,
                "contract": DictionaryAttr(
                    {k: to_attribute(v) for k, v in launch_of(self.kernel).items()}
                ),
            },
            regions=[Region(self.top)],
        )

    def _first_warps(self) -> dict[t.RoleOp, int]:
        """Warpgroups first, since tensor-memory readers and wgmma roles start at a multiple of four warps."""
        first: dict[t.RoleOp, int] = {}
        at = 0
        for wide in (True, False):
            for role, plan in self.plans.items():
                if (plan.warps % WARPGROUP == 0) == wide:
                    first[role], at = at, at + plan.warps
        if 32 * at > self.target.max_threads:
            raise TkcError.at(
                "TK208",
                f"the roles of kernel {self.kernel.sym_name.data} take {32 * at} threads; "
                f"a CTA has at most {self.target.max_threads}",
                location_of(self.kernel),
            )
        return first

    # Declarations ----------------------------------------------------------------------------------------------------

    def _declaration(self, op: Operation) -> None:
        match op:
            case SizeOp() | ConstOp() | ArithOp():
                copy = op.clone({k: v for k, v in self.values.items() if k in op.operands})
                self.emit.add(copy)
                self.values[op.results[0]] = copy.results[0]
                copy.results[0].name_hint = op.results[0].name_hint
            case t.ScheduleOp():
                pass
            case t.SharedOp():
                tile = op.tile.type
                assert isinstance(tile, SharedType)
                self._buffer(
                    op.tile,
                    op.sym_name.data,
                    BufferType.of(
                        tile.dtype.data, tile.shape, tile.depth.data, Home.SHARED, tile.swizzle.data
                    ),
                )
            case t.AccumOp():
                self._accum(op)
            case t.PipeOp():
                depth = min(self.values[x].type.depth.data for x in op.tiles)  # pyright: ignore
                self.rings[op.pipe] = self.emit.value(
                    s.PipeOp.create(
                        operands=[self.values[x] for x in op.tiles],
                        properties={
                            "sym_name": op.sym_name,
                            "kind": StringAttr("full_empty"),
                            "depth": integer(depth),
                            "producers": op.producers,
                            "consumers": op.consumers,
                        },
                        result_types=[RingType()],
                    ),
                    op.sym_name.data,
                )
            case _:
                raise TkcError.at(
                    "TK110", f"{op.name} at kernel level is not supported yet", location_of(op)
                )

    def _buffer(self, tile: SSAValue, name: str, type: BufferType) -> None:
        self.values[tile] = self.emit.value(
            s.BufferOp.create(properties={"sym_name": StringAttr(name)}, result_types=[type]), name
        )

    def _accum(self, op: t.AccumOp) -> None:
        tile = op.tile.type
        assert isinstance(tile, AccumType)
        if self.home is None:
            raise TargetError.at(
                "TK202",
                f"accumulator {op.sym_name.data} needs tcgen05 or wgmma; {self.target.name} has neither",
                location_of(op),
            )
        depth = tile.depth.data
        if self.home is Home.REGISTER and depth > 1:
            rows = rows_of(op, self.home)
            report(
                Diagnostic(
                    "TK219",
                    f"accumulator {op.sym_name.data} is held once, in the registers of {rows.groups} warpgroup(s) that "
                    f"split its {tile.shape[0]} rows; its depth of {depth} is a capacity",
                    location_of(op),
                    Severity.REMARK,
                )
            )
            depth = 1
        self._buffer(
            op.tile, op.sym_name.data, BufferType.of(tile.dtype.data, tile.shape, depth, self.home)
        )

    # Roles -----------------------------------------------------------------------------------------------------------

    def _role(self, role: t.RoleOp, first_warp: int) -> None:
        plan = self.plans[role]
        self.role = Role(role.sym_name.data, plan)
        body = Block()
        with self.emit.inside(body):
            self._block(role.body.block)
            if self.role.bulk:
                self.emit.add(
                    s.BulkWaitOp.create(properties={"pending": integer(0), "id": self._id("drain")})
                )
        properties: dict[str, Attribute] = {
            "sym_name": role.sym_name,
            "warps": integer(plan.warps),
            "first_warp": integer(first_warp),
            "groups": integer(plan.groups),
        }
        if role.registers is not None:
            properties["registers"] = role.registers
        self.emit.add(s.RoleOp.create(properties=properties, regions=[Region(body)]))

    def _id(self, what: str) -> StringAttr:
        return StringAttr(f"{self.role.name}.{what}")

    def _block(self, block: Block) -> None:
        for op in block.ops:
            with self.emit.at(op.location):
                self._statement(op)

    def _statement(self, op: Operation) -> None:
        match op:
            case SizeOp() | ConstOp() | ArithOp():
                self._declaration(op)
            case t.ForTilesOp():
                self._for_tiles(op)
            case t.ForBlocksOp():
                self._for_blocks(op)
            case t.PutOp() | t.GetOp():
                self._item(op)
            case t.ZeroOp():
                self.role.accumulators[op.accum] = self.emit.value(
                    s.ZeroOp.create(
                        operands=[self.role.accumulators[op.accum]],
                        result_types=[self.role.accumulators[op.accum].type],
                    )
                )
            case t.MmaOp():
                self._mma(op)
            case t.CopyOp():
                self._copy(op)
            case t.SliceOp() | t.ReadOp() | t.CastOp() | t.MapOp() | t.YieldOp():
                pass  # made where they are used
            case _:
                raise TkcError.at(
                    "TK110", f"{op.name} in a role is not supported yet", location_of(op)
                )

    def _for_tiles(self, op: t.ForTilesOp) -> None:
        schedule = op.work.owner
        assert isinstance(schedule, t.ScheduleOp)
        extents = [
            self.emit.arith("cdiv", self.values[e], self.emit.const(n.value.data))
            for e, n in zip(schedule.extents, schedule.sizes, strict=True)
        ]
        self._loop(
            op,
            [i32] * len(extents),
            lambda inits, region, types: s.WorkLoopOp.create(
                operands=[*extents, *inits],
                properties={
                    "schedule": schedule.sym_name,
                    "group": schedule.group,
                    **segments(len(extents), len(inits)),
                },
                regions=[region],
                result_types=types,
            ),
        )

    def _for_blocks(self, op: t.ForBlocksOp) -> None:
        blocks = self.emit.arith(
            "cdiv", self.values[op.extent], self.emit.const(op.size.value.data)
        )
        bounds = (self.emit.const(0), blocks, self.emit.const(1))
        self._loop(
            op,
            [i32],
            lambda inits, region, types: s.ForOp.create(
                operands=[*bounds, *inits], regions=[region], result_types=types
            ),
        )

    def _loop(self, op: t.ForTilesOp | t.ForBlocksOp, counters: list[Attribute], make) -> None:  # type: ignore[no-untyped-def]
        """A loop that carries the accumulators which its body changes."""
        if op.inits:
            raise TkcError.at(
                "TK110",
                "a register tile carried round a loop is not supported yet",
                location_of(op),
            )
        changed: list[SSAValue] = []
        for inner in op.walk():
            accum = (
                inner.d
                if isinstance(inner, t.MmaOp)
                else inner.accum
                if isinstance(inner, t.ZeroOp)
                else None
            )
            if accum is not None and accum in self.role.accumulators and accum not in changed:
                changed.append(accum)
        inits = [self.role.accumulators[a] for a in changed]
        types = [v.type for v in inits]
        body = Block(arg_types=[*counters, *types])
        for old, new in zip(op.body.block.args, body.args, strict=False):
            self.values[old] = new
            new.name_hint = old.name_hint
        self.role.accumulators.update(zip(changed, body.args[len(counters) :], strict=True))
        with self.emit.inside(body):
            self._block(op.body.block)
            self.emit.add(s.YieldOp.create(operands=[self.role.accumulators[a] for a in changed]))
        loop = self.emit.add(make(inits, Region(body), types))
        self.role.accumulators.update(zip(changed, loop.results, strict=True))

    def _item(self, op: t.PutOp | t.GetOp) -> None:
        """One item of each pipe: acquire or wait, the body, commit or release once the accesses are done."""
        if op.values:
            raise TkcError.at(
                "TK110",
                "a register tile that outlives its get is not supported yet; use it inside",
                location_of(op),
            )
        put = isinstance(op, t.PutOp)
        args = list(op.body.block.args)
        opened: list[tuple[SSAValue, SSAValue, list[Slot]]] = []
        for pipe in op.pipes:
            declared = pipe.owner
            assert isinstance(declared, t.PipeOp)
            make = s.AcquireOp if put else s.WaitOp
            ring = self.rings[pipe]
            slot = self.emit.value(make.create(operands=[ring], result_types=[i32]), "slot")
            slots: list[Slot] = []
            for tile in declared.tiles:
                arg = args.pop(0)
                buffer = self.values[tile]
                slots.append(Slot(tile, buffer, slot))
                self.role.slots[arg] = slots[-1]
                if isinstance(buffer.type, BufferType) and isinstance(tile.type, AccumType):
                    self.role.accumulators[arg] = self.emit.value(
                        s.OpenOp.create(
                            operands=[buffer, slot],
                            result_types=[
                                AccumulatorType.of(buffer.type.dtype.data, buffer.type.shape)
                            ],
                        )
                    )
            opened.append((ring, slot, slots))
        self._block(op.body.block)
        for ring, slot, slots in opened:
            how = list(dict.fromkeys(h for x in slots for h in x.how))
            if How.WGMMA in how:
                self._await_products()
            properties: dict[str, Attribute] = {"how": names(how)}
            if put:
                properties["bytes"] = integer(sum(x.bytes for x in slots))
                held = [
                    self.role.accumulators[a]
                    for a in op.body.block.args
                    if a in self.role.accumulators and self.role.slots[a] in slots
                ]
                self.emit.add(
                    s.CommitOp.create(operands=[ring, slot, *held], properties=properties)
                )
            else:
                self.emit.add(s.ReleaseOp.create(operands=[ring, slot], properties=properties))
        for arg in op.body.block.args:
            self.role.accumulators.pop(arg, None)

    def _await_products(self) -> None:
        for arg, value in self.role.accumulators.items():
            if isinstance(value.owner, s.MmaOp):
                self.role.accumulators[arg] = self.emit.value(
                    s.MmaWaitOp.create(
                        operands=[value],
                        properties={"pending": integer(0), "id": self._id("products")},
                        result_types=[value.type],
                    )
                )

    def _mma(self, op: t.MmaOp) -> None:
        how = How.TCGEN05 if self.home is Home.TENSOR else How.WGMMA
        a, b = self.role.slots[op.a], self.role.slots[op.b]
        for operand in (op.a, op.b, op.d):
            self.role.slots[operand].touch(how)
        properties: dict[str, Attribute] = {"trans_a": op.trans_a, "trans_b": op.trans_b}
        if self.home is Home.REGISTER:
            properties["by"] = StringAttr(s.By.ALL.value)
        source = self.role.accumulators[op.d]
        self.role.accumulators[op.d] = self.emit.value(
            s.MmaOp.create(
                operands=[source, a.buffer, a.slot, b.buffer, b.slot],
                properties=properties,
                result_types=[source.type],
            )
        )

    # Copies ----------------------------------------------------------------------------------------------------------

    def _coordinates(
        self, slice: SSAValue, shape: Sequence[int]
    ) -> tuple[SSAValue, list[SSAValue], ArrayAttr]:
        """The tensor, the start of a slice in elements, and the box of a piece of `shape`, outermost axis first."""
        op = slice.owner
        assert isinstance(op, t.SliceOp)
        starts: list[SSAValue] = []
        box: list[int] = []
        extents = list(shape)
        for index in op.indices:
            value = self.values[index]
            if isinstance(index.type, BlockType):
                if index.type.size.data != 1:
                    value = self.emit.arith("mul", value, self.emit.const(index.type.size.data))
                box.append(extents.pop(0))
            else:
                box.append(1)
            starts.append(value)
        return self.values[op.tensor], starts, ArrayAttr([integer(n) for n in box])

    def _copy(self, op: t.CopyOp) -> None:
        source, destination = op.source, op.destination
        match source.type, destination.type:
            case SliceType(), SharedType():
                slot = self.role.slots[destination]
                assert isinstance(slot.buffer.type, BufferType)
                self._check_box(slot.buffer.type, op)
                tensor, starts, box = self._coordinates(source, slot.buffer.type.shape)
                slot.touch(How.TMA, slot.buffer.type.slot_bytes)
                self.emit.add(
                    s.TmaLoadOp.create(
                        operands=[tensor, slot.buffer, slot.slot, *starts],
                        properties={"box": box, **segments(1, 1, 1, len(starts), 0)},
                    )
                )
            case SharedType(), SliceType():
                slot = self.role.slots[source]
                assert isinstance(slot.buffer.type, BufferType)
                self._check_box(slot.buffer.type, op)
                tensor, starts, box = self._coordinates(destination, slot.buffer.type.shape)
                slot.touch(How.BULK)
                self.role.bulk = True
                self.emit.add(
                    s.TmaStoreOp.create(
                        operands=[slot.buffer, slot.slot, tensor, *starts], properties={"box": box}
                    )
                )
                self.emit.add(s.BulkCommitOp.create(properties={"id": self._id("store")}))
            case RegsType(), SliceType():
                self._store(op)
            case RegsType(), SharedType():
                self._fill(op)
            case _:
                raise TkcError.at(
                    "TK110",
                    f"a copy from {source.type} to {destination.type} is not supported yet",
                    location_of(op),
                )

    def _check_box(self, buffer: BufferType, op: Operation) -> None:
        for extent in buffer.shape[:-1]:
            if extent > TMA_BOX:
                raise TkcError.at(
                    "TK207",
                    f"a tile of shape {list(buffer.shape)} has an extent of {extent}; the tensor copy engine takes boxes "
                    f"of at most {TMA_BOX} on each axis but the last",
                    location_of(op),
                )

    def _rows(self, value: SSAValue, rows: int, op: Operation) -> Rows:
        """How the rows of a register tile fall on the role's threads: as its accumulator has them, else row by row."""
        for read in self._reads(value):
            owner = slot_owner(read.tile).owner
            if isinstance(owner, t.AccumOp):
                assert self.home is not None
                return rows_of(owner, self.home)
        threads = 32 * self.role.plan.warps
        unit = min(threads, rows)
        if rows % unit or threads % unit:
            raise TkcError.at(
                "TK110",
                f"a register tile of {rows} rows over {threads} threads is not supported yet; rows and threads must "
                "divide one another",
                location_of(op),
            )
        if unit < threads:
            raise TkcError.at(
                "TK110",
                f"a register tile of {rows} rows leaves threads of a role of {threads} idle; tiles of {threads} rows fit",
                location_of(op),
            )
        return Rows(unit, 1, rows // unit, FragmentLayout.ROWS)

    def _reads(self, value: SSAValue) -> list[t.ReadOp]:
        found: list[t.ReadOp] = []
        todo, seen = [value], {value}
        while todo:
            owner = todo.pop().owner
            if isinstance(owner, t.ReadOp):
                found.append(owner)
            elif isinstance(owner, t.CastOp | t.MapOp):
                for operand in owner.operands:
                    if operand not in seen:
                        seen.add(operand)
                        todo.append(operand)
        return found

    def _store(self, op: t.CopyOp) -> None:
        """`C[m, n] <- r` in slices of one span of columns, through staging slots that the copy engine drains (R22)."""
        tile = op.source.type
        assert isinstance(tile, RegsType)
        shape = tuple(int(n) for n in tile.shape)
        rows = self._rows(op.source, shape[0], op)
        choice = choose(tile.dtype.data, shape, frozenset({Use.COPY, Use.THREADS}))
        if choice is None:
            raise TkcError.at(
                "TK207",
                f"rows of {shape[1]} {tile.dtype.data} are no multiple of 16 bytes; the tensor copy engine stores no such tile",
                location_of(op),
            )
        columns = choice.span * 8 // DTYPES[tile.dtype.data].bits
        staging_type = BufferType.of(
            tile.dtype.data,
            (rows.unit, columns),
            STORE_SLOTS * rows.groups,
            Home.SHARED,
            choice.swizzle,
        )
        ring, staging = self._staging(op, staging_type)
        tensor, starts, box = self._coordinates(op.destination, staging_type.shape)
        self.role.bulk = True
        for block in range(rows.blocks):
            self._slices(
                op,
                rows,
                block,
                shape[1],
                columns,
                lambda column, block=block: self._store_slice(
                    op, rows, block, columns, column, ring, staging, tensor, starts, box
                ),
            )

    def _slices(
        self, op: Operation, rows: Rows, block: int, width: int, columns: int, body
    ) -> None:  # type: ignore[no-untyped-def]
        """Runs `body(column)` for each slice: a loop where columns may be found at run time, else one by one
        (registers)."""
        if rows.layout is FragmentLayout.WGMMA or width == columns:
            for first in range(0, width, columns):
                body(self.emit.const(first))
            return
        loop = Block(arg_types=[i32])
        loop.args[0].name_hint = "column"
        bounds = (self.emit.const(0), self.emit.const(width), self.emit.const(columns))
        with self.emit.inside(loop):
            body(loop.args[0])
            self.emit.add(s.YieldOp.create(operands=[]))
        self.emit.add(s.ForOp.create(operands=bounds, regions=[Region(loop)]))

    def _store_slice(
        self, op: t.CopyOp, rows: Rows, block: int, columns: int, column: SSAValue,
        ring: SSAValue, staging: SSAValue, tensor: SSAValue, starts: list[SSAValue], box: ArrayAttr,
    ) -> None:  # fmt: skip
        value = self._fragment(op.source, rows, block, columns, column, {})
        slot = self.emit.value(s.AcquireOp.create(operands=[ring], result_types=[i32]), "slot")
        row: SSAValue = starts[0]
        place: SSAValue = slot
        if rows.groups > 1:
            group = self.emit.value(s.GroupOp.create(result_types=[i32]), "group")
            place = self.emit.arith(
                "add", self.emit.arith("mul", slot, self.emit.const(rows.groups)), group
            )
            first = self.emit.arith("mul", group, self.emit.const(rows.unit * rows.blocks))
            row = self.emit.arith("add", row, first)
        if block:
            row = self.emit.arith("add", row, self.emit.const(rows.unit * block))
        zero = self.emit.const(0)
        self.emit.add(s.StoreSharedOp.create(operands=[value, staging, place, zero]))
        self.emit.add(s.RoleBarrierOp.create(properties={"id": self._id("filled")}))
        target = [row, *starts[1:-1], self.emit.arith("add", starts[-1], column)]
        self.emit.add(
            s.TmaStoreOp.create(operands=[staging, place, tensor, *target], properties={"box": box})
        )
        self.emit.add(
            s.CommitOp.create(
                operands=[ring, slot], properties={"how": names([How.BULK]), "bytes": integer(0)}
            )
        )

    def _staging(self, op: t.CopyOp, type: BufferType) -> tuple[SSAValue, SSAValue]:
        """The role's staging ring of this type, declared at kernel level on first use."""
        for ring, staging in self.role.stores.values():
            if staging.type == type:
                return ring, staging
        name = f"{self.role.name}.staging{len(self.role.stores) or ''}"
        with self.emit.inside(self.top):
            staging = self.emit.value(
                s.BufferOp.create(properties={"sym_name": StringAttr(name)}, result_types=[type]),
                "staging",
            )
            ring = self.emit.value(
                s.PipeOp.create(
                    operands=[staging],
                    properties={
                        "sym_name": StringAttr(name),
                        "kind": StringAttr("store"),
                        "depth": integer(STORE_SLOTS),
                        "producers": names([self.role.name]),
                        "consumers": names([]),
                    },
                    result_types=[RingType()],
                ),
                "staging_ring",
            )
        self.role.stores[op.source] = (ring, staging)
        return ring, staging

    def _fill(self, op: t.CopyOp) -> None:
        """`a <- r`: a register tile into a slot of a put, slice by slice."""
        tile = op.source.type
        assert isinstance(tile, RegsType)
        shape = tuple(int(n) for n in tile.shape)
        rows = self._rows(op.source, shape[0], op)
        slot = self.role.slots[op.destination]
        slot.touch(How.GENERIC)
        if rows.blocks * rows.groups > 1:
            raise TkcError.at(
                "TK110",
                f"writing a register tile of {shape[0]} rows into a shared tile is not supported yet; {rows.unit} rows fit",
                location_of(op),
            )
        columns = self._slice_columns(slot, shape[1])

        def one(column: SSAValue) -> None:
            value = self._fragment(op.source, rows, 0, columns, column, {})
            self.emit.add(s.StoreSharedOp.create(operands=[value, slot.buffer, slot.slot, column]))

        self._slices(op, rows, 0, shape[1], columns, one)

    def _slice_columns(self, slot: Slot, width: int) -> int:
        type = slot.buffer.type
        assert isinstance(type, BufferType)
        choice = choose(type.dtype.data, type.shape, frozenset({Use.THREADS}))
        assert choice is not None
        return min(width, choice.span * 8 // DTYPES[type.dtype.data].bits)

    # Fragments -------------------------------------------------------------------------------------------------------

    def _fragment(
        self, value: SSAValue, rows: Rows, block: int, columns: int, column: SSAValue,
        made: dict[SSAValue, SSAValue],
    ) -> SSAValue:  # fmt: skip
        """Columns `column` up of row block `block` of a register tile, made here from what it was computed from."""
        if value in made:
            return made[value]
        if not isinstance(value.type, RegsType):
            return self.values[value]
        op = value.owner
        type = FragmentType.of(value.type.dtype.data, (rows.unit, columns), rows.layout)
        match op:
            case t.ReadOp():
                result = self._read(op, type, rows, block, column)
            case t.CastOp() | t.MapOp():
                operands = [
                    self._fragment(x, rows, block, columns, column, made) for x in op.operands
                ]
                with self.emit.at(op.location):
                    if isinstance(op, t.CastOp):
                        new: Operation = s.CastOp.create(operands=operands, result_types=[type])
                    else:
                        new = s.MapOp.create(
                            operands=operands, properties={"kind": op.kind}, result_types=[type]
                        )
                    result = self.emit.value(new)
            case _:
                raise TkcError.at(
                    "TK110",
                    "a register tile carried round a loop or out of a get is not supported yet",
                    location_of(op) if isinstance(op, Operation) else None,
                )
        made[value] = result
        return result

    def _read(
        self, op: t.ReadOp, type: FragmentType, rows: Rows, block: int, column: SSAValue
    ) -> SSAValue:
        slot = self.role.slots[op.tile]
        with self.emit.at(op.location):
            if isinstance(op.tile.type, AccumType):
                slot.touch(How.TENSOR)
                nonzero = self._nonzero(op)
                return self.emit.value(
                    s.ReadAccumulatorOp.create(
                        operands=[self.role.accumulators[op.tile], column, *nonzero],
                        properties={"row_block": integer(block)},
                        result_types=[type],
                    )
                )
            slot.touch(How.GENERIC)
            if block or rows.layout is not FragmentLayout.ROWS:
                raise TkcError.at(
                    "TK110",
                    "reading a shared tile beside an accumulator, or one of more rows than the role has threads, "
                    "is not supported yet",
                    location_of(op),
                )
            return self.emit.value(
                s.LoadSharedOp.create(
                    operands=[slot.buffer, slot.slot, column], result_types=[type]
                )
            )

    def _nonzero(self, read: t.ReadOp) -> list[SSAValue]:
        """Whether the item got any product (R7): nothing where it surely did, else the condition that every role can
        compute."""
        accum = slot_owner(read.tile)
        conditions: list[SSAValue] = []
        for op in self.kernel.walk():
            if not isinstance(op, t.MmaOp) or slot_owner(op.d) is not accum:
                continue
            trips: list[SSAValue] = []
            parent = op.parent_op()
            while parent is not None and not (
                isinstance(parent, t.PutOp) and op.d.owner is parent.body.block
            ):
                if isinstance(parent, t.ForBlocksOp):
                    trips.append(parent.extent)
                parent = parent.parent_op()
            if not trips:
                return []
            condition: SSAValue | None = None
            for extent in trips:
                if (
                    extent not in self.values
                    or self.values[extent].owner.parent_block() is not self.top
                ):  # type: ignore[union-attr]
                    raise TkcError.at(
                        "TK110",
                        "a product inside a loop whose extent depends on the work item is not supported yet",
                        location_of(op),
                    )
                some = self._at_top("lt", 0, self.values[extent])
                condition = some if condition is None else self.emit.arith("and", condition, some)
            assert condition is not None
            conditions.append(condition)
        result: SSAValue | None = None
        for condition in conditions:
            result = (
                condition
                if result is None or result is condition
                else self.emit.arith("or", result, condition)
            )
        return [] if result is None else [result]

    def _at_top(self, kind: str, low: int, value: SSAValue) -> SSAValue:
        key = (kind, low, value)
        known = getattr(self, "_conditions", None)
        if known is None:
            known = self._conditions = {}
        if key not in known:
            with self.emit.inside(self.top):
                known[key] = self.emit.arith(kind, self.emit.const(low), value, hint="some")
        return known[key]


@dataclass(frozen=True)
class PlaceTilesPass(ModulePass):
    """`place-tiles`."""

    name = "place-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for kernel in [k for k in op.body.block.ops if isinstance(k, t.KernelOp)]:
            placed = Placement(kernel, target).run()
            placed.location = kernel.location
            op.body.block.insert_op_before(placed, kernel)
            kernel.detach()
            kernel.erase()
