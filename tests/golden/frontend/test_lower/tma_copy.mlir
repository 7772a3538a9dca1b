builtin.module {
  tile.kernel {sym_name = "tma_copy", arg_names = ["X", "Y"], params = {BM = 128 : i64, BN = 64 : i64, STAGES = 4 : i64}, launch = {persistent}} do {
  ^bb0(%X: !tile.tensor<bf16, [M, N]>, %Y: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [128 : i32, 64 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
    %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<bf16, [128, 64], 4>)
    %ring = tile.pipe %t {sym_name = "ring", producers = ["load"], consumers = ["store"]} : (!tile.shared<bf16, [128, 64], 4>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<128, M>, %n: !tile.block<64, N>):
        tile.put %ring : (!tile.pipe_ring) do {
        ^bb0(%t_1: !tile.shared<bf16, [128, 64], 4>):
          %0 = tile.slice %X, %m, %n : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
          tile.copy %0, %t_1 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 4>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "store"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_1: !tile.block<128, M>, %n_1: !tile.block<64, N>):
        tile.get %ring : (!tile.pipe_ring) do {
        ^bb0(%t_2: !tile.shared<bf16, [128, 64], 4>):
          %1 = tile.slice %Y, %m_1, %n_1 : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
          tile.copy %t_2, %1 : (!tile.shared<bf16, [128, 64], 4>, !tile.slice<bf16, [128, 64]>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
