// sm_100a: tensor memory, tcgen05.mma of several kinds and places, copies into tensor memory, work that is taken over.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

__device__ uint32_t address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void init(uint64_t *bar, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(bar)), "r"(count) : "memory"); }
__device__ void wait(uint64_t *bar, int phase) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(address(bar)), "r"(phase) : "memory");
}
__device__ void allocate(uint32_t *slot, int columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\ntcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(address(slot)), "r"(columns) : "memory");
}
__device__ void release(uint32_t base, int columns) { asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(base), "r"(columns)); }
__device__ void commit(uint64_t *bar) { asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(address(bar)) : "memory"); }
__device__ bool elect() {
  uint32_t p;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, -1;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(p));
  return p;
}
// Without swizzle: core matrices of 8 rows of 16 bytes, one behind the other along K, then along the rows.
__device__ int core(int row, int byte, int row_bytes) { return (row / 8 * (row_bytes / 16) + byte / 16) * 128 + row % 8 * 16 + byte % 16; }
__device__ uint64_t descriptor(const void *p, int row_bytes) {
  return (uint64_t)(address(p) >> 4 & 0x3FFF) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(row_bytes * 8 >> 4) << 32 | 1ull << 46;
}
__device__ void fill(char *to, const char *from, int rows, int row_bytes) {
  for (int i = threadIdx.x * 4; i < rows * row_bytes; i += blockDim.x * 4) *(int *)(to + core(i / row_bytes, i % row_bytes, row_bytes)) = *(const int *)(from + i);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// The instruction: D type, A and B type, N and M.
__device__ uint32_t instruction(int d, int a, int b, int n, int m) { return d << 4 | a << 7 | b << 10 | n / 8 << 17 | m / 16 << 24; }

#define BEFORE asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory")
#define AFTER asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory")

// D (M x 64, f32) = A (M x 32) B (64 x 32)^T in bf16, for M of 128, 64, and weight-stationary 128, 64, 32; every lane and column of D is given.
template <int M, bool WS> __device__ void multiply(const __nv_bfloat16 *a, const __nv_bfloat16 *b, uint32_t *d) {
  __shared__ __align__(1024) char as[M * 64], bs[64 * 64];
  __shared__ uint64_t bar;
  __shared__ uint32_t slot;
  if (threadIdx.x == 0) init(&bar, 1);
  __syncwarp();
  if (threadIdx.x < 32) allocate(&slot, 64);
  fill(as, (const char *)a, M, 64), fill(bs, (const char *)b, 64, 64);
  BEFORE;
  __syncthreads();
  AFTER;
  uint32_t base = slot, zero[32] = {};
  for (int c = 0; c < 64; c += 4)
    asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %2, %3, %4};" ::"r"(base + (threadIdx.x / 32 << 21) + c), "r"(zero[0]), "r"(zero[1]), "r"(zero[2]), "r"(zero[3]));
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  BEFORE;
  __syncthreads();
  AFTER;
  if (threadIdx.x < 32 && elect()) {
    for (int kk = 0; kk < 2; kk++) {
      uint64_t da = descriptor(as, 64) + kk * (256 >> 4), db = descriptor(bs, 64) + kk * (256 >> 4);
      uint32_t what = instruction(1, 1, 1, 64, M);
      if (WS)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::discard [%0], %1, %2, %3, p;\n}" ::"r"(base), "l"(da), "l"(db),
                     "r"(what), "r"(kk));
      else
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(base), "l"(da), "l"(db), "r"(what), "r"(kk));
    }
    commit(&bar);
  }
  __syncwarp();
  wait(&bar, 0);
  AFTER;
  for (int c = 0; c < 64; c += 8) {
    uint32_t r[8];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];\ntcgen05.wait::ld.sync.aligned;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(base + (threadIdx.x / 32 << 21) + c));
    for (int i = 0; i < 8; i++) d[threadIdx.x * 64 + c + i] = r[i];
  }
  BEFORE;
  __syncthreads();
  if (threadIdx.x < 32) release(base, 64);
}
#define MULTIPLY(name, m, ws) extern "C" __global__ void name(const __nv_bfloat16 *a, const __nv_bfloat16 *b, uint32_t *d) { multiply<m, ws>(a, b, d); }
MULTIPLY(mma_128, 128, false)
MULTIPLY(mma_64, 64, false)
MULTIPLY(ws_128, 128, true)
MULTIPLY(ws_64, 64, true)
MULTIPLY(ws_32, 32, true)

