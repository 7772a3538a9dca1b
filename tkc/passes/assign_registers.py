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

from tkc.diagnostics import Note, TkcError
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
BESIDE = 32
"""The fewest of them: with less ptxas waits after each product (C7512), seen with 216 of 240 held."""


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


def _handles_fragments(role: s.RoleOp) -> bool:
    return any(isinstance(op, s.LoadSharedOp | s.ReadAccumulatorOp) for op in role.walk())


def share(kernel: s.KernelOp, roles: list[s.RoleOp], target: Target, threads: int) -> None:
    """Gives each role its registers: as written, else the least, or an even share where it has register tiles.

    Roles that hold accumulators in registers get what is left, each thread as much.
    """
    groups = threads // WARPGROUP_THREADS
    given: dict[s.RoleOp, int] = {}
    for role in roles:
        if role.registers is not None:
            given[role] = role.registers.value.data
        elif not held(role):
            wide = _handles_fragments(role)
            given[role] = min(MOST, _even(target, threads)) if wide else LEAST
    holders = [r for r in roles if r not in given]
    holding = sum(r.warps.value.data // 4 for r in holders)
    left = target.registers_per_sm - _taken(given, groups, holders)
    each = min(MOST, left // max(1, holding * WARPGROUP_THREADS) // STEP * STEP)
    given |= dict.fromkeys(holders, each)
    for role in roles:
        wanted = given[role]
        if wanted % STEP or not LEAST <= wanted <= 256:
            raise TkcError.at(
                "TK206",
                f"role {role.sym_name.data} asks for {wanted} registers; setmaxnreg takes a multiple "
                "of 8 from 24 to 256",
                location_of(role),
            )
        if held(role) and held(role) + BESIDE > wanted:
            raise _too_many(role, wanted)
        role.properties["registers"] = IntegerAttr(wanted, i32)
    total = _taken(given, groups, [])
    if total > target.registers_per_sm:
        raise TkcError.at(
            "TK206",
            f"the roles of kernel {kernel.sym_name.data} ask for {total} registers; "
            f"an SM has {target.registers_per_sm}",
            location_of(kernel),
            *(
                Note(
                    f"role {r.sym_name.data}: {n} a thread in {-(-r.warps.value.data // 4)} warpgroup(s)",
                    location_of(r),
                )
                for r, n in given.items()
            ),
        )


def _taken(given: dict[s.RoleOp, int], groups: int, apart: list[s.RoleOp]) -> int:
    """Registers of all warpgroups but those of the roles `apart`; each warpgroup has the most that a role of it has."""
    total = 0
    for group in range(groups):
        if not any(_in_group(r, group) for r in apart):
            most = max((n for r, n in given.items() if _in_group(r, group)), default=LEAST)
            total += most * WARPGROUP_THREADS
    return total


def _too_many(role: s.RoleOp, wanted: int) -> TkcError:
    groups = role.groups.value.data
    split = f" in {groups} warpgroups" if groups > 1 else ""
    hint = "" if groups > 1 else ", or rows that are a multiple of 128, which two warpgroups share"
    return TkcError.at(
        "TK206",
        f"role {role.sym_name.data} holds {held(role)} registers of accumulators a thread{split} and may have "
        f"{wanted}, of which products leave {wanted - BESIDE}; a smaller accumulator would fit{hint}",
        location_of(role),
    )


def _in_group(role: s.RoleOp, group: int) -> bool:
    first = role.first_warp.value.data
    return first // 4 <= group <= (first + role.warps.value.data - 1) // 4
