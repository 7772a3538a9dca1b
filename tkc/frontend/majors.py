"""R20: tensors whose contiguous axis is another than the last, `global[bf16, M, K, major = 0]`.

A program means the same whatever axis is contiguous, so nothing before this knows of it. Here such tensors get the
order of their axes in memory, and what follows from it: slices of them lie the other way round, and so do the shared
tiles that are copied from or to them; products take those with the other transposition, and copies through registers
turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
import tkc.frontend.syntax as S
from tkc.frontend.program import Regs
from tkc.frontend.scope import Scope, plural
from tkc.frontend.syntax import Span

if TYPE_CHECKING:
    from tkc.frontend.values import Values


def order_of(rank: int, major: int) -> tuple[int, ...]:
    """A tensor's axes as they lie in memory, the contiguous one last."""
    return (*(axis for axis in range(rank) if axis != major), major)


def major_of(values: Values, tensor: P.Tensor, type_: S.Index) -> int | None:
    """What `major = 0` in a tensor's type says: the contiguous axis; None where it is the last."""
    said = [a.value for a in type_.arguments if a.name is not None and a.name.text == "major"]
    if not said:
        return None
    name, rank = tensor.name, len(tensor.dims)
    if len(said) > 1:
        values.fail("TK102", "a type says `major` once", said[1].span)
    axis = values.number(said[0], "the contiguous axis", least=0)
    if axis >= rank:
        told = f"`major = {axis}`: {name} has {plural(rank, 'axis', 'axes')}, counted from 0"
        values.fail("TK104", told, said[0].span)
    if tensor.scale is not None and axis != rank - 1:
        told = f"block scales lie along the last axis of {name}, which then is the contiguous one"
        values.fail("TK106", told, said[0].span)
    return None if axis == rank - 1 else axis


def in_memory_order(scope: Scope, kernel: P.Kernel) -> P.Kernel:
    """The kernel with every tensor, slice and tile as it lies in memory; reports TK110 what has no words yet."""
    tensors = {
        t.name: t for t in kernel.arguments if isinstance(t, P.Tensor) and t.major is not None
    }
    if not tensors:
        return kernel
    turn = _Turn(scope, tensors)
    for role in kernel.roles:
        turn.find(role.body, {})
    return kernel._replace(
        arguments=tuple(_turned_tensor(a) for a in kernel.arguments),
        declarations=tuple(turn.declaration(d) for d in kernel.declarations),
        roles=tuple(r._replace(body=turn.body(r.body, {})) for r in kernel.roles),
    )


def _turned_tensor(a: P.Tensor | P.Given) -> P.Tensor | P.Given:
    if not isinstance(a, P.Tensor) or a.major is None:
        return a
    return a._replace(dims=tuple(a.dims[axis] for axis in order_of(len(a.dims), a.major)))


def _back(type: Regs) -> Regs:
    return Regs(type.dtype, type.shape[::-1])


Names = Mapping[str, Any]
"""In a role: names of slots to the tiles that they are of; loop variables to whether they are integers."""


