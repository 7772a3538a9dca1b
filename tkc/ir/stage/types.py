"""Types of the stage level: buffers with a home, barriers, pipes, accumulators in flight, register fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import PADDED, SCALE_ATOMS, SWIZZLES, held_span, swizzle_of

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


class Home(StrEnum):
    """Where a buffer lives."""

    SHARED = "shared"
    TENSOR = "tensor"
    REGISTER = "register"


class FragmentLayout(StrEnum):
    """Which thread of a role holds which element of a register tile; the maps are in `isa.layouts`.

    ROWS: thread t holds whole rows t, t + threads, … (tcgen05.ld.32x32b gives this).
    HALF_ROWS: lane t < 16 of warp w holds row 16 w + t; the other lanes hold nothing (an M = 64 accumulator).
    WGMMA: the D fragment of a warpgroup's m64 product.
    TURNED: 8-bit elements of 32 rows a warp, four of a column in a register, as what rows and columns are exchanged of.
    """

    ROWS = "rows"
    HALF_ROWS = "half_rows"
    WGMMA = "wgmma"
    TURNED = "turned"


def _parse_head(parser: AttrParser) -> tuple[StringAttr, ArrayAttr[IntAttr]]:
    dtype = StringAttr(parser.parse_identifier())
    parser.parse_punctuation(",")
    dims = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: IntAttr(parser.parse_integer())
    )
    return dtype, ArrayAttr(dims)


def _print_head(printer: Printer, dtype: StringAttr, dims: ArrayAttr[IntAttr]) -> None:
    printer.print_string(f"{dtype.data}, [{', '.join(str(d.data) for d in dims)}]")


@dataclass(frozen=True, init=False)
class _Tile(ParametrizedAttribute, TypeAttribute):
    """`<dtype, [dims], …>`. A dataclass itself, so that two types are equal only where these fields are, too."""

    dtype: StringAttr
    dims: ArrayAttr[IntAttr]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.dims)

    @property
    def elements(self) -> int:
        count = 1
        for n in self.shape:
            count *= n
        return count

    def verify(self) -> None:
        if self.dtype.data not in DTYPES:
            raise VerifyException(f"no dtype {self.dtype.data!r}; one of {', '.join(DTYPES)}")


@irdl_attr_definition
class BufferType(_Tile):
    """A ring of `depth` tiles with a home: `!stage.buffer<bf16, [128, 64], 4, shared, "128B">`.

    In shared memory a slot is stored span by span: its last axis is cut into spans of the swizzle's width, and each
    span holds all rows, so that one span is one box of the tensor copy engine. A buffer of block scales, rows by scales
    of a row, lies in whole atoms: `!stage.buffer<ue4m3, [128, 16], 4, tensor, "scale_atoms">`.
    """

    name = "stage.buffer"
    depth: IntAttr
    home: StringAttr
    swizzle: StringAttr

    @classmethod
    def of(
        cls, dtype: str, shape: Sequence[int], depth: int, home: Home, swizzle: str = "none"
    ) -> BufferType:
        dims = ArrayAttr([IntAttr(n) for n in shape])
        return cls(
            StringAttr(dtype), dims, IntAttr(depth), StringAttr(home.value), StringAttr(swizzle)
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dtype, dims = _parse_head(parser)
            parser.parse_punctuation(",")
            depth = IntAttr(parser.parse_integer())
            parser.parse_punctuation(",")
            home = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            return (dtype, dims, depth, home, StringAttr(parser.parse_str_literal()))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_head(printer, self.dtype, self.dims)
            printer.print_string(f', {self.depth.data}, {self.home.data}, "{self.swizzle.data}"')

    def verify(self) -> None:
        super().verify()
        if self.home.data not in list(Home):
            raise VerifyException(f"no home {self.home.data!r}; one of {', '.join(Home)}")

    @property
    def holds_scales(self) -> bool:
        return self.swizzle.data == SCALE_ATOMS

    @property
    def bits(self) -> int:
        """What one element takes in a row of shared memory."""
        return 8 if self.swizzle.data == PADDED else DTYPES[self.dtype.data].bits

    @property
    def slot_bytes(self) -> int:
        """What a slot takes in shared memory, gaps between spans included."""
        held = held_span(self.swizzle.data)
        data = self.elements * self.bits // 8
        return data // held * SWIZZLES[swizzle_of(self.swizzle.data)].span if held else data

    @property
    def copied_bytes(self) -> int:
        """What a copy into a slot counts on its barrier: data without padding."""
        return self.elements * DTYPES[self.dtype.data].bits // 8


@irdl_attr_definition
class AccumulatorType(_Tile):
    """An accumulator as a linear value, in flight or ready: `!stage.accumulator<f32, [128, 256]>`."""

    name = "stage.accumulator"

    @classmethod
    def of(cls, dtype: str, shape: Sequence[int]) -> AccumulatorType:
        return cls(StringAttr(dtype), ArrayAttr([IntAttr(n) for n in shape]))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return _parse_head(parser)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_head(printer, self.dtype, self.dims)


@irdl_attr_definition
class FragmentType(_Tile):
    """A register tile spread over a role's threads: `!stage.fragment<f32, [128, 64], rows>`.

    `[128, 1]` is one value a row, which every thread holds that holds part of the row; `[1, 64]` one a column.
    """

    name = "stage.fragment"
    layout: StringAttr

    @classmethod
    def of(cls, dtype: str, shape: Sequence[int], layout: FragmentLayout) -> FragmentType:
        dims = ArrayAttr([IntAttr(n) for n in shape])
        return cls(StringAttr(dtype), dims, StringAttr(layout.value))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dtype, dims = _parse_head(parser)
            parser.parse_punctuation(",")
            return (dtype, dims, StringAttr(parser.parse_identifier()))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_head(printer, self.dtype, self.dims)
            printer.print_string(f", {self.layout.data}")

    @property
    def a_row(self) -> bool:
        """Whether it holds one value for each row of a tile."""
        return self.shape[1] == 1

    @property
    def a_column(self) -> bool:
        """Whether it holds one value for each column of a tile."""
        return self.shape[0] == 1

    def spreads_over(self, other: FragmentType) -> bool:
        """Whether its axes are those of `other`, or 1."""
        return (self.dtype, self.layout) == (other.dtype, other.layout) and all(
            n in (1, m) for n, m in zip(self.shape, other.shape, strict=True)
        )

    def verify(self) -> None:
        super().verify()
        if self.layout.data not in list(FragmentLayout):
            raise VerifyException(
                f"no layout {self.layout.data!r}; one of {', '.join(FragmentLayout)}"
            )


@irdl_attr_definition
class BarriersType(ParametrizedAttribute, TypeAttribute):
    """An array of mbarriers, one for each slot of a ring."""

    name = "stage.mbarriers"


@irdl_attr_definition
class MapsType(ParametrizedAttribute, TypeAttribute):
    """So many tensor maps of one CTA, in global memory: `!stage.tensor_maps<2>`."""

    name = "stage.tensor_maps"
    depth: IntAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer()),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.depth.data))

    def verify(self) -> None:
        if self.depth.data < 1:
            raise VerifyException(f"at least one tensor map, not {self.depth.data}")


@irdl_attr_definition
class RingType(ParametrizedAttribute, TypeAttribute):
    """A pipe between roles; `lower-pipes` turns it into barriers."""

    name = "stage.ring"
