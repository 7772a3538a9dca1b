"""Counters that only grow: what is divided out of them repeats, and what is compared with them does not."""

from __future__ import annotations

import pytest

from tests.analysis.test_bug_cases import said

WAIT = "wait empty[t % 2], t // 2 % 2 ^ 1"

ITEMS = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 1
    role load:
        t = 0
        for m, n in work:
            WAITS
            elect:
                expect full[t % 2], bytes(x)
                load x[t % 2] <- X[m, n], full[t % 2]
            t = t + 1
    role store:
        t = 0
        for m, n in work:
            wait full[t % 2], t // 2 % 2
            elect:
                store Y[m, n] <- x[t % 2]
                commit stores
                wait stores, read
                arrive empty[t % 2]
            t = t + 1
        elect: wait stores
"""

TURNS = """\
kernel k(X: global[f32, Q, N], Y: global[f32, Q, N], q: i32):
    param N = 128
    launch persistent
    schedule work: m in tiles(blocks(Q, 64))
    shared x: vector[f32, N] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 128
    role load:
        for t in range(q):
            WAITS
            elect:
                expect full[t % 2], bytes(x)
                for d in blocks(N, N): load x[t % 2] <- X[t, d], full[t % 2]
    role use, warps 4:
        for t in range(q):
            wait full[t % 2], t // 2 % 2
            Y[0, thread] <- read(x[t % 2][thread])
            fence proxy shared
            arrive empty[t % 2], each = thread
"""
"""The counter is the loop's own. What it loads stands in a loop of one turn."""

LATE = """\
kernel late(A: global[f16, M, K], B: global[f16, N, K], C: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 64))
    shared a: tile[f16, 64, 64] * 4
    shared b: tile[f16, 64, 64] * 4
    accum d: tile[f32, 64, 64]
    barrier full * 4, count = 1
    barrier empty * 4, count = 4
    role load:
        t = 0
        for m, n in work:
            for k in blocks(K, 64):
                wait empty[t % 4], t // 4 % 2 ^ 1
                elect:
                    expect full[t % 4], bytes(a, b)
                    load a[t % 4] <- A[m, k], full[t % 4]
                    load b[t % 4] <- B[n, k], full[t % 4]
                t = t + 1
    role math, warps 4:
        t = 0
        for m, n in work:
            for k in blocks(K, 64):
                wait full[t % 4], t // 4 % 2
                fence products
                mma d += a[t % 4] @ b[t % 4].T, not k.first
                commit products
                wait products <= 1
                if k.index > 0: arrive empty[(t - 1) % 4], each = warp
                t = t + 1
            wait products
            if K > 0: arrive empty[(t - 1) % 4], each = warp
            C[m, n] <- read(d) if K > 0 else 0
"""
"""A slot is released one turn late, by its number less one."""


def both(first: str, second: str) -> str:
    return f"{first} {WAIT}\n            {second} {WAIT}"


GOOD = {
    "each turn": WAIT,
    "turns by pairs": both("if t // 2 % 2 == 0:", "if t // 2 % 2 == 1:"),
    "a mask": "wait empty[t & 1], (t & 6) // 2 % 2 ^ 1",
}


@pytest.mark.parametrize("waits", GOOD)
def test_what_is_divided_repeats(waits: str) -> None:
    assert [d.message for d in said(TURNS.replace("WAITS", GOOD[waits]), "sm_90a")] == []


BAD = {
    "the first turns": both("if t < 2:", "if t // 2 % 2 == 1:"),
    "the first turns, of the next": both("if t + 1 < 3:", "if t // 2 % 2 == 1:"),
    "the first pair": both("if t // 2 == 0:", "if t // 2 % 2 == 1:"),
    "all but late ones": f"if t < 9: {WAIT}",
}


@pytest.mark.parametrize("text", [ITEMS, TURNS])
@pytest.mark.parametrize("waits", BAD)
def test_what_is_compared_does_not(waits: str, text: str) -> None:
    """In later turns nothing is waited for."""
    found = said(text.replace("WAITS", BAD[waits]), "sm_90a")
    assert any(d.code in ("TK308", "TK309") and " of x " in d.message for d in found)


def test_a_phase_of_longer_periods_is_not_followed() -> None:
    found = said(TURNS.replace("WAITS", "wait empty[t % 2], t // 2 // 2 % 2 ^ 1"), "sm_90a")
    assert "TK306" in {d.code for d in found}


def test_a_comparison_leaves_the_rest_as_it_is() -> None:
    assert [d.message for d in said(LATE, "sm_90a")] == []
    found = said(LATE.replace("products <= 1", "products <= 2"), "sm_90a")
    assert {d.code for d in found} == {"TK308"}


@pytest.mark.parametrize("depth", [2, 3])
def test_what_is_divided_out_of_a_negative_counter_is_not_known(depth: int) -> None:
    """`//` and `%` are of non-negative integers: -3 as one without a sign leaves 1 by 3."""
    ring = ITEMS.replace("WAITS", WAIT).replace("t % 2", f"t % {depth}")
    ring = ring.replace("* 2", f"* {depth}").replace("// 2", f"// {depth}")
    assert said(ring, "sm_90a") == ()
    ahead = ring.replace("        t = 0\n", f"        t = {2 * depth}\n")
    assert said(ahead, "sm_90a") == ()
    negative = ring.replace("        t = 0\n", f"        t = 0 - {2 * depth}\n")
    assert "TK306" in {d.code for d in said(negative, "sm_90a")}
