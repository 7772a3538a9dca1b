"""Every way in which the Triton kernels of this folder are compiled and tried; the soak test has more of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.foreign import references as r
from emulator.foreign.gluon_cases import GLUON
from emulator.foreign.problem import BF16, F16, F32, I32, Case
from emulator.foreign.triton_soak import more_cases

_F = "*fp32"
_STRIDES = ("sam", "sak", "sbk", "sbn", "scm", "scn")


def _matmul(
    name: str,
    kind: str,
    out: str,
    tile: tuple[int, int, int],
    size: tuple[int, int, int],
    *,
    aligned: bool = True,
    trans_a: bool = False,
    trans_b: bool = False,
    **options: Any,
) -> Case:
    """A matrix product through pointers; contiguous strides are constants, as Triton's launcher makes them."""
    bm, bn, bk = tile
    constants: dict[str, Any] = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 4, "INTEGER": out == "i32"}
    constants |= {"scn": 1, "sam" if trans_a else "sak": 1, "sbk" if trans_b else "sbn": 1}
    signature = {
        "a": f"*{kind}",
        "b": f"*{kind}",
        "c": f"*{out}",
        "M": "i32",
        "N": "i32",
        "K": "i32",
    }
    signature |= {s: "i32" for s in _STRIDES if s not in constants}
    divisible = ("a", "b", "c", *(n for n in signature if n in _STRIDES)) if aligned else ()
    out_dtype = {"fp32": F32, "fp16": F16, "bf16": BF16, "i32": I32}[out]
    make = r.matmul(kind, out_dtype, *size, trans_a=trans_a, trans_b=trans_b)
    return Case(name, "matmul", signature, constants, make, options, divisible)


def _descriptors(
    name: str,
    kind: str,
    out: str,
    tile: tuple[int, int, int],
    size: tuple[int, int, int],
    *,
    specialise: bool = False,
    targets: tuple[int, ...] = (90, 100),
    **options: Any,
) -> Case:
    bm, bn, bk = tile
    signature = {
        "a": f"tensordesc<{kind}[{bm},{bk}]>",
        "b": f"tensordesc<{kind}[{bn},{bk}]>",
        "c": f"tensordesc<{out}[{bm},{bn}]>",
        "M": "i32", "N": "i32", "K": "i32",
    }  # fmt: skip
    constants = {"BM": bm, "BN": bn, "BK": bk, "SPECIALISE": specialise}
    make = r.matmul_descriptors(kind, {"fp32": F32, "fp16": F16, "bf16": BF16}[out], *size)
    return Case(name, "matmul_descriptors", signature, constants, make, options, (), targets)


def _persistent(
    name: str,
    kind: str,
    out: str,
    tile: tuple[int, int, int],
    size: tuple[int, int, int],
    *,
    flatten: bool,
    specialise: bool,
    **options: Any,
) -> Case:
    bm, bn, bk = tile
    signature = {
        "a": f"*{kind}",
        "b": f"*{kind}",
        "c": f"*{out}",
        "M": "i32",
        "N": "i32",
        "K": "i32",
    }
    constants = {
        "BM": bm, "BN": bn, "BK": bk, "SMS": 2, "FLATTEN": flatten, "SPECIALISE": specialise,
    }  # fmt: skip
    make = r.matmul_descriptors(kind, {"fp16": F16, "bf16": BF16}[out], *size, persistent=True)
    divisible = ("a", "b", "c", "N", "K")
    return Case(name, "matmul_persistent", signature, constants, make, options, divisible)


_ARRAY = {"e4m3": "fp8e4nv", "e5m2": "fp8e5", "e2m1": "u8", "bf16": "bf16"}


def _scaled(
    name: str,
    forms: tuple[str, str],
    vec: int,
    tile: tuple[int, int, int],
    size: tuple[int, int, int],
    targets: tuple[int, ...] = (90, 100),
    **options: Any,
) -> Case:
    bm, bn, bk = tile
    scale = "*fp8e4nv" if vec == 16 else "*u8"
    signature = {
        "a": f"*{_ARRAY[forms[0]]}", "sa": scale, "b": f"*{_ARRAY[forms[1]]}", "sb": scale,
        "c": _F, "M": "i32", "N": "i32", "K": "i32",
    }  # fmt: skip
    constants = {"BM": bm, "BN": bn, "BK": bk, "VEC": vec, "FA": forms[0], "FB": forms[1]}
    make = r.matmul_scaled(*forms, *size)
    divisible = ("a", "sa", "b", "sb", "c", "N", "K")
    return Case(name, "matmul_scaled", signature, constants, make, options, divisible, targets)


def _attention(
    name: str,
    kind: str,
    causal: bool,
    tokens: int,
    tile: tuple[int, int],
    d: int = 64,
    **options: Any,
) -> Case:
    signature = {n: f"*{kind}" for n in ("q", "k", "v", "out")} | {
        "lse": _F,
        "scale": "fp32",
        "T": "i32",
    }
    constants = {"D": d, "BM": tile[0], "BN": tile[1], "CAUSAL": causal}
    make = r.attention(kind, 2, tokens)
    divisible = ("q", "k", "v", "out", "lse", "T")
    return Case(name, "attention", signature, constants, make, options, divisible)


def _simple(
    name: str,
    kernel: str,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    make: Any,
    aligned: tuple[str, ...] = (),
    **options: Any,
) -> Case:
    return Case(name, kernel, signature, constants, make, options, aligned)


_N = {"n": "i32"}

