"""What one role does twice to a place of a tensor and the compiler leaves to the program: `tkc check` says where nothing
orders it, as the emulator does, and says nothing where the program does."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import tkc
from tkc.analysis.happens_before import check
from tkc.emulator import Report

HEAD = """
kernel k(Y: global[f32, M, N], Z: global[f32, M, N], V: global[f32, Q]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared a: tile[f32, 128, 32] * 2
    shared x: tile[f32, 128, 32]
    shared v: vector[f32, 128]
    barrier full, count = 1
"""
MINE, YOURS = "m.index * 128 + thread", "m.index * 128 + 127 - thread"


def alone(*lines: str) -> str:
    """A role of all threads, and what it does for each of its items."""
    body = "".join(f"            {line}\n" for line in lines)
    return f"    role all, warps 4:\n        phase = 0\n        for m in work:\n{body}"


TILE = ("elect:", "    expect full, bytes(x)", "    load x[0] <- Y[m, k], full")
AWAITED = ("wait full, phase", "phase = phase ^ 1")
SHOWN = ("Z[m, k] <- read(x[0])", "fence proxy shared", "sync role")
COPY = f"load v[0][thread] <- Y[{YOURS}, 0], 4"
COPIED = ("commit copies", "wait copies", "sync role")
LAST = (f"Z[{MINE}, 0] <- read(v[0][thread])", "sync role")
PIPES = """\
    pipe p(a): both -> other
    pipe q(x): other -> both
    role both, warps 4:
        for m in work:
            for k in blocks(N, 32):
                put p: a <- Y[m, k]
{}
    role other, warps 4:
        for m in work:
            for k in blocks(N, 32):
                get p, put q: x <- read(a) + 1
"""


def in_blocks(*lines: str) -> str:
    return alone("for k in blocks(N, 32):", *(f"    {line}" for line in lines))


WRONG = {
    "an element of another thread is read": alone(
        f"V[{MINE}] <- f32(thread)", f"Z[{MINE}, 0] <- read(V[{YOURS}])"
    ),
    "elements of other threads are written": alone(f"V[{MINE}] <- 1.0", f"V[{YOURS}] <- 2.0"),
    "all threads write one element": alone("V[m.index] <- f32(thread)"),
    "a level-2 load, then a store": in_blocks(*TILE, "Y[m, k] <- full(5)", *AWAITED, *SHOWN),
    "a store, then a level-2 load": in_blocks("Y[m, k] <- full(5)", *TILE, *AWAITED, *SHOWN),
    "a copy of elements, then stores": alone(COPY, f"Y[{MINE}, 0] <- 5.0", *COPIED, *LAST),
    "stores, then a copy of elements": alone(f"Y[{MINE}, 0] <- 5.0", COPY, *COPIED, *LAST),
}
REFUSED = PIPES.format(
    "                Y[m, k] <- full(7)\n                get q: z = row_sum(read(x))"
)
"""A tile is loaded and stored to, and nobody who knows the load to be complete has told of it."""
RIGHT = {
    "an element of another thread is read behind a meeting": alone(
        f"V[{MINE}] <- f32(thread)", "sync role", f"Z[{MINE}, 0] <- read(V[{YOURS}])", "sync role"
    ),
    "a tile is stored to by way of who has got it": PIPES.format(
        "                get q: Y[m, k] <- read(x)"
    ),
    "a level-2 load, a wait, then a store": in_blocks(*TILE, *AWAITED, "Y[m, k] <- full(5)", *SHOWN),
    "a store, a wait, then a level-2 load": in_blocks(
        "Y[m, k] <- full(5)", "elect: wait stores", "sync role", *TILE, *AWAITED, *SHOWN
    ),
    "a copy of elements, a wait, then stores": alone(COPY, *COPIED, f"Y[{MINE}, 0] <- 5.0", *LAST),
    "stores, a meeting, then a copy of elements": alone(
        f"Y[{MINE}, 0] <- 5.0", "sync role", COPY, *COPIED, *LAST
    ),
}  # fmt: skip


@cache
def kernel(body: str) -> tkc.Kernel:
    return tkc.compile(HEAD + body, target="sm_90a")


def ran(body: str, schedule: str) -> Report:
    y, z = (np.ones((256, 32), np.float32) for _ in range(2))
    v = np.zeros(256, np.float32)
    return kernel(body).emulate(y, z, v, schedule=schedule, sm_count=1, max_steps=200_000)


@pytest.mark.parametrize("name", WRONG)
def test_nothing_orders_them(name: str) -> None:
    body = WRONG[name]
    found = check(kernel(body).module("insert-fences"))
    assert found
    assert {f.code for f in found} <= {"TK301", "TK308", "TK309"}
    assert any(ran(body, schedule).races for schedule in ("eager", "lazy"))


def test_a_load_that_nobody_awaits_is_no_place_to_write() -> None:
    with pytest.raises(tkc.TkcError, match=r"writing a place that the same role loads.*TK110"):
        kernel(REFUSED)


@pytest.mark.parametrize("name", RIGHT)
def test_the_program_orders_them(name: str) -> None:
    body = RIGHT[name]
    assert check(kernel(body).module("insert-fences")) == []
    assert not ran(body, "lazy").findings
