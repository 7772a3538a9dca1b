// A role that reads with its threads arrives once for each of its warps.
// RUN: tkc-opt %s -p 'lower-pipes' | filecheck %s

// CHECK: stage.barriers {sym_name = "inputs.full", depth = 4 : i32, count = 1 : i32}
// CHECK: stage.barriers {sym_name = "inputs.empty", depth = 4 : i32, count = 4 : i32}
// CHECK: stage.mbarrier_wait %inputs_full, %{{.*}} {by = "all"
// CHECK: stage.mbarrier_arrive %inputs_empty, %{{.*}} {by = "lane"

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "silu_mul", arg_names = ["X", "Y", "Z"], contract = {}} do {
  ^bb0(%X: !tile.tensor<bf16, [M, N]>, %Y: !tile.tensor<bf16, [M, N]>, %Z: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %x = stage.alloc {sym_name = "x"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %y = stage.alloc {sym_name = "y"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %inputs = stage.pipe %x, %y {sym_name = "inputs", kind = "full_empty", depth = 4 : i32, producers = ["load"], consumers = ["math"]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, !stage.buffer<bf16, [128, 64], 4, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      %c128 = stage.const {constant = 128 : i32} : () -> (i32)
      %0 = stage.arith %M, %c128 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64 = stage.const {constant = 64 : i32} : () -> (i32)
      %1 = stage.arith %N, %c64 {kind = "cdiv"} : (i32, i32) -> (i32)
      %2 = stage.arith %0, %1 {kind = "mul"} : (i32, i32) -> (i32)
      %unit = stage.unit {which = "index"} : () -> (i32)
      %units = stage.unit {which = "count"} : () -> (i32)
      stage.for %unit, %2, %units : (i32, i32, i32) do {
      ^bb0(%item: i32):
        %n = stage.arith %item, %1 {kind = "mod"} : (i32, i32) -> (i32)
        %m = stage.arith %item, %1 {kind = "div"} : (i32, i32) -> (i32)
        %slot = stage.acquire %inputs : (!stage.ring) -> (i32)
        %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
        %3 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
        %4 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %X, %x, %slot, %3, %4 {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : (!tile.tensor<bf16, [M, N]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32)
        %5 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %6 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %Y, %y, %slot, %5, %6 {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : (!tile.tensor<bf16, [M, N]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32)
        stage.commit %inputs, %slot {how = ["tma"], bytes = 32768 : i32} : (!stage.ring, i32)
        stage.yield ()
      }
    }
    %staging = stage.alloc {sym_name = "math.staging", staging} : () -> (!stage.buffer<bf16, [128, 64], 2, shared, "128B">)
    %staging_ring = stage.pipe %staging {sym_name = "math.staging", kind = "store", depth = 2 : i32, producers = ["math"], consumers = []} : (!stage.buffer<bf16, [128, 64], 2, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
      %7 = stage.arith %M, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
      %8 = stage.arith %N, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %9 = stage.arith %7, %8 {kind = "mul"} : (i32, i32) -> (i32)
      %unit_1 = stage.unit {which = "index"} : () -> (i32)
      %units_1 = stage.unit {which = "count"} : () -> (i32)
      stage.for %unit_1, %9, %units_1 : (i32, i32, i32) do {
      ^bb0(%item_1: i32):
        %n_1 = stage.arith %item_1, %8 {kind = "mod"} : (i32, i32) -> (i32)
        %m_1 = stage.arith %item_1, %8 {kind = "div"} : (i32, i32) -> (i32)
        %slot_1 = stage.wait %inputs : (!stage.ring) -> (i32)
        %10 = stage.const {constant = 1.000000e+00 : f32} : () -> (f32)
        %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
        %11 = stage.arith %m_1, %c128_3 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        %12 = stage.arith %n_1, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        %c0 = stage.const {constant = 0 : i32} : () -> (i32)
        %13 = stage.load_shared %x, %slot_1, %c0 : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32) -> (!stage.fragment<bf16, [128, 64], rows>)
        %14 = stage.cast %13 : (!stage.fragment<bf16, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %15 = stage.map %14 {kind = "neg"} : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %16 = stage.map %15 {kind = "exp"} : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %17 = stage.map %16, %10 {kind = "add"} : (!stage.fragment<f32, [128, 64], rows>, f32) -> (!stage.fragment<f32, [128, 64], rows>)
        %18 = stage.map %17 {kind = "rcp"} : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %19 = stage.map %14, %18 {kind = "mul"} : (!stage.fragment<f32, [128, 64], rows>, !stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %20 = stage.load_shared %y, %slot_1, %c0 : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32) -> (!stage.fragment<bf16, [128, 64], rows>)
        %21 = stage.cast %20 : (!stage.fragment<bf16, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %22 = stage.map %19, %21 {kind = "mul"} : (!stage.fragment<f32, [128, 64], rows>, !stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 64], rows>)
        %23 = stage.cast %22 : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<bf16, [128, 64], rows>)
        %slot_2 = stage.acquire %staging_ring : (!stage.ring) -> (i32)
        stage.store_shared %23, %staging, %slot_2, %c0 : (!stage.fragment<bf16, [128, 64], rows>, !stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, i32)
        stage.role_barrier {id = "math.filled"}
        %24 = stage.arith %12, %c0 {kind = "add"} : (i32, i32) -> (i32)
        stage.tma_store %staging, %slot_2, %Z, %11, %24 {box = [128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
        stage.commit %staging_ring, %slot_2 {how = ["bulk"], bytes = 0 : i32} : (!stage.ring, i32)
        stage.release %inputs, %slot_1 {how = ["generic"]} : (!stage.ring, i32)
        stage.yield ()
      }
      stage.bulk_wait {pending = 0 : i32, id = "math.drain"}
    }
  }
}
