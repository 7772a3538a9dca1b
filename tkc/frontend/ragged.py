"""R24: what is beyond an axis counts as nothing: reductions and products learn which blocks their tiles are of.

A role that gets a tile finds the block in its own loops: the roles at the ends of a pipe have the same items in the
same loops (R6), so the k-th get is of what the k-th put wrote, and the n-th loop round the one is the n-th round the
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
from tkc.frontend.scope import Scope
from tkc.frontend.several import Columns, Ends, Entry, Several, carried, columns, left, told
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.masks import Masks

Loop = P.Each | P.Blocks | X.Range


class _Place(NamedTuple):
    """Which variable of which loop round an item, counted from outside."""

    loop: int
    variable: int
    part: tuple[int, int] | None = None


_Known = tuple[Entry, ...]
"""Of a value in registers: which blocks its axes are; nothing where that is not known."""

_Parted = P.Each | P.Blocks | X.Range | X.While | P.Transfer | X.If
"""Statements that may run their bodies any number of times."""

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


def _sets(
    body: P.Body, loops: tuple[Loop, ...] = (), around: tuple[P.Transfer, ...] = ()
) -> Iterator[tuple[P.Set, tuple[Loop, ...], tuple[P.Transfer, ...]]]:
    """Each assignment, with the loops and the puts and gets round it."""
    for s in body:
        if isinstance(s, P.Set):
            yield s, loops, around
        here = (*loops, s) if isinstance(s, Loop) else loops
        blocks = (*around, s) if isinstance(s, P.Transfer) else around
        for inner in P.bodies(s):
            yield from _sets(inner, here, blocks)


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
        self.sets: dict[int, list[tuple[P.Set, tuple[Loop, ...], tuple[P.Transfer, ...]]]] = {}
        """The assignments of the role that a put or get stands in, by its identity."""
        for role in roles:
            sets = list(_sets(role.body))
            for item in _items(role.body):
                self._number(role, item)
                self.sets[id(item.block)] = sets
        self.known: dict[_Slot, Axes] = {}
        self.following: set[str] = set()

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
                    around = (*item.outer, item.block)
                    yield self._computed(s.source, around, self.sets[id(item.block)], item.loops)
            elif isinstance(s, P.Multiply) and s.d == tile:
                yield self._product(item, s)

    def copied(self, slot: _Slot) -> bool:
        """Whether the copy engine fills a slot, with 0 beyond every axis."""
        found: list[bool] = []
        for producer in slot.pipe.producers:
            for item, first in self.puts.get((producer, slot.pipe.name), []):
                tile = item.block.tiles[first + slot.tile]
                for s in _inside(item.block.body):
                    if isinstance(s, P.Move) and s.destination == tile:
                        found.append(isinstance(s.source, P.Slice))
                    elif isinstance(s, P.Multiply) and s.d == tile:
                        found.append(False)
        return bool(found) and all(found)

    def _computed(
        self,
        x: object,
        around: tuple[P.Transfer, ...],
        sets: list[tuple[P.Set, tuple[Loop, ...], tuple[P.Transfer, ...]]],
        loops: tuple[Loop, ...],
    ) -> Axes:
        """Of a tile that is made of others, element by element, what those are whose gets stand round it."""
        match x:
            case P.Read():
                for block in reversed(around):
                    slots = zip(block.tiles, self.slots[id(block)], strict=True)
                    found = next((slot for tile, slot in slots if tile == x.tile), None)
                    if found is not None:
                        return self.axes(found)
                return ()
            case P.Cast():
                return self._computed(x.operand, around, sets, loops)
            case P.Transpose():
                return self._computed(x.operand, around, sets, loops)[::-1]
            case P.Apply():
                whole = [o for o in x.operands if o.type == x.type or _shape(o) == _shape(x)]
                every = (self._computed(o, around, sets, loops) for o in whole)
                return next((axes for axes in every if axes), ())
            case P.Variable():
                return self._assigned(x.name, sets, loops)
            case _:
                return ()

    def _assigned(
        self,
        name: str,
        sets: list[tuple[P.Set, tuple[Loop, ...], tuple[P.Transfer, ...]]],
        loops: tuple[Loop, ...],
    ) -> Axes:
        """Of a variable, where all that is assigned to it is of the same blocks; a number fits all."""
        if name in self.following:
            return ()
        self.following.add(name)
        found: list[Axes] = []
        for s, inside, around in sets:
            if s.name == name and not isinstance(s.value, P.Fill | P.Constant):
                axes = self._computed(s.value, around, sets, inside)
                same = [p is not None and loops[: p.loop + 1] == inside[: p.loop + 1] for p in axes]
                found.append(tuple(p if ok else None for p, ok in zip(axes, same, strict=True)))
        self.following.discard(name)
        return found[0] if found and all(a == found[0] for a in found) else ()

    def _product(self, item: _Item, s: P.Multiply) -> Axes:
        """Rows of a, columns of b, in the loops round the put of the accumulator."""
        made: list[_Place | None] = []
        for name, transposed, axis in ((s.a, s.transpose_a, 0), (s.b, s.transpose_b, 1)):
            place: _Place | None = None
            around = (*item.outer, item.block)
            inside = (inner.block for inner in _items(item.block.body, item.loops))
            for block in (*around, *inside):
                slots = zip(block.tiles, self.slots[id(block)], strict=True)
                axes = next((self.axes(slot) for tile, slot in slots if tile == name), ())
                if len(axes) == 2:
                    place = axes[1 - axis if transposed else axis]
            made.append(place if place is not None and place.loop < len(item.loops) else None)
        return tuple(made)

    def products(self) -> Iterator[tuple[P.Multiply, dict[str, str]]]:
        """Each product in a put or get, and what the tiles that it names are declared as."""
        for items in self.puts.values():
            for item, _ in items:
                names: dict[str, str] = {}
                for block in (*item.outer, item.block):
                    slots = zip(block.tiles, self.slots[id(block)], strict=True)
                    names |= {tile: slot.pipe.tiles[slot.tile].name for tile, slot in slots}
                yield from (
                    (s, names) for s in _inside(item.block.body) if isinstance(s, P.Multiply)
                )


class _Role:
    """Rebuilds a role's body: reductions know the blocks of their columns, and masks are where they count.

    `axes` is what the rows and the columns of each variable are of.
    """

    def __init__(self, blocks: _Blocks, masks: Masks, summed: set[tuple[str, int]]) -> None:
        self.blocks = blocks
        self.masks = masks
        self.summed = summed
        self.tiles: dict[str, _Known] = {}
        self.declared: dict[str, str] = {}
        self.axes: dict[str, _Known] = {}
        self.ends = Ends()
        self.again = False
        """Whether a loop is walked a second time; loops inside are not walked twice in each of both."""
        self.told: set[Span] = set()
        """Where a reduction of several blocks has been reported."""
        self.loops: tuple[Loop, ...] = ()
        self.plain: set[str] = set()
        """Variables whose elements are as they were read."""

    def body(self, body: P.Body, loops: tuple[Loop, ...] = ()) -> P.Body:
        made: list[P.Statement] = []
        for s in body:
            if isinstance(s, P.Mask):
                self.masks.add(s)
            else:
                made.append(self._statement(s, loops))
        return tuple(made)

    def _statement(self, s: P.Statement, loops: tuple[Loop, ...]) -> P.Statement:
        self.loops = loops
        match s:
            case P.Set():
                value = self._value(s.value)
                self.axes[s.name] = self._axes(value)
                self.ends.set(s.name, value, self.axes[s.name])
                (self.plain.discard if self._computes(value) else self.plain.add)(s.name)
                self.masks.of[s.name] = self.masks.tests(value)
                return s._replace(value=value)
            case P.Move() if not isinstance(s.source, P.Slice | str):
                target = s.destination
                return s._replace(source=self._written(s.source, target))
            case X.Fill():
                return s._replace(source=self._written(s.source, s.destination.tile.name))
            case P.Each() | P.Blocks() | X.Range():
                return s._replace(body=self._way(s, s.body, (*loops, s), "loop"))
            case X.If():
                then, otherwise = (
                    self._way(s, b, loops, "condition") for b in (s.then, s.otherwise)
                )
                return s._replace(then=then, otherwise=otherwise)
            case X.While():
                return s._replace(body=self._way(s, s.body, loops, "loop"))
            case X.Elect():
                return s._replace(body=self.body(s.body, loops))
            case P.Transfer():
                slots = self.blocks.slots[id(s)]
                for tile, slot in zip(s.tiles, slots, strict=True):
                    self.tiles[tile] = self._of_slot(slot, loops)
                    self.ends.copied[tile] = self.blocks.copied(slot)
                    self.declared[tile] = slot.pipe.tiles[slot.tile].name
                if s.turn is None:
                    return s._replace(body=self.body(s.body, loops))
                return s._replace(body=self._way(s, s.body, loops, "get"))
            case _:
                return s

    def _way(self, s: _Parted, body: P.Body, loops: tuple[Loop, ...], what: str) -> P.Body:
        before = dict(self.masks.of)
        names = P.set_in([body])
        turns = isinstance(s, Loop | X.While)
        depth = len(loops) - isinstance(s, Loop)
        self.ends.forget(names)
        if turns:
            self.axes |= {n: carried(self.axes[n], depth) for n in names & self.axes.keys()}
        known = names & self.axes.keys()
        made = self.body(body, loops)
        around = {n: self._around(s, n, loops) for n in known} if turns and not self.again else {}
        if any(isinstance(a, Several) for axes in around.values() for a in axes):
            # what a turn leaves, the next one may reduce
            self.again = True
            self.masks.of = dict(before)
            self.axes |= {n: carried(axes, depth) for n, axes in around.items()}
            self.ends.forget(names)
            made = self.body(body, loops)
            self.again = False
        self.masks.keep(s, before, what)
        self.ends.forget(names)
        if turns:
            ended = [name for loop in loops[depth:] for name, _ in _variables(loop)]
            self.axes |= {n: left(self.axes[n], depth, ended) for n in names & self.axes.keys()}
        return made

    def _around(self, s: _Parted, name: str, loops: tuple[Loop, ...]) -> _Known:
        """What a variable's axes are as the next turn of a loop begins: items follow in any order, blocks in theirs."""
        ended = s.variables if isinstance(s, P.Each) else ()
        return left(self.axes[name], len(loops), ended)

    def _written(self, x: P.Value, target: P.Slice | str) -> P.Value:
        """A value that goes to a tile or a tensor: 0 where it is masked, and where a product sums beyond an axis."""
        value = self._value(x)
        tests = self.masks.tests(value)
        if isinstance(target, str) and self._computes(value):
            for axis, entry in enumerate(self._axes(value)):
                known = columns(entry)
                if known is not None and (self.declared.get(target, target), axis) in self.summed:
                    tests = (*tests, *_beyond(known, value.span))
        return self.masks.filled(value, 0.0, self._named, tests)

    def _computes(self, x: P.Value) -> bool:
        """Whether elements may be other than what was read, so that a 0 need not stay one."""
        match x:
            case P.Read() | X.ReadPlace():
                return False
            case P.Cast() | P.Reshape() | P.Transpose():
                return self._computes(x.operand)
            case P.Variable():
                return x.name not in self.plain
            case _:
                return True

    def _of_slot(self, slot: _Slot, loops: tuple[Loop, ...]) -> _Known:
        """The loop variables here that the tile's axes are blocks of."""
        places = self.blocks.axes(slot)
        return tuple(self._variable(place, loops) for place in places)

    def _variable(self, place: _Place | None, loops: tuple[Loop, ...]) -> Columns | None:
        if place is None or place.loop >= len(loops):
            return None
        variables = _variables(loops[place.loop])
        if place.variable >= len(variables):
            return None
        name, axis = variables[place.variable]
        if place.part is None:
            return name, axis
        return P.Part(name, *place.part), axis._replace(size=axis.size // place.part[1])

    def _axes(self, x: P.Value) -> _Known:
        match x:
            case P.Read():
                return self.tiles.get(x.tile, ())
            case P.Variable():
                return self.axes.get(x.name, ())
            case P.Cast() | P.Where() | P.Keep():
                return self._axes(x.operand)
            case P.Transpose():
                return self._axes(x.operand)[::-1]
            case P.Reduce():
                axes = self._axes(x.operand)
                return (*axes[:1], None) if x.type.shape[1] == 1 else (None, *axes[1:])
            case P.Apply():
                every = [(o, (*self._axes(o), None, None)) for o in x.operands if _shape(o)]
                depths = {v: d for d, loop in enumerate(self.loops) for v, _ in _variables(loop)}
                made: list[Entry] = []
                for i, extent in enumerate(_shape(x) or ()):
                    along = [(o, a[i]) for o, a in every if (_shape(o) or ())[i] == extent != 1]
                    made.append(self.ends.combined(x, i, along, depths) if along else None)
                return tuple(made)
            case _:
                return ()

    def _named(self, x: P.Value) -> tuple[str | P.Part | None, ...]:
        blocks = (columns(a) for a in self._axes(x))
        return tuple(b[0] if b is not None else None for b in blocks)

    def _counted(self, x: P.Reduce | P.Total, axes: _Known, axis: int) -> Columns | None:
        """The block of an axis that is reduced; reports one of several blocks of which not all elements count."""
        entry = axes[axis] if axis < len(axes) else None
        if isinstance(entry, Several) and entry.kind != x.kind and _ragged(entry.axis):
            if x.span not in self.told:
                self.masks.scope.error("TK110", told(entry, x.kind), x.span)
            self.told.add(x.span)
        return columns(entry)

    def _value(self, x: P.Value) -> P.Value:
        match x:
            case P.Cast() | P.Reshape() | P.Transpose():
                return x._replace(operand=self._value(x.operand))
            case P.Apply():
                return x._replace(operands=tuple(self._value(o) for o in x.operands))
            case P.Keep() if x.positions:
                return self.masks.positions(x, self._named)
            case P.Keep():
                return self.masks.filled(self._value(x.operand), x.fill, self._named, x.tests)
            case P.Reduce() if x.type.shape[0] == 1:
                operand = self._value(x.operand)
                axes, tests = self._axes(operand), self.masks.tests(operand)
                rows = self._counted(x, axes, 0)
                if rows is not None:
                    tests = (*tests, *_beyond(rows, x.span))
                return x._replace(operand=self.masks.neutral(operand, x.kind, self._named, tests))
            case P.Total():
                operand = self._value(x.operand)
                axes, tests = self._axes(operand), self.masks.tests(operand)
                rows = self._counted(x, axes, 0)
                if rows is not None:
                    tests = (*tests, *_beyond(rows, x.span))
                return x._replace(operand=self.masks.neutral(operand, x.kind, self._named, tests))
            case P.Reduce():
                operand = self._value(x.operand)
                axes, tests = self._axes(operand), self.masks.tests(operand)
                block = self._counted(x, axes, 1)
                operand = self.masks.neutral(operand, x.kind, self._named, tests)
                if block is None or not _ragged(block[1]):
                    return x._replace(operand=operand)
                return x._replace(operand=operand, block=block[0], extent=block[1].extent)
            case _:
                return x


def _shape(x: P.Value) -> tuple[int, ...] | None:
    return x.type.shape if isinstance(x.type, P.Regs) else None


def _beyond(known: Columns, span: Span) -> tuple[P.Test, ...]:
    """The condition that elements of a block lie in its axis, where they may lie beyond it."""
    index, of = known
    if not _ragged(of):
        return ()
    return (P.Test(((index, of.size, 1),), X.Number(of.extent, span), span),)


def _ragged(axis: P.Axis) -> bool:
    """Whether a block of the axis may go beyond it."""
    return not isinstance(axis.extent, int) or axis.extent % axis.size != 0


def mask_values(scope: Scope, roles: Sequence[P.Role]) -> list[P.Role]:
    """The roles, with a block at each reduction whose columns may go beyond their axis, and masks where they count."""
    if not any(_needs(role.body) for role in roles):
        return list(roles)
    from tkc.frontend.masks import Masks, contracted

    blocks = _Blocks(roles)
    summed = contracted(blocks.products())
    return [
        role._replace(body=_Role(blocks, Masks(scope, role), summed).body(role.body))
        for role in roles
    ]


def _needs(body: P.Body) -> bool:
    """Whether a body has a mask, a reduction, or registers that it writes to a tile."""
    return any(
        isinstance(s, P.Mask)
        or (
            isinstance(s, P.Move)
            and isinstance(s.destination, str)
            and not isinstance(s.source, P.Slice | str)
        )
        or (
            isinstance(s, P.Set | P.Move | X.Fill)
            and _counts(s.value if isinstance(s, P.Set) else s.source)
        )
        for s in _inside(body)
    )


def _counts(x: object) -> bool:
    """Whether it matters which blocks the axes of a value are."""
    match x:
        case P.Reduce() | P.Total() | P.Keep():
            return True
        case P.Cast() | P.Reshape() | P.Transpose():
            return _counts(x.operand)
        case P.Apply():
            return any(_counts(o) for o in x.operands)
        case _:
            return False
