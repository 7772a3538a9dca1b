"""`where any(p)`: the loop visits the blocks of which some element that is there meets p, and no others."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tkc

WHERE = {
    "j <= q": lambda j, q, w: j <= q,
    "j <= q and j > q - w": lambda j, q, w: (j <= q) & (j > q - w),
    "j >= 2 * q and j < 2 * q + w": lambda j, q, w: (j >= 2 * q) & (j < 2 * q + w),
    "j == q": lambda j, q, w: j == q,
    "not (j > q - w)": lambda j, q, w: j <= q - w,
    "j > q - w": lambda j, q, w: j > q - w,
    "j + q < w": lambda j, q, w: j + q < w,
    "j <= q and j <= 40 - q": lambda j, q, w: (j <= q) & (j <= 40 - q),
    "j >= q and j >= 70 - q and j < w + 40": lambda j, q, w: (j >= q) & (j >= 70 - q) & (j < w + 40),
    "w > 3 and j < q": lambda j, q, w: (w > 3) & (j < q),
    "q < 5 and j >= q and j < w": lambda j, q, w: (q < 5) & (j >= q) & (j < w),
    "j < 5 and j > q - 7": lambda j, q, w: (j < 5) & (j > q - 7),
    "j <= q or j < w": lambda j, q, w: (j <= q) | (j < w),
    "w > 3 or j < q": lambda j, q, w: (w > 3) | (j < q),
    "(q < 5 or j <= q) and j < w + 40": lambda j, q, w: ((q < 5) | (j <= q)) & (j < w + 40),
    "j <= 40 - q or j <= q and j < w": lambda j, q, w: (j <= 40 - q) | (j <= q) & (j < w),
    "not (j < q and j < w)": lambda j, q, w: (j >= q) | (j >= w),
    "j > q + w or j >= 70 - q and j > 20": lambda j, q, w: (j > q + w) | (j >= 70 - q) & (j > 20),
}  # fmt: skip
"""Conditions as the language and as NumPy write them."""


def _kernel() -> str:
    lines = [
        "kernel v(X: global[f32, M, N], V: global[f32, P, Q], w: i32):",
        "    launch persistent",
        "    schedule work: m in tiles(blocks(M, 32))",
        *(
            f"    schedule keys{i}(q): j in blocks(N, 16) where any({p})"
            for i, p in enumerate(WHERE)
        ),
        "    role comp, warps 1:",
        "        for m in work:",
    ]
    for i in range(len(WHERE)):
        lines += [
            f"            for j in keys{i}(m):",
            f"                if thread == 0: V[m.index * {len(WHERE)} + {i}, j.index] <- "
            "1.0 if j.first else (2.0 if j.last else 3.0)",
        ]
    return "\n".join(lines) + "\n"


@cache
def kernel() -> tkc.Kernel:
    return tkc.compile(_kernel(), target="sm_90a")


@pytest.mark.parametrize(
    ("m", "n", "w"), [(100, 90, 20), (70, 130, 0), (70, 75, 3), (33, 33, -9), (100, 90, 1)]
)
def test_loops_visit_the_blocks_that_meet_a_condition(m: int, n: int, w: int) -> None:
    rows, columns = -(-m // 32), -(-n // 16)
    wanted = np.zeros((rows * len(WHERE), columns), np.float32)
    q, j = np.arange(m)[:, None], np.arange(n)[None]
    for i, meets in enumerate(WHERE.values()):
        met = np.broadcast_to(meets(j, q, w), (m, n))
        for row in range(rows):
            held = met[row * 32 : row * 32 + 32]
            hit = [t for t in range(columns) if held[:, t * 16 : t * 16 + 16].any()]
            for t in hit:
                mark = 1 if t == hit[0] else 2 if t == hit[-1] else 3
                wanted[row * len(WHERE) + i, t] = mark
    got = np.zeros_like(wanted)
    x = np.ones((m, n), np.float32)
    assert not kernel().emulate(x, got, w, sm_count=1).findings
    assert (got == wanted).all(), [
        (list(WHERE)[r % len(WHERE)], r // len(WHERE), got[r], wanted[r])
        for r in np.nonzero((got != wanted).any(1))[0]
    ]
