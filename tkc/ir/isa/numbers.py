"""Number formats: bits to value exactly, and value to bits under every rounding and saturation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Specials(StrEnum):
    """Which bit patterns are no finite numbers."""

    IEEE = "ieee"
    """All exponent bits set: infinity without, NaN with mantissa bits."""
    NAN = "nan"
    """Every bit but the sign set is NaN; there is no infinity."""
    NONE = "none"
    """Every pattern is a finite number."""


class Rounding(StrEnum):
    """PTX's rounding modifiers of conversions to floats."""

    RN = "rn"
    """To nearest, ties to even."""
    RNA = "rna"
    """To nearest, ties away from zero."""
    RZ = "rz"
    RM = "rm"
    RP = "rp"


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float of `bits` bits: sign (if `signed`), `exponent` bits biased by `bias`, `mantissa` bits.

    `subnormals` False means that exponent 0 is an ordinary one (ue8m0). `padding` low bits of the word are ignored on
    reading and zero on writing (tf32 in 32 bits).
    """

    name: str
    bits: int
    exponent: int
    mantissa: int
    bias: int
    specials: Specials
    signed: bool = True
    subnormals: bool = True
    padding: int = 0

    def __post_init__(self) -> None:
        used = int(self.signed) + self.exponent + self.mantissa + self.padding
        if used > self.bits:
            raise ValueError(f"{self.name}: {used} bits in a word of {self.bits}")

    @property
    def _sign_bit(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def max_finite_bits(self) -> int:
        """The pattern of the largest finite number, without padding."""
        top = self._sign_bit - 1
        if self.specials is Specials.IEEE:
            return top - (1 << self.mantissa)
        return top - 1 if self.specials is Specials.NAN else top

    @property
    def nan_bits(self) -> int | None:
        """The NaN that conversions make, without padding; None where there is none."""
        return None if self.specials is Specials.NONE else self._sign_bit - 1

    @property
    def max_finite(self) -> float:
        return self.decode(self.max_finite_bits << self.padding)

    @property
    def smallest(self) -> float:
        """The smallest number above zero."""
        lowest = 1 - self.bias if self.subnormals else -self.bias
        return math.ldexp(1.0, lowest - self.mantissa)

    def decode(self, word: int) -> float:
        """The value of a word, exactly (every format here fits a double); bits beyond the format are ignored."""
        word >>= self.padding
        sign = -1.0 if self.signed and word & self._sign_bit else 1.0
        magnitude = word & (self._sign_bit - 1)
        if magnitude > self.max_finite_bits:
            if self.specials is Specials.IEEE and magnitude == self.max_finite_bits + 1:
                return sign * math.inf
            return math.nan
        field, fraction = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        if field == 0 and self.subnormals:
            return sign * math.ldexp(fraction, 1 - self.bias - self.mantissa)
        return sign * math.ldexp(fraction | 1 << self.mantissa, field - self.bias - self.mantissa)

    def encode(self, value: float, rounding: Rounding = Rounding.RN, saturate: bool = False) -> int:
        """The word for `value`, as `cvt` makes it.

        Beyond the largest finite number the result is that number with `saturate`, or where the format has no
        infinity and no NaN, or where the rounding points inward; otherwise infinity, or NaN where there is no infinity.
        NaN becomes the format's NaN, or its largest number where there is none. An unsigned format drops the sign.
        """
        if math.isnan(value):
            nan = self.nan_bits
            return (self.max_finite_bits if nan is None else nan) << self.padding
        negative = math.copysign(1.0, value) < 0
        sign = self._sign_bit if negative and self.signed else 0
        inward = rounding is Rounding.RZ or rounding is (Rounding.RP if negative else Rounding.RM)
        outward = rounding is (Rounding.RM if negative else Rounding.RP)
        if math.isinf(value):
            magnitude = self.max_finite_bits if saturate else self._overflow()
        else:
            magnitude = self._round(abs(value), rounding, inward, outward)
            if magnitude > self.max_finite_bits:
                magnitude = self.max_finite_bits if saturate or inward else self._overflow()
        return (sign | magnitude) << self.padding

    def _overflow(self) -> int:
        if self.specials is Specials.NONE:
            return self.max_finite_bits
        return self.max_finite_bits + 1

    def _round(self, value: float, rounding: Rounding, inward: bool, outward: bool) -> int:
        """Sign-less pattern of a finite value; may lie beyond `max_finite_bits`, where it keeps counting up."""
        if value == 0:
            return 0
        fraction, power = math.frexp(value)
        significand, power = int(math.ldexp(fraction, 53)), power - 53
        lowest = 1 - self.bias if self.subnormals else -self.bias
        exponent = max(power + 52, lowest)
        drop = exponent - self.mantissa - power
        if drop <= 0:
            kept = significand << -drop
        else:
            kept, rest = significand >> drop, significand & ((1 << drop) - 1)
            half = 1 << (drop - 1)
            up = (
                rest > 0
                if outward
                else not inward
                and (rest > half or (rest == half and (rounding is Rounding.RNA or kept & 1)))
            )
            kept += up
        if self.subnormals:
            return kept + ((exponent - lowest) << self.mantissa)
        return max(kept + ((exponent - lowest) << self.mantissa) - (1 << self.mantissa), 0)


@dataclass(frozen=True, slots=True)
class IntegerFormat:
    """An integer of `bits` bits, two's complement if `signed`; `fraction` low bits lie behind the point (s2f6)."""

    name: str
    bits: int
    signed: bool
    fraction: int = 0

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest raw integer."""
        if self.signed:
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def decode(self, word: int) -> float | int:
        """The value of a word: an int, or a float where there are bits behind the point."""
        word &= (1 << self.bits) - 1
        if self.signed and word >> (self.bits - 1):
            word -= 1 << self.bits
        return word / (1 << self.fraction) if self.fraction else word

    def encode(self, value: float, rounding: Rounding = Rounding.RZ, saturate: bool = True) -> int:
        """The word for `value`: NaN becomes 0; beyond the limits it saturates, or wraps without `saturate`."""
        if math.isnan(value):
            return 0
        low, high = self.limits
        if math.isinf(value):
            return (high if value > 0 else low) & ((1 << self.bits) - 1)
        raw = round_to_integer(value * (1 << self.fraction), rounding)
        if saturate:
            raw = min(max(raw, low), high)
        return raw & ((1 << self.bits) - 1)


def round_to_integer(value: float, rounding: Rounding) -> int:
    """The integer that a finite value rounds to (`.rni` is RN, `.rzi` RZ, `.rmi` RM, `.rpi` RP)."""
    match rounding:
        case Rounding.RZ:
            return math.trunc(value)
        case Rounding.RM:
            return math.floor(value)
        case Rounding.RP:
            return math.ceil(value)
        case Rounding.RN:
            return round(value)
        case Rounding.RNA:
            below = math.trunc(value)
            return below + (int(math.copysign(1, value)) if abs(value - below) >= 0.5 else 0)


FLOATS: Mapping[str, FloatFormat] = {
    f.name: f
    for f in (
        FloatFormat("f64", 64, 11, 52, 1023, Specials.IEEE),
        FloatFormat("f32", 32, 8, 23, 127, Specials.IEEE),
        FloatFormat("tf32", 32, 8, 10, 127, Specials.IEEE, padding=13),
        FloatFormat("f16", 16, 5, 10, 15, Specials.IEEE),
        FloatFormat("bf16", 16, 8, 7, 127, Specials.IEEE),
        FloatFormat("e4m3", 8, 4, 3, 7, Specials.NAN),
        FloatFormat("e5m2", 8, 5, 2, 15, Specials.IEEE),
        FloatFormat("e3m2", 6, 3, 2, 3, Specials.NONE),
        FloatFormat("e2m3", 6, 2, 3, 1, Specials.NONE),
        FloatFormat("e2m1", 4, 2, 1, 1, Specials.NONE),
        FloatFormat("ue8m0", 8, 8, 0, 127, Specials.NAN, signed=False, subnormals=False),
        FloatFormat("ue4m3", 8, 4, 3, 7, Specials.NAN, signed=False),
        FloatFormat("ue5m3", 8, 5, 3, 15, Specials.NAN, signed=False),
    )
}
"""By the name that dtypes and tensor-core rows use."""

INTEGERS: Mapping[str, IntegerFormat] = {
    f.name: f
    for f in (
        *(
            IntegerFormat(f"{'su'[u]}{bits}", bits, not u)
            for bits in (4, 8, 16, 32, 64)
            for u in (0, 1)
        ),
        IntegerFormat("s2f6", 8, True, 6),
    )
}


def number_format(name: str) -> FloatFormat | IntegerFormat:
    """The format called `name`; raises KeyError for none."""
    return FLOATS[name] if name in FLOATS else INTEGERS[name]
