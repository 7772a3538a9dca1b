"""Kernels of the kinds of our list that the other files lack, and slips in them: tensor memory, pairs and clusters, launches,
words in shared memory, and stores that are the last of their role."""

from __future__ import annotations

from tests.analysis.bug_cases import Case

ATTENTION = """\
kernel scores(Q: global[bf16, M, D], K: global[bf16, N, D], V: global[bf16, N, D], O: global[f32, M, D]):
    param D = 64, BM = 128, BN = 64
    launch persistent
    schedule work: m in tiles(blocks(M, BM))
    shared q: tile[bf16, BM, D]
    shared k: tile[bf16, BN, D] * 2
    shared v: tile[bf16, BN, D] * 2
    accum s: tile[f32, BM, BN]
    accum p: tile[bf16, BM, BN]
    accum o: tile[f32, BM, D]
    barrier q_full, count = 1
    barrier q_free, count = 1
    barrier kv_full * 2, count = 1
    barrier kv_free * 2, count = 1
    barrier s_full, count = 1
    barrier p_full, count = 4
    barrier p_free, count = 1
    barrier o_full, count = 1
    barrier o_free, count = 4
    role load:
        t = 0
        x = 0
        for m in work:
            wait q_free, x ^ 1
            elect:
                expect q_full, bytes(q)
                for d in blocks(D, D): load q <- Q[m, d], q_full
            x = x ^ 1
            for n in blocks(N, BN):
                wait kv_free[t % 2], t // 2 % 2 ^ 1
                elect:
                    expect kv_full[t % 2], bytes(k, v)
                    for d in blocks(D, D):
                        load k[t % 2] <- K[n, d], kv_full[t % 2]
                        load v[t % 2] <- V[n, d], kv_full[t % 2]
                t = t + 1
    role math:
        t = 0
        x = 0
        for m in work:
            wait q_full, x
            wait o_free, x ^ 1
            for n in blocks(N, BN):
                wait kv_full[t % 2], t // 2 % 2
                elect:
                    mma s += q @ k[t % 2].T, 0 > 1
                    commit s_full
                wait p_full, t % 2
                elect:
                    mma o += p @ v[t % 2], not n.first
                    commit kv_free[t % 2]
                    commit p_free
                t = t + 1
            elect:
                commit q_free
                commit o_full
            x = x ^ 1
    role soft, warps 4:
        t = 0
        x = 0
        for m in work:
            for n in blocks(N, BN):
                wait s_full, t % 2
                e = exp2(read(s))
                wait p_free, t % 2 ^ 1
                p <- bf16(e)
                fence tcgen05 before
                sync warp
                arrive p_full, each = warp
                t = t + 1
            wait o_full, x
            x = x ^ 1
            for d in blocks(D, D): O[m, d] <- read(o) if N > 0 else 0
            sync warp
            arrive o_free, each = warp
"""
"""Scores, probabilities and outputs in tensor memory: what the probabilities wait for is told by the scores."""

PAIRS = """\
kernel pairs(A: global[bf16, M, K], B: global[bf16, N, K], C: global[bf16, M, N]):
    param BN = 128, BK = 64, S = 2
    launch persistent, cluster(2)
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, BN), across = m)
    shared a: tile[bf16, 128, BK] * S
    shared b: tile[bf16, BN // 2, BK] * S
    shared o: tile[bf16, 128, BN]
    accum d: tile[f32, 128, BN]
    barrier ready * S, count = 1
    barrier free * S, count = 1
    barrier full, count = 1
    barrier drained, count = 2
    role tma:
        t = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait free[t % S], t // S % 2 ^ 1
                elect:
                    if rank == 0: expect ready[t % S], 2 * bytes(a, b)
                    load a[t % S] <- A[m, k], ready[t % S], at = 0
                    load b[t % S] <- B[n.part(rank, 2), k], ready[t % S], at = 0
                t = t + 1
    role tensor:
        t = 0
        e = 1
        if rank == 0:
            for m, n in work:
                wait drained, e, cluster
                e = e ^ 1
                for k in blocks(K, BK):
                    wait ready[t % S], t // S % 2, cluster
                    elect:
                        mma d += a[t % S] @ b[t % S].T, not k.first, pair
                        commit free[t % S], multicast = 3
                    t = t + 1
                elect: commit full, multicast = 3
    role out, warps 4:
        e = 0
        for m, n in work:
            wait full, e, cluster
            e = e ^ 1
            elect: wait stores, read
            sync role
            o <- bf16(read(d) if K > 0 else 0)
            fence tcgen05 before
            fence proxy shared
            sync role
            elect:
                arrive drained, at = 0
                store C[m, n] <- o
                commit stores
        elect: wait stores
"""
"""A pair with one accumulator; one thread of each CTA gives it back."""

