// What a loop carries or a get hands on is made before the loop or the release; everything else where it is used.
// RUN: tkc-opt %s -p 'set-target{arch=sm_90a},place-tiles' | filecheck %s

// CHECK: stage.role {sym_name = "math", warps = 4 : i32
// CHECK: [[ZERO:%[0-9]+]] = stage.fill %{{.*}} -> (!stage.fragment<f32, [128, 1], rows>)
// CHECK: stage.for {{.*}}, [[ZERO]] :
// CHECK: stage.wait
// CHECK: [[VALID:%[0-9]+]] = stage.arith %N, %{{.*}} {kind = "sub"}
// CHECK: stage.load_shared
// CHECK: stage.reduce %{{.*}}, %{{.*}}, %{{.*}} {kind = "add"} : (!stage.fragment<f32, [128, 32], rows>, !stage.fragment<f32, [128, 1], rows>, i32)
// CHECK: stage.map {{.*}} {kind = "add"} : (!stage.fragment<f32, [128, 1], rows>, !stage.fragment<f32, [128, 1], rows>)
// CHECK-NEXT: stage.release
// CHECK: stage.store_global {{.*}} {axis = 0 : i32}

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["X", "Y"], params = {}, launch = {persistent}} do {
  ^bb0(%X: !tile.tensor<f32, [M, N]>, %Y: !tile.tensor<f32, [M]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %x = tile.shared {sym_name = "x"} : () -> (!tile.shared<f32, [128, 32], 2, "128B">)
    %p = tile.pipe %x {sym_name = "p", producers = ["load"], consumers = ["math"]} : (!tile.shared<f32, [128, 32], 2, "128B">) -> (!tile.pipe_ring)
    %w = tile.schedule %M {sym_name = "work", sizes = [128 : i32], group = 1 : i32} : (i32) -> (!tile.work)
    tile.role {sym_name = "math", warps = 4 : i32} do {
      tile.for_tiles %w : (!tile.work) do {
      ^bb0(%m: !tile.block<128, M>):
        %zero = stage.const {constant = 0.0 : f32} : () -> (f32)
        %none = tile.fill %zero : (f32) -> (!tile.regs<f32, [128, 1]>)
        %sum = tile.for_blocks %N, %none {size = 32 : i32} : (i32, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>) do {
        ^bb0(%n: !tile.block<32, N>, %before: !tile.regs<f32, [128, 1]>):
          %after = tile.get %p : (!tile.pipe_ring) -> (!tile.regs<f32, [128, 1]>) do {
          ^bb0(%s: !tile.shared<f32, [128, 32], 2, "128B">):
            %v = tile.read %s : (!tile.shared<f32, [128, 32], 2, "128B">) -> (!tile.regs<f32, [128, 32]>)
            %r = tile.reduce %v, %n, %N {kind = "add", operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.regs<f32, [128, 32]>, !tile.block<32, N>, i32) -> (!tile.regs<f32, [128, 1]>)
            %t = tile.map %before, %r {kind = "add"} : (!tile.regs<f32, [128, 1]>, !tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128, 1]>)
            tile.yield %t : (!tile.regs<f32, [128, 1]>)
          }
          tile.yield %after : (!tile.regs<f32, [128, 1]>)
        }
        %flat = tile.reshape %sum : (!tile.regs<f32, [128, 1]>) -> (!tile.regs<f32, [128]>)
        %y = tile.slice %Y, %m : (!tile.tensor<f32, [M]>, !tile.block<128, M>) -> (!tile.slice<f32, [128]>)
        tile.copy %flat, %y : (!tile.regs<f32, [128]>, !tile.slice<f32, [128]>)
        tile.yield ()
      }
    }
  }
}
