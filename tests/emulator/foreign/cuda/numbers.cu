// Arithmetic: the math library, halves, narrow formats, integers and bits, atomics of every kind.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <cuda/atomic>

extern "C" __global__ void math_float(const float *x, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i], a = fabsf(v);
  float r[24] = {sinf(v), cosf(v), tanf(v), expf(v), logf(a), log10f(a), log1pf(a), expm1f(v),
                 tanhf(v), sinhf(v), asinf(v / 8), atan2f(v, 2.f), sqrtf(a), rsqrtf(a), cbrtf(v), powf(a, 1.5f),
                 erff(v), fmodf(v, 0.7f), floorf(v), rintf(v), truncf(v), ldexpf(v, 3), copysignf(2.f, v), hypotf(v, 3.f)};
  for (int k = 0; k < 24; k++) out[k * n + i] = r[k];
}

extern "C" __global__ void math_large(const float *x, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sinf(x[i]) + cosf(x[i]);
}

extern "C" __global__ void math_double(const double *x, double *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = x[i], a = fabs(v);
  double r[12] = {sin(v), cos(v), exp(v), log(a), sqrt(a), 1 / v, v / 3.7, fma(v, v, -1.0), pow(a, 0.3), floor(v), rint(v), tanh(v)};
  for (int k = 0; k < 12; k++) out[k * n + i] = r[k];
}

extern "C" __global__ void rounding(const float *x, const float *y, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i], b = y[i];
  float r[16] = {__fadd_rn(a, b), __fadd_rz(a, b), __fadd_ru(a, b), __fadd_rd(a, b), __fmul_rz(a, b), __fmul_ru(a, b), __fmul_rd(a, b),
                 __fmaf_rz(a, b, a), __fmaf_ru(a, b, a), __fdiv_rn(a, b), __fdiv_rz(a, b), __fdiv_ru(a, b), __frcp_rd(b), __fsqrt_ru(fabsf(a)),
                 __fsqrt_rn(fabsf(a)), __saturatef(a)};
  for (int k = 0; k < 16; k++) out[k * n + i] = r[k];
}

extern "C" __global__ void math_half(const __half2 *x, __half2 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __half2 v = x[i], one = __float2half2_rn(1.f);
  __half2 r[12] = {__hfma2(v, v, one), __hmul2(v, v), __hadd2_sat(v, one), __hmax2(v, one), __hfma2_relu(v, one, v), h2exp2(v),
                   h2sqrt(__habs2(v)), h2rcp(__hadd2(__habs2(v), one)), h2sin(v), h2tanh_approx(v), __hneg2(v), __lowhigh2highlow(v)};
  for (int k = 0; k < 12; k++) out[k * n + i] = r[k];
}

extern "C" __global__ void math_bf16(const __nv_bfloat162 *x, __nv_bfloat162 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_bfloat162 v = x[i], one = __float2bfloat162_rn(1.f);
  __nv_bfloat162 r[8] = {__hfma2(v, v, one), __hmul2(v, v), __hadd2(v, one), __hmin2(v, one), __hfma2_relu(v, one, v), h2exp(v),
                         __habs2(v), __hsub2(v, one)};
  for (int k = 0; k < 8; k++) out[k * n + i] = r[k];
}

extern "C" __global__ void narrow(const float2 *x, unsigned short *e4m3, unsigned short *e5m2, unsigned short *e2m3, unsigned short *e3m2,
                                  unsigned char *e2m1, unsigned short *e8m0, __half2 *back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 v = x[i];
  e4m3[i] = __nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E4M3);
  e5m2[i] = __nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E5M2);
  e2m3[i] = __nv_cvt_float2_to_fp6x2(v, __NV_E2M3, cudaRoundNearest);
  e3m2[i] = __nv_cvt_float2_to_fp6x2(v, __NV_E3M2, cudaRoundNearest);
  e2m1[i] = __nv_cvt_float2_to_fp4x2(v, __NV_E2M1, cudaRoundNearest);
  e8m0[i] = __nv_cvt_float2_to_e8m0x2(make_float2(fabsf(v.x), fabsf(v.y)), __NV_SATFINITE, cudaRoundPosInf);
  __half2_raw h = __nv_cvt_fp8x2_to_halfraw2(e4m3[i], __NV_E4M3);
  back[i] = *reinterpret_cast<__half2 *>(&h);
  h = __nv_cvt_fp4x2_to_halfraw2(e2m1[i], __NV_E2M1);
  back[n + i] = *reinterpret_cast<__half2 *>(&h);
}

