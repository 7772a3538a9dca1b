// Accumulators that are held at once are summed; what no role with accumulators needs goes to those with them.
// RUN: tkc-opt %s -p 'assign-registers' --split-input-file | filecheck %s

// 128 registers of accumulators and a loader: 240 and 24 of 65536 in three warpgroups.
// CHECK: sym_name = "k0", {{.*}}threads = 384 : i32
// CHECK: sym_name = "math", {{.*}}registers = 240 : i32
// CHECK: sym_name = "load", {{.*}}registers = 24 : i32
// A small accumulator leaves the registers as they are.
// CHECK: sym_name = "k1", {{.*}}threads = 160 : i32
// CHECK-NOT: registers =
// Two of 64, one after another, are held once; beside one another, twice.
// CHECK: sym_name = "k2", {{.*}}threads = 416 : i32
// CHECK: sym_name = "sequence", warps = 12 : i32, first_warp = 0 : i32, groups = 1 : i32}
// CHECK: sym_name = "k3", {{.*}}threads = 512 : i32
// CHECK: sym_name = "together", {{.*}}registers = 160 : i32

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k0", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 256], 1, register, "none">)
    stage.role {sym_name = "math", warps = 8 : i32, first_warp = 0 : i32, groups = 2 : i32} do {
      %x = stage.open %d, %zero : (!stage.buffer<f32, [128, 256], 1, register, "none">, i32) -> (!stage.accumulator<f32, [128, 256]>)
      %y = stage.mma_wait %x {pending = 0 : i32, id = "w"} : (!stage.accumulator<f32, [128, 256]>) -> (!stage.accumulator<f32, [128, 256]>)
    }
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 8 : i32, groups = 1 : i32} do {
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k1", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [64, 64], 1, register, "none">)
    stage.role {sym_name = "math", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %x = stage.open %d, %zero : (!stage.buffer<f32, [64, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [64, 64]>)
      %y = stage.mma_wait %x {pending = 0 : i32, id = "w"} : (!stage.accumulator<f32, [64, 64]>) -> (!stage.accumulator<f32, [64, 64]>)
    }
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k2", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [384, 64], 1, register, "none">)
    %e = stage.alloc {sym_name = "e"} : () -> (!stage.buffer<f32, [384, 64], 1, register, "none">)
    stage.role {sym_name = "sequence", warps = 12 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %x = stage.open %d, %zero : (!stage.buffer<f32, [384, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [384, 64]>)
      %y = stage.mma_wait %x {pending = 0 : i32, id = "w"} : (!stage.accumulator<f32, [384, 64]>) -> (!stage.accumulator<f32, [384, 64]>)
      %v = stage.open %e, %zero : (!stage.buffer<f32, [384, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [384, 64]>)
      %w = stage.mma_wait %v {pending = 0 : i32, id = "w"} : (!stage.accumulator<f32, [384, 64]>) -> (!stage.accumulator<f32, [384, 64]>)
    }
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 12 : i32, groups = 1 : i32} do {
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k3", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [384, 64], 1, register, "none">)
    %e = stage.alloc {sym_name = "e"} : () -> (!stage.buffer<f32, [384, 64], 1, register, "none">)
    stage.role {sym_name = "together", warps = 12 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %x = stage.open %d, %zero : (!stage.buffer<f32, [384, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [384, 64]>)
      %sum = stage.for %zero, %one, %one, %x : (i32, i32, i32, !stage.accumulator<f32, [384, 64]>) -> (!stage.accumulator<f32, [384, 64]>) do {
      ^bb0(%k: i32, %in: !stage.accumulator<f32, [384, 64]>):
        %v = stage.open %e, %zero : (!stage.buffer<f32, [384, 64], 1, register, "none">, i32) -> (!stage.accumulator<f32, [384, 64]>)
        %w = stage.mma_wait %v {pending = 0 : i32, id = "w"} : (!stage.accumulator<f32, [384, 64]>) -> (!stage.accumulator<f32, [384, 64]>)
        stage.yield %in : (!stage.accumulator<f32, [384, 64]>)
      }
      %y = stage.mma_wait %sum {pending = 0 : i32, id = "w"} : (!stage.accumulator<f32, [384, 64]>) -> (!stage.accumulator<f32, [384, 64]>)
    }
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 12 : i32, groups = 1 : i32} do {
    }
  }
}
