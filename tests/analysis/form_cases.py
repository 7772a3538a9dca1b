"""Right kernels of forms that the other lists lack, and slips in them: a function in the second kernel of a file, a role
between loader and product, two roles that read one operand, halves of a cluster's barrier, an entry that nobody uses."""

from __future__ import annotations

from tests.analysis.bug_cases import Case, changed
from tests.analysis.more_cases import SHARED

IN_A_FUNCTION = """\
def stage_out(c, v):
    c <- f16(v)
    fence proxy shared
    sync role

kernel first(X: global[f32, N], Y: global[f32, N]):
    launch persistent
    schedule work: n in blocks(N, 128)
    role all:
        for n in work:
            Y[n] <- read(X[n])

kernel second(X: global[f16, M, N], Y: global[f16, M, N]):
    launch persistent
    schedule work: m in tiles(blocks(M, 128))
    shared x: tile[f16, 128, 32] * 2
    shared c: tile[f16, 128, 32]
    pipe inputs(x): load -> math
    role load:
        for m in work:
            for n in blocks(N, 32):
                put inputs: x <- X[m, n]
    role math, warps 4:
        for m in work:
            for n in blocks(N, 32):
                get inputs: v = f32(read(x)) + 1
                elect: wait stores, read
                sync role
                stage_out(c, v)
                elect:
                    store Y[m, n] <- c
                    commit stores
        elect: wait stores
"""
"""Two kernels and a function; one kernel stores what registers have written."""

TURNED = """\
kernel k(X: global[f16, M, K], B: global[f16, N, K], Y: global[f32, M, N]):
    param BM = 128, BN = 64, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared x: tile[f16, BM, BK]
    shared a: tile[f16, BM, BK]
    shared b: tile[f16, BN, BK]
    accum d: tile[f32, BM, BN]
    barrier full, count = 1
    barrier turned, count = 4
    barrier free, count = 5
    barrier done, count = 1
    barrier drained, count = 4
    role load:
        phase = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait free, phase ^ 1
                elect:
                    fence proxy shared
                    expect full, bytes(x, b)
                    load x <- X[m, k], full
                    load b <- B[n, k], full
                phase = phase ^ 1
    role turn, warps 4:
        phase = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait free, phase ^ 1
                wait full, phase
                a <- f16(f32(read(x)) * 2)
                fence proxy shared
                sync warp
                arrive turned, each = warp
                arrive free, each = warp
                phase = phase ^ 1
    role math:
        phase = 0
        out = 0
        for m, n in work:
            wait drained, out ^ 1
            for k in blocks(K, BK):
                wait full, phase
                wait turned, phase
                elect:
                    mma d += a @ b.T, not k.first
                    commit free
                phase = phase ^ 1
            elect: commit done
            out = out ^ 1
    role store, warps 4:
        out = 0
        for m, n in work:
            wait done, out
            Y[m, n] <- read(d) if K > 0 else 0
            sync warp
            arrive drained, each = warp
            out = out ^ 1
"""
"""A role writes the first operand of a product in tensor memory."""

SHARED_OPERAND = """\
kernel k(A: global[f16, M, K], B: global[f16, N, K], C: global[f32, M, N]):
    param BM = 64, BN = 64, BK = 64
    launch persistent
    schedule work: m, n in tiles(blocks(M, 2 * BM), blocks(N, BN))
    shared a[2]: tile[f16, BM, BK]
    shared b: tile[f16, BN, BK]
    accum d[2]: tile[f32, BM, BN]
    barrier full, count = 1
    barrier free, count = 8
    role load:
        p = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait free, p ^ 1
                elect:
                    expect full, bytes(a[0], a[1], b)
                    for i in 0, 1: load a[i] <- A[m.part(i, 2), k], full
                    load b <- B[n, k], full
                p = p ^ 1
    role math[i in 0, 1], warps 4:
        p = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait full, p
                fence products
                mma d[i] += a[i] @ b.T, not k.first
                commit products
                wait products
                sync warp
                arrive free, each = warp
                p = p ^ 1
            C[m.part(i, 2), n] <- read(d[i]) if K > 0 else 0
"""
"""Two warpgroups multiply by one tile."""

CLUSTER_HALVES = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N], f: i32):
    launch persistent, cluster(2)
    schedule work: m, n in tiles(blocks(M, 2), blocks(N, 128))
    shared v: vector[f32, 128] * 2
    shared w: vector[f32, 128] * 2
    barrier there * 2, count = 1
    role all, warps 4:
        p = 0
        i = 0
        for m, n in work:
            v[i][thread] <- read(X[m.index * 2 + rank, n.index * 128 + thread])
            fence proxy shared
            arrive cluster
            wait cluster
            elect:
                expect there[i], bytes(w)
                copy w[i] <- v[i], there[i], at = rank ^ 1
            wait there[i], p, cluster
            Y[m.index * 2 + (rank ^ 1), n.index * 128 + thread] <- read(w[i][thread])
            p = p ^ i
            i = i ^ 1
        arrive cluster
        wait cluster
