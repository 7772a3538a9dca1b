// One axis is the item itself; of three, the last two go in bands and the first is slowest. The grid is persistent.
// RUN: tkc-opt %s -p 'lower-schedules' | filecheck %s

// CHECK: grid = [{op = "min", of = [{sym = "sm_count"}, {op = "max", of = [{sym = "M"}, {op = "mul", of = [{sym = "B"}, {sym = "M"}, {sym = "N"}]}, {op = "mul", of = [{sym = "M"}, {sym = "N"}]}]}]}, 1 : i64, 1 : i64]

// CHECK: sym_name = "line"
// CHECK: %[[UNIT:.*]] = stage.unit {which = "index"}
// CHECK: stage.for %[[UNIT]], %M, %{{.*}} do {
// CHECK-NEXT: ^bb0(%[[ITEM:.*]]: i32):
// CHECK-NEXT: stage.arith %[[ITEM]], %[[ITEM]] {kind = "add"}

// CHECK: sym_name = "space"
// CHECK: %[[ROWS:.*]] = stage.arith %B, %M {kind = "mul"}
// CHECK: %[[ALL:.*]] = stage.arith %[[ROWS]], %N {kind = "mul"}
// CHECK: %[[SUM:.*]] = stage.for %{{.*}}, %[[ALL]], %{{.*}}, %zero : (i32, i32, i32, i32) -> (i32) do {
// CHECK-NEXT: ^bb0(%[[ITEM:.*]]: i32, %[[CARRIED:.*]]: i32):
// CHECK-NEXT: %[[PLANE:.*]] = stage.arith %M, %N {kind = "mul"}
// CHECK-NEXT: %b = stage.arith %[[ITEM]], %[[PLANE]] {kind = "div"}
// CHECK-NEXT: %[[IN:.*]] = stage.arith %[[ITEM]], %[[PLANE]] {kind = "mod"}
// CHECK: %[[BAND:.*]] = stage.arith %[[IN]], %{{.*}} {kind = "div"}
// CHECK: %m = stage.arith
// CHECK-NEXT: %n = stage.arith
// CHECK-NEXT: stage.arith %b, %m {kind = "add"}
// CHECK-NEXT: stage.yield %n
// CHECK: stage.arith %[[SUM]], %[[SUM]] {kind = "add"}

// CHECK: sym_name = "down"
// CHECK: stage.for
// CHECK: %[[LAST:.*]] = stage.arith %N, %{{.*}} {kind = "sub"}
// CHECK-NEXT: %[[N:.*]] = stage.arith %[[LAST]], %{{.*}} {kind = "sub"}
// CHECK-NEXT: stage.arith %{{.*}}, %[[N]] {kind = "add"}

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %B = stage.size {symbol = "B"} : () -> (i32)
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    stage.role {sym_name = "line", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.work_loop %M {schedule = "line", group = 8 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %x = stage.arith %m, %m {kind = "add"} : (i32, i32) -> (i32)
        stage.yield ()
      }
    }
    stage.role {sym_name = "space", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      %s = stage.work_loop %B, %M, %N, %zero {schedule = "space", group = 8 : i32, operandSegmentSizes = array<i32: 3, 1>} : (i32, i32, i32, i32) -> (i32) do {
      ^bb0(%b: i32, %m: i32, %n: i32, %c: i32):
        %x = stage.arith %b, %m {kind = "add"} : (i32, i32) -> (i32)
        stage.yield %n : (i32)
      }
      %y = stage.arith %s, %s {kind = "add"} : (i32, i32) -> (i32)
    }
    stage.role {sym_name = "down", warps = 1 : i32, first_warp = 2 : i32, groups = 1 : i32} do {
      stage.work_loop %M, %N {schedule = "down", group = 1 : i32, outermost = 1 : i32, descending, operandSegmentSizes = array<i32: 2, 0>} : (i32, i32) do {
      ^bb0(%m: i32, %n: i32):
        %x = stage.arith %m, %n {kind = "add"} : (i32, i32) -> (i32)
        stage.yield ()
      }
    }
  }
}
