// What stands before and after the loops keeps its order, a wait stands before the reader where none has been passed,
// the reader sees the same block numbers, and the warps behind the joined role close up.
// RUN: tkc-opt %s -p 'fuse-roles' | filecheck %s

// CHECK-NOT: stage.pipe
// CHECK: stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32
// CHECK-NEXT: %before_math = stage.const {constant = 1 : i32}
// CHECK-NEXT: %before_store = stage.const {constant = 3 : i32}
// CHECK-NEXT: stage.work_loop
// CHECK-NEXT: ^bb0
// CHECK: %[[OPEN:.*]] = stage.open %d
// CHECK-NEXT: %[[DONE:.*]] = stage.mma_wait %[[OPEN]] {pending = 0 : i32, id = "fused.products"}
// CHECK: stage.read_accumulator %[[DONE]], %zero
// CHECK-NEXT: stage.yield ()
// CHECK-NEXT: }
// CHECK-NEXT: %after_math = stage.const {constant = 2 : i32}
// CHECK-NEXT: %after_store = stage.const {constant = 4 : i32}
// CHECK-NEXT: }
// CHECK-NEXT: stage.role {sym_name = "load", warps = 1 : i32, first_warp = 4 : i32

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %M = stage.size {symbol = "M"} : () -> (i32)
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [64, 64], 1, register, "none">)
    %q = stage.pipe %d {sym_name = "q", kind = "full_empty", depth = 1 : i32, producers = ["math"], consumers = ["store"]} : (!stage.buffer<f32, [64, 64], 1, register, "none">) -> (!stage.ring)
    stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %before_math = stage.const {constant = 1 : i32} : () -> (i32)
      stage.work_loop %M {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %s = stage.acquire %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        stage.commit %q, %s, %x {how = ["wgmma"], bytes = 0 : i32} : (!stage.ring, i32, !stage.accumulator<f32, [64, 64]>)
        stage.yield ()
      }
      %after_math = stage.const {constant = 2 : i32} : () -> (i32)
    }
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      %before_store = stage.const {constant = 3 : i32} : () -> (i32)
      stage.work_loop %M {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %s = stage.wait %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        %f = stage.read_accumulator %x, %zero {row_block = 0 : i32} : (!stage.accumulator<f32, [64, 64]>, i32) -> (!stage.fragment<f32, [64, 64], wgmma>)
        stage.release %q, %s {how = ["tensor"]} : (!stage.ring, i32)
        stage.yield ()
      }
      %after_store = stage.const {constant = 4 : i32} : () -> (i32)
    }
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 8 : i32, groups = 1 : i32} do {
    }
  }
}
