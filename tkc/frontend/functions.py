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


def _polynomial(make: Make, x: Any, *factors: float) -> Any:
    """By Horner's rule, the highest power's factor first."""
    made: Any = factors[0]
    for factor in factors[1:]:
        made = make("add", make("mul", made, x), factor)
    return made


PI_PARTS = (3.140625, 0.0009670257568359375, 6.2771141529083251953e-07, 1.2154201256553420e-10)
"""π as a sum whose parts have few bits: multiples of the first three up to 2¹² are exact in f32."""

ROUNDS = 1.5 * 2**23
"""What f32 numbers become whole by, added and taken away again."""


def _whole(make: Make, x: Any) -> Any:
    """The nearest whole number, as f32; of numbers below 2²²."""
    return make("sub", make("add", x, ROUNDS), ROUNDS)


def _turned(make: Make, x: Any, half: float) -> Any:
    """sin(r) · (-1)ᵐ, where x = (m + half) · π + r with r at most π/2 from 0."""
    m = _whole(make, make("add", make("mul", x, 1 / pi), -half) if half else make("mul", x, 1 / pi))
    turns, r = make("add", m, half) if half else m, x
    for part in PI_PARTS:
        r = make("sub", r, make("mul", turns, part))
    r = make(
        "if_lt", make("abs", r), 2.0, r, make("mul", r, 0.0)
    )  # NaN stays, what is no remainder goes
    square = make("mul", r, r)
    factors = (2.6083159809786593541503e-06, -0.0001981069071916863322258, 0.00833307858556509017944336,
               -0.166666597127914428710938)  # fmt: skip
    sine = make("add", r, make("mul", make("mul", square, _polynomial(make, square, *factors)), r))
    odd = make("abs", make("sub", m, make("mul", _whole(make, make("mul", m, 0.5)), 2.0)))
    odd = make("min", odd, 1.0)  # of numbers too large to be odd
    return make("mul", sine, make("sub", 1.0, make("mul", odd, 2.0)))


def _sin(make: Make, x: Any) -> Any:
    """Within 2⁻²² for |x| up to 39,000, with no digits beyond 10⁷, but within ±1; NaN for ±inf."""
    return _turned(make, x, 0.0)


def _cos(make: Make, x: Any) -> Any:
    """cos((m + 1/2) π + r) is -sin(r) · (-1)ᵐ; as `sin`."""
    return make("neg", _turned(make, x, 0.5))


def _erf(make: Make, x: Any) -> Any:
    """A quotient of polynomials of x² for |x| < 4, within 2⁻²¹; ±1 beyond."""
    square = make("mul", x, x)
    above = _polynomial(
        make, square, -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
        -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
    )  # fmt: skip
    below = _polynomial(
        make, square, -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
        -1.42647390514189e-02,
    )  # fmt: skip
    end = make("if_lt", 0.0, x, 1.0, make("if_lt", x, 0.0, -1.0, x))
    inside = make("mul", x, make("div", above, below))
    return make("if_lt", make("abs", x), 4.0, inside, end)


COMPOSED: dict[str, Callable[[Make, Any], Any]] = {
    "relu": _relu,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
    "sin": _sin,
    "cos": _cos,
    "erf": _erf,
}
