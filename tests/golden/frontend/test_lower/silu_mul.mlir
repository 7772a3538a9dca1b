builtin.module {
  tile.kernel {sym_name = "silu_mul", arg_names = ["X", "Y", "Z"], params = {BM = 128 : i64, BN = 64 : i64, STAGES = 4 : i64}, launch = {persistent}} do {
  ^bb0(%X: !tile.tensor<bf16, [M, N]>, %Y: !tile.tensor<bf16, [M, N]>, %Z: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [128 : i32, 64 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
    %x = tile.shared {sym_name = "x"} : () -> (!tile.shared<bf16, [128, 64], 4>)
    %y = tile.shared {sym_name = "y"} : () -> (!tile.shared<bf16, [128, 64], 4>)
    %inputs = tile.pipe %x, %y {sym_name = "inputs", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [128, 64], 4>, !tile.shared<bf16, [128, 64], 4>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<128, M>, %n: !tile.block<64, N>):
        tile.put %inputs : (!tile.pipe_ring) do {
        ^bb0(%x_1: !tile.shared<bf16, [128, 64], 4>, %y_1: !tile.shared<bf16, [128, 64], 4>):
          %0 = tile.slice %X, %m, %n : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
          tile.copy %0, %x_1 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 4>)
          %1 = tile.slice %Y, %m, %n : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
          tile.copy %1, %y_1 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 4>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "math", warps = 4 : i32} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_1: !tile.block<128, M>, %n_1: !tile.block<64, N>):
        tile.get %inputs : (!tile.pipe_ring) do {
        ^bb0(%x_2: !tile.shared<bf16, [128, 64], 4>, %y_2: !tile.shared<bf16, [128, 64], 4>):
          %x_values = tile.read %x_2 : (!tile.shared<bf16, [128, 64], 4>) -> (!tile.regs<bf16, [128, 64]>)
          %2 = tile.cast %x_values : (!tile.regs<bf16, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
          %3 = tile.map %2 {kind = "neg"} : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
          %4 = tile.map %3 {kind = "exp"} : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
          %5 = stage.const {constant = 1.000000e+00 : f32} : () -> (f32)
          %6 = tile.map %4, %5 {kind = "add"} : (!tile.regs<f32, [128, 64]>, f32) -> (!tile.regs<f32, [128, 64]>)
          %7 = tile.map %6 {kind = "rcp"} : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
          %gate = tile.map %2, %7 {kind = "mul"} : (!tile.regs<f32, [128, 64]>, !tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
          %y_values = tile.read %y_2 : (!tile.shared<bf16, [128, 64], 4>) -> (!tile.regs<bf16, [128, 64]>)
          %8 = tile.cast %y_values : (!tile.regs<bf16, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
          %9 = tile.map %gate, %8 {kind = "mul"} : (!tile.regs<f32, [128, 64]>, !tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
          %10 = tile.cast %9 : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<bf16, [128, 64]>)
          %11 = tile.slice %Z, %m_1, %n_1 : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
          tile.copy %10, %11 : (!tile.regs<bf16, [128, 64]>, !tile.slice<bf16, [128, 64]>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