HALVES = """\
kernel halves(A: global[f16, M, K], B: global[f16, N, K], C: global[f32, M, N]):
    param BM = 64, BN = 64, BK = 64, S = 3, CTAS = 2
    launch persistent, cluster(CTAS)
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN), across = m)
    shared a: tile[f16, BM, BK] * S
    shared b[2]: tile[f16, BN // 2, BK] * S
    accum d[2]: tile[f32, BM, BN // 2]
    barrier full * S, count = 1
    barrier empty * S, count = 2 * 4
    role load:
        t = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait empty[t % S], t // S % 2 ^ 1, cluster
                elect:
                    expect full[t % S], bytes(a, b[0], b[1])
                    load a[t % S] <- A[m, k], full[t % S]
                    if rank == 0: load b[0][t % S] <- B[n.part(0, 2), k], full[t % S], multicast = 3
                    if rank == 1: load b[1][t % S] <- B[n.part(1, 2), k], full[t % S], multicast = 3
                t = t + 1
    role math, warps 4:
        t = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait full[t % S], t // S % 2
                fence products
                mma d[0] += a[t % S] @ b[0][t % S].T, not k.first
                mma d[1] += a[t % S] @ b[1][t % S].T, not k.first
                commit products
                wait products
                sync warp
                for r in unroll(2): arrive empty[t % S], each = warp, at = r
                t = t + 1
            C[m, n.part(0, 2)] <- read(d[0]) if K > 0 else 0
            C[m, n.part(1, 2)] <- read(d[1]) if K > 0 else 0
"""
"""Each CTA of two loads half of an operand for both."""

EXCHANGE = """\
kernel exchange(X: global[f32, M, N], Y: global[f32, M, N]):
    param CTAS = 4
    launch persistent, cluster(CTAS)
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared out: vector[f32, 128]
    shared into: vector[f32, 128]
    barrier there, count = 1
    barrier taken, count = 1
    role all, warps 4:
        p = 0
        for m, n in work:
            wait taken, p ^ 1, cluster
            out[0][thread] <- read(X[m, n.index * 128 + thread])
            fence proxy shared
            sync role
            elect:
                expect there, bytes(into)
                copy into <- out, there, at = (rank + 1) % CTAS
            wait there, p, cluster
            Y[m, n.index * 128 + thread] <- read(into[0][thread]) + 1.0
            fence proxy shared
            sync role
            elect: arrive taken, at = (rank + 3) % CTAS
            p = p ^ 1
        sync cluster
"""
"""Each CTA hands a vector to the next one of four."""

LEADER = """\
kernel leader(X: global[f32, M, N], S: global[f32, M, N]):
    launch persistent, cluster(2)
    schedule work: q, m, n in tiles(blocks(2, 1), blocks(M, 2), blocks(N, 64), across = q)
    shared mine: vector[f32, 64]
    shared theirs: vector[f32, 64]
    barrier got, count = 1
    barrier done, count = 1
    role all, warps 2:
        p = 0
        for q, m, n in work:
            if rank == 1:
                mine[0][thread] <- read(X[m.index * 2 + 1, n.index * 64 + thread])
                fence proxy shared
                sync role
                elect: copy theirs <- mine, got, at = 0
                wait done, p, cluster
            else:
                elect: expect got, bytes(theirs)
                wait got, p, cluster
                S[m.index * 2, n.index * 64 + thread] <- read(theirs[0][thread]) + read(X[m.index * 2, n.index * 64 + thread])
                fence proxy shared
                sync role
                elect: arrive done, at = 1
            p = p ^ 1
"""
"""One CTA of two sums what the other copies to it."""

LAST = """\
kernel ends(X: global[f32, M, D], Y: global[f32, M, D], Z: global[f32, M, D]):
    param D = 128
    launch persistent
    schedule work: m in tiles(M)
    shared v: vector[f32, D]
    shared last: vector[f32, D]
    role all, warps 4:
        a = 0.0
        for m in work:
            elect: wait stores, read
            sync role
            v[0][thread] <- read(X[m, thread]) * 2
            a = a + read(X[m, thread])
            fence proxy shared
            sync role
            elect:
                for d in blocks(D, D): store Y[m, d] <- v
                commit stores
        last[0][thread] <- a
        fence proxy shared
        sync role
        elect:
            for d in blocks(D, D): store Z[unit, d] <- last
            commit stores
            wait stores
"""
"""What is stored last has a place of its own, which nothing uses again."""

