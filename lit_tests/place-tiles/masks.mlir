// A mask's limit counts from the first element of the piece at hand; a loop over a span takes its ends as they are.
// RUN: tkc-opt %s -p 'set-target{arch=sm_90a},place-tiles' | filecheck %s

// CHECK: stage.role {sym_name = "math", warps = 4 : i32
// CHECK: stage.for %first, %last, %{{.*}} do {
// CHECK-NEXT: ^bb0(%j: i32):
// CHECK: %[[COLUMN:.*]] = stage.arith %j, %{{.*}} {kind = "mul"}
// CHECK: %[[ROW:.*]] = stage.arith %m, %{{.*}} {kind = "mul"}
// CHECK: stage.mask %{{.*}}, %{{.*}} {rows = -1 : i32, columns = 1 : i32, fill = 0.000000e+00 : f32} : (!stage.fragment<f32, [128, 32], rows>, i32)
// CHECK: stage.release

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["X", "Y"], params = {}, launch = {persistent}} do {
  ^bb0(%X: !tile.tensor<f32, [M, N]>, %Y: !tile.tensor<f32, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %x = tile.shared {sym_name = "x"} : () -> (!tile.shared<f32, [128, 32], 2, "128B">)
    %p = tile.pipe %x {sym_name = "p", producers = ["load"], consumers = ["math"]} : (!tile.shared<f32, [128, 32], 2, "128B">) -> (!tile.pipe_ring)
    %w = tile.schedule %M {sym_name = "work", sizes = [128 : i32], group = 1 : i32} : (i32) -> (!tile.work)
    tile.role {sym_name = "math", warps = 4 : i32} do {
      tile.for_tiles %w : (!tile.work) do {
      ^bb0(%m: !tile.block<128, M>):
        %first = stage.const {constant = 2 : i32} : () -> (i32)
        %last = stage.const {constant = 5 : i32} : () -> (i32)
        %one = stage.const {constant = 1 : i32} : () -> (i32)
        tile.for_span %N, %first, %last {size = 32 : i32} : (i32, i32, i32) do {
        ^bb0(%j: !tile.block<32, N>):
          tile.get %p : (!tile.pipe_ring) do {
          ^bb0(%s: !tile.shared<f32, [128, 32], 2, "128B">):
            %v = tile.read %s : (!tile.shared<f32, [128, 32], 2, "128B">) -> (!tile.regs<f32, [128, 32]>)
            %u = tile.mask %v, %m, %j, %one {rows = -1 : i32, columns = 1 : i32, fill = 0.0 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (!tile.regs<f32, [128, 32]>, !tile.block<128, M>, !tile.block<32, N>, i32) -> (!tile.regs<f32, [128, 32]>)
            %y = tile.slice %Y, %m, %j : (!tile.tensor<f32, [M, N]>, !tile.block<128, M>, !tile.block<32, N>) -> (!tile.slice<f32, [128, 32]>)
            tile.copy %u, %y : (!tile.regs<f32, [128, 32]>, !tile.slice<f32, [128, 32]>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
