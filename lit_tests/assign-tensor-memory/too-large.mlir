// Three accumulators of 256 columns do not fit.
// RUN: not tkc-opt %s -p 'assign-tensor-memory' 2>&1 | filecheck %s

// CHECK: [TK205]

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "gemm", arg_names = ["A", "B", "C"], contract = {}, shared_bytes = 229480 : i32} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %a = stage.alloc {sym_name = "a", offset = 0 : i32} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %b = stage.alloc {sym_name = "b", offset = 65536 : i32} : () -> (!stage.buffer<bf16, [256, 64], 4, shared, "128B">)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 256], 3, tensor, "none">)
    %inputs_full = stage.barriers {sym_name = "inputs.full", depth = 4 : i32, count = 1 : i32, offset = 229376 : i32} : () -> (!stage.mbarriers)
    %inputs_empty = stage.barriers {sym_name = "inputs.empty", depth = 4 : i32, count = 1 : i32, offset = 229408 : i32} : () -> (!stage.mbarriers)
    %result_full = stage.barriers {sym_name = "result.full", depth = 2 : i32, count = 1 : i32, offset = 229440 : i32} : () -> (!stage.mbarriers)
    %result_empty = stage.barriers {sym_name = "result.empty", depth = 2 : i32, count = 4 : i32, offset = 229456 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      %elected_one = stage.elected {scope = "one"} : () -> (i1)
      stage.if %elected_one : (i1) do {
        %c0 = stage.const {constant = 0 : i32} : () -> (i32)
        %c128 = stage.const {constant = 128 : i32} : () -> (i32)
        %0 = stage.arith %M, %c128 {kind = "cdiv"} : (i32, i32) -> (i32)
        %c256 = stage.const {constant = 256 : i32} : () -> (i32)
        %1 = stage.arith %N, %c256 {kind = "cdiv"} : (i32, i32) -> (i32)
        %2 = stage.arith %0, %1 {kind = "mul"} : (i32, i32) -> (i32)
        %unit = stage.unit {which = "index"} : () -> (i32)
        %units = stage.unit {which = "count"} : () -> (i32)
        %3, %4 = stage.for %unit, %2, %units, %c0, %c0 : (i32, i32, i32, i32, i32) -> (i32, i32) do {
        ^bb0(%item: i32, %inputs_slot: i32, %inputs_phase: i32):
          %c8 = stage.const {constant = 8 : i32} : () -> (i32)
          %5 = stage.arith %c8, %1 {kind = "mul"} : (i32, i32) -> (i32)
          %6 = stage.arith %item, %5 {kind = "div"} : (i32, i32) -> (i32)
          %7 = stage.arith %6, %c8 {kind = "mul"} : (i32, i32) -> (i32)
          %8 = stage.arith %0, %7 {kind = "sub"} : (i32, i32) -> (i32)
          %9 = stage.arith %8, %c8 {kind = "min"} : (i32, i32) -> (i32)
          %10 = stage.arith %6, %5 {kind = "mul"} : (i32, i32) -> (i32)
          %11 = stage.arith %item, %10 {kind = "sub"} : (i32, i32) -> (i32)
          %12 = stage.arith %11, %9 {kind = "mod"} : (i32, i32) -> (i32)
          %m = stage.arith %7, %12 {kind = "add"} : (i32, i32) -> (i32)
          %n = stage.arith %11, %9 {kind = "div"} : (i32, i32) -> (i32)
          %c64 = stage.const {constant = 64 : i32} : () -> (i32)
          %13 = stage.arith %K, %c64 {kind = "cdiv"} : (i32, i32) -> (i32)
          %c0_1 = stage.const {constant = 0 : i32} : () -> (i32)
          %c1 = stage.const {constant = 1 : i32} : () -> (i32)
          %14, %15 = stage.for %c0_1, %13, %c1, %inputs_slot, %inputs_phase : (i32, i32, i32, i32, i32) -> (i32, i32) do {
          ^bb0(%k: i32, %inputs_slot_1: i32, %inputs_phase_1: i32):
            %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
            %16 = stage.arith %inputs_phase_1, %c1_1 {kind = "xor"} : (i32, i32) -> (i32)
            stage.mbarrier_wait %inputs_empty, %inputs_slot_1, %16 {by = "one", id = "load.inputs.empty"} : (!stage.mbarriers, i32, i32)
            stage.mbarrier_expect %inputs_full, %inputs_slot_1 {bytes = 49152 : i32, by = "one", id = "load.inputs.expect"} : (!stage.mbarriers, i32)
            %c0_2 = stage.const {constant = 0 : i32} : () -> (i32)
            %17 = stage.arith %inputs_slot_1, %c1_1 {kind = "add"} : (i32, i32) -> (i32)
            %c4 = stage.const {constant = 4 : i32} : () -> (i32)
            %18 = stage.arith %17, %c4 {kind = "eq"} : (i32, i32) -> (i1)
            %19 = stage.arith %18, %c0_2, %17 {kind = "select"} : (i1, i32, i32) -> (i32)
            %20 = stage.arith %18, %c1_1, %c0_2 {kind = "select"} : (i1, i32, i32) -> (i32)
            %21 = stage.arith %inputs_phase_1, %20 {kind = "xor"} : (i32, i32) -> (i32)
            %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
            %22 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
            %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
            %23 = stage.arith %k, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
            stage.tma_load %A, %a, %inputs_slot_1, %22, %23, %inputs_full {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 1>} : (!tile.tensor<bf16, [M, K]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32, !stage.mbarriers)
            %c256_1 = stage.const {constant = 256 : i32} : () -> (i32)
            %24 = stage.arith %n, %c256_1 {kind = "mul"} : (i32, i32) -> (i32)
            %25 = stage.arith %k, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
            stage.tma_load %B, %b, %inputs_slot_1, %24, %25, %inputs_full {box = [256 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 1>} : (!tile.tensor<bf16, [N, K]>, !stage.buffer<bf16, [256, 64], 4, shared, "128B">, i32, i32, i32, !stage.mbarriers)
            stage.yield %19, %21 : (i32, i32)
          }
          stage.yield %14, %15 : (i32, i32)
        }
        stage.yield ()
      }
    }
    stage.role {sym_name = "math", warps = 1 : i32, first_warp = 5 : i32, groups = 1 : i32} do {
      %elected_one_1 = stage.elected {scope = "one"} : () -> (i1)
      stage.if %elected_one_1 : (i1) do {
        %c0_3 = stage.const {constant = 0 : i32} : () -> (i32)
        %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
        %26 = stage.arith %M, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
        %c256_2 = stage.const {constant = 256 : i32} : () -> (i32)
        %27 = stage.arith %N, %c256_2 {kind = "cdiv"} : (i32, i32) -> (i32)
        %28 = stage.arith %26, %27 {kind = "mul"} : (i32, i32) -> (i32)
        %unit_1 = stage.unit {which = "index"} : () -> (i32)
        %units_1 = stage.unit {which = "count"} : () -> (i32)
        %29, %30, %31, %32 = stage.for %unit_1, %28, %units_1, %c0_3, %c0_3, %c0_3, %c0_3 : (i32, i32, i32, i32, i32, i32, i32) -> (i32, i32, i32, i32) do {
        ^bb0(%item_1: i32, %result_slot: i32, %result_phase: i32, %inputs_slot_2: i32, %inputs_phase_2: i32):
          %c8_1 = stage.const {constant = 8 : i32} : () -> (i32)
          %33 = stage.arith %c8_1, %27 {kind = "mul"} : (i32, i32) -> (i32)
          %34 = stage.arith %item_1, %33 {kind = "div"} : (i32, i32) -> (i32)
          %35 = stage.arith %34, %c8_1 {kind = "mul"} : (i32, i32) -> (i32)
          %36 = stage.arith %26, %35 {kind = "sub"} : (i32, i32) -> (i32)
          %37 = stage.arith %36, %c8_1 {kind = "min"} : (i32, i32) -> (i32)
          %38 = stage.arith %34, %33 {kind = "mul"} : (i32, i32) -> (i32)
          %39 = stage.arith %item_1, %38 {kind = "sub"} : (i32, i32) -> (i32)
          %40 = stage.arith %39, %37 {kind = "mod"} : (i32, i32) -> (i32)
          %m_1 = stage.arith %35, %40 {kind = "add"} : (i32, i32) -> (i32)
          %n_1 = stage.arith %39, %37 {kind = "div"} : (i32, i32) -> (i32)
          %c1_2 = stage.const {constant = 1 : i32} : () -> (i32)
          %41 = stage.arith %result_phase, %c1_2 {kind = "xor"} : (i32, i32) -> (i32)
          stage.mbarrier_wait %result_empty, %result_slot, %41 {by = "one", id = "math.result.empty"} : (!stage.mbarriers, i32, i32)
          %c0_4 = stage.const {constant = 0 : i32} : () -> (i32)
          %42 = stage.arith %result_slot, %c1_2 {kind = "add"} : (i32, i32) -> (i32)
          %c2 = stage.const {constant = 2 : i32} : () -> (i32)
          %43 = stage.arith %42, %c2 {kind = "eq"} : (i32, i32) -> (i1)
          %44 = stage.arith %43, %c0_4, %42 {kind = "select"} : (i1, i32, i32) -> (i32)
          %45 = stage.arith %43, %c1_2, %c0_4 {kind = "select"} : (i1, i32, i32) -> (i32)
          %46 = stage.arith %result_phase, %45 {kind = "xor"} : (i32, i32) -> (i32)
          %47 = stage.open %d, %result_slot : (!stage.buffer<f32, [128, 256], 3, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 256]>)
          %48 = stage.zero %47 : (!stage.accumulator<f32, [128, 256]>) -> (!stage.accumulator<f32, [128, 256]>)
          %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
          %49 = stage.arith %K, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
          %c0_5 = stage.const {constant = 0 : i32} : () -> (i32)
          %c1_3 = stage.const {constant = 1 : i32} : () -> (i32)
          %50, %51, %52 = stage.for %c0_5, %49, %c1_3, %48, %inputs_slot_2, %inputs_phase_2 : (i32, i32, i32, !stage.accumulator<f32, [128, 256]>, i32, i32) -> (!stage.accumulator<f32, [128, 256]>, i32, i32) do {
          ^bb0(%k_1: i32, %53: !stage.accumulator<f32, [128, 256]>, %inputs_slot_3: i32, %inputs_phase_3: i32):
            %c1_4 = stage.const {constant = 1 : i32} : () -> (i32)
            stage.mbarrier_wait %inputs_full, %inputs_slot_3, %inputs_phase_3 {by = "one", id = "math.inputs.full"} : (!stage.mbarriers, i32, i32)
            stage.tcgen05_fence {side = "after_thread_sync", id = "math.fence.0", by = "one"}
            %c0_6 = stage.const {constant = 0 : i32} : () -> (i32)
            %54 = stage.arith %inputs_slot_3, %c1_4 {kind = "add"} : (i32, i32) -> (i32)
            %c4_1 = stage.const {constant = 4 : i32} : () -> (i32)
            %55 = stage.arith %54, %c4_1 {kind = "eq"} : (i32, i32) -> (i1)
            %56 = stage.arith %55, %c0_6, %54 {kind = "select"} : (i1, i32, i32) -> (i32)
            %57 = stage.arith %55, %c1_4, %c0_6 {kind = "select"} : (i1, i32, i32) -> (i32)
            %58 = stage.arith %inputs_phase_3, %57 {kind = "xor"} : (i32, i32) -> (i32)
            %59 = stage.mma %53, %a, %inputs_slot_3, %b, %inputs_slot_3 {trans_a = 0 : i32, trans_b = 1 : i32} : (!stage.accumulator<f32, [128, 256]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.buffer<bf16, [256, 64], 4, shared, "128B">, i32) -> (!stage.accumulator<f32, [128, 256]>)
            stage.tcgen05_fence {side = "before_thread_sync", id = "math.fence.1", by = "one"}
            stage.tcgen05_commit %inputs_empty, %inputs_slot_3 {id = "math.inputs.release"} : (!stage.mbarriers, i32)
            stage.yield %59, %56, %58 : (!stage.accumulator<f32, [128, 256]>, i32, i32)
          }
          stage.tcgen05_commit %result_full, %result_slot {id = "math.result.commit"} : (!stage.mbarriers, i32)
          stage.yield %44, %46, %51, %52 : (i32, i32, i32, i32)
        }
        stage.yield ()
      }
    }
    %staging = stage.alloc {sym_name = "store.staging", staging, offset = 196608 : i32} : () -> (!stage.buffer<bf16, [128, 64], 2, shared, "128B">)
    %c0_7 = stage.const {constant = 0 : i32} : () -> (i32)
    %some = stage.arith %c0_7, %K {kind = "lt"} : (i32, i32) -> (i1)
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %elected_lane = stage.elected {scope = "lane"} : () -> (i1)
      %elected_one_2 = stage.elected {scope = "one"} : () -> (i1)
      %c0_8 = stage.const {constant = 0 : i32} : () -> (i32)
      %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
      %60 = stage.arith %M, %c128_3 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c256_3 = stage.const {constant = 256 : i32} : () -> (i32)
      %61 = stage.arith %N, %c256_3 {kind = "cdiv"} : (i32, i32) -> (i32)
      %62 = stage.arith %60, %61 {kind = "mul"} : (i32, i32) -> (i32)
      %unit_2 = stage.unit {which = "index"} : () -> (i32)
      %units_2 = stage.unit {which = "count"} : () -> (i32)
      %63, %64, %65 = stage.for %unit_2, %62, %units_2, %c0_8, %c0_8, %c0_8 : (i32, i32, i32, i32, i32, i32) -> (i32, i32, i32) do {
      ^bb0(%item_2: i32, %result_slot_1: i32, %result_phase_1: i32, %store_staging_slot: i32):
        %c8_2 = stage.const {constant = 8 : i32} : () -> (i32)
        %66 = stage.arith %c8_2, %61 {kind = "mul"} : (i32, i32) -> (i32)
        %67 = stage.arith %item_2, %66 {kind = "div"} : (i32, i32) -> (i32)
        %68 = stage.arith %67, %c8_2 {kind = "mul"} : (i32, i32) -> (i32)
        %69 = stage.arith %60, %68 {kind = "sub"} : (i32, i32) -> (i32)
        %70 = stage.arith %69, %c8_2 {kind = "min"} : (i32, i32) -> (i32)
        %71 = stage.arith %67, %66 {kind = "mul"} : (i32, i32) -> (i32)
        %72 = stage.arith %item_2, %71 {kind = "sub"} : (i32, i32) -> (i32)
        %73 = stage.arith %72, %70 {kind = "mod"} : (i32, i32) -> (i32)
        %m_2 = stage.arith %68, %73 {kind = "add"} : (i32, i32) -> (i32)
        %n_2 = stage.arith %72, %70 {kind = "div"} : (i32, i32) -> (i32)
        %c1_5 = stage.const {constant = 1 : i32} : () -> (i32)
        stage.mbarrier_wait %result_full, %result_slot_1, %result_phase_1 {by = "all", id = "store.result.full"} : (!stage.mbarriers, i32, i32)
        %c0_9 = stage.const {constant = 0 : i32} : () -> (i32)
        %74 = stage.arith %result_slot_1, %c1_5 {kind = "add"} : (i32, i32) -> (i32)
        %c2_1 = stage.const {constant = 2 : i32} : () -> (i32)
        %75 = stage.arith %74, %c2_1 {kind = "eq"} : (i32, i32) -> (i1)
        %76 = stage.arith %75, %c0_9, %74 {kind = "select"} : (i1, i32, i32) -> (i32)
        %77 = stage.arith %75, %c1_5, %c0_9 {kind = "select"} : (i1, i32, i32) -> (i32)
        %78 = stage.arith %result_phase_1, %77 {kind = "xor"} : (i32, i32) -> (i32)
        %79 = stage.open %d, %result_slot_1 : (!stage.buffer<f32, [128, 256], 3, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 256]>)
        %c128_4 = stage.const {constant = 128 : i32} : () -> (i32)
        %80 = stage.arith %m_2, %c128_4 {kind = "mul"} : (i32, i32) -> (i32)
        %c256_4 = stage.const {constant = 256 : i32} : () -> (i32)
        %81 = stage.arith %n_2, %c256_4 {kind = "mul"} : (i32, i32) -> (i32)
        %c0_10 = stage.const {constant = 0 : i32} : () -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        %82 = stage.for %c0_10, %c256_4, %c64_3, %store_staging_slot : (i32, i32, i32, i32) -> (i32) do {
        ^bb0(%column: i32, %store_staging_slot_1: i32):
          stage.tcgen05_fence {side = "after_thread_sync", id = "store.fence.0", by = "all"}
          %83 = stage.read_accumulator %79, %column, %some {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 256]>, i32, i1) -> (!stage.fragment<f32, [128, 64], rows>)
          %84 = stage.cast %83 : (!stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<bf16, [128, 64], rows>)
          %c1_6 = stage.const {constant = 1 : i32} : () -> (i32)
          stage.tcgen05_fence {side = "before_thread_sync", id = "store.fence.1", by = "all"}
          stage.if %elected_one_2 : (i1) do {
            stage.bulk_wait {pending = 1 : i32, read, id = "store.store.staging.drained"}
            stage.yield ()
          }
          stage.role_barrier {id = "store.store.staging.free"}
          stage.proxy_fence {space = "shared::cta", guards = ["store.staging"], id = "store.fence.2"}
          %c0_11 = stage.const {constant = 0 : i32} : () -> (i32)
          %85 = stage.arith %store_staging_slot_1, %c1_6 {kind = "add"} : (i32, i32) -> (i32)
          %c2_2 = stage.const {constant = 2 : i32} : () -> (i32)
          %86 = stage.arith %85, %c2_2 {kind = "eq"} : (i32, i32) -> (i1)
          %87 = stage.arith %86, %c0_11, %85 {kind = "select"} : (i1, i32, i32) -> (i32)
          %c0_12 = stage.const {constant = 0 : i32} : () -> (i32)
          stage.store_shared %84, %staging, %store_staging_slot_1, %c0_12 : (!stage.fragment<bf16, [128, 64], rows>, !stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, i32)
          stage.proxy_fence {space = "shared::cta", guards = ["store.staging"], id = "store.fence.3"}
          stage.role_barrier {id = "store.filled"}
          %88 = stage.arith %81, %column {kind = "add"} : (i32, i32) -> (i32)
          stage.if %elected_one_2 : (i1) do {
            stage.tma_store %staging, %store_staging_slot_1, %C, %80, %88 {box = [128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, !tile.tensor<bf16, [M, N]>, i32, i32)
            stage.bulk_commit {id = "store.store.staging.commit"}
            stage.yield ()
          }
          stage.yield %87 : (i32)
        }
        stage.warp_sync {id = "store.result.release.warp"}
        stage.if %elected_lane : (i1) do {
          stage.mbarrier_arrive %result_empty, %result_slot_1 {by = "lane", id = "store.result.release"} : (!stage.mbarriers, i32)
          stage.yield ()
        }
        stage.yield %76, %78, %82 : (i32, i32, i32)
      }
      stage.if %elected_one_2 : (i1) do {
        stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
        stage.yield ()
      }
    }
  }
}
