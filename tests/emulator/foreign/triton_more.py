"""More Triton kernels of our own, for the soak test; needs Triton, and no test imports it."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def scaled_preshuffled(
    a, sa, b, sb, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, VEC: tl.constexpr, FA: tl.constexpr, FB: tl.constexpr,
):  # fmt: skip
    """Operands through tensor maps, scales in blocks of 128 rows as the tensor core wants them (rank 5 as well)."""
    RM: tl.constexpr = BM // 128
    RN: tl.constexpr = BN // 128
    RK: tl.constexpr = BK // VEC // 4
    PA: tl.constexpr = 2 if FA == "e2m1" else 1
    PB: tl.constexpr = 2 if FB == "e2m1" else 1
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK)):
        va = a.load([pm * BM, k * (BK // PA)])
        vb = b.load([pn * BN, k * (BK // PB)])
        xa = sa.load([0, pm * RM, k * RK, 0, 0])
        xb = sb.load([0, pn * RN, k * RK, 0, 0])
        xa = xa.reshape(RM, RK, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BM, BK // VEC)
        xb = xb.reshape(RN, RK, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(BN, BK // VEC)
        acc = tl.dot_scaled(va, xa, FA, vb.T, xb, FB, acc)
    c.store([pm * BM, pn * BN], acc.to(c.dtype))


@triton.jit
def attention_descriptors(
    q, k, v, out, scale, T,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, SPECIALISE: tl.constexpr,
):  # fmt: skip
    """One head of attention with everything through tensor maps; the loop over keys may be split among warps."""
    pm = tl.program_id(0)
    vq = q.load([pm * BM, 0])
    rm = pm * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    m = tl.full((BM,), -float("inf"), tl.float32)
    s = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    factor = scale * 1.44269504
    end = (pm + 1) * BM if CAUSAL else T
    for n in tl.range(0, end, BN, warp_specialize=SPECIALISE):
        vk = k.load([n, 0])
        qk = tl.dot(vq, vk.T) * factor
        if CAUSAL:
            qk = tl.where(rm[:, None] >= (n + rn)[None, :], qk, -1.0e6)
        new = tl.maximum(m, tl.max(qk, 1))
        p = tl.math.exp2(qk - new[:, None])
        alpha = tl.math.exp2(m - new)
        s = s * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        vv = v.load([n, 0])
        acc = tl.dot(p.to(vv.dtype), vv, acc)
        m = new
    out.store([pm * BM, 0], (acc / s[:, None]).to(out.dtype))


@triton.jit
def attention_backward(
    q, k, v, do, lse, delta, dk, dv, scale, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """Gradients of keys and values, without mask."""
    pn = tl.program_id(0)
    rn = pn * BN + tl.arange(0, BN)
    rd = tl.arange(0, D)
    vk = tl.load(k + rn[:, None] * D + rd[None, :])
    vv = tl.load(v + rn[:, None] * D + rd[None, :])
    gk = tl.zeros((BN, D), tl.float32)
    gv = tl.zeros((BN, D), tl.float32)
    for start in range(0, T, BM):
        rm = start + tl.arange(0, BM)
        vq = tl.load(q + rm[:, None] * D + rd[None, :])
        vdo = tl.load(do + rm[:, None] * D + rd[None, :])
        s = tl.dot(vq, tl.trans(vk)) * scale
        p = tl.exp(s - tl.load(lse + rm)[:, None])
        gv = tl.dot(tl.trans(p.to(vdo.dtype)), vdo, gv)
        dp = tl.dot(vdo, tl.trans(vv))
        ds = p * (dp - tl.load(delta + rm)[:, None]) * scale
        gk = tl.dot(tl.trans(ds.to(vq.dtype)), vq, gk)
    tl.store(dk + rn[:, None] * D + rd[None, :], gk)
    tl.store(dv + rn[:, None] * D + rd[None, :], gv)


@triton.jit
def int4_matmul(a, b, scales, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """B in packed signed 4-bit numbers (K innermost), one scale for each column."""
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    half = tl.arange(0, BK // 2)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        va = tl.load(a + rm[:, None] * K + (start + rk)[None, :], mask=rm[:, None] < M, other=0.0)
        packed = tl.load(
            b + rn[:, None] * (K // 2) + (start // 2 + half)[None, :], mask=rn[:, None] < N, other=0
        )
        low = (packed << 4).to(tl.int8) >> 4
        high = packed.to(tl.int8) >> 4
        vb = tl.join(low, high).reshape(BN, BK).to(va.dtype)
        acc = tl.dot(va, vb.T, acc)
    acc *= tl.load(scales + rn, mask=rn < N, other=0.0)[None, :]
    tl.store(c + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def batched(a, b, c, BATCH: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, BATCH)
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    va = tl.load(a + i[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
    vb = tl.load(b + i[:, None, None] * (K * N) + k[None, :, None] * N + n[None, None, :])
    vc = tl.dot(va, vb, out_dtype=tl.float32)
    tl.store(c + i[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :], vc)


@triton.jit
def library(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m, other=0.5)
    a = libdevice.asin(v) + libdevice.tanh(v) + libdevice.pow(2.0 + v, v) + libdevice.log1p(v + 1.0)
    b = (
        libdevice.lgamma(v + 2.0)
        + libdevice.fmod(v, 0.3)
        + libdevice.atan2(v, v + 2.0)
        + libdevice.cbrt(v)
    )
    tl.store(out + i, a + b + libdevice.nearbyint(3.0 * v) + libdevice.hypot(v, 1.0), mask=m)


@triton.jit
def combine(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def linear_recurrence(x, y, out, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    """h[i] = x[i] h[i - 1] + y[i], by an associative scan."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    _, h = tl.associative_scan((tl.load(x + i), tl.load(y + i)), 0, combine, reverse=REVERSE)
    tl.store(out + i, h)


