"""R24: reductions learn which block their columns are of, so that columns beyond the axis count as the neutral element.

A role that gets a tile finds the block in its own loops: the roles at the ends of a pipe have the same items in the
same loops (R6), so the k-th get is of what the k-th put wrote, and the n-th loop round the one is the n-th round the
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P

Loop = P.Each | P.Blocks | X.Range


class _Place(NamedTuple):
    """Which variable of which loop round an item, counted from outside."""

    loop: int
    variable: int
    part: tuple[int, int] | None = None


_Columns = tuple[str | P.Part, P.Axis]
"""The block that columns are, and its axis."""

Axes = tuple[_Place | None, ...]
"""What each axis of a tile is a block of."""


class _Item(NamedTuple):
    """A put or get, and the loops and the other puts and gets round it."""

    block: P.Transfer
    loops: tuple[Loop, ...]
    outer: tuple[P.Transfer, ...]


class _Slot(NamedTuple):
    """A tile of a put or get: tile number `tile` of the pipe in the role's `item`-th put or get of it."""

    pipe: P.Pipe
    item: int
    tile: int


def _items(
    body: P.Body, loops: tuple[Loop, ...] = (), outer: tuple[P.Transfer, ...] = ()
) -> Iterator[_Item]:
    for s in body:
        if isinstance(s, P.Transfer):
            yield _Item(s, loops, outer)
            yield from _items(s.body, loops, (*outer, s))
        else:
            here = (*loops, s) if isinstance(s, Loop) else loops
            for inner in P.bodies(s):
                yield from _items(inner, here, outer)


def _inside(body: P.Body) -> Iterator[P.Statement]:
    for s in body:
        yield s
        for inner in P.bodies(s):
            yield from _inside(inner)


_ELEMENT = P.Axis(1, 1, True)


def _variables(loop: Loop) -> tuple[tuple[str, P.Axis], ...]:
    if isinstance(loop, P.Each):
        return tuple(zip(loop.variables, loop.schedule.axes, strict=True))
    return ((loop.variable, loop.axis if isinstance(loop, P.Blocks) else _ELEMENT),)


def _find(name: str, loops: Sequence[Loop]) -> _Place | None:
    """The innermost loop's variable of that name."""
    for depth in range(len(loops) - 1, -1, -1):
        for index, (variable, _) in enumerate(_variables(loops[depth])):
            if variable == name:
                return _Place(depth, index)
    return None


def _place(index: object, loops: Sequence[Loop]) -> tuple[_Place | None, ...]:
    """What an index is a block of; nothing where it is an integer."""
    if isinstance(index, str):
        return (_find(index, loops),)
    if isinstance(index, P.Part):
        place = _find(index.block, loops)
        return (place._replace(part=(index.index, index.count)) if place else None,)
    return ()


def _single(place: _Place, loops: Sequence[Loop]) -> bool:
    """Whether a loop's variable is an integer, which drops an axis."""
    return _variables(loops[place.loop])[place.variable][1].single


class _Blocks:
    """What the axes of the tiles of a kernel are blocks of."""

    def __init__(self, roles: Sequence[P.Role]) -> None:
        self.slots: dict[int, tuple[_Slot, ...]] = {}
        """What the names of a put or get are, by its identity."""
        self.puts: dict[tuple[str, str], list[tuple[_Item, int]]] = {}
        """By role and pipe: each put or get of it, and where in its names the pipe's tiles begin."""
        for role in roles:
            for item in _items(role.body):
                self._number(role, item)
        self.known: dict[_Slot, Axes] = {}

    def _number(self, role: P.Role, item: _Item) -> None:
        slots: list[_Slot] = []
        for pipe in item.block.pipes:
            known = self.puts.setdefault((role.name, pipe.name), [])
            known.append((item, len(slots)))
            slots += [_Slot(pipe, len(known) - 1, j) for j in range(len(pipe.tiles))]
        self.slots[id(item.block)] = tuple(slots)

    def axes(self, slot: _Slot) -> Axes:
        """By the loops round the put that fills a slot; nothing where that is not known."""
        if slot not in self.known:
            self.known[slot] = ()
            found: list[Axes] = []
            for producer in slot.pipe.producers:
                puts = self.puts.get((producer, slot.pipe.name), [])
                if slot.item < len(puts):
                    item, first = puts[slot.item]
                    found += self._written(item, item.block.tiles[first + slot.tile])
            self.known[slot] = found[0] if found and all(a == found[0] for a in found) else ()
        return self.known[slot]

    def _written(self, item: _Item, tile: str) -> Iterator[Axes]:
        for s in _inside(item.block.body):
            if isinstance(s, P.Move) and s.destination == tile:
                if isinstance(s.source, P.Slice):
                    found = [_place(i, item.loops) for i in s.source.indices]
                    places = [p for one in found for p in one]
                    yield tuple(p for p in places if p is None or not _single(p, item.loops))
                else:
                    yield self._computed(item, s.source)
            elif isinstance(s, P.Multiply) and s.d == tile:
                yield self._product(item, s)

    def _computed(self, item: _Item, x: object) -> Axes:
        """Of a tile that is made of others, element by element, what those are whose gets stand round the put."""
        match x:
            case P.Read():
                for block in reversed((*item.outer, item.block)):
                    slots = zip(block.tiles, self.slots[id(block)], strict=True)
                    found = next((slot for tile, slot in slots if tile == x.tile), None)
                    if found is not None:
                        return self.axes(found)
                return ()
            case P.Cast():
                return self._computed(item, x.operand)
            case P.Apply():
                whole = [o for o in x.operands if o.type == x.type or _shape(o) == _shape(x)]
                return next((axes for o in whole if (axes := self._computed(item, o))), ())
            case _:
                return ()

    def _product(self, item: _Item, s: P.Multiply) -> Axes:
        """Rows of a, columns of b, in the loops round the put of the accumulator."""
        made: list[_Place | None] = []
        for name, transposed, axis in ((s.a, s.transpose_a, 0), (s.b, s.transpose_b, 1)):
            place: _Place | None = None
            for inner in _items(item.block.body, item.loops):
                slots = zip(inner.block.tiles, self.slots[id(inner.block)], strict=True)
                axes = next((self.axes(slot) for tile, slot in slots if tile == name), ())
                if axes:
                    place = axes[1 - axis if transposed else axis]
            made.append(place if place is not None and place.loop < len(item.loops) else None)
        return tuple(made)


