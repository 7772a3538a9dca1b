"""How many warps a role of the tile level needs, what it does, and how a matrix product's rows fall on warpgroups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.ir import BlockArgument, Operation, SSAValue

from tkc.diagnostics import Note, TkcError
from tkc.ir.isa.targets import Feature, Target
from tkc.ir.locations import location_of
from tkc.ir.stage.types import FragmentLayout, Home
from tkc.ir.tile.explicit import ReadColumnsOp, SlotOp
from tkc.ir.tile.ops import (
    AccumOp,
    CopyOp,
    GetOp,
    MapOp,
    MmaOp,
    PipeOp,
    PutOp,
    ReadOp,
    RoleOp,
    ZeroOp,
)
from tkc.ir.tile.scales import CopyScalesOp, ScaledMmaOp
from tkc.ir.tile.tensor_operands import TensorMmaOp
from tkc.ir.tile.types import AccumType, RegsType
from tkc.ir.tile.vectors import ReduceOp, TotalOp

WARPGROUP = 4
"""Warps of a warpgroup."""

WARP_ROWS = 32
"""Rows of a register tile that a warp holds, a thread each, where no product says otherwise."""


def accumulator_home(target: Target) -> Home | None:
    """Where the target's matrix unit keeps accumulators; None where it has no unit that we use."""
    if target.has({Feature.TCGEN05}):
        return Home.TENSOR
    if target.has({Feature.WGMMA}):
        return Home.REGISTER
    return None


@dataclass(frozen=True)
class Rows:
    """How the rows of an accumulator fall on hardware: `unit` rows in one piece that one warpgroup reads.

    `groups` warpgroups share the rows (1 in tensor memory), each with `blocks` pieces one after another, of which the
    last may be cut short: a warpgroup has `each` rows.
    """

    unit: int
    groups: int
    blocks: int
    layout: FragmentLayout
    short: int = 0

    @property
    def each(self) -> int:
        return self.short or self.unit * self.blocks