SINGLE = """\
kernel single(X: global[f32, M, D], Y: global[f32, M, D]):
    param D = 128
    launch persistent
    schedule work: m in tiles(M)
    shared v: vector[f32, D] * 2
    role all, warps 4:
        for d in blocks(D, D):
            v[0][thread] <- read(X[0, thread]) * 2
            fence proxy shared
            sync role
            elect:
                store Y[0, d] <- v[0]
                commit stores
                wait stores
"""
"""One store, whose place nothing uses again."""

THREE = """\
kernel hist(X: global[f32, M, N], S: global[f32, N]):
    launch persistent
    schedule work: n, m in tiles(blocks(N, 256), blocks(M, 8))
    shared v: vector[f32, 256] * 3
    role all, warps 8:
        t = 0
        for n, m in work:
            elect: wait stores <= 2, read
            sync role
            a = 0.0
            for q in range(8): a = a + read(X[m.index * 8 + q, n.index * 256 + thread])
            v[t % 3][thread] <- a
            fence proxy shared
            sync role
            if thread == 0:
                store S[n] += v[t % 3], bulk
                commit stores
            t = t + 1
        if thread == 0: wait stores
"""
"""Three slots that bulk additions are read from."""

ROLES = """\
kernel zeros(X: global[f32, M, N], Y: global[f32, M, N], S: global[f32, M]):
    launch persistent, dependent
    schedule work: m in tiles(M)
    shared acc: vector[f32, 128]
    role clear, warps 4:
        wait pdl
        for m in work:
            for n in blocks(N, 128): Y[m, n.index * 128 + thread] <- 0.0
    role sum, warps 4:
        wait pdl
        for m in work:
            a = 0.0
            for n in blocks(N, 128): a = a + read(X[m, n.index * 128 + thread])
            atomic_add(S[m], a)
"""
"""Two roles that share nothing, in a grid that may start before the one ahead has ended."""

TICKET = """\
kernel rounds(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(M, blocks(N, 128))
    shared v: vector[f32, 128]
    shared ticket: vector[i32, 4]
    role all, warps 4:
        if thread < 4: ticket[0][thread] <- 0
        sync role
        for m, n in work:
            r = read(ticket[0][0])
            v[0][thread] <- read(X[m, n.index * 128 + thread]) * f32(r + 1)
            sync role
            if thread == 0: ticket[0][0] <- 1 - r
            Y[m, n.index * 128 + thread] <- read(v[0][127 - thread])
            sync role
"""
"""A word in shared memory that all read and one sets."""

RESCALED = """\
kernel rescale(A: global[bf16, M, K], B: global[bf16, N, K], C: global[f32, M, N]):
    param BM = 128, BN = 32, BK = 64
    assert K > 0
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[bf16, BM, BK]
    shared b: tile[bf16, BN, BK]
    accum d: tile[f32, BM, BN]
    barrier full, count = 1
    barrier empty, count = 1
    barrier done, count = 1
    barrier scaled, count = 4
    role load:
        x = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait empty, x ^ 1
                elect:
                    expect full, bytes(a, b)
                    load a <- A[m, k], full
                    load b <- B[n, k], full
                x = x ^ 1
    role math:
        x = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait full, x
                wait scaled, x ^ 1
                elect:
                    mma d += a @ b.T, not k.first
                    commit empty
                    commit done
                x = x ^ 1
    role half, warps 4:
        x = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait done, x
                if k.last: C[m, n] <- read(d)
                if not k.last: d[0] <- read(d) * 0.5
                fence tcgen05 before
                sync warp
                arrive scaled, each = warp
                x = x ^ 1
"""
"""An accumulator is halved between products."""

