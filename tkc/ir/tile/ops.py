"""The tile dialect: what the programmer wrote, as tiles and values, with no threads and no barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    UnitAttr,
    i1,
    i32,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    BaseAttr,
    EqAttrConstraint,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, NoTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from tkc.ir.definitions import irdl_op_definition
from tkc.ir.effects import Effects
from tkc.ir.isa.memory import Kind, Space, Touch
from tkc.ir.syntax import Operation
from tkc.ir.tile.explicit import OPERATIONS as EXPLICIT
from tkc.ir.tile.loops import LOOPS
from tkc.ir.tile.scales import SCALED, check_scaled
from tkc.ir.tile.tensor_operands import TENSOR_OPERANDS
from tkc.ir.tile.types import (
    AccumType,
    BlockType,
    PipeType,
    RegsType,
    ScheduleType,
    SharedType,
    SliceType,
    TensorType,
    kind_of,
)
from tkc.ir.tile.vectors import VECTORS, joined

READ, WRITE = Kind.READ, Kind.WRITE


def _check_body(op: Operation, arguments: Sequence[Attribute]) -> None:
    """A body takes arguments of those types, and yields values of the types of the operation's results."""
    block = op.regions[0].block
    results, given = list(op.result_types), [a.type for a in block.args]
    if not isinstance(block.last_op, YieldOp):
        raise VerifyException(f"the body of {op.name} ends in tile.yield")
    yielded = list(block.last_op.operand_types)
    if yielded != results:
        raise VerifyException(
            f"the body of {op.name} yields {_types(yielded)}, not {_types(results)}"
        )
    if given != [*arguments]:
        raise VerifyException(
            f"the body of {op.name} takes {_types(arguments)}, not {_types(given)}"
        )


def check_loop(op: Operation, axes: int, inits: Sequence[SSAValue]) -> None:
    """A loop's body takes a block for each axis, then what the loop carries, whose types never change."""
    blocks = [a.type for a in op.regions[0].block.args[:axes]]
    if len(blocks) != axes or not all(isinstance(b, BlockType) for b in blocks):
        raise VerifyException(f"the body of {op.name} takes one block for each of {axes} axes")
    carried = [v.type for v in inits]
    if carried != list(op.result_types):
        raise VerifyException(
            f"{op.name} carries {_types(carried)} and results in {_types(op.result_types)}"
        )
    _check_body(op, [*blocks, *carried])


def _types(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


@irdl_op_definition
class KernelOp(Operation):
    """A kernel: its body's block arguments are the user's arguments in order; roles and declarations stand in the body.

    `params` are the compile-time values after `-D`; `launch` the clauses of the launch statement (`cluster` with its
    CTAs); `requires` what the program asserts of the launch, in the contract's form. `majors`: of tensors that the
    launch gives with another order of axes, which axis of theirs is the last one here.
    """

    name = "tile.kernel"
    sym_name = prop_def(StringAttr)
    arg_names = prop_def(ArrayAttr[StringAttr])
    params = prop_def(DictionaryAttr)
    launch = prop_def(DictionaryAttr)
    requires = opt_prop_def(ArrayAttr)
    majors = opt_prop_def(DictionaryAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), SymbolOpInterface())

    def verify_(self) -> None:
        if len(self.arg_names) != len(self.body.block.args):
            raise VerifyException("a kernel names each of its arguments")


