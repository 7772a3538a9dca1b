// Where there is no fence there is no certificate.
// RUN: tkc-opt %s -p 'insert-fences,eliminate-fences' | filecheck %s

// CHECK: builtin.module attributes {tkc.target = "sm_100a"} {
// CHECK: stage.tma_load
// CHECK-NOT: fence

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "tma_copy", arg_names = ["X", "Y"], contract = {}} do {
  ^bb0(%X: !tile.tensor<bf16, [M, N]>, %Y: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %ring_full = stage.barriers {sym_name = "ring.full", depth = 4 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %ring_empty = stage.barriers {sym_name = "ring.empty", depth = 4 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %c0 = stage.const {constant = 0 : i32} : () -> (i32)
      %c128 = stage.const {constant = 128 : i32} : () -> (i32)
      %0 = stage.arith %M, %c128 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64 = stage.const {constant = 64 : i32} : () -> (i32)
      %1 = stage.arith %N, %c64 {kind = "cdiv"} : (i32, i32) -> (i32)
      %2 = stage.arith %0, %1 {kind = "mul"} : (i32, i32) -> (i32)
      %unit = stage.unit {which = "index"} : () -> (i32)
      %units = stage.unit {which = "count"} : () -> (i32)
      %3, %4 = stage.for %unit, %2, %units, %c0, %c0 : (i32, i32, i32, i32, i32) -> (i32, i32) do {
      ^bb0(%item: i32, %ring_slot: i32, %ring_phase: i32):
        %n = stage.arith %item, %1 {kind = "mod"} : (i32, i32) -> (i32)
        %m = stage.arith %item, %1 {kind = "div"} : (i32, i32) -> (i32)
        %c1 = stage.const {constant = 1 : i32} : () -> (i32)
        %5 = stage.arith %ring_phase, %c1 {kind = "xor"} : (i32, i32) -> (i32)
        stage.mbarrier_wait %ring_empty, %ring_slot, %5 {by = "one", id = "load.ring.empty"} : (!stage.mbarriers, i32, i32)
        stage.mbarrier_expect %ring_full, %ring_slot {bytes = 16384 : i32, by = "one", id = "load.ring.expect"} : (!stage.mbarriers, i32)
        %c0_1 = stage.const {constant = 0 : i32} : () -> (i32)
        %6 = stage.arith %ring_slot, %c1 {kind = "add"} : (i32, i32) -> (i32)
        %c4 = stage.const {constant = 4 : i32} : () -> (i32)
        %7 = stage.arith %6, %c4 {kind = "eq"} : (i32, i32) -> (i1)
        %8 = stage.arith %7, %c0_1, %6 {kind = "select"} : (i1, i32, i32) -> (i32)
        %9 = stage.arith %7, %c1, %c0_1 {kind = "select"} : (i1, i32, i32) -> (i32)
        %10 = stage.arith %ring_phase, %9 {kind = "xor"} : (i32, i32) -> (i32)
        %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
        %11 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
        %12 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %X, %t, %ring_slot, %11, %12, %ring_full {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 1>} : (!tile.tensor<bf16, [M, N]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32, !stage.mbarriers)
        stage.yield %8, %10 : (i32, i32)
      }
    }
    stage.role {sym_name = "store", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      %c0_2 = stage.const {constant = 0 : i32} : () -> (i32)
      %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
      %13 = stage.arith %M, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
      %14 = stage.arith %N, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %15 = stage.arith %13, %14 {kind = "mul"} : (i32, i32) -> (i32)
      %unit_1 = stage.unit {which = "index"} : () -> (i32)
      %units_1 = stage.unit {which = "count"} : () -> (i32)
      %16, %17 = stage.for %unit_1, %15, %units_1, %c0_2, %c0_2 : (i32, i32, i32, i32, i32) -> (i32, i32) do {
      ^bb0(%item_1: i32, %ring_slot_1: i32, %ring_phase_1: i32):
        %n_1 = stage.arith %item_1, %14 {kind = "mod"} : (i32, i32) -> (i32)
        %m_1 = stage.arith %item_1, %14 {kind = "div"} : (i32, i32) -> (i32)
        %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
        stage.mbarrier_wait %ring_full, %ring_slot_1, %ring_phase_1 {by = "one", id = "store.ring.full"} : (!stage.mbarriers, i32, i32)
        %c0_3 = stage.const {constant = 0 : i32} : () -> (i32)
        %18 = stage.arith %ring_slot_1, %c1_1 {kind = "add"} : (i32, i32) -> (i32)
        %c4_1 = stage.const {constant = 4 : i32} : () -> (i32)
        %19 = stage.arith %18, %c4_1 {kind = "eq"} : (i32, i32) -> (i1)
        %20 = stage.arith %19, %c0_3, %18 {kind = "select"} : (i1, i32, i32) -> (i32)
        %21 = stage.arith %19, %c1_1, %c0_3 {kind = "select"} : (i1, i32, i32) -> (i32)
        %22 = stage.arith %ring_phase_1, %21 {kind = "xor"} : (i32, i32) -> (i32)
        %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
        %23 = stage.arith %m_1, %c128_3 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        %24 = stage.arith %n_1, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_store %t, %ring_slot_1, %Y, %23, %24 {box = [128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
        stage.bulk_commit {id = "store.store"}
        stage.bulk_wait {pending = 0 : i32, read, id = "store.ring.drained"}
        stage.mbarrier_arrive %ring_empty, %ring_slot_1 {by = "one", id = "store.ring.release"} : (!stage.mbarriers, i32)
        stage.yield %20, %22 : (i32, i32)
      }
      stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
    }
  }
}
