"""`where any(…)` in a schedule leaves the blocks of which an element meets the condition, and no other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import tkc

KERNEL = """
kernel k(X: global[f32, M, N], Y: global[f32, P, Q]):
    launch persistent
    schedule work: m in blocks(M, 64)
    schedule keys(q): j in blocks(N, 32) where any(WHERE)
    role all, warps 1:
        for m in work:
            for j in keys(m):
                if lane == 0: Y[m.index, j.index] <- 1.0
"""


@pytest.mark.parametrize(
    "where",
    [
        "j < 40 or j <= q - 70",
        "j > 40 or j >= q + 100",
        "j > 2 * q - 70 or j > q - 70",
        "(j > 2 * q - 5 or j > q + 100) and j >= q + 33",
        "(j < q or j < 9) and j < 100 - q",
    ],
)
def test_blocks_are_those_with_an_element_that_meets_it(where: str) -> None:
    kernel = tkc.compile(KERNEL.replace("WHERE", where), target="sm_90a")
    for rows, columns in ((70, 100), (130, 40), (64, 200)):
        q, j = np.ogrid[:rows, :columns]
        met = np.zeros((192, 224), bool)
        met[:rows, :columns] = _met(where, q, j)
        found = np.zeros((3, 7), np.float32)
        kernel.emulate(np.ones((rows, columns), np.float32), found, sm_count=1, max_steps=20_000)
        wanted = met.reshape(3, 64, 7, 32).any(axis=(1, 3))
        np.testing.assert_array_equal(found, wanted)


def _met(where: str, q: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Where the condition holds, element by element."""
    return np.vectorize(lambda a, b: bool(eval(where, {"q": int(a), "j": int(b)})))(q, j)
