"""Share the register file between roles where an accumulator in registers needs more than an even share.

Before: roles with their warps; `registers` only where the user wrote it.
After: the kernel has its number of threads; where registers are moved, every role has its `registers` (setmaxnreg)
and the threads are whole warpgroups.
Here because: warps are final after `fuse-roles`; lowering writes setmaxnreg at the start of each warpgroup.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.passes import ModulePass

from tkc.diagnostics import TkcError
from tkc.ir.isa.targets import Feature, Target
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.types import AccumulatorType
from tkc.ir.target import target_of

WARPGROUP_THREADS = 128
LEAST, MOST, STEP = 24, 240, 8
"""What setmaxnreg takes (PTX 9.7.19.5: 24 to 256 in steps of 8); 240 leaves the file's rounding some room."""
WORKING = 64
"""Registers that addresses, descriptors and an epilogue slice take beside an accumulator."""


@dataclass(frozen=True)
class AssignRegistersPass(ModulePass):
    """`assign-registers`."""

    name = "assign-registers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(op)
        for kernel in [k for k in op.body.block.ops if isinstance(k, s.KernelOp)]:
            roles = [r for r in kernel.body.block.ops if isinstance(r, s.RoleOp)]
            threads = 32 * max(
                (r.first_warp.value.data + r.warps.value.data for r in roles), default=1
            )
            if target.has({Feature.SETMAXNREG}) and _moves(roles, target, threads):
                threads = -(-threads // WARPGROUP_THREADS) * WARPGROUP_THREADS
                share(kernel, roles, target, threads)
            kernel.properties["threads"] = IntegerAttr(threads, i32)


def held(role: s.RoleOp) -> int:
    """Registers a thread that the role's accumulators in registers take (0 where it waits for none)."""
    most = 0
    for op in role.walk():
        if isinstance(op, s.MmaWaitOp):
            type = op.value.type
            assert isinstance(type, AccumulatorType)
            most = max(most, type.elements // role.threads)
    return most


def _even(target: Target, threads: int) -> int:
    """Registers a thread at entry: an even share of the file, a multiple of 8."""
    whole = -(-threads // WARPGROUP_THREADS) * WARPGROUP_THREADS
    return min(target.max_regs_per_thread, target.registers_per_sm // whole // STEP * STEP)


def _moves(roles: list[s.RoleOp], target: Target, threads: int) -> bool:
    if any(r.registers is not None for r in roles):
        return True
    return any(held(r) and held(r) + WORKING > _even(target, threads) for r in roles)


def share(kernel: s.KernelOp, roles: list[s.RoleOp], target: Target, threads: int) -> None:
    """Gives warpgroups without an accumulator the least, and the rest of the file to those with one."""
    groups = threads // WARPGROUP_THREADS
    wide = [r for r in roles if held(r)]
    wide_groups = sum(r.warps.value.data // 4 for r in wide)
    spare = target.registers_per_sm - (groups - wide_groups) * LEAST * WARPGROUP_THREADS
    each = min(MOST, spare // max(1, wide_groups * WARPGROUP_THREADS) // STEP * STEP)
    for role in roles:
        if role.registers is None:
            role.properties["registers"] = IntegerAttr(each if role in wide else LEAST, i32)
        wanted = role.registers.value.data if role.registers is not None else 0
        if wanted % STEP or not LEAST <= wanted <= 256:
            raise TkcError.at(
                "TK206",
                f"role {role.sym_name.data} asks for {wanted} registers; setmaxnreg takes a multiple "
                "of 8 from 24 to 256",
                location_of(role),
            )
        if held(role) and held(role) + STEP > wanted:
            raise TkcError.at(
                "TK206",
                f"role {role.sym_name.data} holds {held(role)} registers of accumulators a thread and has {wanted}; "
                "a smaller tile or more rows (two warpgroups share rows that are a multiple of 128) would fit",
                location_of(role),
            )
    total = sum(
        max(
            (r.registers.value.data for r in roles if r.registers is not None and _in_group(r, g)),
            default=LEAST,
        )
        * WARPGROUP_THREADS
        for g in range(groups)
    )
    if total > target.registers_per_sm:
        raise TkcError.at(
            "TK206",
            f"the roles of kernel {kernel.sym_name.data} ask for {total} registers; "
            f"an SM has {target.registers_per_sm}",
            location_of(kernel),
        )


def _in_group(role: s.RoleOp, group: int) -> bool:
    first = role.first_warp.value.data
    return first // 4 <= group <= (first + role.warps.value.data - 1) // 4
