// Numbers that setmaxnreg does not take, more than the file has, accumulators without room, more threads than a CTA has.
// RUN: tkc-opt %s -p 'assign-registers' --split-input-file --expect-errors

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32, registers = 100 : i32} do { // error: role r asks for 100 registers; setmaxnreg takes a multiple of 8 from 24 to 256 [TK206]
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do { // error: the roles of kernel k ask for 67584 registers; its 384 threads begin with 64512, 168 each, and more there will not be [TK206]
    stage.role {sym_name = "r", warps = 8 : i32, first_warp = 0 : i32, groups = 1 : i32, registers = 240 : i32} do {
    }
    stage.role {sym_name = "s", warps = 1 : i32, first_warp = 8 : i32, groups = 1 : i32, registers = 24 : i32} do {
    }
    stage.role {sym_name = "t", warps = 1 : i32, first_warp = 9 : i32, groups = 1 : i32, registers = 48 : i32} do {
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 256], 1, register, "none">)
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do { // error: role r holds 256 registers of accumulators a thread and may have 240, of which products leave 208; a smaller accumulator would fit, or rows that are a multiple of 128, which two warpgroups share [TK206]
      %x = stage.open %d, %zero : (!stage.buffer<f32, [128, 256], 1, register, "none">, i32) -> (!stage.accumulator<f32, [128, 256]>)
      %y = stage.mma_wait %x {pending = 0 : i32, id = "w"} : (!stage.accumulator<f32, [128, 256]>) -> (!stage.accumulator<f32, [128, 256]>)
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do { // error: the roles of kernel k take 1056 threads; a CTA has at most 1024 [TK208]
    stage.role {sym_name = "r", warps = 32 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
    }
    stage.role {sym_name = "s", warps = 1 : i32, first_warp = 32 : i32, groups = 1 : i32} do {
    }
  }
}
