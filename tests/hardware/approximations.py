"""How far approximate functions may be from the true value, and whether recorded or emulated words keep to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from hardware.inputs import Words

Real = np.ndarray[Any, np.dtype[np.float64]]


class Bound(NamedTuple):
    """The largest error against `true`: relative, or absolute where that is larger, for arguments within `reach`."""

    true: Callable[..., Real]
    relative: float = 0.0
    absolute: float = 0.0
    reach: float = np.inf


BOUNDS: Mapping[str, Bound] = {
    "ex2": Bound(np.exp2, 2**-22),
    "lg2": Bound(np.log2, 2**-22, 2**-22),
    "rcp": Bound(np.reciprocal, 2**-23),
    "rsqrt": Bound(lambda x: 1 / np.sqrt(x), 2**-22.4),
    "sqrt": Bound(np.sqrt, 2**-22.4),
    "sin": Bound(np.sin, 0.0, 2**-20.5, np.pi),
    "cos": Bound(np.cos, 0.0, 2**-20.5, np.pi),
    "tanh": Bound(np.tanh, 2**-11),
    "div": Bound(np.divide, 2**-22),
    "ex2.f16": Bound(np.exp2, 2**-9.9),
    "tanh.f16": Bound(np.tanh, 0.0, 2**-10.987),
    "ex2.bf16": Bound(np.exp2, 2**-7),
    "tanh.bf16": Bound(np.tanh, 2**-7),
    "rcp.f64": Bound(np.reciprocal, 2**-20),
    "rsqrt.f64": Bound(lambda x: 1 / np.sqrt(x), 2**-20),
}
"""By function, as the manual states them; the f64 ones have 20 bits. The manual has 2^-8 for tanh of bf16, but the H200
cuts its results off, so that they are up to a whole unit in the last place too small: 1.98 * 2^-8."""


def values(words: Words, kind: str) -> Real:
    """The numbers that words of f16, bf16, f32 or f64 stand for."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if kind == "bf16":
            return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        floats = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
        return words.view(floats).astype(np.float64)


def function_of(label: str) -> tuple[str, str]:
    """(key of BOUNDS, kind of number) of an instruction such as ex2.approx.ftz.bf16x2."""
    name, *_, kind = label.split(".")
    kind = kind.removesuffix("x2")
    return (name if kind == "f32" else f"{name}.{kind}"), kind


def halves(words: Words, label: str) -> Words:
    """Packed words as twice as many 16-bit ones."""
    return words.view(np.uint16) if label.endswith("x2") else words


def errors(label: str, arguments: list[Words], found: Words) -> tuple[Real, Words]:
    """(how often the allowed error each result is off, where that says something): finite, normal and in reach."""
    key, kind = function_of(label)
    bound = BOUNDS[key]
    given = [values(halves(a, label), kind) for a in arguments]
    result = values(halves(found, label), kind)
    with np.errstate(all="ignore"):
        true = bound.true(*given)
    least = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}[kind]
    most = {"f16": 65504.0, "bf16": 3.3e38, "f32": 3.4e38, "f64": 1.7e308}[kind]
    fine = np.isfinite(result) & (np.abs(true) >= least) & (np.abs(true) <= most)
    for argument in given:
        size = np.abs(argument)
        # quotients of very large and very small numbers have no bound
        fine &= (
            (size <= bound.reach)
            & (size >= least)
            & (size < 2.0**126 if key == "div" else size <= most)
        )
    allowed = np.maximum(np.abs(true) * bound.relative, bound.absolute)
    # the result is rounded besides
    rounding = {"f16": 2.0**-11, "bf16": 2.0**-8}.get(kind)
    if rounding:
        allowed = np.maximum(allowed, np.abs(true) * rounding)
    with np.errstate(all="ignore"):
        off = np.abs(result - true) / allowed
    return np.where(fine, off, 0.0), fine


def kinds(words: Words, label: str) -> Words:
    """What sort of number each word is: 0 finite, 1 zero, 2 infinite, 3 NaN, with the sign unless NaN."""
    _, kind = function_of(label)
    x = values(halves(words, label), kind)
    sort = np.select([np.isnan(x), np.isinf(x), x == 0], [3, 2, 1], 0)
    return np.where((sort == 1) | (sort == 2), sort + 10 * np.signbit(x), sort)
