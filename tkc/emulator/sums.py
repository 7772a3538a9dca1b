"""Sums of products as tensor cores make them: the rows of `tkc.ir.isa.sums`, on matrices.

Every product is exact; all terms are aligned to the largest exponent among them and cut off some bits below it, added
exactly, and rounded once. So the result has the hardware's very bits, in any order of the terms.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tkc.emulator.lanes import F16, F32, F64, S32, U32, Vec
from tkc.emulator.rounding import NAN16, NAN32
from tkc.ir.isa.numbers import FLOATS, Rounding
from tkc.ir.isa.sums import Accumulation, accumulation, pass_of

_CELLS = 1 << 19
"""Products that are held at once."""


def _exponents(values: Vec, kind: str) -> Vec:
    """The exponent by which each number is aligned; zeros get one that never counts."""
    found = np.frexp(values)[1].astype(S32) - 1
    found = np.maximum(found, 1 - FLOATS[kind].bias)
    return np.where(values == 0, np.int32(-(1 << 20)), found)


@lru_cache(maxsize=64)
def row_of(instruction: str, kind: str, result: str) -> Accumulation | None:
    """The row of an instruction, operand type and result type; None where the hardware's sum is not known."""
    try:
        return accumulation(instruction, kind, result)
    except KeyError:
        return None


def add_products(row: Accumulation, kinds: tuple[str, str], a: Vec, b: Vec, c: Vec | None) -> Vec:
    """C + A B as float32 values of the result's type: A is (M, K), B (N, K), C (M, N) or None for zeros."""
    m, n = len(a), len(b)
    c = np.zeros((m, n), F32) if c is None else c.astype(F32)
    total = np.zeros((m, n), F32) if row.late else c
    step = max(1, _CELLS // (n * a.shape[1]))
    for which in range(row.passes):
        chosen = [k for k in range(a.shape[1]) if pass_of(k, a.shape[1], row.passes) == which]
        left, right = (a[:, chosen], b[:, chosen]) if row.passes > 1 else (a, b)
        parts = [
            _one_pass(row, kinds, left[at : at + step], right, total[at : at + step])
            for at in range(0, m, step)
        ]
        total = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if row.late:
        total = (total.astype(F64) + c).astype(F16 if row.result == "f16" else F32).astype(F32)
        nan = NAN16 if row.result == "f16" else NAN32
        total = np.where(np.isnan(total), F32.type(nan), total)
    return total


def _one_pass(row: Accumulation, kinds: tuple[str, str], a: Vec, b: Vec, c: Vec) -> Vec:
    ea, eb, ec = _exponents(a, kinds[0]), _exponents(b, kinds[1]), _exponents(c, row.result)
    top = np.maximum((ea[:, None, :] + eb[None, :, :]).max(axis=2), ec)
    top = np.maximum(top, -600)
    scale = np.ldexp(1.0, row.fraction - top)
    products = a.astype(F64)[:, None, :] * b.astype(F64)[None, :, :]
    products *= scale[:, :, None]
    whole = np.trunc(products, out=products).sum(axis=2)
    whole += np.trunc(c * scale)
    value = np.ldexp(whole, top - row.fraction)
    result = _rounded(row, value)
    if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(c).all()):
        plain = a.astype(F64) @ b.astype(F64).T + c
        nan = F32.type(NAN16 if row.result == "f16" else NAN32)
        wild = np.where(np.isnan(plain), nan, plain.astype(F32))
        result = np.where(np.isfinite(plain), result, wild)
    return result


def _rounded(row: Accumulation, value: Vec) -> Vec:
    """Float64 to what the result keeps, as float32; what is too large is infinite even if rounded toward zero."""
    if row.result == "f16":
        return value.astype(F16).astype(F32)
    nearest = value.astype(F32)
    if row.rounding is Rounding.RZ:
        away = np.abs(nearest.astype(F64)) > np.abs(value)
        largest = np.abs(value) > float(np.finfo(F32).max)
        nearest = np.where(away & ~largest, np.nextafter(nearest, F32.type(0)), nearest)
        nearest = np.where(largest, np.copysign(F32.type(np.inf), nearest), nearest)
    lost = 23 - row.mantissa
    if lost:
        nearest = (nearest.view(U32) & np.uint32(0xFFFFFFFF << lost & 0xFFFFFFFF)).view(F32)
    return nearest