NARROW = """\
kernel narrow(A: global[f16, M, K], B: global[f16, N, K], C: global[f16, M, N]):
    param BM = 64, BN = 128, BK = 32, S = 4
    launch persistent
    schedule work: m, n in tiles(blocks(M, BM), blocks(N, BN))
    shared a: tile[f16, BM, BK] * S
    shared b: tile[f16, BN, BK] * S
    shared o: tile[f16, BM, BN] * 2
    accum d: tile[f32, BM, BN] * 4
    barrier full * S, count = 1
    barrier empty * S, count = 1
    barrier done * 4, count = 1
    barrier free * 4, count = 1
    role load:
        t = 0
        for m, n in work:
            for k in blocks(K, BK):
                wait empty[t % S], t // S % 2 ^ 1
                elect:
                    expect full[t % S], bytes(a, b)
                    load a[t % S] <- A[m, k], full[t % S]
                    load b[t % S] <- B[n, k], full[t % S]
                t = t + 1
    role math:
        t = 0
        i = 0
        for m, n in work:
            wait free[i % 4], i // 4 % 2 ^ 1
            for k in blocks(K, BK):
                wait full[t % S], t // S % 2
                elect:
                    mma d[i % 4] += a[t % S] @ b[t % S].T, not k.first
                    commit empty[t % S]
                t = t + 1
            elect: commit done[i % 4]
            i = i + 1
    role out, warps 4:
        i = 0
        for m, n in work:
            wait done[i % 4], i // 4 % 2
            v = f16(read(d[i % 4]))
            fence tcgen05 before
            sync role
            elect:
                arrive free[i % 4]
                wait stores <= 1, read
            sync role
            o[i % 2] <- v
            fence proxy shared
            sync role
            elect:
                store C[m, n] <- o[i % 2]
                commit stores
            i = i + 1
        elect: wait stores
"""
"""Four accumulators of 64 rows."""

COPIES = """\
kernel plain(X: global[f32, M, N], Y: global[f32, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 128), blocks(N, 4))
    shared x: tile[f32, 128, 4] * 2
    role all, warps 4:
        t = 0
        for m, n in work:
            load x[t % 2][thread, 0] <- X[m.index * 128 + thread, n.index * 4], 16
            commit copies
            wait copies
            sync role
            for q in unroll(4): Y[m.index * 128 + thread, n.index * 4 + q] <- read(x[t % 2][127 - thread, q])
            t = t + 1
"""
"""Copies of threads, and generic reads of them."""

EXPECTS = """\
kernel both(X: global[bf16, M, N], W: global[bf16, M, N], Y: global[bf16, M, N]):
    launch persistent
    schedule work: m, n in tiles(blocks(M, 64), blocks(N, 64))
    shared x: tile[bf16, 64, 64] * 2
    shared w: tile[bf16, 64, 64] * 2
    barrier full * 2, count = 2
    barrier empty * 2, count = 64
    role load:
        t = 0
        for m, n in work:
            wait empty[t % 2], t // 2 % 2 ^ 1
            elect:
                expect full[t % 2], bytes(x)
                load x[t % 2] <- X[m, n], full[t % 2]
                expect full[t % 2], bytes(w)
                load w[t % 2] <- W[m, n], full[t % 2]
            t = t + 1
    role add, warps 2:
        t = 0
        for m, n in work:
            wait full[t % 2], t // 2 % 2
            Y[m, n] <- bf16(f32(read(x[t % 2])) + f32(read(w[t % 2])))
            fence proxy shared
            arrive empty[t % 2], each = thread
            t = t + 1
"""
"""A barrier with an expect for each of two copies."""

IN_THE_SUITE: dict[str, tuple[Case, ...]] = {
    "TMM": (Case(ATTENTION, (
        ((("                wait p_full, t % 2\n", ""),), "TK301", "mma o"),
        ((("            wait o_full, x\n", ""),), "TK301", "read(o)"),
    ), "sm_100a"),),
    "CTA2": (
        Case(PAIRS, (
            ((("                wait drained, e, cluster\n", ""),), "TK309", "mma d"),
            ((("wait drained, e, cluster", "wait drained, e, relaxed"),), "TK309", "mma d"),
            ((("commit full, multicast = 3", "commit full, multicast = 2"),), "TK305", "wait full"),
            ((("            fence proxy shared\n            sync role\n            elect:\n                arr", "            sync role\n            elect:\n                arr"),), "TK302", "store C"),
        ), "sm_100a"),
        Case(LEADER, (
            ((("                wait done, p, cluster\n", ""),), "TK309", "copy theirs"),
            ((("                fence proxy shared\n                sync role\n                elect: arr", "                sync role\n                elect: arr"),), "TK302", "copy theirs"),
            ((("                wait got, p, cluster\n", ""),), "TK313", "copy theirs"),
        )),
    ),
    "an end with work in flight": (
        Case(LAST, (
            ((("<- last\n            commit stores\n", "<- last\n"),), "TK324", "store Z"),
            ((("            commit stores\n            wait stores\n", "            wait stores\n            commit stores\n"),), "TK324", "store Z"),
            ((("            commit stores\n            wait stores\n", "            commit stores\n            wait stores <= 1\n"),), "TK324", "store Z"),
        )),
        Case(SINGLE, (((("                commit stores\n                wait stores\n", ""),), "TK324", "store Y"),)),
    ),
}  # fmt: skip
"""By the kind."""

