"""How tensor cores add: what an instruction keeps of a sum of products, as found on an H200.

An instruction forms every product exactly, aligns all of them and the accumulator to the largest exponent among them,
cuts each off `fraction` bits below that exponent, adds what is left exactly, and rounds once. So the order of the terms
does not matter, and terms far below the largest are lost. The manual promises none of this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tkc.ir.isa.numbers import FLOATS, Rounding

CANONICAL_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}
"""The NaN that tensor cores make, whatever the operands' payloads were."""


class Accumulation(NamedTuple):
    """The sum of one instruction on sm_90: operands of types `inputs`, accumulator and result of type `result`.

    `mantissa` is what the result keeps, below what its type could hold for fp8 (13 of 23 bits). `passes` splits K: each
    pass is a sum of its own that starts from the one before. `late`: the passes start from 0, and C is added at
    the end, rounded to nearest (mma.sync on fp8, which converts its operands to f16).
    """

    instruction: str
    inputs: frozenset[str]
    result: str
    fraction: int
    mantissa: int
    rounding: Rounding
    passes: int = 1
    late: bool = False


_HALF = frozenset({"f16", "bf16", "tf32"})
_FP8 = frozenset({"e4m3", "e5m2"})

ACCUMULATIONS = (
    Accumulation("wgmma", _HALF, "f32", 25, 23, Rounding.RZ),
    Accumulation("wgmma", _HALF, "f16", 25, 10, Rounding.RN),
    Accumulation("wgmma", _FP8, "f32", 13, 13, Rounding.RZ),
    Accumulation("wgmma", _FP8, "f16", 13, 10, Rounding.RN),
    Accumulation("mma.sync", _HALF, "f32", 25, 23, Rounding.RZ),
    Accumulation("mma.sync", _HALF, "f16", 25, 10, Rounding.RN),
    Accumulation("mma.sync", _FP8, "f32", 25, 23, Rounding.RZ, 2, True),
    Accumulation("mma.sync", _FP8, "f16", 25, 10, Rounding.RN, 2, True),
)


def accumulation(instruction: str, a: str, result: str) -> Accumulation:
    """The row of `wgmma` or `mma.sync` for an operand type and a result type; raises KeyError where there is none."""
    for row in ACCUMULATIONS:
        if row.instruction == instruction and a in row.inputs and row.result == result:
            return row
    raise KeyError(f"{instruction} has no sum of {a} in {result}")


def exponent(value: float, type_name: str) -> int:
    """The exponent by which a finite number other than 0 is aligned: subnormals have that of the least normal one."""
    return max(math.frexp(value)[1] - 1, 1 - FLOATS[type_name].bias)


def pass_of(k: int, depth: int, passes: int) -> int:
    """In which pass the product at index `k` of `depth` is added: of four neighbours, the first two come first."""
    return 0 if passes == 1 or depth < 4 else k % 4 // (4 // passes)


def add_products(
    row: Accumulation, types: tuple[str, str], a: Sequence[float], b: Sequence[float], c: float
) -> float:
    """The sum of a[k] * b[k] and c as the hardware makes it; NaN stands for the canonical one."""
    total = 0.0 if row.late else c
    for step in range(row.passes):
        chosen = [k for k in range(len(a)) if pass_of(k, len(a), row.passes) == step]
        total = _one_pass(row, types, [a[k] for k in chosen], [b[k] for k in chosen], total)
    if row.late:
        kept = FLOATS[row.result]
        return kept.decode(kept.encode(total + c)) if math.isfinite(total + c) else total + c
    return total


def _one_pass(
    row: Accumulation, types: tuple[str, str], a: Sequence[float], b: Sequence[float], c: float
) -> float:
    products = [
        x * y if math.isfinite(x) and math.isfinite(y) else _wild(x, y)
        for x, y in zip(a, b, strict=True)
    ]
    if not all(map(math.isfinite, (*products, c))):
        return _wild_sum((*products, c))
    aligned = [
        (p, exponent(x, types[0]) + exponent(y, types[1]))
        for p, x, y in zip(products, a, b, strict=True)
        if p
    ]
    if c:
        aligned.append((c, exponent(c, row.result)))
    if not aligned:
        return 0.0
    top = max(e for _, e in aligned)
    total = sum(math.trunc(math.ldexp(p, row.fraction - top)) for p, _ in aligned)
    return _rounded(row, total, top - row.fraction)


def _wild(x: float, y: float) -> float:
    return math.nan if math.isnan(x) or math.isnan(y) or x == 0 or y == 0 else x * y


def _wild_sum(terms: Sequence[float]) -> float:
    infinite = {t for t in terms if not math.isfinite(t)}
    return infinite.pop() if len(infinite) == 1 and not any(map(math.isnan, infinite)) else math.nan


def _rounded(row: Accumulation, total: int, scale: int) -> float:
    """`total` * 2**scale to the result's type; what is too large becomes infinite even if rounded toward zero."""
    kept = FLOATS[row.result]
    size = abs(total)
    lowest = 1 - kept.bias - row.mantissa
    drop = max(size.bit_length() - 1 - row.mantissa, lowest - scale, 0)
    whole, rest = size >> drop, size & ((1 << drop) - 1)
    if row.rounding is Rounding.RN and drop:
        half = 1 << (drop - 1)
        whole += rest > half or (rest == half and whole & 1 == 1)
    value = math.ldexp(whole, scale + drop)
    return math.copysign(math.inf if value > kept.max_finite else value, total)
