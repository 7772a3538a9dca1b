// Barriers and copies: cooperative groups, clusters, mbarriers, bulk copies, pipelines, roles.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/ptx>

namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

extern "C" __global__ void groups(const int *x, int *sums, int *scans, int *counter, int *sizes) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  int i = block.group_index().x * block.size() + block.thread_rank(), v = x[i];
  sums[i] = cg::reduce(warp, v, cg::plus<int>()) + 1000 * cg::reduce(eight, v, cg::greater<int>());
  scans[i] = cg::inclusive_scan(warp, v) - cg::exclusive_scan(eight, v, cg::plus<int>());
  if (v & 1) {
    auto odd = cg::coalesced_threads();
    if (odd.thread_rank() == 0) atomicAdd(counter, odd.size());
    sizes[i] = odd.shfl(v, 0);
  } else {
    auto part = cg::labeled_partition(cg::coalesced_threads(), v % 3);
    sizes[i] = part.size();
  }
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_histogram(const int *x, int *bins, int n, int per) {
  extern __shared__ int mine[];
  auto cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < per; i += blockDim.x) mine[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int bin = x[i];
    int *home = cluster.map_shared_rank(mine, bin / per);
    atomicAdd(home + bin % per, 1);
  }
  cluster.sync();
  for (int i = threadIdx.x; i < per; i += blockDim.x) atomicAdd(&bins[cluster.block_rank() * per + i], mine[i]);
}

extern "C" __global__ void stencil(const float *x, float *out, int tiles) {
  constexpr int N = 128;
  __shared__ alignas(16) float in[2][N];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  const float *from = x + (size_t)blockIdx.x * tiles * N;
  auto fetch = [&](int tile) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, in[tile % 2], from + tile * N, cuda::aligned_size_t<16>(sizeof(float) * N), pipe);
    pipe.producer_commit();
  };
  fetch(0);
  for (int tile = 0; tile < tiles; tile++) {
    if (tile + 1 < tiles) fetch(tile + 1);
    pipe.consumer_wait();
    block.sync();
    int i = threadIdx.x;
    float left = i ? in[tile % 2][i - 1] : 0, right = i + 1 < N ? in[tile % 2][i + 1] : 0;
    out[(size_t)blockIdx.x * tiles * N + tile * N + i] = 0.25f * left + 0.5f * in[tile % 2][i] + 0.25f * right;
    block.sync();
    pipe.consumer_release();
  }
}

extern "C" __global__ void bulk_copy(const float *x, float *out, float *sums, int n) {
  __shared__ alignas(128) float buffer[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    ptx::fence_proxy_async(ptx::space_shared);
  }
  __syncthreads();
  for (int start = blockIdx.x * 256; start < n; start += gridDim.x * 256) {
    cuda::barrier<cuda::thread_scope_block>::arrival_token token;
    if (threadIdx.x == 0) {
      cuda::device::memcpy_async_tx(buffer, x + start, cuda::aligned_size_t<16>(1024), bar);
      token = cuda::device::barrier_arrive_tx(bar, 1, 1024);
    } else
      token = bar.arrive();
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 256; i += blockDim.x) buffer[i] = buffer[i] * 2 + 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + start, buffer, 1024);
      ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, sums, buffer, 1024);
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>{});
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});
}

// A ring of two buffers between one producer warp and two consumer warps, with named barriers.
extern "C" __global__ void roles(const int *x, int *out, int rounds) {
  __shared__ int ring[2][64];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    for (int r = 0; r < rounds; r++) {
      if (r >= 2) asm volatile("bar.sync %0, 96;" ::"r"(3 + r % 2) : "memory");
      ring[r % 2][lane] = x[r * 64 + lane], ring[r % 2][lane + 32] = x[r * 64 + lane + 32];
      asm volatile("bar.arrive %0, 96;" ::"r"(1 + r % 2) : "memory");
    }
  } else {
    int sum = 0;
    for (int r = 0; r < rounds; r++) {
      asm volatile("bar.sync %0, 96;" ::"r"(1 + r % 2) : "memory");
      sum += ring[r % 2][(warp - 1) * 32 + lane] * (r + 1);
      if (r + 2 < rounds) asm volatile("bar.arrive %0, 96;" ::"r"(3 + r % 2) : "memory");
    }
    out[(warp - 1) * 32 + lane] = sum;
  }
}

// Every CTA of a pair sends its values to the other with st.async, and adds to its counters with red.async.
extern "C" __global__ void __cluster_dims__(2, 1, 1) remote(const int *x, int *out) {
  __shared__ alignas(16) int inbox[64];
  __shared__ int count;
  __shared__ alignas(8) uint64_t bar;
  auto cluster = cg::this_cluster();
  int t = threadIdx.x, other = cluster.block_rank() ^ 1;
  if (t == 0) {
    count = 0;
    ptx::mbarrier_init(&bar, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 64 * 4 + 64 * 4);
  }
  cluster.sync();
  uint64_t *remote_bar = cluster.map_shared_rank(&bar, other);
  ptx::st_async(cluster.map_shared_rank(&inbox[t], other), x[blockIdx.x * 64 + t], remote_bar);
  ptx::red_async(ptx::op_add, cluster.map_shared_rank(&count, other), t + 1, remote_bar);
  while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {
  }
  out[blockIdx.x * 64 + t] = inbox[t] + count;
  cluster.sync();
}

extern "C" __global__ void dependent(const float *x, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  float v = 0;
  if (i < n) asm volatile("ld.global.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(x + i), "l"(policy));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(x));
  if (i < n) out[i] = v * v;
}
