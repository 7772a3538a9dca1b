"""Problems for the kernels of `cuda/hopper.cu` and `cuda/blackwell.cu`, which drive the engines by inline PTX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from emulator.foreign.problem import (
    BF16,
    F16,
    F32,
    I8,
    I32,
    U8,
    U32,
    Array,
    Expected,
    Problem,
    poisoned,
)
from emulator.foreign.references import Rng, cdiv, integers_in, uniform, wide

from tkc.emulator import Poisoned, TensorMap
from tkc.ir.isa.fragments import TENSOR_MOVES, accumulator_layout


def _map(
    array: Array, box: list[int], dtype: str, swizzle: str = "none", fresh: bool = False
) -> TensorMap:
    return TensorMap(
        Poisoned(array) if fresh else array,
        dtype=dtype,
        sizes=array.shape[::-1],
        strides=list(array.strides[-2::-1]),
        box=box,
        swizzle=swizzle,
    )


def wgmma_bf16(rng: Rng) -> Problem:
    m, n, k = 128, 100, 200
    a, b = uniform(rng, (m, k), BF16), uniform(rng, (n, k), BF16)
    c = uniform(rng, (m, n), F32)
    want = Expected(wide(a) @ wide(b).T + wide(c), 0, 1e-6)
    args = {
        "a": _map(a, [64, 64], "bf16", "128B"), "b": _map(b, [64, 32], "bf16", "128B"),
        "c": _map(c, [32, 64], "f32"), "k": np.int32(k),
    }  # fmt: skip
    return Problem((1, cdiv(n, 64)), args, {"c": want}, outputs={"c": c})


def wgmma_registers(rng: Rng) -> Problem:
    a, b = uniform(rng, (64, 32), F16), uniform(rng, (32, 32), F16)
    args = {"a": a, "b": b, "c": poisoned((64, 32), F16)}
    return Problem((1,), args, {"c": Expected(-(wide(a) @ wide(b)), 2.0**-9, 1e-3)})


def copy_box(rng: Rng) -> Problem:
    x = integers_in(rng, (3, 9, 20), 1, 99)
    out = poisoned((3, 9, 20), I32)
    moved = np.zeros((4, 13, 28), np.int64)
    moved[:3, 1:10, 4:24] = x
    want = moved * 3 + 1
    shifted = np.zeros(out.shape, np.int64)
    for i in range(cdiv(9, 6)):
        for j in range(cdiv(20, 8)):
            rows, columns = slice(6 * i, min(6 * i + 6, 9)), slice(8 * j, min(8 * j + 8, 20))
            shifted[:, rows, columns] = want[:3, rows, columns]
    args = {"from": _map(x, [8, 6, 2], "i32"), "to": _map(out, [8, 6, 2], "i32", fresh=True)}
    return Problem((3, 2, 2), args, {"to": Expected(shifted)}, outputs={"to": out})


# tcgen05


def multiply(m: int, ws: bool) -> Callable[[Rng], Problem]:
    """All of tensor memory: the lanes and columns that the accumulator has not are zero."""

    def make(rng: Rng) -> Problem:
        a, b = uniform(rng, (m, 32), BF16), uniform(rng, (64, 32), BF16)
        product = wide(a) @ wide(b).T
        want = np.zeros((128, 64))
        layout = accumulator_layout(m, 1, ws)
        for row in range(m):
            for column in range(64):
                _, lane, at = layout.place(row, column, 64)
                want[lane, at] = product[row, column]
        d = poisoned((128, 64), F32)
        return Problem((1,), {"a": a, "b": b, "d": d}, {"d": Expected(want, 0, 1e-6)})

    return make


def mma_places(rng: Rng) -> Problem:
    a, b = uniform(rng, (128, 32), F16), uniform(rng, (32, 32), F16)
    c = uniform(rng, (128, 32), F32)
    a8, b8 = (
        rng.integers(-128, 128, (128, 32)).astype(I8),
        rng.integers(0, 256, (32, 32)).astype(U8),
    )
    a32, b32 = uniform(rng, (128, 8), F32), uniform(rng, (32, 8), F32)
    d = wide(c) / 4 - wide(a) @ wide(b).T
    d[96:] = c[96:]
    wants = {
        "d": Expected(d, 0, 1e-6),
        "d8": Expected(a8.astype(np.int64) @ b8.astype(np.int64).T),
        "d32": Expected(wide(a32) @ wide(b32).T, 0, 3e-3),
    }
    args = {
        "a": a, "b": b, "c": c, "d": poisoned((128, 32), F32), "a8": a8, "b8": b8,
        "d8": poisoned((128, 32), I32), "a32": a32, "b32": b32, "d32": poisoned((128, 32), F32),
    }  # fmt: skip
    return Problem((1,), args, wants)


def tensor_moves(rng: Rng) -> Problem:
    x = rng.integers(1, 1 << 32, (128, 8), dtype=np.uint32)
    rows = rng.integers(1, 1 << 32, (128, 8), dtype=np.uint32)
    args: dict[str, Any] = {"x": x}
    wants: dict[str, Array] = {}
    for name, shape in (("by64", "16x64b"), ("by128", "16x128b"), ("by256", "16x256b")):
        want = np.zeros((128, 2, 4), np.uint32)
        for thread in range(128):
            for register in range(4):
                lane, column = TENSOR_MOVES[shape].place(thread % 32, register)
                for half in range(2):
                    want[thread, half, register] = x[thread // 32 * 32 + 16 * half + lane, column]
        wants[name] = want
    wants["packed"] = x[:, 0::2] & 0xFFFF | x[:, 1::2] << 16
    wants["copied"] = rows
    spread = np.zeros((128, 8), np.uint32)
    spread[:, :4] = np.tile(rows[:32, :4], (4, 1))
    spread[:, 4:] = np.tile(rows[:64, :4], (2, 1))
    wants["spread"] = spread
    for name in ("by64", "by128", "by256", "packed"):
        args[name] = poisoned(wants[name].shape, U32)
    args |= {"rows": rows, "copied": poisoned((128, 8), U32), "spread": poisoned((128, 8), U32)}
    return Problem((1,), args, {name: Expected(want) for name, want in wants.items()})


def take_over(rng: Rng) -> Problem:
    x = integers_in(rng, (7, 32))
    want = x * 2 + np.arange(7)[:, None]
    args = {"x": x, "out": poisoned(x.shape, I32), "times": np.zeros(7, I32)}
    expected = {"out": Expected(want), "times": Expected(np.ones(7))}
    return Problem((7,), args, expected, frozenset({"times"}))
