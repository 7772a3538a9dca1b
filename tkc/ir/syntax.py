"""The one text form that all our operations share: `%r = name %a, %b {property = 1} : (types) -> (types) do { regions }`.

One parse and one print for three dialects, so that a new operation needs neither, and so that defining one costs a
fifth of what an assembly format costs at start-up.
"""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Region
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer

_SEGMENTS = "operandSegmentSizes"


class Operation(IRDLOperation):
    """Base of every tkc operation: prints and parses in the shared form.

    Properties stand in the braces beside attributes. Operand segments print as `segments = [1, 0, 2]`.
    """

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        named: dict[str, Attribute] = dict(self.properties) | dict(self.attributes)
        if named:
            printer.print_string(" ")
            printer.print_attr_dict(named)
        if self.operands or self.results:
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
        unresolved = []
        while (operand := parser.parse_optional_unresolved_operand()) is not None:
            unresolved.append(operand)
            if parser.parse_optional_punctuation(",") is None:
                break
        named = parser.parse_optional_attr_dict()
        operand_types: list[Attribute] = []
        result_types: list[Attribute] = []
        if parser.parse_optional_punctuation(":") is not None:
            operand_types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
            if parser.parse_optional_punctuation("->") is not None:
                result_types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        operands = parser.resolve_operands(unresolved, operand_types, parser.pos)
        regions: list[Region] = []
        if parser.parse_optional_keyword("do") is not None:
            regions.append(parser.parse_region())
            while parser.parse_optional_punctuation(",") is not None:
                regions.append(parser.parse_region())
        definition = cls.get_irdl_definition()
        known = definition.properties.keys() | {_SEGMENTS}
        properties = {k: v for k, v in named.items() if k in known}
        attributes = {k: v for k, v in named.items() if k not in known}
        return cls.create(
            operands=operands,
            result_types=result_types,
            properties=properties,
            attributes=attributes,
            regions=regions,
        )


def segments(*sizes: int) -> dict[str, Attribute]:
    """The property that says how many operands each optional or variadic group has."""
    from xdsl.dialects.builtin import i32

    return {_SEGMENTS: DenseArrayBase.from_list(i32, list(sizes))}
