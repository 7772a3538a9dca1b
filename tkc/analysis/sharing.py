"""Which declared tiles are in one place, which pipes carry them, and what a role does to what lies there (R2)."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from tkc.analysis.roles import slot_owner
from tkc.ir.nest import around
from tkc.ir.tile.ops import AccumOp, GetOp, PipeOp, PutOp, RoleOp, SharedOp


def place_of(slot: SSAValue) -> SSAValue:
    """The declared tile in whose place a tile, or a slot of one, lies; it itself where it has a place of its own."""
    tile = slot_owner(slot)
    declared = tile.owner
    if not isinstance(declared, SharedOp | AccumOp) or declared.within is None:
        return tile
    return next(op.tile for op in _declared(declared) if op.sym_name == declared.within)


def _declared(beside: Operation) -> Iterator[SharedOp | AccumOp]:
    block = beside.parent_block()
    assert block is not None
    yield from (op for op in block.ops if isinstance(op, SharedOp | AccumOp))


def pipes_of(tile: SSAValue) -> list[PipeOp]:
    """The pipes that carry a declared tile."""
    return [use.operation for use in tile.uses if isinstance(use.operation, PipeOp)]


def shares_place(tile: SSAValue) -> bool:
    """Whether a declared tile rides in several pipes, or another tile lies in its place, or it in that of another."""
    return len(pipes_of(tile)) > 1 or len(tiles_in(place_of(tile))) > 1


def tiles_in(place: SSAValue) -> list[SSAValue]:
    """All declared tiles in a place."""
    owner = place.owner
    if not isinstance(owner, SharedOp | AccumOp):
        return [place]
    return [place, *(op.tile for op in _declared(owner) if op.within == owner.sym_name)]


def joined(pipe: PipeOp) -> list[PipeOp]:
    """A pipe, and those that meet it in a place, or meet one of these."""
    found = [pipe]
    for one in found:
        for tile in one.tiles:
            for other in tiles_in(place_of(tile)):
                found += [p for p in pipes_of(other) if p not in found]
    return found


def role_round(op: Operation) -> RoleOp | None:
    return next((at for at in around(op) if isinstance(at, RoleOp)), None)


def block_of(slot: SSAValue) -> PutOp | GetOp | None:
    """The put or get that opens a slot."""
    parent = slot.owner.parent_op() if isinstance(slot.owner, Block) else None
    return parent if isinstance(parent, PutOp | GetOp) else None