LONG: dict[str, tuple[Case, ...]] = {
    "TMM": (
        Case(RESCALED, (
            ((("                wait done, x\n", ""),), "TK301", "read(d)"),
            ((("                wait scaled, x ^ 1\n", ""),), "TK309", "mma d"),
            ((("                sync warp\n                arr", "                arr"),), "TK309", "mma d"),
            ((("arrive scaled, each", "arrive scaled, relaxed, each"),), "TK301", "mma d"),
        ), "sm_100a"),
        Case(NARROW, (
            ((("wait done[i % 4], i // 4 % 2", "wait done[i % 4], i // 2 % 2"),), "TK306", "wait done"),
            ((("wait stores <= 1, read", "wait stores <= 2, read"),), "TK308", "o[i % 2] <-"),
            ((("            fence tcgen05 before\n            sync role\n            elect:\n                arrive free", "            elect:\n                arrive free"),), "TK309", "mma d"),
            ((("d: tile[f32, BM, BN] * 4", "d: tile[f32, BM, BN] * 3"),), "TK321", "mma d"),
        ), "sm_100a"),
    ),
    "CTA2": (
        Case(HALVES, (
            ((("empty * S, count = 2 * 4", "empty * S, count = 4"), ("for r in unroll(2): arrive empty[t % S], each = warp, at = r", "arrive empty[t % S], each = warp")), "TK308", "load b"),
            ((("bytes(a, b[0], b[1])", "bytes(a, b[0])"),), "TK305", "load b"),
            ((("at = r\n", "at = 0\n"),), "TK305", "arrive empty"),
        )),
        Case(EXCHANGE, (
            ((("            wait taken, p ^ 1, cluster\n", ""),), "TK309", "out[0][thread] <-"),
            ((("(rank + 3) % CTAS", "(rank + 1) % CTAS"),), "TK309", "out[0][thread] <-"),
            ((("            fence proxy shared\n            sync role\n            elect: arr", "            sync role\n            elect: arr"),), "TK302", "copy into"),
            ((("            wait there, p, cluster\n", ""),), "TK301", "read(into"),
        )),
    ),
    "LCH": (Case(ROLES, (
        ((("    role clear, warps 4:\n        wait pdl\n", "    role clear, warps 4:\n"),), "TK318", "Y[m"),
        ((("    role sum, warps 4:\n        wait pdl\n", "    role sum, warps 4:\n"),), "TK318", "read(X"),
        ((("    role sum, warps 4:\n        wait pdl\n", "    role sum, warps 4:\n        if warp == 0: wait pdl\n"),), "TK318", "read(X"),
    )),),
    "MBR": (Case(TICKET, (
        ((("            sync role\n            if thread == 0: ticket", "            if thread == 0: ticket"),), "TK309", "ticket[0][0] <- 1"),
        ((("read(v[0][127 - thread])\n            sync role\n", "read(v[0][127 - thread])\n"),), "TK301", "read(ticket"),
    )),),
    "FP": (
        Case(COPIES, (
            ((("            sync role\n", ""),), "TK301", "read(x"),
            ((("            commit copies\n", ""),), "TK308", "read(x"),
        )),
        Case(EXPECTS, (
            ((("full * 2, count = 2", "full * 2, count = 1"),), "TK305", "expect full"),
            ((("                expect full[t % 2], bytes(w)\n", "                arrive full[t % 2]\n"),), "TK305", "load w"),
        )),
    ),
    "an end with work in flight": (Case(THREE, (
        ((("                commit stores\n", "                if n.index > 0: commit stores\n"),), "TK308", "v[t % 3]"),
        ((("        if thread == 0: wait stores\n", "        if thread == 33: wait stores\n"),), "TK324", "store S"),
    )),),
}  # fmt: skip
"""Those that are run by `make soak`."""
