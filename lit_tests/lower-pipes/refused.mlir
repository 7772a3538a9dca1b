// What `lower-pipes` refuses: roles that are no end, ends that never open, items under a condition.
// RUN: tkc-opt %s -p 'lower-pipes' --split-input-file --expect-errors

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<f32, [128, 64], 1, shared, "128B">)
    %p = stage.pipe %t {sym_name = "p", kind = "full_empty", depth = 1 : i32, producers = ["one"], consumers = ["two"]} : (!stage.buffer<f32, [128, 64], 1, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "one", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %s = stage.acquire %p : (!stage.ring) -> (i32)
      stage.commit %p, %s {how = [], bytes = 0 : i32} : (!stage.ring, i32)
    }
    stage.role {sym_name = "three", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      %s = stage.wait %p : (!stage.ring) -> (i32)
      stage.release %p, %s {how = []} : (!stage.ring, i32) // error: role three gets from pipe p, whose consumers are two [TK107]
    }
  }
}

// -----

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<f32, [128, 64], 1, shared, "128B">)
    %p = stage.pipe %t {sym_name = "p", kind = "full_empty", depth = 1 : i32, producers = ["one"], consumers = ["two"]} : (!stage.buffer<f32, [128, 64], 1, shared, "128B">) -> (!stage.ring) // error: role two stands at an end of pipe p but never opens it [TK107]
    stage.role {sym_name = "one", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %s = stage.acquire %p : (!stage.ring) -> (i32)
      stage.commit %p, %s {how = [], bytes = 0 : i32} : (!stage.ring, i32)
    }
    stage.role {sym_name = "two", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
    }
  }
}

