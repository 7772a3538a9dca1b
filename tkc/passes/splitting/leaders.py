"""Copies of block scales for a pair that stand in a role which both CTAs run, as roles of their own.

One CTA copies for both, with the other's copies and products; what else the role does, each CTA does for itself. What
joins the two are items of pipes, which say by themselves when each may go on: so the copies, with the puts, gets and
loops round them, may as well be the work of other warps.
"""

from __future__ import annotations

from itertools import takewhile

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator, Pure

from tkc.analysis.roles import each_does
from tkc.diagnostics import Diagnostic, Note, Severity, TkcError, report
from tkc.ir.effects import effects_of
from tkc.ir.isa.memory import Await, Done
from tkc.ir.locations import location_of
from tkc.ir.nest import around
from tkc.ir.tile.ops import GetOp, KernelOp, MmaOp, PipeOp, PutOp, RoleOp, SkipOp, TurnOp
from tkc.ir.tile.scales import CopyScalesOp, ScaledMmaOp


def part_leaders(kernel: KernelOp) -> None:
    """Gives each role that copies scales for its pair, and does for its own CTA what is not, a role for the copies."""
    for role in [op for op in kernel.body.block.ops if isinstance(op, RoleOp)]:
        copies = [op for op in role.walk() if isinstance(op, CopyScalesOp) and op.pair is not None]
        multiplies = any(isinstance(op, MmaOp | ScaledMmaOp) for op in role.walk())
        if copies and not multiplies and any(each_does(op) for op in role.walk()):
            _part(kernel, role, copies)


def _part(kernel: KernelOp, role: RoleOp, copies: list[CopyScalesOp]) -> None:
    outer = _around(role, copies)
    items = [op for op in role.walk() if op in outer and isinstance(op, PutOp | GetOp)]
    _check(role, copies, outer, items)
    name = _name(kernel, f"{role.sym_name.data}_scales")
    new = role.clone()
    new.sym_name = StringAttr(name)
    new.warps = new.registers = None  # which are for what stays
    kernel.body.block.insert_op_after(new, role)
    kept = {b for a, b in zip(role.walk(), new.walk(), strict=True) if a in outer or a in copies}
    _keep(new.body.block, kept, role)
    for copy in copies:
        copy.detach()
        copy.erase()
    for item in items:
        stays = isinstance(item, GetOp) and not _idle(item.body.block)
        _join(item, role.sym_name, name, stays)
    _tidy(role.body.block)
    report(
        Diagnostic(
            "TK222",
            f"role {role.sym_name.data} copies scales for its pair, which one CTA does for both: they are copied in a "
            f"role of their own, {name}",
            location_of(copies[0]),
            Severity.REMARK,
        )
    )


def _around(role: RoleOp, copies: list[CopyScalesOp]) -> set[Operation]:
    """The operations of the role in whose regions the copies stand."""
    return {op for copy in copies for op in takewhile(lambda op: op is not role, around(copy))}


def _check(
    role: RoleOp, copies: list[CopyScalesOp], outer: set[Operation], items: list[PutOp | GetOp]
) -> None:
    """TK110 where other warps could not make the copies as this role would."""
    for op in role.walk():
        if any(
            isinstance(row, Await) and row.done is not Done.BULK_GROUP
            for row in effects_of(op) or ()
        ):
            _refuse(role, copies[0], "waits for more than items of pipes", op)
        if op in outer and op.results:
            _refuse(role, copies[0], "has values that a block round them hands on", op)
    for item in items:
        inside = [op for op in item.body.walk() if each_does(op)]
        if isinstance(item, PutOp) and inside:
            _refuse(role, copies[0], "fills tiles in the same put", inside[0])
        for pipe in item.pipes:
            assert isinstance(pipe.owner, PipeOp)
            for use in pipe.uses:
                op, mine = use.operation, role.is_ancestor(use.operation)
                turns = isinstance(op, TurnOp | SkipOp)
                if mine and (turns or (isinstance(op, type(item)) and op not in outer)):
                    name = pipe.owner.sym_name.data
                    _refuse(role, copies[0], f"has other items of pipe {name}", op)


def _refuse(role: RoleOp, copy: CopyScalesOp, why: str, at: Operation) -> None:
    raise TkcError.at(
        "TK110",
        f"role {role.sym_name.data} copies scales for its pair, which one CTA does for both, and also does what each "
        f"CTA does for itself; it {why}, so that the copies are not parted from it: a role of their own fits",
        location_of(copy),
        Note("here", location_of(at)),
    )


def _name(kernel: KernelOp, wanted: str) -> str:
    """A name that no role has."""
    taken = {op.sym_name.data for op in kernel.body.block.ops if isinstance(op, RoleOp)}
    return next(n for n in (wanted + "_" * i for i in range(len(taken) + 1)) if n not in taken)


def _keep(block: Block, kept: set[Operation], role: RoleOp) -> None:
    """Leaves what is kept, and the numbers and blocks that it takes."""
    for op in reversed(list(block.ops)):
        if op in kept:
            for region in op.regions:
                if region.blocks:
                    _keep(region.block, kept, role)
        elif not op.has_trait(IsTerminator):
            if not any(result.uses for result in op.results):
                op.detach()
                op.erase()
            elif not op.has_trait(Pure):
                first = next(iter(kept))
                told = (
                    f"role {role.sym_name.data} copies scales for its pair where {op.name} says so"
                )
                raise TkcError.at(
                    "TK110",
                    f"{told}: not supported yet",
                    location_of(op),
                    Note("round", location_of(first)),
                )


def _join(item: PutOp | GetOp, old: StringAttr, new: str, stays: bool) -> None:
    """The new role is an end of the item's pipes in the old one's place, or, where this `stays`, beside it."""
    ends = [old, StringAttr(new)] if stays else [StringAttr(new)]
    for pipe in [pipe.owner for pipe in item.pipes]:
        assert isinstance(pipe, PipeOp)
        end = "consumers" if isinstance(item, GetOp) else "producers"
        names = [x for n in getattr(pipe, end) for x in (ends if n == old else [n])]
        setattr(pipe, end, ArrayAttr(names))


def _idle(block: Block) -> bool:
    """Whether nothing happens in a block."""
    return all(
        op.has_trait(Pure) or (op.regions and all(_idle(r.block) for r in op.regions if r.blocks))
        for op in block.ops
    )


def _tidy(block: Block) -> None:
    """Erases blocks and loops in which nothing happens any more."""
    for op in list(block.ops):
        for region in op.regions:
            if region.blocks:
                _tidy(region.block)
        if op.regions and not op.results and all(_idle(r.block) for r in op.regions if r.blocks):
            op.detach()
            op.erase()
