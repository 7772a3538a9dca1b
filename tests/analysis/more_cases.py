"""Right kernels of what a program may say about order, each with slips: words, sets of threads, loops of all kinds."""

from __future__ import annotations

from tests.analysis.bug_cases import Case, changed
from tests.analysis.twins import HANDED, RING

HEAD = """\
kernel k(X: global[f32, M, N], F: global[i32, N], Y: global[f32, M, N], n: i32):
    launch persistent
    schedule work: m, c in tiles(M, blocks(N, 128))
"""

SHARED = (
    HEAD
    + """\
    shared v: vector[f32, 128] * 2
    barrier full * 2, count = 128
    barrier empty * 2, count = 128
    role one, warps 4:
        i = 0
        phase = 0
        for m, c in work:
            wait empty[i], phase ^ 1
            v[i][thread] <- read(X[m, c.index * 128 + thread])
            arrive full[i], each = thread
            phase = phase ^ i
            i = 1 - i
    role two, warps 4:
        i = 0
        phase = 0
        for m, c in work:
            wait full[i], phase
            Y[m, c.index * 128 + thread] <- read(v[i][127 - thread])
            arrive empty[i], each = thread
            phase = phase ^ i
            i = 1 - i
"""
)
"""Every thread hands an element to a thread of another role."""

COPIED = """\
kernel k(X: global[bf16, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 32))
    shared x: tile[bf16, 64, 32] * 2
    barrier full * 2, count = 64
    barrier empty * 2, count = 128
    role load, warps 2:
        s = 0
        phase = 0
        for m, n in work:
            wait empty[s], phase ^ 1
            for q in 0, 8, 16, 24:
                load x[s][thread, q] <- X[m.index * 64 + thread, n.index * 32 + q], 16
            arrive full[s], copies
            phase = phase ^ s
            s = 1 - s
        commit copies
        wait copies
    role math, warps 4:
        s = 0
        phase = 0
        for m, n in work:
            wait full[s], phase
            for r in unroll(16):
                Y[m.index * 64 + r * 4 + warp, n.index * 32 + lane] <- read(x[s][r * 4 + warp, lane]) + 1
            arrive empty[s], each = thread
            phase = phase ^ s
            s = 1 - s
"""
"""Threads copy, and their copies arrive."""
UNCOUNTED = changed(
    COPIED,
    ("barrier full * 2, count = 64", "barrier full * 2, count = 2"),
    ("            arrive full[s], copies\n",
     "            arrive full[s], copies, uncounted\n            sync warp\n            arrive full[s], each = warp\n"),
)  # fmt: skip

COUNTED = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N], n: i32):
    launch persistent
    schedule work: m, c in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 1
    role load:
        i = 0
        phase = 0
        for m, c in work:
            at = 0
            while at < n:
                wait empty[i], phase ^ 1
                elect:
                    expect full[i], bytes(x)
                    load x[i] <- X[m, c], full[i]
                phase = phase ^ i
                i = 1 - i
                at = at + 1
    role store:
        i = 0
        phase = 0
        for m, c in work:
            by = 0
            while n > by:
                wait full[i], phase
                elect:
                    store Y[m, c] <- x[i]
                    commit stores
                    wait stores
                    arrive empty[i]
                phase = phase ^ i
                i = 1 - i
                by = 1 + by
"""
"""Two loops on conditions that say the same."""

TWICE = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N], f: i32, g: i32):
    launch persistent
    schedule work: m, c in tiles(blocks(M, 128), blocks(N, 64))
    shared x: tile[bf16, 128, 64] * 2
    barrier full * 2, count = 1
    barrier empty * 2, count = 1
    role load:
        i = 0
        phase = 0
        for m, c in work:
            if m.index < f:
                wait empty[i], phase ^ 1
                elect:
                    expect full[i], bytes(x)
                    load x[i] <- X[m, c], full[i]
                phase = phase ^ i
                i = 1 - i
            if c.index < g:
                wait empty[i], phase ^ 1
                elect:
                    expect full[i], bytes(x)
                    load x[i] <- X[m, c], full[i]
                phase = phase ^ i
                i = 1 - i
    role store:
        i = 0
        phase = 0
        for m, c in work:
            if m.index < f:
                wait full[i], phase
                elect:
                    store Y[m, c] <- x[i]
                    commit stores
                    wait stores
                    arrive empty[i]
                phase = phase ^ i
                i = 1 - i
            if c.index < g:
                wait full[i], phase
                elect:
                    store Y[m, c] <- x[i]
                    commit stores
                    wait stores
                    arrive empty[i]
                phase = phase ^ i
                i = 1 - i
"""
"""A ring whose items come under one condition and then under another, each once a turn."""

