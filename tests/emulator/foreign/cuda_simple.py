"""Problems for the kernels of `cuda/simple.cu`."""

from __future__ import annotations

import numpy as np
from emulator.foreign.problem import (
    F32,
    I32,
    I64,
    U32,
    Expected,
    Problem,
    poisoned,
)
from emulator.foreign.references import Rng, cdiv, int32, integers_in, uniform, updated, wide


def reduce_sum(rng: Rng) -> Problem:
    n = 1237
    x = uniform(rng, n, F32)
    # Rounding of f32 sums: at most half a unit of what is summed, for each of 13 additions in a row (8 in a block, 5
    # blocks). The total itself may come near to 0, and says nothing of it.
    slack = 13 * 2.0**-24 * (3 + abs(wide(x)).sum())
    want = Expected(np.array([3 + wide(x).sum()]), slack=slack)
    return updated((3,), {"x": x, "total": np.array([3], F32), "n": np.int32(n)}, {"total": want})


def reduce_integers(rng: Rng) -> Problem:
    n = 600
    x = integers_in(rng, n)
    x[17] = 77
    lanes = np.zeros(cdiv(n, 256) * 256, np.int64)
    lanes[:n] = x
    warps, blocks = lanes.reshape(-1, 32), lanes.reshape(-1, 256)
    out = np.array([1, 0, 0, 0, 0, 0, 0], I32)
    all_same = (warps == warps[:, :1]).all(1)
    mixed = all_same * 1 + 2 * (warps == 5).any(1) + 4 * (warps > -9999).all(1)
    total = [
        1 + lanes.sum(), min(0, lanes.min()), max(0, lanes.max()), (lanes & 1).sum(),
        np.bitwise_xor.reduce(mixed), (lanes > 0).sum(),
        sum(int((b < 1000).any() and (b < 1000).all()) + 10 * int((b == 77).any()) for b in blocks),
    ]  # fmt: skip
    low = warps & 7
    same = low[:, :, None] == low[:, None, :]
    first = same.argmax(2) + 1
    counts = (same.sum(2) * 16 + first % 16).reshape(-1)[:n]
    args = {"x": x, "out": out, "counts": poisoned(n, U32), "n": np.int32(n)}
    expected = {"out": Expected(np.array(total)), "counts": Expected(counts)}
    return Problem((cdiv(n, 256),), args, expected, frozenset({"out"}))


def block_scan(rng: Rng) -> Problem:
    n = 500
    x = integers_in(rng, n)
    want = np.concatenate([np.cumsum(x[k : k + 128]) for k in range(0, n, 128)])
    args = {"x": x, "out": poisoned(n, I32), "n": np.int32(n)}
    return Problem((4,), args, {"out": Expected(want)})


def transpose(rng: Rng) -> Problem:
    rows, columns = 45, 70
    x = uniform(rng, (rows, columns), F32)
    args = {
        "x": x,
        "out": poisoned((columns, rows), F32),
        "rows": np.int32(rows),
        "columns": np.int32(columns),
    }
    return Problem((3, 2), args, {"out": Expected(x.T)})


def matmul_tiled(rng: Rng) -> Problem:
    m, n, k = 37, 21, 50
    a, b = uniform(rng, (m, k), F32), uniform(rng, (k, n), F32)
    args = {
        "a": a,
        "b": b,
        "c": poisoned((m, n), F32),
        "m": np.int32(m),
        "n": np.int32(n),
        "k": np.int32(k),
    }
    return Problem((cdiv(n, 16), cdiv(m, 16)), args, {"c": Expected(wide(a) @ wide(b), 0, 1e-6)})


def bitonic_sort(rng: Rng) -> Problem:
    n = 397
    x = rng.integers(0, 1 << 32, n, dtype=np.uint32)
    return updated((1,), {"x": x, "n": np.int32(n)}, {"x": Expected(np.sort(x))})


def collatz(rng: Rng) -> Problem:
    n = 100
    x = rng.integers(1, 5000, n, dtype=np.uint32)

    def steps(v: int) -> int:
        count = 0
        while v != 1:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            count += 1
        return count

    want = np.array([steps(int(v)) for v in x])
    return Problem(
        (1,), {"x": x, "steps": poisoned(n, I32), "n": np.int32(n)}, {"steps": Expected(want)}
    )


def calls(rng: Rng) -> Problem:
    n = 90
    x = integers_in(rng, n)
    weights = [3, 1, 4, 1, 5, 9, 2, 6]

    def ackermann(m: int, k: int) -> int:
        if m == 0:
            return k + 1
        return ackermann(m - 1, 1 if k == 0 else ackermann(m, k - 1))

    table = (lambda v: 2 * v, lambda v: v * v, lambda v: -v)
    out, long = [], []
    for i, v in enumerate(int(t) for t in x):
        local = [v * k + weights[k & 7] for k in range(16)]
        total = ackermann(v & 1, v & 3) + table[i % 3](v) + local[(v * 7) & 15]
        a, b = v, 1000000007 * v
        for k in range(v & 3):
            a, b = int32(a * (k + 2) + 1), b - a
        case = v & 7
        if case == 0:
            total += 5
        elif case == 1:
            total ^= 77
        elif case == 2:
            total = -total
        elif case == 3:
            total = total * 3 - local[3]
        elif case == 4:
            total -= local[3]
        elif case == 5:
            total = int32(int(f"{total & 0xFFFFFFFF:032b}"[::-1], 2))
        elif case == 6:
            total >>= 2
        else:
            total = ~total
        out.append(int32(total + 40))
        long.append(a + b)
    args = {"x": x, "out": poisoned(n, I32), "wide": poisoned(n, I64), "n": np.int32(n)}
    return Problem((1,), args, {"out": Expected(np.array(out)), "wide": Expected(np.array(long))})


def shared_histogram(rng: Rng) -> Problem:
    n = 2000
    x = rng.integers(0, 256, n, dtype=np.uint8)
    bins = rng.integers(1, 5, 256, dtype=np.uint32)
    want = Expected(bins + np.bincount(x, minlength=256))
    return updated((2,), {"x": x, "bins": bins, "n": np.int32(n)}, {"bins": want})


def grid_barrier(rng: Rng) -> Problem:
    count = 6
    want = sum(me * me + 3 for me in range(count))
    args = {
        "arrived": np.zeros(1, I32),
        "data": np.full(count, -7, I32),
        "out": poisoned(count, I32),
    }
    return Problem((count,), args, {"out": Expected(np.full(count, want))})


def online_softmax(rng: Rng) -> Problem:
    rows, columns = 3, 1100
    x = uniform(rng, (rows, columns), F32, 5)
    v = wide(x)
    e = np.exp(v - v.max(1, keepdims=True))
    args = {"x": x, "out": poisoned((rows, columns), F32), "columns4": np.int32(columns // 4)}
    return Problem((rows,), args, {"out": Expected(e / e.sum(1, keepdims=True), 2e-6)})
