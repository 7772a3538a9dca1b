"""How often each accumulator is held, since a depth is a capacity (R12), and how many registers that takes at once."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.roles import rows_of, slot_owner
from tkc.analysis.tensor_memory import columns_given, columns_of, depths_beside_scales
from tkc.diagnostics import Diagnostic, Note, Severity, TargetError, TkcError, report
from tkc.ir.isa.dtypes import DTYPES, SCALES
from tkc.ir.isa.layouts import SCALE_ATOMS
from tkc.ir.isa.targets import TARGETS, Feature, Target, targets_with
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import WhileOp
from tkc.ir.stage.types import AccumulatorType, BufferType, Home
from tkc.ir.tile.ops import AccumOp, KernelOp, MmaOp, PipeOp, RoleOp, SharedOp
from tkc.ir.tile.scales import ScaledMmaOp
from tkc.ir.tile.types import AccumType, ScaleAttr, SharedType, scale_shape


def accumulator_buffers(
    kernel: KernelOp, target: Target, home: Home | None
) -> dict[AccumOp | SharedOp, BufferType]:
    """Each accumulator as a buffer of the depth that it gets; a remark (TK219) says where that is less than written.

    Where that is tensor memory, so is the place of the block scales of each shared tile that products take from it.
    None at all where the target has no home for accumulators.
    """
    if home is None:
        return {}
    every = [o for o in kernel.body.block.ops if isinstance(o, AccumOp)]
    accums = [o for o in every if o.within is None]
    for accum in accums:
        _check_depth(accum)
    types = [_buffer(accum, home) for accum in accums]
    held: dict[AccumOp | SharedOp, BufferType] = {}
    if home is Home.REGISTER:
        _check_operands(accums, target)
        _check_products(kernel, target)
        for accum in accums:
            if is_explicit(accum.tile):
                _check_registers(accum)
        depths = [1] * len(types)
    else:
        fixed = [is_explicit(accum.tile) for accum in accums]
        room = columns_given(target) - sum(
            columns_of(type) * type.depth.data
            for type, own in zip(types, fixed, strict=True)
            if own
        )
        scales = _scales(kernel)
        shared, ringed = depths_beside_scales(
            [t for t, own in zip(types, fixed, strict=True) if not own],
            list(scales.values()),
            room,
        )
        held.update(scales if ringed else _held_once(scales))
        given = iter(shared)
        depths = [
            type.depth.data if own else next(given) for type, own in zip(types, fixed, strict=True)
        ]
    for accum, type, depth in zip(accums, types, depths, strict=True):
        held[accum] = BufferType.of(type.dtype.data, type.shape, depth, home, type.swizzle.data)
        if depth < type.depth.data:
            report(
                Diagnostic(
                    "TK219",
                    f"accumulator {accum.sym_name.data} is held {_times(depth)}, "
                    f"{_reason(accum, type, target, home)}; its depth of {type.depth.data} is a capacity",
                    location_of(accum),
                    Severity.WARNING if _fits_nowhere(type) else Severity.REMARK,
                )
            )
    for accum in every:
        if accum.within is not None:  # as often as what it lies in
            base = next(o for o in accums if o.sym_name == accum.within)
            type = _buffer(accum, home)
            depth = held[base].depth.data
            held[accum] = BufferType.of(type.dtype.data, type.shape, depth, home, type.swizzle.data)
    return held


def _most_columns() -> int:
    """Columns of the largest tensor memory that any target has."""
    return max(target.tensor_columns for target in TARGETS.values())


def _fits_nowhere(type: BufferType) -> bool:
    """Whether no target holds an accumulator of tensor memory as often as it says, so that the number is a mistake."""
    home = type.home.data == Home.TENSOR
    return home and columns_of(type) * type.depth.data > max(_most_columns(), columns_of(type))


def _check_depth(accum: AccumOp) -> None:
    """TK205 where a depth is no capacity: no target has so many columns, not even one for each slot."""
    tile = accum.tile.type
    assert isinstance(tile, AccumType)
    most = _most_columns()
    if tile.depth.data > most:
        raise TkcError.at(
            "TK205",
            f"accumulator {accum.sym_name.data} has a depth of {tile.depth.data}, and no tensor memory has more than "
            f"{most} columns; 1 or 2 slots are what a pipe between two roles takes",
            location_of(accum),
        )


def _check_products(kernel: KernelOp, target: Target) -> None:
    """What no shape of the program can mend is said first: products in registers take no block scales."""
    for op in kernel.walk():
        tile = op.a.type if isinstance(op, MmaOp) else None
        scaled = isinstance(tile, SharedType) and isinstance(tile.scale, ScaleAttr)
        if scaled or isinstance(op, ScaledMmaOp):
            raise TargetError.at(
                "TK202",
                f"products of block-scaled tiles need tcgen05; {target.name} has none",
                location_of(op),
            )


def _check_operands(accums: list[AccumOp], target: Target) -> None:
    for accum in accums:
        type = accum.tile.type
        if isinstance(type, AccumType) and type.is_operand:
            raise TargetError.at(
                "TK202",
                f"{accum.sym_name.data} is an operand of products in tensor memory, which needs {Feature.TCGEN05}; "
                f"{target.name} has none: registers write it to a `shared` tile there, which products read",
                location_of(accum),
                help=targets_with({Feature.TCGEN05}),
            )


def _check_registers(accum: AccumOp) -> None:
    """What the program may ask of an accumulator that it numbers itself where registers hold it."""
    tile, name = accum.tile.type, accum.sym_name.data
    assert isinstance(tile, AccumType)
    if tile.depth.data != 1:
        raise TkcError.at(
            "TK203",
            f"accumulator {name} lives in registers on this target, where slots have no numbers: it "
            f"has one slot, not {tile.depth.data}",
            location_of(accum),
        )
    roles: dict[Operation, Operation] = {}
    for use in accum.tile.uses:
        role = use.operation.parent_op()
        while role is not None and not isinstance(role, RoleOp):
            role = role.parent_op()
        if role is not None:
            roles.setdefault(role, use.operation)
    if len(roles) > 1:
        raise TkcError.at(
            "TK213",
            f"accumulator {name} lives in the registers of one role on this target, and "
            f"{len(roles)} roles use it",
            location_of(accum),
            *(Note("used here", location_of(op)) for op in roles.values()),
        )


def is_explicit(tile: SSAValue) -> bool:
    """Whether no pipe carries a declared tile: the program numbers its slots itself, so that all of them are needed."""
    return not any(isinstance(use.operation, PipeOp) for use in tile.uses)


def _buffer(accum: AccumOp, home: Home) -> BufferType:
    tile = accum.tile.type
    assert isinstance(tile, AccumType)
    layout = SCALE_ATOMS if tile.dtype.data in SCALES and home is Home.TENSOR else "none"
    return BufferType.of(tile.dtype.data, tile.shape, tile.depth.data, home, layout)


def _scales(kernel: KernelOp) -> dict[SharedOp, BufferType]:
    """The scales of each shared tile that a product takes without saying where in tensor memory they are."""
    found: dict[SharedOp, BufferType] = {}
    for op in kernel.walk():
        for operand in (op.a, op.b) if isinstance(op, MmaOp) else ():
            tile, owner = operand.type, slot_owner(operand).owner
            assert isinstance(tile, SharedType)
            if isinstance(tile.scale, ScaleAttr) and isinstance(owner, SharedOp):
                found[owner] = BufferType.of(
                    tile.scale.dtype.data,
                    scale_shape(tile.shape, tile.scale),
                    tile.depth.data,
                    Home.TENSOR,
                    SCALE_ATOMS,
                )
    return found


def _held_once(scales: dict[SharedOp, BufferType]) -> dict[SharedOp, BufferType]:
    """The same in one slot each, with a remark: a copy then overwrites what the products before it read."""
    for op, type in scales.items():
        report(
            Diagnostic(
                "TK219",
                f"scales of {op.sym_name.data} are held once, since {type.depth.data} slots of {columns_of(type)} "
                "columns of tensor memory do not fit beside the accumulators; a copy then relies on running after the "
                "products that its thread has issued before it",
                location_of(op),
                Severity.REMARK,
            )
        )
    return {
        op: BufferType.of(type.dtype.data, type.shape, 1, Home.TENSOR, SCALE_ATOMS)
        for op, type in scales.items()
    }


def _times(depth: int) -> str:
    return "once" if depth == 1 else f"{depth} times"


def _reason(accum: AccumOp, type: BufferType, target: Target, home: Home) -> str:
    if home is Home.REGISTER:
        rows = rows_of(accum, home)
        return f"in the registers of {rows.groups} warpgroup(s) that split its {type.shape[0]} rows"
    return f"since one takes {columns_of(type)} of the {columns_given(target)} columns of tensor memory"


def registers_held(role: s.RoleOp) -> int:
    """The most registers a thread that accumulators in registers take at once; 0 where there are none."""
    return _most_held(role.body.block, role.threads)


def registers_of_product(op: s.MmaOp) -> int:
    """Registers a thread of the accumulator of one wgmma of a product: 64 rows over a warpgroup (PTX: wgmma)."""
    type = _accumulator(op.value)
    return type.shape[-1] * DTYPES[type.dtype.data].bits // 64


def _most_held(block: Block, threads: int) -> int:
    """An accumulator is held from where it is opened to the last operation of the block that uses it, inside or not."""
    order = {op: i for i, op in enumerate(block.ops)}
    inside = [
        max((_most_held(b, threads) for r in op.regions for b in r.blocks), default=0)
        for op in order
    ]
    taken = [0] * len(order)
    for op, first in order.items():
        if isinstance(op, s.OpenOp) and _in_registers(op.buffer):
            last = max((order[_ancestor(u, block)] for u in _users(op.value)), default=first)
            registers = _accumulator(op.value).elements // threads
            for i in range(first, last + 1):
                taken[i] += registers
    return max((t + n for t, n in zip(taken, inside, strict=True)), default=0)


def _in_registers(buffer: SSAValue) -> bool:
    return isinstance(buffer.type, BufferType) and buffer.type.home.data == Home.REGISTER


def _accumulator(value: SSAValue) -> AccumulatorType:
    assert isinstance(value.type, AccumulatorType)
    return value.type


def _users(value: SSAValue) -> Iterator[Operation]:
    """The operations that use an accumulator or what becomes of it in the same block or one inside."""
    todo = [value]
    while todo:
        for use in todo.pop().uses:
            op = use.operation
            yield op
            if isinstance(op, s.ForOp):
                carried = use.index - 3
                todo += [op.body.block.args[carried + 1], op.results[carried]]
            elif isinstance(op, WhileOp):
                blocks = (op.test.block, op.body.block)
                todo += [*(b.args[use.index] for b in blocks), op.results[use.index]]
            elif isinstance(op, s.YieldOp) and isinstance(parent := op.parent_op(), s.IfOp):
                todo.append(parent.results[use.index])
            elif not isinstance(op, s.YieldOp):
                todo += [r for r in op.results if isinstance(r.type, AccumulatorType)]


def _ancestor(op: Operation, block: Block) -> Operation:
    """The operation of `block` that `op` is or is in."""
    while op.parent_block() is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op
