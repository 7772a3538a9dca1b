// Roles joined by a register accumulator become one: the reader's work follows the products, and their pipe is gone.
// RUN: tkc-opt %s -p 'fuse-roles' | filecheck %s

// CHECK-NOT: stage.pipe %d
// CHECK: stage.role {sym_name = "load", warps = 1 : i32, first_warp = 8 : i32
// CHECK: stage.role {sym_name = "math", warps = 8 : i32, first_warp = 0 : i32, groups = 2 : i32}
// CHECK: %[[SUM:.*]] = stage.for
// CHECK: stage.mma 
// CHECK: stage.read_accumulator %[[SUM]]
// CHECK: stage.tma_store
// CHECK-NOT: stage.role {sym_name = "store"

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "gemm", arg_names = ["A", "B", "C"], contract = {}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %a = stage.alloc {sym_name = "a"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %b = stage.alloc {sym_name = "b"} : () -> (!stage.buffer<bf16, [256, 64], 4, shared, "128B">)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 256], 1, register, "none">)
    %inputs = stage.pipe %a, %b {sym_name = "inputs", kind = "full_empty", depth = 4 : i32, producers = ["load"], consumers = ["math"]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, !stage.buffer<bf16, [256, 64], 4, shared, "128B">) -> (!stage.ring)
    %result = stage.pipe %d {sym_name = "result", kind = "full_empty", depth = 1 : i32, producers = ["math"], consumers = ["store"]} : (!stage.buffer<f32, [128, 256], 1, register, "none">) -> (!stage.ring)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 16 : i32, groups = 1 : i32} do {
      %c128 = stage.const {constant = 128 : i32} : () -> (i32)
      %0 = stage.arith %M, %c128 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c256 = stage.const {constant = 256 : i32} : () -> (i32)
      %1 = stage.arith %N, %c256 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %0, %1 {schedule = "work", group = 8 : i32, operandSegmentSizes = array<i32: 2, 0>} : (i32, i32) do {
      ^bb0(%m: i32, %n: i32):
        %c64 = stage.const {constant = 64 : i32} : () -> (i32)
        %2 = stage.arith %K, %c64 {kind = "cdiv"} : (i32, i32) -> (i32)
        %c0 = stage.const {constant = 0 : i32} : () -> (i32)
        %c1 = stage.const {constant = 1 : i32} : () -> (i32)
        stage.for %c0, %2, %c1 : (i32, i32, i32) do {
        ^bb0(%k: i32):
          %slot = stage.acquire %inputs : (!stage.ring) -> (i32)
          %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
          %3 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
          %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
          %4 = stage.arith %k, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
          stage.tma_load %A, %a, %slot, %3, %4 {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : (!tile.tensor<bf16, [M, K]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32)
          %c256_1 = stage.const {constant = 256 : i32} : () -> (i32)
          %5 = stage.arith %n, %c256_1 {kind = "mul"} : (i32, i32) -> (i32)
          %6 = stage.arith %k, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
          stage.tma_load %B, %b, %slot, %5, %6 {box = [256 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : (!tile.tensor<bf16, [N, K]>, !stage.buffer<bf16, [256, 64], 4, shared, "128B">, i32, i32, i32)
          stage.commit %inputs, %slot {how = ["tma"], bytes = 49152 : i32} : (!stage.ring, i32)
          stage.yield ()
        }
        stage.yield ()
      }
    }
    stage.role {sym_name = "math", warps = 8 : i32, first_warp = 0 : i32, groups = 2 : i32} do {
      %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
      %7 = stage.arith %M, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c256_2 = stage.const {constant = 256 : i32} : () -> (i32)
      %8 = stage.arith %N, %c256_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %7, %8 {schedule = "work", group = 8 : i32, operandSegmentSizes = array<i32: 2, 0>} : (i32, i32) do {
      ^bb0(%m_1: i32, %n_1: i32):
        %slot_1 = stage.acquire %result : (!stage.ring) -> (i32)
        %9 = stage.open %d, %slot_1 : (!stage.buffer<f32, [128, 256], 1, register, "none">, i32) -> (!stage.accumulator<f32, [128, 256]>)
        %10 = stage.zero %9 : (!stage.accumulator<f32, [128, 256]>) -> (!stage.accumulator<f32, [128, 256]>)
        %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
        %11 = stage.arith %K, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
        %c0_1 = stage.const {constant = 0 : i32} : () -> (i32)
        %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
        %12 = stage.for %c0_1, %11, %c1_1, %10 : (i32, i32, i32, !stage.accumulator<f32, [128, 256]>) -> (!stage.accumulator<f32, [128, 256]>) do {
        ^bb0(%k_1: i32, %13: !stage.accumulator<f32, [128, 256]>):
          %slot_2 = stage.wait %inputs : (!stage.ring) -> (i32)
          %14 = stage.mma %13, %a, %slot_2, %b, %slot_2 {trans_a = 0 : i32, trans_b = 1 : i32, by = "all"} : (!stage.accumulator<f32, [128, 256]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.buffer<bf16, [256, 64], 4, shared, "128B">, i32) -> (!stage.accumulator<f32, [128, 256]>)
          %15 = stage.mma_wait %14 {pending = 0 : i32, id = "math.products"} : (!stage.accumulator<f32, [128, 256]>) -> (!stage.accumulator<f32, [128, 256]>)
          stage.release %inputs, %slot_2 {how = ["wgmma"]} : (!stage.ring, i32)
          stage.yield %15 : (!stage.accumulator<f32, [128, 256]>)
        }
        stage.commit %result, %slot_1, %12 {how = ["wgmma"], bytes = 0 : i32} : (!stage.ring, i32, !stage.accumulator<f32, [128, 256]>)
        stage.yield ()
      }
    }
    %staging = stage.alloc {sym_name = "store.staging", staging} : () -> (!stage.buffer<bf16, [64, 64], 4, shared, "128B">)
    %staging_ring = stage.pipe %staging {sym_name = "store.staging", kind = "store", depth = 2 : i32, producers = ["store"], consumers = []} : (!stage.buffer<bf16, [64, 64], 4, shared, "128B">) -> (!stage.ring)
    %c0_2 = stage.const {constant = 0 : i32} : () -> (i32)
    %some = stage.arith %c0_2, %K {kind = "lt"} : (i32, i32) -> (i1)
    stage.role {sym_name = "store", warps = 8 : i32, first_warp = 8 : i32, groups = 2 : i32} do {
      %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
      %16 = stage.arith %M, %c128_3 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c256_3 = stage.const {constant = 256 : i32} : () -> (i32)
      %17 = stage.arith %N, %c256_3 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %16, %17 {schedule = "work", group = 8 : i32, operandSegmentSizes = array<i32: 2, 0>} : (i32, i32) do {
      ^bb0(%m_2: i32, %n_2: i32):
        %slot_3 = stage.wait %result : (!stage.ring) -> (i32)
        %18 = stage.open %d, %slot_3 : (!stage.buffer<f32, [128, 256], 1, register, "none">, i32) -> (!stage.accumulator<f32, [128, 256]>)
        %c128_4 = stage.const {constant = 128 : i32} : () -> (i32)
        %19 = stage.arith %m_2, %c128_4 {kind = "mul"} : (i32, i32) -> (i32)
        %c256_4 = stage.const {constant = 256 : i32} : () -> (i32)
        %20 = stage.arith %n_2, %c256_4 {kind = "mul"} : (i32, i32) -> (i32)
        %c0_3 = stage.const {constant = 0 : i32} : () -> (i32)
        %21 = stage.read_accumulator %18, %c0_3, %some {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 256]>, i32, i1) -> (!stage.fragment<f32, [64, 64], wgmma>)
        %22 = stage.cast %21 : (!stage.fragment<f32, [64, 64], wgmma>) -> (!stage.fragment<bf16, [64, 64], wgmma>)
        %slot_4 = stage.acquire %staging_ring : (!stage.ring) -> (i32)
        %group = stage.group : () -> (i32)
        %c2 = stage.const {constant = 2 : i32} : () -> (i32)
        %23 = stage.arith %slot_4, %c2 {kind = "mul"} : (i32, i32) -> (i32)
        %24 = stage.arith %23, %group {kind = "add"} : (i32, i32) -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        %25 = stage.arith %group, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        %26 = stage.arith %19, %25 {kind = "add"} : (i32, i32) -> (i32)
        stage.store_shared %22, %staging, %24, %c0_3 : (!stage.fragment<bf16, [64, 64], wgmma>, !stage.buffer<bf16, [64, 64], 4, shared, "128B">, i32, i32)
        stage.role_barrier {id = "store.filled"}
        %27 = stage.arith %20, %c0_3 {kind = "add"} : (i32, i32) -> (i32)
        stage.tma_store %staging, %24, %C, %26, %27 {box = [64 : i32, 64 : i32]} : (!stage.buffer<bf16, [64, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
        stage.commit %staging_ring, %slot_4 {how = ["bulk"], bytes = 0 : i32} : (!stage.ring, i32)
        %28 = stage.read_accumulator %18, %c64_3, %some {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 256]>, i32, i1) -> (!stage.fragment<f32, [64, 64], wgmma>)
        %29 = stage.cast %28 : (!stage.fragment<f32, [64, 64], wgmma>) -> (!stage.fragment<bf16, [64, 64], wgmma>)
        %slot_5 = stage.acquire %staging_ring : (!stage.ring) -> (i32)
        %group_1 = stage.group : () -> (i32)
        %30 = stage.arith %slot_5, %c2 {kind = "mul"} : (i32, i32) -> (i32)
        %31 = stage.arith %30, %group_1 {kind = "add"} : (i32, i32) -> (i32)
        %32 = stage.arith %group_1, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        %33 = stage.arith %19, %32 {kind = "add"} : (i32, i32) -> (i32)
        stage.store_shared %29, %staging, %31, %c0_3 : (!stage.fragment<bf16, [64, 64], wgmma>, !stage.buffer<bf16, [64, 64], 4, shared, "128B">, i32, i32)
        stage.role_barrier {id = "store.filled"}
        %34 = stage.arith %20, %c64_3 {kind = "add"} : (i32, i32) -> (i32)
        stage.tma_store %staging, %31, %C, %33, %34 {box = [64 : i32, 64 : i32]} : (!stage.buffer<bf16, [64, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
        stage.commit %staging_ring, %slot_5 {how = ["bulk"], bytes = 0 : i32} : (!stage.ring, i32)
        %35 = stage.read_accumulator %18, %c128_4, %some {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 256]>, i32, i1) -> (!stage.fragment<f32, [64, 64], wgmma>)
        %36 = stage.cast %35 : (!stage.fragment<f32, [64, 64], wgmma>) -> (!stage.fragment<bf16, [64, 64], wgmma>)
        %slot_6 = stage.acquire %staging_ring : (!stage.ring) -> (i32)
        %group_2 = stage.group : () -> (i32)
        %37 = stage.arith %slot_6, %c2 {kind = "mul"} : (i32, i32) -> (i32)
        %38 = stage.arith %37, %group_2 {kind = "add"} : (i32, i32) -> (i32)
        %39 = stage.arith %group_2, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        %40 = stage.arith %19, %39 {kind = "add"} : (i32, i32) -> (i32)
        stage.store_shared %36, %staging, %38, %c0_3 : (!stage.fragment<bf16, [64, 64], wgmma>, !stage.buffer<bf16, [64, 64], 4, shared, "128B">, i32, i32)
        stage.role_barrier {id = "store.filled"}
        %41 = stage.arith %20, %c128_4 {kind = "add"} : (i32, i32) -> (i32)
        stage.tma_store %staging, %38, %C, %40, %41 {box = [64 : i32, 64 : i32]} : (!stage.buffer<bf16, [64, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
        stage.commit %staging_ring, %slot_6 {how = ["bulk"], bytes = 0 : i32} : (!stage.ring, i32)
        %c192 = stage.const {constant = 192 : i32} : () -> (i32)
        %42 = stage.read_accumulator %18, %c192, %some {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 256]>, i32, i1) -> (!stage.fragment<f32, [64, 64], wgmma>)
        %43 = stage.cast %42 : (!stage.fragment<f32, [64, 64], wgmma>) -> (!stage.fragment<bf16, [64, 64], wgmma>)
        %slot_7 = stage.acquire %staging_ring : (!stage.ring) -> (i32)
        %group_3 = stage.group : () -> (i32)
        %44 = stage.arith %slot_7, %c2 {kind = "mul"} : (i32, i32) -> (i32)
        %45 = stage.arith %44, %group_3 {kind = "add"} : (i32, i32) -> (i32)
        %46 = stage.arith %group_3, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        %47 = stage.arith %19, %46 {kind = "add"} : (i32, i32) -> (i32)
        stage.store_shared %43, %staging, %45, %c0_3 : (!stage.fragment<bf16, [64, 64], wgmma>, !stage.buffer<bf16, [64, 64], 4, shared, "128B">, i32, i32)
        stage.role_barrier {id = "store.filled"}
        %48 = stage.arith %20, %c192 {kind = "add"} : (i32, i32) -> (i32)
        stage.tma_store %staging, %45, %C, %47, %48 {box = [64 : i32, 64 : i32]} : (!stage.buffer<bf16, [64, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
        stage.commit %staging_ring, %slot_7 {how = ["bulk"], bytes = 0 : i32} : (!stage.ring, i32)
        stage.release %result, %slot_3 {how = ["tensor"]} : (!stage.ring, i32)
        stage.yield ()
      }
      stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
    }
  }
}