class _Turn:
    def __init__(self, scope: Scope, tensors: Mapping[str, P.Tensor]) -> None:
        self.scope = scope
        self.tensors = tensors
        self.turned: dict[str, tuple[bool, P.Slice]] = {}
        """Tiles by name: whether they lie the other way round, and the slice that first said so."""

    # which tiles lie the other way round

    def find(self, body: P.Body, names: Names) -> None:
        for s in body:
            if isinstance(s, P.Move):
                for tile, slice in ((s.destination, s.source), (s.source, s.destination)):
                    if isinstance(tile, str) and isinstance(slice, P.Slice):
                        self._says(names.get(tile, tile), slice, names, s.span)
            inner = self._inside(s, names)
            for b in P.bodies(s):
                self.find(b, inner)

    def _says(self, tile: str, slice: P.Slice, names: Names, span: Span) -> None:
        turned = self._reversed(slice, names)
        before, first = self.turned.setdefault(tile, (turned, slice))
        if before != turned:
            self.scope.error(
                "TK110",
                f"not supported yet: tile {tile} is copied from or to {first.tensor} and {slice.tensor}, whose "
                "contiguous axes lie along different axes of it: a tile for each fits",
                span,
            )

    def _inside(self, s: Any, names: Names) -> Names:
        if isinstance(s, P.Transfer):
            tiles = [tile.name for pipe in s.pipes for tile in pipe.tiles]
            return {**names, **dict(zip(s.tiles, tiles, strict=True))}
        if isinstance(s, P.Each):
            single = [axis.single for axis in s.schedule.axes]
            return {**names, **dict(zip(s.variables, single, strict=True))}
        if isinstance(s, P.Blocks):
            return {**names, s.variable: s.axis.single}
        return names

    def _reversed(self, slice: P.Slice, names: Names) -> bool:
        """Whether a slice lies the other way round in memory than its axes are named."""
        tensor = self.tensors.get(slice.tensor)
        if tensor is None or len(slice.shape) < 2:
            return False
        assert tensor.major is not None
        kept = [
            axis
            for axis, index in enumerate(slice.indices)
            if isinstance(index, P.Part | X.Part)
            or (isinstance(index, str) and names.get(index) is False)
        ]
        if len(slice.shape) != 2 or tensor.major not in kept:
            told = (
                f"a slice of {tensor.name} of {len(slice.shape)} axes"
                if tensor.major in kept
                else f"a slice of {tensor.name} without axis {tensor.major}"
            )
            self.scope.later(f"{told}, which is contiguous (`major = {tensor.major}`)", slice.span)
            return False
        return kept[0] == tensor.major

    # statements

    def declaration(self, d: Any) -> Any:
        if isinstance(d, P.Pipe):
            return d._replace(tiles=tuple(self.declaration(tile) for tile in d.tiles))
        if isinstance(d, P.Tile) and self._lies_turned(d.name, {}):
            return d._replace(shape=d.shape[::-1])
        return d

    def _lies_turned(self, tile: str, names: Names) -> bool:
        return self.turned.get(names.get(tile, tile), (False, None))[0]

    def body(self, body: P.Body, names: Names) -> P.Body:
        return tuple(self._statement(s, names) for s in body)

    def _statement(self, s: Any, names: Names) -> Any:
        inner = self._inside(s, names)
        match s:
            case P.Move():
                return self._move(s, names)
            case P.Multiply():
                a, b = (self._lies_turned(tile, names) for tile in (s.a, s.b))
                return s._replace(
                    transpose_a=s.transpose_a != a,
                    transpose_b=s.transpose_b != b,
                    spelled=self._plain(s.spelled, names),
                )
            case P.Transfer():
                pipes = tuple(self.declaration(pipe) for pipe in s.pipes)
                return s._replace(pipes=pipes, body=self.body(s.body, inner))
            case X.Load() | X.Store() | X.Prefetch():
                slice = s.destination if isinstance(s, X.Store) else s.source
                if len(slice.shape) > 1 and slice.tensor in self.tensors:
                    told = f"a copy that is spelled out, of a slice of {slice.tensor}, which has `major = ...`"
                    self.scope.later(told, s.span)
                return self._plain(s, names)
            case _ if P.bodies(s):
                fields = s._asdict()
                for name in ("body", "then", "otherwise"):
                    if name in fields:
                        fields[name] = self.body(fields[name], inner)
                rest = {n: v for n, v in fields.items() if n not in ("body", "then", "otherwise")}
                return s._replace(
                    **{**fields, **{n: self._plain(v, names) for n, v in rest.items()}}
                )
            case _:
                return self._plain(s, names)

    def _move(self, s: P.Move, names: Names) -> P.Move:
        """A copy; one of registers turns where its ends lie differently."""
        target, source = s.destination, s.source
        if isinstance(target, P.Slice):
            turns = self._reversed(target, names)
            target = self._slice(target, reverse=turns)
        else:
            turns = self._lies_turned(target, names)
        if isinstance(source, P.Slice):
            return s._replace(source=self._slice(source, reverse=self._reversed(source, names)))
        if isinstance(source, str):
            return s._replace(destination=target)
        made = self._flipped(source, names) if turns else self._straight(source, names)
        return s._replace(destination=target, source=made)

    def _slice(self, slice: P.Slice, *, reverse: bool = False) -> P.Slice:
        tensor = self.tensors.get(slice.tensor)
        if tensor is None:
            return slice
        assert tensor.major is not None
        order = order_of(len(tensor.dims), tensor.major)
        shape = slice.shape[::-1] if reverse else slice.shape
        return slice._replace(indices=tuple(slice.indices[axis] for axis in order), shape=shape)

    # values

    def _flipped(self, x: Any, names: Names) -> Any:
        """A value with rows and columns exchanged."""
        match x:
            case P.Transpose():
                return self._straight(x.operand, names)
            case P.Cast() if self._is_read(x, names):
                return x._replace(operand=self._flipped(x.operand, names), type=_back(x.type))
            case P.Read() if self._is_read(x, names):
                return x._replace(type=_back(x.type))
            case _:
                return P.Transpose(self._straight(x, names), _back(x.type), x.span)

    def _straight(self, x: Any, names: Names) -> Any:
        """A value as the program says it: what is read of a tile that lies the other way round is turned."""
        if self._is_read(x, names):
            return P.Transpose(self._flipped(x, names), x.type, x.span)
        if isinstance(x, P.Transpose):
            return self._flipped(x.operand, names)
        return self._plain(x, names)

    def _is_read(self, x: Any, names: Names) -> bool:
        while isinstance(x, P.Cast):
            x = x.operand
        return isinstance(x, P.Read) and self._lies_turned(x.tile, names)

    def _plain(self, x: Any, names: Names) -> Any:
        """Any tuple of the program that holds no statements; TK110 where it reads a tile that lies the other way."""
        if isinstance(x, P.Read) and self._lies_turned(x.tile, names):
            tensor = self.turned[names.get(x.tile, x.tile)][1].tensor
            major = self.tensors[tensor].major
            self.scope.later(
                f"arithmetic on `{x.tile}`, which lies as {tensor} does, whose axis {major} is contiguous (`major = "
                f"{major}`): `u <- read({x.tile})` into a tile of its own turns it",
                x.span,
            )
            return x
        if isinstance(x, P.Slice):
            return self._slice(x)
        if not isinstance(x, tuple) or isinstance(x, Span | P.Tile | X.Barrier):
            return x
        made: Sequence[Any] = [self._plain(part, names) for part in x]
        if all(a is b for a, b in zip(made, x, strict=True)):
            return x
        return type(x)(*made) if hasattr(x, "_fields") else tuple(made)
