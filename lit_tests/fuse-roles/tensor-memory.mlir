// Roles that meet in tensor memory stay two.
// RUN: tkc-opt %s -p 'fuse-roles' | filecheck %s

// CHECK: stage.pipe %d {sym_name = "result"
// CHECK: stage.role {sym_name = "math"
// CHECK: stage.role {sym_name = "store"

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "gemm", arg_names = ["A", "B", "C"], contract = {}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %a = stage.alloc {sym_name = "a"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %b = stage.alloc {sym_name = "b"} : () -> (!stage.buffer<bf16, [256, 64], 4, shared, "128B">)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 256], 2, tensor, "none">)
    %inputs = stage.pipe %a, %b {sym_name = "inputs", kind = "full_empty", depth = 4 : i32, producers = ["load"], consumers = ["math"]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, !stage.buffer<bf16, [256, 64], 4, shared, "128B">) -> (!stage.ring)
    %result = stage.pipe %d {sym_name = "result", kind = "full_empty", depth = 2 : i32, producers = ["math"], consumers = ["store"]} : (!stage.buffer<f32, [128, 256], 2, tensor, "none">) -> (!stage.ring)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
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
    stage.role {sym_name = "math", warps = 1 : i32, first_warp = 5 : i32, groups = 1 : i32} do {
      %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
      %7 = stage.arith %M, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c256_2 = stage.const {constant = 256 : i32} : () -> (i32)
      %8 = stage.arith %N, %c256_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %7, %8 {schedule = "work", group = 8 : i32, operandSegmentSizes = array<i32: 2, 0>} : (i32, i32) do {
      ^bb0(%m_1: i32, %n_1: i32):
        %slot_1 = stage.acquire %result : (!stage.ring) -> (i32)
        %9 = stage.open %d, %slot_1 : (!stage.buffer<f32, [128, 256], 2, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 256]>)
        %10 = stage.zero %9 : (!stage.accumulator<f32, [128, 256]>) -> (!stage.accumulator<f32, [128, 256]>)
        %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
        %11 = stage.arith %K, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
        %c0_1 = stage.const {constant = 0 : i32} : () -> (i32)
        %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
        %12 = stage.for %c0_1, %11, %c1_1, %10 : (i32, i32, i32, !stage.accumulator<f32, [128, 256]>) -> (!stage.accumulator<f32, [128, 256]>) do {
        ^bb0(%k_1: i32, %13: !stage.accumulator<f32, [128, 256]>):
          %slot_2 = stage.wait %inputs : (!stage.ring) -> (i32)
          %14 = stage.mma %13, %a, %slot_2, %b, %slot_2 {trans_a = 0 : i32, trans_b = 1 : i32} : (!stage.accumulator<f32, [128, 256]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.buffer<bf16, [256, 64], 4, shared, "128B">, i32) -> (!stage.accumulator<f32, [128, 256]>)
          stage.release %inputs, %slot_2 {how = ["tcgen05"]} : (!stage.ring, i32)
          stage.yield %14 : (!stage.accumulator<f32, [128, 256]>)
        }
        stage.commit %result, %slot_1, %12 {how = ["tcgen05"], bytes = 0 : i32} : (!stage.ring, i32, !stage.accumulator<f32, [128, 256]>)
        stage.yield ()
      }
    }
    %staging = stage.alloc {sym_name = "store.staging", staging} : () -> (!stage.buffer<bf16, [128, 64], 2, shared, "128B">)
    %staging_ring = stage.pipe %staging {sym_name = "store.staging", kind = "store", depth = 2 : i32, producers = ["store"], consumers = []} : (!stage.buffer<bf16, [128, 64], 2, shared, "128B">) -> (!stage.ring)
    %c0_2 = stage.const {constant = 0 : i32} : () -> (i32)
    %some = stage.arith %c0_2, %K {kind = "lt"} : (i32, i32) -> (i1)
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
      %15 = stage.arith %M, %c128_3 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c256_3 = stage.const {constant = 256 : i32} : () -> (i32)
      %16 = stage.arith %N, %c256_3 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %15, %16 {schedule = "work", group = 8 : i32, operandSegmentSizes = array<i32: 2, 0>} : (i32, i32) do {
      ^bb0(%m_2: i32, %n_2: i32):
        %slot_3 = stage.wait %result : (!stage.ring) -> (i32)
        %17 = stage.open %d, %slot_3 : (!stage.buffer<f32, [128, 256], 2, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 256]>)
        %c128_4 = stage.const {constant = 128 : i32} : () -> (i32)
        %18 = stage.arith %m_2, %c128_4 {kind = "mul"} : (i32, i32) -> (i32)
        %c256_4 = stage.const {constant = 256 : i32} : () -> (i32)
        %19 = stage.arith %n_2, %c256_4 {kind = "mul"} : (i32, i32) -> (i32)
        %c0_3 = stage.const {constant = 0 : i32} : () -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        stage.for %c0_3, %c256_4, %c64_3 : (i32, i32, i32) do {
        ^bb0(%column: i32):
          %20 = stage.read_accumulator %17, %column, %some {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 256]>, i32, i1) -> (!stage.fragment<f32, [128, 64], rows>)
          %21 = stage.cast %20 : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<bf16, [128, 64], rows>)
          %slot_4 = stage.acquire %staging_ring : (!stage.ring) -> (i32)
          %c0_4 = stage.const {constant = 0 : i32} : () -> (i32)
          stage.store_shared %21, %staging, %slot_4, %c0_4 : (!stage.fragment<bf16, [128, 64], rows>, !stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, i32)
          stage.role_barrier {id = "store.filled"}
          %22 = stage.arith %19, %column {kind = "add"} : (i32, i32) -> (i32)
          stage.tma_store %staging, %slot_4, %C, %18, %22 {box = [128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
          stage.commit %staging_ring, %slot_4 {how = ["bulk"], bytes = 0 : i32} : (!stage.ring, i32)
          stage.yield ()
        }
        stage.release %result, %slot_3 {how = ["tensor"]} : (!stage.ring, i32)
        stage.yield ()
      }
      stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
    }
  }
}
