// Each role waits for the other first. Where barriers keep no protocol nothing is proved, and every fence stays.
// RUN: tkc-opt %s -p 'insert-fences,eliminate-fences' | filecheck %s

// CHECK-NOT: verdict = "removed"
// CHECK: stage.tcgen05_fence {side = "after_thread_sync", id = "math.fence.0", by = "one"}
// CHECK: stage.tcgen05_fence {side = "before_thread_sync", id = "math.fence.1", by = "one"}
// CHECK: stage.tcgen05_fence {side = "after_thread_sync", id = "store.fence.0", by = "all"}
// CHECK: stage.tcgen05_fence {side = "before_thread_sync", id = "store.fence.1", by = "all"}

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %a = stage.alloc {sym_name = "a"} : () -> (!stage.buffer<bf16, [128, 64], 1, shared, "128B">)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 128], 1, tensor, "none">)
    %full = stage.barriers {sym_name = "full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %empty = stage.barriers {sym_name = "empty", depth = 1 : i32, count = 128 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "math", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %empty, %zero, %zero {by = "one", id = "w"} : (!stage.mbarriers, i32, i32)
      %x = stage.open %d, %zero : (!stage.buffer<f32, [128, 128], 1, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 128]>)
      %y = stage.mma %x, %a, %zero, %a, %zero {trans_a = 0 : i32, trans_b = 1 : i32} : (!stage.accumulator<f32, [128, 128]>, !stage.buffer<bf16, [128, 64], 1, shared, "128B">, i32, !stage.buffer<bf16, [128, 64], 1, shared, "128B">, i32) -> (!stage.accumulator<f32, [128, 128]>)
      stage.tcgen05_commit %full, %zero {id = "c"} : (!stage.mbarriers, i32)
    }
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %full, %zero, %zero {by = "all", id = "w"} : (!stage.mbarriers, i32, i32)
      %x = stage.open %d, %zero : (!stage.buffer<f32, [128, 128], 1, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 128]>)
      %f = stage.read_accumulator %x, %zero {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 128]>, i32) -> (!stage.fragment<f32, [128, 64], rows>)
      %g = stage.read_accumulator %x, %zero {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 128]>, i32) -> (!stage.fragment<f32, [128, 64], rows>)
      stage.mbarrier_arrive %empty, %zero {by = "all", id = "a"} : (!stage.mbarriers, i32)
    }
  }
}
