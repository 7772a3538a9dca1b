"""Definitions of operations: xDSL's, with parts that are read without a detour, and checked at a glance first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from xdsl.dialects.builtin import i32
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    BlockOps,
    Operation,
    OpResult,
    SSAValue,
    SSAValues,
)
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    OpDef,
    OptPropertyDef,
    RangeOf,
    VariadicDef,
)
from xdsl.irdl import (
    irdl_op_definition as xdsl_definition,
)
from xdsl.irdl.constraints import EqIntConstraint, RangeLengthConstraint
from xdsl.irdl.operations import (
    AttrSizedSegments,
    BeforeVariadicSingleAccessor,
    OptionalAttrAccessor,
    OptionalDef,
    SameOptionalAccessor,
    UniqueVariadicAccessor,
    VarIRConstruct,
    _OpDefField,  # pyright: ignore[reportPrivateUsage]
)

from tkc.ir.syntax import checking_traits

T = TypeVar("T", bound=IRDLOperation)


# As in xDSL, but without a call of Python's, or with one where there are three.
for _node in (OpResult, BlockArgument, Block):
    _node.__eq__ = object.__eq__  # type: ignore[method-assign]
    _node.__hash__ = object.__hash__  # type: ignore[method-assign]
for _part, _neighbour in (
    *((Operation, n) for n in ("next_op", "prev_op")),
    *((Block, n) for n in ("first_op", "last_op")),
):
    setattr(_part, _neighbour, property(attrgetter(f"_{_neighbour}")))


def _each(ops: BlockOps) -> Iterator[Operation]:
    """What a block has; what is yielded may be taken away."""
    at = ops.block.first_op
    while at is not None:
        following = at.next_op
        yield at
        at = following


BlockOps.__iter__ = _each  # type: ignore[method-assign]


def irdl_op_definition(kind: type[T]) -> type[T]:
    """xDSL's decorator, and then operands, results and regions as plain properties, and a quicker verifier.

    The definition is made when it is first asked for: a kernel has a third of all operations.
    """
    checks: Any = kind.verify_
    written, names = dict(vars(kind)), _parts(kind)

    @cache
    def define() -> OpDef:
        return _define(kind, written, names)

    def definition_of(_: type[T]) -> OpDef:
        return define()

    def verify(op: IRDLOperation) -> None:
        definition = define()
        if _passes(op, _glance(kind)):
            for trait in checking_traits(op.__class__):
                trait.verify(op)
        else:
            definition.verify(op)
        checks(op)

    for name in names:
        setattr(kind, name, _Late(name, define))
    made: Any = kind
    made.verify_, made.get_irdl_definition = verify, classmethod(definition_of)
    return kind


class _Late:
    """What reads and writes a part of an operation, until its class is defined."""

    def __init__(self, name: str, define: Callable[[], OpDef]) -> None:
        self.name, self.define = name, define

    def __get__(self, op: IRDLOperation | None, kind: type[IRDLOperation]) -> Any:
        self.define()
        return getattr(kind if op is None else op, self.name)

    def __set__(self, op: IRDLOperation, value: Any) -> None:
        self.define()
        setattr(op, self.name, value)


def _parts(kind: type[IRDLOperation]) -> set[str]:
    """What a definition puts into the class: the parts that it and its bases declare, and the traits."""
    return {"traits"}.union(*map(_declared, kind.__mro__))


@cache
def _declared(kind: type) -> frozenset[str]:
    return frozenset(n for n, value in vars(kind).items() if isinstance(value, _OpDefField))


def _define(kind: type[IRDLOperation], written: dict[str, Any], names: set[str]) -> OpDef:
    """Gives a class its parts, one by one: whoever reads one meanwhile, in another thread, defines the class too."""
    space = {n: value for n, value in written.items() if n not in ("__dict__", "__weakref__")}
    meta: Any = type(kind)
    made = xdsl_definition(meta(kind.__name__, kind.__bases__, space))
    for name in names:
        part: Any = vars(made)[name]
        if type(part) is OptionalAttrAccessor:
            part = _optional(part.construct, part.idx, part.option) or part
        elif type(part) in _READ:
            part = _reader(part) or part
        setattr(kind, name, part)
    return made.get_irdl_definition()


_READ = {BeforeVariadicSingleAccessor, SameOptionalAccessor, UniqueVariadicAccessor}


@cache
def _reader(accessor: Any) -> property | None:
    """What one of xDSL's accessors does, for operands, results and regions."""
    at: Any = tuple.__getitem__
    construct, index = accessor.construct, accessor.idx
    operands = construct is VarIRConstruct.OPERAND
    match accessor:
        case BeforeVariadicSingleAccessor() if operands:
            return property(lambda op: at(op._operands, index))
        case BeforeVariadicSingleAccessor() if construct is VarIRConstruct.RESULT:
            return property(lambda op: at(op.results, index))
        case BeforeVariadicSingleAccessor() if construct is VarIRConstruct.REGION:
            return property(lambda op: op.regions[index])
        case SameOptionalAccessor(num_defs=count) if construct is VarIRConstruct.REGION:
            return property(lambda op: op.regions[index] if len(op.regions) == count else None)
        case UniqueVariadicAccessor(num_defs=1) if operands:
            return property(lambda op: op._operands)
        case UniqueVariadicAccessor(num_defs=count) if operands:
            less = index - count + 1
            return property(
                lambda op: SSAValues(at(op._operands, slice(index, len(op._operands) + less)))
            )
        case _:
            return None


