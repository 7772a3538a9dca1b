"""Builds PTX operations one after another: `emit("add", ".u32", a, 4)` returns the sum as a value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    DictionaryAttr,
    LocationAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tkc.diagnostics import Bug
from tkc.ir.interned import long_integer, string
from tkc.ir.ptx.control import (
    COUNTERS,
    ForOp,
    IfOp,
    ProceedOp,
    RepeatOp,
    UntilOp,
    WhileOp,
    YieldOp,
)
from tkc.ir.ptx.instruction import Instruction, instruction
from tkc.ir.ptx.kernel import (
    PARAM_KINDS,
    SPECIAL_REGISTERS,
    KernelOp,
    ParamAddressOp,
    ParamOp,
    SharedBaseOp,
    SpecialOp,
)
from tkc.ir.ptx.registers import RegisterType, reg, type_of
from tkc.ir.ptx.shape import Shape, Spelling
from tkc.ir.ptx.values import ImmOp, JoinOp, SliceOp, UndefOp
from tkc.ir.syntax import Result, append, construct, segments


class At(NamedTuple):
    """An address operand with an offset in bytes: `[%r1+16]`."""

    base: SSAValue
    offset: int


Value = SSAValue | int | float | str | At | Sequence["SSAValue | int"] | None
"""An argument: a register or tuple, a constant, a symbol, an address, the elements of a list, or nothing."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a name and its modifiers settle, worked out once."""

    kind: type[Instruction]
    shape: Shape
    spelling: Spelling
    properties: Mapping[str, Attribute]
    simple: bool
    """Every argument is one operand, and none is optional."""
    results: tuple[RegisterType, ...] | None
    """The result types where the modifiers settle them, tuples of a mapped instruction aside."""


_plans: dict[tuple[Any, ...], _Plan] = {}


def _plan(name: str, texts: tuple[str, ...], slots: Mapping[str, str]) -> _Plan:
    try:
        kind = instruction(name)
        shape = kind.SHAPE
        modifiers = shape.modifiers("".join(texts), slots) if texts else {}
        modifiers |= slots
        spelling = shape.spelling(tuple([modifiers.get(s) for s in shape.slots]))
    except (KeyError, ValueError) as error:
        raise Bug("ptx emission", str(error.args[0])) from None
    results: list[RegisterType] | None = []
    for result in shape.results:
        count = spelling.counts.get(result, 0)
        kind_of = spelling.kinds[result] or ("b32" if result in shape.tuples else "")
        listed = result in shape.lists or result in shape.tuples
        if result in shape.tied or not kind_of or (listed and not count):
            results = None
            break
        results.append(reg(kind_of, count))
    return _Plan(
        kind,
        shape,
        spelling,
        {slot: string(text) for slot, text in modifiers.items()},
        not (shape.lists or shape.optional or shape.immediates),
        None if results is None else tuple(results),
    )


