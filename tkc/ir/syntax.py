"""The one text form that all our operations share: `%r = name %a, %b {property = 1} : (types) -> (types) do { … }`.

One parse and one print for three dialects, so that a new operation needs neither, and so that defining one costs a
fifth of what an assembly format costs at start-up.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase, LocationAttr, i32
from xdsl.ir import (
    Attribute,
    Block,
    ErasedSSAValue,
    OpResult,
    OpTrait,
    Region,
    SSAValue,
    SSAValues,
    Use,
)
from xdsl.ir import Operation as IrOperation
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    # The parser costs 12 ms to import, and compiling needs none.
    from xdsl.parser import Parser, UnresolvedOperand
    from xdsl.printer import Printer

T = TypeVar("T", bound=IRDLOperation)

SEGMENTS = "operandSegmentSizes"
_NOTHING: Mapping[str, Attribute] = {}


class _Kind(ABCMeta):
    """Classes of operations are what they inherit from: none is registered elsewhere, so none is looked for."""

    __instancecheck__ = type.__instancecheck__


class Operation(IRDLOperation, metaclass=_Kind):
    """Base of every tkc operation: prints and parses in the shared form.

    Properties stand in the braces beside attributes. An operation that has operands in general, but none here, prints
    `()` for them; the types then start at the arrow. Operand segments keep xDSL's name, `operandSegmentSizes`.
    """

    __eq__ = object.__eq__  # as in xDSL, but without a call of Python's
    __hash__ = object.__hash__

    def print(self, printer: Printer) -> None:
        operands = self.operands
        if operands:
            printer.print_string(" ")
            printer.print_list(operands, printer.print_ssa_value)
        elif self.takes_operands():
            printer.print_string(" ()")
        if self.properties or self.attributes:
            printer.print_string(" ")
            printer.print_attr_dict({**self.properties, **self.attributes})
        if operands or self.results:
            printer.print_string(" : (")
            printer.print_list(self.operand_types, printer.print_attribute)
            printer.print_string(")")
        if self.results:
            printer.print_string(" -> (")
            printer.print_list(self.result_types, printer.print_attribute)
            printer.print_string(")")
        for i, region in enumerate(self.regions):
            printer.print_string(" do " if i == 0 else ", ")
            printer.print_region(region, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        unresolved: list[UnresolvedOperand] = []
        # An operation that never has operands must not look for them: the next `%` may open the next operation.
        if cls.takes_operands():
            if parser.parse_optional_punctuation("(") is not None:
                parser.parse_punctuation(")")
            else:
                unresolved.append(parser.parse_unresolved_operand())
                while parser.parse_optional_punctuation(",") is not None:
                    unresolved.append(parser.parse_unresolved_operand())
        named = parser.parse_optional_attr_dict()
        operand_types: Sequence[Attribute] = ()
        result_types: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation(":") is not None:
            operand_types = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_type
            )
            if parser.parse_optional_punctuation("->") is not None:
                result_types = parser.parse_comma_separated_list(
                    parser.Delimiter.PAREN, parser.parse_type
                )
        operands = parser.resolve_operands(unresolved, operand_types, start)
        regions: list[Region] = []
        if parser.parse_optional_keyword("do") is not None:
            regions.append(_parse_region(parser))
            while parser.parse_optional_punctuation(",") is not None:
                regions.append(_parse_region(parser))
        known = cls.get_irdl_definition().properties
        return cls.create(
            operands=operands,
            result_types=result_types,
            properties={k: v for k, v in named.items() if k in known or k == SEGMENTS},
            attributes={k: v for k, v in named.items() if k not in known and k != SEGMENTS},
            regions=regions,
        )

    @classmethod
    def create(
        cls,
        *,
        operands: Sequence[SSAValue] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute] = _NOTHING,
        attributes: Mapping[str, Attribute] = _NOTHING,
        location: LocationAttr | None = None,
        successors: Sequence[Block] = (),
        regions: Sequence[Region] = (),
    ) -> Self:
        """What xDSL's does, defaults of properties too."""
        where = UNKNOWN_LOC if location is None else location
        op = construct(cls, operands, result_types, dict(properties), where, regions)
        op.attributes.update(attributes)
        if successors:
            op.successors = successors
        if _has_defaults(cls):
            op.__post_init__()
        return op

    def walk(self, *, reverse: bool = False, region_first: bool = False) -> Iterator[IrOperation]:
        """What xDSL's does, in one generator instead of three for each nest of regions."""
        if reverse or region_first:
            return super().walk(reverse=reverse, region_first=region_first)
        return chain((self,), all_inside(self))

    def verify(self, verify_nested_ops: bool = True) -> None:
        """What xDSL's does, and in its words where something is wrong, but looking at once at all that is inside."""
        if verify_nested_ops:
            try:
                for region in self.regions:
                    _verify_region(region)
            except (VerifyException, ValueError):
                super().verify()
                raise
        super().verify(verify_nested_ops=False)

    @classmethod
    def takes_operands(cls) -> bool:
        """Whether an operation of this class may have operands."""
        return bool(cls.get_irdl_definition().operands)