@irdl_op_definition
class ScheduleOp(Operation):
    """`schedule work: m, n in tiles(blocks(M, 128), blocks(N, 256), group = 8)`: extents as operands, sizes beside.

    Items run over the last axis fastest; with `group` g, over g blocks of the last axis but one before the next block
    of the last, and with `serpentine` from the last block to the first in every second band. In a cluster, its CTAs
    take neighbouring blocks of axis `across` and the same block of the others.
    With `outermost` an axis, all items of one block of it come before those of the next, or, `descending`, of the one
    before it. An extent that is a tensor is its element at the first axis's number, which no launch knows: items of one
    such number come before those of the next.
    """

    name = "tile.schedule"
    extents = var_operand_def(EqAttrConstraint(i32) | BaseAttr(TensorType))
    sym_name = prop_def(StringAttr)
    sizes = prop_def(ArrayAttr[IntegerAttr])
    group = prop_def(IntegerAttr)
    across = opt_prop_def(IntegerAttr)
    serpentine = opt_prop_def(UnitAttr)
    outermost = opt_prop_def(IntegerAttr)
    descending = opt_prop_def(UnitAttr)
    work = result_def(ScheduleType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if len(self.extents) != len(self.sizes) or not self.sizes:
            raise VerifyException("a schedule gives one block size for each extent")
        if self.outermost is not None and not 0 <= self.outermost.value.data < len(self.sizes):
            raise VerifyException(
                f"a schedule of {len(self.sizes)} axes has no such axis outermost"
            )
        if self.across is not None and not 0 <= self.across.value.data < len(self.sizes):
            raise VerifyException(
                f"a schedule of {len(self.sizes)} axes has no such axis to lie across"
            )


@irdl_op_definition
class EditedMapsOp(Operation):
    """`maps A: edited * 2`: tensor maps of a list's arrays, which the kernel sets for the array at hand."""

    name = "tile.edited_maps"
    tensor = operand_def(TensorType)
    depth = prop_def(IntegerAttr)

    def verify_(self) -> None:
        assert isinstance(self.tensor.type, TensorType)
        if not self.tensor.type.is_list:
            raise VerifyException(f"maps of {self.tensor.type}, which is no list, are not edited")
        if self.depth.value.data < 1:
            raise VerifyException(f"{self.depth.value.data} tensor maps")


@irdl_op_definition
class SharedOp(Operation):
    """`shared a: tile[bf16, BM, BK] * STAGES`. `within`: the name of the tile in whose place it lies, slot by slot
    where both have as many, else from its first slot on."""

    name = "tile.shared"
    sym_name = prop_def(StringAttr)
    within = opt_prop_def(StringAttr)
    tile = result_def(SharedType)
    traits = traits_def(Effects(Touch(WRITE, "tile", Space.SHARED)))


@irdl_op_definition
class AccumOp(Operation):
    """`accum d: tile[f32, BM, BN] * 2`; `within` as for a shared tile."""

    name = "tile.accum"
    sym_name = prop_def(StringAttr)
    within = opt_prop_def(StringAttr)
    tile = result_def(AccumType)
    traits = traits_def(Effects(Touch(WRITE, "tile", Space.TENSOR)))


@irdl_op_definition
class PipeOp(Operation):
    """`pipe inputs(a, b): load -> math`: the tiles that ride in one ring, and the roles at its ends.

    Each consumer gets every item, or, with `turns`, one after another one item each. `after`: pipes of the same tiles,
    with as many items, through which an item goes on: a slot is free when its item has been released there, too.
    """

    name = "tile.pipe"
    tiles = var_operand_def(SharedType | AccumType)
    sym_name = prop_def(StringAttr)
    producers = prop_def(ArrayAttr[StringAttr])
    consumers = prop_def(ArrayAttr[StringAttr])
    turns = opt_prop_def(UnitAttr)
    after = opt_prop_def(ArrayAttr[StringAttr])
    pipe = result_def(PipeType)
    traits = traits_def(Effects(Touch(WRITE, "pipe", Space.BARRIER)))


@irdl_op_definition
class RoleOp(Operation):
    """`role math, warps 4, registers 232:` a program that some warps of every work unit run."""

    name = "tile.role"
    sym_name = prop_def(StringAttr)
    warps = opt_prop_def(IntegerAttr)
    registers = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())


@irdl_op_definition
class YieldOp(Operation):
    """Ends a loop or a put or get block: the carried values, or the register values that outlive the block."""

    name = "tile.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class ForTilesOp(Operation):
    """`for m, n in work:` block arguments are one block for each axis, then the carried register values."""

    name = "tile.for_tiles"
    work = operand_def(ScheduleType)
    inits = var_operand_def()
    body = region_def("single_block")
    carried = var_result_def()

    def verify_(self) -> None:
        schedule = self.work.owner
        axes = len(self.body.block.args) - len(self.inits)
        check_loop(
            self, len(schedule.sizes) if isinstance(schedule, ScheduleOp) else axes, self.inits
        )
        if isinstance(schedule, ScheduleOp):
            wanted = [n.value.data for n in schedule.sizes]
            found = [
                a.type.size.data for a in self.body.block.args if isinstance(a.type, BlockType)
            ]
            if found != wanted:
                raise VerifyException(f"blocks of {found} in a loop over blocks of {wanted}")