@triton.jit
def scatter(x, index, sums, tops, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    at = tl.load(index + i, mask=m, other=0)
    v = tl.load(x + i, mask=m, other=0.0)
    tl.atomic_add(sums + at, v, mask=m)
    tl.atomic_max(tops + at, v, mask=m)
    tl.atomic_add(counts + at, 1, mask=m, sem="relaxed")


@triton.jit
def gather_rows(table, index, out, columns, BLOCK: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    i = tl.arange(0, BLOCK)
    v = tl.load(table + row.to(tl.int64) * columns + i, mask=i < columns, other=0.0)
    tl.store(out + tl.program_id(0) * columns + tl.flip(i), v, mask=i < columns)


@triton.jit
def dropout(x, out, p, seed, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    keep = tl.rand(seed, i) > p
    tl.store(out + i, tl.where(keep, tl.load(x + i, mask=m) / (1 - p), 0.0), mask=m)


@triton.jit
def grouped(
    sizes,
    starts,
    a,
    b,
    c,
    groups,
    N: tl.constexpr,
    K: tl.constexpr,
    BM: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """Products of groups of rows with a matrix each, tiles shared out among the programs."""
    tile = tl.program_id(0)
    done = 0
    rn = tl.arange(0, N)
    rk = tl.arange(0, K)
    for g in range(groups):
        size = tl.load(sizes + g)
        start = tl.load(starts + g)
        count = tl.cdiv(size, BM)
        vb = tl.load(b + g * K * N + rk[:, None] * N + rn[None, :])
        while tile >= done and tile < done + count:
            rm = (tile - done) * BM + tl.arange(0, BM)
            m = rm[:, None] < size
            va = tl.load(a + (start + rm)[:, None] * K + rk[None, :], mask=m, other=0.0)
            tl.store(c + (start + rm)[:, None] * N + rn[None, :], tl.dot(va, vb), mask=m)
            tile += PROGRAMS
        done += count


@triton.jit
def inline_assembly(x, out, n, BLOCK: tl.constexpr):
    """Four bytes at a time become halves, by PTX of the kernel's own."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m, other=0)
    h = tl.inline_asm_elementwise(
        "{.reg .b16 l, h; mov.b32 {l, h}, $2; cvt.rn.f16x2.e4m3x2 $0, l; cvt.rn.f16x2.e4m3x2 $1, h;}",
        "=r,=r,r", [v], dtype=tl.float16, is_pure=True, pack=4,
    )  # fmt: skip
    tl.store(out + i, h, mask=m)
