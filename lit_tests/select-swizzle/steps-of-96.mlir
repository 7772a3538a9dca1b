// Rows of 96 bytes in a product for which the target has steps of 48 get spans of 128 bytes that hold 96.
// RUN: tkc-opt %s -p 'select-swizzle' | filecheck %s

// CHECK: tile.shared {sym_name = "a"} : () -> (!tile.shared<e2m1, [128, 192], 3, ue4m3 / 16, "128B_of_96">)
// CHECK: tile.shared {sym_name = "b"} : () -> (!tile.shared<e2m1, [128, 192], 3, ue4m3 / 16, "128B_of_96">)

builtin.module attributes {tkc.target = "sm_103a"} {
  tile.kernel {sym_name = "gemm_nvfp4", arg_names = ["A", "B", "C", "alpha"], params = {BM = 128 : i64, BN = 128 : i64, BK = 192 : i64, STAGES = 3 : i64}, launch = {persistent}} do {
  ^bb0(%A: !tile.tensor<e2m1, [M, K], ue4m3 / 16>, %B: !tile.tensor<e2m1, [N, K], ue4m3 / 16>, %C: !tile.tensor<bf16, [M, N]>, %alpha: f32):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [128 : i32, 128 : i32], group = 8 : i32} : (i32, i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 128], 2>)
    %inputs = tile.pipe %a, %b {sym_name = "inputs", producers = ["load"], consumers = ["math"]} : (!tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>, !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>) -> (!tile.pipe_ring)
    %result = tile.pipe %d {sym_name = "result", producers = ["math"], consumers = ["store"]} : (!tile.accum<f32, [128, 128], 2>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<128, M>, %n: !tile.block<128, N>):
        tile.for_blocks %K {size = 192 : i32} : (i32) do {
        ^bb0(%k: !tile.block<192, K>):
          tile.put %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_1: !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>, %b_1: !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>):
            %0 = tile.slice %A, %m, %k : (!tile.tensor<e2m1, [M, K], ue4m3 / 16>, !tile.block<128, M>, !tile.block<192, K>) -> (!tile.slice<e2m1, [128, 192], ue4m3 / 16>)
            tile.copy %0, %a_1 : (!tile.slice<e2m1, [128, 192], ue4m3 / 16>, !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>)
            %1 = tile.slice %B, %n, %k : (!tile.tensor<e2m1, [N, K], ue4m3 / 16>, !tile.block<128, N>, !tile.block<192, K>) -> (!tile.slice<e2m1, [128, 192], ue4m3 / 16>)
            tile.copy %1, %b_1 : (!tile.slice<e2m1, [128, 192], ue4m3 / 16>, !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "math"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_1: !tile.block<128, M>, %n_1: !tile.block<128, N>):
        tile.put %result : (!tile.pipe_ring) do {
        ^bb0(%d_1: !tile.accum<f32, [128, 128], 2>):
          tile.zero %d_1 : (!tile.accum<f32, [128, 128], 2>)
          tile.for_blocks %K {size = 192 : i32} : (i32) do {
          ^bb0(%k_1: !tile.block<192, K>):
            tile.get %inputs : (!tile.pipe_ring) do {
            ^bb0(%a_2: !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>, %b_2: !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>):
              tile.mma %d_1, %a_2, %b_2 {trans_a = 0 : i32, trans_b = 1 : i32} : (!tile.accum<f32, [128, 128], 2>, !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>, !tile.shared<e2m1, [128, 192], 3, ue4m3 / 16>)
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
      ^bb0(%m_2: !tile.block<128, M>, %n_2: !tile.block<128, N>):
        tile.get %result : (!tile.pipe_ring) do {
        ^bb0(%d_2: !tile.accum<f32, [128, 128], 2>):
          %d_values = tile.read %d_2 : (!tile.accum<f32, [128, 128], 2>) -> (!tile.regs<f32, [128, 128]>)
          %2 = tile.map %d_values, %alpha {kind = "mul"} : (!tile.regs<f32, [128, 128]>, f32) -> (!tile.regs<f32, [128, 128]>)
          %3 = tile.cast %2 : (!tile.regs<f32, [128, 128]>) -> (!tile.regs<bf16, [128, 128]>)
          %4 = tile.slice %C, %m_2, %n_2 : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<128, N>) -> (!tile.slice<bf16, [128, 128]>)
          tile.copy %3, %4 : (!tile.regs<bf16, [128, 128]>, !tile.slice<bf16, [128, 128]>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
