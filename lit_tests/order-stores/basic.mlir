// What is added to a place waits until what was stored there is complete; the next block of columns is another place,
// and nothing waits for it.
// RUN: tkc-opt %s -p 'order-stores' | filecheck %s

// CHECK: sym_name = "math"
// CHECK: tile.for_blocks
// CHECK-NEXT: ^bb
// CHECK-NEXT: tile.get
// CHECK: tile.copy %{{.*}}, %{{.*}} : (!tile.shared
// CHECK: stage.bulk_wait {pending = 0 : i32, id = "math.stored"}
// CHECK-NEXT: stage.role_barrier {id = "math.settled", whole}
// CHECK-NEXT: tile.copy %{{.*}}, %{{.*}} {add}
// CHECK-NOT: stage.bulk_wait

builtin.module attributes {tkc.target = "sm_100a"} {
  tile.kernel {sym_name = "sums", arg_names = ["X", "Y"], params = {}, launch = {persistent}} do {
  ^bb0(%X: !tile.tensor<f32, [M, N]>, %Y: !tile.tensor<f32, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %work = tile.schedule %M {sym_name = "work", sizes = [128 : i32], group = 1 : i32} : (i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<f32, [128, 32], 2>)
    %inputs = tile.pipe %a {sym_name = "inputs", producers = ["load"], consumers = ["math"]} : (!tile.shared<f32, [128, 32], 2>) -> (!tile.pipe_ring)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%m: !tile.block<128, M>):
        tile.for_blocks %N {size = 32 : i32} : (i32) do {
        ^bb0(%k: !tile.block<32, N>):
          tile.put %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_1: !tile.shared<f32, [128, 32], 2>):
            %0 = tile.slice %X, %m, %k : (!tile.tensor<f32, [M, N]>, !tile.block<128, M>, !tile.block<32, N>) -> (!tile.slice<f32, [128, 32]>)
            tile.copy %0, %a_1 : (!tile.slice<f32, [128, 32]>, !tile.shared<f32, [128, 32], 2>)
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
        tile.for_blocks %N {size = 32 : i32} : (i32) do {
        ^bb0(%k_1: !tile.block<32, N>):
          tile.get %inputs : (!tile.pipe_ring) do {
          ^bb0(%a_2: !tile.shared<f32, [128, 32], 2>):
            %1 = tile.slice %Y, %m_1, %k_1 : (!tile.tensor<f32, [M, N]>, !tile.block<128, M>, !tile.block<32, N>) -> (!tile.slice<f32, [128, 32]>)
            tile.copy %a_2, %1 : (!tile.shared<f32, [128, 32], 2>, !tile.slice<f32, [128, 32]>)
            %a_values = tile.read %a_2 : (!tile.shared<f32, [128, 32], 2>) -> (!tile.regs<f32, [128, 32]>)
            %2 = stage.const {constant = 2.000000e+00 : f32} : () -> (f32)
            %3 = tile.map %a_values, %2 {kind = "mul"} : (!tile.regs<f32, [128, 32]>, f32) -> (!tile.regs<f32, [128, 32]>)
            %4 = tile.slice %Y, %m_1, %k_1 : (!tile.tensor<f32, [M, N]>, !tile.block<128, M>, !tile.block<32, N>) -> (!tile.slice<f32, [128, 32]>)
            tile.copy %3, %4 {add} : (!tile.regs<f32, [128, 32]>, !tile.slice<f32, [128, 32]>)
            tile.yield ()
          }
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}