"""The part of a launch contract that the tile level knows: symbols, arguments, params, outputs, what is empty."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, SSAValue

from tkc.ir.contract import from_attribute
from tkc.ir.isa.layouts import SCALE_ATOM_BYTES, SCALE_ATOM_ROWS, SCALE_ATOM_SCALES
from tkc.ir.stage.elements import AtomicOp, CopyElementsOp, LoadElementOp, StoreElementOp
from tkc.ir.stage.numbers import TYPES
from tkc.ir.stage.scalar import SCALARS, ArithOp, ConstOp, SizeOp
from tkc.ir.stage.structure import KernelOp as StageKernelOp
from tkc.ir.tile.explicit import TmaLoadOp, TmaStoreOp
from tkc.ir.tile.ops import CopyOp, ForTilesOp, KernelOp, ScheduleOp, SliceOp
from tkc.ir.tile.types import ScaleAttr, TensorType, counts_of
from tkc.ir.tile.vectors import LoadOp

MOST_ITEMS = 2**31 - 2**16
"""Work items are counted in 32 bits, and a unit steps past the last one before it stops."""


def expression(value: SSAValue) -> Any:
    """A scalar made of sizes and constants as a contract expression; raises ValueError on anything else."""
    match value.owner:
        case Block() as block if isinstance(
            kernel := block.parent_op(), KernelOp | StageKernelOp
        ) and not isinstance(value.type, TensorType):
            return {"sym": kernel.arg_names.data[block.args.index(value)].data}  # type: ignore[arg-type]
        case SizeOp() as op:
            return {"sym": op.symbol.data}
        case ConstOp() as op if isinstance(op.constant, IntegerAttr):
            return op.constant.value.data
        case ArithOp() as op if (name := SCALARS[op.kind.data].contract) is not None:
            return {"op": name, "of": [expression(x) for x in op.inputs]}
        case _:
            raise ValueError(f"{value} is not made of sizes")


def launch_of(kernel: KernelOp) -> dict[str, Any]:
    """The contract's symbols, arguments, params, outputs, requires and empty; the rest is added as it becomes known."""
    symbols: dict[str, list[dict[str, Any]]] = {}
    arguments: list[dict[str, Any]] = []
    outputs: list[str] = []
    for name_attribute, arg in zip(kernel.arg_names, kernel.body.block.args, strict=True):
        name = name_attribute.data
        if not isinstance(arg.type, TensorType):
            dtype = next(name for name, type in TYPES.items() if type == arg.type)
            arguments.append({"name": name, "dtype": dtype, "scalar": True})
            continue
        reads, writes = accesses(arg)
        access = "readwrite" if reads and writes else "write" if writes else "read"
        dims: list[Any] = list(arg.type.shape)
        more: dict[str, Any] = {"list": True} if arg.type.is_list else {}
        if kernel.majors is not None and name in kernel.majors.data:
            more["major"] = from_attribute(kernel.majors.data[name])
            dims.insert(more["major"], dims.pop())
        for axis, dim in enumerate(dims):
            if counts_of(dim) is not None:
                dims[axis] = None
            elif isinstance(dim, str):
                symbols.setdefault(dim, []).append({"argument": name, "dimension": axis})
        arguments.append(
            {"name": name, "dtype": arg.type.dtype.data, "dims": dims, "access": access, **more}
        )
        if isinstance(arg.type.scale, ScaleAttr):
            arguments.append({**scales_argument(name, dims, arg.type.scale), **more})
        if writes:
            outputs.append(name)
    empty: list[str] = []
    asserted = from_attribute(kernel.requires) if kernel.requires is not None else []
    requires: list[dict[str, Any]] = list(asserted)
    for schedule in [o for o in kernel.body.block.ops if isinstance(o, ScheduleOp)]:
        if not any(isinstance(u.operation, ForTilesOp) for u in schedule.work.uses):
            continue
        # How many items a chain has, only the device knows: as many as blocks of arrays that fit its memory.
        chained = any(isinstance(e.type, TensorType) for e in schedule.extents)
        extents = [expression(e) for e in schedule.extents if not isinstance(e.type, TensorType)]
        empty += [
            e["sym"]
            for e in extents
            if isinstance(e, dict) and "sym" in e and e["sym"] not in empty
        ]
        if chained:
            continue
        counts: list[Any] = [
            {"op": "ceildiv", "of": [e, n.value.data]}
            for e, n in zip(extents, schedule.sizes, strict=True)
        ]
        group = schedule.group.value.data
        whole = ""
        if group > 1 and len(counts) > 1:
            # A kernel also computes the items of a whole band of `group` rows, though the last may be lower.
            counts[-2] = {"op": "max", "of": [counts[-2], group]}
            whole = f" (bands of {group} rows counted whole)"
        items: Any = counts[0] if len(counts) == 1 else {"op": "mul", "of": counts}
        requires.append(
            {
                "test": {"op": "lt", "of": [items, MOST_ITEMS + 1]},
                "message": f"schedule {schedule.sym_name.data} has more than {MOST_ITEMS} items{whole}",
            }
        )
    return {
        "params": {k: from_attribute(v) for k, v in kernel.params.data.items()},
        "symbols": symbols,
        "arguments": arguments,
        "requires": requires,
        "outputs": outputs,
        "empty": [{"when": empty, "do": "nothing"}] if empty else [],
    }


def scales_argument(name: str, dims: list[int | str | None], scale: ScaleAttr) -> dict[str, Any]:
    """The array of a tensor's block scales, as `tkc.scales.interleave` makes it: whole atoms, padding included. Of a
    list whose arrays have extents of their own, arrays of as many atoms as each needs."""
    *batch, rows, columns = dims
    atoms = [
        {"op": "ceildiv", "of": [{"sym": dim} if isinstance(dim, str) else dim, each]}
        for dim, each in (
            (rows, SCALE_ATOM_ROWS),
            (columns, SCALE_ATOM_SCALES * scale.block.data),
        )
    ]
    return {
        "name": f"{name}.scales",
        "dtype": scale.dtype.data,
        "dims": [*batch, None if rows is None else {"op": "mul", "of": [*atoms, SCALE_ATOM_BYTES]}],
        "access": "read",
        "scales": {"of": name, "block": scale.block.data},
    }


def accesses(tensor: SSAValue) -> tuple[bool, bool]:
    """Whether the kernel reads the tensor, and whether it writes it."""
    reads = writes = False
    for use in tensor.uses:
        match use.operation:
            case LoadElementOp() | CopyElementsOp():
                reads = True
            case StoreElementOp():
                writes = True
            case AtomicOp():
                reads = writes = True
            case _:
                pass
        if isinstance(use.operation, SliceOp):
            for copy in use.operation.slice.uses:
                match copy.operation:
                    case CopyOp() as one:
                        reads |= copy.index == 0 or one.add is not None
                        writes |= copy.index == 1
                    case TmaStoreOp() as one:
                        reads |= one.reduce is not None
                        writes = True
                    case LoadOp() | TmaLoadOp():
                        reads = True
                    case _:
                        pass
    return reads, writes
