"""Checked program to tile dialect: one operation for each thing said, and a location on every one.

Sizes and integer expressions stand once each at the top of the kernel, where launch contracts are read from; then the
declarations; then the roles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

import tkc.frontend.explicit_program as X
import tkc.frontend.program as P
from tkc.diagnostics import Location, TkcError
from tkc.frontend.flow import Flow
from tkc.frontend.functions import COMPOSED
from tkc.frontend.sizes import Size, label
from tkc.frontend.syntax import Elsewhere, Span
from tkc.ir.contract import to_attribute
from tkc.ir.emit import as_hint
from tkc.ir.interned import integer
from tkc.ir.stage.numbers import CONVERT, TYPES, NumberOp
from tkc.ir.stage.numbers import WIDE as OF_NUMBERS
from tkc.ir.stage.scalar import ArithOp, ConstOp, SizeOp
from tkc.ir.syntax import Operation as Irdl
from tkc.ir.syntax import construct, segments
from tkc.ir.tile import loops as L
from tkc.ir.tile import ops as T
from tkc.ir.tile import vectors as V
from tkc.ir.tile.scales import CopyScalesOp, ScaledMmaOp
from tkc.ir.tile.types import (
    AccumType,
    BlockType,
    PipeType,
    RegsType,
    ScaleAttr,
    ScheduleType,
    SharedType,
    SliceType,
    TensorType,
    counts_of,
)


def _explicit() -> Any:
    """The way of explicit code, loaded when a program has some."""
    import tkc.frontend.explicit_lower as explicit

    return explicit


def lower_file(file: str, kernels: Sequence[P.Kernel]) -> ModuleOp:
    """One `tile.kernel` for each kernel."""
    filename = StringAttr(file)
    module = ModuleOp([_Kernel(filename).lower(kernel) for kernel in kernels])
    module.location = FileLineColLoc(filename, IntAttr(1), IntAttr(1))
    return module


Named = tuple[str, Attribute, Span]
"""A block argument: its name, type and place."""


class _Kernel:
    """`top` takes what the launch knows, `block` is where operations go now; `values` maps names to SSA values."""

    def __init__(self, filename: StringAttr) -> None:
        self.filename = filename
        self.locations: dict[tuple[str, int, int], FileLineColLoc] = {}
        self.top: list[Operation] = []
        self.block: list[Operation] = []
        self.values: dict[str, SSAValue] = {}
        self.sizes: dict[Size, SSAValue] = {}
        self.flow = Flow(())
        self.made: dict[int, SSAValue] = {}
        self.role_name = ""
        self.sites: dict[str, int] = {}
        self.entry: list[Operation] = []
        self.counters: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        """Of counters of loops that count up, the first and the end of their numbers."""
        self.held: dict[str, SSAValue] = {}
        """What the role at hand reads when it begins, and the values."""

    # operations

    def at(self, span: Span) -> FileLineColLoc:
        file = StringAttr(span.source.file) if isinstance(span, Elsewhere) else self.filename
        place = (file.data, *span[:2])
        found = self.locations.get(place)
        if found is None:
            found = FileLineColLoc(file, IntAttr(span.line), IntAttr(span.column))
            self.locations[place] = found
        return found

    def emit(
        self,
        kind: type[Irdl],
        span: Span,
        operands: Sequence[SSAValue] = (),
        types: Sequence[Attribute] = (),
        properties: dict[str, Attribute] | None = None,
        region: Region | Sequence[Region] | None = None,
        name: str | None = None,
    ) -> Operation:
        regions = () if region is None else (region,) if isinstance(region, Region) else region
        op = construct(kind, operands, types, properties or {}, self.at(span), regions)
        if name is not None and types:
            op.results[0].name_hint = as_hint(name)
        self.block.append(op)
        return op

    def value(
        self,
        kind: type[Irdl],
        span: Span,
        operands: Sequence[SSAValue],
        type: Attribute,
        properties: dict[str, Attribute] | None = None,
        name: str | None = None,
    ) -> SSAValue:
        """The one result of an operation that `emit` makes."""
        return self.emit(kind, span, operands, [type], properties, name=name).results[0]

    def region(
        self, arguments: Sequence[Named], fill: Callable[[Sequence[SSAValue]], None]
    ) -> Region:
        """A region of one block with those arguments, whose operations `fill` emits."""
        block = Block(arg_types=[type for _, type, _ in arguments])
        for argument, (name, _, span) in zip(block.args, arguments, strict=True):
            argument.name_hint = as_hint(name)
            argument.location = self.at(span)
        outer, self.block = self.block, []
        fill(block.args)
        block.add_ops(self.block)
        self.block = outer
        return Region(block)

    # the kernel

    def lower(self, kernel: P.Kernel) -> Operation:
        arguments: list[Named] = [(a.name, _argument(a), a.span) for a in kernel.arguments]

        def fill(block_arguments: Sequence[SSAValue]) -> None:
            for given, value in zip(kernel.arguments, block_arguments, strict=True):
                self.values[given.name] = value
                if isinstance(given, P.Given) and given.type.dtype == "i32":
                    self.sizes[given.name] = value
            for declaration in kernel.declarations:
                self.declare(declaration)
            for role in kernel.roles:
                self.role(role)
            self.block = self.top + self.block

        asserted: dict[str, Attribute] = {}
        if kernel.requires:
            rows = [{"test": r.test, "message": r.message} for r in kernel.requires]
            asserted["requires"] = to_attribute(rows)
        majors = {
            a.name: integer(a.major)
            for a in kernel.arguments
            if isinstance(a, P.Tensor) and a.major is not None
        }
        if majors:
            asserted["majors"] = DictionaryAttr(majors)
        return self.emit(
            T.KernelOp,
            kernel.span,
            properties={
                **asserted,
                "sym_name": StringAttr(kernel.name),
                "arg_names": ArrayAttr([StringAttr(name) for name, _, _ in arguments]),
                "params": DictionaryAttr(
                    {name: integer(n, i64) for name, n in kernel.params.items()}
                ),
                "launch": DictionaryAttr(_launch(kernel)),
            },
            region=self.region(arguments, fill),
        )

    def size(self, size: Size, span: Span) -> SSAValue:
        """A size as an i32 at the top of the kernel, made once."""
        found = self.sizes.get(size)
        counts = _counts(size)
        if counts is not None:
            raise TkcError.at(
                "TK110",
                f"not supported yet: what depends on {counts}[g], which only the device knows, other than "
                "copies of blocks",
                Location(self.filename.data, span.line, span.column),
            )
        if found is None:
            operands = (
                [self.size(part, span) for part in size[1:]] if isinstance(size, tuple) else []
            )
            outer, self.block = self.block, self.top
            if isinstance(size, int):
                found = self.value(
                    ConstOp, span, (), i32, {"constant": integer(size)}, name=f"c{size}"
                )
            elif isinstance(size, str):
                found = self.value(SizeOp, span, (), i32, {"symbol": StringAttr(size)}, name=size)
            else:
                kind: dict[str, Attribute] = {"kind": StringAttr(size[0])}
                found = self.value(ArithOp, span, operands, i32, kind, name=str(label(size)))
            self.block = outer
            self.sizes[size] = found
        return found

    def declare(self, d: P.Schedule | P.Tile | P.Pipe | P.Maps | X.Barrier) -> None:
        if isinstance(d, P.Maps):
            depth: dict[str, Attribute] = {"depth": integer(d.depth)}
            self.emit(T.EditedMapsOp, d.span, [self.values[d.tensor.name]], properties=depth)
            return
        name = StringAttr(d.name)
        match d:
            case P.Schedule():
                properties: dict[str, Attribute] = {
                    "sym_name": name,
                    "sizes": ArrayAttr([integer(axis.size) for axis in d.axes]),
                    "group": integer(d.group),
                }
                if d.across is not None:
                    properties["across"] = integer(d.across)
                if d.order is not None:
                    properties["outermost"] = integer(d.order.axis)
                    if d.order.descending:
                        properties["descending"] = UnitAttr()
                if d.serpentine:
                    properties["serpentine"] = UnitAttr()
                extents = [
                    self.size(axis.extent, d.span)
                    if (counts := _counts(axis.extent)) is None
                    else self.values[counts]
                    for axis in d.axes
                ]
                made = self.value(
                    T.ScheduleOp, d.span, extents, ScheduleType(), properties, name=d.name
                )
            case P.Tile():
                kind, type_ = (T.AccumOp, AccumType) if d.accumulator else (T.SharedOp, SharedType)
                type_ = type_.of(d.dtype, d.shape, d.depth)
                if d.scale is not None and not d.accumulator:
                    scale = ScaleAttr.of(*d.scale, d.scale_rows)
                    type_ = SharedType.of(d.dtype, d.shape, d.depth, scale=scale)
                where = {} if d.within is None else {"within": StringAttr(d.within)}
                made = self.value(kind, d.span, (), type_, {"sym_name": name, **where}, name=d.name)
            case X.Barrier():
                made = _explicit().barrier(self, d)
            case P.Pipe():
                made = self.value(
                    T.PipeOp,
                    d.span,
                    [self.values[tile.name] for tile in d.tiles],
                    PipeType(),
                    {
                        "sym_name": name,
                        "producers": ArrayAttr([StringAttr(role) for role in d.producers]),
                        "consumers": ArrayAttr([StringAttr(role) for role in d.consumers]),
                        **({"turns": UnitAttr()} if d.turns else {}),
                        **(
                            {"after": ArrayAttr([StringAttr(n) for n in d.after])}
                            if d.after
                            else {}
                        ),
                    },
                    name=d.name,
                )
        self.values[d.name] = made

    def site(self, what: str) -> StringAttr:
        """A name for a place where explicit code synchronises, which every later pass keeps."""
        base = f"{self.role_name}.user.{what}"
        self.sites[base] = self.sites.get(base, 0) + 1
        return StringAttr(base if self.sites[base] == 1 else f"{base}.{self.sites[base]}")

    def role(self, role: P.Role) -> None:
        self.flow = Flow(role.body)
        self.role_name = role.name
        properties: dict[str, Attribute] = {"sym_name": StringAttr(role.name)}
        if role.warps is not None:
            properties["warps"] = integer(role.warps)
        if role.registers is not None:
            properties["registers"] = integer(role.registers)
        outer = dict(self.values)

        self.entry, self.held = [], {}

        def fill(_: Sequence[SSAValue]) -> None:
            self.body(role.body)
            self.block = self.entry + self.block

        region = self.region((), fill)
        self.values = outer
        self.emit(T.RoleOp, role.span, properties=properties, region=region)

    # statements

    def body(self, body: P.Body) -> None:
        for s in body:
            self.made = {}
            match s:
                case P.Set():
                    self.values[s.name] = value = self.expression(s.value)
                    if not isinstance(s.value, P.Variable | P.Given | X.Number):
                        value.name_hint = as_hint(s.name)
                case P.Move():
                    source = self.place(s.source)
                    properties: dict[str, Attribute] = {"add": UnitAttr()} if s.add else {}
                    if s.multicast:
                        properties["multicast"] = UnitAttr()
                    if s.hint:
                        properties["hint"] = StringAttr(s.hint)
                    self.emit(
                        T.CopyOp, s.span, [source, self.place(s.destination)], properties=properties
                    )
                case P.Clear():
                    self.emit(T.ZeroOp, s.span, [self.values[s.tile]])
                case P.Stay():
                    self.emit(T.KeepOp, s.span, [self.values[s.tile]])
                case P.CopyScales():
                    operands = [self.values[s.source], self.values[s.destination]]
                    self.emit(CopyScalesOp, s.span, operands)
                case P.Multiply() if s.spelled is None:
                    self.multiply(s)
                case P.Each():
                    work = self.values[s.schedule.name]
                    self.loop(T.ForTilesOp, s, [work], s.variables, s.schedule.axes, {})
                case P.Blocks():
                    extent = self.size(s.axis.extent, s.span)
                    size: dict[str, Attribute] = {"size": integer(s.axis.size)}
                    kind = T.ForBlocksOp if s.within is None else L.ForPartsOp
                    over = [extent] if s.within is None else [self.values[s.within], extent]
                    if s.bounds is not None:
                        kind, over = L.ForSpanOp, [extent, *map(self.expression, s.bounds[:2])]
                        size |= {"some": UnitAttr()} if s.bounds.some else {}
                    self.loop(kind, s, over, (s.variable,), (s.axis,), size)
                case P.Transfer():
                    self.transfer(s)
                case _:
                    _explicit().statement(self, s)

    def multiply(self, s: P.Multiply) -> None:
        d = self.values[s.d]
        if s.fresh:
            self.emit(T.ZeroOp, s.span, [d])
        properties: dict[str, Attribute] = {
            "trans_a": integer(int(s.transpose_a)),
            "trans_b": integer(int(s.transpose_b)),
        }
        if s.scales is not None:
            names = (s.a, s.scales[0], s.b, s.scales[1])
            self.emit(ScaledMmaOp, s.span, [d, *(self.values[n] for n in names)])
            return
        a, b = self.values[s.a], self.values[s.b]
        if isinstance(a.type, AccumType):
            _explicit().product(self, s.span, d, a, b, properties)
            return
        self.emit(T.MmaOp, s.span, [d, a, b], properties=properties)

    def loop(
        self,
        kind: type[Irdl],
        s: P.Each | P.Blocks,
        over: Sequence[SSAValue],
        variables: Sequence[str],
        axes: Sequence[P.Axis],
        properties: dict[str, Attribute],
    ) -> None:
        names = self.flow.names(s)
        inits = [self.values[n] for n in names]
        types = [v.type for v in inits]
        blocks = [_block(axis) for axis in axes]
        every = (*variables, *names)
        arguments = [(n, t, s.span) for n, t in zip(every, (*blocks, *types), strict=True)]
        outer = dict(self.values)

        def fill(block_arguments: Sequence[SSAValue]) -> None:
            self.values.update(zip(every, block_arguments, strict=True))
            for name, axis in zip(variables, axes, strict=True):
                if axis.single:
                    block = self.values[name]
                    self.values[name] = self.value(L.IndexOp, s.span, [block], i32, name=name)
            self.body(s.body)
            self.emit(T.YieldOp, s.span, [self.values[n] for n in names])

        region = self.region(arguments, fill)
        self.values = outer
        op = self.emit(kind, s.span, [*over, *inits], types, properties, region)
        self.bind(names, op)

    def transfer(self, s: P.Transfer) -> None:
        names = self.flow.names(s)
        declared = [self.values[tile.name] for pipe in s.pipes for tile in pipe.tiles]
        outer = dict(self.values)
        types: list[Attribute] = []

        def fill(slots: Sequence[SSAValue]) -> None:
            self.values.update(zip(s.tiles, slots, strict=True))
            self.body(s.body)
            handed = [self.values[n] for n in names]
            types.extend(v.type for v in handed)
            self.emit(T.YieldOp, s.span, handed)

        arguments = [(n, d.type, s.span) for n, d in zip(s.tiles, declared, strict=True)]
        region = self.region(arguments, fill)
        self.values = outer
        kind = T.PutOp if s.direction == "put" else T.GetOp
        pipes = [self.values[p.name] for p in s.pipes]
        if s.turn is not None:
            make = (kind, pipes, types, region)
            op = _explicit().turn(self, s, names, make)
        else:
            op = self.emit(kind, s.span, pipes, types, region=region)
        self.bind(names, op)

    def bind(self, names: Sequence[str], op: Operation) -> None:
        for name, result in zip(names, op.results, strict=True):
            result.name_hint = as_hint(name)
            self.values[name] = result

    def index(self, i: Any, span: Span) -> SSAValue:
        """A block, a part of one, or an integer, as `Slice` holds it."""
        if isinstance(i, str):
            return self.values[i]
        if isinstance(i, X.Part):
            return _explicit().part(self, i)
        if not isinstance(i, P.Part):
            return self.size(i[0], span) if len(i) == 1 else self.expression(i)
        whole = self.values[i.block]
        assert isinstance(whole.type, BlockType)
        size, extent = whole.type.size.data // i.count, whole.type.extent.data
        part = {"index": integer(i.index)}
        return self.value(L.PartOp, span, [whole], BlockType.of(size, extent), part)

    def place(self, x: P.Slice | str | P.Value) -> SSAValue:
        """A side of a copy."""
        if isinstance(x, str):
            return self.values[x]
        if not isinstance(x, P.Slice):
            return self.expression(x)
        indices = [self.index(i, x.span) for i in x.indices]
        operands = [self.values[x.tensor], *indices]
        return self.value(T.SliceOp, x.span, operands, SliceType.of(x.dtype, x.shape, _scale(x)))

    # expressions

    def expression(self, x: P.Value) -> SSAValue:
        """The value; one that stands in a statement twice, as an argument of a function may, is made once."""
        found = self.made.get(id(x))
        if found is None:
            found = self.made[id(x)] = self._expression(x)
        return found

    def _expression(self, x: P.Value) -> SSAValue:
        match x:
            case P.Variable() | P.Given():
                return self.values[x.name]
            case P.Held():
                return self.once(x)
            case P.Constant():
                return self.constant(x.value, x.span)
            case P.Read():
                return self.value(
                    T.ReadOp,
                    x.span,
                    [self.values[x.tile]],
                    _type(x.type),
                    name=f"{x.tile}_values",
                )
            case P.Cast():
                return self.value(T.CastOp, x.span, [self.expression(x.operand)], _type(x.type))
            case P.Apply():
                operands = [self.expression(operand) for operand in x.operands]
                return self.apply(x.kind, operands, _type(x.type), x.span)
            case P.Load():
                return self.value(V.LoadOp, x.span, [self.place(x.slice)], _type(x.type))
            case P.Fill():
                return self.value(V.FillOp, x.span, [self.expression(x.scalar)], _type(x.type))
            case P.Reshape():
                return self.value(V.ReshapeOp, x.span, [self.expression(x.operand)], _type(x.type))
            case P.Transpose():
                return self.value(
                    V.TransposeOp, x.span, [self.expression(x.operand)], _type(x.type)
                )
            case P.Reduce():
                return self.reduce(x)
            case P.Total():
                properties = {"kind": StringAttr(x.kind)}
                return self.value(V.TotalOp, x.span, [self.expression(x.operand)], f32, properties)
            case P.Where():
                return self.where(x)
            case _:
                return _explicit().value(self, x)

    def once(self, x: P.Held) -> SSAValue:
        """Read where the role begins, so that no use of it waits."""
        if x.name not in self.held:
            from tkc.ir.stage.elements import LoadElementOp

            outer, self.block = self.block, self.entry
            self.held[x.name] = self.value(
                LoadElementOp, x.span, [self.values[x.name]], _type(x.type), name=x.name
            )
            self.block = outer
        return self.held[x.name]

    def reduce(self, x: P.Reduce) -> SSAValue:
        mask: list[SSAValue] = []
        if x.block is not None and x.extent is not None:
            mask = [self.index(x.block, x.span), self.size(x.extent, x.span)]
        operands = [self.expression(x.operand), *mask]
        properties = {"kind": StringAttr(x.kind), **segments(1, len(mask) // 2, len(mask) // 2)}
        return self.value(V.ReduceOp, x.span, operands, _type(x.type), properties)

    def where(self, x: P.Where) -> SSAValue:
        """By the last of its tests first, which is the rest of the one before it; the operand of all is made once."""
        operand = self.expression(x.operand)
        tests: list[P.Where] = [x]
        while tests[-1].otherwise is not None:
            tests.append(tests[-1].otherwise)
        rest: list[SSAValue] = []
        for test in reversed(tests):
            rest = [self.one_test(test, operand, rest)]
        return rest[0]

    def one_test(self, x: P.Where, operand: SSAValue, rest: list[SSAValue]) -> SSAValue:
        blocks = [[] if b is None else [self.index(b, x.span)] for b in x.blocks]
        operands = [operand, *blocks[0], *blocks[1], self.expression(x.limit), *rest]
        properties = {
            "rows": integer(x.factors[0]),
            "columns": integer(x.factors[1]),
            "fill": FloatAttr(x.fill, f32),
            **segments(1, len(blocks[0]), len(blocks[1]), 1, len(rest)),
            **({"positions": UnitAttr()} if x.positions else {}),
        }
        return self.value(V.MaskOp, x.span, operands, _type(x.type), properties)

    def constant(self, value: float, span: Span) -> SSAValue:
        return self.value(ConstOp, span, (), f32, {"constant": FloatAttr(value, f32)})

    def apply(
        self, kind: str, operands: Sequence[SSAValue], type: Attribute, span: Span
    ) -> SSAValue:
        if kind in COMPOSED:

            def make(kind: str, *given: SSAValue | float) -> SSAValue:
                parts = [x if isinstance(x, SSAValue) else self.constant(x, span) for x in given]
                return self.apply(kind, parts, type, span)

            return COMPOSED[kind](make, operands[0])
        convert = kind.startswith("to_") and (operands[0].type, type) != (i32, f32)
        numbers = convert or any(v.type in OF_NUMBERS for v in operands)
        op = T.MapOp if isinstance(type, RegsType) else NumberOp if numbers else ArithOp
        how: dict[str, Attribute] = {"kind": StringAttr(CONVERT if convert else kind)}
        return self.value(op, span, operands, type, how)


def _counts(size: Size) -> str | None:
    """The tensor whose element a size is, where only the device knows it."""
    return None if isinstance(size, tuple) else counts_of(size)


def _launch(kernel: P.Kernel) -> dict[str, Attribute]:
    """The clauses; a cluster of one CTA is none."""
    clauses: dict[str, Attribute] = {c: UnitAttr() for c in kernel.launch if c != "cluster"}
    clauses |= {name: integer(ctas) for name, ctas in kernel.sizes.items()}
    return clauses if kernel.ctas == 1 else {**clauses, "cluster": integer(kernel.ctas)}


def _argument(argument: P.Tensor | P.Given) -> Attribute:
    if isinstance(argument, P.Tensor):
        return TensorType.of(argument.dtype, argument.dims, _scale(argument), argument.listed)
    return TYPES[argument.type.dtype]


def _scale(x: P.Tensor | P.Slice) -> ScaleAttr | None:
    return None if x.scale is None else ScaleAttr.of(*x.scale)


def _block(axis: P.Axis) -> Attribute:
    return BlockType.of(axis.size, label(axis.extent))


def _type(type: P.Type) -> Attribute:
    return RegsType.of(type.dtype, type.shape) if isinstance(type, P.Regs) else TYPES[type.dtype]
