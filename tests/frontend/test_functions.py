"""The composed functions against their definitions, and at their ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tkc.frontend.functions import COMPOSED
from tkc.frontend.scope import FUNCTIONS
from tkc.frontend.vectors import VECTOR_FUNCTIONS
from tkc.ir.tile.ops import MapOp

OPERATIONS = {
    "add": np.add, "mul": np.multiply, "max": np.fmax, "neg": np.negative, "exp": np.exp, "rcp": np.reciprocal,
    "sub": np.subtract, "div": np.divide, "abs": np.abs, "min": np.fmin,
    "if_lt": lambda a, b, x, y: np.where(a < b, x, y),
}  # fmt: skip


def make(kind: str, *xs: object) -> np.ndarray:
    assert len(xs) == MapOp.KINDS[kind]
    return OPERATIONS[kind](*(np.asarray(x, np.float32) for x in xs))


def run(name: str, x: object) -> np.ndarray:
    with np.errstate(all="ignore"):
        return COMPOSED[name](make, np.asarray(x, np.float32))


X = np.linspace(-20, 20, 4001, dtype=np.float32)
WIDE = X.astype(np.float64)
SIGMOID = 1 / (1 + np.exp(-WIDE))
U = math.sqrt(2 / math.pi) * (WIDE + 0.044715 * WIDE**3)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("relu", np.maximum(WIDE, 0)),
        ("sigmoid", SIGMOID),
        ("silu", WIDE * SIGMOID),
        ("gelu", WIDE / 2 * (1 + np.tanh(U))),
    ],
)
def test_formulas(name: str, wanted: np.ndarray) -> None:
    error = np.abs(run(name, X) - wanted)
    assert np.all(error <= 2e-6 * np.abs(wanted) + 1e-7)


def test_gelu_is_near_the_exact_one() -> None:
    exact = np.array([0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in WIDE])
    assert np.max(np.abs(run("gelu", X) - exact)) < 1e-3


@pytest.mark.parametrize("most", [4, 1000, 39000])
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_waves(name: str, most: int, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(-most, most, 20000).astype(np.float32)
    assert np.max(np.abs(run(name, x) - getattr(np, name)(x.astype(np.float64)))) < 2**-22


def test_waves_stay_in_their_bounds() -> None:
    x = np.logspace(4, 38, 5000).astype(np.float32)
    assert all(np.max(np.abs(run(name, x))) <= 1 for name in ("sin", "cos"))
    assert all(np.isnan(run(n, [math.inf, -math.inf, math.nan])).all() for n in ("sin", "cos"))
    assert run("sin", [0.0])[0] == 0
    assert run("cos", [0.0])[0] == 1


def test_erf_is_the_error_function() -> None:
    exact = np.array([math.erf(x) for x in WIDE])
    error = np.abs(run("erf", X) - exact)
    assert np.all(error <= 2**-21 * np.abs(exact))
    assert run("erf", [-math.inf, -5, 0, 5, math.inf]).tolist() == [-1, -1, 0, 1, 1]
    assert np.isnan(run("erf", [math.nan])[0])


def test_ends() -> None:
    ends = [-math.inf, -1000, 1000, math.inf, math.nan]
    assert run("relu", ends)[:4].tolist() == [0, 0, 1000, math.inf]
    assert run("relu", ends)[4] == 0
    assert run("sigmoid", ends)[:4].tolist() == [0, 0, 1, 1]
    assert run("silu", ends)[1:4].tolist() == [0, 1000, math.inf]
    assert run("gelu", ends)[1:4].tolist() == [0, 1000, math.inf]
    assert all(np.isnan(run(name, ends)[4]) for name in ("sigmoid", "silu", "gelu"))
    assert all(np.isnan(run(name, ends)[0]) for name in ("silu", "gelu"))


def test_every_function_is_an_operation_a_formula_or_the_languages_own() -> None:
    for name, arity in FUNCTIONS.items():
        if name not in COMPOSED and name not in ("cdiv", "read", *VECTOR_FUNCTIONS):
            assert MapOp.KINDS[name] == arity
