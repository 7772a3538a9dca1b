"""Problems for kernels of this folder: fresh random inputs, and what float64 says the outputs are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from emulator.foreign.problem import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I8,
    I32,
    U8,
    Array,
    Expected,
    Maker,
    Problem,
    poisoned,
)

from tkc.emulator.formats import FORMATS

Rng = np.random.Generator
Constants = Mapping[str, Any]

UNIT = {F32: 2.0**-24, F16: 2.0**-11, BF16: 2.0**-8, F64: 2.0**-53, E4M3: 2.0**-4, E5M2: 2.0**-3}
"""Half a unit in the last place, relative."""

DTYPES = {"fp32": F32, "fp16": F16, "bf16": BF16, "fp8e4nv": E4M3, "fp8e5": E5M2, "i8": I8}


def wide(x: Array) -> Array:
    return x.astype(np.float64)


def uniform(rng: Rng, shape: int | tuple[int, ...], dtype: Any, scale: float = 1.0) -> Array:
    """Values in [-scale, scale), none of them 0."""
    x = rng.uniform(0.01, 1.0, shape) * rng.choice([-1.0, 1.0], shape) * scale
    return x.astype(dtype)


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def updated(grid: tuple[int, ...], args: dict[str, Any], expected: dict[str, Expected]) -> Problem:
    """A problem whose outputs come with contents."""
    return Problem(grid, args, expected, frozenset(expected))


def integers_in(rng: Rng, shape: Any, low: int = -1000, high: int = 1000) -> Array:
    return rng.integers(low, high, shape, dtype=np.int32)


def int32(x: int) -> int:
    x &= 0xFFFFFFFF
    return x - (1 << 32) if x >> 31 else x


def vector_add(rng: Rng, c: Constants) -> Problem:
    n = 3 * c["BLOCK"] - 37
    x, y = uniform(rng, n, F32), uniform(rng, n, F32)
    want = Expected(wide(x) + wide(y), 2.0**-24)
    out = poisoned(n, F32)
    return Problem((3,), {"x": x, "y": y, "out": out, "n": np.int32(n)}, {"out": want})


def softmax(dtype: Any) -> Maker:
    def make(rng: Rng, c: Constants) -> Problem:
        rows, columns, stride = 5, c["BLOCK"] - 243, c["BLOCK"]
        x = uniform(rng, (rows, stride), dtype, 4)
        v = wide(x)[:, :columns]
        e = np.exp(v - v.max(1, keepdims=True))
        whole = poisoned((rows, stride), dtype)
        want = e / e.sum(1, keepdims=True)
        args = {"x": x, "out": whole, "rows": np.int32(rows), "columns": np.int32(columns)}
        args["stride"] = np.int32(stride)
        kept = np.concatenate([want, wide(whole)[:, columns:]], axis=1)
        return Problem((rows,), args, {"out": Expected(kept, 1.01 * UNIT[np.dtype(dtype)], 1e-7)})

    return make


def layer_norm(rng: Rng, c: Constants) -> Problem:
    rows, columns = 3, c["BLOCK"] - 101
    x = uniform(rng, (rows, columns), F16, 2)
    weight, bias = uniform(rng, columns, F32), uniform(rng, columns, F32)
    v = wide(x)
    mean = v.mean(1)
    rstd = 1 / np.sqrt(v.var(1) + 1e-5)
    want = (v - mean[:, None]) * rstd[:, None] * wide(weight) + wide(bias)
    args = {
        "x": x, "weight": weight, "bias": bias, "out": poisoned((rows, columns), F16),
        "mean_out": poisoned(rows, F32), "rstd_out": poisoned(rows, F32),
        "columns": np.int32(columns), "eps": np.float32(1e-5),
    }  # fmt: skip
    expected = {
        "out": Expected(want, UNIT[F16], 1e-6),
        "mean_out": Expected(mean, 1e-6, 1e-6),
        "rstd_out": Expected(rstd, 1e-6),
    }
    return Problem((rows,), args, expected)


def elementwise(rng: Rng, c: Constants) -> Problem:
    from math import erf

    n = 2 * c["BLOCK"] - 19
    x = uniform(rng, n, F32, 3)
    v = wide(x)
    a = np.sin(v) + np.cos(v) * np.exp(-v * v)
    b = np.log(1 + abs(v)) + np.sqrt(abs(v)) + np.exp2(v) - np.log2(2 + v * v)
    ceil = np.ceil((x * np.float32(1.5)).astype(np.float64))
    erfs = np.array([erf(t) for t in v])
    d = np.floor(v) - ceil + erfs + 1 / (1 + np.exp(-v)) + 1 / np.sqrt(1 + v * v)
    want = a + b * d + v * v + a + v / (1 + v * v)
    args = {"x": x, "out": poisoned(n, F32), "n": np.int32(n)}
    return Problem((2,), args, {"out": Expected(want, 2e-6, 1e-6)})


def integers(rng: Rng, c: Constants) -> Problem:
    n = 2 * c["BLOCK"] - 19
    limits = np.iinfo(np.int32)
    x = rng.integers(limits.min, limits.max, n, dtype=np.int32)
    y = rng.integers(1, 1000, n, dtype=np.int32) * rng.choice([-1, 1], n).astype(np.int32)
    a, b = x.astype(np.int64), y.astype(np.int64)
    quotient = np.trunc(a / b).astype(np.int64)
    high = (x.astype(np.uint32).astype(object) * y.astype(np.uint32).astype(object)) >> 32
    total = quotient + (a - quotient * b) + (a >> 3) + ((a ^ b) & 0x55) + (b << 2)
    total = total + np.array([int(h) for h in high], np.int64)
    total = total + np.minimum(a, b) * 7 + np.maximum(a, -b)
    product = a * b
    third = np.abs(product) // 3 * np.sign(product)
    want = (total + third).astype(np.int64).astype(np.int32)
    args = {"x": x, "y": y, "out": poisoned(n, I32), "n": np.int32(n)}
    return Problem((2,), args, {"out": Expected(want)})


def random_numbers(rng: Rng, c: Constants) -> Problem:
    """Philox 4x32-10, as Triton's tl.rand defines it."""
    n, seed = 2 * c["BLOCK"] - 5, int(rng.integers(1 << 31))
    i = np.arange(n, dtype=np.uint64)
    zero = np.zeros(n, np.uint64)
    c0, c1, c2, c3 = i, zero, zero, zero
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(0)
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & low, (a >> 32) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & low, (k1 + np.uint64(0xBB67AE85)) & low
    signed = c0.astype(np.uint32).view(np.int32).astype(np.int64)
    folded = np.where(signed < 0, -signed - 1, signed)
    want = folded.astype(np.float32).astype(np.float64) * 4.6566127342e-10
    args = {"out": poisoned(n, F32), "seed": np.int32(seed), "n": np.int32(n)}
    return Problem((2,), args, {"out": Expected(want, 1e-6)})


