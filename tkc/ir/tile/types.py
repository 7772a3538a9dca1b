"""Types of the tile level: tensors in global memory, tiles in shared memory, accumulators, register tiles, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from tkc.ir.isa.dtypes import DTYPES

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

AUTO = "auto"
"""The layout of a shared tile before `select-swizzle` has chosen one."""


def shape_attribute(shape: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(n) for n in shape])


def _parse_dims(parser: AttrParser) -> ArrayAttr[IntAttr | StringAttr]:
    """`[128, K]`: integers and names."""

    def one() -> IntAttr | StringAttr:
        number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        return StringAttr(parser.parse_identifier()) if number is None else IntAttr(number)

    return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one))


def _print_dims(printer: Printer, dims: ArrayAttr[IntAttr | StringAttr]) -> None:
    printer.print_string("[" + ", ".join(str(d.data) for d in dims) + "]")


def _check_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise VerifyException(f"no dtype {dtype!r}; one of {', '.join(DTYPES)}")


@dataclass(frozen=True, init=False)
class _Shaped(ParametrizedAttribute, TypeAttribute):
    """`<dtype, [dims]>`. A dataclass itself, so that two types are equal only where these fields are."""

    dtype: StringAttr
    dims: ArrayAttr[IntAttr | StringAttr]

    @classmethod
    def of(cls, dtype: str, dims: Sequence[int | str]) -> Self:
        return cls(
            StringAttr(dtype),
            ArrayAttr([StringAttr(d) if isinstance(d, str) else IntAttr(d) for d in dims]),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dtype = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            return (dtype, _parse_dims(parser))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.dtype.data}, ")
            _print_dims(printer, self.dims)

    def verify(self) -> None:
        _check_dtype(self.dtype.data)

    @property
    def shape(self) -> tuple[int | str, ...]:
        return tuple(d.data for d in self.dims)


@irdl_attr_definition
class TensorType(_Shaped):
    """A tensor in global memory, last axis contiguous: `!tile.tensor<bf16, [M, K]>`."""

    name = "tile.tensor"


@irdl_attr_definition
class SliceType(_Shaped):
    """A block of a tensor: `!tile.slice<bf16, [128, 64]>`."""

    name = "tile.slice"


@irdl_attr_definition
class RegsType(_Shaped):
    """A tile held in the registers of its role: `!tile.regs<f32, [128, 256]>`."""

    name = "tile.regs"


@irdl_attr_definition
class SharedType(ParametrizedAttribute, TypeAttribute):
    """A ring of shared tiles: `!tile.shared<bf16, [128, 64], 4>`, with its layout once chosen: `…, 4, "128B">`."""

    name = "tile.shared"
    dtype: StringAttr
    dims: ArrayAttr[IntAttr]
    depth: IntAttr
    swizzle: StringAttr

    @classmethod
    def of(cls, dtype: str, shape: Sequence[int], depth: int, swizzle: str = AUTO) -> SharedType:
        return cls(StringAttr(dtype), shape_attribute(shape), IntAttr(depth), StringAttr(swizzle))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dtype = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            dims = _parse_dims(parser)
            parser.parse_punctuation(",")
            depth = IntAttr(parser.parse_integer())
            swizzle = AUTO
            if parser.parse_optional_punctuation(",") is not None:
                swizzle = parser.parse_str_literal()
            return (dtype, dims, depth, StringAttr(swizzle))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.dtype.data}, ")
            _print_dims(printer, self.dims)  # pyright: ignore[reportArgumentType]
            printer.print_string(f", {self.depth.data}")
            if self.swizzle.data != AUTO:
                printer.print_string(f', "{self.swizzle.data}"')

    def verify(self) -> None:
        _check_dtype(self.dtype.data)
        if self.depth.data < 1:
            raise VerifyException(f"a ring has at least one slot, not {self.depth.data}")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.dims)


@irdl_attr_definition
class AccumType(ParametrizedAttribute, TypeAttribute):
    """A ring of accumulators, in tensor memory or registers as the target has it: `!tile.accum<f32, [128, 256], 2>`."""

    name = "tile.accum"
    dtype: StringAttr
    dims: ArrayAttr[IntAttr]
    depth: IntAttr

    @classmethod
    def of(cls, dtype: str, shape: Sequence[int], depth: int) -> AccumType:
        return cls(StringAttr(dtype), shape_attribute(shape), IntAttr(depth))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dtype = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            dims = _parse_dims(parser)
            parser.parse_punctuation(",")
            return (dtype, dims, IntAttr(parser.parse_integer()))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.dtype.data}, ")
            _print_dims(printer, self.dims)  # pyright: ignore[reportArgumentType]
            printer.print_string(f", {self.depth.data}")

    def verify(self) -> None:
        _check_dtype(self.dtype.data)
        if self.depth.data < 1:
            raise VerifyException(f"a ring has at least one slot, not {self.depth.data}")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.dims)


@irdl_attr_definition
class BlockType(ParametrizedAttribute, TypeAttribute):
    """One block of a range: `!tile.block<128, M>` is 128 wide, in an axis of extent M; its value is the block's
    number."""

    name = "tile.block"
    size: IntAttr
    extent: StringAttr | IntAttr

    @classmethod
    def of(cls, size: int, extent: str | int) -> BlockType:
        return cls(
            IntAttr(size), StringAttr(extent) if isinstance(extent, str) else IntAttr(extent)
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            size = IntAttr(parser.parse_integer())
            parser.parse_punctuation(",")
            number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            extent = StringAttr(parser.parse_identifier()) if number is None else IntAttr(number)
            return (size, extent)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.size.data}, {self.extent.data}")


@irdl_attr_definition
class PipeType(ParametrizedAttribute, TypeAttribute):
    """A ring with full and empty signals between roles."""

    name = "tile.pipe_ring"


@irdl_attr_definition
class ScheduleType(ParametrizedAttribute, TypeAttribute):
    """A sequence of work items that roles share."""

    name = "tile.work"
