// Threads read tiles that the copy engine brought, and write one that it takes away. Only what they write needs a fence: it
// also covers what they read before it. What is gone has a certificate.
// RUN: tkc-opt %s -p 'insert-fences,eliminate-fences' | filecheck %s

// CHECK: tkc.certificates = [{kernel = "silu_mul", model = "practice"
// CHECK-SAME: id = "math.fence.0"
// CHECK-SAME: verdict = "removed"
// CHECK-NOT: stage.proxy_fence {
// CHECK: stage.store_shared
// CHECK-NEXT: stage.proxy_fence {space = "shared::cta", guards = ["math.staging"], id = "math.fence.3"}
// CHECK-NEXT: stage.role_barrier
// CHECK-NOT: stage.proxy_fence {

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "silu_mul", arg_names = ["X", "Y", "Z"], contract = {}} do {
  ^bb0(%X: !tile.tensor<bf16, [M, N]>, %Y: !tile.tensor<bf16, [M, N]>, %Z: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %x = stage.alloc {sym_name = "x"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %y = stage.alloc {sym_name = "y"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %inputs_full = stage.barriers {sym_name = "inputs.full", depth = 4 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %inputs_empty = stage.barriers {sym_name = "inputs.empty", depth = 4 : i32, count = 4 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      %c0 = stage.const {constant = 0 : i32} : () -> (i32)
      %c128 = stage.const {constant = 128 : i32} : () -> (i32)
      %0 = stage.arith %M, %c128 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64 = stage.const {constant = 64 : i32} : () -> (i32)
      %1 = stage.arith %N, %c64 {kind = "cdiv"} : (i32, i32) -> (i32)
      %2 = stage.arith %0, %1 {kind = "mul"} : (i32, i32) -> (i32)
      %unit = stage.unit {which = "index"} : () -> (i32)
      %units = stage.unit {which = "count"} : () -> (i32)
      %3, %4 = stage.for %unit, %2, %units, %c0, %c0 : (i32, i32, i32, i32, i32) -> (i32, i32) do {
      ^bb0(%item: i32, %inputs_slot: i32, %inputs_phase: i32):
        %n = stage.arith %item, %1 {kind = "mod"} : (i32, i32) -> (i32)
        %m = stage.arith %item, %1 {kind = "div"} : (i32, i32) -> (i32)
        %c1 = stage.const {constant = 1 : i32} : () -> (i32)
        %5 = stage.arith %inputs_phase, %c1 {kind = "xor"} : (i32, i32) -> (i32)
        stage.mbarrier_wait %inputs_empty, %inputs_slot, %5 {by = "one", id = "load.inputs.empty"} : (!stage.mbarriers, i32, i32)
        stage.mbarrier_expect %inputs_full, %inputs_slot {bytes = 32768 : i32, by = "one", id = "load.inputs.expect"} : (!stage.mbarriers, i32)
        %c0_1 = stage.const {constant = 0 : i32} : () -> (i32)
        %6 = stage.arith %inputs_slot, %c1 {kind = "add"} : (i32, i32) -> (i32)
        %c4 = stage.const {constant = 4 : i32} : () -> (i32)
        %7 = stage.arith %6, %c4 {kind = "eq"} : (i32, i32) -> (i1)
        %8 = stage.arith %7, %c0_1, %6 {kind = "select"} : (i1, i32, i32) -> (i32)
        %9 = stage.arith %7, %c1, %c0_1 {kind = "select"} : (i1, i32, i32) -> (i32)
        %10 = stage.arith %inputs_phase, %9 {kind = "xor"} : (i32, i32) -> (i32)
        %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
        %11 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
        %12 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %X, %x, %inputs_slot, %11, %12, %inputs_full {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 1>} : (!tile.tensor<bf16, [M, N]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32, !stage.mbarriers)
        %13 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %14 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %Y, %y, %inputs_slot, %13, %14, %inputs_full {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 1>} : (!tile.tensor<bf16, [M, N]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32, !stage.mbarriers)
        stage.yield %8, %10 : (i32, i32)
      }
    }
    %staging = stage.alloc {sym_name = "math.staging", staging} : () -> (!stage.buffer<bf16, [128, 64], 2, shared, "128B">)
    stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %c0_2 = stage.const {constant = 0 : i32} : () -> (i32)
      %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
      %15 = stage.arith %M, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
      %16 = stage.arith %N, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %17 = stage.arith %15, %16 {kind = "mul"} : (i32, i32) -> (i32)
      %unit_1 = stage.unit {which = "index"} : () -> (i32)
      %units_1 = stage.unit {which = "count"} : () -> (i32)
      %18, %19, %20 = stage.for %unit_1, %17, %units_1, %c0_2, %c0_2, %c0_2 : (i32, i32, i32, i32, i32, i32) -> (i32, i32, i32) do {
      ^bb0(%item_1: i32, %inputs_slot_1: i32, %inputs_phase_1: i32, %math_staging_slot: i32):
        %n_1 = stage.arith %item_1, %16 {kind = "mod"} : (i32, i32) -> (i32)
        %m_1 = stage.arith %item_1, %16 {kind = "div"} : (i32, i32) -> (i32)
        %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
        stage.mbarrier_wait %inputs_full, %inputs_slot_1, %inputs_phase_1 {by = "all", id = "math.inputs.full"} : (!stage.mbarriers, i32, i32)
        %c0_3 = stage.const {constant = 0 : i32} : () -> (i32)
        %21 = stage.arith %inputs_slot_1, %c1_1 {kind = "add"} : (i32, i32) -> (i32)
        %c4_1 = stage.const {constant = 4 : i32} : () -> (i32)
        %22 = stage.arith %21, %c4_1 {kind = "eq"} : (i32, i32) -> (i1)
        %23 = stage.arith %22, %c0_3, %21 {kind = "select"} : (i1, i32, i32) -> (i32)
        %24 = stage.arith %22, %c1_1, %c0_3 {kind = "select"} : (i1, i32, i32) -> (i32)
        %25 = stage.arith %inputs_phase_1, %24 {kind = "xor"} : (i32, i32) -> (i32)
        %26 = stage.const {constant = 1.000000e+00 : f32} : () -> (f32)
        %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
        %27 = stage.arith %m_1, %c128_3 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        %28 = stage.arith %n_1, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        %c0_4 = stage.const {constant = 0 : i32} : () -> (i32)
        %29 = stage.load_shared %x, %inputs_slot_1, %c0_4 : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32) -> (!stage.fragment<bf16, [128, 64], rows>)
        %30 = stage.cast %29 : (!stage.fragment<bf16, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %31 = stage.map %30 {kind = "neg"} : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %32 = stage.map %31 {kind = "exp"} : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %33 = stage.map %32, %26 {kind = "add"} : (!stage.fragment<f32, [128, 64], rows>, f32) -> (!stage.fragment<f32, [128, 64], rows>)
        %34 = stage.map %33 {kind = "rcp"} : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %35 = stage.map %30, %34 {kind = "mul"} : (!stage.fragment<f32, [128, 64], rows>, !stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %36 = stage.load_shared %y, %inputs_slot_1, %c0_4 : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32) -> (!stage.fragment<bf16, [128, 64], rows>)
        %37 = stage.cast %36 : (!stage.fragment<bf16, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %38 = stage.map %35, %37 {kind = "mul"} : (!stage.fragment<f32, [128, 64], rows>, !stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %39 = stage.cast %38 : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<bf16, [128, 64], rows>)
        %c1_2 = stage.const {constant = 1 : i32} : () -> (i32)
        stage.bulk_wait {pending = 1 : i32, read, id = "math.math.staging.drained"}
        stage.role_barrier {id = "math.math.staging.free"}
        %c0_5 = stage.const {constant = 0 : i32} : () -> (i32)
        %40 = stage.arith %math_staging_slot, %c1_2 {kind = "add"} : (i32, i32) -> (i32)
        %c2 = stage.const {constant = 2 : i32} : () -> (i32)
        %41 = stage.arith %40, %c2 {kind = "eq"} : (i32, i32) -> (i1)
        %42 = stage.arith %41, %c0_5, %40 {kind = "select"} : (i1, i32, i32) -> (i32)
        stage.store_shared %39, %staging, %math_staging_slot, %c0_4 : (!stage.fragment<bf16, [128, 64], rows>, !stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, i32)
        stage.role_barrier {id = "math.filled"}
        %43 = stage.arith %28, %c0_4 {kind = "add"} : (i32, i32) -> (i32)
        stage.tma_store %staging, %math_staging_slot, %Z, %27, %43 {box = [128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
        stage.bulk_commit {id = "math.math.staging.commit"}
        stage.warp_sync {id = "math.inputs.release.warp"}
        stage.mbarrier_arrive %inputs_empty, %inputs_slot_1 {by = "lane", id = "math.inputs.release"} : (!stage.mbarriers, i32)
        stage.yield %23, %25, %42 : (i32, i32, i32)
      }
      stage.bulk_wait {pending = 0 : i32, id = "math.drain"}
    }
  }
}
