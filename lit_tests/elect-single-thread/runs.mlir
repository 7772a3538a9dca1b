// Neighbours that the same thread executes share a guard; what all threads do, and values that are used, stay outside.
// RUN: tkc-opt %s -p 'elect-single-thread' | filecheck %s

// CHECK: sym_name = "mixed"
// CHECK-NEXT: %[[LANE:.*]] = stage.elected {scope = "lane"}
// CHECK-NEXT: %[[ONE:.*]] = stage.elected {scope = "one"}
// CHECK-NEXT: %[[TWO:.*]] = stage.arith %one, %one {kind = "add"}
// CHECK-NEXT: stage.if %[[ONE]] : (i1) do {
// CHECK-NEXT: stage.bulk_commit {id = "a"}
// CHECK-NEXT: stage.bulk_wait {pending = 0 : i32, id = "b"}
// CHECK-NEXT: stage.mbarrier_arrive %bars, %[[TWO]] {by = "one"
// CHECK-NEXT: stage.yield
// CHECK-NEXT: }
// CHECK-NEXT: stage.if %[[LANE]] : (i1) do {
// CHECK-NEXT: stage.mbarrier_arrive %bars, %zero {by = "lane"
// CHECK-NEXT: stage.yield
// CHECK-NEXT: }
// CHECK-NEXT: stage.role_barrier {id = "c"}
// A loop whose body one thread runs is guarded whole where nothing carried out of it is used.
// CHECK-NEXT: stage.if %[[ONE]] : (i1) do {
// CHECK-NEXT: stage.for
// CHECK-NEXT: ^bb0
// CHECK-NEXT: stage.bulk_commit {id = "d"}
// CHECK-NEXT: stage.yield
// CHECK-NEXT: }
// CHECK-NEXT: stage.yield
// CHECK-NEXT: }
// Else the guard is inside.
// CHECK-NEXT: %[[SUM:.*]] = stage.for
// CHECK-NEXT: ^bb0(%{{.*}}: i32, %[[C:.*]]: i32):
// CHECK-NEXT: stage.if %[[ONE]] : (i1) do {
// CHECK-NEXT: stage.bulk_commit {id = "e"}
// CHECK-NEXT: stage.yield
// CHECK-NEXT: }
// CHECK-NEXT: stage.yield %[[C]] : (i32)
// CHECK-NEXT: }
// CHECK-NEXT: stage.mbarrier_wait %bars, %[[SUM]], %zero {by = "all"

// CHECK: sym_name = "solo"
// CHECK-NEXT: %[[SOLO:.*]] = stage.elected {scope = "one"}
// CHECK-NEXT: stage.if %[[SOLO]] : (i1) do {
// CHECK-NEXT: %[[T:.*]] = stage.arith
// CHECK-NEXT: stage.mbarrier_wait %bars, %[[T]], %zero {by = "one"
// CHECK-NEXT: stage.bulk_commit
// CHECK-NEXT: stage.yield
// CHECK-NEXT: }

// CHECK: sym_name = "everybody"
// CHECK-NEXT: stage.role_barrier
// CHECK-NOT: stage.elected

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %bars = stage.barriers {sym_name = "bars", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "mixed", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.bulk_commit {id = "a"}
      %two = stage.arith %one, %one {kind = "add"} : (i32, i32) -> (i32)
      stage.bulk_wait {pending = 0 : i32, id = "b"}
      stage.mbarrier_arrive %bars, %two {by = "one", id = "w"} : (!stage.mbarriers, i32)
      stage.mbarrier_arrive %bars, %zero {by = "lane", id = "x"} : (!stage.mbarriers, i32)
      stage.role_barrier {id = "c"}
      stage.for %zero, %one, %one : (i32, i32, i32) do {
      ^bb0(%i: i32):
        stage.bulk_commit {id = "d"}
        stage.yield ()
      }
      %s = stage.for %zero, %one, %one, %zero : (i32, i32, i32, i32) -> (i32) do {
      ^bb0(%i: i32, %c: i32):
        stage.bulk_commit {id = "e"}
        stage.yield %c : (i32)
      }
      stage.mbarrier_wait %bars, %s, %zero {by = "all", id = "y"} : (!stage.mbarriers, i32, i32)
    }
    stage.role {sym_name = "solo", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      %t = stage.arith %one, %one {kind = "add"} : (i32, i32) -> (i32)
      stage.mbarrier_wait %bars, %t, %zero {by = "one", id = "z"} : (!stage.mbarriers, i32, i32)
      stage.bulk_commit {id = "f"}
    }
    stage.role {sym_name = "everybody", warps = 1 : i32, first_warp = 5 : i32, groups = 1 : i32} do {
      stage.role_barrier {id = "g"}
    }
  }
}