// A from tensor memory (f16), scaled accumulator, disabled lanes: D (128 x 32) = -A B^T + D / 4, then signed bytes and tf32.
extern "C" __global__ void mma_places(const __half *a, const __half *b, const float *c, float *d, const signed char *a8, const unsigned char *b8, int *d8, const float *a32,
                                      const float *b32, float *d32) {
  __shared__ __align__(1024) char xs[128 * 128], ys[32 * 128];
  __shared__ uint64_t bar;
  __shared__ uint32_t slot;
  if (threadIdx.x == 0) init(&bar, 1);
  __syncwarp();
  if (threadIdx.x < 32) allocate(&slot, 128);
  fill(ys, (const char *)b, 32, 64);
  BEFORE;
  __syncthreads();
  AFTER;
  uint32_t base = slot, lane = threadIdx.x / 32 << 21, t = threadIdx.x;
  for (int i = 0; i < 16; i++) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(base + lane + 64 + i), "r"(((const uint32_t *)a)[t * 16 + i]));
  for (int i = 0; i < 32; i++) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(base + lane + i), "r"(((const uint32_t *)c)[t * 32 + i]));
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  auto sync = [&] {
    BEFORE;
    __syncthreads();
    AFTER;
  };
  auto show = [&](uint32_t *to) {
    for (int i = 0; i < 32; i += 2) {
      uint32_t r[2];
      asm volatile("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%0, %1}, [%2];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r[0]), "=r"(r[1]) : "r"(base + lane + i));
      to[t * 32 + i] = r[0], to[t * 32 + i + 1] = r[1];
    }
    sync();
  };
  sync();
  if (t < 32 && elect()) {
    uint32_t what = instruction(1, 0, 0, 32, 128) | 1 << 13;
    // The last quarter of the lanes keeps what it has.
    asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, {%4, %4, %4, %5}, 1, 2;" ::"r"(base), "r"(base + 64), "l"(descriptor(ys, 64)), "r"(what), "r"(0), "r"(-1));
    asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, {%4, %4, %4, %5}, 1;" ::"r"(base), "r"(base + 72), "l"(descriptor(ys, 64) + 16), "r"(what), "r"(0), "r"(-1));
    commit(&bar);
  }
  __syncwarp();
  wait(&bar, 0);
  AFTER;
  show((uint32_t *)d);
  fill(xs, (const char *)a8, 128, 32), fill(ys, (const char *)b8, 32, 32);
  sync();
  if (t < 32 && elect()) {
    asm volatile("tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %2, %3, 0;" ::"r"(base), "l"(descriptor(xs, 32)), "l"(descriptor(ys, 32)), "r"(instruction(2, 1, 0, 32, 128)));
    commit(&bar);
  }
  __syncwarp();
  wait(&bar, 1);
  AFTER;
  show((uint32_t *)d8);
  fill(xs, (const char *)a32, 128, 32), fill(ys, (const char *)b32, 32, 32);
  sync();
  if (t < 32 && elect()) {
    asm volatile("tcgen05.mma.cta_group::1.kind::tf32 [%0], %1, %2, %3, 0;" ::"r"(base), "l"(descriptor(xs, 32)), "l"(descriptor(ys, 32)), "r"(instruction(1, 2, 2, 32, 128)));
    commit(&bar);
  }
  __syncwarp();
  wait(&bar, 0);
  AFTER;
  show((uint32_t *)d32);
  if (t < 32) release(base, 128);
}

