// In a cluster of four an item is four blocks of M and one of N: each CTA has its share of the four, and bands of rows
// cover as much as they did. The copy of B is the same in all of them.
// RUN: tkc-opt %s -p 'split-over-cluster' | filecheck %s

// CHECK: tile.schedule %M, %N {sym_name = "work", sizes = [512 : i32, 64 : i32], group = 2 : i32, across = 0 : i32}
// CHECK: tile.role {sym_name = "load"}
// CHECK: ^bb0(%[[WHOLE:.*]]: !tile.block<512, M>, %n: !tile.block<64, N>):
// CHECK-NEXT: %m = tile.share %[[WHOLE]] : (!tile.block<512, M>) -> (!tile.block<128, M>)
// CHECK: tile.slice %A, %m, %k
// CHECK: tile.copy %{{.*}}, %b_1 {multicast}
// CHECK: tile.role {sym_name = "store"}
// CHECK: ^bb0(%{{.*}}: !tile.block<512, M>, %n_2: !tile.block<64, N>):
// CHECK-NEXT: tile.share %{{.*}} : (!tile.block<512, M>) -> (!tile.block<128, M>)

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "gemm", arg_names = ["A", "B", "C"], params = {}, launch = {persistent, cluster = 4 : i32}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [128 : i32, 64 : i32], group = 8 : i32, across = 0 : i32} : (i32, i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [128, 64], 2>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [64, 64], 2>)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 64], 1>)
    %inputs = tile.pipe %a, %b {sym_name = "inputs", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [128, 64], 2>, !tile.shared<bf16, [64, 64], 2>) -> (!tile.pipe_ring)
    %result = tile.pipe %d {sym_name = "result", producers = ["math"], consumers = ["store"]} : (!tile.accum<f32, [128, 64], 1>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<128, M>, %n: !tile.block<64, N>):
        tile.for_blocks %K {size = 64 : i32} : (i32) do {
        ^bb0(%k: !tile.block<64, K>):
          tile.put %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_1: !tile.shared<bf16, [128, 64], 2>, %b_1: !tile.shared<bf16, [64, 64], 2>):
            %0 = tile.slice %A, %m, %k : (!tile.tensor<bf16, [M, K]>, !tile.block<128, M>, !tile.block<64, K>) -> (!tile.slice<bf16, [128, 64]>)
            tile.copy %0, %a_1 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 2>)
            %1 = tile.slice %B, %n, %k : (!tile.tensor<bf16, [N, K]>, !tile.block<64, N>, !tile.block<64, K>) -> (!tile.slice<bf16, [64, 64]>)
            tile.copy %1, %b_1 {multicast} : (!tile.slice<bf16, [64, 64]>, !tile.shared<bf16, [64, 64], 2>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "math"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_1: !tile.block<128, M>, %n_1: !tile.block<64, N>):
        tile.put %result : (!tile.pipe_ring) do {
        ^bb0(%d_1: !tile.accum<f32, [128, 64], 1>):
          tile.zero %d_1 : (!tile.accum<f32, [128, 64], 1>)
          tile.for_blocks %K {size = 64 : i32} : (i32) do {
          ^bb0(%k_1: !tile.block<64, K>):
            tile.get %inputs : (!tile.pipe_ring) do {
            ^bb0(%a_2: !tile.shared<bf16, [128, 64], 2>, %b_2: !tile.shared<bf16, [64, 64], 2>):
              tile.mma %d_1, %a_2, %b_2 {trans_a = 0 : i32, trans_b = 1 : i32} : (!tile.accum<f32, [128, 64], 1>, !tile.shared<bf16, [128, 64], 2>, !tile.shared<bf16, [64, 64], 2>)
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
      ^bb0(%m_2: !tile.block<128, M>, %n_2: !tile.block<64, N>):
        tile.get %result : (!tile.pipe_ring) do {
        ^bb0(%d_2: !tile.accum<f32, [128, 64], 1>):
          %d_values = tile.read %d_2 : (!tile.accum<f32, [128, 64], 1>) -> (!tile.regs<f32, [128, 64]>)
          %2 = tile.cast %d_values : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<bf16, [128, 64]>)
          %3 = tile.slice %C, %m_2, %n_2 : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
          tile.copy %2, %3 : (!tile.regs<bf16, [128, 64]>, !tile.slice<bf16, [128, 64]>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
