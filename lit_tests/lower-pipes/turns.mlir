// Two roles take items in turn: each knows whose turn it is, passes the other's items, and alone frees the slots of its own.
// RUN: tkc-opt %s -p 'lower-pipes' --split-input-file | filecheck %s

// CHECK: {sym_name = "p.full", depth = 4 : i32, count = 1 : i32}
// CHECK: {sym_name = "p.empty", depth = 4 : i32, count = 4 : i32}
// CHECK: sym_name = "two"
// CHECK: %[[MINE:.*]] = stage.arith %p_turn{{.*}}, %{{.*}} {kind = "eq"}
// CHECK: stage.if %[[MINE]] : (i1) -> (i32, i32, i32) do {
// CHECK: stage.mbarrier_wait %p_full, %p_slot{{.*}}, %p_phase
// CHECK: }, {
// CHECK-NOT: stage.mbarrier_wait
// CHECK-NOT: stage.mbarrier_arrive
// CHECK: stage.arith %p_slot{{.*}}, %{{.*}} {kind = "add"}
// CHECK: stage.yield

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %seven = stage.const {constant = 7 : i32} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<f32, [128, 64], 4, shared, "128B">)
    %p = stage.pipe %t {sym_name = "p", kind = "full_empty", depth = 4 : i32, producers = ["one"], consumers = ["two", "three"], turns} : (!stage.buffer<f32, [128, 64], 4, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "one", warps = 1 : i32, first_warp = 8 : i32, groups = 1 : i32} do {
      stage.for %zero, %seven, %one : (i32, i32, i32) do {
      ^bb0(%i: i32):
        %s = stage.acquire %p : (!stage.ring) -> (i32)
        stage.commit %p, %s {how = [], bytes = 0 : i32} : (!stage.ring, i32)
        stage.yield ()
      }
    }
    stage.role {sym_name = "two", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.for %zero, %seven, %one : (i32, i32, i32) do {
      ^bb0(%i: i32):
        %mine = stage.turn %p {index = 0 : i32, count = 2 : i32} : (!stage.ring) -> (i1)
        stage.if %mine : (i1) do {
          %s = stage.wait %p : (!stage.ring) -> (i32)
          stage.release %p, %s {how = ["generic"]} : (!stage.ring, i32)
          stage.yield ()
        }, {
          stage.skip %p : (!stage.ring)
          stage.yield ()
        }
        stage.yield ()
      }
    }
    stage.role {sym_name = "three", warps = 4 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      stage.for %zero, %seven, %one : (i32, i32, i32) do {
      ^bb0(%i: i32):
        %mine = stage.turn %p {index = 1 : i32, count = 2 : i32} : (!stage.ring) -> (i1)
        stage.if %mine : (i1) do {
          %s = stage.wait %p : (!stage.ring) -> (i32)
          stage.release %p, %s {how = ["generic"]} : (!stage.ring, i32)
          stage.yield ()
        }, {
          stage.skip %p : (!stage.ring)
          stage.yield ()
        }
        stage.yield ()
      }
    }
  }
}
