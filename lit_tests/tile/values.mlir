// Register tiles, scalars, integer indices and carried values print and parse back, in the short and the generic form.
// RUN: tkc-opt %s | tkc-opt | filecheck %s
// RUN: tkc-opt --print-op-generic %s | tkc-opt | filecheck %s

// CHECK: %last = tile.for_blocks %M, %wide {size = 128 : i32} : (i32, !tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>) do {
// CHECK-NEXT: ^bb0(%m: !tile.block<128, mul.cdiv.M.2.3>, %sum: !tile.regs<f32, [128, 64]>):
// CHECK-NEXT: %x = tile.get %p : (!tile.pipe_ring) -> (!tile.regs<f32, [128, 64]>) do {
// CHECK: tile.cast
// CHECK: tile.yield %{{.*}} : (!tile.regs<f32, [128, 64]>)
// CHECK: tile.map %x, %alpha {kind = "mul"} : (!tile.regs<f32, [128, 64]>, f32) -> (!tile.regs<f32, [128, 64]>)
// CHECK: tile.mask %w, %m, %c3 {rows = -1 : i32, columns = 0 : i32, fill = 0xff800000 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (!tile.regs<f32, [128, 64]>, !tile.block<128, mul.cdiv.M.2.3>, i32) -> (!tile.regs<f32, [128, 64]>)
// CHECK: tile.total %rows {kind = "min"} : (!tile.regs<f32, [128, 1]>) -> (f32)
// CHECK: tile.for_span %M, %c3, %M {size = 32 : i32, some} : (i32, i32, i32) do {
// CHECK-NEXT: ^bb0(%j: !tile.block<32, M>):
// CHECK: tile.slice %Z, %c3, %m, %c3 : (!tile.tensor<f32, [4, M, N]>, i32, !tile.block<128, mul.cdiv.M.2.3>, i32) -> (!tile.slice<f32, [128]>)

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["Z", "alpha"], params = {}, launch = {}} do {
  ^bb0(%Z: !tile.tensor<f32, [4, M, N]>, %alpha: f32):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %c3 = stage.const {constant = 3 : i32} : () -> (i32)
    %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<bf16, [128, 64], 2>)
    %p = tile.pipe %t {sym_name = "p", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [128, 64], 2>) -> (!tile.pipe_ring)
    tile.role {sym_name = "math", warps = 4 : i32, registers = 232 : i32} do {
      %first = tile.read %t : (!tile.shared<bf16, [128, 64], 2>) -> (!tile.regs<bf16, [128, 64]>)
      %wide = tile.cast %first : (!tile.regs<bf16, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
      %last = tile.for_blocks %M, %wide {size = 128 : i32} : (i32, !tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>) do {
      ^bb0(%m: !tile.block<128, mul.cdiv.M.2.3>, %sum: !tile.regs<f32, [128, 64]>):
        %x = tile.get %p : (!tile.pipe_ring) -> (!tile.regs<f32, [128, 64]>) do {
        ^bb0(%slot: !tile.shared<bf16, [128, 64], 2>):
          %narrow = tile.read %slot : (!tile.shared<bf16, [128, 64], 2>) -> (!tile.regs<bf16, [128, 64]>)
          %y = tile.cast %narrow : (!tile.regs<bf16, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
          tile.yield %y : (!tile.regs<f32, [128, 64]>)
        }
        %z = tile.map %x, %alpha {kind = "mul"} : (!tile.regs<f32, [128, 64]>, f32) -> (!tile.regs<f32, [128, 64]>)
        %w = tile.map %sum, %z {kind = "add"} : (!tile.regs<f32, [128, 64]>, !tile.regs<f32, [128, 64]>) -> (!tile.regs<f32, [128, 64]>)
        %masked = tile.mask %w, %m, %c3 {rows = -1 : i32, columns = 0 : i32, fill = 0xFF800000 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (!tile.regs<f32, [128, 64]>, !tile.block<128, mul.cdiv.M.2.3>, i32) -> (!tile.regs<f32, [128, 64]>)
        %rows = tile.fill %alpha : (f32) -> (!tile.regs<f32, [128, 1]>)
        %number = tile.total %rows {kind = "min"} : (!tile.regs<f32, [128, 1]>) -> (f32)
        tile.for_span %M, %c3, %M {size = 32 : i32, some} : (i32, i32, i32) do {
        ^bb0(%j: !tile.block<32, M>):
          tile.yield ()
        }
        %row = tile.slice %Z, %c3, %m, %c3 : (!tile.tensor<f32, [4, M, N]>, i32, !tile.block<128, mul.cdiv.M.2.3>, i32) -> (!tile.slice<f32, [128]>)
        tile.yield %w : (!tile.regs<f32, [128, 64]>)
      }
    }
  }
}
