// A slot goes from role to role, and is free for the first when the last has released it.
// RUN: tkc-opt %s -p 'prove-ownership' | filecheck %s

// CHECK: id = "load.loaded.empty"
// CHECK: id = "load.done.empty.loaded"
// CHECK: stage.tma_load

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "inplace", arg_names = ["A", "C"], contract = {}, shared_bytes = 32840 : i32} do {
  ^bb0(%A: !tile.tensor<f32, [M, N]>, %C: !tile.tensor<f32, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %t = stage.alloc {sym_name = "t", pipes = ["loaded", "done"], offset = 0 : i32} : () -> (!stage.buffer<f32, [128, 32], 2, shared, "128B">)
    %loaded_full = stage.barriers {sym_name = "loaded.full", depth = 2 : i32, count = 1 : i32, offset = 32768 : i32} : () -> (!stage.mbarriers)
    %loaded_empty = stage.barriers {sym_name = "loaded.empty", depth = 2 : i32, count = 4 : i32, offset = 32784 : i32} : () -> (!stage.mbarriers)
    %done_full = stage.barriers {sym_name = "done.full", depth = 2 : i32, count = 4 : i32, offset = 32800 : i32} : () -> (!stage.mbarriers)
    %done_empty = stage.barriers {sym_name = "done.empty", depth = 2 : i32, count = 1 : i32, offset = 32816 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      %c0 = stage.const {constant = 0 : i32} : () -> (i32)
      %c128 = stage.const {constant = 128 : i32} : () -> (i32)
      %0 = stage.arith %M, %c128 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c32 = stage.const {constant = 32 : i32} : () -> (i32)
      %1 = stage.arith %N, %c32 {kind = "cdiv"} : (i32, i32) -> (i32)
      %2 = stage.arith %0, %1 {kind = "mul"} : (i32, i32) -> (i32)
      %unit = stage.unit {which = "index"} : () -> (i32)
      %units = stage.unit {which = "count"} : () -> (i32)
      %3, %4 = stage.for %unit, %2, %units, %c0, %c0 : (i32, i32, i32, i32, i32) -> (i32, i32) do {
      ^bb0(%item: i32, %loaded_slot: i32, %loaded_phase: i32):
        %n = stage.arith %item, %1 {kind = "mod"} : (i32, i32) -> (i32)
        %m = stage.arith %item, %1 {kind = "div"} : (i32, i32) -> (i32)
        %c1 = stage.const {constant = 1 : i32} : () -> (i32)
        %5 = stage.arith %loaded_phase, %c1 {kind = "xor"} : (i32, i32) -> (i32)
        stage.mbarrier_wait %loaded_empty, %loaded_slot, %5 {by = "one", id = "load.loaded.empty"} : (!stage.mbarriers, i32, i32)
        stage.mbarrier_wait %done_empty, %loaded_slot, %5 {by = "one", id = "load.done.empty.loaded"} : (!stage.mbarriers, i32, i32)
        stage.mbarrier_expect %loaded_full, %loaded_slot {bytes = 16384 : i32, by = "one", id = "load.loaded.expect"} : (!stage.mbarriers, i32)
        %c0_1 = stage.const {constant = 0 : i32} : () -> (i32)
        %6 = stage.arith %loaded_slot, %c1 {kind = "add"} : (i32, i32) -> (i32)
        %c2 = stage.const {constant = 2 : i32} : () -> (i32)
        %7 = stage.arith %6, %c2 {kind = "eq"} : (i32, i32) -> (i1)
        %8 = stage.arith %7, %c0_1, %6 {kind = "select"} : (i1, i32, i32) -> (i32)
        %9 = stage.arith %7, %c1, %c0_1 {kind = "select"} : (i1, i32, i32) -> (i32)
        %10 = stage.arith %loaded_phase, %9 {kind = "xor"} : (i32, i32) -> (i32)
        %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
        %11 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %c32_1 = stage.const {constant = 32 : i32} : () -> (i32)
        %12 = stage.arith %n, %c32_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %A, %t, %loaded_slot, %11, %12, %loaded_full {box = [128 : i32, 32 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 1>} : (!tile.tensor<f32, [M, N]>, !stage.buffer<f32, [128, 32], 2, shared, "128B">, i32, i32, i32, !stage.mbarriers)
        stage.yield %8, %10 : (i32, i32)
      }
    }
    stage.role {sym_name = "double", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %c0_2 = stage.const {constant = 0 : i32} : () -> (i32)
      %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
      %13 = stage.arith %M, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c32_2 = stage.const {constant = 32 : i32} : () -> (i32)
      %14 = stage.arith %N, %c32_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %15 = stage.arith %13, %14 {kind = "mul"} : (i32, i32) -> (i32)
      %unit_1 = stage.unit {which = "index"} : () -> (i32)
      %units_1 = stage.unit {which = "count"} : () -> (i32)
      %16, %17, %18, %19 = stage.for %unit_1, %15, %units_1, %c0_2, %c0_2, %c0_2, %c0_2 : (i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32) do {
      ^bb0(%item_1: i32, %loaded_slot_1: i32, %loaded_phase_1: i32, %done_slot: i32, %done_phase: i32):
        %n_1 = stage.arith %item_1, %14 {kind = "mod"} : (i32, i32) -> (i32)
        %m_1 = stage.arith %item_1, %14 {kind = "div"} : (i32, i32) -> (i32)
        %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
        stage.mbarrier_wait %loaded_full, %loaded_slot_1, %loaded_phase_1 {by = "all", id = "double.loaded.full"} : (!stage.mbarriers, i32, i32)
        %c0_3 = stage.const {constant = 0 : i32} : () -> (i32)
        %20 = stage.arith %loaded_slot_1, %c1_1 {kind = "add"} : (i32, i32) -> (i32)
        %c2_1 = stage.const {constant = 2 : i32} : () -> (i32)
        %21 = stage.arith %20, %c2_1 {kind = "eq"} : (i32, i32) -> (i1)
        %22 = stage.arith %21, %c0_3, %20 {kind = "select"} : (i1, i32, i32) -> (i32)
        %23 = stage.arith %21, %c1_1, %c0_3 {kind = "select"} : (i1, i32, i32) -> (i32)
        %24 = stage.arith %loaded_phase_1, %23 {kind = "xor"} : (i32, i32) -> (i32)
        %c1_2 = stage.const {constant = 1 : i32} : () -> (i32)
        %25 = stage.arith %done_phase, %c1_2 {kind = "xor"} : (i32, i32) -> (i32)
        stage.mbarrier_wait %done_empty, %done_slot, %25 {by = "all", id = "double.done.empty"} : (!stage.mbarriers, i32, i32)
        stage.proxy_fence {space = "shared::cta", guards = ["t"], id = "double.fence.0"}
        %c0_4 = stage.const {constant = 0 : i32} : () -> (i32)
        %26 = stage.arith %done_slot, %c1_2 {kind = "add"} : (i32, i32) -> (i32)
        %c2_2 = stage.const {constant = 2 : i32} : () -> (i32)
        %27 = stage.arith %26, %c2_2 {kind = "eq"} : (i32, i32) -> (i1)
        %28 = stage.arith %27, %c0_4, %26 {kind = "select"} : (i1, i32, i32) -> (i32)
        %29 = stage.arith %27, %c1_2, %c0_4 {kind = "select"} : (i1, i32, i32) -> (i32)
        %30 = stage.arith %done_phase, %29 {kind = "xor"} : (i32, i32) -> (i32)
        %31 = stage.const {constant = 2.000000e+00 : f32} : () -> (f32)
        %c0_5 = stage.const {constant = 0 : i32} : () -> (i32)
        %32 = stage.load_shared %t, %done_slot, %c0_5 : (!stage.buffer<f32, [128, 32], 2, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 32], rows>)
        %33 = stage.map %32, %31 {kind = "mul"} : (!stage.fragment<f32, [128, 32], rows>, f32) -> (!stage.fragment<f32, [128, 32], rows>)
        stage.store_shared %33, %t, %done_slot, %c0_5 : (!stage.fragment<f32, [128, 32], rows>, !stage.buffer<f32, [128, 32], 2, shared, "128B">, i32, i32)
        stage.proxy_fence {space = "shared::cta", guards = ["t"], id = "double.fence.1"}
        stage.warp_sync {id = "double.done.commit.warp"}
        stage.mbarrier_arrive %done_full, %done_slot {by = "lane", id = "double.done.commit"} : (!stage.mbarriers, i32)
        stage.warp_sync {id = "double.loaded.release.warp"}
        stage.mbarrier_arrive %loaded_empty, %loaded_slot_1 {by = "lane", id = "double.loaded.release"} : (!stage.mbarriers, i32)
        stage.yield %22, %24, %28, %30 : (i32, i32, i32, i32)
      }
    }
    stage.role {sym_name = "store", warps = 1 : i32, first_warp = 5 : i32, groups = 1 : i32} do {
      %c0_6 = stage.const {constant = 0 : i32} : () -> (i32)
      %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
      %34 = stage.arith %M, %c128_3 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c32_3 = stage.const {constant = 32 : i32} : () -> (i32)
      %35 = stage.arith %N, %c32_3 {kind = "cdiv"} : (i32, i32) -> (i32)
      %36 = stage.arith %34, %35 {kind = "mul"} : (i32, i32) -> (i32)
      %unit_2 = stage.unit {which = "index"} : () -> (i32)
      %units_2 = stage.unit {which = "count"} : () -> (i32)
      %37, %38 = stage.for %unit_2, %36, %units_2, %c0_6, %c0_6 : (i32, i32, i32, i32, i32) -> (i32, i32) do {
      ^bb0(%item_2: i32, %done_slot_1: i32, %done_phase_1: i32):
        %n_2 = stage.arith %item_2, %35 {kind = "mod"} : (i32, i32) -> (i32)
        %m_2 = stage.arith %item_2, %35 {kind = "div"} : (i32, i32) -> (i32)
        %c1_3 = stage.const {constant = 1 : i32} : () -> (i32)
        stage.mbarrier_wait %done_full, %done_slot_1, %done_phase_1 {by = "one", id = "store.done.full"} : (!stage.mbarriers, i32, i32)
        %c0_7 = stage.const {constant = 0 : i32} : () -> (i32)
        %39 = stage.arith %done_slot_1, %c1_3 {kind = "add"} : (i32, i32) -> (i32)
        %c2_3 = stage.const {constant = 2 : i32} : () -> (i32)
        %40 = stage.arith %39, %c2_3 {kind = "eq"} : (i32, i32) -> (i1)
        %41 = stage.arith %40, %c0_7, %39 {kind = "select"} : (i1, i32, i32) -> (i32)
        %42 = stage.arith %40, %c1_3, %c0_7 {kind = "select"} : (i1, i32, i32) -> (i32)
        %43 = stage.arith %done_phase_1, %42 {kind = "xor"} : (i32, i32) -> (i32)
        %c128_4 = stage.const {constant = 128 : i32} : () -> (i32)
        %44 = stage.arith %m_2, %c128_4 {kind = "mul"} : (i32, i32) -> (i32)
        %c32_4 = stage.const {constant = 32 : i32} : () -> (i32)
        %45 = stage.arith %n_2, %c32_4 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_store %t, %done_slot_1, %C, %44, %45 {box = [128 : i32, 32 : i32]} : (!stage.buffer<f32, [128, 32], 2, shared, "128B">, i32, !tile.tensor<f32, [M, N]>, i32, i32)
        stage.bulk_commit {id = "store.store"}
        stage.bulk_wait {pending = 0 : i32, read, id = "store.done.drained"}
        stage.mbarrier_arrive %done_empty, %done_slot_1 {by = "one", id = "store.done.release"} : (!stage.mbarriers, i32)
        stage.yield %41, %43 : (i32, i32)
      }
      stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
    }
  }
}
