"""Register tiles as fragments, made piece by piece where they are used, so that they need not be held whole."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from tkc.analysis.roles import Rows, rows_of, slot_owner
from tkc.diagnostics import TkcError
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage.ops import How
from tkc.ir.stage.types import FragmentLayout, FragmentType
from tkc.ir.tile import ops as t
from tkc.ir.tile.explicit import ReadColumnsOp
from tkc.ir.tile.types import AccumType, RegsType
from tkc.passes.placement.state import Placement, integer


@dataclass(frozen=True)
class Piece:
    """A part of a register tile: `columns` columns from `column` (a scalar) on, of row block `block`."""

    rows: Rows
    block: int
    columns: int
    column: SSAValue


def matrix(tile: RegsType, op: Operation) -> tuple[int, int]:
    """Rows and columns of a register tile."""
    shape = tuple(int(n) for n in tile.shape)
    if len(shape) != 2:
        raise TkcError.at(
            "TK110",
            f"a register tile of shape {list(shape)} is not supported yet; it has two axes",
            location_of(op),
        )
    return shape


def rows_over_threads(p: Placement, value: SSAValue, rows: int, op: Operation) -> Rows:
    """How the rows of a register tile fall on the role's threads: as its accumulator has them, else row by row."""
    for read in reads(value):
        owner = slot_owner(read.tile).owner
        if isinstance(owner, t.AccumOp):
            assert p.home is not None
            return rows_of(owner, p.home)
    threads = 32 * p.role.plan.warps
    unit = min(threads, rows)
    if rows % unit or threads % unit:
        raise TkcError.at(
            "TK110",
            f"a register tile of {rows} rows over {threads} threads is not supported yet; "
            "rows and threads must divide one another",
            location_of(op),
        )
    if unit < threads:
        raise TkcError.at(
            "TK110",
            f"a register tile of {rows} rows leaves threads of a role of {threads} idle; "
            f"tiles of {threads} rows fit",
            location_of(op),
        )
    return Rows(unit, 1, rows // unit, FragmentLayout.ROWS)


def reads(value: SSAValue) -> list[t.ReadOp | ReadColumnsOp]:
    """The reads that a register tile was computed from."""
    found: list[t.ReadOp | ReadColumnsOp] = []
    todo, seen = [value], {value}
    while todo:
        owner = todo.pop().owner
        if isinstance(owner, t.ReadOp | ReadColumnsOp):
            found.append(owner)
        elif isinstance(owner, t.CastOp | t.MapOp):
            for operand in owner.operands:
                if operand not in seen:
                    seen.add(operand)
                    todo.append(operand)
    return found


def fragment(
    p: Placement, value: SSAValue, piece: Piece, made: dict[SSAValue, SSAValue] | None = None
) -> SSAValue:
    """One piece of a register tile, made here from what the tile was computed from; a scalar as it is."""
    made = {} if made is None else made
    if value in made:
        return made[value]
    if not isinstance(value.type, RegsType):
        return p.values[value]
    op = value.owner
    type = FragmentType.of(
        value.type.dtype.data, (piece.rows.unit, piece.columns), piece.rows.layout
    )
    match op:
        case t.ReadOp() | ReadColumnsOp():
            result = _read(p, op, type, piece)
        case t.CastOp():
            operand = fragment(p, op.source, piece, made)
            with p.emit.at(op.location):
                result = p.emit.value(s.CastOp.create(operands=[operand], result_types=[type]))
        case t.MapOp():
            operands = [fragment(p, x, piece, made) for x in op.operands]
            with p.emit.at(op.location):
                result = p.emit.value(
                    s.MapOp.create(
                        operands=operands, properties={"kind": op.kind}, result_types=[type]
                    )
                )
        case _:
            raise TkcError.at(
                "TK110",
                "a register tile carried round a loop or out of a get is not supported yet",
                location_of(op) if isinstance(op, Operation) else None,
            )
    made[value] = result
    return result


def _read(p: Placement, op: t.ReadOp | ReadColumnsOp, type: FragmentType, piece: Piece) -> SSAValue:
    key = p.role.key(op.tile)
    slot = p.role.slots[key]
    column = piece.column
    with p.emit.at(op.location):
        if isinstance(op.tile.type, AccumType):
            slot.touch(How.TENSOR)
            if isinstance(op, t.ReadOp):
                nonzero = _nonzero(p, op)
            else:
                nonzero = [p.values[v] for v in op.nonzero]
                column = p.emit.arith("add", p.values[op.column], column)
            return p.emit.value(
                s.ReadAccumulatorOp.create(
                    operands=[p.role.accumulators[key], column, *nonzero],
                    properties={"row_block": integer(piece.block)},
                    result_types=[type],
                )
            )
        slot.touch(How.GENERIC)
        if piece.block or piece.rows.layout is not FragmentLayout.ROWS:
            raise TkcError.at(
                "TK110",
                "reading a shared tile beside an accumulator, or one of more rows than the role has "
                "threads, is not supported yet",
                location_of(op),
            )
        if isinstance(op, ReadColumnsOp):
            column = p.emit.arith("add", p.values[op.column], column)
        return p.emit.value(
            s.LoadSharedOp.create(operands=[slot.buffer, slot.slot, column], result_types=[type])
        )


def _nonzero(p: Placement, read: t.ReadOp) -> list[SSAValue]:
    """Whether the item got any product (R7): nothing where it surely did, else a condition that every role can find."""
    accum = slot_owner(read.tile)
    result: SSAValue | None = None
    for op in p.kernel.walk():
        if not isinstance(op, t.MmaOp) or slot_owner(op.d) is not accum:
            continue
        trips = _trips(op)
        if not trips:
            return []
        condition: SSAValue | None = None
        for extent in trips:
            some = p.some(_at_kernel_level(p, extent, op))
            condition = some if condition is None else p.emit.arith("and", condition, some)
        assert condition is not None
        if result is None:
            result = condition
        elif result is not condition:
            result = p.emit.arith("or", result, condition)
    return [] if result is None else [result]


def _trips(product: t.MmaOp) -> list[SSAValue]:
    """The extents of the loops between an item and a product in it: none of them empty, and the product runs."""
    trips: list[SSAValue] = []
    parent = product.parent_op()
    while parent is not None:
        if isinstance(parent, t.PutOp) and product.d.owner is parent.body.block:
            break
        if isinstance(parent, t.ForBlocksOp):
            trips.append(parent.extent)
        parent = parent.parent_op()
    return trips


def _at_kernel_level(p: Placement, extent: SSAValue, product: t.MmaOp) -> SSAValue:
    found = p.values.get(extent)
    owner = found.owner if found is not None else None
    if found is None or not isinstance(owner, Operation) or owner.parent_block() is not p.top:
        raise TkcError.at(
            "TK110",
            "a product inside a loop whose extent depends on the work item is not supported yet",
            location_of(product),
        )
    return found
