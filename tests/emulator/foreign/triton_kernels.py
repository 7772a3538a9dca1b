"""Triton kernels of our own, compiled to PTX by `generate.py`; needs Triton, and no test imports it."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax(x, out, rows, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < columns
    v = tl.load(x + row * stride + i, mask=m, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + i, e / tl.sum(e, axis=0), mask=m)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, rstd_out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < columns
    v = tl.load(x + row * columns + i, mask=m, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / columns
    d = tl.where(m, v - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(d * d, axis=0) / columns + eps)
    w = tl.load(weight + i, mask=m)
    b = tl.load(bias + i, mask=m)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    tl.store(out + row * columns + i, d * rstd * w + b, mask=m)


@triton.jit
def elementwise(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m)
    a = tl.sin(v) + tl.cos(v) * tl.exp(-v * v)
    b = tl.log(1.0 + tl.abs(v)) + tl.sqrt(tl.abs(v)) + tl.exp2(v) - tl.log2(2.0 + v * v)
    c = tl.floor(v) - tl.ceil(v * 1.5) + tl.erf(v) + tl.sigmoid(v) + tl.rsqrt(1.0 + v * v)
    tl.store(out + i, a + b * c + tl.math.fma(v, v, a) + v / (1.0 + v * v), mask=m)


@triton.jit
def integers(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    a = tl.load(x + i, mask=m, other=1)
    b = tl.load(y + i, mask=m, other=1)
    d = (
        (a // b)
        + (a % b)
        + (a >> 3)
        + ((a ^ b) & 0x55)
        + (b << 2)
        + tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32)
    )
    e = tl.minimum(a, b) * 7 + tl.maximum(a, -b)
    wide = (a.to(tl.int64) * b.to(tl.int64)) // 3
    tl.store(out + i, d + e + wide.to(tl.int32), mask=m)


@triton.jit
def random_numbers(out, seed, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.rand(seed, i), mask=i < n)


@triton.jit
def scan_and_sort(x, sums, ordered, index, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    v = tl.load(x + row * BLOCK + i)
    tl.store(sums + row * BLOCK + i, tl.cumsum(v, axis=0))
    tl.store(ordered + row * BLOCK + i, tl.sort(v))
    tl.store(index + row, tl.argmax(v, axis=0))


@triton.jit
def histogram(x, counts, total, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0)
    h = tl.histogram(v, BINS)
    tl.atomic_add(counts + tl.arange(0, BINS), h)
    tl.atomic_max(total, tl.max(v, axis=0))


@triton.jit
def transpose(x, out, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    r = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    c = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = (r[:, None] < rows) & (c[None, :] < columns)
    v = tl.load(x + r[:, None] * columns + c[None, :], mask=m)
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(v), mask=tl.trans(m))


@triton.jit
def casts(x, as_half, as_bf16, as_e4m3, as_e5m2, as_int, back, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + i, mask=m)
    tl.store(as_half + i, v.to(tl.float16), mask=m)
    tl.store(as_bf16 + i, v.to(tl.bfloat16), mask=m)
    e = v.to(tl.float8e4nv)
    tl.store(as_e4m3 + i, e, mask=m)
    tl.store(as_e5m2 + i, v.to(tl.float8e5), mask=m)
    tl.store(as_int + i, v.to(tl.int8), mask=m)
    tl.store(back + i, e.to(tl.float32), mask=m)


@triton.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    INTEGER: tl.constexpr,
):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BM)
    num_n = tl.cdiv(N, BN)
    group = pid // (GROUP * num_n)
    first = group * GROUP
    size = min(num_m - first, GROUP)
    pm = first + (pid % (GROUP * num_n)) % size
    pn = (pid % (GROUP * num_n)) // size
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.int32 if INTEGER else tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        va = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        vb = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(va, vb, acc, out_dtype=tl.int32 if INTEGER else tl.float32)
        pa += BK * sak
        pb += BK * sbk
    om = pm * BM + tl.arange(0, BM)
    on = pn * BN + tl.arange(0, BN)
    m = (om[:, None] < M) & (on[None, :] < N)
    tl.store(c + om[:, None] * scm + on[None, :] * scn, acc.to(c.dtype.element_ty), mask=m)


@triton.jit
def matmul_descriptors(
    a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIALISE: tl.constexpr
):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=SPECIALISE):
        va = a.load([pm * BM, k * BK])
        vb = b.load([pn * BN, k * BK])
        acc = tl.dot(va, vb.T, acc)
    c.store([pm * BM, pn * BN], acc.to(c.dtype))


@triton.jit
def matmul_persistent(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SMS: tl.constexpr,
    FLATTEN: tl.constexpr,
    SPECIALISE: tl.constexpr,
):
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    tiles_n = tl.cdiv(N, BN)
    tiles = tl.cdiv(M, BM) * tiles_n
    for tile in tl.range(tl.program_id(0), tiles, SMS, flatten=FLATTEN, warp_specialize=SPECIALISE):
        pm = tile // tiles_n
        pn = tile % tiles_n
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BK)):
            va = da.load([pm * BM, k * BK])
            vb = db.load([pn * BN, k * BK])
            acc = tl.dot(va, vb.T, acc)
        dc.store([pm * BM, pn * BN], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_scaled(
    a,
    sa,
    b,
    sb,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    VEC: tl.constexpr,
    FA: tl.constexpr,
    FB: tl.constexpr,
):
    PA: tl.constexpr = 2 if FA == "e2m1" else 1
    PB: tl.constexpr = 2 if FB == "e2m1" else 1
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    ka = tl.arange(0, BK // PA)
    kb = tl.arange(0, BK // PB)
    ks = tl.arange(0, BK // VEC)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        va = tl.load(a + rm[:, None] * (K // PA) + (k * (BK // PA) + ka)[None, :])
        vb = tl.load(b + rn[None, :] * (K // PB) + (k * (BK // PB) + kb)[:, None])
        xa = tl.load(sa + rm[:, None] * (K // VEC) + (k * (BK // VEC) + ks)[None, :])
        xb = tl.load(sb + rn[:, None] * (K // VEC) + (k * (BK // VEC) + ks)[None, :])
        acc = tl.dot_scaled(va, xa, FA, vb, xb, FB, acc)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def attention(
    q,
    k,
    v,
    out,
    lse,
    scale,
    T,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    pm = tl.program_id(0)
    head = tl.program_id(1)
    base = head * T * D
    rm = pm * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    rd = tl.arange(0, D)
    vq = tl.load(q + base + rm[:, None] * D + rd[None, :])
    m = tl.full((BM,), -float("inf"), tl.float32)
    s = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    qk_scale = scale * 1.44269504
    end = (pm + 1) * BM if CAUSAL else T
    for n in range(0, end, BN):
        vk = tl.load(k + base + (n + rn)[None, :] * D + rd[:, None])
        qk = tl.dot(vq, vk) * qk_scale
        if CAUSAL:
            qk = tl.where(rm[:, None] >= (n + rn)[None, :], qk, -1.0e6)
        new = tl.maximum(m, tl.max(qk, 1))
        p = tl.math.exp2(qk - new[:, None])
        alpha = tl.math.exp2(m - new)
        s = s * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        vv = tl.load(v + base + (n + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(vv.dtype), vv, acc)
        m = new
    tl.store(lse + head * T + rm, m + tl.math.log2(s))
    tl.store(
        out + base + rm[:, None] * D + rd[None, :], (acc / s[:, None]).to(out.dtype.element_ty)
    )


@triton.jit
def sum_rows(x, out, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = 0.0
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        acc += tl.sum(tl.load(x + row * columns + i, mask=i < columns, other=0.0), axis=0)
    tl.store(out + row, acc)


@triton.jit
def lock_counter(lock, value, n):
    for _ in range(n):
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(value, tl.load(value) + 1)
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0)
