"""Conditions that hold always, or never, are none; all others stay."""

from __future__ import annotations

import numpy as np
import pytest

import tkc
from tkc.driver import to_module
from tkc.ir.stage import ops as s
from tkc.job import Job

KERNEL = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], f: i32, count: i32):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 64))
    role all, warps 2:
        for m, n in work:
            c = count
            for i in range(count):
                x = 1
                if CONDITION: x = 2
                else: x = 3
                Y[m, n.index * 64 + thread] <- read(X[m, n.index * 64 + thread]) * x
                c = c + 1
"""
ALWAYS = [
    "m > -1", "0 <= m", "m < M", "M > m", "n.index >= 0", "not n.index < 0", "M >= 0", "thread >= 0", "m != M", "m <= M",
    "i < count", "count > i", "0 <= i", "i != count", "i <= count", "i >= 0 and m >= 0", "f > 3 or m >= 0",
    "n.index % 4 < 4", "n.index // 2 >= 0", "n.index & 7 < 8", "n.index == n.index", "lane % 8 < 8",
    "(i & 1) + 1 <= 2", "(i & 3) * 2 <= 6", "(i & 3) - 4 < 0", "(i & 3 ^ 4) < 8",
    "i >> 31 <= 0",
]  # fmt: skip
NEVER = ["m < 0", "m >= M", "i >= count", "i == count", "f > 3 and i < 0", "M < 0", "n.index < -3"]
PERHAPS = [
    "m > 0", "n.index > 0", "f >= 0", "m < M - 1", "m + 1 < M", "i < c", "i < f", "i > 0", "count > 0", "M > 0",
    "n.index + m > -1", "n.index * 64 >= 0", "n.index - 1 >= 0", "f % 4 < 4", "f & 7 < 8", "lane < 31", "i < count - 1",
    "(i & 3) - 3 < 0", "i >> 30 <= 0",
]  # fmt: skip


def conditions(condition: str) -> int:
    """How many conditions are left; and what is chosen has to be one of the two."""
    text = KERNEL.replace("CONDITION", condition)
    module = to_module(Job(text, "always.tk", "sm_90a"), after="frontend")
    return sum(isinstance(op, s.IfOp) for op in module.walk())


@pytest.mark.parametrize("condition", [*ALWAYS, *NEVER])
def test_a_known_condition_is_gone(condition: str) -> None:
    assert conditions(condition) == 0


@pytest.mark.parametrize("condition", PERHAPS)
def test_another_one_stays(condition: str) -> None:
    assert conditions(condition) == 1


@pytest.mark.parametrize(
    ("condition", "times"), [("i < count", 2), ("i >= count", 3), ("m > -1", 2)]
)
def test_the_right_side_is_taken(condition: str, times: int) -> None:
    kernel = tkc.compile(KERNEL.replace("CONDITION", condition), target="sm_90a")
    x = np.random.default_rng().uniform(-1, 1, (3, 128)).astype(np.float32)
    y = np.full_like(x, np.nan)
    assert kernel.emulate(x, y, f=0, count=2).clean
    assert np.array_equal(y, x * times)


def test_in_a_condition_s_place_stands_what_it_sets() -> None:
    """Variables that only one side sets keep their value behind the other."""
    text = KERNEL.replace("                else: x = 3\n", "").replace("CONDITION", "m < 0")
    kernel = tkc.compile(text, target="sm_90a")
    x = np.random.default_rng().uniform(-1, 1, (3, 128)).astype(np.float32)
    y = np.full_like(x, np.nan)
    assert kernel.emulate(x, y, f=0, count=1).clean
    assert np.array_equal(y, x)