CASES: tuple[Case, ...] = (
    _simple("add", "vector_add", {"x": _F, "y": _F, "out": _F, **_N}, {"BLOCK": 512}, r.vector_add),
    _simple("add_aligned", "vector_add", {"x": _F, "y": _F, "out": _F, **_N}, {"BLOCK": 512},
            r.vector_add, ("x", "y", "out")),
    _simple("softmax", "softmax",
            {"x": "*bf16", "out": "*bf16", "rows": "i32", "columns": "i32", "stride": "i32"},
            {"BLOCK": 1024}, r.softmax(BF16), ("x", "out", "stride")),
    _simple("layer_norm", "layer_norm",
            {"x": "*fp16", "weight": _F, "bias": _F, "out": "*fp16", "mean_out": _F, "rstd_out": _F,
             "columns": "i32", "eps": "fp32"}, {"BLOCK": 512}, r.layer_norm, num_warps=2),
    _simple("elementwise", "elementwise", {"x": _F, "out": _F, **_N}, {"BLOCK": 256}, r.elementwise),
    _simple("integers", "integers", {"x": "*i32", "y": "*i32", "out": "*i32", **_N}, {"BLOCK": 256},
            r.integers),
    _simple("random", "random_numbers", {"out": _F, "seed": "i32", **_N}, {"BLOCK": 256},
            r.random_numbers),
    _simple("scan_sort", "scan_and_sort",
            {"x": "*i32", "sums": "*i32", "ordered": "*i32", "index": "*i32"}, {"BLOCK": 128},
            r.scan_and_sort, num_warps=2),
    _simple("histogram", "histogram", {"x": "*i32", "counts": "*i32", "total": "*i32", **_N},
            {"BLOCK": 512, "BINS": 64}, r.histogram),
    _simple("transpose", "transpose",
            {"x": "*fp16", "out": "*fp16", "rows": "i32", "columns": "i32"},
            {"BLOCK_M": 32, "BLOCK_N": 32}, r.transpose),
    _simple("casts", "casts",
            {"x": _F, "as_half": "*fp16", "as_bf16": "*bf16", "as_e4m3": "*fp8e4nv",
             "as_e5m2": "*fp8e5", "as_int": "*i8", "back": _F, **_N}, {"BLOCK": 512}, r.casts,
            ("x", "as_half", "as_bf16", "as_e4m3", "as_e5m2", "as_int", "back")),
    _simple("sum_rows", "sum_rows", {"x": _F, "out": _F, "rows": "i32", "columns": "i32"},
            {"BLOCK": 256}, r.sum_rows),
    _simple("lock", "lock_counter", {"lock": "*i32", "value": "*i32", **_N}, {}, r.lock_counter),
    _matmul("mm_bf16", "bf16", "bf16", (128, 128, 64), (200, 144, 160), num_warps=4),
    _matmul("mm_fp16", "fp16", "fp32", (128, 64, 64), (200, 80, 144), num_warps=8, num_stages=3),
    _matmul("mm_tf32", "fp32", "fp32", (64, 64, 32), (72, 68, 84), num_warps=4),
    _matmul("mm_fp8", "fp8e4nv", "bf16", (128, 64, 64), (144, 80, 160), trans_b=True, num_warps=4),
    _matmul("mm_fp8e5", "fp8e5", "fp16", (64, 64, 64), (80, 80, 144), trans_b=True, num_warps=4),
    _matmul("mm_int8", "i8", "i32", (64, 64, 64), (80, 80, 144), num_warps=4),
    _matmul("mm_trans", "bf16", "fp32", (64, 64, 32), (80, 96, 112), trans_a=True, trans_b=True,
            num_warps=4),
    _matmul("mm_small", "fp16", "fp16", (16, 32, 32), (33, 40, 56), num_warps=2, num_stages=4),
    _matmul("mm_unaligned", "bf16", "fp32", (64, 32, 32), (67, 43, 61), aligned=False, num_warps=4),
    _descriptors("tma_bf16", "bf16", "bf16", (128, 128, 64), (192, 192, 192), num_warps=4),
    _descriptors("tma_fp8", "fp8e4nv", "fp16", (128, 64, 128), (192, 96, 320), num_warps=4),
    _descriptors("tma_special", "fp16", "fp16", (128, 128, 64), (200, 136, 264), specialise=True,
                 targets=(100,), num_warps=4, num_stages=3),
    _descriptors("tma_pair", "bf16", "bf16", (256, 128, 64), (512, 136, 192), num_warps=4, num_ctas=2),
    _persistent("persistent", "bf16", "bf16", (128, 64, 64), (264, 136, 200), flatten=True,
                specialise=False, num_warps=4),
    _persistent("persistent_special", "fp16", "fp16", (128, 64, 64), (264, 136, 200), flatten=False,
                specialise=True, num_warps=4),
    _scaled("mxfp8", ("e4m3", "e4m3"), 32, (128, 64, 128), (128, 128, 256), num_warps=4),
    _scaled("mxfp4", ("e2m1", "e2m1"), 32, (128, 64, 128), (128, 64, 256), num_warps=4),
    _scaled("nvfp4", ("e2m1", "e2m1"), 16, (128, 64, 128), (128, 64, 256), num_warps=4),
    _scaled("mx_mixed", ("e5m2", "e2m1"), 32, (128, 64, 128), (128, 64, 256), num_warps=4),
    _attention("attention", "fp16", False, 128, (64, 32), num_warps=4),
    _attention("attention_causal", "bf16", True, 256, (128, 64), num_warps=4),
    *GLUON,
)  # fmt: skip
"""What is committed."""

SOAK: tuple[Case, ...] = tuple(more_cases(_matmul, _descriptors, _persistent, _scaled, _attention))
"""What the soak test compiles live, besides all of the above."""
