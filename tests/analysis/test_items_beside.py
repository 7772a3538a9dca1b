"""Items of a ring beside the kernel's loop over its items: turns of one loop where phases go on, and else not."""

from __future__ import annotations

import numpy as np
import pytest

import tkc
from tests.analysis.bug_cases import changed
from tests.analysis.test_bug_cases import said

KERNEL = """\
kernel k(X: global[f32, M, 64], Y: global[f32, M, 64], W: global[f32, 64], U: global[f32, L, 64]):
    launch persistent
    schedule work: m in tiles(M)
    shared v: vector[f32, 64] * DEPTH
    barrier full * DEPTH, count = 64
    barrier empty * DEPTH, count = 64
    role load, warps 2:
        i = 0
        phase = 0
        PUTS AHEAD
        for m in work:
            wait empty[i], phase ^ 1
            v[i][thread] <- read(X[m, thread])
            arrive full[i], each = thread
            STEP
        PUTS BEHIND
    role store, warps 2:
        i = 0
        phase = 0
        GETS AHEAD
        for m in work:
            wait full[i], phase
            Y[m, thread] <- read(v[i][63 - thread])
            arrive empty[i], each = thread
            STEP
        GETS BEHIND
"""
PUT = (
    "wait empty[i], phase ^ 1",
    "v[i][thread] <- read(W[thread])",
    "arrive full[i], each = thread",
    "STEP",
)
GET = ("wait full[i], phase", "U[unit * 8 + PLACE, thread] <- read(v[i][63 - thread])", "arrive empty[i], each = thread", "STEP")  # fmt: skip
STEPS = {
    1: ("phase = phase ^ 1",),
    2: ("phase = phase ^ i", "i = 1 - i"),
    3: ("i = i + 1", "if i == 3:", "    i = 0", "    phase = phase ^ 1"),
}


def written(depth: int, puts: tuple[int, int], gets: tuple[int, int] | None = None) -> str:
    """So many items ahead of the loops and behind them."""
    lines: list[str] = []
    counts = dict(
        zip(
            ("PUTS AHEAD", "PUTS BEHIND", "GETS AHEAD", "GETS BEHIND"),
            (*puts, *(gets or puts)),
            strict=True,
        )
    )
    place = 0
    for line in KERNEL.splitlines():
        word = line.strip()
        if word in counts:
            for _ in range(counts[word]):
                item = PUT if word.startswith("PUTS") else GET
                lines += ["        " + x.replace("PLACE", str(place)) for x in item]
                place += word.startswith("GETS")
        else:
            lines.append(line)
    text: list[str] = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        text += [indent + x for x in STEPS[depth]] if line.strip() == "STEP" else [line]
    return "\n".join(text).replace("DEPTH", str(depth)) + "\n"


RIGHT = [(1, (1, 0)), (1, (0, 1)), (1, (2, 1)), (2, (1, 0)), (2, (0, 1)), (2, (1, 1)), (2, (2, 1)), (2, (3, 0)), (3, (1, 0)), (3, (0, 2)), (3, (2, 1)), (3, (4, 0))]  # fmt: skip


@pytest.mark.parametrize(("depth", "items"), RIGHT)
def test_items_ahead_and_behind_are_turns_of_the_loop(depth: int, items: tuple[int, int]) -> None:
    assert said(written(depth, items), "sm_90a") == ()


AHEAD = "        phase = 0\n        wait full[i], phase\n"
GIVEN = "        arrive empty[i], each = thread\n"
TOLD = "        arrive full[i], each = thread\n"
READ = "        U[unit * 8 + 0, thread] <- read(v[i][63 - thread])\n"
WRONG = {
    "the reader has one item fewer": (written(2, (1, 0), (0, 0)), "TK305"),
    "the reader has its item behind": (written(2, (1, 0), (0, 1)), "TK305"),
    "one fewer behind": (written(2, (0, 1), (0, 0)), "TK305"),
    "no wait for it": (changed(written(2, (1, 0)), (AHEAD, "        phase = 0\n")), "TK305"),
    "it is not given back": (changed(written(2, (1, 0)), (READ + GIVEN, READ)), "TK305"),
    "it is given back early": (changed(written(2, (1, 0)), (READ + GIVEN, GIVEN + READ)), "TK309"),
    "its slot does not go on": (changed(written(2, (1, 0)), ("        phase = phase ^ i\n        i = 1 - i\n", "")), "TK305"),
    "its phase does not": (changed(written(1, (1, 0)), ("        phase = phase ^ 1\n        for", "        for")), "TK305"),
    "told ahead of the write": (
        changed(written(3, (1, 0)), ("        v[i][thread] <- read(W[thread])\n" + TOLD, TOLD + "        v[i][thread] <- read(W[thread])\n")), "TK301",
    ),
    "another phase": (changed(written(2, (1, 0)), (AHEAD, AHEAD.replace("i], phase", "i], phase ^ 1"))), "TK305"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_slips_in_them_are_found(what: str) -> None:
    text, code = WRONG[what]
    assert code in {d.code for d in said(text, "sm_90a")}


def test_it_runs() -> None:
    kernel = tkc.compile(written(2, (2, 1)), target="sm_90a")
    rng = np.random.default_rng()
    x, w = rng.uniform(-1, 1, (5, 64)).astype(np.float32), rng.uniform(-1, 1, 64).astype(np.float32)
    y, u = np.full_like(x, np.nan), np.full((8, 64), np.nan, np.float32)
    assert kernel.emulate(x, y, w, u, schedule="random", sm_count=1).clean
    assert np.array_equal(y, x[:, ::-1])
    assert np.array_equal(u[:3], np.tile(w[::-1], (3, 1)))
