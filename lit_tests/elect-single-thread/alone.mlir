// Places that not all threads reach, with something in them that takes all, or that one of many should do.
// RUN: tkc-opt %s -p 'elect-single-thread' --split-input-file --expect-errors

// All threads of the role meet where only one of a warp comes.
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
        stage.role_barrier {id = "b"} // error: `sync role` takes all threads of the role and stands in a place which one thread of a warp runs alone
        stage.yield ()
      }
    }
  }
}

// -----

// The lanes of a warp meet in an election.
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
      %p = stage.elected {scope = "lane"} : () -> (i1)
      stage.if %p : (i1) do {
        stage.warp_sync {id = "b"} // error: `sync warp` takes all threads
        stage.yield ()
      }
    }
  }
}

// -----

// The role meets where one warp comes.
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
      %p = stage.arith %warp, %zero {kind = "eq"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.role_barrier {id = "b"} // error: which one warp of the role runs alone
        stage.yield ()
      }
    }
  }
}

// -----

// One thread's work where two warps come.
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
      %p = stage.arith %warp, %c31 {kind = "lt"} : (i32, i32) -> (i1)
      stage.if %p : (i1) do {
        stage.bulk_commit {id = "c"} // error: `commit stores` is of one thread and stands in a place that some threads of the role reach
        stage.yield ()
      }
    }
  }
}