def rows_of(accum: AccumOp, home: Home) -> Rows:
    """The split of an accumulator's rows, or TK203 naming what fits.

    tcgen05 takes 64 or 128 rows at a time (isa.mma), wgmma 64 per warpgroup (two warpgroups where the rows divide).
    """
    tile = accum.tile.type
    assert isinstance(tile, AccumType)
    rows = tile.shape[0]
    if home is Home.TENSOR:
        if rows == 64:
            return Rows(64, 1, 1, FragmentLayout.HALF_ROWS)
        if rows % 128 == 0:
            return Rows(128, 1, rows // 128, FragmentLayout.ROWS)
        fits = "64, 128 or a multiple of 128"
    else:
        if rows % 64 == 0:
            groups = 2 if rows % 128 == 0 else 1
            return Rows(64, groups, rows // 64 // groups, FragmentLayout.WGMMA)
        fits = "a multiple of 64"
    raise TkcError.at(
        "TK203",
        f"accumulator {accum.sym_name.data} has {rows} rows; the target's matrix unit takes {fits}",
        location_of(accum),
    )


@dataclass(frozen=True)
class RolePlan:
    """What a role needs: `warps` in all, `groups` warpgroups that split rows, and whether it handles register tiles.

    One that `leads` issues the products of a pair, in the pair's first CTA.
    """

    warps: int
    groups: int
    registers_tiles: bool
    products: bool
    accumulator: AccumOp | None
    leads: bool = False


def slot_owner(slot: SSAValue) -> SSAValue:
    """The declared tile that a slot of a put or get belongs to (the tile itself for a tile)."""
    if isinstance(slot.owner, SlotOp):
        return slot.owner.tile
    parent = slot.block.parent_op() if isinstance(slot, BlockArgument) else None
    if isinstance(slot, BlockArgument) and isinstance(parent, PutOp | GetOp):
        index = slot.index
        for pipe in parent.pipes:
            assert isinstance(pipe.owner, PipeOp)
            if index < len(pipe.owner.tiles):
                return pipe.owner.tiles[index]
            index -= len(pipe.owner.tiles)
    return slot


def slots_of(tile: SSAValue) -> Iterator[SSAValue]:
    """The tile itself and every slot of it that a put or get opens, or that the program numbers."""
    yield tile
    for use in list(tile.uses):
        if isinstance(use.operation, SlotOp):
            yield use.operation.slot
        if not isinstance(use.operation, PipeOp):
            continue
        for block_use in list(use.operation.pipe.uses):
            opened = block_use.operation
            if isinstance(opened, PutOp | GetOp):
                first = sum(
                    len(pipe.owner.tiles)
                    for pipe in opened.pipes[: block_use.index]
                    if isinstance(pipe.owner, PipeOp)
                )
                yield opened.body.block.args[first + use.index]


def plan_role(role: RoleOp, home: Home | None) -> RolePlan:
    """The plan of one role; a role with register tiles gets a warpgroup unless it says otherwise."""
    products = registers_tiles = leads = False
    accumulator: AccumOp | None = None
    for op in role.walk():
        match op:
            case CopyScalesOp():
                leads = leads or (op.pair is not None and not _by_hand(op))
            case MmaOp() | ScaledMmaOp() | TensorMmaOp():
                products = True
                paired = not isinstance(op, TensorMmaOp) and op.pair is not None
                leads = leads or (paired and not _by_hand(op))
                owner = slot_owner(op.d).owner
                accumulator = owner if isinstance(owner, AccumOp) else accumulator
            case ZeroOp() if accumulator is None:
                owner = slot_owner(op.accum).owner
                accumulator = owner if isinstance(owner, AccumOp) else None
            case ReadOp() | ReadColumnsOp():
                registers_tiles = True
                owner = slot_owner(op.tile).owner
                accumulator = owner if isinstance(owner, AccumOp) else accumulator
            case CopyOp() if isinstance(op.source.type, RegsType):
                registers_tiles = True
                owner = slot_owner(op.destination).owner
                accumulator = owner if isinstance(owner, AccumOp) else accumulator
            case MapOp() | ReduceOp() | TotalOp():
                registers_tiles = True
            case _:
                pass
    groups = 1
    warps = _warps_of_rows(role) if registers_tiles and accumulator is None else 1
    if registers_tiles and accumulator is not None:
        warps = WARPGROUP
    if accumulator is not None and home is Home.REGISTER:
        groups = rows_of(accumulator, home).groups
        warps = WARPGROUP * groups
    wanted = role.warps.value.data if role.warps is not None else None
    if wanted is not None and wanted != warps:
        fixed = home is Home.REGISTER and accumulator is not None
        if fixed or wanted < 1 or (accumulator and registers_tiles):
            raise TkcError.at(
                "TK208",
                f"role {role.sym_name.data} asks for {wanted} warp{'s' * (wanted != 1)}; what it does takes {warps}"
                + _why(accumulator if registers_tiles or fixed else None, home, groups, warps),
                location_of(role),
                *([Note("the accumulator", location_of(accumulator))] if accumulator else []),
            )
        warps = wanted
    if leads:
        _check_leader(role)
    return RolePlan(warps, groups, registers_tiles, products, accumulator, leads)


def too_many_threads(
    name: str, kernel: Operation, warps: Mapping[Any, int], target: Target
) -> TkcError:
    """TK208: a kernel and the warps of its roles, at either level."""
    notes = [
        Note(f"role {r.sym_name.data} takes {n} warp{'s' * (n != 1)}", location_of(r))
        for r, n in warps.items()
    ]
    return TkcError.at(
        "TK208",
        f"the roles of kernel {name} take {32 * sum(warps.values())} threads; a CTA has at most {target.max_threads}",
        location_of(kernel),
        *notes,
    )


def _by_hand(op: MmaOp | ScaledMmaOp | CopyScalesOp) -> bool:
    """Whether the program numbers the slots itself, and says itself which CTA of a pair does it."""
    return any(isinstance(x.owner, SlotOp) for x in op.operands)


def _warps_of_rows(role: RoleOp) -> int:
    """A warpgroup, or as many warps as its tiles have rows, where these are fewer."""
    rows = [
        int(value.type.shape[0])
        for op in role.walk()
        for value in op.results
        if isinstance(value.type, RegsType) and len(value.type.shape) == 2
    ]
    most = max(rows, default=0)
    fits = most % WARP_ROWS == 0 and 0 < most < WARPGROUP * WARP_ROWS
    return most // WARP_ROWS if fits else WARPGROUP


def _why(accumulator: AccumOp | None, home: Home | None, groups: int, warps: int) -> str:
    """Where the number of warps comes from."""
    if accumulator is None:
        return ""
    name = accumulator.sym_name.data
    tile = accumulator.tile.type
    assert isinstance(tile, AccumType)
    if home is Home.TENSOR:
        return f": four warps reach the lanes of tensor memory, where {name} is"
    share = "share" if groups > 1 else "hold"
    groups_told = f"{groups} warpgroups" if groups > 1 else "the warps of a warpgroup"
    fewer = f"; 64 rows take {WARPGROUP}" if groups > 1 else ""
    return f": {groups_told} {share} the {tile.shape[0]} rows of {name} in their registers on this target{fewer}"


def each_does(op: Operation) -> bool:
    """Whether each CTA of a pair does this for its own part of a tile."""
    return isinstance(op, CopyOp | ReadOp)


def _check_leader(role: RoleOp) -> None:
    """A role that issues a pair's products runs in one CTA of it, so what both CTAs do belongs into other roles."""
    for op in role.walk():
        if each_does(op):
            raise TkcError.at(
                "TK110",
                f"role {role.sym_name.data} issues products of a pair, which one CTA does, and also copies or reads "
                "tiles, which both do: not supported yet; a role of its own fits",
                location_of(op),
            )
