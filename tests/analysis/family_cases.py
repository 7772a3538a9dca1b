"""More cases of each kind of our list of failures, which nobody has met yet: right kernels, and slips in them."""

from __future__ import annotations

from pathlib import Path

from tests.analysis.bug_cases import GEMM, NAMED, PAIR, SCALED, TRANSFORMED, WGMMA, Case, changed
from tests.analysis.more_cases import HEAD, SHARED
from tests.analysis.twins import DEPENDENT, HANDED, LOADING, RING, STAGED, THROUGH, source

CLUSTER = source("gemm_cluster_level2_sm90")
CLUSTER_COPY = (Path(__file__).parents[2] / "lit_tests" / "run" / "cluster-copy.tk").read_text(
    encoding="utf-8"
)

# Proxies --------------------------------------------------------------------------------------------------------------

COPIED_OUT = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared x: tile[bf16, 128, 32] * 2
    role all, warps 4:
        i = 0
        for m, n in work:
            elect: wait stores <= 1, read
            sync role
            for q in 0, 8, 16, 24:
                load x[i][thread, q] <- X[m.index * 128 + thread, n.index * 32 + q], 16
            commit copies
            wait copies
            fence proxy shared
            sync role
            elect:
                store Y[m, n] <- x[i]
                commit stores
            i = 1 - i
        elect: wait stores
"""
"""Copies of threads (generic) leave by the copy engine (async)."""

READ_AGAIN = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    barrier full, count = 1
    role all, warps 4:
        phase = 0
        for m, n in work:
            elect:
                expect full, bytes(v)
                load v <- X[m, n], full
            wait full, phase
            phase = phase ^ 1
            Y[m, n.index * 128 + thread] <- read(v[0][127 - thread])
            fence proxy shared
            sync role
"""
"""Threads read what the copy engine overwrites in the next turn."""

THROUGH_GLOBAL = """\
kernel k(X: global[f32, M, N], S: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    barrier full, count = 1
    role all, warps 4:
        phase = 0
        for m, n in work:
            S[m, n.index * 128 + thread] <- read(X[m, n.index * 128 + thread])
            fence proxy global
            sync role
            elect:
                fence proxy shared
                expect full, bytes(v)
                load v <- S[m, n], full
            wait full, phase
            phase = phase ^ 1
            Y[m, n.index * 128 + thread] <- read(v[0][127 - thread])
            fence proxy shared
            sync role
"""
"""Threads store to global memory what a copy then loads."""

# Barriers -------------------------------------------------------------------------------------------------------------

TWO_SIDES = """\
kernel k(X: global[bf16, M, N], W: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 64))
    shared x: tile[bf16, 64, 64] * 2
    shared w: tile[bf16, 64, 64] * 2
    barrier full * 2, count = 2
    barrier empty * 2, count = 1
    role left:
        i = 0
        phase = 0
        for m, n in work:
            wait empty[i], phase ^ 1
            elect:
                expect full[i], bytes(x)
                load x[i] <- X[m, n], full[i]
            phase = phase ^ i
            i = 1 - i
    role right:
        i = 0
        phase = 0
        for m, n in work:
            wait empty[i], phase ^ 1
            elect:
                expect full[i], bytes(w)
                load w[i] <- W[m, n], full[i]
            phase = phase ^ i
            i = 1 - i
    role store:
        i = 0
        phase = 0
        for m, n in work:
            wait full[i], phase
            elect:
                store Y[m, n] += x[i]
                store Y[m, n] += w[i]
                commit stores
                wait stores, read
                arrive empty[i]
            phase = phase ^ i
            i = 1 - i
        elect: wait stores
"""
"""Two roles fill an item together."""

TWO_READERS = """\
kernel k(X: global[bf16, M, N], Y: global[bf16, M, N], Z: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 64))
    shared x: tile[bf16, 64, 64] * 3
    barrier full * 3, count = 1
    barrier empty * 3, count = 2
    role load:
        i = 0
        phase = 0
        for m, n in work:
            wait empty[i], phase ^ 1
            elect:
                expect full[i], bytes(x)
                load x[i] <- X[m, n], full[i]
            i = i + 1
            if i == 3:
                i = 0
                phase = phase ^ 1
    role one:
        i = 0
        phase = 0
        for m, n in work:
            wait full[i], phase
            elect:
                store Y[m, n] <- x[i]
                commit stores
                wait stores, read
                arrive empty[i]
            i = i + 1
            if i == 3:
                i = 0
                phase = phase ^ 1
        elect: wait stores
    role other:
        t = 0
        for m, n in work:
            wait full[t % 3], t // 3 % 2
            elect:
                store Z[m, n] <- x[t % 3]
                commit stores
                wait stores, read
                arrive empty[t % 3]
            t = t + 1
        elect: wait stores
"""
"""Two roles empty a slot, each in its own words."""

