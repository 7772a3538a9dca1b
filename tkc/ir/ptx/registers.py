"""Register types: one virtual register of a class, or a tuple of them as one value; names once they are given."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from xdsl.ir import Data, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

PREFIXES = {
    "pred": "p",
    "b8": "b",
    "b16": "h",
    "b32": "r",
    "b64": "rd",
    "b128": "q",
    "f32": "f",
    "f64": "d",
}
"""How the registers of a class are called: `%rd3` is the fourth of class `b64`."""

WIDTHS = {"pred": 1, "b8": 8, "b16": 16, "b32": 32, "b64": 64, "b128": 128, "f32": 32, "f64": 64}
"""Bits of one register of a class."""


class Registers(NamedTuple):
    """`size` registers of a class, 0 for a single one; `base` is the first name, -1 before names are given."""

    kind: str
    size: int = 0
    base: int = -1
    step: int = 1


@irdl_attr_definition
class RegisterType(Data[Registers], TypeAttribute):
    """`!ptx.reg<b32>`, `!ptx.reg<f32 x 128>`; named: `!ptx.reg<b32, 12>`, `!ptx.reg<f32 x 32, 1 step 2>`.

    A tuple of registers is one value: an accumulator of wgmma, the result of tcgen05.ld. Made by `reg`, which keeps one
    object for each type.
    """

    name = "ptx.reg"

    def __new__(cls, data: Registers | None = None) -> Self:
        """One object for each type, so that types compare by identity; None is for copying alone."""
        found = _types.get(data) if data is not None else None
        return super().__new__(cls) if found is None else found  # pyright: ignore[reportReturnType]

    def __post_init__(self) -> None:
        """What is read for every operand is worked out once and laid beside the one field."""
        super().__post_init__()
        kind, count, base, _ = self.data
        text = f"%{PREFIXES[kind]}{base}" if base >= 0 and not count else None
        for name, value in (("kind", kind), ("count", count), ("named", base >= 0), ("text", text)):
            object.__setattr__(self, name, value)
        _types.setdefault(self.data, self)

    @classmethod
    def new(cls, params: Any) -> Self:
        return cls(params)

    def verify(self) -> None:
        if self.data.kind not in PREFIXES:
            raise VerifyException(
                f"no register class {self.data.kind}: one of {', '.join(PREFIXES)}"
            )

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Registers:
        with parser.in_angle_brackets():
            start = parser.pos
            kind = parser.parse_identifier()
            if kind not in PREFIXES:
                parser.raise_error(
                    f"no register class {kind}: one of {', '.join(PREFIXES)}", start, parser.pos
                )
            count, base, step = 0, -1, 1
            if parser.parse_optional_keyword("x") is not None:
                start = parser.pos
                count = parser.parse_integer(allow_boolean=False, allow_negative=False)
                if count < 1:
                    parser.raise_error("a tuple has at least one register", start, parser.pos)
            if parser.parse_optional_punctuation(",") is not None:
                base = parser.parse_integer(allow_boolean=False, allow_negative=False)
                if count and parser.parse_optional_keyword("step") is not None:
                    start = parser.pos
                    step = parser.parse_integer(allow_boolean=False, allow_negative=False)
                    if step < 2:
                        parser.raise_error("a step is at least 2", start, parser.pos)
        return Registers(kind, count, base, step)

    def print_parameter(self, printer: Printer) -> None:
        kind, count, base, step = self.data
        text = kind
        if count:
            text += f" x {count}"
        if base >= 0:
            text += f", {base}"
            if step != 1:
                text += f" step {step}"
        printer.print_string(f"<{text}>")

    if TYPE_CHECKING:

        @property
        def kind(self) -> str:
            """The register class: `b32`."""
            ...

        @property
        def count(self) -> int:
            """Registers in the tuple; 0 where this is one register and no tuple."""
            ...

        @property
        def named(self) -> bool:
            """Whether the registers have names."""
            ...

        @property
        def text(self) -> str | None:
            """The name of a single register; None for a tuple and before names are given."""
            ...

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The registers' names: `("%f1", "%f3")`; of a single register, one."""
        kind, count, base, step = self.data
        prefix = PREFIXES[kind]
        return tuple([f"%{prefix}{base + step * i}" for i in range(count or 1)])

    @cached_property
    def top(self) -> int:
        """One past the highest index in use."""
        _, count, base, step = self.data
        return base + step * (max(count, 1) - 1) + 1

    def part(self, start: int, count: int, step: int) -> RegisterType:
        """Registers `start`, `start + step`, … of this tuple; a single one where `count` is 0."""
        kind, _, base, own = self.data
        if base < 0:
            return reg(kind, count)
        return reg(kind, count, base + own * start, own * step if count > 1 else 1)

    def with_base(self, base: int) -> RegisterType:
        """The same registers under the names that start at `base`."""
        return reg(self.data.kind, self.data.size, base)

    def unnamed(self) -> RegisterType:
        return reg(self.data.kind, self.data.size)


_types: dict[tuple[str, int, int, int], RegisterType] = {}


def reg(kind: str, count: int = 0, base: int = -1, step: int = 1) -> RegisterType:
    """The type of one register of class `kind`, or of a tuple of `count` (1 and up); the same object every time."""
    return _types.get((kind, count, base, step)) or RegisterType(Registers(kind, count, base, step))


type_of: Callable[[SSAValue], RegisterType] = attrgetter("_type")
"""The register type of a value of this dialect."""


def retype(value: SSAValue, type: RegisterType) -> None:
    """Gives a value another type in place: naming changes thousands, and a new value for each would cost their uses."""
    value._type = type  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