class _Role:
    """Rebuilds a role's body with the blocks of its reductions; `columns` is what each variable's columns are of."""

    def __init__(self, blocks: _Blocks) -> None:
        self.blocks = blocks
        self.tiles: dict[str, _Columns | None] = {}
        self.columns: dict[str, _Columns | None] = {}

    def body(self, body: P.Body, loops: tuple[Loop, ...] = ()) -> P.Body:
        return tuple(self._statement(s, loops) for s in body)

    def _statement(self, s: P.Statement, loops: tuple[Loop, ...]) -> P.Statement:
        match s:
            case P.Set():
                value = self._value(s.value)
                self.columns[s.name] = self._columns(value)
                return s._replace(value=value)
            case P.Move() if not isinstance(s.source, P.Slice | str):
                return s._replace(source=self._value(s.source))
            case P.Each() | P.Blocks() | X.Range():
                return s._replace(body=self.body(s.body, (*loops, s)))
            case X.If():
                then, otherwise = (self.body(b, loops) for b in (s.then, s.otherwise))
                return s._replace(then=then, otherwise=otherwise)
            case X.While() | X.Elect():
                return s._replace(body=self.body(s.body, loops))
            case X.Fill():
                return s._replace(source=self._value(s.source))
            case P.Transfer():
                for tile, slot in zip(s.tiles, self.blocks.slots[id(s)], strict=True):
                    self.tiles[tile] = self._last(slot, loops)
                return s._replace(body=self.body(s.body, loops))
            case _:
                return s

    def _last(self, slot: _Slot, loops: tuple[Loop, ...]) -> _Columns | None:
        """The loop variable here that the tile's last axis is a block of."""
        axes = self.blocks.axes(slot)
        place = axes[-1] if axes else None
        if place is None or place.loop >= len(loops):
            return None
        variables = _variables(loops[place.loop])
        if place.variable >= len(variables):
            return None
        name, axis = variables[place.variable]
        if place.part is None:
            return name, axis
        return P.Part(name, *place.part), axis._replace(size=axis.size // place.part[1])

    def _columns(self, x: P.Value) -> _Columns | None:
        match x:
            case P.Read():
                return self.tiles.get(x.tile)
            case P.Variable():
                return self.columns.get(x.name)
            case P.Cast():
                return self._columns(x.operand)
            case P.Apply():
                return next((c for o in x.operands if (c := self._columns(o)) is not None), None)
            case _:
                return None

    def _value(self, x: P.Value) -> P.Value:
        match x:
            case P.Cast() | P.Reshape() | P.Transpose():
                return x._replace(operand=self._value(x.operand))
            case P.Apply():
                return x._replace(operands=tuple(self._value(o) for o in x.operands))
            case P.Reduce():
                operand = self._value(x.operand)
                block = self._columns(operand)
                if block is None or not _ragged(block[1]):
                    return x._replace(operand=operand)
                return x._replace(operand=operand, block=block[0], extent=block[1].extent)
            case _:
                return x


def _shape(x: P.Value) -> tuple[int, ...] | None:
    return x.type.shape if isinstance(x.type, P.Regs) else None


def _ragged(axis: P.Axis) -> bool:
    """Whether a block of the axis may go beyond it."""
    return not isinstance(axis.extent, int) or axis.extent % axis.size != 0


def mask_reductions(roles: Sequence[P.Role]) -> list[P.Role]:
    """The roles, with a block at each reduction whose columns may go beyond their axis."""
    if not any(_reduces(role.body) for role in roles):
        return list(roles)
    blocks = _Blocks(roles)
    return [role._replace(body=_Role(blocks).body(role.body)) for role in roles]


def _reduces(body: P.Body) -> bool:
    return any(
        _has_reduce(s.value if isinstance(s, P.Set) else s.source)
        for s in _inside(body)
        if isinstance(s, P.Set | P.Move | X.Fill)
    )


def _has_reduce(x: object) -> bool:
    match x:
        case P.Reduce():
            return True
        case P.Cast() | P.Reshape() | P.Transpose():
            return _has_reduce(x.operand)
        case P.Apply():
            return any(_has_reduce(o) for o in x.operands)
        case _:
            return False