// Every shape of tcgen05.ld reads what tcgen05.st of another shape wrote; tcgen05.cp brings rows from shared memory.
extern "C" __global__ void tensor_moves(const uint32_t *x, uint32_t *by64, uint32_t *by128, uint32_t *by256, uint32_t *packed, const uint32_t *rows, uint32_t *copied, uint32_t *spread) {
  __shared__ __align__(1024) char rs[128 * 32];
  __shared__ uint64_t bar;
  __shared__ uint32_t slot;
  int t = threadIdx.x;
  if (t == 0) init(&bar, 1);
  __syncwarp();
  if (t < 32) allocate(&slot, 32);
  fill(rs, (const char *)rows, 128, 32);
  BEFORE;
  __syncthreads();
  AFTER;
  uint32_t base = slot, lane = t / 32 << 21, r[8];
  for (int i = 0; i < 8; i++) asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(base + lane + i), "r"(x[t * 8 + i]));
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  for (int half = 0; half < 2; half++) {
    uint32_t at = base + lane + (half << 20);
    asm volatile("tcgen05.ld.sync.aligned.16x64b.x4.b32 {%0, %1, %2, %3}, [%4];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; i++) by64[(t * 2 + half) * 4 + i] = r[i];
    asm volatile("tcgen05.ld.sync.aligned.16x128b.x2.b32 {%0, %1, %2, %3}, [%4];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; i++) by128[(t * 2 + half) * 4 + i] = r[i];
    asm volatile("tcgen05.ld.sync.aligned.16x256b.x1.b32 {%0, %1, %2, %3}, [%4];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; i++) by256[(t * 2 + half) * 4 + i] = r[i];
  }
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {%0, %1, %2, %3}, [%4];\ntcgen05.wait::ld.sync.aligned;" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(base + lane));
  for (int i = 0; i < 4; i++) packed[t * 4 + i] = r[i];
  BEFORE;
  __syncthreads();
  AFTER;
  if (t < 32 && elect()) {
    asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" ::"r"(base), "l"(descriptor(rs, 32)));
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(base + 8), "l"(descriptor(rs, 32)));
    asm volatile("tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [%0], %1;" ::"r"(base + 12), "l"(descriptor(rs, 32)));
    commit(&bar);
  }
  __syncwarp();
  wait(&bar, 0);
  AFTER;
  for (int i = 0; i < 16; i += 8) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];\ntcgen05.wait::ld.sync.aligned;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(base + lane + i));
    for (int k = 0; k < 8; k++) (i ? spread : copied)[t * 8 + k] = r[k];
  }
  BEFORE;
  __syncthreads();
  if (t < 32) release(base, 32);
}

// CTAs that have work to do take that of CTAs that have not started.
extern "C" __global__ void take_over(const int *x, int *out, int *times) {
  __shared__ __align__(16) uint4 answer;
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) init(&bar, 1);
  __syncwarp();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  int at = blockIdx.x, phase = 0;
  while (true) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" ::"r"(address(&bar)) : "memory");
      asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(address(&answer)), "r"(address(&bar)) : "memory");
    }
    out[at * 32 + threadIdx.x] = x[at * 32 + threadIdx.x] * 2 + at;
    if (threadIdx.x == 0) atomicAdd(&times[at], 1);
    wait(&bar, phase);
    phase ^= 1;
    uint32_t taken, next;
    asm volatile("{\n.reg .b128 r;\n.reg .pred p;\nld.shared.b128 r, [%2];\nclusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r;\nselp.b32 %0, 1, 0, p;\nmov.b32 %1, 0;\n"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%1, _, _, _}, r;\n}" : "=r"(taken), "=r"(next) : "r"(address(&answer)) : "memory");
    // The answer has been read: the next may overwrite it.
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
    __syncthreads();
    if (!taken) return;
    at = next;
  }
}
