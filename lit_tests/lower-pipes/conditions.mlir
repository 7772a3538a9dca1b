// Under a condition a ring moves on only where an item is taken: both ways hand on where it stands.
// RUN: tkc-opt %s -p 'lower-pipes' | filecheck %s

// CHECK: sym_name = "one"
// CHECK: %[[SLOT:.*]], %[[PHASE:.*]] = stage.if %{{.*}} : (i1) -> (i32, i32) do {
// CHECK: stage.mbarrier_wait %p_empty
// CHECK: stage.yield %{{.*}}, %{{.*}} : (i32, i32)
// CHECK-NEXT: }, {
// CHECK-NEXT: stage.yield %[[ZERO:.*]], %[[ZERO]] : (i32, i32)
// A way that takes two items, and a value that a condition already had.
// CHECK: stage.if %{{.*}} : (i1) -> (i32, i32, i32) do {
// CHECK-NEXT: stage.yield %{{.*}}, %[[SLOT]], %[[PHASE]]
// CHECK: stage.mbarrier_wait %p_empty, %[[SLOT]]
// CHECK: stage.mbarrier_wait %p_empty
// CHECK-NOT: stage.acquire

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %yes = stage.const {constant = 1 : i1} : () -> (i1)
    %seven = stage.const {constant = 7 : i32} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<f32, [128, 64], 3, shared, "128B">)
    %p = stage.pipe %t {sym_name = "p", kind = "full_empty", depth = 3 : i32, producers = ["one"], consumers = ["two"]} : (!stage.buffer<f32, [128, 64], 3, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "one", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.if %yes : (i1) do {
        %s = stage.acquire %p : (!stage.ring) -> (i32)
        stage.commit %p, %s {how = [], bytes = 0 : i32} : (!stage.ring, i32)
        stage.yield ()
      }
      %x = stage.if %yes : (i1) -> (i32) do {
        stage.yield %seven : (i32)
      }, {
        %s1 = stage.acquire %p : (!stage.ring) -> (i32)
        stage.commit %p, %s1 {how = [], bytes = 0 : i32} : (!stage.ring, i32)
        %s2 = stage.acquire %p : (!stage.ring) -> (i32)
        stage.commit %p, %s2 {how = [], bytes = 0 : i32} : (!stage.ring, i32)
        stage.yield %s2 : (i32)
      }
    }
    stage.role {sym_name = "two", warps = 4 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      %s = stage.wait %p : (!stage.ring) -> (i32)
      stage.release %p, %s {how = []} : (!stage.ring, i32)
    }
  }
}
