"""What an expression is: an integer, a number, a register value, a slice, a tile or a product of two."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import tkc.frontend.elements as elements
import tkc.frontend.explicit_program as X
import tkc.frontend.integers as N
import tkc.frontend.places as places
import tkc.frontend.program as P
import tkc.frontend.syntax as S
import tkc.frontend.wide as wide
from tkc.diagnostics import nearest
from tkc.frontend import lists, scaling
from tkc.frontend.casts import converted
from tkc.frontend.conditions import Condition, Test
from tkc.frontend.describe import describe, dims, listed_values
from tkc.frontend.inline import call
from tkc.frontend.numbers import MAX_F32, NUMBERS
from tkc.frontend.products import product
from tkc.frontend.program import (
    Apply,
    Constant,
    Product,
    Regs,
    Scalar,
    Slice,
    Tensor,
    Tile,
    Transposed,
)
from tkc.frontend.scope import (
    FUNCTIONS,
    LATER,
    Block,
    Failed,
    Index,
    Int,
    Owned,
    Scope,
    Unknown,
    article,
    listed,
    plural,
)
from tkc.frontend.sizes import LIMIT, SIGNS, NoValue, Size, combine, show
from tkc.frontend.synonyms import SAID, WRITTEN
from tkc.frontend.syntax import Span
from tkc.frontend.vectors import VECTOR_FUNCTIONS, spread, vector
from tkc.ir.tile.types import DTYPES

F32 = Scalar("f32")
_RUNTIME = (
    P.Constant | P.Given | P.Held | P.Variable | P.Read | P.Load | P.Cast | P.Apply
    | P.Reduce | P.Total | P.Fill | P.Reshape | P.Transpose | P.Keep | P.Positions | P.Beside
    | X.Number | X.Identity | X.BlockNumber | X.ReadPlace | X.Element | X.Atomic | X.Attempt | X.Choose
)  # fmt: skip

_KINDS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}


class Values:
    """Evaluates expressions against a scope. Methods raise Failed after they have reported a mistake."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.by_kind: dict[type, Callable[[Any], Any]] = {
            S.Name: self._name,
            S.Integer: self._integer,
            S.Text: self._text,
            S.Real: lambda e: self._number(e.value, e.span),
            S.Unary: self._unary,
            S.Binary: self._binary,
            S.Choice: self._choice,
            S.Call: self._call,
            S.Index: self._index,
            S.Attribute: self._attribute,
        }

    # what callers ask for

    @cached_property
    def positions(self) -> Any:
        """Loaded when a program first computes with positions in blocks."""
        import tkc.frontend.positions as positions

        return positions

    def tests(self, x: Any) -> bool:
        """Whether it is a condition on positions."""
        return "positions" in self.__dict__ and isinstance(x, self.positions.Tests)

    def _placed(self, x: Any) -> bool:
        known = "positions" in self.__dict__
        return isinstance(x, Block) or (known and self.positions.is_position(x))

    def in_registers(self, x: Any) -> bool:
        """Whether it is a value that the kernel holds in registers."""
        return isinstance(x, _RUNTIME)

    def evaluate(self, e: S.Expression) -> Any:
        """Int, a value of the program, Slice, Tile, Transposed, Product, Block, or the meaning of a name."""
        return self.by_kind[type(e)](e)

    def size(self, e: S.Expression, what: str) -> Size:
        """An integer expression; `what` says for the message what it is to be."""
        x = self.evaluate(e)
        if not isinstance(x, Int):
            when = " known at compile time" if N.is_integer(x) else ""
            self.fail("TK106", f"{what} is an integer{when}, not {describe(x)}", e.span)
        return x.size

    def number(self, e: S.Expression, what: str, least: int = 1) -> int:
        """A compile-time integer of at least `least`."""
        size = self.size(e, what)
        if not isinstance(size, int):
            told = f"{what} is fixed at compile time, and `{show(size)}` is not before the launch"
            hint = f": `param {size} = ...` would fix it" if isinstance(size, str) else ""
            self.fail("TK117", told + hint, e.span)
        if size < least:
            self.fail("TK117", f"{what} is {size}, expected at least {least}", e.span)
        return size

    def value(self, e: S.Expression) -> P.Value:
        """A register value: a tile, or a scalar."""
        return self.as_value(self.evaluate(e), e.span)

    def as_value(self, x: Any, span: Span) -> P.Value:
        """A register value by itself."""
        made = self.as_operand(x, span)
        if made.type is P.POSITIONS:
            told = "positions as numbers have the shape of the tile that they stand beside, as in `x + f32(n)`"
            self.fail("TK106", f"{told}, and here is none", span)
        return made

    def as_operand(self, x: Any, span: Span) -> P.Value:
        """A register value beside others."""
        if isinstance(x, Int):
            if isinstance(x.size, int):
                return self._number(float(x.size), span)
            return Apply("to_f32", (X.Number(x.size, span),), F32, span)
        if isinstance(x, _RUNTIME):
            return x
        if isinstance(x, Condition):
            self.later("a condition in floating-point arithmetic", span)
        if isinstance(x, Tile):
            told = f"{describe(x)} is no register value: `read({x.name})` is"
            written = self.scope.source.excerpt(span)
            if written.split("[")[0] == x.name.split("[")[0]:
                self.scope.mend("TK106", told, span, at=span, text=f"read({written})")
            self.fail("TK106", told, span)
        if isinstance(x, Slice):
            if not x.shape:
                told = (
                    f"an element of {x.tensor} is in memory: `read({x.tensor}[...])` is its value"
                )
                self.fail("TK106", told, span)
            self.later(
                f"reading {x.tensor} into registers: copy the slice to a shared tile and read that"
                + (f", or `read({x.tensor}[...])`" if len(x.shape) == 1 else ""),
                span,
            )
        if isinstance(x, Product):
            self.fail("TK106", "a matrix product goes to an accumulator: `d += a @ b`", span)
        self.fail("TK106", f"{describe(x)} is no register value", span)

    # atoms

    def _name(self, e: S.Name) -> Any:
        if e.text == "inf":
            return Constant(math.inf, e.span)
        if e.text not in self.scope.names and (e.text in DTYPES or e.text in FUNCTIONS):
            self.fail("TK106", f"`{e.text}` is a function: `{e.text}(...)`", e.span)
        if e.text in X.IDENTITIES and self.scope.inside and e.text not in self.scope.names:
            return X.Identity(e.text, e.span)
        x = self.scope.find(e.text, e.span)
        if isinstance(x, Unknown):
            raise Failed
        if isinstance(x, Int | P.Given):
            given = x._replace(span=e.span)
            short = isinstance(x, P.Given) and DTYPES[x.type.dtype].bits == 16
            return Apply("to_f32", (given,), F32, e.span) if short else given
        if isinstance(x, Tensor) and not x.dims:
            return P.Held(e.text, elements.TYPES[x.dtype], e.span)
        return P.Variable(e.text, x, e.span) if isinstance(x, Regs | Scalar) else x

    def _text(self, e: S.Text) -> NoReturn:
        told = "a text is what `print(...)` says, or `assert condition, ...`: it is no value"
        self.fail("TK106", told, e.span)

    def _integer(self, e: S.Integer) -> Int:
        if e.value > LIMIT:
            self.fail("TK117", f"the number is beyond 32 bits: at most {LIMIT}", e.span)
        return Int(e.value, e.span)

    def _number(self, value: float, span: Span) -> Constant:
        if MAX_F32 <= abs(value) < math.inf:
            self.fail("TK501", f"{value:g} does not fit f32, whose largest is 3.40282e+38", span)
        return Constant(value, span)

    # operators

    def _unary(self, e: S.Unary) -> Any:
        if e.operator == "not":
            return N.negate(self, e)
        x = self.evaluate(e.operand)
        if e.operator == "+":
            return x if isinstance(x, Int) else self.as_value(x, e.span)
        if isinstance(x, Int):
            return Int(self._combine("sub", 0, x.size, e.span), e.span)
        if self._placed(x):
            return self.positions.negative(self, x, e.span)
        if N.of_type(x, X.I32):
            return Apply("sub", (X.Number(0, e.span), x), X.I32, e.span)
        if wide.is_wide(x):
            return wide.negative(self, x, e.span)
        return self.apply("neg", (self.as_operand(x, e.operand.span),), e.span)

    def _binary(self, e: S.Binary) -> Any:
        if e.operator in N.JOINS:
            return N.join(self, e)
        if e.operator in N.COMPARISONS:
            N.unchained(self, e)
        left, right = self.both(e.left, e.right)
        if e.operator in N.COMPARISONS:
            if self._placed(left) or self._placed(right):
                return self.positions.compare(self, e.operator, left, right, e.span)
            return N.compare(self, e, left, right)
        return self.operate(e.operator, left, e.left.span, right, e.right.span, e.span)

    def test(self, e: S.Expression) -> Test:
        """A condition that is known at compile time, or that a launch can tell."""
        x = self.evaluate(e)
        if not isinstance(x, Condition):
            self.fail("TK106", f"a condition compares integers, and this is {describe(x)}", e.span)
        return x.test

    def both(self, left: S.Expression, right: S.Expression) -> tuple[Any, Any]:
        """Both sides, so that both are reported where both are wrong."""
        try:
            a = self.evaluate(left)
        except Failed:
            self.evaluate(right)
            raise
        return a, self.evaluate(right)

    def operate(
        self, sign: str, left: Any, at_left: Span, right: Any, at_right: Span, span: Span
    ) -> Any:
        if sign == "@":
            return product(self, left, right, span)
        if self._placed(left) or self._placed(right):
            return self.positions.operate(self, sign, left, right, span)
        integer = N.operate(self, sign, left, at_left, right, at_right, span)
        if integer is not None:
            return integer
        if isinstance(left, Int) and isinstance(right, Int):
            if sign == "/":
                a, b = show(left.size), show(right.size)
                self.fail(
                    "TK106",
                    f"`/` of the integers {a} and {b}: `//` floors and `cdiv({a}, {b})` rounds up",
                    span,
                )
            return Int(self._combine(SIGNS[sign], left.size, right.size, span), span)
        operands = (self.as_operand(left, at_left), self.as_operand(right, at_right))
        if sign not in _KINDS:
            self.fail(
                "TK106",
                f"`{sign}` takes integers, not {describe(left)} and {describe(right)}",
                span,
            )
        return self.apply(_KINDS[sign], operands, span)

    def _combine(self, kind: str, a: Size, b: Size, span: Span) -> Size:
        try:
            return combine(kind, a, b)
        except NoValue as e:
            self.fail("TK117", str(e), span)

    def apply(self, kind: str, operands: tuple[P.Value, ...], span: Span) -> P.Value:
        """An elementwise operation on values of one shape, where scalars spread."""
        types: dict[Regs, None] = {}
        if any(x.type is P.POSITIONS for x in operands):
            return self.positions.beside(self, kind, operands, span)
        operands = tuple(
            Apply("to_f32", (x,), F32, x.span) if x.type in X.INTEGERS else x for x in operands
        )
        for x in operands:
            if isinstance(x, P.Transpose):
                self.later("arithmetic on a transpose: it goes to a copy", x.span)
            if x.type == X.I1:
                self.later(f"{describe(x)} in floating-point arithmetic", x.span)
            if isinstance(x.type, Regs):
                types[x.type] = None
                self.float(x)
        if not types:
            return self._scalar(kind, operands, span)
        if len(types) > 1:
            operands, shape = spread(self.scope, kind, operands, span)
            return Apply(kind, operands, Regs("f32", shape), span)
        return Apply(kind, operands, next(iter(types)), span)

    def float(self, x: P.Value) -> None:
        dtype = x.type.dtype
        if dtype != "f32":
            self.later(
                f"arithmetic in {dtype}: make it f32 by `f32(...)`, and the result {dtype} by `{dtype}(...)`",
                x.span,
            )

    def _scalar(self, kind: str, operands: tuple[P.Value, ...], span: Span) -> P.Value:
        numbers = [x.value for x in operands if isinstance(x, Constant)]
        if len(numbers) == len(operands) and kind in NUMBERS:
            try:
                return self._number(NUMBERS[kind](*numbers), span)
            except (ValueError, ZeroDivisionError, OverflowError):
                shown = ", ".join(f"{n:g}" for n in numbers)
                self.fail("TK117", f"{kind} of {shown} has no value", span)
        if kind == "neg":
            return Apply("mul", (*operands, Constant(-1.0, span)), F32, span)
        return Apply(kind, operands, F32, span)

    # postfix

    def _attribute(self, e: S.Attribute) -> Any:
        x = self.evaluate(e.base)
        name = e.name.text
        if isinstance(x, P.Scaled) and name == "T":
            return Transposed(x, e.span)
        if name == "scales" and scaling.is_scaled(x):
            return P.Scales(x, e.span)
        if isinstance(x, Tile) and name == "T" and not x.accumulator:
            return Transposed(x, e.span)
        if isinstance(x, Transposed) and name == "T":
            return x.tile
        if isinstance(x, _RUNTIME) and name == "T" and isinstance(x.type, Regs):
            if len(x.type.shape) != 2 or 1 in x.type.shape:
                self.fail("TK106", f"`.T` is of tiles, not of {describe(x)}", e.span)
            return P.Transpose(x, Regs(x.type.dtype, x.type.shape[::-1]), e.span)
        if isinstance(x, X.Place) and name == "T" and not x.tile.accumulator:
            return x._replace(transposed=not x.transposed, span=e.span)
        if isinstance(x, Block):
            if name == "part":
                self.fail("TK106", "a part of a block is `.part(i, n)`: its number, of n", e.span)
            found = N.of_block(self, x, name, e.span)
            if found is not None:
                return found
        elif name == "T":
            self.fail("TK106", f"`.T` is of shared tiles, not of {describe(x)}", e.span)
        hint = f": {SAID[name]}" if name in SAID and self.in_registers(x) else N.instead(self, x, e)
        self.fail("TK102", f"{describe(x)} has no `.{name}`{hint}", e.name.span)

    def _choice(self, e: S.Choice) -> Any:
        found = N.choose(self, e)
        if found is None:
            self.later("`x if condition else y` of register tiles", e.span)
        return found

    def _index(self, e: S.Index) -> Slice | X.Place | X.Part | X.Entry | X.Spot | lists.Listed:
        if isinstance(e.base, S.Name) and e.base.text in ("global", "tile", "list", "vector"):
            self.fail("TK106", f"`{e.base.text}[...]` is a type, not a value", e.span)
        if places.is_blocks(e.base):
            return places.numbered(self, e.base, e)
        tensor, leading = lists.array(self, self.evaluate(e.base), e)
        if isinstance(tensor, Tile | X.Barrier):
            return places.slot(self, tensor, e)
        if isinstance(tensor, X.Place):
            return elements.spot(self, tensor, e)
        if isinstance(tensor, lists.Listed):
            return tensor
        if not isinstance(tensor, Tensor):
            self.fail("TK106", f"{describe(tensor)} takes no index: tensors do", e.span)
        given, rank = len(e.arguments), len(tensor.dims) - len(leading)
        if given != rank:
            self.fail(
                "TK116",
                f"{tensor.name} has {plural(rank, 'axis', 'axes')} and is given {plural(given, 'index', 'indices')}",
                e.span,
                self.scope.note(f"{tensor.name} is {tensor.dtype} {dims(tensor)}", tensor.span),
            )
        indices: list[Any] = [*leading]
        shape: list[int] = []
        for axis, argument in enumerate(e.arguments, len(leading)):
            x = self.evaluate(argument.value)
            if argument.name is not None:
                self.fail("TK106", "an index has no name", argument.name.span)
            if isinstance(x, Block):
                places.covers(self, tensor, axis, x, argument.value.span)
                indices.append(P.Part(x.name, *x.part) if x.part else x.name)
                shape.append(x.axis.size)
            elif isinstance(x, Index):
                places.covers(self, tensor, axis, x, argument.value.span)
                indices.append(x.name)
            elif isinstance(x, X.Part):
                places.covers(self, tensor, axis, places.whole(x), argument.value.span)
                indices.append(x)
                shape.append(x.size)
            elif isinstance(x, Int):
                places.inside(self, tensor, axis, x)
                indices.append((x.size,))
            elif N.of_type(x, X.I32):
                indices.append(x)
            else:
                self.fail(
                    "TK106",
                    f"an index is a block or an integer, not {describe(x)}"
                    + (": `i32(...)` makes it one" if wide.is_wide(x) else ""),
                    argument.value.span,
                )
        return Slice(tensor.name, tuple(indices), tensor.dtype, tuple(shape), e.span, tensor.scale)

    def _call(self, e: S.Call) -> Any:
        if not isinstance(e.function, S.Name):
            if isinstance(e.function, S.Attribute):
                if e.function.name.text == "part":
                    return places.part(self, e, e.function)
                if e.function.name.text == "scaled":
                    return scaling.scaled(self, e, e.function)
                base = e.function.base
                if (
                    e.function.name.text == "any"
                    and isinstance(base, S.Name)
                    and base.text == "causal"
                ):
                    return self._some(e)
                self._attribute(e.function)
            self.fail("TK106", "only a function is called", e.span)
        name = e.function.text
        if name in ("blocks", "tiles"):
            self.fail("TK106", f"`{name}(...)` stands in a schedule or a `for`", e.span)
        if name in self.scope.names and name not in FUNCTIONS:  # a barrier may be called `full`
            if isinstance(self.scope.names[name].meaning, Unknown):
                raise Failed
            what = self.scope.names[name].what
            hint = f": an index stands in brackets, `{name}[...]`" if what == "tensor" else ""
            told = f"`{name}` is {article(what)}, not a function{hint}"
            self.fail("TK106", told, e.function.span)
        if name in self.scope.functions and name not in DTYPES:
            function = self.scope.functions[name]
            if function is None:
                raise Failed
            return call(self, function, e.arguments, e.span)
        if name in ("causal", "any"):
            return self.positions.causal(self, e) if name == "causal" else self._some(e)
        if name == "bytes":
            return places.slot_bytes(self, e)
        if name == "try_wait":
            return places.attempt(self, e)
        if name in elements.ATOMICS:
            return elements.atomic(self, name, e)
        if name == "read" and e.arguments:
            return self._read(e)
        if name not in FUNCTIONS and name not in DTYPES:
            if name in WRITTEN:
                self.fail("TK101", f"it is written {WRITTEN[name]}, without brackets", e.span)
            if name in LATER:
                self.later(f"`{name}(...)`", e.span)
            if name in SAID and name not in self.scope.names:
                self.fail("TK102", f"no function `{name}`: {SAID[name]}", e.function.span)
            near = nearest(name, [*FUNCTIONS, *DTYPES, *self.scope.functions])
            hint = f"; did you mean `{near}`" if near else f"; there are {listed(FUNCTIONS)}"
            self.fail("TK102", f"no function `{name}`{hint}", e.function.span)
        arity = FUNCTIONS.get(name, 1)
        if len(e.arguments) != arity or any(a.name for a in e.arguments):
            self.fail(
                "TK116", f"`{name}` takes {plural(arity, 'value')}, not {len(e.arguments)}", e.span
            )
        arguments = [a.value for a in e.arguments]
        if name in VECTOR_FUNCTIONS:
            return vector(self, name, self.value(arguments[0]), e.span)
        if arity == 2:
            values = self.both(*arguments)
        else:
            values = (self.evaluate(arguments[0]),)
        if name == "f32" and self._placed(values[0]):
            return self.positions.numbers(self, values[0], e.span)
        if f"to_{name}" in wide.CONVERSIONS:
            return wide.convert(self, name, values[0], e.span)
        if name in DTYPES:
            return self.cast(name, self.as_value(values[0], arguments[0].span), e.span)
        sizes = [x.size for x in values if isinstance(x, Int)]
        if name in ("cdiv", "min", "max") and len(sizes) == 2:
            return Int(self._combine(name, sizes[0], sizes[1], e.span), e.span)
        if name in ("cdiv", "min", "max") and (found := wide.of_two(self, name, values, e.span)):  # type: ignore[arg-type]
            return found
        if name == "cdiv":
            self.fail("TK106", f"`cdiv` takes integers, not {listed_values(values)}", e.span)
        operands = tuple(self.as_operand(x, a.span) for x, a in zip(values, arguments, strict=True))
        return self.apply(name, operands, e.span)

    def _some(self, e: S.Call) -> Any:
        from tkc.frontend.spans import some

        return some(self, e)

    def cast(self, dtype: str, x: P.Value, span: Span) -> P.Value:
        return converted(self, dtype, x, span)

    def _read(self, call: S.Call) -> P.Read | P.Load | X.ReadPlace | X.Element:
        """`read(d)`, `read(d[i], first, count)`, `read(X[i], acquire)`."""
        e, span = call.arguments[0].value, call.span
        tile = places.alone(self, self.evaluate(e), e.span)
        if elements.is_element(tile):
            return elements.load(self, tile, call)
        if len(call.arguments) == 3:
            return places.read_columns(self, tile, call)
        if len(call.arguments) != 1 or call.arguments[0].name:
            self.fail("TK116", f"`read` takes 1 value, not {len(call.arguments)}", span)
        if isinstance(tile, X.Place):
            places.readable(self, tile.tile, span)
            return X.ReadPlace(tile, None, None, Regs(tile.tile.dtype, tile.tile.shape), span)
        if isinstance(tile, Slice):
            if len(tile.shape) != 1:
                self.later(
                    f"reading {list(tile.shape)} of {tile.tensor} into registers: copy the slice to "
                    "a shared tile and read that",
                    span,
                )
            return P.Load(tile, Regs(tile.dtype, tile.shape), span)
        if not isinstance(tile, Tile):
            self.fail(
                "TK106",
                f"`read` takes a shared tile or an accumulator, not {describe(tile)}",
                e.span,
            )
        return self.read(tile, span, e.span)

    def read(self, tile: Tile, span: Span, at: Span | None = None) -> P.Read:
        """The values of a tile that the role may read here."""
        self.reads(tile, at or span)
        places.readable(self, tile, span)
        return P.Read(tile.name, Regs(tile.dtype, tile.shape), span)

    def reads(self, tile: Tile, span: Span) -> None:
        """Checks that the role may read the tile here."""
        owned = self.owned(tile, span)
        if owned.direction == "put" and not self.scope.several(tile.name):
            ends = f"pipe {owned.pipe.name}: {self.scope.ends(owned.pipe)}"
            self.fail(
                "TK107",
                f"`{tile.name}` is read inside a put of pipe {owned.pipe.name}: "
                f"what a put writes is read in a get, by {listed(owned.pipe.consumers)}",
                span,
                self.scope.note(ends, owned.pipe.span),
            )

    def owned(self, tile: Tile, span: Span) -> Owned:
        """How the role owns the tile here; reports TK108 where it does not."""
        owned = self.scope.owned.get(tile.name)
        if owned is None:
            if tile.name not in self.scope.pipe_of and not self.scope.broken:
                self.fail(
                    "TK108",
                    f"no pipe carries `{tile.name}`: name a slot of it, such as `{tile.name}[0]`, in "
                    "a `load`, `store`, `mma`, `read` or copy",
                    span,
                )
            if self.scope.lenient or tile.name not in self.scope.pipe_of:
                raise Failed
            pipe = self.scope.pipe_of[tile.name]
            told = (
                f"pipe {pipe.name} carries it: {listed(pipe.producers)} owns it in `put {pipe.name}:`, "
                f"{listed(pipe.consumers)} in `get {pipe.name}:`"
            )
            self.fail(
                "TK108",
                f"`{tile.name}` is used outside its put or get",
                span,
                self.scope.note(told, pipe.span),
            )
        return owned

    # reporting

    def fail(
        self, code: str, message: str, span: Span, *notes: Any, help: str | None = None
    ) -> NoReturn:
        self.scope.error(code, message, span, *notes, help=help)
        raise Failed

    def written(self, target: P.Slice, span: Span) -> None:
        """Reports what writes a `const` tensor."""
        if self.is_const(target):
            declared = self.scope.names[target.tensor].span
            told = f"{target.tensor} is `const`, so that every role may rely on its elements: nothing writes it"
            self.fail("TK106", told, span, self.scope.note("declared here", declared))

    def is_const(self, slice: P.Slice) -> bool:
        meaning = self.scope.names[slice.tensor].meaning
        return isinstance(meaning, Tensor) and meaning.const

    def later(self, what: str, span: Span) -> NoReturn:
        self.scope.later(what, span)
        raise Failed
