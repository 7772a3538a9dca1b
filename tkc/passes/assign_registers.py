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

from tkc.analysis.accumulators import registers_held, registers_of_product
from tkc.analysis.roles import too_many_threads
from tkc.diagnostics import Note, TkcError
from tkc.ir.isa.targets import Feature, Target
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.explicit import RegistersOp
from tkc.ir.target import target_of

WARPGROUP_WARPS = 4
WARPGROUP_THREADS = 128
LEAST, MOST, STEP = 24, 240, 8
"""What setmaxnreg takes (PTX 9.7.19.5: 24 to 256 in steps of 8); 240 leaves the file's rounding some room."""
WORKING = 64
"""Registers that addresses, descriptors and an epilogue slice take beside an accumulator."""
OPERANDS = 26
"""Registers that ptxas keeps beside the accumulator of one wgmma (C7602 names the sum, for every width alike)."""
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
            warps = max((r.first_warp.value.data + r.warps.value.data for r in roles), default=1)
            if 32 * warps > target.max_threads:
                of = {r: r.warps.value.data for r in roles}
                raise too_many_threads(kernel.sym_name.data, kernel, of, target)
            for role in roles:
                check_moved(role)
            sharing = Sharing(kernel, roles, target, 32 * warps)
            if target.has({Feature.SETMAXNREG}) and sharing.wanted:
                sharing.share()
            for role in roles:
                check_products(role, sharing)
            check_pool(sharing)
            kernel.properties["threads"] = IntegerAttr(sharing.threads, i32)


def check_moved(role: s.RoleOp) -> None:
    """Where a program moves registers itself, whole warpgroups do it (PTX 9.7.19.5: all four warps execute it)."""
    whole = not (
        role.warps.value.data % WARPGROUP_WARPS or role.first_warp.value.data % WARPGROUP_WARPS
    )
    for op in [] if whole else role.walk():
        if isinstance(op, RegistersOp):
            raise TkcError.at(
                "TK206",
                f"role {role.sym_name.data} moves registers in {_warps(role)}; the four warps of a "
                "warpgroup do that together, so `warps` is a multiple of 4",
                location_of(op),
            )


def check_pool(sharing: Sharing) -> None:
    """TK206 where a program that moves registers itself, once a role and on every way, asks for more than there are.

    A role that has ended counts as one that keeps what it had: a GPU gives its registers to nobody
    (`tests/gpu/check_pool.py`).
    """
    asked: dict[s.RoleOp, RegistersOp] = {}
    for role in sharing.roles:
        moves = [op for op in role.walk() if isinstance(op, RegistersOp)]
        if len(moves) > 1 or any(op.parent_op() is not role for op in moves):
            return
        if moves:
            asked[role] = moves[0]
    if not asked:
        return
    moved = {r: 32 * r.warps.value.data for r in asked}
    total = sum(op.count.value.data * moved[r] for r, op in asked.items())
    total += sharing.entry * (sharing.threads - sum(moved.values()))
    most = max(asked.values(), key=lambda op: op.count.value.data)
    if total > sharing.pool and most.count.value.data > sharing.entry:
        raise TkcError.at(
            "TK206",
            f"this waits for ever: the {sharing.threads} threads begin with {sharing.even} registers each, "
            f"{sharing.pool} together, and the roles come to {total}; ask for fewer here, or let others keep fewer",
            location_of(most),
            *(
                Note(f"role {r.sym_name.data} goes to {op.count.value.data}", location_of(op))
                for r, op in asked.items()
            ),
        )


def check_products(role: s.RoleOp, sharing: Sharing) -> None:
    """TK206 where one product takes more registers than a thread has when the kernel begins."""
    if not sharing.held[role]:
        return
    for op in role.walk():
        if isinstance(op, s.MmaOp) and registers_of_product(op) + OPERANDS > sharing.even:
            need = registers_of_product(op) + OPERANDS
            most = sharing.target.registers_per_sm // (-(-need // STEP) * STEP)
            raise TkcError.at(
                "TK206",
                f"kernel {sharing.kernel.sym_name.data} has {sharing.threads} threads, which begin with {sharing.even} "
                f"registers each; this product takes {need} at once, and moving registers comes too late for it: "
                f"{most // WARPGROUP_THREADS * WARPGROUP_THREADS} threads fit, or fewer columns",
                location_of(op),
                *(
                    Note(f"role {r.sym_name.data} takes {_warps(r)}", location_of(r))
                    for r in sharing.roles
                ),
            )


