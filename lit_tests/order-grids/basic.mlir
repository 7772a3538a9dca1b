// Each role waits for the grids ahead before it touches global memory; behind the last copy in, the next grid may start.
// RUN: tkc-opt %s -p 'lower-schedules,order-grids' | filecheck %s

// CHECK: sym_name = "load"
// CHECK: stage.grid_wait {by = "one", id = "load.pdl.wait"}
// CHECK-NEXT: stage.for
// CHECK: stage.tma_load
// CHECK: stage.grid_launch {by = "one", id = "load.pdl.launch"}
// CHECK-NEXT: }
// CHECK: sym_name = "store"
// CHECK: stage.grid_wait {by = "one", id = "store.pdl.wait"}
// CHECK-NEXT: stage.for
// CHECK-NOT: stage.grid

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "tma_copy", arg_names = ["X", "Y"], contract = {}, dependent} do {
  ^bb0(%X: !tile.tensor<bf16, [M, N]>, %Y: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %ring = stage.pipe %t {sym_name = "ring", kind = "full_empty", depth = 4 : i32, producers = ["load"], consumers = ["store"]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %c128 = stage.const {constant = 128 : i32} : () -> (i32)
      %0 = stage.arith %M, %c128 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64 = stage.const {constant = 64 : i32} : () -> (i32)
      %1 = stage.arith %N, %c64 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %0, %1 {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 2, 0>} : (i32, i32) do {
      ^bb0(%m: i32, %n: i32):
        %slot = stage.acquire %ring : (!stage.ring) -> (i32)
        %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
        %2 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
        %3 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %X, %t, %slot, %2, %3 {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : (!tile.tensor<bf16, [M, N]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32)
        stage.commit %ring, %slot {how = ["tma"], bytes = 16384 : i32} : (!stage.ring, i32)
        stage.yield ()
      }
    }
    stage.role {sym_name = "store", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
      %4 = stage.arith %M, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
      %5 = stage.arith %N, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %4, %5 {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 2, 0>} : (i32, i32) do {
      ^bb0(%m_1: i32, %n_1: i32):
        %slot_1 = stage.wait %ring : (!stage.ring) -> (i32)
        %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
        %6 = stage.arith %m_1, %c128_3 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        %7 = stage.arith %n_1, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_store %t, %slot_1, %Y, %6, %7 {box = [128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
        stage.bulk_commit {id = "store.store"}
        stage.release %ring, %slot_1 {how = ["bulk"]} : (!stage.ring, i32)
        stage.yield ()
      }
      stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
    }
  }
}
