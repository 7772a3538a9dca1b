"""Programs of the approximate functions, on random floats of the ranges in which their errors are stated."""

from __future__ import annotations

from generate.pointwise import Op, apply, pointwise
from generate.writing import Json, Program, buffer

N = 8192

RANGES: dict[str, tuple[int, int]] = {
    "ex2": (-8, 7),
    "lg2": (-30, 30),
    "rcp": (-40, 40),
    "rsqrt": (-40, 40),
    "sqrt": (-40, 40),
    "tanh": (-12, 4),
    "sin": (-12, 1),
    "cos": (-12, 1),
}
"""Exponents of the random arguments."""


def _data(low: int, high: int, seed: int, count: int = N) -> Json:
    parts = [
        {"kind": "cross", "of": "f32", "place": 1, "seed": seed, "count": 64},
        {"kind": "bits", "seed": seed + 1, "count": 960},
        {
            "kind": "floats",
            "format": "f32",
            "low": low,
            "high": high,
            "seed": seed + 2,
            "count": count - 1024,
        },
    ]
    return {"dtype": "uint32", "count": count, "make": {"kind": "parts", "of": parts}}


def _ops(name: str) -> list[Op]:
    tails = ("",) if name == "tanh" else ("", ".ftz")
    return [(f"{name}.approx{t}.f32", f"{name}.approx{t}.f32 {{d}}, {{a}};") for t in tails]


def programs() -> list[Program]:
    short = {"emulate": {"grid": [32, 1, 1]}}
    found: list[Program] = []
    p = Program("approximate_f32", "Approximate functions on random f32.")
    for i, (name, (low, high)) in enumerate(RANGES.items()):
        labels = pointwise(p, name, ["b32"], "b32", _ops(name))
        apply(
            p,
            name,
            name,
            labels,
            {"a": _data(low, high, 400 + 10 * i)},
            "b32",
            N,
            function=name,
            **short,
        )
    labels = pointwise(
        p,
        "divide",
        ["b32"] * 2,
        "b32",
        [
            (f"div.{m}.f32", f"div.{m}.f32 {{d}}, {{a}}, {{b}};")
            for m in ("approx", "approx.ftz", "full", "full.ftz")
        ],
    )
    two = {"a": _data(-40, 40, 490), "b": _data(-40, 40, 495)}
    apply(p, "divide", "divide", labels, two, "b32", N, function="div", **short)
    found.append(p)

    p = Program("approximate_f64", "Approximate reciprocals of f64.")
    labels = pointwise(
        p,
        "double",
        ["b64"],
        "b64",
        [
            (f"{n}.f64", f"{n}.f64 {{d}}, {{a}};")
            for n in ("rcp.approx.ftz", "rsqrt.approx.ftz", "rsqrt.approx")
        ],
    )
    parts = [
        {"kind": "cross", "of": "f64", "place": 1, "seed": 500, "count": 128},
        {"kind": "floats", "format": "f64", "low": -300, "high": 300, "seed": 501, "count": 896},
    ]
    data = {"dtype": "uint64", "count": 1024, "make": {"kind": "parts", "of": parts}}
    apply(p, "double", "double", labels, {"a": data}, "b64", 1024, function="double", **short)
    found.append(p)

    p = Program("approximate_half", "ex2 and tanh on every f16 and bf16, single and packed.")
    for t, tail in (("f16", ""), ("bf16", ".ftz")):
        ops = [
            (f"ex2.approx{tail}.{t}", f"ex2.approx{tail}.{t} {{d}}, {{a}};"),
            (f"tanh.approx.{t}", f"tanh.approx.{t} {{d}}, {{a}};"),
        ]
        labels = pointwise(p, f"half_{t}", ["b16"], "b16", ops)
        data = {"a": buffer("b16", 65536, "count", step=40503)}
        apply(p, f"half_{t}", f"half_{t}", labels, data, "b16", 65536, function=t, **short)
        packed = [(label.replace(t, f"{t}x2"), text.replace(t, f"{t}x2")) for label, text in ops]
        labels = pointwise(p, f"packed_{t}", ["b32"], "b32", packed)
        data = {"a": buffer("b32", 1024, "bits", seed=510)}
        apply(
            p, f"packed_{t}", f"packed_{t}", labels, data, "b32", 1024, function=f"{t}x2", **short
        )
    found.append(p)
    return found
