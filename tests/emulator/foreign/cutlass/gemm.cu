// Instantiates one GEMM of CUTLASS (chosen by -DCONFIG) and, as a host program, prints how it is launched.
// Compiled live by the soak test only; nothing of CUTLASS is kept here.
#include <cstdio>
#include <cstdlib>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

using namespace cute;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;

template <class E> struct Plain { using Type = E; };
template <class E> struct Plain<cutlass::nv_float4_t<E>> { using Type = E; };
template <class E> struct Plain<cutlass::mx_float4_t<E>> { using Type = E; };
template <class E> struct Plain<cutlass::mx_float8_t<E>> { using Type = E; };

template <class Arch_, class Class_, class E_, class A_, class B_, class Out_, class Tile_, class Cluster_, class Schedule_, class Epilogue_>
struct Config {
  using Arch = Arch_; using Class = Class_; using E = E_; using A = A_; using B = B_; using Out = Out_;
  using Tile = Tile_; using Cluster = Cluster_; using Schedule = Schedule_; using Epilogue = Epilogue_;
  static constexpr bool Scaled = !std::is_same_v<E, typename Plain<E>::Type>;
};
namespace ks = cutlass::gemm;
namespace ep = cutlass::epilogue;
using S90 = cutlass::arch::Sm90;
using S100 = cutlass::arch::Sm100;
using Tensor_ = cutlass::arch::OpClassTensorOp;
using Block_ = cutlass::arch::OpClassBlockScaledTensorOp;

#if CONFIG == 0
using Chosen = Config<S90, Tensor_, cutlass::bfloat16_t, Row, Column, cutlass::bfloat16_t, Shape<_128, _128, _64>, Shape<_2, _1, _1>, ks::KernelTmaWarpSpecializedCooperative, ep::TmaWarpSpecializedCooperative>;
#elif CONFIG == 1
using Chosen = Config<S90, Tensor_, cutlass::half_t, Column, Row, cutlass::half_t, Shape<_64, _128, _64>, Shape<_1, _1, _1>, ks::KernelTmaWarpSpecializedPingpong, ep::TmaWarpSpecialized>;
#elif CONFIG == 2
using Chosen = Config<S90, Tensor_, cutlass::float_e4m3_t, Row, Column, cutlass::bfloat16_t, Shape<_128, _128, _128>, Shape<_1, _2, _1>, ks::KernelTmaWarpSpecializedCooperativeFP8FastAccum, ep::TmaWarpSpecializedCooperative>;
#elif CONFIG == 3
using Chosen = Config<S90, Tensor_, cutlass::tfloat32_t, Row, Column, float, Shape<_128, _64, _32>, Shape<_1, _1, _1>, ks::KernelTmaWarpSpecialized, ep::NoSmemWarpSpecialized>;
#elif CONFIG == 4
using Chosen = Config<S90, Tensor_, cutlass::half_t, Row, Row, float, Shape<_128, _64, _64>, Shape<_1, _1, _1>, ks::KernelCpAsyncWarpSpecialized, ep::NoSmemWarpSpecialized>;
#elif CONFIG == 5
using Chosen = Config<S90, Tensor_, cutlass::bfloat16_t, Row, Column, float, Shape<_128, _128, _64>, Shape<_1, _1, _1>, ks::KernelTmaWarpSpecializedCooperative, ep::TmaWarpSpecializedCooperative>;
#elif CONFIG == 10
using Chosen = Config<S100, Tensor_, cutlass::bfloat16_t, Row, Column, cutlass::bfloat16_t, Shape<_128, _128, _64>, Shape<_1, _1, _1>, ks::KernelTmaWarpSpecialized1SmSm100, ep::TmaWarpSpecialized1Sm>;
#elif CONFIG == 11
using Chosen = Config<S100, Tensor_, cutlass::float_e4m3_t, Row, Column, cutlass::bfloat16_t, Shape<_256, _128, _128>, Shape<_2, _1, _1>, ks::KernelTmaWarpSpecialized2SmSm100, ep::TmaWarpSpecialized2Sm>;
#elif CONFIG == 12
using Chosen = Config<S100, Block_, cutlass::nv_float4_t<cutlass::float_e2m1_t>, Row, Column, cutlass::bfloat16_t, Shape<_128, _128, _256>, Shape<_1, _1, _1>, ks::KernelTmaWarpSpecialized1SmNvf4Sm100, ep::TmaWarpSpecialized1Sm>;
#elif CONFIG == 13
using Chosen = Config<S100, Block_, cutlass::mx_float8_t<cutlass::float_e4m3_t>, Row, Column, float, Shape<_256, _128, _128>, Shape<_2, _1, _1>, ks::KernelTmaWarpSpecialized2SmMxf8f6f4Sm100, ep::TmaWarpSpecialized2Sm>;
#elif CONFIG == 14
using Chosen = Config<S100, Tensor_, cutlass::half_t, Column, Row, cutlass::half_t, Shape<_64, _128, _64>, Shape<_2, _2, _1>, ks::KernelTmaWarpSpecialized1SmSm100, ep::TmaWarpSpecialized1Sm>;
#elif CONFIG == 15
using Chosen = Config<S100, Tensor_, int8_t, Row, Column, int32_t, Shape<_128, _64, _128>, Shape<_1, _1, _1>, ks::KernelTmaWarpSpecialized1SmSm100, ep::TmaWarpSpecialized1Sm>;
#elif CONFIG == 16
using Chosen = Config<S100, Tensor_, cutlass::bfloat16_t, Row, Column, float, Shape<_128, _128, _64>, Shape<_1, _1, _1>, ks::KernelTmaWarpSpecialized1SmSm100, ep::TmaWarpSpecialized1Sm>;
#endif

