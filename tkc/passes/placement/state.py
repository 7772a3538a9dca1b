"""What placement knows while it walks a kernel: what each value has become, the role at hand, its open slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.accumulators import accumulator_buffers
from tkc.analysis.roles import RolePlan, accumulator_home, plan_role
from tkc.ir.emit import Emitter
from tkc.ir.isa.targets import Target
from tkc.ir.stage.ops import How
from tkc.ir.stage.scalar import SizeOp
from tkc.ir.stage.structure import UnitOp
from tkc.ir.stage.types import BufferType
from tkc.ir.tile import ops as t
from tkc.ir.tile.loops import ShareOp
from tkc.ir.tile.types import BlockType


def names(values: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(v) for v in values])


@dataclass
class Slot:
    """A slot that a put or get has opened: its buffer's ring position, and how the role touches it."""

    tile: SSAValue
    buffer: SSAValue
    slot: SSAValue
    how: list[How] = field(default_factory=list[How])
    bytes: int = 0
    taken: Slot | None = None
    """The slot of a get round a put, which the put hands on: what is done to the one is done to the other."""

    @property
    def type(self) -> BufferType:
        assert isinstance(self.buffer.type, BufferType)
        return self.buffer.type

    def touch(self, how: How, bytes: int = 0) -> None:
        if how not in self.how:
            self.how.append(how)
        self.bytes += bytes
        if self.taken is not None and how is not How.TMA:
            self.taken.touch(how)


@dataclass
class Staging:
    """The slots through which a role stores register tiles of one shape, and their ring."""

    ring: SSAValue
    buffer: SSAValue


@dataclass
class Role:
    """The state of the role that is being placed."""

    name: str
    plan: RolePlan
    slots: dict[SSAValue, Slot] = field(default_factory=dict[SSAValue, Slot])
    accumulators: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    known: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    stagings: list[Staging] = field(default_factory=list[Staging])
    held: dict[tuple[SSAValue, int], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, int], SSAValue]
    )
    """Register values that are made already, by row block."""
    columns: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """One value a column → the vector in shared memory where it lies."""
    scratch: dict[tuple[str, tuple[int, ...]], SSAValue] = field(
        default_factory=dict[tuple[str, tuple[int, ...]], SSAValue]
    )
    """Buffers of the compiler's own in shared memory, by what they are for and their shape."""
    copied: dict[SSAValue, tuple[Slot, Block]] = field(
        default_factory=dict[SSAValue, "tuple[Slot, Block]"]
    )
    """Shared tiles to the slot whose block scales were copied to tensor memory last, and where that was."""
    sums: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Slots of open gets to whether their items got any product, where that was computed again."""
    bulk: bool = False

    def key(self, slot: SSAValue) -> SSAValue:
        """What `accumulators` and `slots` know a slot by: the tile for one of `known`, whose registers flow."""
        return self.known.get(slot, slot)


class Placement:
    """One kernel on its way from the tile level to the stage level."""

    def __init__(self, kernel: t.KernelOp, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        self.home = accumulator_home(target)
        self.accumulators = accumulator_buffers(kernel, target, self.home)
        self.values: dict[SSAValue, SSAValue] = {}
        self.scales: dict[SSAValue, SSAValue] = {}
        """Shared tiles to the buffers of their block scales."""
        self.scale_columns: dict[SSAValue, SSAValue] = {}
        """Shared tiles to where their scales go in tensor memory, where the compiler decides that."""
        self.rings: dict[SSAValue, SSAValue] = {}
        self.conditions: dict[SSAValue, SSAValue] = {}
        self.extents: dict[int | str, SSAValue] = {}
        self.role: Role
        self.emit = Emitter(
            Block(arg_types=[a.type for a in kernel.body.block.args]), kernel.location
        )
        self.top = self.emit.block
        cluster = kernel.launch.data.get("cluster")
        self.ctas = cluster.value.data if isinstance(cluster, IntegerAttr) else 1
        self._ranks: dict[str, SSAValue] = {}
        self.plans = {
            r: plan_role(r, self.home) for r in kernel.body.block.ops if isinstance(r, t.RoleOp)
        }

    def id(self, what: str) -> StringAttr:
        """A name for a synchronisation site of the role."""
        return StringAttr(f"{self.role.name}.{what}")

    def scalar(self, op: Operation) -> None:
        """A size, a constant or arithmetic on them is the same at both levels."""
        copy = op.clone({x: self.values[x] for x in op.operands if x in self.values})
        self.emit.add(copy)
        self.values[op.results[0]] = copy.results[0]
        if isinstance(op, SizeOp) and self.emit.block is self.top:
            self.extents.setdefault(op.symbol.data, copy.results[0])
        copy.results[0].name_hint = op.results[0].name_hint

    def extent(self, dim: int | str) -> SSAValue:
        """An extent of a tensor's axis as a scalar of the kernel's own level, found once."""
        if dim not in self.extents:
            with self.emit.inside(self.top):
                self.extents[dim] = (
                    self.emit.const(dim)
                    if isinstance(dim, int)
                    else self.emit.value(
                        SizeOp.create(properties={"symbol": StringAttr(dim)}, result_types=[i32]),
                        dim,
                    )
                )
        return self.extents[dim]

    @property
    def pairs(self) -> int:
        """Pairs of a cluster of pairs; 0 where it is none."""
        return self.ctas // 2 if "pair" in self.kernel.launch.data and self.ctas > 2 else 0

    def shares(self, op: ShareOp) -> int:
        """In how many parts a block is shared."""
        whole, part = op.whole.type, op.part.type
        assert isinstance(whole, BlockType)
        assert isinstance(part, BlockType)
        return whole.size.data // part.size.data

    def rank_of(self, op: ShareOp) -> SSAValue:
        """Which part this CTA has: the number of it in its cluster, of its pair, or of it in its pair, found once."""
        which = "rank" if op.of is None else op.of.data
        if which not in self._ranks:
            with self.emit.inside(self.top):
                self._ranks[which] = self.emit.value(
                    UnitOp.create(properties={"which": StringAttr(which)}, result_types=[i32]),
                    which,
                )
        return self._ranks[which]

    def some(self, extent: SSAValue) -> SSAValue:
        """Whether an extent of the kernel's own level is positive, found once."""
        if extent not in self.conditions:
            with self.emit.inside(self.top):
                self.conditions[extent] = self.emit.arith(
                    "lt", self.emit.const(0), extent, hint="some"
                )
        return self.conditions[extent]
