// Guards that a program writes, in the forms in which people write them: each is one branch on an elected predicate.
// RUN: tkc-opt %s -p 'elect-single-thread' --split-input-file | filecheck %s

// The lane's number, in a role of four warps: a lane of each warp.
// CHECK: stage.role
// CHECK-NEXT: %[[LANE:.*]] = stage.elected {scope = "lane"} : () -> (i1)
// CHECK: stage.if %[[LANE]] : (i1) do {
// CHECK: stage.bulk_commit

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
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %lane = stage.identity {which = "lane"} : () -> (i32)
      %p = stage.arith %lane, %zero {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}

// -----

// The lane's number, in a role of one warp: its one thread.
// CHECK: stage.role
// CHECK-NEXT: %[[ONE:.*]] = stage.elected {scope = "one"} : () -> (i1)
// CHECK: stage.if %[[ONE]] : (i1) do {
// CHECK: stage.bulk_commit

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
      %p = stage.arith %lane, %one {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}

// -----

// The thread's number modulo 32.
// CHECK: stage.role
// CHECK-NEXT: %[[LANE:.*]] = stage.elected {scope = "lane"} : () -> (i1)
// CHECK: stage.if %[[LANE]] : (i1) do {

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
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %thread = stage.identity {which = "thread"} : () -> (i32)
      %l = stage.arith %thread, %c32 {kind = "mod"} : (i32, i32) -> (i32)
      %p = stage.arith %l, %zero {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}

// -----

// The low bits of the thread's number.
// CHECK: stage.role
// CHECK-NEXT: %[[LANE:.*]] = stage.elected {scope = "lane"} : () -> (i1)
// CHECK: stage.if %[[LANE]] : (i1) do {

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
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %thread = stage.identity {which = "thread"} : () -> (i32)
      %l = stage.arith %thread, %c31 {kind = "and"} : (i32, i32) -> (i32)
      %p = stage.arith %zero, %l {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}

// -----

// A thread's number: a lane of its warp, and the warp.
// CHECK: stage.role
// CHECK-NEXT: %[[LANE:.*]] = stage.elected {scope = "lane"} : () -> (i1)
// CHECK: %[[WARP:.*]] = stage.identity {which = "warp"} : () -> (i32)
// CHECK: %[[C1:.*]] = stage.const {constant = 1 : i32} : () -> (i32)
// CHECK: %[[THAT:.*]] = stage.arith %[[WARP]], %[[C1]] {kind = "eq"}
// CHECK: %[[BOTH:.*]] = stage.arith %[[LANE]], %[[THAT]] {kind = "and"}
// CHECK: stage.if %[[BOTH]] : (i1) do {

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
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %thread = stage.identity {which = "thread"} : () -> (i32)
      %p = stage.arith %thread, %c32 {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}

// -----

// A lane and a warp in one condition, with one that is the same for all.
// CHECK: stage.role
// CHECK-NEXT: %[[LANE:.*]] = stage.elected {scope = "lane"} : () -> (i1)
// CHECK: %[[BOTH:.*]] = stage.arith %[[LANE]], %{{.*}} {kind = "and"}
// CHECK: %[[ALL:.*]] = stage.arith %[[BOTH]], %some {kind = "and"}
// CHECK: stage.if %[[ALL]] : (i1) do {

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
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %lane = stage.identity {which = "lane"} : () -> (i32)
      %warp = stage.identity {which = "warp"} : () -> (i32)
      %a = stage.arith %lane, %one {kind = "lt"} : (i32, i32) -> (i1)
      %b = stage.arith %warp, %one {kind = "eq"} : (i32, i32) -> (i1)
      %ab = stage.arith %a, %b {kind = "and"} : (i1, i1) -> (i1)
      %p = stage.arith %ab, %some {kind = "and"} : (i1, i1) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}

// -----

// A warp's number alone: a guard of the lane stands inside.
// CHECK: stage.role
// CHECK-NEXT: %[[LANE:.*]] = stage.elected {scope = "lane"} : () -> (i1)
// CHECK: %[[P:.*]] = stage.arith %warp, %one {kind = "eq"}
// CHECK: stage.if %[[P]] : (i1) do {
// CHECK: stage.if %[[LANE]] : (i1) do {
// CHECK: stage.bulk_commit

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
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %warp = stage.identity {which = "warp"} : () -> (i32)
      %p = stage.arith %warp, %one {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}

// -----

// An election of the language.
// CHECK: stage.role
// CHECK-NEXT: %[[ONE:.*]] = stage.elected {scope = "one"} : () -> (i1)
// CHECK: stage.if %[[ONE]] : (i1) do {
// CHECK: stage.bulk_commit

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
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %p = stage.elected {scope = "one"} : () -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}

// -----

// A condition that is the same for all threads: the guard stands round it.
// CHECK: stage.role
// CHECK-NEXT: %[[ONE:.*]] = stage.elected {scope = "one"} : () -> (i1)
// CHECK: stage.if %[[ONE]] : (i1) do {
// CHECK: %[[P:.*]] = stage.arith %n, %zero {kind = "eq"}
// CHECK: stage.if %[[P]] : (i1) do {
// CHECK: stage.bulk_commit

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
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %p = stage.arith %n, %zero {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"}
        stage.yield ()
      }
    }
  }
}