#if CONFIG == 5 || CONFIG == 16
using Scheduler = cutlass::gemm::StreamKScheduler;
#else
using Scheduler = void;
#endif

using Element = typename Plain<Chosen::E>::Type;
using Acc = std::conditional_t<std::is_same_v<Chosen::E, int8_t>, int32_t, float>;
constexpr int OutAlign = 128 / sizeof_bits_v<Chosen::Out>, Align = 128 / sizeof_bits_v<Element>;
using Epilogue = typename ep::collective::CollectiveBuilder<Chosen::Arch, Chosen::Class, Chosen::Tile, Chosen::Cluster, ep::collective::EpilogueTileAuto, Acc, Acc, Chosen::Out, Row, OutAlign,
                                                            Chosen::Out, Row, OutAlign, Chosen::Epilogue>::CollectiveOp;
using Main = typename ks::collective::CollectiveBuilder<Chosen::Arch, Chosen::Class, Chosen::E, Chosen::A, Align, Chosen::E, Chosen::B, Align, Acc, Chosen::Tile, Chosen::Cluster,
                                                        ks::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>, Chosen::Schedule>::CollectiveOp;
using Kernel = ks::kernel::GemmUniversal<Shape<int, int, int, int>, Main, Epilogue, Scheduler>;
using Gemm = ks::device::GemmUniversalAdapter<Kernel>;

template <class T> T *marker(int number) { return reinterpret_cast<T *>(0x0ABC000000000000ull + (static_cast<unsigned long long>(number) << 40)); }

template <class Loop, class A, class SA, class SB> void fill(A &a, SA sa, SB sb, int m, int n, int k) {
  if constexpr (Chosen::Scaled) {
    using Scales = typename Loop::Sm1xxBlkScaledConfig;
    using Factor = typename Loop::ElementSF;
    auto la = Scales::tile_atom_to_shape_SFA(make_shape(m, n, k, 1)), lb = Scales::tile_atom_to_shape_SFB(make_shape(m, n, k, 1));
    a.mainloop = {marker<Element>(1), sa, marker<Element>(2), sb, marker<Factor>(5), la, marker<Factor>(6), lb};
  } else {
    a.mainloop = {marker<Element>(1), sa, marker<Element>(2), sb};
  }
}

int main(int count, char **words) {
  int m = atoi(words[1]), n = atoi(words[2]), k = atoi(words[3]);
  typename Gemm::Arguments a{};
  a.mode = ks::GemmUniversalMode::kGemm;
  a.problem_shape = {m, n, k, 1};
  auto sa = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1});
  auto sb = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1});
  auto sc = cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, 1});
  auto sd = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1});
  fill<typename Kernel::CollectiveMainloop>(a, sa, sb, m, n, k);
  a.epilogue = {{}, marker<Chosen::Out>(3), sc, marker<Chosen::Out>(4), sd};
  a.epilogue.thread.alpha = Acc(2);
  a.epilogue.thread.beta = Acc(1);
  a.hw_info.sm_count = 8;
  a.hw_info.max_active_clusters = 8;
  if constexpr (!std::is_void_v<Scheduler>) a.scheduler.decomposition_mode = std::decay_t<decltype(a.scheduler.decomposition_mode)>::StreamK;
  if (Gemm::can_implement(a) != cutlass::Status::kSuccess) return printf("refused\n"), 1;
  size_t workspace = Gemm::get_workspace_size(a);
  auto params = Kernel::to_underlying_arguments(a, workspace ? marker<void>(7) : nullptr);
  auto grid = Kernel::get_grid_shape(params), block = Kernel::get_block_shape();
  printf("grid %d %d %d\nblock %d\nshared %d\nworkspace %zu\n", grid.x, grid.y, grid.z, block.x, int(Kernel::SharedStorageSize), workspace);
  printf("cluster %d %d %d\nparams ", int(size<0>(Chosen::Cluster{})), int(size<1>(Chosen::Cluster{})), int(size<2>(Chosen::Cluster{})));
  for (size_t i = 0; i < sizeof(params); i++) printf("%02x", reinterpret_cast<unsigned char *>(&params)[i]);
  printf("\n");
  return reinterpret_cast<void *>(&cutlass::device_kernel<Kernel>) == nullptr;
}
