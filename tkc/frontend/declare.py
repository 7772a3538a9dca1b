"""What a kernel declares: arguments, params, launch clauses, schedules, tiles, pipes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import tkc.frontend.explicit_syntax as E
import tkc.frontend.syntax as S
from tkc.diagnostics import nearest
from tkc.frontend import lists, scaling, schedules
from tkc.frontend.clauses import Clauses
from tkc.frontend.conditions import contract
from tkc.frontend.describe import describe
from tkc.frontend.elements import TYPES as NUMBERS
from tkc.frontend.explicit_program import Barrier
from tkc.frontend.program import Axis, Given, Maps, Pipe, Require, Scalar, Schedule, Tensor, Tile
from tkc.frontend.scope import FUNCTIONS, LATER, Failed, Int, Scope, Unknown, listed, plural
from tkc.frontend.sizes import LIMIT, Size, show
from tkc.frontend.syntax import Span, Word
from tkc.frontend.values import Values
from tkc.ir.tile.types import DTYPES, OPERAND

ACCUMULATORS = ("f32", "f16", "i32")
SCALARS = ("f32", "i32", "u32", "i64", "bf16", "f16")
"""Dtypes of arguments that are numbers; in the kernel those of 16 bits are f32."""

WIDEST = dict.fromkeys(("f64", "fp64", "float64", "double"), "f32") | {"u64": "i64"}
"""Dtypes that there are not, and the widest one of their kind."""
MAX_RANK = 5
MAX_ARRIVALS = 2**20 - 1
"""What an mbarrier counts to (PTX 9.7.15.16)."""


class Declarations:
    """Reads a kernel's header and declarations into a scope; statements of other kinds are left to the caller.

    `whole`: all pipes and roles were understood, so that the ends of pipes can be compared.
    """

    def __init__(self, scope: Scope, kernel: S.Kernel, overrides: Mapping[str, int]) -> None:
        self.scope = scope
        self.values = Values(scope)
        self.kernel = kernel
        self.overrides = overrides
        self.roles = {s.name.text: s.name for s in kernel.body if isinstance(s, S.Role)}
        self.params: dict[str, int] = {}
        self.clauses = Clauses(scope, self.values)
        self.arguments: list[Tensor | Given] = []
        self.made: list[Schedule | Tile | Pipe | Barrier | Maps] = []
        self.requires: list[Require] = []
        self.edited: dict[str, Maps] = {}
        """Lists whose tensor maps the kernel edits."""
        self.maps_said: set[str] = set()
        """Lists that a `maps` names, be it right or wrong."""
        self.ordered: dict[str, Span] = {}
        """Where schedules say `order = longest_first`."""
        self.whole = True
        self.shares = False
        """Whether a tile rides in several pipes, or lies in the place of another."""
        for s in kernel.body:
            match s:
                case S.Param():
                    scope.coming |= {b.name.text: b.name.span for b in s.bindings}
                case S.Declare():
                    scope.coming |= {r.name.text: r.name.span for r in s.names}
                case E.Barrier():
                    scope.coming[s.name.text] = s.name.span
                case S.Schedule():
                    scope.coming[s.name.text] = s.name.span
                case S.Pipe():
                    scope.coming[s.name.name.text] = s.name.name.span
                case _:
                    continue
        self.by_kind: dict[type, Any] = {
            S.Launch: self.clauses.read,
            S.Schedule: self._schedule,
            S.Declare: self._tiles,
            S.Pipe: self._pipe,
            S.Maps: lambda s: lists.maps(self, s),
            S.Assertion: self._assertion,
            E.Barrier: self._barrier,
        }

    def read(self) -> None:
        """Params first, so that an argument's axis may be one; then arguments; then the rest in order."""
        for statement in self.kernel.body:
            if isinstance(statement, S.Param):
                for binding in statement.bindings:
                    self._param(binding)
        for parameter in self.kernel.parameters:
            self._argument(parameter)
        for statement in self.kernel.body:
            declare = self.by_kind.get(type(statement))
            if declare is not None:
                try:
                    declare(statement)
                except Failed:
                    self._give_up(statement)
        for role in self.kernel.body:
            if isinstance(role, S.Role):
                self.whole = self.scope.define(role.name, "role", role) and self.whole
        lists.check_maps(self)
        self.scope.broken = not self.whole
        self.made = [self.clauses.place(d) if isinstance(d, Schedule) else d for d in self.made]
        self.made += self.edited.values()

    def _give_up(self, statement: Any) -> None:
        """The names of a wrong declaration exist, so that their uses are not reported as well."""
        self.whole = False
        words = (
            [r.name for r in statement.names] if isinstance(statement, S.Declare)
            else [statement.name.name] if isinstance(statement, S.Pipe)
            else [statement.name] if isinstance(statement, S.Schedule | E.Barrier)
            else []
        )  # fmt: skip
        for word in words:
            if word.text not in self.scope.names:
                self.scope.define(word, "name", Unknown(word.span))

    # params

    def _param(self, binding: S.Binding) -> None:
        name, span = binding.name.text, binding.name.span
        value: Any
        try:
            if name in self.overrides:
                value = self.overrides[name]
                if isinstance(value, bool) or not isinstance(value, int):
                    self._fail(
                        "TK111", f"param {name} is set to {value!r}, expected an integer", span
                    )
            else:
                if not isinstance(binding.value, S.Integer):
                    self._known(name, binding.value)
                value = self.values.size(binding.value, f"param {name}")
                if not isinstance(value, int):
                    self._fail(
                        "TK111",
                        f"param {name} is {show(value)}, which only the launch knows",
                        binding.value.span,
                    )
            if not 1 <= value <= LIMIT:
                where = span if name in self.overrides else binding.value.span
                how = "is overridden by" if name in self.overrides else "is"
                self._fail("TK111", f"param {name} {how} {value}, expected 1 to {LIMIT}", where)
        except Failed:
            self.scope.define(binding.name, "param", Unknown(span))
            return
        if self.scope.define(binding.name, "param", Int(value, span)):
            self.params[name] = value

    def _known(self, param: str, value: S.Expression) -> None:
        """A param is made of no extents: the launch brings these."""
        from tkc.frontend.uncalled import names_of  # few params are made of others

        extents = {n.text for p in self.kernel.parameters for n in _names_in(p.type)}
        for name in names_of(value):
            known = name.text in self.scope.names or name.text in self.scope.coming
            if name.text in extents and name.text not in DTYPES and not known:
                told = f"param {param} is fixed at compile time, and only the launch knows `{name.text}`"
                self._fail("TK111", told, name.span)

    # arguments

    def _argument(self, parameter: S.Parameter) -> None:
        word, type_ = parameter.name, parameter.type
        try:
            if isinstance(type_, S.Name):
                if parameter.const is not None:
                    told = f"`const` is of tensors; nothing writes a number like {word.text}"
                    self._fail("TK106", told, parameter.const.span)
                self._scalar(word, type_)
            else:
                self._tensor(word, type_, parameter.const is not None)
        except Failed:
            if word.text not in self.scope.names:
                self.scope.define(word, "argument", Unknown(word.span))
            for name in _names_in(type_):
                if name.text not in self.scope.names and name.text.isupper():
                    self.scope.define(Word(name.text, name.span), "size", Int(name.text, name.span))

    def _scalar(self, word: Word, type_: S.Name) -> None:
        if type_.text not in SCALARS:
            if type_.text in DTYPES:
                what = f"scalar arguments of {type_.text}: those of {listed(SCALARS)} are"
                self._later(what, type_.span)
            near = nearest(type_.text, ["global", *DTYPES])
            hint = (
                f"; did you mean `{near}`"
                if near
                else "; an argument is `global[dtype, axes]`, f32 or i32"
            )
            self._fail("TK102", f"no type `{type_.text}`{hint}", type_.span)
        given = Given(word.text, Scalar(type_.text), word.span)
        if self.scope.define(
            word, "argument", Int(word.text, word.span) if type_.text == "i32" else given
        ):
            self.arguments.append(given)

    def _tensor(self, word: Word, type_: S.Expression, const: bool) -> None:
        listed = lists.parts(self, type_)
        count, type_ = ((), type_) if listed is None else ((listed[0],), listed[1])
        dtype, axes, scale = self._shaped(type_, "global", "`A: global[bf16, M, K]`, f32 or i32")
        if count and not axes:
            self._later("a list of numbers", type_.span)
        if scale is not None and len(axes) < 2:
            self._fail("TK106", "a tensor with block scales has two axes or more", type_.span)
        axes = [*count, *axes]
        if not axes and dtype not in NUMBERS:
            what = f"a tensor of {dtype} without axes: one of {', '.join(NUMBERS)} is a number"
            self._later(what, type_.span)
        if len(axes) > MAX_RANK:
            self._later(f"a tensor of {len(axes)} axes: it has up to {MAX_RANK}", type_.span)
        dims: list[int | str] = []
        for axis in axes:
            if count and axis is not count[0]:
                symbol = lists.counted(self.values, axis)
                if symbol is not None:
                    dims.append(symbol)
                    continue
            if isinstance(axis, S.Name) and axis.text not in self.scope.names:
                self.scope.define(Word(axis.text, axis.span), "size", Int(axis.text, axis.span))
                if axis.text not in self.scope.names:
                    raise Failed
                dims.append(axis.text)
                continue
            size = self.values.size(axis, "an axis of a tensor")
            if isinstance(size, tuple) or (
                isinstance(size, str) and self.scope.names[size].what != "size"
            ):
                self._later(
                    f"an axis of extent {show(size)}: an axis has a name, or a number at compile time",
                    axis.span,
                )
            if isinstance(size, int) and size < 1:
                self._fail(
                    "TK104",
                    f"an axis of {word.text} has the extent {size}, expected at least 1",
                    axis.span,
                )
            dims.append(size)
        tensor = Tensor(word.text, dtype, tuple(dims), word.span, scale, const, listed is not None)
        assert isinstance(type_, S.Index)
        if any(a.name is not None and a.name.text == "major" for a in type_.arguments):
            from tkc.frontend.majors import major_of

            if tensor.listed:
                self._later("`major` in a list", type_.span)
            tensor = tensor._replace(major=major_of(self.values, tensor, type_))
        if tensor.listed:
            lists.check(self, tensor)
        if self.scope.define(word, "tensor", tensor):
            self.arguments.append(tensor)

    def _shaped(
        self, type_: S.Expression, head: str, example: str
    ) -> tuple[str, list[S.Expression], scaling.Scale | None]:
        """dtype, axes and block scales of `head[dtype, axes, scale = ...]`."""
        base = (
            type_.base
            if isinstance(type_, S.Index)
            else type_.function
            if isinstance(type_, S.Call)
            else None
        )
        name = base.text if isinstance(base, S.Name) else ""
        if name == "vector" and head == "tile":
            head = name
        if isinstance(type_, S.Call) and name == head:
            self._fail("TK106", f"a type is written in square brackets: `{head}[...]`", type_.span)
        if name == "list":
            self._later("a list of lists" if head == "global" else "a list here", type_.span)
        if not isinstance(type_, S.Index) or name != head:
            near = nearest(name, [head]) if name else None
            hint = f"; did you mean `{near}`" if near else ""
            self._fail("TK106", f"expected {example}{hint}", type_.span)
        first, *axes = [a.value for a in type_.arguments if a.name is None] or [type_]
        dtype = first.text if isinstance(first, S.Name) else ""
        if dtype not in DTYPES:
            near = WIDEST.get(dtype) or (nearest(dtype, list(DTYPES)) if dtype else None)
            known = f"; did you mean `{near}`" if near else f"; dtypes are {listed(DTYPES)}"
            self._fail("TK105", f"`{head}[...]` begins with a dtype{known}", first.span)
        scale = scaling.scale_of(self.values, type_, dtype)
        if DTYPES[dtype].bits < 8 and scale is None:
            self._later(
                f"{dtype}, whose elements are smaller than a byte, without block scales", first.span
            )
        return dtype, axes, scale

    # declarations

    def axis(self, e: S.Expression) -> Axis:
        """`blocks(M, BM)`, or an integer expression, whose elements are the items."""
        call = e.function.text if isinstance(e, S.Call) and isinstance(e.function, S.Name) else ""
        if call != "blocks":
            near = nearest(call, ["blocks"]) if call else None
            if call and call not in (*LATER, *FUNCTIONS):
                hint = f"; did you mean `{near}`" if near else "; an axis is `blocks(extent, size)`"
                self._fail("TK102", f"no `{call}(...)` to run over{hint}", e.span)
            if call in LATER:
                self._later(f"an axis of `{call}(...)`", e.span)
            extent = self.values.size(e, "an axis that is not `blocks(extent, size)`")
            self._not_negative(extent, e)
            return Axis(extent, 1, True)
        assert isinstance(e, S.Call)
        for argument in e.arguments:
            if argument.name is not None:
                self._fail(
                    "TK102", f"`blocks` has no option `{argument.name.text}`", argument.name.span
                )
        if len(e.arguments) != 2:
            self._fail(
                "TK116",
                f"`blocks` takes an extent and a size, not {plural(len(e.arguments), 'value')}",
                e.span,
            )
        extent = self.values.size(e.arguments[0].value, "the extent of blocks")
        size = self.values.number(e.arguments[1].value, "the size of a block")
        self._not_negative(extent, e.arguments[0].value)
        return Axis(extent, size)

    def _not_negative(self, extent: Size, e: S.Expression) -> None:
        if isinstance(extent, int) and extent < 0:
            self._fail("TK117", f"the extent of blocks is {extent}, expected at least 0", e.span)

    def _assertion(self, s: S.Assertion) -> None:
        """False at compile time is an error here; what only the launch knows is checked there."""
        test = self.values.test(s.condition)
        text = self.scope.source.excerpt(s.condition.span)
        said = f": {s.text}" if s.text else ""
        if test is False:
            known = ", ".join(f"{n} = {v}" for n, v in self.params.items() if n in text)
            self._fail(
                "TK117", f"`{text}` does not hold{f' with {known}' if known else ''}{said}", s.span
            )
        if test is not True:
            self.requires.append(Require(contract(test), f"the program asserts `{text}`{said}"))

    def _schedule(self, s: S.Schedule) -> None:
        schedules.read(self, s)

    def _tiles(self, s: S.Declare) -> None:
        accumulator = s.kind == "accum"
        what = "accumulator" if accumulator else "shared tile"
        for reference in s.names:
            if reference.part is not None:
                self._later("several tiles of one name", reference.span)
        type_, depth = s.type, 1
        if isinstance(type_, S.Binary) and type_.operator == "*":
            depth = self.values.number(type_.right, "the number of slots")
            type_ = type_.left
        if accumulator and isinstance(type_, S.Index) and _head(type_) == "scales":
            scale, shape = scaling.scales_tile(self.values, type_)
            for reference in s.names:
                name = reference.name
                tile = Tile(name.text, True, scale[0], shape, depth, name.span, scale)
                if self.scope.define(name, what, tile):
                    self.made.append(tile)
            return
        dtype, axes, scale = self._shaped(
            type_, "tile", f"`{s.kind} {s.names[0].name.text}: tile[dtype, rows, columns] * slots`"
        )
        vector = _head(type_) == "vector"
        if vector and (accumulator or len(axes) != 1):
            self._fail(
                "TK106", "a vector is a shared tile of one axis: `vector[dtype, n]`", type_.span
            )
        if not vector and len(axes) != 2:
            self._later(f"a tile of {plural(len(axes), 'axis', 'axes')}: it has 2", type_.span)
        if accumulator and dtype not in ACCUMULATORS and s.within is not None:
            self._later(
                f"a tile of {dtype} in the place of an accumulator, for an operand of products: one of {OPERAND} in a "
                "place of its own is",
                type_.span,
            )
        if accumulator and dtype not in (*ACCUMULATORS, OPERAND):
            self._fail(
                "TK105",
                f"an accumulator is f32, f16 of f16 and 8-bit floats, or i32 of s8 and u8, not {dtype}",
                type_.span,
                self.scope.note(
                    f"a tile of {dtype} in tensor memory, as an operand of products, is not supported yet: one of "
                    f"{OPERAND} is; of others registers write a `shared` tile, which products read",
                    type_.span,
                ),
            )
        shape = tuple(self.values.number(axis, "an extent of a tile") for axis in axes)
        scale_rows = scaling.rows_of_scales(self.values, type_, scale, shape[0])
        if scale is not None:
            if accumulator or vector:
                self._fail("TK106", "block scales belong to shared tiles", type_.span)
            scaling.check_tile(self.scope, scale, (scale_rows or shape[0], shape[1]), type_.span)
        for reference in s.names:
            name = reference.name
            tile = Tile(
                name.text, accumulator, dtype, shape, depth, name.span, scale, scale_rows=scale_rows
            )
            if s.within is not None:
                from tkc.frontend.sharing import in_place_of

                tile = in_place_of(self.scope, s, tile)
                self.shares = True
            if self.scope.define(name, what, tile):
                self.made.append(tile)

    def _barrier(self, s: E.Barrier) -> None:
        depth = 1 if s.depth is None else self.values.number(s.depth, "the number of barriers")
        count: int | None = None
        for option in s.options:
            name = option.name.text if option.name is not None else ""
            if name != "count" or count is not None:
                self._fail("TK116", "barriers take one option, `count = arrivals`", s.span)
            count = self.values.number(option.value, "the arrivals that a phase takes")
        if count is None:
            self._fail(
                "TK116",
                f"barrier {s.name.text} says how many arrivals a phase takes: `count = 1`",
                s.span,
            )
        if count > MAX_ARRIVALS:
            self._fail(
                "TK209", f"a phase takes at most {MAX_ARRIVALS} arrivals, not {count}", s.span
            )
        made = Barrier(s.name.text, depth, count, s.name.span)
        if self.scope.define(s.name, "barrier", made):
            self.made.append(made)

    def _pipe(self, s: S.Pipe) -> None:
        for reference in (s.name, *s.tiles, *s.producers, *s.consumers):
            if reference.part is not None and s.turns is not None and reference in s.consumers:
                name = reference.name.text
                self._fail(
                    "TK102",
                    f"`{name}[...] by turns` is of several roles, and there is no family `{name}`: they are declared "
                    f"together as `role {name}[i in 0, 1]:`",
                    reference.span,
                )
            if reference.part is not None:
                self._later("several pipes, tiles or roles of one name", reference.span)
        if s.turns is not None:
            words = tuple(w.text for w in s.turns)
            if words != ("by", "turns"):
                self._fail(
                    "TK101",
                    f"unexpected `{' '.join(words)}`: a pipe may end in `by turns`",
                    s.turns[0].span,
                )
            if len(s.consumers) < 2:
                self._fail(
                    "TK116",
                    f"one role alone, `{s.consumers[0].name.text}`, takes no turns: two or more do",
                    s.consumers[0].span,
                )
        name = s.name.name
        tiles = [self._tile_of(r) for r in s.tiles]
        producers, consumers = (
            tuple(self._end(r) for r in side) for side in (s.producers, s.consumers)
        )
        if not tiles:
            self._later("a pipe without tiles", s.span)
        if len(producers) > 1 and any(t is not None and t.accumulator for t in tiles):
            self._later("an accumulator from several roles", s.producers[1].span)
        kept = [t for t in tiles if t is not None]
        scaled = all(t.scale is not None for t in kept)
        for reference in s.consumers:
            if reference.name.text in producers and not scaled:
                self._later(f"a pipe from role {reference.name.text} to itself", reference.span)
        turns = s.turns is not None
        if turns:
            self._check_turns(s, kept)
        pipe = Pipe(name.text, tuple(kept), producers, consumers, name.span, turns)
        for tile, reference in zip(tiles, s.tiles, strict=True):
            if tile is not None:
                self._carry(pipe, tile, reference)
        if len({t.accumulator for t in kept}) > 1:
            self._later("a pipe of shared tiles and accumulators", s.span)
        if len({scaling.holds_scales(t) for t in kept}) > 1:
            self._later("a pipe of accumulators and scales", s.span)
        if len({t.depth for t in kept}) > 1:
            told = ", ".join(f"{t.name} * {t.depth}" for t in kept)
            notes = [
                self.scope.note(f"{t.name} has {plural(t.depth, 'slot')}", t.span) for t in kept
            ]
            self.scope.error(
                "TK104", f"the tiles of pipe {name.text} differ in slots: {told}", name.span, *notes
            )
        if self.scope.define(name, "pipe", pipe):
            self.made.append(pipe)

    def _check_turns(self, s: S.Pipe, tiles: list[Tile]) -> None:
        """A slot is always for the same role, which so sees each of its phases: a parity tells the last two apart."""
        roles = len(s.consumers)
        for tile in tiles:
            if tile.accumulator:
                self._later(f"accumulator {tile.name} in a pipe by turns", s.name.span)
            if tile.depth % roles:
                self.scope.error(
                    "TK104",
                    f"pipe {s.name.name.text} goes by turns of {plural(roles, 'role')}, and `{tile.name}` has "
                    f"{plural(tile.depth, 'slot')}: a multiple of {roles} fits",
                    s.name.span,
                    self.scope.note(f"{tile.name} * {tile.depth}", tile.span),
                )

    def _tile_of(self, reference: S.Reference) -> Tile | None:
        word = reference.name
        found = self.scope.find(word.text, word.span, ("shared tile", "accumulator"))
        if isinstance(found, Tile) or isinstance(found, Unknown):
            return found if isinstance(found, Tile) else None
        self.scope.error("TK106", f"a pipe carries tiles, not {describe(found)}", word.span)
        return None

    def _end(self, reference: S.Reference) -> str:
        word = reference.name
        if word.text not in self.roles:
            near = nearest(word.text, list(self.roles))
            hint = (
                f"; did you mean `{near}`"
                if near
                else f"; the kernel's roles are {listed(self.roles)}"
            )
            self.scope.error("TK102", f"no role `{word.text}`{hint}", word.span)
            self.whole = False
        return word.text

    def _carry(self, pipe: Pipe, tile: Tile, reference: S.Reference) -> None:
        mine = self.scope.pipes_of.setdefault(tile.name, [])
        if pipe in mine:
            told = f"pipe {pipe.name} carries `{tile.name}` twice"
            self.scope.error("TK103", told, reference.span)
            return
        if mine:
            from tkc.frontend.sharing import check_pipe

            check_pipe(self.scope, pipe, mine[0], tile, reference.span)
            self.shares = True
        self.scope.pipe_of.setdefault(tile.name, pipe)
        mine.append(pipe)

    def _fail(self, code: str, message: str, span: Span, *notes: Any) -> NoReturn:
        self.scope.error(code, message, span, *notes)
        raise Failed

    def _later(self, what: str, span: Span) -> NoReturn:
        self.scope.later(what, span)
        raise Failed


def _head(e: S.Expression) -> str:
    """`tile` of `tile[...]`."""
    return e.base.text if isinstance(e, S.Index) and isinstance(e.base, S.Name) else ""


def _names_in(e: S.Expression) -> list[S.Name]:
    """The names that stand as axes of a type."""
    if not isinstance(e, S.Index):
        return []
    return [a.value for a in e.arguments if isinstance(a.value, S.Name)]
