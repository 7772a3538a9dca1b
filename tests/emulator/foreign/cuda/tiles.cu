// Warp-level matrix products: nvcuda::wmma, and mma.sync with ldmatrix, cp.async and stmatrix in inline PTX.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

template <class T, class Acc, class LayoutA, class LayoutB, int M, int N, int K, class In = T>
__device__ void wmma_product(const In *a, const In *b, Acc *c, int m, int n, int k) {
  int tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32, columns = n / N;
  int row = tile / columns * M, column = tile % columns * N;
  if (row >= m) return;
  wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
  wmma::load_matrix_sync(fc, c + row * n + column, n, wmma::mem_row_major);
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] + fc.x[i];
  constexpr bool a_row = std::is_same_v<LayoutA, wmma::row_major>, b_row = std::is_same_v<LayoutB, wmma::row_major>;
  for (int s = 0; s < k; s += K) {
    wmma::load_matrix_sync(fa, a_row ? a + row * k + s : a + s * m + row, a_row ? k : m);
    wmma::load_matrix_sync(fb, b_row ? b + s * n + column : b + column * k + s, b_row ? n : k);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}
using Row = wmma::row_major;
using Col = wmma::col_major;
#define WMMA(name, T, Acc, LA, LB, M, N, K, In) \
  extern "C" __global__ void name(const In *a, const In *b, Acc *c, int m, int n, int k) { wmma_product<T, Acc, LA, LB, M, N, K, In>(a, b, c, m, n, k); }
WMMA(wmma_half, __half, float, Row, Col, 16, 16, 16, __half)
WMMA(wmma_half_acc, __half, __half, Col, Row, 32, 8, 16, __half)
WMMA(wmma_bf16, __nv_bfloat16, float, Row, Row, 8, 32, 16, __nv_bfloat16)
WMMA(wmma_tf32, wmma::precision::tf32, float, Row, Col, 16, 16, 8, float)
WMMA(wmma_int8, signed char, int, Row, Col, 16, 16, 16, signed char)
WMMA(wmma_uint8, unsigned char, int, Col, Col, 32, 8, 16, unsigned char)

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// C (64 x 64) += A (m x k, row) B (n x k, row) in bf16: two stages of cp.async, ldmatrix, mma.sync, stmatrix.
extern "C" __global__ void mma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *c, int m, int n, int k) {
  __shared__ alignas(128) __nv_bfloat16 as[2][64][40], bs[2][64][40], cs[64][72];
  int t = threadIdx.x, lane = t & 31, warp = t / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
  int bm = blockIdx.y * 64, bn = blockIdx.x * 64;
  float acc[2][4][4] = {};
  auto load = [&](int stage, int start) {
    for (int i = t; i < 256; i += 128) {
      int r = i / 4, q = i % 4 * 8;
      __pipeline_memcpy_async(&as[stage][r][q], &a[(size_t)(bm + r) * k + start + q], 16, bm + r < m ? 0 : 16);
      __pipeline_memcpy_async(&bs[stage][r][q], &b[(size_t)(bn + r) * k + start + q], 16, bn + r < n ? 0 : 16);
    }
    __pipeline_commit();
  };
  load(0, 0);
  for (int s = 0, stage = 0; s < k; s += 32, stage ^= 1) {
    if (s + 32 < k) load(stage ^ 1, s + 32);
    else __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    for (int kk = 0; kk < 32; kk += 16) {
      unsigned fa[2][4], fb[2][4];
      for (int i = 0; i < 2; i++) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                     : "r"(shared_address(&as[stage][wm + 16 * i + lane % 16][kk + lane / 16 * 8])));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fb[i][0]), "=r"(fb[i][1]), "=r"(fb[i][2]), "=r"(fb[i][3])
                     : "r"(shared_address(&bs[stage][wn + 16 * i + lane % 8 + lane / 16 * 8][kk + lane / 8 % 2 * 8])));
      }
      for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                       : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j / 2][j % 2 * 2]), "r"(fb[j / 2][j % 2 * 2 + 1]));
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 4; j += 2) {
      unsigned r[4];
      for (int q = 0; q < 4; q++) {
        __nv_bfloat162 v = __floats2bfloat162_rn(acc[i][j + q / 2][q % 2 * 2], acc[i][j + q / 2][q % 2 * 2 + 1]);
        r[q] = *reinterpret_cast<unsigned *>(&v);
      }
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(&cs[wm + 16 * i + lane % 16][wn + 8 * j + lane / 16 * 8])),
                   "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    }
  __syncthreads();
  for (int i = t; i < 64 * 64; i += 128)
    if (bm + i / 64 < m && bn + i % 64 < n) c[(size_t)(bm + i / 64) * n + bn + i % 64] = cs[i / 64][i % 64];
}