def scan_and_sort(rng: Rng, c: Constants) -> Problem:
    rows, block = 2, c["BLOCK"]
    x = rng.permutation(rows * block).reshape(rows, block).astype(np.int32) * 3 - 700
    args = {
        "x": x, "sums": poisoned(x.shape, I32), "ordered": poisoned(x.shape, I32),
        "index": poisoned(rows, I32),
    }  # fmt: skip
    expected = {
        "sums": Expected(np.cumsum(x, 1)),
        "ordered": Expected(np.sort(x, 1)),
        "index": Expected(x.argmax(1)),
    }
    return Problem((rows,), args, expected)


def histogram(rng: Rng, c: Constants) -> Problem:
    n = 2 * c["BLOCK"] - 3
    x = rng.integers(1, c["BINS"], n, dtype=np.int32)
    counts = rng.integers(1, 9, c["BINS"], dtype=np.int32)
    total = np.array([5], np.int32)
    want = counts + np.bincount(x, minlength=c["BINS"])
    # The lanes beyond the end count as 0.
    want[0] += 2 * c["BLOCK"] - n
    args = {"x": x, "counts": counts, "total": total, "n": np.int32(n)}
    expected = {"counts": Expected(want), "total": Expected(np.array([max(5, x.max())]))}
    return Problem((2,), args, expected, frozenset({"counts", "total"}))