def _warps(role: s.RoleOp) -> str:
    count = role.warps.value.data
    return "1 warp" if count == 1 else f"{count} warps"


class Sharing:
    """The registers of one kernel's roles; `held` are those of accumulators, `given` what each role gets, a thread."""

    def __init__(
        self, kernel: s.KernelOp, roles: list[s.RoleOp], target: Target, threads: int
    ) -> None:
        self.kernel = kernel
        self.roles = roles
        self.target = target
        self.threads = threads
        self.held = {r: registers_held(r) for r in roles}
        self.given: dict[s.RoleOp, int] = {}

    @property
    def entry(self) -> int:
        """Registers that a thread begins with: an even share of the file."""
        return self.target.registers_at_entry(self.threads)

    @property
    def even(self) -> int:
        """How many of these a thread can name."""
        return min(self.target.max_regs_per_thread, self.entry)

    @property
    def pool(self) -> int:
        """What setmaxnreg moves about: the CTA's registers at entry. A request beyond it waits for ever."""
        return self.threads * self.entry

    @property
    def wanted(self) -> bool:
        """Whether registers are to be moved: where written so, or where an even share is too small."""
        return any(r.registers is not None for r in self.roles) or any(
            n and n + WORKING > self.even for n in self.held.values()
        )

    def share(self) -> None:
        """Gives each role its registers: as written, else the least, or an even share where it has register tiles.

        Roles that hold accumulators in registers get what is left, each thread as much.
        """
        self.threads = -(-self.threads // WARPGROUP_THREADS) * WARPGROUP_THREADS
        for role in self.roles:
            if role.registers is not None:
                self.given[role] = role.registers.value.data
            elif not self.held[role]:
                self.given[role] = min(MOST, self.even) if _handles_fragments(role) else LEAST
        holders = [r for r in self.roles if r not in self.given]
        holding = sum(r.warps.value.data // WARPGROUP_WARPS for r in holders)
        left = self.pool - self._taken(holders)
        each = min(MOST, left // max(1, holding * WARPGROUP_THREADS) // STEP * STEP)
        self.given |= dict.fromkeys(holders, each)
        for role in self.roles:
            self._check(role)
            role.properties["registers"] = IntegerAttr(self.given[role], i32)
        self._check_sum()

    def _taken(self, apart: list[s.RoleOp]) -> int:
        """Registers of all warpgroups but those of the roles `apart`; each has the most that a role in it has."""
        total = 0
        for group in range(self.threads // WARPGROUP_THREADS):
            if not any(_in_group(r, group) for r in apart):
                inside = (n for r, n in self.given.items() if _in_group(r, group))
                total += max(inside, default=LEAST) * WARPGROUP_THREADS
        return total

    def _check(self, role: s.RoleOp) -> None:
        name, given, held = role.sym_name.data, self.given[role], self.held[role]
        if given % STEP or not LEAST <= given <= 256:
            raise TkcError.at(
                "TK206",
                f"role {name} asks for {given} registers; setmaxnreg takes a multiple of 8 from 24 "
                "to 256",
                location_of(role),
            )
        if held and held + BESIDE > given:
            groups = role.groups.value.data
            split, hint = (
                (f" in {groups} warpgroups", "")
                if groups > 1
                else ("", ", or rows that are a multiple of 128, which two warpgroups share")
            )
            raise TkcError.at(
                "TK206",
                f"role {name} holds {held} registers of accumulators a thread{split} and may have "
                f"{given}, of which products leave {given - BESIDE}; a smaller accumulator would "
                f"fit{hint}",
                location_of(role),
            )

    def _check_sum(self) -> None:
        total = self._taken([])
        if total <= self.pool:
            return
        notes = [
            Note(
                f"role {r.sym_name.data} has {n} a thread in {_warps(r)}",
                location_of(r),
            )
            for r, n in self.given.items()
        ]
        raise TkcError.at(
            "TK206",
            f"the roles of kernel {self.kernel.sym_name.data} ask for {total} registers; its "
            f"{self.threads} threads begin with {self.pool}, {self.even} each, and more there will not be",
            location_of(self.kernel),
            *notes,
        )


def _handles_fragments(role: s.RoleOp) -> bool:
    return any(isinstance(op, s.LoadSharedOp | s.ReadAccumulatorOp) for op in role.walk())


def _in_group(role: s.RoleOp, group: int) -> bool:
    first = role.first_warp.value.data
    last = first + role.warps.value.data - 1
    return first // WARPGROUP_WARPS <= group <= last // WARPGROUP_WARPS
