"""Types of the tile level: tensors in global memory, tiles in shared memory, accumulators, register tiles, blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from xdsl.dialects.builtin import ArrayAttr, IntAttr, NoneAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from tkc.ir.isa.dtypes import DTYPES as DTYPES
from tkc.ir.isa.dtypes import SCALED as SCALED
from tkc.ir.isa.dtypes import SCALES as SCALES
from tkc.ir.isa.layouts import SCALE_ATOM_ROWS as ATOM_ROWS
from tkc.ir.isa.layouts import SCALE_ATOM_SCALES as ATOM_SCALES

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

AUTO = "auto"
"""The layout of a shared tile before `select-swizzle` has chosen one."""


def shape_attribute(shape: Sequence[int]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([IntAttr(n) for n in shape])


COUNTED = "?"
"""What an extent begins with that the device knows: `?rows` of the g-th array of a list is `rows[g]`."""


def counts_of(extent: int | str) -> str | None:
    """The argument whose elements an extent is, where no launch knows it."""
    if isinstance(extent, str) and extent.startswith(COUNTED):
        return extent.removeprefix(COUNTED)
    return None


def _parse_extent(parser: AttrParser) -> IntAttr | StringAttr:
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if number is not None:
        return IntAttr(number)
    counted = parser.parse_optional_punctuation(COUNTED) is not None
    return StringAttr((COUNTED if counted else "") + parser.parse_identifier())


def _parse_dims(parser: AttrParser) -> ArrayAttr[IntAttr | StringAttr]:
    """`[128, K, ?rows]`: integers, names, and what the device counts."""
    return ArrayAttr(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_extent(parser))
    )


def _print_dims(printer: Printer, dims: ArrayAttr[IntAttr | StringAttr]) -> None:
    printer.print_string("[" + ", ".join(str(d.data) for d in dims) + "]")


def _check_dtype(dtype: str) -> None:
    if dtype not in DTYPES:
        raise VerifyException(f"no dtype {dtype!r}; one of {', '.join(DTYPES)}")


@irdl_attr_definition
class ScaleAttr(ParametrizedAttribute):
    """`ue4m3 / 16`: a tensor or tile has one scale for each block of so many elements along its last axis.

    `ue4m3 / 16 of 256`: a tile has the scales of so many rows, though it has fewer itself: a CTA of a pair has half of
    B's rows and all of their scales.
    """

    name = "tile.scale"
    dtype: StringAttr
    block: IntAttr
    rows: IntAttr

    @classmethod
    def of(cls, dtype: str, block: int, rows: int = 0) -> ScaleAttr:
        return cls(StringAttr(dtype), IntAttr(block), IntAttr(rows))

    @classmethod
    def parse_after(cls, parser: AttrParser, name: str) -> ScaleAttr:
        """The rest of `ue4m3 / 16`, whose name has been read."""
        parser.parse_punctuation("/")
        block = parser.parse_integer()
        more = parser.parse_optional_keyword("of") is not None
        return cls.of(name, block, parser.parse_integer() if more else 0)

    @property
    def kind(self) -> tuple[str, int]:
        """The dtype of the scales, and the elements of a block."""
        return self.dtype.data, self.block.data

    def verify(self) -> None:
        if self.dtype.data not in SCALES:
            raise VerifyException(f"no scale dtype {self.dtype.data!r}; one of {', '.join(SCALES)}")
        if self.block.data < 1:
            raise VerifyException(f"a block of {self.block.data} elements")

    def __str__(self) -> str:
        of = f" of {self.rows.data}" if self.rows.data else ""
        return f"{self.dtype.data} / {self.block.data}{of}"


def kind_of(scale: ScaleAttr | NoneAttr) -> tuple[str, int] | None:
    """What the sides of a copy, or the operands of a product, must agree in."""
    return scale.kind if isinstance(scale, ScaleAttr) else None


def _print_scale(printer: Printer, scale: ScaleAttr | NoneAttr) -> None:
    if isinstance(scale, ScaleAttr):
        printer.print_string(f", {scale}")


@dataclass(frozen=True, init=False)
class _Shaped(ParametrizedAttribute, TypeAttribute):
    """`<dtype, [dims]>`. A dataclass itself, so that two types are equal only where these fields are."""

    dtype: StringAttr
    dims: ArrayAttr[IntAttr | StringAttr]

    @classmethod
    def of(cls, dtype: str, dims: Sequence[int | str]) -> Self:
        return cls(*cls.of_parameters(dtype, dims))

    @staticmethod
    def of_parameters(
        dtype: str, dims: Sequence[int | str]
    ) -> tuple[StringAttr, ArrayAttr[IntAttr | StringAttr]]:
        return (
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


@dataclass(frozen=True, init=False)
class _Scaled(_Shaped):
    """`<dtype, [dims], scale>`, the scale only where there is one."""

    scale: ScaleAttr | NoneAttr

    @classmethod
    def of(
        cls, dtype: str, dims: Sequence[int | str], scale: ScaleAttr | NoneAttr | None = None
    ) -> Self:
        return cls(*_Shaped.of_parameters(dtype, dims), scale or NoneAttr())

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dtype = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            dims = _parse_dims(parser)
            if parser.parse_optional_punctuation(",") is None:
                return (dtype, dims, NoneAttr())
            return (dtype, dims, ScaleAttr.parse_after(parser, parser.parse_identifier()))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.dtype.data}, ")
            _print_dims(printer, self.dims)
            _print_scale(printer, self.scale)


@irdl_attr_definition
class TensorType(_Scaled):
    """A tensor in global memory, last axis contiguous: `!tile.tensor<bf16, [M, K]>`.

    With block scales it stands for two arrays: `!tile.tensor<e2m1, [M, K], ue4m3 / 16>`. A list is G arrays, whose axes
    follow: `!tile.tensor<bf16, [G, ?rows, K], list>`, `!tile.tensor<e2m1, [G, ?rows, K], ue4m3 / 16, list>`.
    """

    name = "tile.tensor"
    listed: UnitAttr | NoneAttr

    @classmethod
    def of(
        cls,
        dtype: str,
        dims: Sequence[int | str],
        scale: ScaleAttr | NoneAttr | None = None,
        listed: bool = False,
    ) -> Self:
        parameters = _Shaped.of_parameters(dtype, dims)
        return cls(*parameters, scale or NoneAttr(), UnitAttr() if listed else NoneAttr())

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dtype = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            dims = _parse_dims(parser)
            if parser.parse_optional_punctuation(",") is None:
                return (dtype, dims, NoneAttr(), NoneAttr())
            word = parser.parse_identifier()
            if word == "list":
                return (dtype, dims, NoneAttr(), UnitAttr())
            scale, listed = ScaleAttr.parse_after(parser, word), NoneAttr()
            if parser.parse_optional_punctuation(",") is not None:
                parser.parse_characters("list")
                listed = UnitAttr()
            return (dtype, dims, scale, listed)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.dtype.data}, ")
            _print_dims(printer, self.dims)
            _print_scale(printer, self.scale)
            if self.is_list:
                printer.print_string(", list")

    @property
    def is_list(self) -> bool:
        return isinstance(self.listed, UnitAttr)

    @property
    def element(self) -> TensorType:
        """One of the arrays of a list."""
        return TensorType.of(self.dtype.data, self.shape[1:], self.scale)


@irdl_attr_definition
class SliceType(_Scaled):
    """A block of a tensor: `!tile.slice<bf16, [128, 64]>`."""

    name = "tile.slice"


def scale_shape(shape: Sequence[int], scale: ScaleAttr) -> tuple[int, int]:
    """Rows, and scales of each, of a tile that has block scales."""
    rows, columns = shape
    return scale.rows.data or rows, columns // scale.block.data


def _check_scaled(shape: Sequence[int], scale: ScaleAttr) -> None:
    """Scales come in whole atoms of 128 rows of 4 scales."""
    if len(shape) != 2:
        raise VerifyException(f"a tile with block scales has two axes, not {len(shape)}")
    step = ATOM_SCALES * scale.block.data
    if (scale.rows.data or shape[0]) % ATOM_ROWS or shape[1] % step:
        raise VerifyException(
            f"a tile with scales of {scale} has rows in multiples of {ATOM_ROWS} and columns in "
            f"multiples of {step}, not {list(shape)}"
        )


@irdl_attr_definition
class RegsType(_Shaped):
    """A tile held in the registers of its role: `!tile.regs<f32, [128, 256]>`."""

    name = "tile.regs"


@irdl_attr_definition
class SharedType(ParametrizedAttribute, TypeAttribute):
    """A ring of shared tiles: `!tile.shared<bf16, [128, 64], 4>`, with its layout once chosen: `…, 4, "128B">`.

    With block scales a slot holds those, too: `!tile.shared<e2m1, [128, 256], 4, ue4m3 / 16, "128B">`.
    """

    name = "tile.shared"
    dtype: StringAttr
    dims: ArrayAttr[IntAttr]
    depth: IntAttr
    scale: ScaleAttr | NoneAttr
    swizzle: StringAttr

    @classmethod
    def of(
        cls,
        dtype: str,
        shape: Sequence[int],
        depth: int,
        swizzle: str = AUTO,
        scale: ScaleAttr | NoneAttr | None = None,
    ) -> SharedType:
        return cls(
            StringAttr(dtype),
            shape_attribute(shape),
            IntAttr(depth),
            scale or NoneAttr(),
            StringAttr(swizzle),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dtype = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            dims = _parse_dims(parser)
            parser.parse_punctuation(",")
            depth = IntAttr(parser.parse_integer())
            scale: ScaleAttr | NoneAttr = NoneAttr()
            swizzle = AUTO
            while parser.parse_optional_punctuation(",") is not None:
                name = parser.parse_optional_identifier()
                if name is None:
                    swizzle = parser.parse_str_literal()
                    break
                scale = ScaleAttr.parse_after(parser, name)
            return (dtype, dims, depth, scale, StringAttr(swizzle))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.dtype.data}, ")
            _print_dims(printer, self.dims)  # pyright: ignore[reportArgumentType]
            printer.print_string(f", {self.depth.data}")
            _print_scale(printer, self.scale)
            if self.swizzle.data != AUTO:
                printer.print_string(f', "{self.swizzle.data}"')

    def verify(self) -> None:
        _check_dtype(self.dtype.data)
        if self.depth.data < 1:
            raise VerifyException(f"a ring has at least one slot, not {self.depth.data}")
        if isinstance(self.scale, ScaleAttr):
            _check_scaled(self.shape, self.scale)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(d.data for d in self.dims)


OPERAND = "bf16"
"""The dtype of tiles in tensor memory that products take as their first operand; none sums in it."""


@irdl_attr_definition
class AccumType(ParametrizedAttribute, TypeAttribute):
    """A ring of accumulators, in tensor memory or registers as the target has it: `!tile.accum<f32, [128, 256], 2>`; of
    bf16, of first operands of products in tensor memory."""

    name = "tile.accum"
    dtype: StringAttr
    dims: ArrayAttr[IntAttr]
    depth: IntAttr

    @property
    def is_operand(self) -> bool:
        return self.dtype.data == OPERAND

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
            return (size, _parse_extent(parser))

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
