// Between the CTAs of a cluster: barriers by rank, masks, the cluster's barrier, the order of grids.
// RUN: tkc-opt %s -p 'place-tiles,fuse-roles,lower-schedules,lower-pipes,insert-fences,elect-single-thread,assign-shared,assign-tensor-memory,assign-registers,lower-stage-to-ptx,name-registers' -t ptx | filecheck %s

// CHECK: .reqnctapercluster 2, 1, 1
// CHECK: mov.u32 %[[RANK:r[0-9]+]], %cluster_ctarank;
// CHECK: griddepcontrol.wait;
// CHECK: mapa.shared::cluster.u32 %[[THERE:r[0-9]+]], %{{r[0-9]+}}, %[[RANK]];
// CHECK-NEXT: mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%[[THERE]]], 16384;
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%{{r[0-9]+}}], [%{{rd[0-9]+}}, {%{{r[0-9]+}}, %{{r[0-9]+}}}], [%{{r[0-9]+}}+{{[0-9]+}}], 3, {{[0-9]+}};
// CHECK: mapa.shared::cluster.u32 %[[LEADER:r[0-9]+]], %{{r[0-9]+}}, 0;
// CHECK: cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 [%{{r[0-9]+}}], [%{{rd[0-9]+}}, {%{{r[0-9]+}}, %{{r[0-9]+}}}], [%[[LEADER]]];
// CHECK: mapa.shared::cluster.u32 %[[TILE:r[0-9]+]], %{{r[0-9]+}}, %[[RANK]];
// CHECK: mapa.shared::cluster.u32 %[[BAR:r[0-9]+]], %{{r[0-9]+}}, %[[RANK]];
// CHECK-NEXT: cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%[[TILE]]], [%{{r[0-9]+}}], 16384, [%[[BAR]]];
// CHECK: cp.async.bulk.prefetch.tensor.2d.L2.global [%{{rd[0-9]+}}, {%{{r[0-9]+}}, %{{r[0-9]+}}}];
// CHECK: mov.b16 %[[BOTH:h[0-9]+]], 3;
// CHECK-NEXT: tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%{{r[0-9]+}}+{{[0-9]+}}], %[[BOTH]];
// CHECK: mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%{{r[0-9]+}}], 2;
// CHECK: barrier.cluster.arrive.relaxed;
// CHECK: barrier.cluster.wait.acquire;
// CHECK: fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
// CHECK: fence.proxy.alias;
// CHECK: barrier.cta.arrive 4, 64;
// CHECK: griddepcontrol.launch_dependents;

builtin.module attributes {tkc.target = "sm_100a"} {
  tile.kernel {sym_name = "k", arg_names = ["A"], params = {}, launch = {persistent, cluster = 2 : i32, dependent}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %both = stage.const {constant = 3 : i32} : () -> (i32)
    %M = stage.size {symbol = "M"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [128, 64], 1, "128B">)
    %full = stage.barriers {sym_name = "full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    tile.role {sym_name = "one", warps = 1 : i32} do {
      %rank = stage.unit {which = "rank"} : () -> (i32)
      stage.grid_wait {by = "all", id = "g"}
      tile.for_blocks %K {size = 64 : i32} : (i32) do {
      ^bb0(%k: !tile.block<64, K>):
        tile.for_blocks %M {size = 128 : i32} : (i32) do {
        ^bb0(%b: !tile.block<128, M>):
          %from = tile.slice %A, %b, %k : (!tile.tensor<bf16, [M, K]>, !tile.block<128, M>, !tile.block<64, K>) -> (!tile.slice<bf16, [128, 64]>)
          %as = tile.slot %a, %zero : (!tile.shared<bf16, [128, 64], 1, "128B">, i32) -> (!tile.shared<bf16, [128, 64], 1, "128B">)
          stage.mbarrier_expect %full, %zero, %rank {bytes = 16384 : i32, by = "one", id = "e"} : (!stage.mbarriers, i32, i32)
          tile.tma_load %from, %as, %full, %zero, %both {hint = "evict_last", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0>} : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 1, "128B">, !stage.mbarriers, i32, i32)
          tile.tma_load %from, %as, %full, %zero, %zero {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1>} : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 1, "128B">, !stage.mbarriers, i32, i32)
          tile.cluster_copy %as, %as, %full, %zero, %rank : (!tile.shared<bf16, [128, 64], 1, "128B">, !tile.shared<bf16, [128, 64], 1, "128B">, !stage.mbarriers, i32, i32)
          tile.tma_prefetch %from : (!tile.slice<bf16, [128, 64]>)
          tile.yield ()
        }
        tile.yield ()
      }
      stage.tcgen05_commit %full, %zero, %both {id = "c"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %full, %zero, %rank {by = "all", id = "a", count = 2 : i32, sem = "relaxed", scope = "cluster"} : (!stage.mbarriers, i32, i32)
      stage.cluster_barrier {does = "arrive", sem = "relaxed", id = "x"}
      stage.cluster_barrier {does = "wait", id = "y"}
      stage.proxy_fence {space = "acquire", guards = [], id = "p", by = "all"}
      stage.fence {sem = "proxy", scope = "alias", id = "q"}
      stage.named_barrier {number = 4 : i32, threads = 64 : i32, arrives, id = "n"}
      stage.grid_launch {by = "all", id = "l"}
    }
  }
}