NESTED = changed(
    TWICE,
    (TWICE[TWICE.index("            if c.index < g:\n                wait empty") : TWICE.index("    role store")], ""),
    (TWICE[TWICE.rindex("            if c.index < g:\n") :], ""),
    ("if m.index < f:", "if m.index < f and c.index < g:"),
)  # fmt: skip

EITHER = """\
kernel sums(A: global[f32, M, N], B: global[f32, M, N], C: global[f32, M, N], f: i32):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared a: tile[f32, 128, 32] * 2
    pipe left(a): load -> math
    role load:
        for m, n in work:
            if f > m.index:
                put left: a <- A[m, n]
            else:
                put left: a <- B[m, n]
    role math, warps 4:
        for m, n in work:
            x = full(0)
            if f > m.index:
                get left: x = x + read(a)
            else:
                get left: x = x + read(a) * 2
            C[m, n] <- x
"""
"""An item in each branch of a condition, and more in the turn."""

PEEKED = changed(
    RING,
    ("            wait full[i], phase\n",
     "            ready = try_wait(full[i], phase)\n            if not ready: wait full[i], phase\n"),
)  # fmt: skip
SPUN = changed(
    RING,
    ("            wait full[i], phase\n",
     "            while not try_wait(full[i], phase):\n                spins = spins + 1\n"),
    ("    role math, warps 4:\n", "    role math, warps 4:\n        spins = 0\n"),
)  # fmt: skip
ASKED = changed(
    HANDED,
    ("""\
            wait ready[i], phase
            elect:
                store Y[m, n] <- y[i]
                commit stores
""", """\
            elect:
                if try_wait(ready[i], phase):
                    store Y[m, n] <- y[i]
                else:
                    wait ready[i], phase
                    store Y[m, n] <- y[i]
                commit stores
"""),
)  # fmt: skip


def by_warp(number: int) -> str:
    """The ring, loaded by one warp of four."""
    return changed(
        RING,
        ("    role load:\n", "    role load, warps 4:\n"),
        ("            wait empty[i], phase ^ 1\n            elect:\n", f"            if warp == {number}:\n"
         "                wait empty[i], phase ^ 1\n"),
    )  # fmt: skip


