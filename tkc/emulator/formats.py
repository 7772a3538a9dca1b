"""Narrow number formats on vectors: tables from bits to float32, and rounding of floats to bits.

The formats themselves are rows of `tkc.ir.isa.numbers`; here they become tables of every code.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tkc.emulator.lanes import F32, F64, U8, Vec
from tkc.ir.isa.numbers import FLOATS, FloatFormat, Specials


class Table:
    """A format of at most 8 bits, with the value of each code."""

    def __init__(self, form: FloatFormat) -> None:
        self.form = form
        self.sign = 1 << (form.exponent + form.mantissa)

    @cached_property
    def values(self) -> Vec:
        """The float32 value of each of 256 bytes; bits above the format's are ignored."""
        made = np.array(
            [self.form.decode(code & ((1 << self.form.bits) - 1)) for code in range(256)], F32
        )
        made.flags.writeable = False
        return made

    @cached_property
    def _steps(self) -> tuple[Vec, Vec]:
        """The finite magnitudes in order, and the midpoints between neighbours."""
        codes = range(self.form.max_finite_bits + 1)
        finite = np.array([self.form.decode(code) for code in codes], F64)
        return finite, (finite[:-1] + finite[1:]) / 2

    def decode(self, codes: Vec) -> Vec:
        """Codes (uint8) to float32."""
        return self.values.take(codes)

    def encode(self, x: Vec, mode: str = "rn", satfinite: bool = True, relu: bool = False) -> Vec:
        """Floats to codes: to nearest even, toward zero (`rz`) or away from zero (`rp`, formats without sign).

        NaN becomes the format's NaN, or the largest value where it has none. With `satfinite` values beyond the range
        become the largest finite one; otherwise Inf, or NaN where there is no Inf. Signless formats drop the sign of
        what they take, and turn negative values into 0.
        """
        wide = x.astype(F64)
        magnitude = np.abs(wide)
        finite, middle = self._steps
        top = len(finite) - 1
        limit = finite[-1] + (finite[-1] - finite[-2]) / 2
        if mode == "rn":
            code = np.searchsorted(middle, magnitude, side="left")
            inside = code < top
            tie = np.zeros(code.shape, bool)
            tie[inside] = middle[code[inside]] == magnitude[inside]
            code = np.where(tie & (code & 1 == 1), code + 1, code)
            # Half a step beyond the largest value lies what would round up to a value that the format has not.
            over = magnitude >= limit if top & 1 else magnitude > limit
        elif mode == "rz":
            code = np.maximum(np.searchsorted(finite, magnitude, side="right") - 1, 0)
            over = np.isinf(magnitude)
        else:
            code = np.minimum(np.searchsorted(finite, magnitude, side="left"), top)
            over = magnitude > finite[-1]
        if not satfinite and self.form.specials is not Specials.NONE:
            code = np.where(over, top + 1, code)
        negative = np.signbit(wide)
        if self.form.signed:
            code = np.where(negative & (not relu), code | self.sign, np.where(negative, 0, code))
        else:
            code = np.where(negative, 0, code)
        nan = self.form.nan_bits
        return np.where(
            np.isnan(wide), self.form.max_finite_bits if nan is None else nan, code
        ).astype(U8)


FORMATS = {name: Table(form) for name, form in FLOATS.items() if form.bits <= 8}
