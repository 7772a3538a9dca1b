"""Conditions that a launch decides, and what a loop does in its first or last turn alone: told apart by the launch."""

from __future__ import annotations

import pytest

from tests.analysis.bug_cases import changed
from tests.analysis.test_bug_cases import said

TURNS = """\
kernel ping(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    param BM = 128, BN = 64, BK = 64, S = 3
    assert K > 0
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK] * S
    shared b: tile[bf16, BN, BK] * S
    accum d: tile[f32, BM, BN] * 2
    barrier full * S, count = 1
    barrier empty * S, count = 1
    barrier acc_full * 2, count = 1
    barrier acc_empty * 2, count = 4
    role load:
        s = 0
        p = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait empty[s], p ^ 1
                elect:
                    expect full[s], bytes(a, b)
                    load a[s] <- A[m, k], full[s]
                    load b[s] <- B[n, k], full[s]
                s = s + 1
                if s == S:
                    s = 0
                    p = p ^ 1
    role issue:
        s = 0
        p = 0
        i = 0
        e = 1
        for m, n in work:
            for k in blocks(K, BK):
                wait full[s], p
                if k.first: wait acc_empty[i], e
                elect:
                    mma d[i] += a[s] @ b[s].T, not k.first
                    commit empty[s]
                    if k.last: commit acc_full[i]
                s = s + 1
                if s == S:
                    s = 0
                    p = p ^ 1
            e = e ^ i
            i = 1 - i
    role out, warps 4:
        i = 0
        e = 0
        for m, n in work:
            wait acc_full[i], e
            v = read(d[i])
            sync warp
            arrive acc_empty[i], each = warp
            C[m, n] <- v
            e = e ^ i
            i = 1 - i
"""
"""The accumulator's barriers are the first and the last turn's of the loop over K."""

COUNTED = changed(
    TURNS,
    ("d: tile[f32, BM, BN] * 2", "d: tile[f32, BM, BN]"),
    ("acc_full * 2", "acc_full"),
    ("acc_empty * 2", "acc_empty"),
    ("[i]", ""),
    (
        "                if k.first: wait acc_empty, e\n",
        "                if k.first:\n                    wait acc_empty, e\n                    e = e ^ 1\n",
    ),
    ("            e = e ^ i\n            i = 1 - i\n    role", "    role"),
    ("e = e ^ i\n            i = 1 - i", "e = e ^ 1"),
)
"""The phase goes on in the first turn."""

ELECTED = changed(
    TURNS,
    ("                    if k.last: commit acc_full[i]\n", ""),
    (
        "                s = s + 1\n                if s == S:\n                    s = 0\n                    p = p ^ 1\n            e = e ^ i",
        "                s = s + 1\n                if s == S:\n                    s = 0\n                    p = p ^ 1\n"
        "                if k.index == cdiv(K, BK) - 1:\n                    elect: commit acc_full[i]\n            e = e ^ i",
    ),
    ("if k.first", "if k.index == 0"),
)

FLAG = """\
kernel flagged(X: global[f32, M, N], Y: global[f32, M, N], Z: global[f32, M, N], twice: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 32))
    shared x: tile[f32, 64, 32] * 2
    shared z: tile[f32, 64, 32] * 2
    barrier full * 2, count = 1
    barrier more * 2, count = 1
    barrier empty * 2, count = 64
    role load:
        t = 0
        for m, n in work:
            wait empty[t % 2], t // 2 % 2 ^ 1
            elect:
                expect full[t % 2], bytes(x)
                load x[t % 2] <- X[m, n], full[t % 2]
                if twice > 0:
                    expect more[t % 2], bytes(z)
                    load z[t % 2] <- Z[m, n], more[t % 2]
            t = t + 1
    role sum, warps 2:
        t = 0
        for m, n in work:
            wait full[t % 2], t // 2 % 2
            if twice >= 1:
                wait more[t % 2], t // 2 % 2
                Y[m, n] <- read(x[t % 2]) + read(z[t % 2])
            else:
                Y[m, n] <- read(x[t % 2])
            fence proxy shared
            arrive empty[t % 2], each = thread
            t = t + 1
"""
"""An argument says whether a second ring is in use."""

GOOD = {"turns": TURNS, "counted": COUNTED, "elected": ELECTED, "flag": FLAG}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_in_each_launch_is_silent(name: str) -> None:
    assert [(d.code, d.message) for d in said(GOOD[name], "sm_100a")] == []


FIRST = "                if k.first: wait acc_empty[i], e\n"
LAST = "                    if k.last: commit acc_full[i]\n"

SLIPS = {
    "nobody waits": (TURNS, ((FIRST, ""),), "TK309", "mma d", ""),
    "the last turn waits": (TURNS, ((FIRST, FIRST.replace("first", "last")),), "TK309", "mma d", ""),
    "a commit before the last products": (
        TURNS, ((LAST, ""), ("                    mma d", LAST + "                    mma d")), "TK305", "commit acc", "",
    ),
    "no blocks of K": (TURNS, (("    assert K > 0\n", ""),), "TK305", "wait acc_full", "where K = 0"),
    "no warp is waited for": (TURNS, (("            sync warp\n", ""),), "TK309", "mma d", ""),
    "the second ring is not awaited": (
        FLAG, (("                wait more[t % 2], t // 2 % 2\n", ""),), "TK301", "read(z", "where twice > 0",
    ),
    "roles ask different things": (FLAG, (("twice >= 1", "twice > 1"),), "TK301", "load z", "where twice > 0 and twice <= 1"),
}  # fmt: skip


@pytest.mark.parametrize("what", SLIPS)
def test_what_is_wrong_in_some_launch_is_told_with_it(what: str) -> None:
    good, changes, code, line, where = SLIPS[what]
    text = changed(good, *changes)
    found = said(text, "sm_100a")
    lines = text.splitlines()
    shown = [
        d for d in found if d.code == code and d.location and line in lines[d.location.line - 1]
    ]
    assert shown, [(d.code, d.message) for d in found]
    assert any(d.message.endswith(where) for d in shown)
    assert not any("twice <= 0 and twice > 1" in d.message for d in found)


GUARDED = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], f: i32):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 64))
    barrier b, count = 1
    role one, warps 2:
        if f > 0:
            elect: arrive b[0]
    role two, warps 2:
        if cdiv(f, 64) > 0:
            wait b[0], 0
"""


def test_blocks_of_an_argument_may_be_any_number() -> None:
    """Where f = -100, `cdiv(f, 64)` is no number to rely on; of the extent of a tensor it is."""
    for asked in ("cdiv(f, 64) > 0", "cdiv(f, 64) != 0"):
        bad = GUARDED.replace("cdiv(f, 64) > 0", asked)
        assert [d.code for d in said(bad, "sm_90a")] == ["TK305"]
        sizes = bad.replace("cdiv(f, 64)", "cdiv(M, 64)").replace("f > 0", "M > 0")
        assert said(sizes, "sm_90a") == ()
    assert said(GUARDED.replace("cdiv(f, 64) > 0", "f >= 1"), "sm_90a") == ()