THREE = changed(
    STAGED,
    ("shared c: tile[bf16, 128, 64] * 2", "shared c: tile[bf16, 128, 64] * 3"),
    ("wait stores <= 1, read", "wait stores <= 2, read"),
    ("            i = 1 - i\n", "            i = i + 1\n            if i == 3: i = 0\n"),
)

# Tensor memory --------------------------------------------------------------------------------------------------------

HALVES = changed(
    GEMM,
    ("barrier drained * 2, count = 4", "barrier drained * 2, count = 8"),
    (GEMM[GEMM.index("    role store") :],
     "".join(
         f"""\
    role {name}, warps 4:
        i = 0
        turn = 0
        for m, n in work:
            wait done[i], turn
            fence tcgen05 after
            elect:
                wait stores, read
            sync role
            {tile} <- bf16(read(d[i], {first}, WIDTH) if K > 0 else 0)
            fence proxy shared
            sync role
            elect:
                store C[m, n.part({part}, BN // WIDTH)] <- {tile}
                commit stores
            fence tcgen05 before
            sync warp
            arrive drained[i], each = warp
            i += 1
            if i == 2:
                i = 0
                turn = turn ^ 1
        elect:
            wait stores
"""
         for name, tile, first, part in (("low", "c[0]", "0", 0), ("high", "c[1]", "WIDTH", 1)))),
)  # fmt: skip
"""Two roles read an accumulator, each some of its columns."""

# Convergence ----------------------------------------------------------------------------------------------------------

COUNTED_THREADS = (
    HEAD
    + """\
    shared v: vector[f32, 128]
    role all, warps 4:
        for m, c in work:
            v[0][thread] <- read(X[m, c.index * 128 + thread])
            if n > 3:
                v[0][thread] <- read(v[0][thread]) * 2
            sync 3, 128
            if n > 5:
                Y[m, c.index * 128 + thread] <- read(v[0][127 - thread])
            sync 3, 128
"""
)
"""A numbered barrier between two conditions of the launch."""

EXCHANGED = (
    HEAD
    + """\
    shared p: vector[i32, 1]
    role all, warps 4:
        elect: p[0][0] <- 0
        sync role
        for m, c in work:
            turn = read(p[0][0])
            Y[m, c.index * 128 + thread] <- read(X[m, c.index * 128 + thread]) if turn > 0 else 0.0
            sync role
            elect: p[0][0] <- turn + 1
            sync role
"""
)
"""A word in shared memory says how far the threads are: each has read it before one sets it on."""

THREE_MEET = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], Z: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    role one, warps 4:
        for m, n in work:
            v[0][thread] <- read(X[m, n.index * 128 + thread])
            arrive 1, 384
            sync 2, 384
    role two, warps 4:
        for m, n in work:
            sync 1, 384
            Y[m, n.index * 128 + thread] <- read(v[0][127 - thread])
            arrive 2, 384
    role three, warps 4:
        for m, n in work:
            sync 1, 384
            Z[m, n.index * 128 + thread] <- read(v[0][127 - thread])
            arrive 2, 384
