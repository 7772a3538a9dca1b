"""Which swizzle a shared tile wants, from the ways in which it is used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tkc.ir.isa.dtypes import DTYPES

SPANS: dict[str, int] = {"128B": 128, "64B": 64, "32B": 32, "none": 16}
"""Bytes of a row that one span holds, widest first; `none` is a box of 16-byte rows."""


class Use(StrEnum):
    """A way to touch a tile that has an opinion about its layout."""

    COPY = "box of the tensor copy engine"
    OPERAND = "matrix operand"
    THREADS = "loads and stores of threads"


@dataclass(frozen=True)
class Choice:
    """A swizzle, the bytes of its span, and why it was taken."""

    swizzle: str
    span: int
    why: str


def choose(dtype: str, shape: tuple[int, ...], uses: frozenset[Use]) -> Choice | None:
    """The widest swizzle whose span divides a row, since wider spans spread rows over more banks.

    None where no span divides the row's bytes: no copy of the tile by boxes exists then.
    """
    row = shape[-1] * DTYPES[dtype].bits
    if row % 8:
        return None
    row //= 8
    for swizzle, span in SPANS.items():
        if row % span == 0 and (span > 16 or Use.OPERAND not in uses):
            spread = {"128B": "8", "64B": "4", "32B": "2"}.get(swizzle, "1")
            used = ", ".join(sorted(use.value for use in uses)) or "no use"
            return Choice(
                swizzle, span, f"rows of {row} bytes; {spread} rows on distinct banks ({used})"
            )
    return None
