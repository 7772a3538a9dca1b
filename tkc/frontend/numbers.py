"""Arithmetic on f32 numbers that are known at compile time."""

from __future__ import annotations

import math
import operator
from typing import Any

MAX_F32 = 3.4028235677973366e38
"""Halfway from the largest float to the next power of two: from here on a number rounds to infinity."""


def _rsqrt(a: float) -> float:
    return 1 / math.sqrt(a)


def _div(a: float, b: float) -> float:
    return a / b


NUMBERS: dict[str, Any] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _div, "min": min, "max": max,
    "neg": operator.neg, "abs": abs, "exp": math.exp, "exp2": math.exp2, "log": math.log, "log2": math.log2,
    "sqrt": math.sqrt, "rsqrt": _rsqrt, "rcp": lambda a: 1 / a, "tanh": math.tanh,
    "guard_div": lambda a, b: a / b if b else 0.0,
    "finite": lambda a: 0.0 if a == -math.inf else a,
}  # fmt: skip
"""By kind of `tile.map`; they raise what Python does where there is no value."""
