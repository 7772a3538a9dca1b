"""Register tiles as fragments, made piece by piece where they are used, so that they need not be held whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, f32, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tkc.analysis.guards import varies
from tkc.analysis.roles import Rows, rows_of, slot_owner
from tkc.analysis.sharing import shares_place
from tkc.diagnostics import Bug, TkcError
from tkc.ir.interned import integer
from tkc.ir.locations import location_of
from tkc.ir.stage import ops as s
from tkc.ir.stage import vectors as v
from tkc.ir.stage.ops import How
from tkc.ir.stage.scalar import ConstOp
from tkc.ir.stage.types import FragmentLayout, FragmentType, Home
from tkc.ir.tile import ops as t
from tkc.ir.tile import vectors as tv
from tkc.ir.tile.explicit import ReadColumnsOp
from tkc.ir.tile.types import AccumType, BlockType, RegsType
from tkc.passes.placement import sums
from tkc.passes.placement.places import first_row, limit_of, load
from tkc.passes.placement.state import Placement


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
        mend = ": `column(x)` is one value a row, `row(x)` one a column" * (len(shape) == 1)
        raise TkcError.at(
            "TK110",
            f"a register tile of shape {list(shape)} is not supported yet; it has two axes{mend}",
            location_of(op),
        )
    return shape


def rows_over_threads(p: Placement, rows: int, op: Operation) -> Rows:
    """How the rows of a register tile fall on the role's threads: as its accumulator has them, else row by row."""
    accumulator = p.role.plan.accumulator
    if accumulator is not None and p.home is not None and p.role.plan.registers_tiles:
        type = accumulator.tile.type
        assert isinstance(type, AccumType)
        if type.shape[0] == rows:
            return rows_of(accumulator, p.home)
    threads = 32 * p.role.plan.warps
    unit = min(threads, rows)
    if rows % unit or threads % unit:
        raise TkcError.at(
            "TK110",
            f"a register tile of {rows} rows over the {threads} threads of a role is not supported yet: each thread "
            f"has as many rows, so that {'32, 64, 96 and ' if threads == 128 else ''}multiples of {threads} fit",
            location_of(op),
        )
    if unit < threads:
        raise TkcError.at(
            "TK110",
            f"a register tile of {rows} rows leaves threads of a role of {threads} idle; "
            + (f"`warps {rows // 32}` fits, or " if rows % 32 == 0 and accumulator is None else "")
            + f"tiles of {threads} rows fit",
            location_of(op),
        )
    return Rows(unit, 1, rows // unit, FragmentLayout.ROWS)


def is_column(type: Attribute) -> bool:
    """Whether a register value has one value a row."""
    return isinstance(type, RegsType) and len(type.shape) == 2 and type.shape[1] == 1


def is_row(type: Attribute) -> bool:
    """Whether a register value has one value a column."""
    return isinstance(type, RegsType) and len(type.shape) == 2 and type.shape[0] == 1


def rows_of_columns(p: Placement) -> Rows:
    """In which layout one value a column is held: that of the role's accumulator, where it is in registers."""
    accumulator = p.role.plan.accumulator
    if accumulator is not None and p.home is Home.REGISTER and p.role.plan.registers_tiles:
        return rows_of(accumulator, p.home)
    return Rows(32 * p.role.plan.warps, 1, 1, FragmentLayout.ROWS)


def held_piece(p: Placement, value: SSAValue, block: int) -> SSAValue | None:
    """What holds a value whole: a row block of it, or all of one value a column, which rows have in common."""
    return p.role.held.get((value, 0 if is_row(value.type) else block))


def fragment_type(type: RegsType, rows: Rows, columns: int) -> FragmentType:
    """The fragment that holds `columns` columns of a row block, or one value for each of its rows or columns."""
    height, width = type.shape if len(type.shape) == 2 else (0, 0)
    shape = (1 if height == 1 else rows.unit, 1 if width == 1 else columns)
    return FragmentType.of(type.dtype.data, shape, rows.layout)


def held_whole(p: Placement, value: SSAValue) -> bool:
    """Whether a tile is computed from one that is held in registers, whose columns are known numbers."""
    todo, seen = [value], {value}
    while todo:
        x = todo.pop()
        if isinstance(x.type, RegsType) and not is_column(x.type) and (x, 0) in p.role.held:
            return True
        if (
            isinstance(x.owner, t.CastOp | t.MapOp | tv.MaskOp | tv.ReshapeOp)
            and (x, 0) not in p.role.held
        ):
            new = [v for v in x.owner.operands if v not in seen]
            seen.update(new)
            todo += new
    return False


def reads(value: SSAValue) -> list[t.ReadOp | ReadColumnsOp]:
    """The reads that a register tile was computed from."""
    found: list[t.ReadOp | ReadColumnsOp] = []
    todo, seen = [value], {value}
    while todo:
        owner = todo.pop().owner
        if isinstance(owner, t.ReadOp | ReadColumnsOp):
            found.append(owner)
        elif isinstance(owner, t.CastOp | t.MapOp | tv.MaskOp | tv.ReshapeOp):
            for operand in owner.operands:
                if operand not in seen:
                    seen.add(operand)
                    todo.append(operand)
    return found


def _made_in_order(
    value: SSAValue,
    made: dict[SSAValue, SSAValue],
    needs: Callable[[SSAValue], Sequence[SSAValue]],
    make: Callable[[SSAValue], SSAValue],
) -> SSAValue:
    """What `make` makes of a value, after all that it `needs`; each once, however long the chain (no recursion)."""
    todo = [value]
    while todo:
        first = [x for x in needs(todo[-1]) if x not in made] if todo[-1] not in made else []
        if first:
            todo += reversed(first)
            continue
        last = todo.pop()
        if last not in made:
            made[last] = make(last)
    return made[value]


def fragment(p: Placement, value: SSAValue, piece: Piece) -> SSAValue:
    """One piece of a register tile, made here from what the tile was computed from; a scalar as it is."""
    made: dict[SSAValue, SSAValue] = {}

    def needs(x: SSAValue) -> Sequence[SSAValue]:
        op, apart = x.owner, isinstance(x.type, RegsType) and not held_piece(p, x, piece.block)
        if isinstance(op, tv.MaskOp) and _is_choice(op):
            return ()  # made where it is chosen
        return op.operands if apart and isinstance(op, (*SAME, tv.MaskOp)) else ()

    return _made_in_order(value, made, needs, lambda x: _fragment(p, x, piece, made))


SAME = (t.CastOp, t.MapOp, tv.FillOp)
"""Operations that are the same on fragments as on tiles."""


def _fragment(
    p: Placement, value: SSAValue, piece: Piece, made: dict[SSAValue, SSAValue]
) -> SSAValue:
    """As `fragment`, of a value whose operands are in `made` where it is made of them."""
    if not isinstance(value.type, RegsType):
        return p.values[value]
    type = fragment_type(value.type, piece.rows, piece.columns)
    whole = held_piece(p, value, piece.block)
    if whole is not None:
        return _part(p, whole, type, piece)
    if value in p.role.columns:
        return _column(p, p.role.columns[value], type, piece)
    op = value.owner
    if isinstance(op, tv.ReshapeOp):
        return oriented(p, op.source, type, piece)
    if isinstance(op, t.ReadOp | ReadColumnsOp):
        return _read(p, op, type, piece)
    if isinstance(op, tv.MaskOp) and _is_choice(op):
        return _chosen(p, op, type, piece)
    if isinstance(op, tv.MaskOp):
        other = [] if op.otherwise is None else [made[op.otherwise]]
        return _mask(p, op, [made[op.source]], other, type, piece)
    if isinstance(op, SAME):
        return _same(p, op, [made[x] for x in op.operands], type)
    raise TkcError.at(
        "TK110",
        "this use of a register value is not supported yet",
        location_of(op) if isinstance(op, Operation) else None,
    )


def _same(
    p: Placement, op: t.CastOp | t.MapOp | tv.FillOp, operands: list[SSAValue], type: FragmentType
) -> SSAValue:
    """The operation on fragments that is the same on tiles."""
    with p.emit.at(op.location):
        match op:
            case t.CastOp():
                made: Operation = s.CastOp.create(operands=operands, result_types=[type])
            case t.MapOp():
                made = s.MapOp.create(
                    operands=operands, properties={"kind": op.kind}, result_types=[type]
                )
            case _:
                made = v.FillOp.create(operands=operands, result_types=[type])
        return p.emit.value(made)


def _is_choice(op: tv.MaskOp) -> bool:
    """Whether a condition chooses a whole tile or a number, where the tile is read from a slot that pipes share: what
    is not chosen may not be there yet."""
    if op.row is not None or op.column is not None or op.otherwise is not None:
        return False
    return any(
        isinstance(r, t.ReadOp) and shares_place(slot_owner(r.tile)) for r in reads(op.source)
    )


def _chosen(p: Placement, op: tv.MaskOp, type: FragmentType, piece: Piece) -> SSAValue:
    """A piece of such a tile, which is read where it is chosen alone."""
    with p.emit.at(op.location):
        _check_alike(p, op)
        holds = p.emit.arith("lt", p.emit.const(0), p.values[op.limit], hint="chosen")
        then, otherwise = Block(), Block()
        with p.emit.inside(then):
            p.emit.add(s.YieldOp.create(operands=[fragment(p, op.source, piece)]))
        with p.emit.inside(otherwise):
            number = p.emit.value(
                ConstOp.create(properties={"constant": op.fill}, result_types=[f32])
            )
            filled = p.emit.value(v.FillOp.create(operands=[number], result_types=[type]))
            p.emit.add(s.YieldOp.create(operands=[filled]))
        made = s.IfOp.create(
            operands=[holds], regions=[Region(then), Region(otherwise)], result_types=[type]
        )
        return p.emit.value(made)


def _check_alike(p: Placement, op: tv.MaskOp) -> None:
    if varies(p.values[op.limit]):
        raise TkcError.at(
            "TK106",
            "this condition is another one in each thread, and the elements of a tile are spread over threads: "
            "`lane`, `warp` and `thread`, and what is made of them, do not say which elements count",
            location_of(op),
        )


def _mask(
    p: Placement,
    op: tv.MaskOp,
    source: list[SSAValue],
    other: list[SSAValue],
    type: FragmentType,
    piece: Piece,
) -> SSAValue:
    """A piece of a masked tile: positions counted from the piece's first element."""
    with p.emit.at(op.location):
        limit = p.values[op.limit]
        _check_alike(p, op)
        ends = (
            (op.row, op.rows, first_row(p, piece.rows, piece.block)),
            (op.column, op.columns, piece.column),
        )
        for block, factor, inside in ends:
            if block is None:
                continue
            size = block.type
            assert isinstance(size, BlockType)
            first = p.emit.arith("mul", p.values[block], p.emit.const(size.size.data))
            if inside is not None:
                first = p.emit.arith("add", first, inside)
            limit = p.emit.arith(
                "sub", limit, p.emit.arith("mul", first, p.emit.const(factor.value.data))
            )
        properties = {"rows": op.rows, "columns": op.columns, "fill": op.fill}
        if op.positions is not None:
            properties["positions"] = op.positions
        return p.emit.value(
            v.MaskOp.create(
                operands=[*source, limit, *other], properties=properties, result_types=[type]
            )
        )


def _part(p: Placement, whole: SSAValue, type: FragmentType, piece: Piece) -> SSAValue:
    """The piece of a value that is held whole."""
    if whole.type == type:
        return whole
    assert isinstance(whole.type, FragmentType)
    if whole.type.layout != type.layout:
        raise TkcError.at(
            "TK110",
            "one value a column that a loop or a get hands on, beside a tile of other rows than the accumulator's, is "
            "not supported yet: reduce it where it is used",
            p.emit.location,
        )
    column = piece.column.owner
    if not isinstance(column, ConstOp) or not isinstance(column.constant, IntegerAttr):
        raise Bug("place-tiles", "columns of registers are known numbers")
    properties = {"start": integer(column.constant.value.data)}
    return p.emit.value(
        v.PartOp.create(operands=[whole], properties=properties, result_types=[type])
    )


def oriented(p: Placement, vector: SSAValue, type: FragmentType, piece: Piece) -> SSAValue:
    """A vector, made as one value a row or a column as `type` says."""
    made: dict[SSAValue, SSAValue] = {}

    def apart(x: SSAValue) -> bool:
        return held_piece(p, x, 0) is None and x not in p.role.columns

    def needs(x: SSAValue) -> Sequence[SSAValue]:
        op = x.owner
        if isinstance(x.type, RegsType) and isinstance(op, (*SAME, tv.ReshapeOp)) and apart(x):
            return op.operands
        return ()

    def make(x: SSAValue) -> SSAValue:
        if not isinstance(x.type, RegsType):
            return p.values[x]
        op = x.owner
        of = FragmentType.of(x.type.dtype.data, type.shape, piece.rows.layout)
        if not apart(x):
            return _vector(p, x, of, piece)
        with p.emit.at(op.location if isinstance(op, Operation) else p.emit.location):
            match op:
                case t.ReadOp() | ReadColumnsOp():
                    return _read(p, op, of, piece)
                case tv.LoadOp():
                    return load(p, op, of, piece.rows, piece.block, piece.column)
                case t.CastOp() | t.MapOp() | tv.FillOp():
                    return _same(p, op, [made[o] for o in op.operands], of)
                case tv.ReshapeOp():
                    return made[op.source]
                case _:
                    raise TkcError.at(
                        "TK110",
                        "a vector that is neither read nor loaded where it is used is not supported yet",
                        location_of(op) if isinstance(op, Operation) else None,
                    )

    return _made_in_order(vector, made, needs, make)


def _vector(p: Placement, value: SSAValue, type: FragmentType, piece: Piece) -> SSAValue:
    """One value a row or a column, out of the registers or the shared memory that it is in."""
    whole = held_piece(p, value, piece.block)
    if whole is not None and is_column(value.type):
        if whole.type != type:
            raise TkcError.at(
                "TK110",
                "one value a row that is held in registers, used in another shape, is not supported yet",
                location_of(value.owner) if isinstance(value.owner, Operation) else None,
            )
        return whole
    if whole is not None and type.a_column:
        return _part(p, whole, type, piece)
    if value not in p.role.columns:
        from tkc.passes.placement.columns import spill  # few vectors go that way

        assert whole is not None
        spill(p, value, whole)
    return _column(p, p.role.columns[value], type, piece)


def _column(p: Placement, buffer: SSAValue, type: FragmentType, piece: Piece) -> SSAValue:
    """Elements of a vector in shared memory that the compiler made: from a column on, or one for each row."""
    row = None if type.a_column else first_row(p, piece.rows, piece.block)
    column = piece.column if type.a_column else p.emit.const(0)
    return p.emit.value(
        s.LoadSharedOp.create(
            operands=[buffer, p.emit.const(0), column, *([row] if row else [])],
            properties={} if type.a_column else limit_of(piece.rows, piece.block),
            result_types=[type],
        )
    )


def _read(p: Placement, op: t.ReadOp | ReadColumnsOp, type: FragmentType, piece: Piece) -> SSAValue:
    key = p.role.key(op.tile)
    slot = p.role.slots[key]
    column = piece.column
    with p.emit.at(op.location):
        if isinstance(op.tile.type, AccumType):
            slot.touch(How.TENSOR)
            if isinstance(op, t.ReadOp):
                nonzero = sums.nonzero(p, op)
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
        if isinstance(op, ReadColumnsOp):
            column = p.emit.arith("add", p.values[op.column], column)
        row = None if type.a_column else first_row(p, piece.rows, piece.block)
        return p.emit.value(
            s.LoadSharedOp.create(
                operands=[slot.buffer, slot.slot, column, *([row] if row else [])],
                properties={} if type.a_column else limit_of(piece.rows, piece.block),
                result_types=[type],
            )
        )


def slices(
    p: Placement,
    value: SSAValue,
    rows: Rows,
    width: int,
    columns: int,
    body: Callable[[SSAValue], None],
    *,
    known: bool = False,
) -> None:
    """Runs `body(column)` for each slice: in a loop where columns may be found at run time, else one by one.

    Registers may not: an accumulator in registers is written out slice by slice. `known`: nor may the body's columns,
    or slices of a tile that is read and written in one place are to be told apart.
    """
    if known or rows.layout is FragmentLayout.WGMMA or width == columns or held_whole(p, value):
        for first in range(0, width, columns):
            body(p.emit.const(first))
        return
    loop = Block(arg_types=[i32])
    loop.args[0].name_hint = "column"
    bounds = (p.emit.const(0), p.emit.const(width), p.emit.const(columns))
    with p.emit.inside(loop):
        body(loop.args[0])
        p.emit.add(s.YieldOp.create(operands=[]))
    p.emit.add(s.ForOp.create(operands=bounds, regions=[Region(loop)]))
