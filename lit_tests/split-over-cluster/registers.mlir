// A pair where accumulators are in registers: each CTA has half of the rows of a, d and the residual, and all of b, which
// both load a part of for both. Half of a column that is loaded belongs to half of the rows.
// RUN: tkc-opt %s -p 'split-over-cluster' | filecheck %s

// CHECK: launch = {persistent, cluster = 2 : i32}
// CHECK: sizes = [256 : i32, 128 : i32]
// CHECK: !tile.shared<bf16, [128, 64], 2>
// CHECK: {sym_name = "b"} : () -> (!tile.shared<bf16, [128, 64], 2>)
// CHECK: {sym_name = "r"} : () -> (!tile.shared<bf16, [128, 128], 1>)
// CHECK: {sym_name = "d"} : () -> (!tile.accum<f32, [128, 128], 1>)
// CHECK: tile.put %inputs
// CHECK: %[[M:.*]] = tile.share %m : (!tile.block<256, M>) -> (!tile.block<128, M>)
// CHECK-NEXT: tile.slice %A, %[[M]], %k
// CHECK: tile.slice %B, %n, %k
// CHECK-NEXT: tile.copy %{{.*}}, %b_1 {multicast}
// CHECK: tile.mma
// CHECK-NOT: pair
// CHECK: tile.slice %bias, %{{.*}} : (!tile.tensor<f32, [M]>, !tile.block<128, M>) -> (!tile.slice<f32, [128]>)
// CHECK: tile.slice %C, %{{.*}} : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<128, N>)

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "k", arg_names = ["A", "B", "R", "bias", "C"], params = {}, launch = {persistent, pair}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %R: !tile.tensor<bf16, [M, N]>, %bias: !tile.tensor<f32, [M]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [256 : i32, 128 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [256, 64], 2>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [128, 64], 2>)
    %r = tile.shared {sym_name = "r"} : () -> (!tile.shared<bf16, [256, 128], 1>)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [256, 128], 1>)
    %inputs = tile.pipe %a, %b {sym_name = "inputs", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [256, 64], 2>, !tile.shared<bf16, [128, 64], 2>) -> (!tile.pipe_ring)
    %result = tile.pipe %d {sym_name = "result", producers = ["math"], consumers = ["store"]} : (!tile.accum<f32, [256, 128], 1>) -> (!tile.pipe_ring)
    %residual = tile.pipe %r {sym_name = "residual", producers = ["load"], consumers = ["store"]} : (!tile.shared<bf16, [256, 128], 1>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<256, M>, %n: !tile.block<128, N>):
        tile.put %residual : (!tile.pipe_ring) do {
        ^bb0(%r_1: !tile.shared<bf16, [256, 128], 1>):
          %0 = tile.slice %R, %m, %n : (!tile.tensor<bf16, [M, N]>, !tile.block<256, M>, !tile.block<128, N>) -> (!tile.slice<bf16, [256, 128]>)
          tile.copy %0, %r_1 : (!tile.slice<bf16, [256, 128]>, !tile.shared<bf16, [256, 128], 1>)
          tile.yield ()
        }
        tile.for_blocks %K {size = 64 : i32} : (i32) do {
        ^bb0(%k: !tile.block<64, K>):
          tile.put %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_1: !tile.shared<bf16, [256, 64], 2>, %b_1: !tile.shared<bf16, [128, 64], 2>):
            %1 = tile.slice %A, %m, %k : (!tile.tensor<bf16, [M, K]>, !tile.block<256, M>, !tile.block<64, K>) -> (!tile.slice<bf16, [256, 64]>)
            tile.copy %1, %a_1 : (!tile.slice<bf16, [256, 64]>, !tile.shared<bf16, [256, 64], 2>)
            %2 = tile.slice %B, %n, %k : (!tile.tensor<bf16, [N, K]>, !tile.block<128, N>, !tile.block<64, K>) -> (!tile.slice<bf16, [128, 64]>)
            tile.copy %2, %b_1 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 2>)
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
        ^bb0(%d_1: !tile.accum<f32, [256, 128], 1>):
          tile.zero %d_1 : (!tile.accum<f32, [256, 128], 1>)
          tile.for_blocks %K {size = 64 : i32} : (i32) do {
          ^bb0(%k_1: !tile.block<64, K>):
            tile.get %inputs : (!tile.pipe_ring) do {
            ^bb0(%a_2: !tile.shared<bf16, [256, 64], 2>, %b_2: !tile.shared<bf16, [128, 64], 2>):
              tile.mma %d_1, %a_2, %b_2 {trans_a = 0 : i32, trans_b = 1 : i32} : (!tile.accum<f32, [256, 128], 1>, !tile.shared<bf16, [256, 64], 2>, !tile.shared<bf16, [128, 64], 2>)
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
        tile.get %residual : (!tile.pipe_ring) do {
        ^bb0(%r_2: !tile.shared<bf16, [256, 128], 1>):
          tile.get %result : (!tile.pipe_ring) do {
          ^bb0(%d_2: !tile.accum<f32, [256, 128], 1>):
            %d_values = tile.read %d_2 : (!tile.accum<f32, [256, 128], 1>) -> (!tile.regs<f32, [256, 128]>)
            %r_values = tile.read %r_2 : (!tile.shared<bf16, [256, 128], 1>) -> (!tile.regs<bf16, [256, 128]>)
            %3 = tile.cast %r_values : (!tile.regs<bf16, [256, 128]>) -> (!tile.regs<f32, [256, 128]>)
            %4 = tile.map %d_values, %3 {kind = "add"} : (!tile.regs<f32, [256, 128]>, !tile.regs<f32, [256, 128]>) -> (!tile.regs<f32, [256, 128]>)
            %5 = tile.slice %bias, %m_2 : (!tile.tensor<f32, [M]>, !tile.block<256, M>) -> (!tile.slice<f32, [256]>)
            %6 = tile.load %5 : (!tile.slice<f32, [256]>) -> (!tile.regs<f32, [256]>)
            %7 = tile.reshape %6 : (!tile.regs<f32, [256]>) -> (!tile.regs<f32, [256, 1]>)
            %8 = tile.map %4, %7 {kind = "add"} : (!tile.regs<f32, [256, 128]>, !tile.regs<f32, [256, 1]>) -> (!tile.regs<f32, [256, 128]>)
            %9 = tile.cast %8 : (!tile.regs<f32, [256, 128]>) -> (!tile.regs<bf16, [256, 128]>)
            %10 = tile.slice %C, %m_2, %n_2 : (!tile.tensor<bf16, [M, N]>, !tile.block<256, M>, !tile.block<128, N>) -> (!tile.slice<bf16, [256, 128]>)
            tile.copy %9, %10 : (!tile.regs<bf16, [256, 128]>, !tile.slice<bf16, [256, 128]>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
