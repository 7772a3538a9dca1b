// A loop on a condition carries where its rings stand; its test takes that, too.
// RUN: tkc-opt %s -p 'lower-pipes' | filecheck %s

// CHECK: stage.role {sym_name = "one"
// CHECK: %left, %{{[0-9]+}}, %{{[0-9]+}} = stage.while %{{.*}}, %{{.*}}, %{{.*}} : (i32, i32, i32) -> (i32, i32, i32) do {
// CHECK-NEXT: ^bb0(%i: i32, %p_slot: i32, %p_phase: i32):
// CHECK-NEXT: %more = stage.arith
// CHECK-NEXT: stage.yield %more : (i1)
// CHECK-NEXT: }, {
// CHECK-NEXT: ^bb0(%j: i32, %p_slot_1: i32, %p_phase_1: i32):
// CHECK: stage.mbarrier_wait %p_empty, %p_slot_1
// CHECK: stage.mbarrier_arrive %p_full, %p_slot_1
// CHECK: stage.yield %next, %{{.*}}, %{{.*}} : (i32, i32, i32)
// CHECK: %twice = stage.arith %left, %left

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<f32, [128, 64], 2, shared, "128B">)
    %p = stage.pipe %t {sym_name = "p", kind = "full_empty", depth = 2 : i32, producers = ["one"], consumers = []} : (!stage.buffer<f32, [128, 64], 2, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "one", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %zero = stage.const {constant = 0 : i32} : () -> (i32)
      %five = stage.const {constant = 5 : i32} : () -> (i32)
      %left = stage.while %zero : (i32) -> (i32) do {
      ^bb0(%i: i32):
        %more = stage.arith %i, %five {kind = "lt"} : (i32, i32) -> (i1)
        stage.yield %more : (i1)
      }, {
      ^bb1(%j: i32):
        %s = stage.acquire %p : (!stage.ring) -> (i32)
        stage.commit %p, %s {how = ["generic"], bytes = 0 : i32} : (!stage.ring, i32)
        %next = stage.arith %j, %s {kind = "add"} : (i32, i32) -> (i32)
        stage.yield %next : (i32)
      }
      %twice = stage.arith %left, %left {kind = "add"} : (i32, i32) -> (i32)
    }
  }
}