"""
"""CTAs exchange vectors; a pair of halves of the barrier stands behind the loop."""

ONE_OF_A_ROLE = changed(
    SHARED,
    ("full * 2, count = 128", "full * 2, count = 4"),
    ("empty * 2, count = 128", "empty * 2, count = 1"),
    ("            arrive full[i], each = thread\n",
     "            sync warp\n            elect warp: arrive full[i], each = thread\n"),
    ("            arrive empty[i], each = thread\n",
     "            sync role\n            if thread == 5: arrive empty[i]\n"),
)  # fmt: skip
"""A lane of each warp arrives, and one thread that is not the first of its warp."""

ONE_ENTRY = """\
kernel k(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    barrier there * 2, count = 1
    role all, warps 4:
        p = 0
        for m, n in work:
            elect:
                expect there[0], bytes(v)
                load v <- X[m, n], there[0]
            wait there[0], p
            Y[m, n.index * 128 + thread] <- read(v[0][thread])
            fence proxy shared
            sync role
            p = p ^ 1
"""
"""A ring of barriers of which one entry is used."""

TWO_WARPGROUPS = """\
kernel reversed(X: global[f32, M, N], S: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 32))
    shared x: tile[f32, 128, 32] * 2
    shared y: tile[f32, 128, 32]
    barrier full * 2, count = 1
    barrier free * 2, count = 8
    role load:
        i = 0
        phase = 0
        for m, n in work:
            wait free[i], phase ^ 1
            elect:
                expect full[i], bytes(x)
                load x[i] <- X[m, n], full[i]
            i = i ^ 1
            if i == 0:
                phase = phase ^ 1
    role math, warps 8:
        i = 0
        phase = 0
        for m, n in work:
            wait full[i], phase
            elect:
                wait stores, read
            sync role
            for j in range(16):
                y[0][j * 8 + thread // 32, thread % 32] <- read(x[i][j * 8 + thread // 32, 31 - thread % 32]) * 2
            fence proxy shared
            sync warp
            arrive free[i], each = warp
            sync role
            elect:
                store S[m, n] <- y[0]
                commit stores
            i = i ^ 1
            if i == 0:
                phase = phase ^ 1
        elect:
            wait stores
"""
"""A role of two warpgroups, one of whose threads stores what they all have written, and waits for its stores."""

FORMS: dict[str, tuple[Case, ...]] = {
    "a function in a second kernel": (Case(IN_A_FUNCTION, (
        ((("    fence proxy shared\n    sync role\n", "    sync role\n"),), "TK302", "store Y"),
        ((("    fence proxy shared\n    sync role\n", "    fence proxy shared\n"),), "TK301", "store Y"),
    )),),
    "a role between": (Case(TURNED, (
        ((("                fence proxy shared\n                sync warp\n", "                sync warp\n"),), "TK302", "mma d"),
        ((("                wait turned, phase\n", ""),), "TK301", "mma d"),
        ((("            wait drained, out ^ 1\n", ""),), "TK309", "mma d"),
    ), "sm_103a"),),
    "two readers of an operand": (Case(SHARED_OPERAND, (
        ((("free, count = 8", "free, count = 4"),), "TK305", "arrive free"),
        ((("                wait products\n", ""), ("            C[m.part", "            wait products\n            C[m.part")), "TK309", "load b"),
    )),),
    "halves of a cluster's barrier": (Case(CLUSTER_HALVES, (
        ((("            fence proxy shared\n", ""),), "TK302", "copy w"),
        ((("            arrive cluster\n            wait cluster\n            elect", "            arrive cluster, relaxed\n            wait cluster\n            elect"),), "TK301", "copy w"),
        ((("            arrive cluster\n            wait cluster\n            elect", "            arrive cluster\n            arrive cluster\n            wait cluster\n            elect"),), "TK305", "arrive cluster"),
        ((("            i = i ^ 1\n        arrive cluster\n        wait cluster\n", "            i = i ^ 1\n        arrive cluster\n"),), "TK305", "arrive cluster"),
    )),),
    "one thread of a role": (Case(ONE_OF_A_ROLE, (
        ((("            sync warp\n", ""),), "TK301", "read(v"),
        ((("if thread == 5:", "if lane == 5:"),), "TK305", "arrive empty"),
    )),),
    "two warpgroups": (Case(TWO_WARPGROUPS, (
        # a store of each warp, of which one alone is awaited
        ((("            elect:\n                store", "            elect warp:\n                store"),), "TK307", "y[0]"),
        ((("            elect:\n                store", "            if lane == 0:\n                store"),), "TK307", "y[0]"),
        ((("            elect:\n                store", "            if thread == 40:\n                store"),), "TK307", "y[0]"),
        ((("            sync role\n            for j", "            for j"),), "TK309", "y[0]"),
        ((("            fence proxy shared\n            sync warp\n", "            sync warp\n"),), "TK302", "store S"),
    )),),
    "one entry of a ring": (Case(ONE_ENTRY, (
        ((("wait there[0]", "wait there[1]"),), "TK305", "there"),
        ((("                expect there[0], bytes(v)\n", "                expect there[0], 2 * bytes(v)\n"),), "TK305", "load v"),
    )),),
}  # fmt: skip
"""By what they are about."""
