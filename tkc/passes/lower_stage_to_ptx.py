"""Write each stage operation as PTX, by the first way whose needs the target meets.

Before: `stage` operations only; buffers, barriers and columns are placed, single-thread code is guarded, threads are
counted.
After: `ptx.kernel` operations with structured control and unnamed registers; the launch contract is complete but for
what naming and assembly add.
Here because: it is the step from what is done to how the chip does it; everything before speaks of roles and slots,
everything after of registers. The ways stand in `lowering/`, one file for each family.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    bf16,
    f16,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass

from tkc.diagnostics import Note, TkcError
from tkc.ir.contract import from_attribute, to_attribute
from tkc.ir.interned import string
from tkc.ir.isa.targets import NAMED_BARRIERS, Target
from tkc.ir.locations import location_of
from tkc.ir.ptx.emit import At, kernel
from tkc.ir.ptx.kernel import KernelOp
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import ClusterBarrierOp, NamedBarrierOp
from tkc.ir.stage.numbers import NumberOp, ui32
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.target import target_of
from tkc.passes.lowering import (
    copies,
    fragments,
    products,
    scalars,
    scales,
    shared,
    synchronisation,
    vectors,
)
from tkc.passes.lowering.state import Kernel
from tkc.passes.lowering.threads import check_rows

FAMILIES = (copies, fragments, products, scalars, scales, shared, synchronisation, vectors)
"""Importing a family registers its ways."""

TENSOR_WORD = 8
"""Bytes at the end of shared memory that `assign-shared` keeps for the tensor-memory address."""

WARPGROUP_WARPS = 4


@dataclass(frozen=True)
class LowerStageToPtxPass(ModulePass):
    """`lower-stage-to-ptx`."""

    name = "lower-stage-to-ptx"
    trap_hangs: int | None = None
    """After how many ns a wait for an mbarrier says so and traps."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for source in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            lowered = lower(source, target, self.trap_hangs)
            op.body.block.insert_op_before(lowered, source)
            source.detach()
            source.erase()


SCALAR_PARAMS: dict[Attribute, tuple[str, str]] = {
    f32: ("f32", "f32"),
    i32: ("s32", "i32"),
    i64: ("s64", "i64"),
    ui32: ("u32", "u32"),
    bf16: ("b16", "bf16"),
    f16: ("b16", "f16"),
}
"""Scalar arguments: the kind of PTX parameter, and the dtype in the contract."""


def _scalar_arguments(k: Kernel) -> None:
    """Each scalar that the user passes becomes a parameter, read once."""
    for name, arg in zip(k.source.arg_names, k.source.body.block.args, strict=True):
        if arg.type in SCALAR_PARAMS:
            kind, dtype = SCALAR_PARAMS[arg.type]
            k.params.append((name.data, kind))
            k.args.append(
                {"kind": "scalar", "dtype": dtype, "argument": name.data, "name": name.data}
            )
            k.values[arg] = k.emit.param(name.data, kind)


def _number(attribute: IntegerAttr | None) -> int:
    return attribute.value.data if attribute is not None else 0