// One warp, one tile: D (16 x 8) = A B + C for the narrow types and shapes.
template <class F> __device__ void fragments(F f) { f(threadIdx.x / 4, threadIdx.x % 4); }

extern "C" __global__ void mma_narrow(const unsigned *a8, const unsigned *b8, const unsigned *a16, const unsigned *b16, const float *c, float *fp8, int *int8,
                                      float *half8, int *mixed) {
  int g = threadIdx.x / 4, q = threadIdx.x % 4;
  // A is 16 rows of 32 bytes, B 8 columns of 32 bytes, a word is 4 bytes along K.
  unsigned a[4] = {a8[g * 8 + q], a8[(g + 8) * 8 + q], a8[g * 8 + q + 4], a8[(g + 8) * 8 + q + 4]}, b[2] = {b8[g * 8 + q], b8[g * 8 + q + 4]};
  float d[4] = {c[g * 8 + 2 * q], c[g * 8 + 2 * q + 1], c[(g + 8) * 8 + 2 * q], c[(g + 8) * 8 + 2 * q + 1]}, e[4] = {d[0], d[1], d[2], d[3]};
  int i[4] = {1, 2, 3, 4}, u[4] = {};
  asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  asm("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(i[0]), "+r"(i[1]), "+r"(i[2]), "+r"(i[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+r"(u[0]), "+r"(u[1]), "+r"(u[2]), "+r"(u[3]) : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  unsigned h[2] = {a16[g * 4 + q], a16[(g + 8) * 4 + q]}, k = b16[g * 4 + q];
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(e[0]), "+f"(e[1]), "+f"(e[2]), "+f"(e[3]) : "r"(h[0]), "r"(h[1]), "r"(k));
  for (int r = 0; r < 4; r++) {
    int at = (g + r / 2 * 8) * 8 + 2 * q + r % 2;
    fp8[at] = d[r], int8[at] = i[r], half8[at] = e[r], mixed[at] = u[r];
  }
}

extern "C" __global__ void mma_double(const double *a, const double *b, double *c) {
  int g = threadIdx.x / 4, q = threadIdx.x % 4;
  double d[2] = {c[g * 8 + 2 * q], c[g * 8 + 2 * q + 1]};
  for (int s = 0; s < 4; s++)
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(d[0]), "+d"(d[1]) : "d"(a[g * 16 + 4 * s + q]), "d"(b[g * 16 + 4 * s + q]));
  c[g * 8 + 2 * q] = d[0], c[g * 8 + 2 * q + 1] = d[1];
}

extern "C" __global__ void matrix_moves(const unsigned *x, unsigned *plain, unsigned *turned, unsigned *moved, unsigned *stored) {
  __shared__ alignas(16) unsigned in[32][4], out[32][4];
  int lane = threadIdx.x;
  for (int i = 0; i < 4; i++) in[lane][i] = x[lane * 4 + i];
  __syncwarp();
  unsigned p[4], t[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(p[0]), "=r"(p[1]), "=r"(p[2]), "=r"(p[3]) : "r"(shared_address(&in[lane][0])));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3]) : "r"(shared_address(&in[lane][0])));
  for (int i = 0; i < 4; i++) {
    plain[i * 32 + lane] = p[i], turned[i * 32 + lane] = t[i];
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(p[i]) : "r"(p[i]));
    moved[i * 32 + lane] = p[i];
  }
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(&out[lane][0])), "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]) : "memory");
  __syncwarp();
  for (int i = 0; i < 4; i++) stored[lane * 4 + i] = out[lane][i];
}
