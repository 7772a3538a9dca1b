"""How the Gluon kernels of this folder are compiled, and what they are tried with.

A signature `map:fp16[128,64]` is a tensor map with the layout that Gluon gives such a box; after an @ stands the box
whose layout it takes instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from emulator.foreign import references as r
from emulator.foreign.problem import F16, F32, I32, Case, Expected, Problem, poisoned

Rng = np.random.Generator
Constants = Mapping[str, Any]


def copy_rows(rng: Rng, c: Constants) -> Problem:
    rows, columns = 50, 28
    x = r.uniform(rng, (rows, columns), F32)
    want = Expected((r.wide(x) + r.wide(x).sum(1, keepdims=True)).T, 0, 1e-6)
    args = {
        "x": x, "out": poisoned((columns, rows), F32), "rows": np.int32(rows), "columns": np.int32(columns),
    }  # fmt: skip
    return Problem((2,), args, {"out": want})


def matmul(m: int, n: int, k: int, tile: tuple[int, int]) -> Callable[[Rng, Constants], Problem]:
    def make(rng: Rng, c: Constants) -> Problem:
        a, b = r.uniform(rng, (m, k), F16), r.uniform(rng, (n, k), F16)
        args = {"a": a, "b": b, "c": poisoned((m, n), F16), "K": np.int32(k)}
        want = Expected(r.wide(a) @ r.wide(b).T, 2.0**-10, 1e-6)
        return Problem((r.cdiv(m, tile[0]), r.cdiv(n, tile[1])), args, {"c": want})

    return make


def gather_and_add(rng: Rng, c: Constants) -> Problem:
    table = r.uniform(rng, (40, 48), F32)
    index = rng.integers(0, 40, 32, dtype=np.int32)
    out = r.uniform(rng, (32, 32), F32)
    want = Expected(r.wide(out) + r.wide(table[index, 8:40]), 0, 1e-6)
    args = {"table": table, "index": index, "out": out}
    return Problem((1,), args, {"out": want}, frozenset({"out"}))


def take_over(rng: Rng, c: Constants) -> Problem:
    n = 5 * c["BLOCK"] - 9
    x = r.integers_in(rng, n)
    want = Expected(x * 2 + np.arange(n) // c["BLOCK"])
    return Problem((5,), {"x": x, "out": poisoned(n, I32), "n": np.int32(n)}, {"out": want})


def _matmul(
    name: str, kernel: str, target: int, tile: tuple[int, int, int], **constants: Any
) -> Case:
    bm, bn, bk = tile
    signature = {
        "a": f"map:fp16[{bm},{bk}]",
        "b": f"map:fp16[{bn},{bk}]",
        "c": f"map:fp16[{bm},{bn}]",
    }
    make = matmul(bm + 40, bn + 16, 4 * bk - 16, (bm, bn))
    return Case(
        name, kernel, signature | {"K": "i32"}, constants, make, {"num_warps": 4}, (), (target,)
    )


_COPY = {"x": "*fp32", "out": "*fp32", "rows": "i32", "columns": "i32"}

GLUON: tuple[Case, ...] = (
    Case("gluon_copy", "copy_rows", _COPY, {"BM": 32, "BN": 32}, copy_rows, {"num_warps": 4}),
    _matmul("gluon_wgmma", "wgmma_matmul", 90, (64, 64, 64), STAGES=3),
    *(
        _matmul(f"gluon_{shape}", "tensor_core_matmul", 100, (128, 64, 64), VARIANT=shape)
        for shape in ("32x32b", "16x64b", "16x128b", "16x256b")
    ),
    _matmul("gluon_rows64", "tensor_core_matmul", 100, (64, 64, 64), VARIANT="16x256b"),
    _matmul("gluon_roles", "roles_matmul", 100, (128, 64, 64), STAGES=3),
    Case(
        "gluon_gather",
        "gather_and_add",
        {"table": "map:fp32[1,32]@[32,32]", "index": "*i32", "out": "map:fp32[32,32]"},
        {"COLUMN": 8},
        gather_and_add,
        {"num_warps": 4},
        (),
        (100,),
    ),
    Case(
        "gluon_take_over",
        "take_over",
        {"x": "*i32", "out": "*i32", "n": "i32"},
        {"BLOCK": 128},
        take_over,
        {"num_warps": 4},
        (),
        (100,),
    ),
)
