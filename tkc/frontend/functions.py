"""Functions that are formulas over the elementwise operations of `tile.map`."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

Make = Callable[..., Any]
"""`make(kind, x, y)`: an operation of a kind of `tile.map` on values and Python floats."""


def _relu(make: Make, x: Any) -> Any:
    """max(x, 0); 0 for NaN."""
    return make("max", x, 0.0)


def _sigmoid(make: Make, x: Any) -> Any:
    """1 / (1 + exp(-x)); 0 where exp(-x) overflows."""
    return make("rcp", make("add", make("exp", make("neg", x)), 1.0))


def _silu(make: Make, x: Any) -> Any:
    """x · sigmoid(x); NaN for -inf."""
    return make("mul", x, _sigmoid(make, x))


def _gelu(make: Make, x: Any) -> Any:
    """x · sigmoid(2u), u = √(2/π) · (x + 0.044715 x³), which is x/2 · (1 + tanh u): the tanh form; NaN for -inf."""
    cubic = make(
        "add", make("mul", make("mul", x, x), 2 * sqrt(2 / pi) * 0.044715), 2 * sqrt(2 / pi)
    )
    return make("mul", x, _sigmoid(make, make("mul", x, cubic)))


COMPOSED: dict[str, Callable[[Make, Any], Any]] = {
    "relu": _relu,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
}
