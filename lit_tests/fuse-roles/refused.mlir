// Roles that share an accumulator in registers but cannot become one: each at the pipe or loop that says why.
// RUN: tkc-opt %s -p 'fuse-roles' --split-input-file --expect-errors

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %M = stage.size {symbol = "M"} : () -> (i32)
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [64, 64], 1, register, "none">)
    %q = stage.pipe %d {sym_name = "q", kind = "full_empty", depth = 1 : i32, producers = ["math"], consumers = ["store", "other"]} : (!stage.buffer<f32, [64, 64], 1, register, "none">) -> (!stage.ring) // error: pipe q carries accumulators that live in registers on this target; it must join exactly two roles, not 3 (math, store, other) [TK213]
    stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.work_loop %M {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %s = stage.acquire %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        stage.commit %q, %s, %x {how = ["wgmma"], bytes = 0 : i32} : (!stage.ring, i32, !stage.accumulator<f32, [64, 64]>)
        stage.yield ()
      }
    }
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      stage.work_loop %M {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %s = stage.wait %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        %f = stage.read_accumulator %x, %zero {row_block = 0 : i32} : (!stage.accumulator<f32, [64, 64]>, i32) -> (!stage.fragment<f32, [64, 64], wgmma>)
        stage.release %q, %s {how = ["tensor"]} : (!stage.ring, i32)
        stage.yield ()
      }
    }
    stage.role {sym_name = "other", warps = 4 : i32, first_warp = 8 : i32, groups = 1 : i32} do {
    }
  }
}

// -----

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %M = stage.size {symbol = "M"} : () -> (i32)
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [64, 64], 1, register, "none">)
    %q = stage.pipe %d {sym_name = "q", kind = "full_empty", depth = 1 : i32, producers = ["math"], consumers = ["store"]} : (!stage.buffer<f32, [64, 64], 1, register, "none">) -> (!stage.ring)
    stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.work_loop %M {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do { // error: the roles at the ends of q share an accumulator in registers and become one role on this target, but they do not run one loop over the same schedule [TK213]
      ^bb0(%m: i32):
        %s = stage.acquire %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        stage.commit %q, %s, %x {how = ["wgmma"], bytes = 0 : i32} : (!stage.ring, i32, !stage.accumulator<f32, [64, 64]>)
        stage.yield ()
      }
    }
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      stage.work_loop %M {schedule = "rest", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %s = stage.wait %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        %f = stage.read_accumulator %x, %zero {row_block = 0 : i32} : (!stage.accumulator<f32, [64, 64]>, i32) -> (!stage.fragment<f32, [64, 64], wgmma>)
        stage.release %q, %s {how = ["tensor"]} : (!stage.ring, i32)
        stage.yield ()
      }
    }
  }
}

// -----

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %M = stage.size {symbol = "M"} : () -> (i32)
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [64, 64], 1, register, "none">)
    %q = stage.pipe %d {sym_name = "q", kind = "full_empty", depth = 1 : i32, producers = ["math"], consumers = ["store"]} : (!stage.buffer<f32, [64, 64], 1, register, "none">) -> (!stage.ring)
    stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
        %s = stage.acquire %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        stage.commit %q, %s, %x {how = ["wgmma"], bytes = 0 : i32} : (!stage.ring, i32, !stage.accumulator<f32, [64, 64]>)
    }
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      stage.work_loop %M {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do { // error: they do not run one loop over the same schedule [TK213]
      ^bb0(%m: i32):
        %s = stage.wait %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        %f = stage.read_accumulator %x, %zero {row_block = 0 : i32} : (!stage.accumulator<f32, [64, 64]>, i32) -> (!stage.fragment<f32, [64, 64], wgmma>)
        stage.release %q, %s {how = ["tensor"]} : (!stage.ring, i32)
        stage.yield ()
      }
    }
  }
}

// -----

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %M = stage.size {symbol = "M"} : () -> (i32)
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [64, 64], 1, register, "none">)
    %q = stage.pipe %d {sym_name = "q", kind = "full_empty", depth = 1 : i32, producers = ["math"], consumers = ["store"]} : (!stage.buffer<f32, [64, 64], 1, register, "none">) -> (!stage.ring) // error: pipe q carries an accumulator in registers on this target; it needs as many puts as gets, in the same loop [TK213]
    stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.work_loop %M {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %s = stage.acquire %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        stage.commit %q, %s, %x {how = ["wgmma"], bytes = 0 : i32} : (!stage.ring, i32, !stage.accumulator<f32, [64, 64]>)
        %t = stage.acquire %q : (!stage.ring) -> (i32)
        %y = stage.open %d, %t : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        stage.commit %q, %t, %y {how = ["wgmma"], bytes = 0 : i32} : (!stage.ring, i32, !stage.accumulator<f32, [64, 64]>)
        stage.yield ()
      }
    }
    stage.role {sym_name = "store", warps = 4 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      stage.work_loop %M {schedule = "work", group = 1 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %s = stage.wait %q : (!stage.ring) -> (i32)
        %x = stage.open %d, %s : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
        %f = stage.read_accumulator %x, %zero {row_block = 0 : i32} : (!stage.accumulator<f32, [64, 64]>, i32) -> (!stage.fragment<f32, [64, 64], wgmma>)
        stage.release %q, %s {how = ["tensor"]} : (!stage.ring, i32)
        stage.yield ()
      }
    }
  }
}
