"""Masks by random conditions on positions, against NumPy: where products leave their sums, and where rows are threads'."""

from __future__ import annotations

import random

import ml_dtypes
import numpy as np
import pytest
from programs import product

import tkc

PROGRAM = product(
    "get result:",
    "    x = read(d)",
    "    mask x where CONDITION",
    "    C[m, n] <- x + 1",
    "    S[n.index, m] <- row_max(x)",
    arguments="C: global[f32, M, N], S: global[f32, J, M], w: i32",
    params="BM = 128, BN = 64, BK = 32",
)


def condition(rng: random.Random, depth: int = 2) -> str:
    """Comparisons of sums of multiples of m, n, w and numbers, joined by `and`, `or` and `not`."""

    def side() -> str:
        terms = [
            rng.choice(("m", "n", "2 * m", "3 * n", "m.index * 7", "w", "5", "n")) for _ in range(2)
        ]
        return f"{terms[0]} {rng.choice('+-')} {terms[1]}"

    if depth and rng.random() < 0.7:
        if rng.random() < 0.3:
            return f"(not {condition(rng, depth - 1)})"
        word = rng.choice(("and", "or"))
        return f"({condition(rng, depth - 1)} {word} {condition(rng, depth - 1)})"
    if rng.random() < 0.1:
        return "w > 60"
    left, sign = (
        rng.choice(("m", "n", "-n", "2 * m")),
        rng.choice(("<", "<=", ">", ">=", "==", "!=")),
    )
    return f"({left} {sign} {side()})"


@pytest.mark.parametrize(
    "seed", [None, *(pytest.param(s, marks=pytest.mark.soak) for s in range(100))]
)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_masked_sum_is_that_of_numpy(target: str, seed: int | None) -> None:
    rng = random.Random(seed)
    text = condition(rng)
    block = rng.choice((32, 64, 96))
    rows, columns, w = rng.randrange(1, 260), 4 * rng.randrange(1, 40), rng.randrange(-40, 200)
    kernel = tkc.compile(PROGRAM.replace("CONDITION", text), target=target, params={"BN": block})
    numbers = np.random.default_rng(rng.randrange(2**32))
    a, b = (numbers.uniform(-1, 1, (n, 40)).astype(ml_dtypes.bfloat16) for n in (rows, columns))
    blocks = -(-columns // block)
    c = np.full((rows, columns), np.nan, np.float32)
    s = np.full((blocks, rows), np.nan, np.float32)
    report = kernel.emulate(a, b, c, s, w, sm_count=2)
    assert not report.findings, (text, report.findings)
    m, n = np.indices((rows, columns))
    tested = text.replace("m.index", "(m // 128)").replace(" and ", " & ").replace(" or ", " | ")
    keep = eval(
        tested.replace("not ", "~").replace("w > 60", "(w + 0 * m > 60)"), {"m": m, "n": n, "w": w}
    )
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    assert np.abs(c - np.where(keep, exact + 1, 0)).max() < 1e-4, (text, rows, columns, w)
    padded = np.full((rows, blocks * block), -np.inf)
    padded[:, :columns] = np.where(keep, exact, -np.inf)
    highest = padded.reshape(rows, blocks, block).max(2).T
    assert (np.isneginf(s) == np.isneginf(highest)).all(), (text, rows, columns, w)
    there = np.isfinite(highest)
    assert np.abs(s[there] - highest[there]).max(initial=0) < 1e-4, (text, rows, columns, w)