MORE: dict[str, tuple[Case, ...]] = {
    "try_wait": (
        Case(PEEKED, (
            ((("try_wait(full[i], phase)", "try_wait(full[1 - i], phase)"),), "TK301", "read(x[i])"),
            ((("try_wait(full[i], phase)", "try_wait(full[i], phase, relaxed)"),), "TK301", "read(x[i])"),
            ((("if not ready", "if ready"),), "TK301", "read(x[i])"),
            ((("if not ready: wait full[i], phase", "if not ready: wait full[1 - i], phase"),), "TK305", "wait full"),
        )),
        Case(SPUN, (
            ((("while not try_wait", "while try_wait"),), "TK301", "read(x[i])"),
            ((("try_wait(full[i], phase)", "try_wait(full[i], phase ^ 1)"),), "TK301", "read(x[i])"),
            ((("while not try_wait(full[i], phase)", "while not try_wait(full[i], phase) and spins < 9"),), "TK301", "read(x[i])"),
        )),
        Case(ASKED, (((("                    wait ready[i], phase\n", ""),), "TK301", "store Y"),)),
    ),
    "arrivals of copies": (
        Case(COPIED, (
            ((("arrive full[s], copies", "arrive full[s], each = thread"),), "TK301", "read(x[s]"),
            ((("            arrive full[s], copies\n", ""), ("wait empty[s], phase ^ 1\n", "wait empty[s], phase ^ 1\n            arrive full[s], copies\n")), "TK301", "read(x[s]"),
            ((("count = 64", "count = 32"),), "TK305", "arrive full"),
        )),
        Case(UNCOUNTED, (
            ((("            sync warp\n", ""),), "TK301", "read(x[s]"),
            ((("count = 2\n", "count = 64\n"),), "TK305", "arrive full"),
        )),
        # the arrival tells of copies, and of nothing that the thread stored
        Case(changed(COPIED, ("            arrive full[s], copies\n",
                              "            for q in range(32): x[s][thread, q] <- 0.0\n            arrive full[s], each = thread\n"),
                     ("            for q in 0, 8, 16, 24:\n                load x[s][thread, q] <- X[m.index * 64 + thread, n.index * 32 + q], 16\n", ""),
                     ("        commit copies\n        wait copies\n", "")),
             (((("arrive full[s], each = thread", "arrive full[s], copies"),), "TK301", "read(x[s]"),)),
    ),
    "loops on conditions": (
        Case(COUNTED, (
            ((("while n > by", "while n >= by"),), "TK314", "wait"),
            ((("by = 1 + by", "by = 2 + by"),), "TK314", "wait"),
            ((("by = 0", "by = 1"),), "TK314", "wait"),
            ((("while n > by", "while c.index > by"),), "TK314", "wait"),
            ((("                    arrive empty[i]\n", ""),), "TK305", "wait empty"),
        )),
    ),
    "items under conditions": (
        Case(TWICE, (
            ((("            if c.index < g:\n                wait full", "            if c.index <= g:\n                wait full"),), "TK314", "wait"),
            ((("                wait full[i], phase\n", ""),), "TK301", "store Y"),
            ((("                    arrive empty[i]\n", ""),), "TK305", "wait empty"),
            ((("                    wait stores\n", ""),), "TK309", "load x"),
            ((("                phase = phase ^ i\n                i = 1 - i\n    role store", "                i = 1 - i\n    role store"),), "TK306", "wait empty"),
        )),
        Case(NESTED, (
            ((("if m.index < f and c.index < g:\n                wait full", "if m.index < f:\n                wait full"),), "TK314", "wait"),
            ((("                wait full[i], phase\n", ""),), "TK301", "store Y"),
        )),
        Case(EITHER),
    ),
    "threads that data choose": (
        Case(SHARED, (
            ((("            wait full[i], phase\n", "            if read(F[thread]) > 0: wait full[i], phase\n            sync role\n"),), "TK301", "read(v[i]"),
            ((("            wait full[i], phase\n            Y[m, c", "            if lane < 16: wait full[i], phase\n            if lane >= 16: Y[m, c"),), "TK301", "read(v[i]"),
        )),
        Case(changed(SHARED, ("            Y[m, c", "            if lane < 16: Y[m, c"))),
        Case(changed(SHARED, ("            Y[m, c", "            if read(F[thread]) > 0: Y[m, c"))),
    ),
    "one warp of several": (
        *(Case(by_warp(n), (
            ((("expect full[i], bytes(x)", "expect full[i], bytes(c)"), ("128, 64]\n    barrier", "128, 32]\n    barrier"),
              ("c <- bf16(f32(read(x[i])) * 2)", "c <- bf16(f32(read(x[i], 0, 32)) * 2)"), ("blocks(N, 64)", "blocks(N, 64)"),
              ("store Y[m, n] <- c", "store Y[m, n.part(0, 2)] <- c")), "TK305", "load x"),
            ((("                wait empty[i], phase ^ 1\n", ""),), "TK309", "load x"),
        )) for n in (0, 1, 3)),
        Case(changed(SHARED, ("count = 128\n    barrier empty", "count = 1\n    barrier empty"),
                     ("arrive full[i], each = thread", "sync role\n            if warp == 2: arrive full[i]")),
             (((("count = 1\n", "count = 32\n"),), "TK305", "arrive full"),
              ((("sync role\n            if warp == 2: ", "if warp == 2: "),), "TK301", "read(v[i]"))),
    ),
}  # fmt: skip
"""By what they are about."""
