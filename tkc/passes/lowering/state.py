"""What lowering knows while it writes a kernel: values so far, addresses, parameters, the role at hand."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Block, Operation, SSAValue

from tkc.diagnostics import Bug, TargetError
from tkc.ir.isa.layouts import (
    MatrixDescriptor,
    SharedTile,
    alignment,
    descriptor_format,
    held_span,
    swizzle_of,
)
from tkc.ir.isa.targets import Feature, Target, targets_with
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At, Emit
from tkc.ir.stage import ops as s
from tkc.ir.stage.maps import argument_of
from tkc.ir.stage.structure import PAIR
from tkc.ir.stage.types import BufferType
from tkc.ir.tile.types import TensorType

RARE_FAMILIES = (
    "bulk",
    "debugging",
    "elements",
    "explicit",
    "maps",
    "numbers",
    "stealing",
    "tensor_operands",
)
"""Files of ways that few kernels need: they register when an operation has none yet, and are not imported before."""

Number = SSAValue | int
"""A register, or a number that is known now."""


@dataclass(frozen=True)
class Accumulator:
    """An accumulator value: registers (one tuple for each row block) or a tensor-memory address, and whether it counts.

    `started` is False where the next product takes no input, True where it does, or a predicate.
    """

    registers: tuple[SSAValue, ...]
    address: Number
    started: SSAValue | bool


@dataclass(frozen=True)
class Fragment:
    """The registers of a fragment, in parts of columns side by side.

    Of a 32-bit dtype a part is (even elements, odd elements), each a tuple; of a 16-bit one it is one tuple of pairs.
    In the wgmma layout rows 8 apart alternate in a tuple; with `halves` they are parts of their own, in turn. One value
    a row is one part of single registers, one for each row that the thread has a part of (16 bits: the lower half).
    """

    dtype: str
    parts: tuple[tuple[SSAValue, ...], ...]
    halves: bool = False


@dataclass(frozen=True)
class Lowering:
    """How one kind of operation is written; `needs` are the features that this way takes."""

    write: Callable[[Kernel, Any], None]
    needs: frozenset[Feature] = frozenset()


@dataclass
class Kernel:
    """One kernel on its way to PTX."""

    TABLE: ClassVar[dict[type[Operation], tuple[Lowering, ...]]] = {}

    source: s.KernelOp
    target: Target
    emit: Emit
    params: list[tuple[str, str]] = field(default_factory=list)
    args: list[dict[str, Any]] = field(default_factory=list)
    requires: list[dict[str, Any]] = field(default_factory=list)
    values: dict[SSAValue, Any] = field(default_factory=dict)
    maps: dict[tuple[Any, ...], SSAValue] = field(default_factory=dict)
    tables: dict[tuple[Any, ...], SSAValue] = field(default_factory=dict)
    """Where the maps of lists lie that the launch has made, by what `maps` is by."""
    spaces: dict[str, SSAValue] = field(default_factory=dict)
    """Where this CTA's parts of scratch memory begin."""
    starts: dict[int, SSAValue] = field(default_factory=dict)
    """Low words of descriptors, without the slot, by what they add to where shared memory begins."""
    descriptors: dict[tuple[Any, ...], tuple[SSAValue, int]] = field(default_factory=dict)
    """Descriptors made, by their block, slot, distance of slots and high word; with what their low word begins with."""
    constants: dict[Hashable, Any] = field(default_factory=dict)
    """What is made once, before the roles."""
    declared: dict[SSAValue, s.BufferOp | s.BarriersOp] = field(default_factory=dict)
    barrier_ids: dict[s.RoleOp, int] = field(default_factory=dict)
    trap_hangs: int | None = None
    """After how many ns a wait gives up, says so and traps; None: never."""
    early: set[Operation] = field(default_factory=set)
    """Operations that have been written with one before them."""
    told: set[str] = field(default_factory=set)
    """Remarks that have been made."""
    role: s.RoleOp | None = None
    base: Any = None
    thread: Any = None
    warp: Any = None
    lane: Any = None
    tensor_base: Any = None

    @property
    def ctas(self) -> int:
        """CTAs of a unit: of a cluster, unless one may hold several."""
        return 1 if self.source.cluster is None else self.source.cluster.value.data

    @property
    def several(self) -> bool:
        """Whether a cluster may hold more than one unit."""
        return self.source.most_ctas is not None

    @property
    def first_rank(self) -> Any:
        """The rank in its cluster of the first CTA of this unit."""
        return self._first_of(self.ctas) if self.several else 0

    @property
    def leader(self) -> Any:
        """The rank in its cluster of the first CTA of this pair."""
        return self._first_of(PAIR) if self.several or self.ctas > PAIR else 0

    def _first_of(self, ctas: int) -> Any:
        """The rank of the first CTA of as many, a power of two, that lie together."""

        def make() -> Any:
            rank = self.emit.special("%cluster_ctarank")
            return self.bit_and(rank, ~(ctas - 1) & 0xFFFFFFFF) if ctas > 1 else rank

        return self.once(("first", ctas), make)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What is the same all the time, made before the roles."""
        if key not in self.constants:
            here, self.emit.location = self.emit.location, self.source.location
            with self.emit.into(self.top):
                self.constants[key] = make()
            self.emit.location = here
        return self.constants[key]

    def every_cta(self) -> Any:
        """The mask of all CTAs of the unit, of 16 bits."""
        return self.moved((1 << self.ctas) - 1, self.first_rank)

    def moved(self, mask: int, rank: Any) -> Any:
        """A mask of CTAs from a rank on that stays the same, of 16 bits."""
        if isinstance(rank, int):
            return mask << rank

        def make() -> Any:
            moved = self.emit("shl", ".b32", self.emit.imm(mask, "b32"), rank)
            return self.emit("cvt", ".u16", ".u32", moved)

        return self.once(("mask", mask, rank), make)

    @property
    def pairs(self) -> int:
        """Pairs that are one unit; 0 where a unit is no cluster of pairs."""
        paired = self.source.pair is not None and self.ctas > PAIR
        return self.ctas // PAIR if paired else 0

    @property
    def cta_group(self) -> str:
        """Whose tensor memory the kernel's tcgen05 instructions are of; a kernel has one kind only (PTX 9.7.18.5)."""
        return ".cta_group::1" if self.source.pair is None else ".cta_group::2"

    @property
    def top(self) -> Block:
        """The kernel's own block: what is emitted into it while a role is written stands before the role."""
        return self._top

    def __post_init__(self) -> None:
        self._top = self.emit.block

    def write(self, block: Block) -> None:
        """Every operation of a block, in order."""
        emit = self.emit
        for op in block.ops:
            if op in self.early:
                continue
            emit.location = op.location
            self.lowering_of(op).write(self, op)

    def lowering_of(self, op: Operation) -> Lowering:
        """The first way to write the operation whose needs the target meets."""
        candidates = self.TABLE.get(type(op))
        if candidates is None:
            for family in RARE_FAMILIES:
                import_module(f"tkc.passes.lowering.{family}")
            candidates = self.TABLE.get(type(op))
        if candidates is None:
            raise Bug("lower-stage-to-ptx", f"{op.name} should be gone by now")
        for candidate in candidates:
            if self.target.has(candidate.needs):
                return candidate
        from tkc.ir.stage.words import words

        ways = " or ".join(" and ".join(sorted(c.needs)) for c in candidates)
        raise TargetError.at(
            "TK202",
            f"{words(op)} needs {ways}; {self.target.name} has none",
            location_of(op),
            help=targets_with(*(c.needs for c in candidates)),
        )

    # Values

    def number(self, value: SSAValue) -> Any:
        """What a scalar has become: a register or a known number."""
        found = self.values.get(value)
        if found is None:
            raise Bug("lower-stage-to-ptx", f"a value of {value.owner} has not been written")
        return found

    def register(self, value: SSAValue) -> SSAValue:
        """A scalar in a register (a known number as a constant)."""
        found: SSAValue | int | float = self.number(value)
        if isinstance(found, SSAValue):
            return found
        if isinstance(found, bool):
            return self.emit.imm(int(found), "pred")
        if isinstance(found, float):
            return self.emit.float(found)
        return self.emit.imm(found, {i1: "pred", i64: "b64"}.get(value.type, "b32"))

    def symbol(self, name: str) -> SSAValue:
        """A size that the launch binds, declared as a parameter on first use."""
        if all(known != name for known, _ in self.params):
            self.params.append((name, "s32"))
            self.args.append(
                {"kind": "scalar", "dtype": "i32", "value": {"sym": name}, "name": name}
            )
        with self.emit.into(self.top):
            return self.emit.param(name, "s32")

    def current_role(self) -> s.RoleOp:
        if self.role is None:
            raise Bug("lower-stage-to-ptx", "an operation that needs a role stands outside one")
        return self.role

    def pointer(self, tensor: SSAValue, align: int = 1) -> SSAValue:
        """The address of a tensor's first element, declared as a parameter on first use.

        The launch refuses one that is no multiple of `align`.
        """
        type = tensor.type
        assert isinstance(type, TensorType)
        argument = self.argument(tensor)
        name = f"{argument}_pointer"
        if all(known != name for known, _ in self.params):
            dtype = type.dtype.data
            self.params.append((name, "pointer"))
            self.args.append(
                {"kind": "pointer", "argument": argument, "dtype": dtype, "name": name}
            )
        if align > 1:
            for arg in self.args:
                if arg["name"] == name:
                    arg["align"] = max(align, arg.get("align", 1))
        with self.emit.into(self.top):
            return self.emit.param(name, "pointer")

    def argument(self, tensor: SSAValue) -> str:
        """The name of the argument that a tensor is, or is an array of."""
        index = self.source.body.block.args.index(argument_of(tensor))  # pyright: ignore[reportArgumentType]
        return self.source.arg_names.data[index].data

    def axes_of(self, tensor: SSAValue) -> list[int]:
        """The axes of a tensor as its argument numbers them; the last is the contiguous one."""
        type = tensor.type
        assert isinstance(type, TensorType)
        axes, name = list(range(len(type.shape))), self.argument(tensor)
        given: Any = self.source.contract.data.get("arguments", ())
        for argument in given:
            if argument.data["name"].data == name and "major" in argument.data:
                axes.append(axes.pop(argument.data["major"].value.data))
        return axes

    def tensor_map(self, key: tuple[Any, ...], arg: dict[str, Any]) -> SSAValue:
        """The address of a tensor map, an ARG of the contract, declared as a parameter on first use.

        `key` tells the maps of a kernel apart; its first part is the name of the argument.
        """
        if key not in self.maps:
            name = f"{key[0].replace('.', '_')}_map"
            if any(other[0] == key[0] for other in self.maps):
                name += str(len(self.maps))
            name = self._free(name)
            self.args.append({**arg, "name": name})
            self.params.append((name, "tensormap"))
            with self.emit.into(self.top):
                self.maps[key] = self.emit.param_address(name)
        return self.maps[key]

    def map_table(self, key: tuple[Any, ...], spec: dict[str, Any]) -> SSAValue:
        """Where the maps of a list's arrays begin, made by the launch in global memory; declared on first use."""
        if key not in self.tables:
            again = sum(other[0] == key[0] for other in self.tables)
            name = self._free(f"{key[0].replace('.', '_')}_maps{again or ''}")
            self.args.append({"kind": "tensormaps", **spec, "name": name})
            self.params.append((name, "pointer"))
            with self.emit.into(self.top):
                self.tables[key] = self.emit.param(name, "pointer")
        return self.tables[key]

    def scratch(self, name: str, bytes: int) -> str:
        """The name of a parameter for global memory that the launch gives, so many bytes a CTA."""
        name = self._free(name)
        self.args.append({"kind": "scratch", "bytes": bytes, "name": name})
        self.params.append((name, "pointer"))
        return name

    def _free(self, name: str) -> str:
        """A name for a parameter that none has; a size may be called so."""
        taken = {n for n, _ in self.params}
        while name in taken:
            name += "_"
        return name

    # Arithmetic on numbers that may be known

    def add(self, a: Number, b: Number) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int) and b == 0:
            return a
        return self.emit("add", ".u32", a, b)

    def mul(self, a: Number, b: Number) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            if b == 0:
                return 0
            if b == 1:
                return a
            if b & (b - 1) == 0:
                return self.emit("shl", ".b32", a, b.bit_length() - 1)
        return self.emit("mul.lo", ".u32", a, b)

    def bit_and(self, a: Number, mask: int) -> Any:
        return a & mask if isinstance(a, int) else self.emit("and", ".b32", a, mask)

    def bit_xor(self, a: Number, b: Number) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return a ^ b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int) and b == 0:
            return a
        return self.emit("xor", ".b32", a, b)

    def shift_right(self, a: Number, count: int) -> Any:
        if isinstance(a, int):
            return a >> count
        return self.emit("shr", ".u32", a, count) if count else a

    # Memory

    def buffer(self, value: SSAValue) -> tuple[s.BufferOp, BufferType]:
        op = self.declared[value]
        assert isinstance(op, s.BufferOp)
        assert isinstance(value.type, BufferType)
        return op, value.type

    def tile(self, type: BufferType) -> SharedTile:
        """How one slot lies in shared memory; all axes but the last count as rows."""
        columns = type.shape[-1]
        rows = type.elements // columns
        layout = type.swizzle.data
        return SharedTile(rows, columns, type.bits, swizzle_of(layout), held_span(layout))

    def slot_stride(self, value: SSAValue) -> int:
        """Bytes from one slot of a buffer to the next."""
        op, type = self.buffer(value)
        if op.stride is not None:
            return op.stride.value.data
        align = alignment(type.swizzle.data)
        return -(-type.slot_bytes // align) * align

    def slot_address(self, value: SSAValue, slot: SSAValue) -> At:
        """The shared address of a slot: a register and a known offset."""
        op, _ = self.buffer(value)
        assert op.offset is not None
        moved = self.mul(self.number(slot), self.slot_stride(value))
        return self.at(self.base, op.offset.value.data, moved)

    def descriptor(self, value: SSAValue, slot: SSAValue, described: MatrixDescriptor) -> SSAValue:
        """The matrix descriptor of a slot. What is the same for all slots is made once, before the roles.

        A slot only adds its distance to the address field: the whole ring lies in the window that the field reaches.
        Rings whose slots are as far apart, and whose descriptors say the same beside the address, lie at a known
        distance from each other: one addition makes the descriptor of one of the other's.
        """
        op, _ = self.buffer(value)
        assert op.offset is not None
        word = descriptor_format(self.target.features).encode(described)
        start = (word & 0xFFFFFFFF) + (op.offset.value.data >> 4)
        stride = self.slot_stride(value) >> 4
        key = (self.emit.block, self.number(slot), stride, word >> 32)
        known = self.descriptors.get(key)
        if known is None:
            moved = self.mul(self.number(slot), stride)
            low = self.add(self._descriptor_start(start), moved)
            known = self.emit("mov.pack", ".b64", [low, word >> 32]), start
            self.descriptors[key] = known
        first, first_start = known
        return (
            self.emit("add", ".u64", first, start - first_start) if start != first_start else first
        )

    def barrier_address(self, value: SSAValue, slot: SSAValue) -> At:
        op = self.declared[value]
        assert op.offset is not None
        return self.at(self.base, op.offset.value.data, self.mul(self.number(slot), 8))

    def _descriptor_start(self, more: int) -> SSAValue:
        """The low word of a descriptor: where shared memory begins, in units of 16 bytes, and `more`."""
        if more not in self.starts:
            here = self.emit.location
            self.emit.location = self.source.location
            with self.emit.into(self.top):
                if 0 not in self.starts:
                    window = descriptor_format(self.target.features).window
                    self.starts[0] = self.shift_right(self.bit_and(self.base, window - 1), 4)
                self.starts[more] = self.add(self.starts[0], more)
            self.emit.location = here
        return self.starts[more]

    def at(self, base: SSAValue, offset: int, moved: Number) -> At:
        """`base + offset + moved`."""
        if isinstance(moved, int):
            return At(base, offset + moved)
        return At(self.emit("add", ".u32", base, moved), offset)

    def address(self, place: At) -> SSAValue:
        """An address in one register, for operands that take no offset."""
        return self.add(place.base, place.offset)


def lowers(
    kind: type[Operation], *needs: Feature
) -> Callable[[Callable[[Kernel, Any], None]], Callable[[Kernel, Any], None]]:
    """Registers a way to write one kind of operation; ways are tried in the order of registration."""

    def register(write: Callable[[Kernel, Any], None]) -> Callable[[Kernel, Any], None]:
        Kernel.TABLE[kind] = (*Kernel.TABLE.get(kind, ()), Lowering(write, frozenset(needs)))
        return write

    return register
