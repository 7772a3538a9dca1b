"""More ways to compile Triton kernels, for the soak test alone: sweeps of tiles, warps and types, and more kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
from emulator.foreign import references as r
from emulator.foreign.problem import (
    BF16,
    E4M3,
    F16,
    F32,
    I32,
    Case,
    Expected,
    Problem,
    poisoned,
)

from tkc.emulator.formats import FORMATS
from tkc.ir.isa.layouts import scale_offset

Rng = np.random.Generator
Constants = Mapping[str, Any]


def scaled_preshuffled(form: str, vec: int) -> Any:
    def make(rng: Rng, c: Constants) -> Problem:
        m, n, k = 2 * c["BM"], 2 * c["BN"], 2 * c["BK"]
        out = {}
        values = []
        for name, rows in (("a", m), ("b", n)):
            if form == "e2m1":
                codes = rng.integers(0, 16, (rows, k), dtype=np.uint8)
                out[name] = codes[:, 0::2] | codes[:, 1::2] << 4
                value = FORMATS["e2m1"].decode(codes).astype(np.float64)
            else:
                out[name] = r.uniform(rng, (rows, k), E4M3)
                value = r.wide(out[name])
            count = k // vec
            if vec == 16:
                factors = rng.uniform(0.25, 4, (rows, count)).astype(ml_dtypes.float8_e4m3fn)
                codes, scale = factors.view(np.uint8), r.wide(factors)
            else:
                codes = rng.integers(124, 131, (rows, count), dtype=np.uint8)
                scale = 2.0 ** (codes.astype(np.float64) - 127)
            laid = np.zeros(rows * count, np.uint8)
            at = np.indices(codes.shape)
            laid[scale_offset(at[0], at[1], count // 4)] = codes
            out["s" + name] = laid.reshape(1, rows // 128, count // 4, 2, 256)
            values.append(value * np.repeat(scale, vec, 1))
        args = {
            **out,
            "c": poisoned((m, n), F16),
            "M": np.int32(m),
            "N": np.int32(n),
            "K": np.int32(k),
        }
        want = Expected(values[0] @ values[1].T, 2.0**-10, 1e-6)
        return Problem((2, 2), args, {"c": want})

    return make


def attention_descriptors(kind: str, tokens: int) -> Any:
    inner = r.attention(kind, 1, tokens)

    def make(rng: Rng, c: Constants) -> Problem:
        problem = inner(rng, c)
        del problem.args["lse"], problem.expected["lse"]
        return Problem(problem.grid[:1], problem.args, problem.expected)

    return make


def attention_backward(rng: Rng, c: Constants) -> Problem:
    t, d = 128, c["D"]
    q, k, v, do = (r.uniform(rng, (t, d), F16) for _ in range(4))
    scale = np.float32(1 / math.sqrt(d))
    s = float(scale) * r.wide(q) @ r.wide(k).T
    lse = np.log(np.exp(s).sum(1)).astype(np.float32)
    p = np.exp(s - r.wide(lse)[:, None])
    dp = r.wide(do) @ r.wide(v).T
    delta = (p * dp).sum(1).astype(np.float32)
    ds = p * (dp - r.wide(delta)[:, None]) * float(scale)
    args = {
        "q": q, "k": k, "v": v, "do": do, "lse": lse, "delta": delta, "dk": poisoned((t, d), F32),
        "dv": poisoned((t, d), F32), "scale": scale, "T": np.int32(t),
    }  # fmt: skip
    expected = {
        "dk": Expected(ds.T @ r.wide(q), 0, 2e-3),
        "dv": Expected(p.T @ r.wide(do), 0, 2e-3),
    }
    return Problem((t // c["BN"],), args, expected)


def int4_matmul(rng: Rng, c: Constants) -> Problem:
    m, n, k = 70, 90, 2 * c["BK"]
    a = r.uniform(rng, (m, k), BF16)
    b = rng.integers(-8, 8, (n, k))
    packed = ((b[:, 0::2] & 15) | (b[:, 1::2] & 15) << 4).astype(np.uint8)
    scales = r.uniform(rng, n, F32)
    args = {
        "a": a, "b": packed, "scales": scales, "c": poisoned((m, n), F32), "M": np.int32(m), "N": np.int32(n),
        "K": np.int32(k),
    }  # fmt: skip
    want = Expected(r.wide(a) @ b.T * r.wide(scales), 0, 1e-6)
    return Problem((r.cdiv(m, c["BM"]), r.cdiv(n, c["BN"])), args, {"c": want})


def batched(rng: Rng, c: Constants) -> Problem:
    a = r.uniform(rng, (c["BATCH"], c["M"], c["K"]), F16)
    b = r.uniform(rng, (c["BATCH"], c["K"], c["N"]), F16)
    args = {"a": a, "b": b, "c": poisoned((c["BATCH"], c["M"], c["N"]), F32)}
    return Problem((1,), args, {"c": Expected(r.wide(a) @ r.wide(b), 0, 1e-5)})


def library(rng: Rng, c: Constants) -> Problem:
    n = 2 * c["BLOCK"] - 9
    x = r.uniform(rng, n, F32, 0.9)
    v = r.wide(x)
    want = (
        np.arcsin(v) + np.tanh(v) + (2 + v) ** v + np.log1p(v + 1) + np.array([math.lgamma(t + 2) for t in v])
        + np.fmod(x, np.float32(0.3)) + np.arctan2(v, v + 2) + np.cbrt(v) + np.rint(np.float32(3) * x) + np.hypot(v, 1)
    )  # fmt: skip
    args = {"x": x, "out": poisoned(n, F32), "n": np.int32(n)}
    return Problem((2,), args, {"out": Expected(want, 2e-6, 1e-6)})


def linear_recurrence(rng: Rng, c: Constants) -> Problem:
    block = c["BLOCK"]
    x, y = (r.uniform(rng, (2, block), F32) for _ in range(2))
    want = np.zeros((2, block))
    for row in range(2):
        h = 0.0
        for i in reversed(range(block)) if c["REVERSE"] else range(block):
            h = float(x[row, i]) * h + float(y[row, i])
            want[row, i] = h
    args = {"x": x, "y": y, "out": poisoned((2, block), F32)}
    return Problem((2,), args, {"out": Expected(want, 0, 1e-5)})


def scatter(rng: Rng, c: Constants) -> Problem:
    n, bins = 2 * c["BLOCK"] - 50, 40
    x = rng.integers(-50, 50, n).astype(F32)
    index = rng.integers(0, bins, n, dtype=np.int32)
    sums, tops, counts = np.ones(bins, F32), np.full(bins, -3, F32), np.full(bins, 7, I32)
    want = [r.wide(sums), r.wide(tops), counts.copy()]
    np.add.at(want[0], index, x)
    np.maximum.at(want[1], index, x)
    np.add.at(want[2], index, 1)
    args = {"x": x, "index": index, "sums": sums, "tops": tops, "counts": counts, "n": np.int32(n)}
    expected = {"sums": Expected(want[0]), "tops": Expected(want[1]), "counts": Expected(want[2])}
    return Problem((2,), args, expected, frozenset(expected))


def gather_rows(rng: Rng, c: Constants) -> Problem:
    columns = c["BLOCK"]
    table = r.uniform(rng, (9, columns), BF16)
    index = rng.integers(0, 9, 5, dtype=np.int64)
    args = {
        "table": table,
        "index": index,
        "out": poisoned((5, columns), BF16),
        "columns": np.int32(columns),
    }
    return Problem((5,), args, {"out": Expected(table[index][:, ::-1])})


def dropout(rng: Rng, c: Constants) -> Problem:
    n = 2 * c["BLOCK"] - 3
    x = r.uniform(rng, n, F32)
    source = r.random_numbers(rng, c)
    draws = np.zeros(n)
    got = source.expected["out"].values
    draws[: len(got)] = got[:n]
    seed = source.args["seed"]
    keep = draws > 0.25
    n = min(n, len(got))
    args = {
        "x": x[:n].copy(),
        "out": poisoned(n, F32),
        "p": np.float32(0.25),
        "seed": seed,
        "n": np.int32(n),
    }
    want = np.where(keep[:n], r.wide(x[:n]) / 0.75, 0)
    return Problem((2,), args, {"out": Expected(want, 1e-6)})


def grouped(rng: Rng, c: Constants) -> Problem:
    sizes = np.array([50, 7, 90], np.int32)
    starts = np.array([0, 50, 57], np.int32)
    total, n, k = int(sizes.sum()), c["N"], c["K"]
    a, b = r.uniform(rng, (total, k), F16), r.uniform(rng, (3, k, n), F16)
    want = np.concatenate(
        [
            r.wide(a[s : s + z]) @ r.wide(b[g])
            for g, (s, z) in enumerate(zip(starts, sizes, strict=True))
        ]
    )
    args = {
        "sizes": sizes, "starts": starts, "a": a, "b": b, "c": poisoned((total, n), F32), "groups": np.int32(3),
    }  # fmt: skip
    return Problem((c["PROGRAMS"],), args, {"c": Expected(want, 0, 1e-5)})


def inline_assembly(rng: Rng, c: Constants) -> Problem:
    n = 2 * c["BLOCK"] - 8
    x = r.uniform(rng, n, E4M3, 30)
    args = {"x": x.view(np.uint8), "out": poisoned(n, F16), "n": np.int32(n)}
    return Problem((2,), args, {"out": Expected(r.wide(x))})


def more_cases(
    matmul: Any, descriptors: Any, persistent: Any, scaled: Any, attention: Any
) -> Iterator[Case]:
    """Every case of the soak test, from the builders of `triton_cases`."""
    for kind, (bm, bn, bk), warps, stages in (
        ("bf16", (128, 256, 64), 8, 3), ("fp16", (256, 128, 64), 8, 4), ("fp16", (64, 256, 32), 4, 4),
        ("bf16", (128, 32, 128), 4, 2), ("fp16", (32, 64, 64), 2, 5), ("bf16", (16, 16, 64), 1, 3),
        ("fp32", (128, 64, 32), 4, 4), ("fp32", (32, 32, 32), 4, 2), ("fp8e4nv", (128, 128, 128), 8, 3),
        ("fp8e4nv", (32, 32, 64), 2, 3), ("fp8e5", (128, 256, 64), 8, 3), ("i8", (128, 128, 64), 8, 3),
        ("i8", (32, 32, 32), 4, 3),
    ):  # fmt: skip
        out = "i32" if kind == "i8" else "fp32" if kind == "fp32" else "bf16"
        size = (bm + 24, bn + 16, 2 * bk + 16)
        trans = kind.startswith("fp8") or kind == "i8"
        yield matmul(
            f"soak_mm_{kind}_{bm}_{bn}_{bk}_{warps}", kind, out, (bm, bn, bk), size, trans_b=trans,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
    for trans_a, trans_b, aligned in product((False, True), (False, True), (False, True)):
        yield matmul(
            f"soak_trans_{int(trans_a)}{int(trans_b)}{int(aligned)}", "fp16", "fp16", (64, 64, 64), (88, 72, 136),
            trans_a=trans_a, trans_b=trans_b, aligned=aligned, num_warps=4,
        )  # fmt: skip
    for kind, tile, warps, special in (
        ("bf16", (128, 256, 64), 8, False), ("fp16", (64, 128, 128), 4, False), ("fp8e4nv", (128, 128, 128), 8, True),
        ("bf16", (128, 64, 64), 4, True), ("fp32", (128, 128, 32), 4, False),
    ):  # fmt: skip
        size = (tile[0] + 64, tile[1] + 32, 3 * tile[2])
        out = "fp32" if kind == "fp32" else "fp16"
        yield descriptors(
            f"soak_tma_{kind}_{'_'.join(map(str, tile))}_{int(special)}", kind, out, tile, size, specialise=special,
            targets=(100,) if special else (90, 100), num_warps=warps,
        )  # fmt: skip
    for ctas, tile in ((2, (128, 128, 64)), (2, (256, 256, 64)), (4, (256, 128, 64))):
        yield descriptors(
            f"soak_ctas_{ctas}_{tile[0]}_{tile[1]}", "bf16", "bf16", tile, (2 * tile[0], tile[1] + 8, 136),
            num_warps=4, num_ctas=ctas,
        )  # fmt: skip
    for flatten, special in product((False, True), (False, True)):
        yield persistent(
            f"soak_persistent_{int(flatten)}{int(special)}", "bf16", "bf16", (128, 128, 64), (264, 264, 136),
            flatten=flatten, specialise=special, num_warps=8,
        )  # fmt: skip
    for forms, vec, tile in (
        (("e4m3", "e4m3"), 32, (128, 128, 128)), (("e2m1", "e2m1"), 16, (128, 128, 256)),
        (("e2m1", "e2m1"), 32, (128, 128, 256)), (("e5m2", "e5m2"), 32, (128, 64, 128)),
        (("e4m3", "e2m1"), 32, (128, 256, 128)), (("bf16", "e2m1"), 32, (128, 64, 64)),
    ):  # fmt: skip
        yield scaled(
            f"soak_scaled_{forms[0]}_{forms[1]}_{vec}_{tile[1]}", forms, vec, tile, (tile[0], tile[1], 2 * tile[2]),
            targets=(90,) if forms[0] == "bf16" else (90, 100), num_warps=8 if tile[1] > 128 else 4,
        )  # fmt: skip
    for causal, kind, tile, d in (
        (True, "fp16", (128, 128), 128), (False, "bf16", (64, 64), 64), (True, "bf16", (128, 32), 32),
        (False, "fp16", (32, 32), 64),
    ):  # fmt: skip
        yield attention(f"soak_attention_{int(causal)}_{tile[0]}_{d}", kind, causal, 256, tile, d)
    yield from _others()


def _others() -> Iterator[Case]:
    f = "*fp32"
    for form, vec in (("e4m3", 32), ("e2m1", 16), ("e2m1", 32)):
        bm, bn, bk = 128, 128, 256 if form == "e2m1" else 128
        pack, kind = (2, "u8") if form == "e2m1" else (1, "fp8e4nv")
        scale = "fp8e4nv" if vec == 16 else "u8"
        box = f"1,1,{bk // vec // 4},2,256"
        signature = {
            "a": f"tensordesc<{kind}[{bm},{bk // pack}]>", "sa": f"tensordesc<{scale}[{box}]>",
            "b": f"tensordesc<{kind}[{bn},{bk // pack}]>", "sb": f"tensordesc<{scale}[{box}]>",
            "c": f"tensordesc<fp16[{bm},{bn}]>", "M": "i32", "N": "i32", "K": "i32",
        }  # fmt: skip
        constants = {"BM": bm, "BN": bn, "BK": bk, "VEC": vec, "FA": form, "FB": form}
        yield Case(
            f"soak_preshuffled_{form}_{vec}", "scaled_preshuffled", signature, constants,
            scaled_preshuffled(form, vec), {"num_warps": 4}, (), (100,),
        )  # fmt: skip
    for causal, special, kind in (
        (True, False, "fp16"),
        (False, True, "fp16"),
        (True, True, "bf16"),
    ):
        bm, bn, d = 128, 64, 64
        signature = {
            n: f"tensordesc<{kind}[{b},{d}]>"
            for n, b in (("q", bm), ("k", bn), ("v", bn), ("out", bm))
        }
        constants = {"D": d, "BM": bm, "BN": bn, "CAUSAL": causal, "SPECIALISE": special}
        targets = (100,) if special else (90, 100)
        yield Case(
            f"soak_attention_tma_{int(causal)}{int(special)}", "attention_descriptors",
            signature | {"scale": "fp32", "T": "i32"}, constants,
            attention_descriptors(kind, 256), {"num_warps": 4}, (), targets,
        )  # fmt: skip
    h = {n: "*fp16" for n in ("q", "k", "v", "do")}
    yield Case(
        "soak_attention_backward", "attention_backward",
        h | {"lse": f, "delta": f, "dk": f, "dv": f, "scale": "fp32", "T": "i32"}, {"D": 64, "BM": 64, "BN": 64},
        attention_backward, {"num_warps": 4}, ("q", "k", "v", "do", "dk", "dv"),
    )  # fmt: skip
    yield Case(
        "soak_int4", "int4_matmul",
        {"a": "*bf16", "b": "*u8", "scales": f, "c": f, "M": "i32", "N": "i32", "K": "i32"},
        {"BM": 64, "BN": 64, "BK": 64}, int4_matmul, {"num_warps": 4}, ("a", "b", "c", "K"),
    )  # fmt: skip
    yield Case(
        "soak_batched", "batched", {"a": "*fp16", "b": "*fp16", "c": f},
        {"BATCH": 4, "M": 32, "N": 32, "K": 32}, batched, {"num_warps": 4}, ("a", "b", "c"),
    )  # fmt: skip
    n = {"n": "i32"}
    yield Case("soak_library", "library", {"x": f, "out": f, **n}, {"BLOCK": 256}, library)
    for reverse in (False, True):
        yield Case(
            f"soak_recurrence_{int(reverse)}", "linear_recurrence", {"x": f, "y": f, "out": f},
            {"BLOCK": 512, "REVERSE": reverse}, linear_recurrence, {"num_warps": 4},
        )  # fmt: skip
    yield Case(
        "soak_scatter", "scatter", {"x": f, "index": "*i32", "sums": f, "tops": f, "counts": "*i32", **n},
        {"BLOCK": 256}, scatter,
    )  # fmt: skip
    yield Case(
        "soak_gather", "gather_rows", {"table": "*bf16", "index": "*i64", "out": "*bf16", "columns": "i32"},
        {"BLOCK": 128}, gather_rows,
    )  # fmt: skip
    yield Case(
        "soak_dropout",
        "dropout",
        {"x": f, "out": f, "p": "fp32", "seed": "i32", **n},
        {"BLOCK": 256},
        dropout,
    )
    yield Case(
        "soak_grouped", "grouped",
        {"sizes": "*i32", "starts": "*i32", "a": "*fp16", "b": "*fp16", "c": f, "groups": "i32"},
        {"N": 64, "K": 64, "BM": 32, "PROGRAMS": 3}, grouped, {"num_warps": 4}, ("a", "b", "c"),
    )  # fmt: skip
    yield Case("soak_inline", "inline_assembly", {"x": "*u8", "out": "*fp16", **n}, {"BLOCK": 512}, inline_assembly,
               {}, ("x", "out"))  # fmt: skip