"""

FAMILIES: dict[str, tuple[Case, ...]] = {
    "MBR-11": (
        Case(EXCHANGED, (((("            sync role\n            elect: p[0][0] <- turn", "            elect: p[0][0] <- turn"),), "TK309", "p[0][0] <- turn"),)),
    ),
    "CTA2-5": (
        Case(PAIR, (((("            wait done[i], turn, cluster\n", ""),), "TK313", "mma d"),), "sm_100a"),
        Case(CLUSTER_COPY, (((("            wait given[i], phase, cluster\n", ""),), "TK313", "copy y"),)),
    ),
    "CVG-1": (
        Case(COUNTED_THREADS, (((("            sync 3, 128\n            if n > 5", "            if lane < 7: sync 3, 128\n            if n > 5"),), "TK316", "sync 3"),)),
    ),
    "LCH-1": (
        Case(DEPENDENT, (((("        wait pdl\n", ""), ("    role math, warps 4:\n", "    role math, warps 4:\n        wait pdl\n")), "TK318", "load x"),)),
    ),
    "FP-5": (Case(WGMMA), Case(THROUGH), Case(GEMM, (), "sm_100a")),
    "PRX": (
        Case(COPIED_OUT, (
            ((("            fence proxy shared\n", ""),), "TK302", "store Y"),
            ((("            wait copies\n            fence proxy shared\n", "            fence proxy shared\n            wait copies\n"),), "TK302", "store Y"),
            ((("            wait copies\n", ""),), "TK301", "store Y"),
            ((("fence proxy shared", "fence proxy global"),), "TK302", "store Y"),
        )),
        Case(READ_AGAIN, (
            ((("            fence proxy shared\n", ""),), "TK302", "load v"),
            ((("            sync role\n", ""),), "TK309", "load v"),
            ((("            fence proxy shared\n            sync role\n", "            sync role\n            fence acq_rel cta\n"),), "TK302", "load v"),
        )),
        Case(THROUGH_GLOBAL, (
            ((("            fence proxy global\n", ""),), "TK302", "load v"),
            ((("fence proxy global", "fence proxy shared"),), "TK302", "load v"),
            ((("            fence proxy global\n            sync role\n", "            fence proxy global\n"),), "TK301", "load v"),
        )),
    ),
    "MBR": (
        Case(TWO_SIDES, (
            ((("full * 2, count = 2", "full * 2, count = 1"),), "TK305", "expect full"),
            ((("                expect full[i], bytes(w)\n", ""),), "TK305", "expect full"),
            ((("expect full[i], bytes(w)", "expect full[i], bytes(x, w)"),), "TK305", "load"),
            ((("                arrive empty[i]\n", "                if n.index > 0: arrive empty[i]\n"),), "TK305", "arrive empty"),
        )),
        Case(TWO_READERS, (
            ((("empty * 3, count = 2", "empty * 3, count = 1"),), "TK305", "arrive empty"),
            ((("t // 3 % 2", "t // 2 % 2"),), "TK306", "wait full"),
            ((("t // 3 % 2", "t % 2"),), "TK306", "wait full"),
            ((("            wait full[t % 3], t // 3 % 2\n", ""),), "TK301", "store Z"),
            ((("arrive empty[t % 3]", "arrive empty[(t + 1) % 3]"),), "TK305", "arrive empty"),
        )),
    ),
    "PIP": (
        Case(THREE, (
            ((("wait stores <= 2, read", "wait stores <= 3, read"),), "TK308", "c[i] <-"),
            ((("if i == 3: i = 0", "if i == 2: i = 0"),), "TK308", "c[i] <-"),
            ((("if i == 3: i = 0", "if i == 4: i = 0"),), "TK321", "c[i]"),
        )),
        Case(TWO_READERS, (
            ((("empty * 3, count = 2", "empty * 3, count = 1"), ("                arrive empty[t % 3]\n", "")), "TK309", "load x"),
            ((("                wait stores, read\n                arrive empty[t", "                arrive empty[t"),), "TK309", "load x"),
        )),
    ),
    "TMM": (
        Case(HALVES, (
            ((("drained * 2, count = 8", "drained * 2, count = 4"),), "TK305", "arrive drained"),
            ((("            wait done[i], turn\n            fence tcgen05 after\n            elect:\n                wait stores, read\n            sync role\n            c[1]", "            elect:\n                wait stores, read\n            sync role\n            c[1]"),), "TK301", "c[1] <-"),
        ), "sm_100a"),
        Case(SCALED, (
            ((("            wait drained[i], turn ^ 1\n", ""),), "TK309", "mma d"),
        ), "sm_100a"),
        Case(GEMM, (((("            wait done[i], turn\n", ""),), "TK310", "mma d"),), "sm_100a"),
    ),
    "CTA2": (
        Case(CLUSTER, (
            ((("                    wait taken[slot], phase ^ 1, cluster\n", ""),), "TK309", "load b"),
            ((("count = 4 * CTAS", "count = 4"),), "TK305", "arrive taken"),
            ((("each = warp, at = 0", "each = warp"),), "TK305", "arrive taken"),
            ((("multicast = (1 << CTAS) - 1", "multicast = 1"),), "TK305", "load"),
        )),
        Case(CLUSTER_COPY, (
            ((("            wait free[i], phase ^ 1, cluster\n", ""),), "TK309", "copy y"),
            ((("            elect: expect given[i], bytes(y)\n            wait given[i], phase, cluster\n", "            elect: expect given[i], bytes(y)\n"),), "TK301", "store Y"),
            ((("given[i], at = (rank + 1) % CTAS", "given[i], at = rank"),), "TK308", "copy y"),
        )),
        Case(PAIR, (((("            wait done[i], turn, cluster\n", ""),), "TK313", "mma d"),), "sm_100a"),
    ),
    "WGM": (
        Case(TRANSFORMED, (
            ((("                commit products\n                wait products\n", "                commit products\n                wait products <= 1\n"),), "TK319", "c <-"),
            ((("                mma d += a @ b.T, not k.first\n", "                if k.first: d[0] <- 0\n                mma d += a @ b.T\n"),), "TK319", "mma d"),
        )),
        Case(WGMMA, (
            ((("                commit products\n", ""),), "TK319", "c[j % 2] <-"),
            ((("            wait products\n", ""),), "TK319", "c[j % 2] <-"),
        )),
    ),
    "CVG": (
        Case(COUNTED_THREADS, (
            ((("            sync 3, 128\n            if n > 5", "            if read(F[thread]) > 0: sync 3, 128\n            if n > 5"),), "TK316", "sync 3"),
            ((("            sync 3, 128\n            if n > 5", "            if warp < 2: sync 3, 128\n            if n > 5"),), "TK316", "sync 3"),
            ((("            sync 3, 128\n            if n > 5", "            if n > 7: sync 3, 128\n            if n > 5"),), "TK301", "read(v[0]"),
        )),
        Case(EXCHANGED, (
            ((("            sync role\n            elect: p[0][0] <- turn", "            elect: p[0][0] <- turn"),), "TK309", "p[0][0] <- turn"),
            ((("            elect: p[0][0] <- turn + 1\n            sync role\n", "            elect: p[0][0] <- turn + 1\n"),), "TK301", "read(p[0][0])"),
        )),
        Case(SHARED, (
            ((("            arrive full[i], each = thread\n", "            while read(F[thread]) > i: arrive full[i], each = thread\n"),), "TK305", "arrive full"),
        )),
    ),
    "LCH": (
        Case(DEPENDENT, (
            ((("        wait pdl\n", "        if M > 128: wait pdl\n"),), "TK318", "load x"),
            ((("        wait pdl\n", "        arrive pdl\n"),), "TK318", "load x"),
            (((f"        wait pdl\n{LOADING}", LOADING.replace("            wait empty", "            if n.first: wait pdl\n            wait empty")),), "TK318", "load x"),
        )),
        Case(changed(TWO_SIDES, ("launch persistent", "launch persistent, dependent"),
                     ("    role left:\n", "    role left:\n        wait pdl\n"), ("    role right:\n", "    role right:\n        wait pdl\n")),
             (((("    role right:\n        wait pdl\n", "    role right:\n"),), "TK318", "load w"),
              ((("    role left:\n        wait pdl\n", "    role left:\n"),), "TK318", "load x"))),
    ),
    "FP": (
        Case(THREE_MEET, (((("1, 384", "1, 256"),), "TK305", "arrive 1"),)),
        Case(changed(RING, ("            fence proxy shared\n            sync warp\n", "            fence proxy shared\n            fence proxy all\n            sync warp\n            fence proxy shared\n"))),
        Case(changed(THROUGH, ("            wait full[i], phase\n", "            wait full[i], phase\n            wait full[i], phase\n"))),
        Case(changed(HANDED, ("            fence proxy shared\n            sync warp\n            arrive ready", "            fence proxy shared\n            sync role\n            sync warp\n            arrive ready"))),
        Case(changed(NAMED, ("            sync 2, 256\n", "            sync role\n            sync 2, 256\n"))),
    ),
}  # fmt: skip
"""By the kind."""
