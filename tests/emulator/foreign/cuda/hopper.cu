// sm_90a: tensor copies, wgmma from shared memory and registers, multicast, roles with their own registers.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>

__device__ uint32_t address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ void init(uint64_t *bar, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(bar)), "r"(count) : "memory"); }
__device__ void arrive(uint64_t *bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(bar)) : "memory"); }
__device__ void expect(uint64_t *bar, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(bar)), "r"(bytes) : "memory"); }
__device__ void wait(uint64_t *bar, int phase) {
  asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(address(bar)), "r"(phase) : "memory");
}
__device__ void load(const CUtensorMap *map, uint64_t *bar, void *to, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(address(to)), "l"(map), "r"(address(bar)),
               "r"(x), "r"(y) : "memory");
}
__device__ void load_all(const CUtensorMap *map, uint64_t *bar, void *to, int x, int y, uint16_t mask) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(address(to)), "l"(map),
               "r"(address(bar)), "r"(x), "r"(y), "h"(mask) : "memory");
}
__device__ uint64_t descriptor(const void *p) {  // K-major rows of 128 bytes, swizzled
  return (uint64_t)(address(p) >> 4 & 0x3FFF) | 1ull << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

#define ACC32 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define OUT32(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), \
    "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), \
    "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])

// A producer warp with two stages, one warpgroup that multiplies 64 x 64 tiles; B is multicast to the pair of CTAs.
extern "C" __global__ void __cluster_dims__(2, 1, 1) wgmma_bf16(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                                                                 const __grid_constant__ CUtensorMap c, int k) {
  extern __shared__ __align__(1024) char memory[];
  auto as = reinterpret_cast<__nv_bfloat16(*)[64 * 64]>(memory);
  auto bs = reinterpret_cast<__nv_bfloat16(*)[64 * 64]>(memory + 16384);
  auto out = reinterpret_cast<float *>(memory + 32768);
  __shared__ uint64_t full[2], empty[2];
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) init(&full[s], 1), init(&empty[s], 2);
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  int tiles = (k + 63) / 64;
  if (threadIdx.x >= 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 128)
      for (int t = 0; t < tiles; t++) {
        int s = t % 2;
        if (t >= 2) wait(&empty[s], t / 2 - 1 & 1);
        expect(&full[s], 2 * 8192);
        load(&a, &full[s], as[s], t * 64, blockIdx.x * 64);
        // Each CTA fetches half of B for both.
        load_all(&b, &full[s], bs[s] + rank * 32 * 64, t * 64, blockIdx.y * 64 + rank * 32, 3);
      }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    for (int t = 0; t < tiles; t++) {
      int s = t % 2;
      wait(&full[s], t / 2 & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      for (int kk = 0; kk < 4; kk++)
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " ACC32 ", %32, %33, p, 1, 1, 0, 0;\n}"
                     : OUT32(d) : "l"(descriptor(as[s]) + 2 * kk), "l"(descriptor(bs[s]) + 2 * kk), "r"(t + kk));
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (threadIdx.x < 2) {
        uint32_t remote;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address(&empty[s])), "r"(threadIdx.x));
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
      }
    }
    int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 32; i += 2) {
      float *to = &out[(i / 4 * 8 + column) / 32 * 64 * 32 + (row + i / 2 % 2 * 8) * 32 + (i / 4 * 8 + column) % 32];
      to[0] = d[i], to[1] = d[i + 1];
    }
    asm volatile("fence.proxy.async.shared::cta;\nbar.sync 1, 128;" ::: "memory");
    if (threadIdx.x == 0) {
      for (int half = 0; half < 2; half++)
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&c), "r"(address(out + half * 64 * 32)),
                     "r"(blockIdx.y * 64 + half * 32), "r"(blockIdx.x * 64) : "memory");
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// A from registers, B transposed: D (64 x 32, f16) = A (64 x 32) B (32 x 32, N contiguous) in half precision.
extern "C" __global__ void wgmma_registers(const __half *a, const __half *b, __half *c) {
  __shared__ __align__(1024) __half bs[32 * 32];
  for (int i = threadIdx.x; i < 32 * 32; i += 128) {
    // Rows of 64 bytes (N), swizzled over 64 bytes.
    int k = i / 32, n = i % 32, at = k * 64 + n * 2;
    bs[(at ^ (at >> 3 & 0x30)) / 2] = b[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
  uint32_t d[8] = {};
  uint64_t base = (uint64_t)(address(bs) >> 4) | 1ull << 16 | (uint64_t)(512 >> 4) << 32 | 2ull << 62;
  for (int kk = 0; kk < 2; kk++) {
    uint32_t r[4];
    for (int q = 0; q < 4; q++) r[q] = *reinterpret_cast<const uint32_t *>(&a[(row + q % 2 * 8) * 32 + kk * 16 + column + q / 2 * 8]);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f16.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, 1, -1, 1, 1;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(base + kk * (1024 >> 4)));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  for (int i = 0; i < 8; i++) *reinterpret_cast<uint32_t *>(&c[(row + i % 2 * 8) * 32 + i / 2 * 8 + column]) = d[i];
}

// Boxes of three dimensions through shared memory, with fills at the edges; the second map is made in the kernel.
extern "C" __global__ void copy_box(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
  __shared__ __align__(128) int box[2 * 6 * 8];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) init(&bar, 1), expect(&bar, sizeof box);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  int x = blockIdx.x * 8 - 4, y = blockIdx.y * 6 - 1, z = blockIdx.z * 2;
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&from));
    asm volatile("cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(address(box)), "l"(&from), "r"(address(&bar)),
                 "r"(x), "r"(y), "r"(z) : "memory");
  }
  wait(&bar, 0);
  for (int i = threadIdx.x; i < 96; i += blockDim.x) box[i] = box[i] * 3 + 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&to), "r"(address(box)), "r"(blockIdx.x * 8), "r"(blockIdx.y * 6), "r"(z)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}
