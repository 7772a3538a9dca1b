// Plain CUDA: reductions, scans, transposes, sorts, divergence, calls and local memory.
#include <cstdint>

extern "C" __global__ void reduce_sum(const float *x, float *total, int n) {
  __shared__ float partial[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x == 0) atomicAdd(total, sum);
  }
}

extern "C" __global__ void reduce_integers(const int *x, int *out, unsigned *counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = i < n ? x[i] : 0;
  int sum = __reduce_add_sync(~0u, v), low = __reduce_min_sync(~0u, v), high = __reduce_max_sync(~0u, v);
  unsigned odd = __popc(__ballot_sync(~0u, v & 1));
  unsigned same = __match_any_sync(~0u, v & 7);
  int all_same;
  __match_all_sync(~0u, v, &all_same);
  int five = __any_sync(~0u, v == 5), large = __all_sync(~0u, v > -9999);
  int positive = __syncthreads_count(v > 0), all = __syncthreads_and(v < 1000), any = __syncthreads_or(v == 77);
  if (i < n) counts[i] = __popc(same) * 16 + __ffs(same) % 16;
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&out[0], sum);
    atomicMin(&out[1], low);
    atomicMax(&out[2], high);
    atomicAdd(&out[3], odd);
    atomicXor(&out[4], all_same + 2 * (five != 0) + 4 * (large != 0));
  }
  if (threadIdx.x == 0) {
    atomicAdd(&out[5], positive);
    atomicAdd(&out[6], all + 10 * any);
  }
}

extern "C" __global__ void block_scan(const int *x, int *out, int n) {
  extern __shared__ int sums[];
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int v = i < n ? x[i] : 0;
  for (int step = 1; step < 32; step *= 2) {
    int left = __shfl_up_sync(~0u, v, step);
    if (lane >= step) v += left;
  }
  if (lane == 31) sums[warp] = v;
  __syncthreads();
  int before = 0;
  for (int k = 0; k < warp; k++) before += sums[k];
  if (i < n) out[i] = v + before;
}

extern "C" __global__ void transpose(const float *x, float *out, int rows, int columns) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (c < columns && r + k < rows) tile[threadIdx.y + k][threadIdx.x] = x[(size_t)(r + k) * columns + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x, r = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    if (c < rows && r + k < columns) out[(size_t)(r + k) * rows + c] = tile[threadIdx.x][threadIdx.y + k];
}

extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float as[16][16], bs[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int start = 0; start < k; start += 16) {
    as[threadIdx.y][threadIdx.x] = row < m && start + threadIdx.x < k ? a[row * k + start + threadIdx.x] : 0;
    bs[threadIdx.y][threadIdx.x] = column < n && start + threadIdx.y < k ? b[(start + threadIdx.y) * n + column] : 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void bitonic_sort(unsigned *x, int n) {
  __shared__ unsigned v[512];
  for (int i = threadIdx.x; i < 512; i += blockDim.x) v[i] = i < n ? x[i] : ~0u;
  __syncthreads();
  for (int size = 2; size <= 512; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      for (int i = threadIdx.x; i < 512; i += blockDim.x) {
        int j = i ^ step;
        if (j > i && (v[i] > v[j]) == ((i & size) == 0)) {
          unsigned t = v[i];
          v[i] = v[j], v[j] = t;
        }
      }
      __syncthreads();
    }
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = v[i];
}

extern "C" __global__ void collatz(const unsigned *x, int *steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long v = x[i];
  int count = 0;
  while (v != 1) {
    if (v & 1) v = 3 * v + 1;
    else if (v % 4 == 0) v /= 4, count++;
    else v /= 2;
    count++;
  }
  steps[i] = count;
}

__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

struct Pair { int a; long long b; };
__device__ __noinline__ Pair mix(Pair p, int k) { return {p.a * k + 1, p.b - p.a}; }
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int negate(int x) { return -x; }
__device__ int (*const table[3])(int) = {twice, square, negate};
__constant__ int weights[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ int counter = 40;

extern "C" __global__ void calls(const int *x, int *out, long long *wide, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i], local[16];
  for (int k = 0; k < 16; k++) local[k] = v * k + weights[k & 7];
  int sum = ackermann(v & 1, v & 3) + table[i % 3](v) + local[(v * 7) & 15];
  Pair p = {v, 1000000007LL * v};
  for (int k = 0; k < (v & 3); k++) p = mix(p, k + 2);
  switch (v & 7) {
    case 0: sum += 5; break;
    case 1: sum ^= 77; break;
    case 2: sum = -sum; break;
    case 3: sum *= 3;
    case 4: sum -= local[3]; break;
    case 5: sum = __brev(sum); break;
    case 6: sum >>= 2; break;
    default: sum = ~sum;
  }
  out[i] = sum + counter;
  wide[i] = p.a + p.b;
}

extern "C" __global__ void shared_histogram(const unsigned char *x, unsigned *bins, int n) {
  __shared__ unsigned count[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) count[i] = 0;
  __syncthreads();
  const uint4 *x4 = reinterpret_cast<const uint4 *>(x);
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 16; i += gridDim.x * blockDim.x) {
    uint4 v = __ldg(&x4[i]);
    unsigned words[4] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < 4; k++)
      for (int b = 0; b < 4; b++) atomicAdd(&count[words[k] >> (8 * b) & 255], 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (count[i]) atomicAdd(&bins[i], count[i]);
}

extern "C" __global__ void grid_barrier(volatile int *arrived, volatile int *data, int *out) {
  int me = blockIdx.x, count = gridDim.x;
  if (threadIdx.x == 0) {
    data[me] = me * me + 3;
    __threadfence();
    atomicAdd((int *)arrived, 1);
    while (*arrived < count) __nanosleep(50);
    __threadfence();
  }
  __syncthreads();
  int sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += data[i];
  sum = __reduce_add_sync(~0u, sum);
  if (threadIdx.x == 0) out[me] = sum;
}

extern "C" __global__ void online_softmax(const float4 *x, float4 *out, int columns4) {
  __shared__ float tops[8], totals[8];
  const float4 *row = x + (size_t)blockIdx.x * columns4;
  float top = -INFINITY, total = 0;
  for (int i = threadIdx.x; i < columns4; i += blockDim.x) {
    float4 v = row[i];
    float m = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)), next = fmaxf(top, m);
    total = total * __expf(top - next) + __expf(v.x - next) + __expf(v.y - next) + __expf(v.z - next) + __expf(v.w - next);
    top = next;
  }
  for (int step = 16; step; step /= 2) {
    float m = __shfl_xor_sync(~0u, top, step), s = __shfl_xor_sync(~0u, total, step), next = fmaxf(top, m);
    total = (top > -INFINITY ? total * __expf(top - next) : 0) + (m > -INFINITY ? s * __expf(m - next) : 0);
    top = next;
  }
  if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top, totals[threadIdx.x / 32] = total;
  __syncthreads();
  top = -INFINITY, total = 0;
  for (int k = 0; k < blockDim.x / 32; k++) {
    float next = fmaxf(top, tops[k]);
    total = total * __expf(top - next) + totals[k] * __expf(tops[k] - next);
    top = next;
  }
  float4 *to = out + (size_t)blockIdx.x * columns4;
  for (int i = threadIdx.x; i < columns4; i += blockDim.x) {
    float4 v = row[i];
    to[i] = make_float4(__fdividef(__expf(v.x - top), total), __fdividef(__expf(v.y - top), total),
                        __fdividef(__expf(v.z - top), total), __fdividef(__expf(v.w - top), total));
  }
}
