builtin.module {
  tile.kernel {sym_name = "row_softmax", arg_names = ["X", "Y", "LSE"], params = {BM = 128 : i64, BN = 64 : i64, STAGES = 4 : i64}, launch = {persistent}} do {
  ^bb0(%X: !tile.tensor<bf16, [M, N]>, %Y: !tile.tensor<bf16, [M, N]>, %LSE: !tile.tensor<f32, [M]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %work = tile.schedule %M {sym_name = "work", sizes = [128 : i32], group = 1 : i32} : (i32) -> (!tile.work)
    %x = tile.shared {sym_name = "x"} : () -> (!tile.shared<bf16, [128, 64], 4>)
    %first = tile.pipe %x {sym_name = "first", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [128, 64], 4>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<128, M>):
        tile.for_blocks %N {size = 64 : i32} : (i32) do {
        ^bb0(%n: !tile.block<64, N>):
          tile.put %first : (!tile.pipe_ring) do {
          ^bb0(%x_1: !tile.shared<bf16, [128, 64], 4>):
            %0 = tile.slice %X, %m, %n : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
            tile.copy %0, %x_1 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 4>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.for_blocks %N {size = 64 : i32} : (i32) do {
        ^bb0(%n_1: !tile.block<64, N>):
          tile.put %first : (!tile.pipe_ring) do {
          ^bb0(%x_2: !tile.shared<bf16, [128, 64], 4>):
            %1 = tile.slice %X, %m, %n_1 : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
            tile.copy %1, %x_2 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 4>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "math", warps = 4 : i32} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m_1: !tile.block<128, M>):
        %top = stage.const {constant = 0xff800000 : f32} : () -> (f32)
        %total = stage.const {constant = 0.000000e+00 : f32} : () -> (f32)
        %top_1 = tile.fill %top : (f32) -> (!tile.regs<f32, [128, 1]>)
        %total_1 = tile.fill %total : (f32) -> (!tile.regs<f32, [128, 1]>)
        %total_2, %top_2 = tile.for_blocks %N, %total_1, %top_1 {size = 64 : i32} : (i32, !tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) do {
        ^bb0(%n_2: !tile.block<64, N>, %total_3: !tile.regs<f32, [128, 1]>, %top_3: !tile.regs<f32, [128, 1]>):
          %total_4, %top_4 = tile.get %first : (!tile.pipe_ring) -> (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) do {
          ^bb0(%x_3: !tile.shared<bf16, [128, 64], 4>):
            %x_values = tile.read %x_3 : (!tile.shared<bf16, [128, 64], 4>) -> (!tile.regs<bf16, [128, 64]>)
            %v = tile.cast %x_values : (!tile.regs<bf16, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
            %2 = tile.reduce %v, %n_2, %N {kind = "max", operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.regs<f32, [128, 64]>, !tile.block<64, N>, i32) -> (!tile.regs<f32, [128, 1]>)
            %new = tile.map %top_3, %2 {kind = "max"} : (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
            %base = tile.map %new {kind = "finite"} : (!tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
            %3 = tile.map %top_3, %base {kind = "sub"} : (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
            %4 = tile.map %3 {kind = "exp"} : (!tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
            %5 = tile.map %total_3, %4 {kind = "mul"} : (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
            %6 = tile.map %v, %base {kind = "sub"} : (!tile.regs<f32, [128, 64]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 64]>)
            %7 = tile.map %6 {kind = "exp"} : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
            %8 = tile.reduce %7, %n_2, %N {kind = "add", operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.regs<f32, [128, 64]>, !tile.block<64, N>, i32) -> (!tile.regs<f32, [128, 1]>)
            %total_5 = tile.map %5, %8 {kind = "add"} : (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
            tile.yield %total_5, %new : (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>)
          }
          tile.yield %total_4, %top_4 : (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>)
        }
        %9 = tile.map %total_2 {kind = "log"} : (!tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
        %10 = tile.map %top_2, %9 {kind = "add"} : (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
        %11 = tile.reshape %10 : (!tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128]>)
        %12 = tile.slice %LSE, %m_1 : (!tile.tensor<f32, [M]>, !tile.block<128, M>) -> (!tile.slice<f32, [128]>)
        tile.copy %11, %12 : (!tile.regs<f32, [128]>, !tile.slice<f32, [128]>)
        %13 = stage.const {constant = 1.000000e+00 : f32} : () -> (f32)
        %14 = stage.const {constant = 1.000000e+00 : f32} : () -> (f32)
        %15 = tile.map %total_2, %14 {kind = "max"} : (!tile.regs<f32, [128, 1]>, f32) -> (!tile.regs<f32, [128, 1]>)
        %scale = tile.map %13, %15 {kind = "div"} : (f32, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
        %base_1 = tile.map %top_2 {kind = "finite"} : (!tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
        tile.for_blocks %N {size = 64 : i32} : (i32) do {
        ^bb0(%n_3: !tile.block<64, N>):
          tile.get %first : (!tile.pipe_ring) do {
          ^bb0(%x_4: !tile.shared<bf16, [128, 64], 4>):
            %x_values_1 = tile.read %x_4 : (!tile.shared<bf16, [128, 64], 4>) -> (!tile.regs<bf16, [128, 64]>)
            %16 = tile.cast %x_values_1 : (!tile.regs<bf16, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
            %17 = tile.map %16, %base_1 {kind = "sub"} : (!tile.regs<f32, [128, 64]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 64]>)
            %18 = tile.map %17 {kind = "exp"} : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
            %19 = tile.map %18, %scale {kind = "mul"} : (!tile.regs<f32, [128, 64]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 64]>)
            %20 = tile.cast %19 : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<bf16, [128, 64]>)
            %21 = tile.slice %Y, %m_1, %n_3 : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
            tile.copy %20, %21 : (!tile.regs<bf16, [128, 64]>, !tile.slice<bf16, [128, 64]>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