@irdl_op_definition
class ForBlocksOp(Operation):
    """`for k in blocks(K, BK):` operand is the extent; block arguments are the block, then the carried values."""

    name = "tile.for_blocks"
    extent = operand_def(i32)
    inits = var_operand_def()
    size = prop_def(IntegerAttr)
    body = region_def("single_block")
    carried = var_result_def()

    def verify_(self) -> None:
        if self.size.value.data < 1:
            raise VerifyException(f"a block has at least one element, not {self.size.value.data}")
        check_loop(self, 1, self.inits)


def _check_item(op: Operation, pipes: Sequence[SSAValue]) -> None:
    """The body of a put or get takes the tiles of its pipes, whose layout may have been chosen since."""
    arguments = [a.type for a in op.regions[0].block.args]
    declared = [p.owner for p in pipes if isinstance(p.owner, PipeOp)]
    if len(declared) == len(pipes):
        tiles = [t.type for pipe in declared for t in pipe.tiles]
        if [*map(_slot, arguments)] != [*map(_slot, tiles)]:
            raise VerifyException(
                f"the body of {op.name} takes its pipes' tiles {_types(tiles)}, not {_types(arguments)}"
            )
    _check_body(op, arguments)


def _slot(type: Attribute) -> tuple[object, ...]:
    if isinstance(type, SharedType | AccumType):
        scale = type.scale if isinstance(type, SharedType) else None
        return (type.name, type.dtype.data, type.shape, type.depth.data, scale)
    return (type,)


@irdl_op_definition
class PutOp(Operation):
    """`put inputs:` one item of each pipe; block arguments are the slots' tiles, pipe by pipe, in declared order."""

    name = "tile.put"
    pipes = var_operand_def(PipeType)
    body = region_def("single_block")
    values = var_result_def()

    def verify_(self) -> None:
        _check_item(self, self.pipes)


@irdl_op_definition
class GetOp(Operation):
    """`get inputs:` as `put`, at the other end."""

    name = "tile.get"
    pipes = var_operand_def(PipeType)
    body = region_def("single_block")
    values = var_result_def()

    def verify_(self) -> None:
        _check_item(self, self.pipes)


@irdl_op_definition
class TurnOp(Operation):
    """Whether the pipe's next item is for this role: item i goes to role i mod `count`."""

    name = "tile.turn"
    pipe = operand_def(PipeType)
    index = prop_def(IntegerAttr)
    count = prop_def(IntegerAttr)
    mine = result_def(i1)
    traits = traits_def(Effects(Touch(READ, "pipe", Space.BARRIER)))


@irdl_op_definition
class SkipOp(Operation):
    """The pipe's next item passes, which is for another role."""

    name = "tile.skip"
    pipe = operand_def(PipeType)
    traits = traits_def(Effects(Touch(WRITE, "pipe", Space.BARRIER)))


