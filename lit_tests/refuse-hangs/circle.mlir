// A loader that wants a slot back before it puts what the other role gets first; the items in order; and barriers of the
// program's own, which are its own business here: `tkc check` says so.
// RUN: tkc-opt %s -p 'refuse-hangs' --split-input-file --expect-errors

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %c0 = stage.const {constant = 0 : i32} : () -> (i32)
    %c1 = stage.const {constant = 1 : i32} : () -> (i32)
    %pf = stage.barriers {sym_name = "p.full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %pe = stage.barriers {sym_name = "p.empty", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %qf = stage.barriers {sym_name = "q.full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %pe, %c0, %c1 {by = "one", id = "first"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pf, %c0 {by = "one", id = "put"} : (!stage.mbarriers, i32)
      stage.mbarrier_wait %pe, %c0, %c0 {by = "one", id = "second"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pf, %c0 {by = "one", id = "again"} : (!stage.mbarriers, i32)
      stage.mbarrier_arrive %qf, %c0 {by = "one", id = "other"} : (!stage.mbarriers, i32)
    }
    stage.role {sym_name = "math", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %qf, %c0, %c0 {by = "one", id = "late"} : (!stage.mbarriers, i32, i32) // error: roles load and math wait for one another for ever: role load waits for a free slot of p, role math waits for an item of q [TK314]
      stage.mbarrier_wait %pf, %c0, %c0 {by = "one", id = "early"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pe, %c0 {by = "one", id = "back"} : (!stage.mbarriers, i32)
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %c0 = stage.const {constant = 0 : i32} : () -> (i32)
    %c1 = stage.const {constant = 1 : i32} : () -> (i32)
    %pf = stage.barriers {sym_name = "p.full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %pe = stage.barriers {sym_name = "p.empty", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %qf = stage.barriers {sym_name = "q.full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %pe, %c0, %c1 {by = "one", id = "first"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pf, %c0 {by = "one", id = "put"} : (!stage.mbarriers, i32)
      stage.mbarrier_wait %pe, %c0, %c0 {by = "one", id = "second"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pf, %c0 {by = "one", id = "again"} : (!stage.mbarriers, i32)
      stage.mbarrier_arrive %qf, %c0 {by = "one", id = "other"} : (!stage.mbarriers, i32)
    }
    stage.role {sym_name = "math", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %pf, %c0, %c0 {by = "one", id = "early"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pe, %c0 {by = "one", id = "back"} : (!stage.mbarriers, i32)
      stage.mbarrier_wait %qf, %c0, %c0 {by = "one", id = "late"} : (!stage.mbarriers, i32, i32)
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %c0 = stage.const {constant = 0 : i32} : () -> (i32)
    %c1 = stage.const {constant = 1 : i32} : () -> (i32)
    %pf = stage.barriers {sym_name = "own_full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %pe = stage.barriers {sym_name = "own_empty", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %qf = stage.barriers {sym_name = "q.full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %pe, %c0, %c1 {by = "one", id = "first"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pf, %c0 {by = "one", id = "put"} : (!stage.mbarriers, i32)
      stage.mbarrier_wait %pe, %c0, %c0 {by = "one", id = "second"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pf, %c0 {by = "one", id = "again"} : (!stage.mbarriers, i32)
      stage.mbarrier_arrive %qf, %c0 {by = "one", id = "other"} : (!stage.mbarriers, i32)
    }
    stage.role {sym_name = "math", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      stage.mbarrier_wait %qf, %c0, %c0 {by = "one", id = "late"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_wait %pf, %c0, %c0 {by = "one", id = "early"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_arrive %pe, %c0 {by = "one", id = "back"} : (!stage.mbarriers, i32)
    }
  }
}
