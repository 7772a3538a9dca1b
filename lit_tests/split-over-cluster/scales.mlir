// In a pair each CTA has half of the rows of A, of its scales and of B, and all scales of B; copies and products are of both CTAs.
// RUN: tkc-opt %s -p 'split-over-cluster' | filecheck %s

// CHECK: tile.shared {sym_name = "a"} : () -> (!tile.shared<e2m1, [128, 256], 2, ue4m3 / 16>)
// CHECK: tile.shared {sym_name = "b"} : () -> (!tile.shared<e2m1, [128, 256], 2, ue4m3 / 16 of 256>)
// CHECK: tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 256], 2>)
// CHECK: tile.accum {sym_name = "sa"} : () -> (!tile.accum<ue4m3, [128, 16], 2>)
// CHECK: tile.accum {sym_name = "sb"} : () -> (!tile.accum<ue4m3, [256, 16], 2>)
// CHECK: tile.share
// CHECK: tile.copy_scales {{.*}}{pair}
// CHECK: tile.copy_scales {{.*}}{pair}
// CHECK: tile.scaled_mma {{.*}}{pair}

builtin.module attributes {tkc.target = "sm_100a"} {
  tile.kernel {sym_name = "gemm_nvfp4_slow", arg_names = ["A", "B", "C", "alpha"], params = {BM = 256 : i64, BN = 256 : i64, BK = 256 : i64, STAGES = 2 : i64}, launch = {persistent, pair}} do {
  ^bb0(%A: !tile.tensor<e2m1, [M, K], ue4m3 / 16>, %B: !tile.tensor<e2m1, [N, K], ue4m3 / 16>, %C: !tile.tensor<bf16, [M, N]>, %alpha: f32):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [256 : i32, 256 : i32], group = 8 : i32} : (i32, i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [256, 256], 2>)
    %sa = tile.accum {sym_name = "sa"} : () -> (!tile.accum<ue4m3, [256, 16], 2>)
    %sb = tile.accum {sym_name = "sb"} : () -> (!tile.accum<ue4m3, [256, 16], 2>)
    %inputs = tile.pipe %a, %b {sym_name = "inputs", producers = ["load"], consumers = ["move", "math"]} : (!tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>) -> (!tile.pipe_ring)
    %factors = tile.pipe %sa, %sb {sym_name = "factors", producers = ["move"], consumers = ["math"]} : (!tile.accum<ue4m3, [256, 16], 2>, !tile.accum<ue4m3, [256, 16], 2>) -> (!tile.pipe_ring)
    %result = tile.pipe %d {sym_name = "result", producers = ["math"], consumers = ["store"]} : (!tile.accum<f32, [256, 256], 2>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<256, M>, %n: !tile.block<256, N>):
        tile.for_blocks %K {size = 256 : i32} : (i32) do {
        ^bb0(%k: !tile.block<256, K>):
          tile.put %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_1: !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, %b_1: !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>):
            %0 = tile.slice %A, %m, %k : (!tile.tensor<e2m1, [M, K], ue4m3 / 16>, !tile.block<256, M>, !tile.block<256, K>) -> (!tile.slice<e2m1, [256, 256], ue4m3 / 16>)
            tile.copy %0, %a_1 : (!tile.slice<e2m1, [256, 256], ue4m3 / 16>, !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>)
            %1 = tile.slice %B, %n, %k : (!tile.tensor<e2m1, [N, K], ue4m3 / 16>, !tile.block<256, N>, !tile.block<256, K>) -> (!tile.slice<e2m1, [256, 256], ue4m3 / 16>)
            tile.copy %1, %b_1 : (!tile.slice<e2m1, [256, 256], ue4m3 / 16>, !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "move"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_1: !tile.block<256, M>, %n_1: !tile.block<256, N>):
        tile.for_blocks %K {size = 256 : i32} : (i32) do {
        ^bb0(%k_1: !tile.block<256, K>):
          tile.get %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_2: !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, %b_2: !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>):
            tile.put %factors : (!tile.pipe_ring) do {
            ^bb0(%sa_1: !tile.accum<ue4m3, [256, 16], 2>, %sb_1: !tile.accum<ue4m3, [256, 16], 2>):
              tile.copy_scales %a_2, %sa_1 : (!tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, !tile.accum<ue4m3, [256, 16], 2>)
              tile.copy_scales %b_2, %sb_1 : (!tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, !tile.accum<ue4m3, [256, 16], 2>)
              tile.yield ()
            }
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "math"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_2: !tile.block<256, M>, %n_2: !tile.block<256, N>):
        tile.put %result : (!tile.pipe_ring) do {
        ^bb0(%d_1: !tile.accum<f32, [256, 256], 2>):
          tile.zero %d_1 : (!tile.accum<f32, [256, 256], 2>)
          tile.for_blocks %K {size = 256 : i32} : (i32) do {
          ^bb0(%k_2: !tile.block<256, K>):
            tile.get %inputs, %factors : (!tile.pipe_ring, !tile.pipe_ring) do {
            ^bb0(%a_3: !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, %b_3: !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, %sa_2: !tile.accum<ue4m3, [256, 16], 2>, %sb_2: !tile.accum<ue4m3, [256, 16], 2>):
              tile.scaled_mma %d_1, %a_3, %sa_2, %b_3, %sb_2 : (!tile.accum<f32, [256, 256], 2>, !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, !tile.accum<ue4m3, [256, 16], 2>, !tile.shared<e2m1, [256, 256], 2, ue4m3 / 16>, !tile.accum<ue4m3, [256, 16], 2>)
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
      ^bb0(%m_3: !tile.block<256, M>, %n_3: !tile.block<256, N>):
        tile.get %result : (!tile.pipe_ring) do {
        ^bb0(%d_2: !tile.accum<f32, [256, 256], 2>):
          %d_values = tile.read %d_2 : (!tile.accum<f32, [256, 256], 2>) -> (!tile.regs<f32, [256, 256]>)
          %2 = tile.map %d_values, %alpha {kind = "mul"} : (!tile.regs<f32, [256, 256]>, f32) -> (!tile.regs<f32, [256, 256]>)
          %3 = tile.cast %2 : (!tile.regs<f32, [256, 256]>) -> (!tile.regs<bf16, [256, 256]>)
          %4 = tile.slice %C, %m_3, %n_3 : (!tile.tensor<bf16, [M, N]>, !tile.block<256, M>, !tile.block<256, N>) -> (!tile.slice<bf16, [256, 256]>)
          tile.copy %3, %4 : (!tile.regs<bf16, [256, 256]>, !tile.slice<bf16, [256, 256]>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
