"""Which swizzle a shared tile wants, from the ways in which it is used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tkc.ir.isa.dtypes import DTYPES
from tkc.ir.isa.layouts import PADDED, SHORT, SHORT_SPAN, SWIZZLES

SPANS: dict[str, int] = {s: SWIZZLES[s].span for s in ("128B", "64B", "32B", "none")}
"""Bytes of a row that one span holds, widest first; `none` is a box of 16-byte rows."""

ATOMS_32 = "128B_atom_32B"
"""What a 32-bit operand that is M- or N-major must have, and nothing else may (PTX: tcgen05 canonical layouts)."""


PADDED_ROW = 128
"""Elements of a row that one box of the copy engine holds where it pads them (PTX: tensor sub-byte types)."""


class Use(StrEnum):
    """A way to touch a tile that has an opinion about its layout."""

    COPY = "box of the tensor copy engine"
    OPERAND = "matrix operand"
    ACROSS = "matrix operand, contiguous across the contracted axis"
    THREADS = "loads and stores of threads"
    ELEMENTS = "loads and stores of single elements"


@dataclass(frozen=True)
class Choice:
    """A swizzle, the bytes of its span, and why it was taken."""

    swizzle: str
    span: int
    why: str


def choose(
    dtype: str, shape: tuple[int, ...], uses: frozenset[Use], padded: bool = False, step: int = 0
) -> Choice | None:
    """The widest swizzle whose span divides a row: fewest boxes for the copy engine, fewest steps for a thread.

    With each of them eight threads on neighbouring rows touch every bank once.
    None where no span divides the row's bytes: no copy of the tile by boxes exists then. Elements that are `padded` to
    a byte have one layout. `step` is the bytes of K that each product takes, where they are to lie in one span.
    """
    if padded:
        told = f"rows of {shape[-1]} elements, each padded to a byte"
        return None if shape[-1] % PADDED_ROW else Choice(PADDED, SWIZZLES["128B"].span, told)
    row = shape[-1] * DTYPES[dtype].bits
    if row % 8:
        return None
    row //= 8
    if Use.ACROSS in uses and DTYPES[dtype].bits == 32:
        if row % 128:
            return None
        return Choice(ATOMS_32, 128, f"rows of {row} bytes; a 32-bit operand that is not K-major")
    if len(shape) == 1:
        if uses == {Use.ELEMENTS}:
            return Choice("none", DTYPES[dtype].bits // 8, f"a vector of {row} bytes, by elements")
        return None if row % 16 else Choice("none", 16, f"a vector of {row} bytes, in a row")
    if step and SHORT_SPAN % step == 0 and row % SHORT_SPAN == 0 and SPANS["128B"] % step:
        told = f"rows of {row} bytes, {SHORT_SPAN} in each span of 128, for products of {step} bytes of K"
        return Choice(SHORT, SHORT_SPAN, told)
    for swizzle, span in SPANS.items():
        if row % span == 0 and (span > 16 or not uses & {Use.OPERAND, Use.ACROSS}):
            used = ", ".join(sorted(use.value for use in uses)) or "no use"
            spans = f"{row // span} span{'s' * (row > span)} of {span}"
            return Choice(swizzle, span, f"rows of {row} bytes in {spans} ({used})")
    return None
