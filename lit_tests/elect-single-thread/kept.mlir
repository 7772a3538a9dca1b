// A condition that no election can stand for: it stays.
// RUN: tkc-opt %s -p 'elect-single-thread' | filecheck %s

// CHECK: %[[P:.*]] = stage.arith %lane, %zero {kind = "eq"}
// CHECK-NEXT: stage.if %[[P]] : (i1) do {

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "k", arg_names = ["X"], contract = {}} do {
  ^bb0(%X: !tile.tensor<bf16, [64, 64]>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %c32 = stage.const {constant = 32 : i32} : () -> (i32)
    %c31 = stage.const {constant = 31 : i32} : () -> (i32)
    %n = stage.size {symbol = "n"} : () -> (i32)
    %some = stage.arith %zero, %n {kind = "lt"} : (i32, i32) -> (i1)
    %full = stage.barriers {sym_name = "full", depth = 2 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "r", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %lane = stage.identity {which = "lane"} : () -> (i32)
      %p = stage.arith %lane, %zero {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.mbarrier_arrive %full, %lane {by = "one", id = "a"} : (!stage.mbarriers, i32)
        stage.yield ()
      }
    }
  }
}
