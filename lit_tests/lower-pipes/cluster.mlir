// Rings that join the CTAs of a cluster: who writes into a slot waits until its readers in all CTAs are done.
// RUN: tkc-opt %s -p 'lower-pipes' | filecheck %s

// Multicast: the bytes that come are the CTA's own concern; eight warps in each of two CTAs free the slot for both.
// CHECK: {sym_name = "m.full", depth = 2 : i32, count = 1 : i32}
// CHECK: {sym_name = "m.empty", depth = 2 : i32, count = 16 : i32}
// Gather: the leader announces the bytes of both; its products free the slots of both.
// CHECK: {sym_name = "g.full", depth = 2 : i32, count = 1 : i32}
// CHECK: {sym_name = "g.empty", depth = 2 : i32, count = 1 : i32}
// Spread: one commit for both, and the readers of both free the leader's slot.
// CHECK: {sym_name = "s.full", depth = 1 : i32, count = 1 : i32}
// CHECK: {sym_name = "s.empty", depth = 1 : i32, count = 8 : i32}

// CHECK: sym_name = "load"
// CHECK: stage.mbarrier_expect %m_full, %{{.*}} {bytes = 8192 : i32
// CHECK: stage.tma_load {{.*}}%m_full {box = [64 : i32, 64 : i32], multicast = 0 : i32,
// CHECK: %[[RANK:.*]] = stage.unit {which = "rank"}
// CHECK: %[[LEADS:.*]] = stage.arith %[[RANK]], %{{.*}} {kind = "eq"}
// CHECK: stage.if %[[LEADS]]
// CHECK-NEXT: stage.mbarrier_expect %g_full, %{{.*}} {bytes = 16384 : i32
// CHECK: stage.tma_load {{.*}}%g_full {box = [64 : i32, 64 : i32], to = "leader",
// CHECK: sym_name = "wide"
// CHECK: stage.mbarrier_arrive %m_empty, %{{.*}} {by = "lane", id = "wide.m.release", to = "all"}
// CHECK: sym_name = "math"
// CHECK: %[[FIRST:.*]] = stage.arith %{{.*}}, %{{.*}} {kind = "eq"}
// CHECK: stage.if %[[FIRST]]
// CHECK: stage.tcgen05_commit %g_empty, %{{.*}} {id = "math.g.release", to = "pair"}
// CHECK: stage.tcgen05_commit %s_full, %{{.*}} {id = "math.s.commit", to = "pair"}
// CHECK: sym_name = "store"
// CHECK: stage.mbarrier_arrive %s_empty, %{{.*}} {by = "lane", id = "store.s.release", to = "leader", scope = "cluster"}

builtin.module {
  stage.kernel {sym_name = "k", arg_names = ["X"], contract = {}, cluster = 2 : i32, pair} do {
  ^bb0(%X: !tile.tensor<bf16, [64, 64]>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<bf16, [64, 64], 2, shared, "128B">)
    %u = stage.alloc {sym_name = "u"} : () -> (!stage.buffer<bf16, [64, 64], 2, shared, "128B">)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 64], 1, tensor, "none">)
    %m = stage.pipe %t {sym_name = "m", kind = "full_empty", depth = 2 : i32, producers = ["load"], consumers = ["wide"], across = "multicast"} : (!stage.buffer<bf16, [64, 64], 2, shared, "128B">) -> (!stage.ring)
    %g = stage.pipe %u {sym_name = "g", kind = "full_empty", depth = 2 : i32, producers = ["load"], consumers = ["math"], across = "gather"} : (!stage.buffer<bf16, [64, 64], 2, shared, "128B">) -> (!stage.ring)
    %s = stage.pipe %d {sym_name = "s", kind = "full_empty", depth = 1 : i32, producers = ["math"], consumers = ["store"], across = "spread"} : (!stage.buffer<f32, [128, 64], 1, tensor, "none">) -> (!stage.ring)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 12 : i32, groups = 1 : i32} do {
      %s1 = stage.acquire %m : (!stage.ring) -> (i32)
      stage.tma_load %X, %t, %s1, %zero, %zero {box = [64 : i32, 64 : i32], multicast = 0 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : (!tile.tensor<bf16, [64, 64]>, !stage.buffer<bf16, [64, 64], 2, shared, "128B">, i32, i32, i32)
      stage.commit %m, %s1 {how = ["tma"], bytes = 8192 : i32} : (!stage.ring, i32)
      %s2 = stage.acquire %g : (!stage.ring) -> (i32)
      stage.tma_load %X, %u, %s2, %zero, %zero {box = [64 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : (!tile.tensor<bf16, [64, 64]>, !stage.buffer<bf16, [64, 64], 2, shared, "128B">, i32, i32, i32)
      stage.commit %g, %s2 {how = ["tma"], bytes = 8192 : i32} : (!stage.ring, i32)
    }
    stage.role {sym_name = "wide", warps = 8 : i32, first_warp = 4 : i32, groups = 2 : i32} do {
      %s3 = stage.wait %m : (!stage.ring) -> (i32)
      stage.release %m, %s3 {how = ["wgmma"]} : (!stage.ring, i32)
    }
    stage.role {sym_name = "math", warps = 1 : i32, first_warp = 13 : i32, groups = 1 : i32, leads} do {
      %s4 = stage.acquire %s : (!stage.ring) -> (i32)
      %s5 = stage.wait %g : (!stage.ring) -> (i32)
      stage.release %g, %s5 {how = ["tcgen05"]} : (!stage.ring, i32)
      stage.commit %s, %s4 {how = ["tcgen05"], bytes = 0 : i32} : (!stage.ring, i32)
    }
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %s6 = stage.wait %s : (!stage.ring) -> (i32)
      stage.release %s, %s6 {how = ["tensor"]} : (!stage.ring, i32)
    }
  }
}