@irdl_op_definition
class SliceOp(Operation):
    """`A[m, k]`: an index is a block or an integer, and an integer drops its axis."""

    name = "tile.slice"
    tensor = operand_def(TensorType)
    indices = var_operand_def(BaseAttr(BlockType) | EqAttrConstraint(i32))
    slice = result_def(SliceType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        tensor = self.tensor.type
        assert isinstance(tensor, TensorType)
        rank = len(tensor.dims)
        if rank != len(self.indices):
            raise VerifyException(
                f"a tensor of rank {rank} takes {rank} indices, not {len(self.indices)}"
            )
        shape = tuple(i.type.size.data for i in self.indices if isinstance(i.type, BlockType))
        found = self.slice.type
        assert isinstance(found, SliceType)
        if (found.shape, found.dtype, found.scale) != (shape, tensor.dtype, tensor.scale):
            raise VerifyException(f"blocks of {list(shape)} of {tensor} do not make {found}")


@irdl_op_definition
class CopyOp(Operation):
    """`destination <- source`: slice to shared tile, shared tile to slice, register tile to these and to accumulators.

    With `add`, `C[m, n] += r`: the source is added to the slice, element by element and in no order. With `multicast`
    the slice is the same in every CTA of the cluster: each loads a part of it for all. `hint` is a priority in the L2
    cache.
    """

    name = "tile.copy"
    source = operand_def(SliceType | SharedType | RegsType)
    destination = operand_def(SliceType | SharedType | AccumType)
    CHANGES: ClassVar[tuple[str, ...]] = ("destination",)
    add = opt_prop_def(UnitAttr)
    multicast = opt_prop_def(UnitAttr)
    hint = opt_prop_def(StringAttr)
    traits = traits_def(
        Effects(Touch(READ, "source", Space.GLOBAL), Touch(WRITE, "destination", Space.SHARED))
    )

    def verify_(self) -> None:
        source, destination = self.source.type, self.destination.type
        assert isinstance(source, SliceType | SharedType | RegsType)
        assert isinstance(destination, SliceType | SharedType | AccumType)
        if isinstance(destination, AccumType) and not isinstance(source, RegsType):
            raise VerifyException(f"copies {source} to an accumulator: register tiles are")
        if isinstance(source, SliceType) and isinstance(destination, SliceType):
            raise VerifyException("a copy from global to global memory goes through a tile")
        if source.shape != destination.shape:
            raise VerifyException(f"copies {source} to {destination}: the shapes differ")
        if source.dtype != destination.dtype:
            raise VerifyException(f"copies {source} to {destination}: the dtypes differ")
        scale = NoneAttr() if isinstance(source, RegsType) else source.scale
        held = NoneAttr() if isinstance(destination, AccumType) else destination.scale
        if kind_of(scale) != kind_of(held):
            raise VerifyException(f"copies {source} to {destination}: the scales differ")
        if self.add is not None and not isinstance(destination, SliceType):
            raise VerifyException(f"adds to {destination}: only slices are added to")
        if self.multicast is not None and not isinstance(source, SliceType):
            raise VerifyException(
                f"multicasts {source}: only slices are loaded for a whole cluster"
            )


@irdl_op_definition
class ZeroOp(Operation):
    """`d = 0`: the item's first matrix product starts from zero."""

    name = "tile.zero"
    CHANGES: ClassVar[tuple[str, ...]] = ("accum",)
    accum = operand_def(AccumType)
    traits = traits_def(Effects(Touch(WRITE, "accum", Space.TENSOR)))


@irdl_op_definition
class KeepOp(Operation):
    """`keep d`: a put hands on its slot as it is."""

    name = "tile.keep"
    tile = operand_def(SharedType | AccumType)
    traits = traits_def(Effects(Touch(WRITE, "tile", Space.SHARED)))


@irdl_op_definition
class MmaOp(Operation):
    """`d += a @ b.T`: contracts a's last axis with b's first, after the transposes that `trans_a`, `trans_b` (0 or 1)
    say.

    With `pair`, d and a are the rows, and b the columns, that one CTA of a pair holds: b has half of d's columns.
    `alone` is as in `stage.mma`.
    """

    name = "tile.mma"
    CHANGES: ClassVar[tuple[str, ...]] = ("d",)
    """Operands whose accumulator it changes; `*` is every accumulator in registers."""
    d = operand_def(AccumType)
    a = operand_def(SharedType)
    b = operand_def(SharedType)
    trans_a = prop_def(IntegerAttr)
    trans_b = prop_def(IntegerAttr)
    alone = opt_prop_def(UnitAttr)
    pair = opt_prop_def(UnitAttr)
    traits = traits_def(
        Effects(
            Touch(READ, "a", Space.SHARED),
            Touch(READ, "b", Space.SHARED),
            Touch(WRITE, "d", Space.TENSOR),
        )
    )

    def verify_(self) -> None:
        left, right, made = self.a.type, self.b.type, self.d.type
        assert isinstance(left, SharedType)
        assert isinstance(right, SharedType)
        assert isinstance(made, AccumType)
        shapes = (left.shape, right.shape, made.shape)
        if any(len(shape) != 2 for shape in shapes):
            raise VerifyException(f"a matrix product is of two axes, not {left} @ {right}")
        a = left.shape[::-1] if self.trans_a.value.data else left.shape
        b = right.shape[::-1] if self.trans_b.value.data else right.shape
        columns = b[1] if self.pair is None else 2 * b[1]
        if a[1] != b[0] or (a[0], columns) != made.shape:
            raise VerifyException(f"{list(a)} @ {list(b)} does not make {list(made.shape)}")
        check_scaled(left, right, bool(self.trans_a.value.data), bool(self.trans_b.value.data))


@irdl_op_definition
class ReadOp(Operation):
    """`read(t)`: the slot's contents as a register value."""

    name = "tile.read"
    tile = operand_def(SharedType | AccumType)
    value = result_def(RegsType)
    traits = traits_def(Effects(Touch(READ, "tile", Space.SHARED)))

    def verify_(self) -> None:
        tile, value = self.tile.type, self.value.type
        assert isinstance(tile, SharedType | AccumType)
        assert isinstance(value, RegsType)
        if (tile.dtype, tile.shape) != (value.dtype, value.shape):
            raise VerifyException(f"a read of {tile} does not give {value}")


@irdl_op_definition
class CastOp(Operation):
    """`bf16(x)`: rounds to nearest even; from float to a narrower float saturates where the format has no infinity."""

    name = "tile.cast"
    source = operand_def(RegsType)
    value = result_def(RegsType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        source, value = self.source.type, self.value.type
        assert isinstance(source, RegsType)
        assert isinstance(value, RegsType)
        if source.shape != value.shape:
            raise VerifyException(f"a cast of {source} does not give {value}")


@irdl_op_definition
class MapOp(Operation):
    """An elementwise operation over register tiles and scalars: `tile.map %x, %y {kind = "add"}`.

    Scalars spread, and so does an axis of 1. `if_lt`, `if_le` and `if_eq` compare the first two operands, and are the
    third where that holds, else the fourth, which they are beside a NaN.
    """

    name = "tile.map"
    KINDS: ClassVar[dict[str, int]] = {
        "add": 2, "sub": 2, "mul": 2, "div": 2, "guard_div": 2, "min": 2, "max": 2,
        "neg": 1, "abs": 1, "exp": 1, "exp2": 1, "log": 1, "log2": 1,
        "sqrt": 1, "rsqrt": 1, "rcp": 1, "tanh": 1, "finite": 1,
        "if_lt": 4, "if_le": 4, "if_eq": 4,
    }  # fmt: skip
    operands_ = var_operand_def()
    kind = prop_def(StringAttr)
    value = result_def(RegsType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        arity = self.KINDS.get(self.kind.data)
        if arity is None:
            raise VerifyException(
                f"no elementwise {self.kind.data!r}; one of {', '.join(self.KINDS)}"
            )
        if arity != len(self.operands_):
            raise VerifyException(
                f"{self.kind.data} takes {arity} operands, not {len(self.operands_)}"
            )
        types = [v.type for v in self.operands_ if isinstance(v.type, RegsType)]
        value = self.value.type
        assert isinstance(value, RegsType)
        if any(t.dtype != value.dtype for t in types) or (
            types and joined([t.shape for t in types]) != value.shape
        ):
            raise VerifyException(f"{self.kind.data} of {_types(types)} does not make {value}")


TILE = Dialect(
    "tile",
    [
        KernelOp, ScheduleOp, EditedMapsOp, SharedOp, AccumOp, PipeOp, RoleOp, YieldOp, ForTilesOp, ForBlocksOp,
        PutOp, GetOp, TurnOp, SkipOp, SliceOp, CopyOp, ZeroOp, KeepOp, MmaOp, ReadOp, CastOp, MapOp,
        *LOOPS, *VECTORS, *SCALED, *EXPLICIT, *TENSOR_OPERANDS,
    ],
    [TensorType, SliceType, RegsType, SharedType, AccumType, BlockType, PipeType, ScheduleType],
)  # fmt: skip
