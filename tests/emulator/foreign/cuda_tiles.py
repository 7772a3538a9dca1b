"""Problems for the kernels of `cuda/tiles.cu`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from emulator.foreign.problem import (
    BF16,
    E4M3,
    E5M2,
    F16,
    F32,
    F64,
    I32,
    U16,
    Expected,
    Problem,
    poisoned,
)
from emulator.foreign.references import Rng, integers_in, uniform, updated, wide


def wmma(
    kind: Any, acc: Any, shape: tuple[int, int, int], a_row: bool, b_row: bool
) -> Callable[[Rng], Problem]:
    def make(rng: Rng) -> Problem:
        m, n, k = 2 * shape[0], 3 * shape[1], 3 * shape[2]
        integer = np.dtype(kind).kind in "iu"
        low = -100 if np.dtype(kind).kind == "i" else 0
        a, b = (
            rng.integers(low, 120, s).astype(kind) if integer else uniform(rng, s, kind)
            for s in ((m, k), (k, n))
        )
        c = integers_in(rng, (m, n)).astype(acc) if integer else uniform(rng, (m, n), acc)
        unit = 2.0**-10 if np.dtype(acc) == F16 else 2e-3 if shape[2] == 8 else 1e-6
        want = Expected(wide(a) @ wide(b) + 2 * wide(c), 0, 0 if integer else 2 * unit)
        args = {
            "a": a if a_row else np.ascontiguousarray(a.T), "b": b if b_row else np.ascontiguousarray(b.T), "c": c,
            "m": np.int32(m), "n": np.int32(n), "k": np.int32(k),
        }  # fmt: skip
        return updated((3,), args, {"c": want})

    return make


def mma_bf16(rng: Rng) -> Problem:
    m, n, k = 100, 72, 96
    a, b = uniform(rng, (m, k), BF16), uniform(rng, (n, k), BF16)
    args = {
        "a": a,
        "b": b,
        "c": poisoned((m, n), BF16),
        "m": np.int32(m),
        "n": np.int32(n),
        "k": np.int32(k),
    }
    return Problem((2, 2), args, {"c": Expected(wide(a) @ wide(b).T, 2.0**-8, 1e-6)})


def mma_narrow(rng: Rng) -> Problem:
    # Codes without NaN and infinity in either format.
    a8, b8 = (rng.integers(0, 0x78, (rows, 32), dtype=np.uint8) for rows in (16, 8))
    a8[::2] |= 0x80
    a16, b16 = uniform(rng, (16, 8), F16), uniform(rng, (8, 8), F16)
    c = uniform(rng, (16, 8), F32)
    start = np.array([[1, 2], [3, 4]])[np.arange(16)[:, None] // 8, np.arange(8)[None, :] % 2]
    signed_a, signed_b = a8.view(np.int8).astype(np.int64), b8.view(np.int8).astype(np.int64)
    wants = {
        "fp8": wide(a8.view(E4M3)) @ wide(b8.view(E5M2)).T + wide(c),
        "int8": start + signed_a @ b8.astype(np.int64).T,
        "half8": wide(a16) @ wide(b16).T + wide(c),
        "mixed": a8[:, :16].astype(np.int64) @ signed_b[:, :16].T,
    }
    args: dict[str, Any] = {"a8": a8, "b8": b8, "a16": a16, "b16": b16, "c": c}
    for name, want in wants.items():
        args[name] = poisoned(want.shape, I32 if want.dtype.kind == "i" else F32)
    return Problem(
        (1,),
        args,
        {n: Expected(w, 0, 1e-6 if w.dtype.kind == "f" else 0) for n, w in wants.items()},
    )


def mma_double(rng: Rng) -> Problem:
    a, b, c = uniform(rng, (8, 16), F64), uniform(rng, (8, 16), F64), uniform(rng, (8, 8), F64)
    return updated((1,), {"a": a, "b": b, "c": c}, {"c": Expected(a @ b.T + c, 0, 1e-15)})


def matrix_moves(rng: Rng) -> Problem:
    x = rng.integers(0, 1 << 16, (4, 8, 8), dtype=np.uint16)
    turned = np.ascontiguousarray(x.transpose(0, 2, 1))
    args: dict[str, Any] = {"x": x}
    wants = {"plain": x, "turned": turned, "moved": turned, "stored": x}
    for name in wants:
        args[name] = poisoned(x.shape, U16)
    return Problem((1,), args, {name: Expected(want) for name, want in wants.items()})