extern "C" __global__ void conversions(const double *x, int *ints, unsigned *words, long long *longs, float *floats, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double d = x[i];
  float f = (float)d;
  ints[i] = __float2int_rn(f), ints[n + i] = __float2int_rz(f), ints[2 * n + i] = __double2int_ru(d), ints[3 * n + i] = __float2int_rd(f);
  words[i] = __float2uint_rn(f), words[n + i] = __half2uint_rz(__float2half(f)), words[2 * n + i] = __half_as_ushort(__float2half_rz(f));
  words[3 * n + i] = __bfloat16_as_ushort(__float2bfloat16_ru(f)), words[4 * n + i] = (unsigned char)(int)f;
  longs[i] = __double2ll_rn(d * 1e9), longs[n + i] = __float2ll_rz(f * 1e9f), longs[2 * n + i] = __double_as_longlong(d);
  floats[i] = __ll2float_rn(longs[i]), floats[n + i] = __int2float_rz(ints[i] * 99991), floats[2 * n + i] = __double2float_ru(d);
  floats[3 * n + i] = __ull2float_rd((unsigned long long)longs[2 * n + i]), floats[4 * n + i] = __int_as_float(__float_as_int(f) ^ 1);
}

extern "C" __global__ void bits(const unsigned *x, const unsigned *y, unsigned *out, unsigned long long *wide, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned a = x[i], b = y[i];
  int s = (int)a, t = (int)b;
  unsigned r[28] = {(unsigned)__popc(a), (unsigned)__clz(a), (unsigned)__ffs(a), __brev(a), __byte_perm(a, b, 0x2573), __funnelshift_l(a, b, a),
                    __funnelshift_rc(a, b, b & 63), (unsigned)__dp4a(s, t, s), __dp4a(a, b, a), (unsigned)__mulhi(s, t), __umulhi(a, b),
                    (unsigned)__sad(s, t, a), __usad(a, b, a), (unsigned)__mul24(s, t), __vadd2(a, b), __vmaxs4(a, b), __vabsdiffu4(a, b),
                    a / (b | 1), a % (b | 1), (unsigned)(s / (t | 1)), (unsigned)(s % (t | 1)), a / 7, (unsigned)(s % 10),
                    (unsigned)__viaddmax_s32(s, t, s), (unsigned)__vimax3_s32(s, t, -s), (a >> (b & 31)) | (a << (b & 7)), a & ~b ^ (a | b),
                    (unsigned)(s >> (b & 31))};
  for (int k = 0; k < 28; k++) out[k * n + i] = r[k];
  unsigned long long p = (unsigned long long)a << 32 | b, q = p * 0x9E3779B97F4A7C15ull;
  wide[i] = p * q, wide[n + i] = __umul64hi(p, q), wide[2 * n + i] = q / (b | 1), wide[3 * n + i] = q % (p | 1);
  wide[4 * n + i] = (unsigned long long)((long long)q / ((long long)b - 1000003)), wide[5 * n + i] = __popcll(q) + 100 * __clzll(p) + 10000 * __ffsll(q);
  unsigned __int128 w = (unsigned __int128)p * q + a;
  wide[6 * n + i] = (unsigned long long)(w >> 37), wide[7 * n + i] = __brevll(p) ^ (q >> (a & 63)) ^ (unsigned long long)__mul64hi((long long)p, (long long)q);
}

extern "C" __global__ void atomics(int *i32, unsigned *u32, unsigned long long *u64, long long *s64, float *f32, double *f64, __half2 *h2,
                                   __nv_bfloat162 *b2, float4 *f4) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&i32[0], t), atomicSub(&i32[1], t), atomicMin(&i32[2], -t), atomicMax(&i32[3], t * 3), atomicAdd_block(&i32[4], 1), atomicAdd_system(&i32[5], 2);
  atomicInc(&u32[0], 17), atomicDec(&u32[1], 9), atomicAnd(&u32[2], ~(1u << (t & 31))), atomicOr(&u32[3], 1u << (t & 31)), atomicXor(&u32[4], t);
  atomicMin(&u32[5], 5000u - t), atomicMax(&u32[6], 7u * t);
  atomicAdd(&u64[0], (unsigned long long)t << 30), atomicMax(&u64[1], (unsigned long long)t << 33), atomicAnd(&u64[2], ~(1ull << (t & 63)));
  atomicMin(&s64[0], -(long long)t), atomicMax(&s64[1], (long long)t - 5);
  atomicAdd(&f32[0], 1.f), atomicAdd(&f64[0], 0.5), atomicAdd(&h2[0], __floats2half2_rn(1.f, 2.f)), atomicAdd(&b2[0], __floats2bfloat162_rn(1.f, -1.f));
  atomicAdd(&f4[0], make_float4(1.f, 2.f, 3.f, 4.f));
  unsigned *word = (unsigned *)&f32[1], old = *word, seen;
  do {
    seen = old;
    old = atomicCAS(word, seen, __float_as_uint(fmaxf(__uint_as_float(seen), (float)((t * 37) % 101))));
  } while (old != seen);
  cuda::atomic_ref<int, cuda::thread_scope_device> a(i32[6]);
  a.fetch_add(2, cuda::memory_order_acq_rel);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> b(u64[3]);
  b.fetch_xor(t, cuda::memory_order_release);
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
  if (t == 5) u32[7] = atomicExch(&i32[7], 99);
}
