// In a cluster of pairs an item is the cluster's: a pair has its part of one axis, and each CTA half of what is its pair's.
// RUN: tkc-opt %s -p 'split-over-cluster' | filecheck %s

// CHECK: launch = {persistent, pair, cluster = 4 : i32}
// CHECK: tile.schedule {{.*}}sizes = [512 : i32, 128 : i32]
// CHECK: sym_name = "load"
// CHECK: ^bb0(%[[WHOLE:.*]]: !tile.block<512, M>, %n: !tile.block<128, N>):
// CHECK-NEXT: %m = tile.share %[[WHOLE]] {of = "pair"} : (!tile.block<512, M>) -> (!tile.block<256, M>)
// CHECK: %[[ROWS:.*]] = tile.share %m {of = "half"} : (!tile.block<256, M>) -> (!tile.block<128, M>)
// CHECK: tile.slice %A, %[[ROWS]]
// CHECK: %[[COLUMNS:.*]] = tile.share %n {of = "half"} : (!tile.block<128, N>) -> (!tile.block<64, N>)
// CHECK: tile.slice %B, %[[COLUMNS]]
// CHECK: tile.copy {{.*}}multicast

builtin.module attributes {tkc.target = "sm_100a"} {
  tile.kernel {sym_name = "gemm_2cta", arg_names = ["A", "B", "C"], params = {BM = 256 : i64, BN = 128 : i64, BK = 64 : i64, STAGES = 2 : i64, CTAS = 4 : i64}, launch = {persistent, pair, cluster = 4 : i32}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [256 : i32, 128 : i32], group = 4 : i32, across = 0 : i32} : (i32, i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [256, 64], 2>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [128, 64], 2>)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [256, 128], 2>)
    %inputs = tile.pipe %a, %b {sym_name = "inputs", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [256, 64], 2>, !tile.shared<bf16, [128, 64], 2>) -> (!tile.pipe_ring)
    %result = tile.pipe %d {sym_name = "result", producers = ["math"], consumers = ["store"]} : (!tile.accum<f32, [256, 128], 2>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<256, M>, %n: !tile.block<128, N>):
        tile.for_blocks %K {size = 64 : i32} : (i32) do {
        ^bb0(%k: !tile.block<64, K>):
          tile.put %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_1: !tile.shared<bf16, [256, 64], 2>, %b_1: !tile.shared<bf16, [128, 64], 2>):
            %0 = tile.slice %A, %m, %k : (!tile.tensor<bf16, [M, K]>, !tile.block<256, M>, !tile.block<64, K>) -> (!tile.slice<bf16, [256, 64]>)
            tile.copy %0, %a_1 : (!tile.slice<bf16, [256, 64]>, !tile.shared<bf16, [256, 64], 2>)
            %1 = tile.slice %B, %n, %k : (!tile.tensor<bf16, [N, K]>, !tile.block<128, N>, !tile.block<64, K>) -> (!tile.slice<bf16, [128, 64]>)
            tile.copy %1, %b_1 {multicast} : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 2>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "math"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_1: !tile.block<256, M>, %n_1: !tile.block<128, N>):
        tile.put %result : (!tile.pipe_ring) do {
        ^bb0(%d_1: !tile.accum<f32, [256, 128], 2>):
          tile.zero %d_1 : (!tile.accum<f32, [256, 128], 2>)
          tile.for_blocks %K {size = 64 : i32} : (i32) do {
          ^bb0(%k_1: !tile.block<64, K>):
            tile.get %inputs : (!tile.pipe_ring) do {
            ^bb0(%a_2: !tile.shared<bf16, [256, 64], 2>, %b_2: !tile.shared<bf16, [128, 64], 2>):
              tile.mma %d_1, %a_2, %b_2 {trans_a = 0 : i32, trans_b = 1 : i32} : (!tile.accum<f32, [256, 128], 2>, !tile.shared<bf16, [256, 64], 2>, !tile.shared<bf16, [128, 64], 2>)
              tile.yield ()
            }
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "store"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_2: !tile.block<256, M>, %n_2: !tile.block<128, N>):
        tile.get %result : (!tile.pipe_ring) do {
        ^bb0(%d_2: !tile.accum<f32, [256, 128], 2>):
          %d_values = tile.read %d_2 : (!tile.accum<f32, [256, 128], 2>) -> (!tile.regs<f32, [256, 128]>)
          %2 = tile.cast %d_values : (!tile.regs<f32, [256, 128]>) -> (!tile.regs<bf16, [256, 128]>)
          %3 = tile.slice %C, %m_2, %n_2 : (!tile.tensor<bf16, [M, N]>, !tile.block<256, M>, !tile.block<128, N>) -> (!tile.slice<bf16, [256, 128]>)
          tile.copy %2, %3 : (!tile.regs<bf16, [256, 128]>, !tile.slice<bf16, [256, 128]>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