def _optional(construct: VarIRConstruct, index: int, option: AttrSizedSegments) -> property | None:
    """An operand that a property says to be there or not."""
    at: Any = tuple.__getitem__
    name = option.attribute_name

    def optional(op: Any) -> SSAValue | None:
        sizes = _sizes(op.properties[name].data.data)
        return at(op._operands, sum(sizes[:index])) if sizes[index] else None

    return (
        property(optional) if construct is VarIRConstruct.OPERAND and option.as_property else None
    )


@cache
def _sizes(data: bytes) -> tuple[int, ...]:
    """How many operands each group has, of the words that say it."""
    return i32.unpack(data, len(data) // 4)


class _Values:
    """How many operands or results a definition asks for, and of which one class their types are."""

    def __init__(self, definitions: Sequence[tuple[str, Any]]) -> None:
        variable = [d for _, d in definitions if isinstance(d, VariadicDef)]
        kinds = {_base(d.constr) for _, d in definitions}
        self.plain = len(variable) <= 1 and len(kinds) <= 1 and None not in kinds
        self.plain = self.plain and not any(isinstance(d, OptionalDef) for d in variable)
        self.least = len(definitions) - len(variable)
        self.more = bool(variable)
        self.kind = next(iter(kinds), None)

    def passes(self, values: Sequence[SSAValue]) -> bool:
        count, kind = len(values), self.kind
        if count != self.least and not (self.more and count > self.least):
            return False
        for value in values:
            if value.type.__class__ is not kind:
                return False
        return True


class _Glance:
    """What can be told of a definition without looking at an operation; `plain` where that is all that it asks."""

    def __init__(self, definition: OpDef) -> None:
        self.operands = _Values(definition.operands)
        self.results = _Values(definition.results)
        self.properties = {n: _base(d.constr) for n, d in definition.properties.items()}
        optional = {n for n, d in definition.properties.items() if isinstance(d, OptPropertyDef)}
        self.required = self.properties.keys() - optional
        others = definition.options or definition.attributes or definition.successors
        self.plain = not (others or definition.regions or None in self.properties.values())
        self.plain = self.plain and self.operands.plain and self.results.plain


@cache
def _glance(kind: type[IRDLOperation]) -> _Glance:
    return _Glance(kind.get_irdl_definition())


def _base(constraint: Any) -> type[Attribute] | None:
    """The class that a constraint asks for, where it asks no more."""
    if isinstance(constraint, RangeLengthConstraint) and constraint.length == EqIntConstraint(1):
        constraint = constraint.constraint  # one operand is counted anyway
    if isinstance(constraint, RangeOf):
        constraint = constraint.constr
    return constraint.attr if isinstance(constraint, BaseAttr) else None


def _passes(op: IRDLOperation, glance: _Glance) -> bool:
    """Whether an operation is what its definition asks; where it is not, or cannot be told so, the definition says."""
    properties, kinds = op.properties, glance.properties
    if not glance.plain or op.regions or op._successors or not glance.required <= properties.keys():  # pyright: ignore
        return False
    for name, value in properties.items():
        if value.__class__ is not kinds.get(name):
            return False
    return glance.operands.passes(op._operands) and glance.results.passes(op.results)  # pyright: ignore