class Emit:
    """Appends operations to a block, each at the current `location`.

    Constants are made once and stand first in the block that the builder began with.
    """

    def __init__(self, block: Block, location: LocationAttr = UNKNOWN_LOC) -> None:
        self.block = block
        self.location = location
        self._top = block
        self._last_constant: Operation | None = None
        self._constants: dict[tuple[int, str], SSAValue] = {}

    def __call__(
        self,
        name: str,
        *arguments: Value,
        results: RegisterType | Sequence[RegisterType] | None = None,
        **named: Value,
    ) -> Any:
        """Emits the instruction of the row called `name`; returns its result, a tuple of several, or None.

        Leading texts that start with a dot are modifiers in the order of the mnemonic; slots may be named instead. The
        other arguments are operands and immediates in the order of the manual, tied operands last; `None` leaves an
        optional one out. Numbers become constants, `At(base, offset)` an address with an offset. `results` gives the
        type where the modifiers do not: tuples of tcgen05.ld in f32, `mov.unpack`, a constant spread over a tuple.
        """
        count = 0
        for argument in arguments:
            if argument.__class__ is str and argument[:1] == ".":  # pyright: ignore
                count += 1
            else:
                break
        key = (name, *arguments[:count])
        slots: dict[str, str] = {}
        if named:
            has = instruction(name).SHAPE.slots
            slots = {k: v for k, v in named.items() if k in has and v is not None}  # pyright: ignore
            named = {k: v for k, v in named.items() if k not in has}
            key = (*key, *slots.items())
        plan = _plans.get(key)
        if plan is None:
            texts = tuple([str(text) for text in arguments[:count]])
            plan = _plans[key] = _plan(name, texts, slots)
        shape = plan.shape
        properties = dict(plan.properties)
        operands: list[SSAValue] = []
        if count:
            arguments = arguments[count:]
        if plan.simple and not named and len(arguments) == len(shape.arguments):
            for argument, operand in zip(arguments, shape.arguments, strict=True):
                if argument.__class__ is not Result:
                    argument = self._operand(plan, operand, argument, properties)
                operands.append(argument)  # pyright: ignore[reportArgumentType]
        else:
            self._bind(plan, arguments, named, operands, properties)
        types = self._result_types(plan, operands, results)
        op = construct(plan.kind, operands, types, properties, self.location)
        append(self.block, op)
        made = (*op.results,)
        return made[0] if len(made) == 1 else made or None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """`emit.add(".u32", a, b)` for names without dots."""
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self, name)

    def _operand(
        self, plan: _Plan, name: str, argument: Value, properties: dict[str, Attribute]
    ) -> SSAValue:
        """One register operand, from a value, a number or an address."""
        if isinstance(argument, At):
            if argument.offset:
                if name not in plan.shape.addresses:
                    raise Bug("ptx emission", f"{name} of {plan.shape.row.name} takes no offset")
                properties[plan.shape.offset_of(name)] = long_integer(argument.offset)
            return argument.base
        kind = plan.spelling.kinds[name] or "b32"
        if isinstance(argument, float):
            return self.float(argument, kind)
        if isinstance(argument, int):
            return self.imm(int(argument), kind)
        if isinstance(argument, SSAValue):
            return argument
        raise Bug("ptx emission", f"{name} of {plan.shape.row.name} cannot be {argument!r}")

    def _bind(
        self,
        plan: _Plan,
        arguments: Sequence[Value],
        named: Mapping[str, Value],
        operands: list[SSAValue],
        properties: dict[str, Attribute],
    ) -> None:
        shape = plan.shape
        name = shape.row.name
        if len(arguments) > len(shape.arguments):
            raise Bug("ptx emission", f"{name} takes {', '.join(shape.arguments)}")
        given = dict(zip(shape.arguments, arguments, strict=False))
        for argument, value in named.items():
            if argument in shape.offsets and isinstance(value, int):
                properties[argument] = long_integer(value)
                continue
            if argument not in shape.arguments or argument in given:
                raise Bug("ptx emission", f"{name} takes no further {argument}")
            given[argument] = value
        sizes: dict[str, int] = {}
        bound: dict[str, list[SSAValue]] = {}
        for argument in shape.arguments:
            value = given.get(argument)
            if argument in shape.immediates:
                if isinstance(value, int):
                    properties[argument] = long_integer(int(value))
                elif isinstance(value, str):
                    properties[argument] = string(value)
                elif value is not None or argument not in shape.optional:
                    raise Bug("ptx emission", f"{argument} of {name} cannot be {value!r}")
                continue
            if value is None:
                if argument not in shape.optional:
                    raise Bug("ptx emission", f"{name} needs {argument}")
                values = list[SSAValue]()
            elif (
                argument in shape.lists
                and isinstance(value, list | tuple)
                and not isinstance(value, At)
            ):
                values = [
                    v if v.__class__ is Result else self._operand(plan, argument, v, properties)
                    for v in value
                ]
            else:
                values = [self._operand(plan, argument, value, properties)]
            bound[argument] = values
            sizes[argument] = len(values)
        for operand in shape.operands:
            operands += bound[operand]
        if shape.segmented:
            properties.update(segments(*[sizes[o] for o in shape.operands]))

    def _result_types(
        self,
        plan: _Plan,
        operands: Sequence[SSAValue],
        results: RegisterType | Sequence[RegisterType] | None,
    ) -> Sequence[RegisterType]:
        if results is not None:
            return (results,) if isinstance(results, RegisterType) else results
        types = plan.results
        if types is None:
            tied = plan.shape.tied
            if set(tied) == set(plan.shape.results):
                # Tied operands come last, so that they are the last values.
                return [type_of(v).unnamed() for v in operands[-len(tied) :]]
            raise Bug("ptx emission", f"{plan.shape.row.name} needs the types of its results")
        if plan.shape.maps and types:
            for value in operands:
                count = value._type.count  # pyright: ignore
                if count:
                    return [reg(t.kind, count) for t in types]
        return types

    # Values that cost nothing

    def imm(self, value: int, kind: str = "b32") -> SSAValue:
        """A constant; of class f32 or f64, the bits of one."""
        found = self._constants.get((value, kind))
        if found is None:
            op = construct(ImmOp, (), (reg(kind),), {"value": long_integer(value)})
            if self._last_constant is not None:
                self._top.insert_op_after(op, self._last_constant)
            elif self._top.first_op is not None:
                self._top.insert_op_before(op, self._top.first_op)
            else:
                self._top.add_op(op)
            self._last_constant = op
            found = self._constants[value, kind] = op.results[0]
        return found

    def float(self, value: float, kind: str = "f32") -> SSAValue:
        """A floating-point constant."""
        form = {"f32": ("<f", "<I"), "f64": ("<d", "<Q")}.get(kind)
        if form is None:
            raise Bug("ptx emission", f"a constant {value} of class {kind}")
        return self.imm(struct.unpack(form[1], struct.pack(form[0], value))[0], kind)

    def undef(self, kind: str, count: int = 0) -> SSAValue:
        """Registers that nobody has set."""
        return self.insert(construct(UndefOp, (), (reg(kind, count),), {}, self.location)).results[
            0
        ]

    def slice(self, whole: SSAValue, start: int, count: int = 0, step: int = 1) -> SSAValue:
        """A part of a tuple; one register, not a tuple, where `count` is 0."""
        op = construct(
            SliceOp,
            (whole,),
            (type_of(whole).part(start, count, step),),
            {
                "start": long_integer(start),
                "count": long_integer(count),
                "step": long_integer(step),
            },
            self.location,
        )
        return self.insert(op).results[0]

    # What a kernel finds

    def join(self, parts: Sequence[SSAValue], kind: str) -> SSAValue:
        """A tuple of single registers of a class."""
        return self.insert(
            construct(JoinOp, tuple(parts), (reg(kind, len(parts)),), {}, self.location)
        ).results[0]

    def param(self, name: str, kind: str) -> SSAValue:
        """The value of a scalar parameter or pointer of `kind` (`PARAM_KINDS`)."""
        type = reg(PARAM_KINDS[kind].kind)
        op = construct(ParamOp, (), (type,), {"param": string(name)}, self.location)
        return self.insert(op).results[0]

    def param_address(self, name: str) -> SSAValue:
        """The generic address of a parameter, such as a tensor map."""
        op = construct(ParamAddressOp, (), (reg("b64"),), {"param": string(name)}, self.location)
        return self.insert(op).results[0]

    def shared_base(self) -> SSAValue:
        """The address of dynamic shared memory."""
        return self.insert(construct(SharedBaseOp, (), (reg("b32"),), {}, self.location)).results[0]

    def special(self, register: str) -> SSAValue:
        """A special register: `%tid.x`."""
        type = reg(SPECIAL_REGISTERS[register])
        op = construct(SpecialOp, (), (type,), {"register": string(register)}, self.location)
        return self.insert(op).results[0]

    def print(self, format: str, *arguments: SSAValue) -> None:
        """Prints arguments in a format of C; f32 is widened to f64, as C does."""
        from tkc.ir.ptx.printing import PrintOp  # few kernels print

        widened = [
            self("cvt", ".f64", ".f32", a) if type_of(a).kind == "f32" else a for a in arguments
        ]
        self.insert(construct(PrintOp, widened, (), {"format": string(format)}, self.location))

    # Control

    def insert(self, op: Any) -> Any:
        """Appends an operation that was made elsewhere."""
        append(self.block, op)
        return op

    @contextmanager
    def into(self, block: Block) -> Generator[Block]:
        """Appends to another block for a while."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    def _region(
        self, types: Sequence[Attribute], fill: Callable[..., Any], finish: Callable[[Any], None]
    ) -> Region:
        with self.into(Block(arg_types=types)) as block:
            finish(fill(*block.args))
        return Region(block)

    def _yield(self, values: Iterable[SSAValue] | None) -> None:
        values = tuple(values or ())
        if values:
            self.insert(construct(YieldOp, values, (), {}, self.location))

    def for_(
        self,
        lower: SSAValue | int,
        upper: SSAValue | int,
        step: SSAValue | int,
        body: Callable[..., Iterable[SSAValue] | None],
        inits: Sequence[SSAValue] = (),
        *,
        type: str = ".s32",
        nonempty: bool = False,
    ) -> tuple[SSAValue, ...]:
        """A counted loop: `body(counter, *carried)` emits a turn and returns the next values."""
        kind = COUNTERS[type]
        if isinstance(lower, int) and isinstance(upper, int):
            nonempty = nonempty or lower < upper
        bounds = [self.imm(v, kind) if isinstance(v, int) else v for v in (lower, upper, step)]
        types = [type_of(v).unnamed() for v in inits]
        location = self.location
        region = self._region([reg(kind), *types], body, self._yield)
        properties: dict[str, Attribute] = {"type": string(type)}
        if nonempty:
            properties["nonempty"] = UnitAttr()
        op = construct(ForOp, [*bounds, *inits], types, properties, location, [region])
        return tuple(self.insert(op).results)

    def if_(
        self,
        condition: SSAValue,
        then: Callable[[], Iterable[SSAValue] | None],
        otherwise: Callable[[], Iterable[SSAValue] | None] | None = None,
        *,
        negated: bool = False,
    ) -> tuple[SSAValue, ...]:
        """A branch: `then()` and `otherwise()` emit their sides and return the results."""
        location = self.location
        regions = [self._region((), then, self._yield)]
        types: list[RegisterType] = []
        last = regions[0].block.last_op
        if isinstance(last, YieldOp):
            types = [type_of(v).unnamed() for v in last.values]
        if otherwise is not None:
            regions.append(self._region((), otherwise, self._yield))
        properties: dict[str, Attribute] = {"negated": UnitAttr()} if negated else {}
        op = construct(IfOp, (condition,), types, properties, location, regions)
        return tuple(self.insert(op).results)

    def repeat(
        self,
        body: Callable[..., SSAValue | tuple[SSAValue, ...]],
        inits: Sequence[SSAValue] = (),
    ) -> tuple[SSAValue, ...]:
        """Turns until `body(*carried)` says so: it returns the condition, or that and the next values."""

        def finish(found: SSAValue | tuple[SSAValue, ...]) -> None:
            values = (found,) if isinstance(found, SSAValue) else found
            self.insert(construct(UntilOp, values, (), {}, self.location))

        location, types = self.location, [type_of(v).unnamed() for v in inits]
        region = self._region(types, body, finish)
        op = construct(RepeatOp, inits, types, {}, location, [region])
        return tuple(self.insert(op).results)

    def while_(
        self,
        test: Callable[..., SSAValue],
        body: Callable[..., Iterable[SSAValue] | None],
        inits: Sequence[SSAValue] = (),
    ) -> tuple[SSAValue, ...]:
        """Turns while `test(*carried)` returns a predicate that holds; `body(*carried)` returns the next values."""

        def proceed(condition: SSAValue) -> None:
            self.insert(construct(ProceedOp, (condition,), (), {}, self.location))

        location, types = self.location, [type_of(v).unnamed() for v in inits]
        regions = [self._region(types, test, proceed), self._region(types, body, self._yield)]
        op = construct(WhileOp, inits, types, {}, location, regions)
        return tuple(self.insert(op).results)


def kernel(
    name: str,
    params: Sequence[tuple[str, str]] = (),
    *,
    reqntid: int,
    min_ctas: int = 1,
    cluster: int | None = None,
    most_ctas: int | None = None,
    shared_bytes: int = 0,
    contract: DictionaryAttr | None = None,
    location: LocationAttr = UNKNOWN_LOC,
) -> tuple[KernelOp, Emit]:
    """An empty kernel and the builder of its body; `params` are (name, kind) in order."""
    block = Block()
    properties: dict[str, Attribute] = {
        "sym_name": string(name),
        "params": ArrayAttr(
            [DictionaryAttr({"name": string(n), "kind": string(k)}) for n, k in params]
        ),
        "reqntid": long_integer(reqntid),
    }
    if min_ctas != 1:
        properties["min_ctas"] = long_integer(min_ctas)
    if most_ctas is not None:
        properties["most_ctas"] = long_integer(most_ctas)
    elif cluster is not None:
        properties["cluster"] = long_integer(cluster)
    if shared_bytes:
        properties["shared_bytes"] = long_integer(shared_bytes)
    if contract is not None:
        properties["contract"] = contract
    op = construct(KernelOp, (), (), properties, location, [Region(block)])
    return op, Emit(block, location)