def lower(source: s.KernelOp, target: Target, trap_hangs: int | None = None) -> KernelOp:
    """One kernel: prologue, roles by warp number, and the tail that all warps reach (R8)."""
    threads = _number(source.threads)
    shared, columns = _number(source.shared_bytes), _number(source.tensor_columns)
    new, emit = kernel(
        source.sym_name.data,
        reqntid=threads,
        cluster=None if source.cluster is None else source.cluster.value.data,
        most_ctas=source.most_ctas,
        shared_bytes=shared,
        location=source.location,
    )
    k = Kernel(source, target, emit, trap_hangs=trap_hangs)
    roles: list[s.RoleOp] = []
    k.thread = emit.special("%tid.x")
    k.lane = emit.special("%laneid")
    k.warp = emit("shr", ".u32", k.thread, 5)
    k.base = emit.shared_base()
    _scalar_arguments(k)
    for op in source.body.block.ops:
        match op:
            case s.BufferOp() | s.BarriersOp():
                k.declared[op.results[0]] = op
            case s.RoleOp():
                roles.append(op)
            case SizeOp() | ConstOp() | ArithOp() | NumberOp():
                emit.location = op.location
                k.lowering_of(op).write(k, op)
            case _:
                k.lowering_of(op).write(k, op)
    emit.location = source.location
    before_barriers = k.top.last_op
    synchronisation.initialise(k)
    emit.location = source.location
    if columns:
        products.allocate(k, columns, shared - TENSOR_WORD)
        emit("tcgen05.fence::before_thread_sync")
    synchronisation.meet(k)
    if columns:
        emit("tcgen05.fence::after_thread_sync")
        k.tensor_base = emit("ld", ".shared::cta", ".b32", At(k.base, shared - TENSOR_WORD))
    _check_meetings(roles, threads // 32)
    k.barrier_ids = _barrier_ids(roles)
    _dispatch(k, roles, threads // 32)
    emit.location = source.location
    if columns:
        emit("tcgen05.fence::before_thread_sync")
    if columns or k.ctas > 1 or k.several:
        synchronisation.meet(k)
    if columns:
        emit("tcgen05.fence::after_thread_sync")
        products.deallocate(k, columns)
    if source.dependent is not None:
        _prefetch_maps(k, before_barriers)
    new.properties["params"] = ArrayAttr(
        [DictionaryAttr({"name": string(n), "kind": string(kind)}) for n, kind in k.params]
    )
    before = from_attribute(source.contract)
    new.properties["contract"] = to_attribute(
        {
            **before,
            "args": k.args,
            "requires": [*before["requires"], *k.requires],
            "cluster": _cluster(source, k.ctas),
            "block": [threads, 1, 1],
            "shared_bytes": shared,
            "tensor_columns": columns,
            "attributes": {} if source.dependent is None else {"dependent": True},
        }
    )
    return new


def _prefetch_maps(k: Kernel, before: Operation | None) -> None:
    """One thread asks for the tensor maps before anything else, which also hides it behind the grid ahead."""
    names = [name for name, kind in k.params if kind == "tensormap"]
    if not names:
        return

    def fetch() -> None:
        for name in names:
            k.emit("prefetch.tensormap", At(k.emit.param_address(name), 0))

    made = Block()
    with k.emit.into(made):
        k.emit.if_(k.emit("setp", ".eq", ".u32", k.thread, 0), fetch)
    for op in list(made.ops):
        op.detach()
        if before is None:
            k.top.add_op(op)
        else:
            k.top.insert_op_after(op, before)
            before = op


def _cluster(source: s.KernelOp, ctas: int) -> dict[str, Any]:
    """Sizes of clusters in the launch contract: what is asked for, what the hardware may make of it, what suffices."""
    if source.most_ctas is None:
        return {"size": [ctas, 1, 1], "preferred": None, "minimum": None}
    size = ctas if source.minimum is None else source.minimum.value.data
    larger = None if source.preferred is None else [source.preferred.value.data, 1, 1]
    return {"size": [size, 1, 1], "preferred": larger, "minimum": [ctas, 1, 1]}


def _of_all(op: Operation) -> bool:
    """Whether all threads of the CTA, or of its cluster, meet at an operation."""
    if isinstance(op, NamedBarrierOp):
        return op.number.value.data == 0
    return isinstance(op, ClusterBarrierOp)


def _check_meetings(roles: list[s.RoleOp], warps: int) -> None:
    """TK121 where a role, or a warp without one, never comes to where all threads meet."""
    meetings = {role: next((o for o in role.walk() if _of_all(o)), None) for role in roles}
    first = next((op for op in meetings.values() if op is not None), None)
    if first is None:
        return
    for role, op in meetings.items():
        if op is None:
            raise TkcError.at(
                "TK121",
                f"all threads of the CTA meet here, and role {role.sym_name.data} never comes: it must meet here, too",
                location_of(first),
                Note(f"role {role.sym_name.data}", location_of(role)),
            )
    idle = warps - sum(_count(role) for role in roles)
    if idle:
        raise TkcError.at(
            "TK121",
            f"all threads of the CTA meet here, and {idle} of its {warps} warps have no role: roles whose warps fill "
            f"whole groups of {WARPGROUP_WARPS} fit",
            location_of(first),
        )


def _barrier_ids(roles: list[s.RoleOp]) -> dict[s.RoleOp, int]:
    """The first named barrier of each role, one for each warpgroup that splits its rows; 0 is the CTA's own.

    Where there are too few for all roles, those go without whose threads never meet.
    """
    taken = {
        op.number.value.data for r in roles for op in r.walk() if isinstance(op, NamedBarrierOp)
    }
    ids, after = _numbered(roles, taken)
    if after > NAMED_BARRIERS:
        meeting = [r for r in roles if any(isinstance(op, s.RoleBarrierOp) for op in r.walk())]
        ids, after = _numbered(meeting, taken)
        if after > NAMED_BARRIERS:
            raise TkcError.at(
                "TK209",
                f"the roles whose threads meet take {after - 1} named barriers; a CTA has "
                f"{NAMED_BARRIERS - 1} beside its own",
                location_of(meeting[-1]),
                *(
                    Note(f"role {r.sym_name.data} takes {_barriers(r)}", location_of(r))
                    for r in meeting
                ),
            )
    return ids


def _numbered(roles: list[s.RoleOp], taken: set[int]) -> tuple[dict[s.RoleOp, int], int]:
    """Runs of numbers that the program has not taken itself."""
    ids: dict[s.RoleOp, int] = {}
    number = 1
    for role in roles:
        while taken & {*range(number, number + _barriers(role))}:
            number += 1
        ids[role], number = number, number + _barriers(role)
    return ids, number


def _barriers(role: s.RoleOp) -> int:
    """One for each warpgroup that splits the role's rows, and one more where all of them meet."""
    groups = _number(role.groups)
    if groups == 1:
        return 1
    meets = any(isinstance(op, s.RoleBarrierOp) and op.whole is not None for op in role.walk())
    return groups + meets


def _dispatch(k: Kernel, roles: list[s.RoleOp], warps: int) -> None:
    """Each role's warps run its body. Where registers are moved, a warpgroup is one branch and moves them first."""
    if not any(role.registers is not None for role in roles):
        _chain(k, [(_first(r), _count(r), lambda r=r: _run(k, r)) for r in roles], warps)
        return
    branches: list[tuple[int, int, Callable[[], None]]] = []
    placed: list[s.RoleOp] = []
    for role in sorted(roles, key=_first):
        if role in placed:
            continue
        first = _first(role) // WARPGROUP_WARPS * WARPGROUP_WARPS
        last = -(-(_first(role) + _count(role)) // WARPGROUP_WARPS) * WARPGROUP_WARPS
        inside = [r for r in roles if first <= _first(r) < last]
        placed += inside
        branches.append((first, last - first, lambda i=inside, n=last - first: _group(k, i, n)))
    _chain(k, branches, warps)


def _first(role: s.RoleOp) -> int:
    return _number(role.first_warp)


def _count(role: s.RoleOp) -> int:
    return _number(role.warps)


def _group(k: Kernel, roles: list[s.RoleOp], warps: int) -> None:
    """One warpgroup or several that run one role: setmaxnreg in every warp, then the roles."""
    registers = max(_number(r.registers) for r in roles)
    entry = min(
        k.target.max_regs_per_thread,
        k.target.registers_at_entry(_number(k.source.threads)),
    )
    k.emit("setmaxnreg", ".inc" if registers > entry else ".dec", registers)
    if len(roles) == 1 and _count(roles[0]) == warps:
        _run(k, roles[0])
        return
    _chain(k, [(_first(r), _count(r), lambda r=r: _run(k, r)) for r in roles], None)


def _chain(
    k: Kernel, branches: list[tuple[int, int, Callable[[], None]]], warps: int | None
) -> None:
    """`if` the warp is in the first range, run it, else try the rest; the last needs no test where it takes all
    others."""
    if not branches:
        return
    (first, count, run), rest = branches[0], branches[1:]
    if not rest and warps is not None and count == warps:
        run()
        return
    emit = k.emit
    if count == 1:
        mine = emit("setp", ".eq", ".u32", k.warp, first)
    else:
        offset = emit("sub", ".u32", k.warp, first) if first else k.warp
        mine = emit("setp", ".lt", ".u32", offset, count)
    left = None if warps is None else warps - count
    emit.if_(mine, run, (lambda: _chain(k, rest, left)) if rest else None)


def _run(k: Kernel, role: s.RoleOp) -> None:
    check_rows(role)
    k.role = role
    k.emit.location = role.location
    k.write(role.body.block)
    k.role = None
