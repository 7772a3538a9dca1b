"""Words made of bit fields: one row a field, and one way to pack and unpack them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class BitField(NamedTuple):
    """`width` bits from bit `low` hold value / `unit`; `fixed` is the only legal raw value, where there is one."""

    name: str
    low: int
    width: int
    unit: int = 1
    fixed: int | None = None
    doc: str = ""

    @property
    def mask(self) -> int:
        return ((1 << self.width) - 1) << self.low


@dataclass(frozen=True, eq=False)
class Word:
    """A word of `bits` bits; bits that no field covers are zero."""

    name: str
    bits: int
    fields: tuple[BitField, ...]

    def __post_init__(self) -> None:
        taken = 0
        for field in self.fields:
            if taken & field.mask:
                raise ValueError(f"{self.name}: field {field.name} overlaps another")
            taken |= field.mask
        if taken >> self.bits:
            raise ValueError(f"{self.name}: fields exceed {self.bits} bits")

    def encode(self, values: Mapping[str, int]) -> int:
        """Packs values by field name, a missing one as 0; ValueError names the field that cannot hold its value."""
        word = 0
        known = {f.name for f in self.fields}
        for name in values:
            if name not in known:
                raise ValueError(
                    f"{self.name} has no field {name}; it has {', '.join(sorted(known))}"
                )
        for field in self.fields:
            if field.fixed is not None:
                word |= field.fixed << field.low
                continue
            value = int(values.get(field.name, 0))
            if value % field.unit:
                raise ValueError(
                    f"{self.name}: {field.name} {value} is no multiple of {field.unit}"
                )
            raw = value // field.unit
            if raw < 0 or raw >> field.width:
                most = ((1 << field.width) - 1) * field.unit
                raise ValueError(f"{self.name}: {field.name} is {value}, expected 0..{most}")
            word |= raw << field.low
        return word

    def decode(self, word: int) -> dict[str, int]:
        """Unpacks every field that is not fixed; raises ValueError where fixed or unused bits are wrong."""
        values: dict[str, int] = {}
        rest = word
        for field in self.fields:
            raw = (word & field.mask) >> field.low
            rest &= ~field.mask
            if field.fixed is None:
                values[field.name] = raw * field.unit
            elif raw != field.fixed:
                raise ValueError(
                    f"{self.name}: {field.name} (bits {_span(field)}) is {raw}, expected {field.fixed}"
                )
        if rest:
            raise ValueError(f"{self.name}: bits {_bits(rest)} are set, expected 0")
        return values


def _span(field: BitField) -> str:
    return f"{field.low}-{field.low + field.width - 1}" if field.width > 1 else str(field.low)


def _bits(word: int) -> str:
    return ", ".join(str(i) for i in _set_bits(word))


def _set_bits(word: int) -> Iterable[int]:
    return (i for i in range(word.bit_length()) if word >> i & 1)