def transpose(rng: Rng, c: Constants) -> Problem:
    rows, columns = c["BLOCK_M"] + 13, c["BLOCK_N"] + 5
    x = uniform(rng, (rows, columns), F16)
    args = {
        "x": x, "out": poisoned((columns, rows), F16), "rows": np.int32(rows),
        "columns": np.int32(columns),
    }  # fmt: skip
    return Problem((2, 2), args, {"out": Expected(x.T)})


def casts(rng: Rng, c: Constants) -> Problem:
    n = 2 * c["BLOCK"] - 11
    x = uniform(rng, n, F32, 100)
    args: dict[str, Any] = {"x": x, "n": np.int32(n)}
    kinds = {"as_half": F16, "as_bf16": BF16, "as_e4m3": E4M3, "as_e5m2": E5M2}
    expected = {name: Expected(x.astype(kind)) for name, kind in kinds.items()}
    expected["as_int"] = Expected(np.trunc(x).astype(np.int8))
    expected["back"] = Expected(x.astype(E4M3).astype(F32))
    for name, one in expected.items():
        args[name] = poisoned(n, one.values.dtype)
    return Problem((2,), args, expected)


def sum_rows(rng: Rng, c: Constants) -> Problem:
    rows, columns = 3, 2 * c["BLOCK"] + 77
    x = uniform(rng, (rows, columns), F32)
    args = {
        "x": x, "out": poisoned(rows, F32), "rows": np.int32(rows), "columns": np.int32(columns),
    }  # fmt: skip
    return Problem((rows,), args, {"out": Expected(wide(x).sum(1), 0, 1e-5)})


def lock_counter(rng: Rng, c: Constants) -> Problem:
    start, n = int(rng.integers(1, 100)), 3
    args = {"lock": np.zeros(1, I32), "value": np.array([start], I32), "n": np.int32(n)}
    expected = {"lock": Expected(np.zeros(1)), "value": Expected(np.array([start + 4 * n]))}
    return Problem((4,), args, expected, frozenset(expected))


# Matrix products


def matrix(rng: Rng, shape: tuple[int, int], dtype: Any) -> Array:
    if np.dtype(dtype) == I8:
        return rng.integers(-100, 100, shape, dtype=np.int8)
    return uniform(rng, shape, dtype)


def tolerance(kind: str, out: Any) -> tuple[float, float]:
    """(relative, absolute) of a product: the output's rounding, tf32's, and that of the sums."""
    out_unit = 0.0 if np.dtype(out) == I32 else 1.01 * UNIT[np.dtype(out)]
    return out_unit, {"fp32": 2.5e-3}.get(kind, 0.0 if kind == "i8" else 3e-6)


def product(a: Array, b: Array, kind: str, out: Any) -> Expected:
    """A B; the tensor core of sm_90 keeps 13 bits of each sum of fp8 products."""
    slack: Array | float = 0.0
    if kind.startswith("fp8"):
        slack = 2.0**-12 * (abs(wide(a)) @ abs(wide(b)))
    return Expected(wide(a) @ wide(b), *tolerance(kind, out), slack)