@cache
def _has_defaults(kind: type[IRDLOperation]) -> bool:
    """Whether something is to be filled in that is not given."""
    if kind.__post_init__ is not IRDLOperation.__post_init__:
        return True
    definition = kind.get_irdl_definition()
    parts = [*definition.properties.values(), *definition.attributes.values()]
    return any(getattr(part, "default_value", None) is not None for part in parts)


def all_inside(op: IrOperation) -> Iterator[IrOperation]:
    """Every operation in an operation's regions. What is yielded may be taken away; what follows it must stay."""
    left: list[Any] = [*_blocks(op)]
    while left:
        at = left.pop()
        if at.__class__ is Block:
            at = at.first_op
        while at is not None:
            following = at.next_op
            yield at
            if at.regions:
                left.append(following)
                left += _blocks(at)
                break
            at = following


def _blocks(op: IrOperation) -> list[Block]:
    """The blocks of an operation's regions, the last one first."""
    found: list[Block] = []
    for region in op.regions:
        block = region.first_block
        while block is not None:
            found.append(block)
            block = block.next_block
    found.reverse()
    return found


def _verify_region(region: Region) -> None:
    """What xDSL asks of a region, in fewer questions of operations that neither end a block nor hold others."""
    for block in region.blocks:
        last = block.last_op
        if last is None:
            block.verify()
        op = block.first_op
        while op is not None:
            if op.parent is not block:
                raise ValueError("in another block")
            if op is last or op.regions or op._successors:  # pyright: ignore[reportPrivateUsage]
                for inner in op.regions:
                    _verify_region(inner)
                IrOperation.verify(op, verify_nested_ops=False)
            elif ErasedSSAValue in map(type, op._operands):  # pyright: ignore[reportPrivateUsage]
                raise ValueError("uses what is erased")
            else:
                op.verify_()
            op = op.next_op
        if block.parent is not region:
            raise ValueError("in another region")


@cache
def checking_traits(kind: type[IrOperation]) -> tuple[OpTrait, ...]:
    """The traits of an operation that have something to verify."""
    return tuple([t for t in kind.traits if type(t).verify is not OpTrait.verify])


def _parse_region(parser: Parser) -> Region:
    """A region with at least one block: `{}` has an empty one."""
    region = parser.parse_region()
    if not region.blocks:
        region.add_block(Block())
    return region


class Result(OpResult[Attribute]):
    """xDSL's, with what is most often asked of it answered without a call of Python's."""

    type = property(attrgetter("_type"))
    owner = property(attrgetter("op"))


_segments: dict[tuple[int, ...], Attribute] = {}


def segments(*sizes: int) -> dict[str, Attribute]:
    """The property that says how many operands each optional or variadic group has."""
    found = _segments.get(sizes)
    if found is None:
        found = _segments[sizes] = DenseArrayBase.from_list(i32, list(sizes))
    return {SEGMENTS: found}


def construct(
    kind: type[T],
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] | None = None,
    location: LocationAttr = UNKNOWN_LOC,
    regions: Sequence[Region] = (),
) -> T:
    """An operation as `kind.create` makes it, in a third of the time: no defaults are filled in, nothing is checked.

    `properties` must be a dict of its own, since the operation keeps it. A test compares the two.
    """
    op: Any = kind.__new__(kind)
    uses: list[Use] = []
    for index, value in enumerate(operands):
        use = Use(op, index)
        after: Use | None = value.first_use
        if after is not None:
            use._next_use = after  # pyright: ignore[reportPrivateUsage]
            after._prev_use = use  # pyright: ignore[reportPrivateUsage]
        value.first_use = use
        uses.append(use)
    fields = op.__dict__
    fields["_operands"] = SSAValues(operands)
    fields["_operand_uses"] = tuple(uses)
    fields["results"] = SSAValues([Result(t, op, i) for i, t in enumerate(result_types)])
    fields["_successors"] = ()
    fields["_successor_uses"] = ()
    fields["properties"] = {} if properties is None else properties
    fields["attributes"] = {}
    fields["location"] = location
    fields["regions"] = ()
    for region in regions:
        op.add_region(region)
    return op


def append(block: Block, op: IrOperation) -> None:
    """What `block.add_op` does; an operation without regions is not looked for among those round the block."""
    last = block.last_op
    if last is None or op.regions or op.parent is not None:
        block.add_op(op)
        return
    op.parent = block
    op._prev_op, op._next_op = last, None  # pyright: ignore[reportPrivateUsage]
    last._next_op = block._last_op = op  # pyright: ignore[reportPrivateUsage]
