// An accumulator that no matrix unit can hold is refused, with the shapes that are.
// RUN: not tkc-opt %s -p 'set-target{arch=sm_100a},select-swizzle,place-tiles' 2>&1 | filecheck %s

// CHECK: error: accumulator d has 100 rows; the target's matrix unit takes 64, 128 or a multiple of 128 [TK203]

builtin.module {
  tile.kernel {sym_name = "gemm", arg_names = ["A", "B", "C"], params = {BM = 100 : i64, BN = 256 : i64, BK = 64 : i64, STAGES = 4 : i64}, launch = {persistent}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [100 : i32, 256 : i32], group = 8 : i32} : (i32, i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [100, 64], 4>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [256, 64], 4>)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [100, 256], 2>)
    %inputs = tile.pipe %a, %b {sym_name = "inputs", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [100, 64], 4>, !tile.shared<bf16, [256, 64], 4>) -> (!tile.pipe_ring)
    %result = tile.pipe %d {sym_name = "result", producers = ["math"], consumers = ["store"]} : (!tile.accum<f32, [100, 256], 2>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<100, M>, %n: !tile.block<256, N>):
        tile.for_blocks %K {size = 64 : i32} : (i32) do {
        ^bb0(%k: !tile.block<64, K>):
          tile.put %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_1: !tile.shared<bf16, [100, 64], 4>, %b_1: !tile.shared<bf16, [256, 64], 4>):
            %0 = tile.slice %A, %m, %k : (!tile.tensor<bf16, [M, K]>, !tile.block<100, M>, !tile.block<64, K>) -> (!tile.slice<bf16, [100, 64]>)
            tile.copy %0, %a_1 : (!tile.slice<bf16, [100, 64]>, !tile.shared<bf16, [100, 64], 4>)
            %1 = tile.slice %B, %n, %k : (!tile.tensor<bf16, [N, K]>, !tile.block<256, N>, !tile.block<64, K>) -> (!tile.slice<bf16, [256, 64]>)
            tile.copy %1, %b_1 : (!tile.slice<bf16, [256, 64]>, !tile.shared<bf16, [256, 64], 4>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "math"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_1: !tile.block<100, M>, %n_1: !tile.block<256, N>):
        tile.put %result : (!tile.pipe_ring) do {
        ^bb0(%d_1: !tile.accum<f32, [100, 256], 2>):
          tile.zero %d_1 : (!tile.accum<f32, [100, 256], 2>)
          tile.for_blocks %K {size = 64 : i32} : (i32) do {
          ^bb0(%k_1: !tile.block<64, K>):
            tile.get %inputs : (!tile.pipe_ring) do {
            ^bb0(%a_2: !tile.shared<bf16, [100, 64], 4>, %b_2: !tile.shared<bf16, [256, 64], 4>):
              tile.mma %d_1, %a_2, %b_2 {trans_a = 0 : i32, trans_b = 1 : i32} : (!tile.accum<f32, [100, 256], 2>, !tile.shared<bf16, [100, 64], 4>, !tile.shared<bf16, [256, 64], 4>)
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
      ^bb0(%m_2: !tile.block<100, M>, %n_2: !tile.block<256, N>):
        tile.get %result : (!tile.pipe_ring) do {
        ^bb0(%d_2: !tile.accum<f32, [100, 256], 2>):
          %d_values = tile.read %d_2 : (!tile.accum<f32, [100, 256], 2>) -> (!tile.regs<f32, [100, 256]>)
          %2 = tile.cast %d_values : (!tile.regs<f32, [100, 256]>) -> (!tile.regs<bf16, [100, 256]>)
          %3 = tile.slice %C, %m_2, %n_2 : (!tile.tensor<bf16, [M, N]>, !tile.block<100, M>, !tile.block<256, N>) -> (!tile.slice<bf16, [100, 256]>)
          tile.copy %2, %3 : (!tile.regs<bf16, [100, 256]>, !tile.slice<bf16, [100, 256]>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