def matmul(
    kind: str, out: Any, m: int, n: int, k: int, trans_a: bool = False, trans_b: bool = False
) -> Maker:
    """C = A B of any sizes; `trans` says that an operand lies with its other axis contiguous."""

    def make(rng: Rng, c: Constants) -> Problem:
        dtype = DTYPES[kind]
        a = matrix(rng, (k, m) if trans_a else (m, k), dtype)
        b = matrix(rng, (n, k) if trans_b else (k, n), dtype)
        one, two = (a.T if trans_a else a), (b.T if trans_b else b)
        result = poisoned((m, n), out)
        strides = {
            "sam": one.strides[0], "sak": one.strides[1], "sbk": two.strides[0],
            "sbn": two.strides[1],
        }  # fmt: skip
        args: dict[str, Any] = {"a": a, "b": b, "c": result}
        args |= {name: np.int32(s // dtype.itemsize) for name, s in strides.items()}
        args |= {"scm": np.int32(n), "scn": np.int32(1)}
        args |= {"M": np.int32(m), "N": np.int32(n), "K": np.int32(k)}
        grid = (cdiv(m, c["BM"]) * cdiv(n, c["BN"]),)
        return Problem(grid, args, {"c": product(one, two, kind, out)})

    return make


def matmul_descriptors(
    kind: str, out: Any, m: int, n: int, k: int, persistent: bool = False
) -> Maker:
    """C = A B^T through tensor maps, given or made by the kernel."""

    def make(rng: Rng, c: Constants) -> Problem:
        dtype = DTYPES[kind]
        a, b = matrix(rng, (m, k), dtype), matrix(rng, (n, k), dtype)
        args: dict[str, Any] = {"a": a, "b": b, "c": poisoned((m, n), out)}
        args |= {"M": np.int32(m), "N": np.int32(n), "K": np.int32(k)}
        grid = (c["SMS"],) if persistent else (cdiv(m, c["BM"]), cdiv(n, c["BN"]))
        return Problem(grid, args, {"c": product(a, b.T, kind, out)})

    return make


def _narrow(rng: Rng, rows: int, k: int, form: str) -> tuple[Array, Array]:
    """(the array a kernel gets, its values) of e4m3, e5m2 or packed e2m1."""
    if form == "e2m1":
        codes = rng.integers(0, 16, (rows, k), dtype=np.uint8)
        packed = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
        return packed, FORMATS["e2m1"].decode(codes).astype(np.float64)
    x = uniform(rng, (rows, k), DTYPES[{"e4m3": "fp8e4nv", "e5m2": "fp8e5", "bf16": "bf16"}[form]])
    return x, wide(x)


def _scales(rng: Rng, rows: int, count: int, vec: int) -> tuple[Array, Array]:
    if vec == 16:
        x = rng.uniform(0.25, 4, (rows, count)).astype(E4M3)
        return x, wide(x)
    codes = rng.integers(122, 131, (rows, count), dtype=np.uint8)
    return codes.astype(U8), 2.0 ** (codes.astype(np.float64) - 127)


def matmul_scaled(form_a: str, form_b: str, m: int, n: int, k: int) -> Maker:
    """C = (A sA) (B sB)^T with a scale for each VEC elements of K."""

    def make(rng: Rng, c: Constants) -> Problem:
        vec = c["VEC"]
        a, value_a = _narrow(rng, m, k, form_a)
        b, value_b = _narrow(rng, n, k, form_b)
        sa, scale_a = _scales(rng, m, k // vec, vec)
        sb, scale_b = _scales(rng, n, k // vec, vec)
        want = (value_a * np.repeat(scale_a, vec, 1)) @ (value_b * np.repeat(scale_b, vec, 1)).T
        args: dict[str, Any] = {"a": a, "sa": sa, "b": b, "sb": sb, "c": poisoned((m, n), F32)}
        args |= {"M": np.int32(m), "N": np.int32(n), "K": np.int32(k)}
        return Problem(
            (cdiv(m, c["BM"]), cdiv(n, c["BN"])), args, {"c": Expected(want, 1e-6, 1e-6)}
        )

    return make


def attention(kind: str, heads: int, tokens: int) -> Maker:
    def make(rng: Rng, c: Constants) -> Problem:
        dtype, d = DTYPES[kind], c["D"]
        q, k, v = (uniform(rng, (heads, tokens, d), dtype, 2) for _ in range(3))
        scale = np.float32(1 / np.sqrt(d))
        s = float(scale) * np.einsum("htd,hsd->hts", wide(q), wide(k))
        if c["CAUSAL"]:
            s = np.where(np.tril(np.ones((tokens, tokens), bool)), s, -np.inf)
        top = s.max(2, keepdims=True)
        p = np.exp(s - top)
        total = p.sum(2, keepdims=True)
        want = np.einsum("hts,hsd->htd", p / total, wide(v))
        lse = (top + np.log(total))[..., 0] / np.log(2)
        flat = lambda x: x.reshape(heads * tokens, -1)  # noqa: E731
        args = {
            "q": flat(q), "k": flat(k), "v": flat(v),
            "out": poisoned((heads * tokens, d), dtype),
            "lse": poisoned((heads, tokens), F32), "scale": scale, "T": np.int32(tokens),
        }  # fmt: skip
        unit = UNIT[dtype]
        expected = {"out": Expected(flat(want), 2 * unit, unit), "lse": Expected(lse, 1e-5, 1e-5)}
        return Problem((cdiv(tokens, c["BM"]), heads), args, expected)

    return make
