// What the verifiers of the tile level refuse, each on its line.
// RUN: tkc-opt %s --split-input-file --expect-errors

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["A", "B"], params = {}, launch = {}} do { // error: a kernel names each of its arguments
  ^bb0(%A: !tile.tensor<bf16, [M, K]>):
  }
}

// -----

builtin.module {
  %M = stage.size {symbol = "M"} : () -> (i32)
  %w = tile.schedule %M {sym_name = "w", sizes = [128 : i32, 64 : i32], group = 1 : i32} : (i32) -> (!tile.work) // error: a schedule gives one block size for each extent
}

// -----

builtin.module {
  %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<bf16, [128, 64], 0>) // error: a ring has at least one slot, not 0
}

// -----

builtin.module {
  %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<b16, [128, 64], 1>) // error: no dtype 'b16'
}

// -----

builtin.module {
  %s = tile.shared {sym_name = "s"} : () -> (!tile.shared<bf16, [128, 64], 1>)
  %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<bf16, [128, 32], 1>)
  %u = tile.shared {sym_name = "u"} : () -> (!tile.shared<f16, [128, 64], 1>)
  tile.copy %s, %t : (!tile.shared<bf16, [128, 64], 1>, !tile.shared<bf16, [128, 32], 1>) // error: the shapes differ
  tile.copy %s, %u : (!tile.shared<bf16, [128, 64], 1>, !tile.shared<f16, [128, 64], 1>) // error: the dtypes differ
}

// -----

builtin.module {
  %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [128, 64], 1>)
  %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 128], 1>)
  tile.mma %d, %a, %a {trans_a = 0 : i32, trans_b = 0 : i32} : (!tile.accum<f32, [128, 128], 1>, !tile.shared<bf16, [128, 64], 1>, !tile.shared<bf16, [128, 64], 1>) // error: [128, 64] @ [128, 64] does not make [128, 128]
  %r = tile.read %d : (!tile.accum<f32, [128, 128], 1>) -> (!tile.regs<bf16, [128, 128]>) // error: a read of
  %s = tile.read %d : (!tile.accum<f32, [128, 128], 1>) -> (!tile.regs<f32, [128, 128]>)
  %t = tile.map %s {kind = "wave"} : (!tile.regs<f32, [128, 128]>) -> (!tile.regs<f32, [128, 128]>) // error: no elementwise 'wave'
  %u = tile.map %s {kind = "add"} : (!tile.regs<f32, [128, 128]>) -> (!tile.regs<f32, [128, 128]>) // error: add takes 2 operands, not 1
}

// -----

builtin.module {
  %M = stage.size {symbol = "M"} : () -> (i32)
  %zero = stage.const {constant = 0.0 : f32} : () -> (f32)
  %sum = tile.for_blocks %M, %zero {size = 64 : i32} : (i32, f32) -> (f32) do { // error: the body of tile.for_blocks yields (), not (f32)
  ^bb0(%m: !tile.block<64, M>, %s: f32):
    tile.yield ()
  }
}

// -----

builtin.module {
  %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [128, 64], 2>)
  %p = tile.pipe %a {sym_name = "p", producers = ["load"], consumers = ["math"]} : (!tile.shared<bf16, [128, 64], 2>) -> (!tile.pipe_ring)
  tile.get %p : (!tile.pipe_ring) do { // error: the body of tile.get takes its pipes' tiles
  ^bb0(%t: !tile.shared<bf16, [64, 64], 2>):
    tile.yield ()
  }
}

// -----

builtin.module {
  %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<e2m1, [128, 96], 4, ue4m3 / 16>) // error: rows in multiples of 128 and columns in multiples of 64, not [128, 96]
}

// -----

builtin.module {
  %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<e2m1, [128, 64], 4, e4m3 / 16>) // error: no scale dtype 'e4m3'
}

// -----

builtin.module {
  %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<e4m3, [128, 128], 4, ue8m0 / 32>)
  %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<e4m3, [128, 128], 4>)
  %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 128], 1>)
  %s = tile.accum {sym_name = "s"} : () -> (!tile.accum<ue8m0, [128, 4], 4>)
  %t = tile.accum {sym_name = "t"} : () -> (!tile.accum<ue8m0, [128, 8], 4>)
  tile.copy %a, %b : (!tile.shared<e4m3, [128, 128], 4, ue8m0 / 32>, !tile.shared<e4m3, [128, 128], 4>) // error: the scales differ
  tile.mma %d, %a, %b {trans_a = 0 : i32, trans_b = 1 : i32} : (!tile.accum<f32, [128, 128], 1>, !tile.shared<e4m3, [128, 128], 4, ue8m0 / 32>, !tile.shared<e4m3, [128, 128], 4>) // error: the scales differ
  tile.mma %d, %a, %a {trans_a = 0 : i32, trans_b = 0 : i32} : (!tile.accum<f32, [128, 128], 1>, !tile.shared<e4m3, [128, 128], 4, ue8m0 / 32>, !tile.shared<e4m3, [128, 128], 4, ue8m0 / 32>) // error: scales lie along the contracted axis, which is the last of each operand
  tile.copy_scales %a, %t : (!tile.shared<e4m3, [128, 128], 4, ue8m0 / 32>, !tile.accum<ue8m0, [128, 8], 4>) // error: do not fit
  tile.copy_scales %b, %s : (!tile.shared<e4m3, [128, 128], 4>, !tile.accum<ue8m0, [128, 4], 4>) // error: do not fit
  tile.scaled_mma %d, %a, %s, %a, %t : (!tile.accum<f32, [128, 128], 1>, !tile.shared<e4m3, [128, 128], 4, ue8m0 / 32>, !tile.accum<ue8m0, [128, 4], 4>, !tile.shared<e4m3, [128, 128], 4, ue8m0 / 32>, !tile.accum<ue8m0, [128, 8], 4>) // error: are not the scales of
}

// -----

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["m", "n"], params = {}, launch = {}} do {
  ^bb0(%m: !tile.block<128, M>, %n: i32):
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<f32, [64, 64], 2>)
    %x = tile.read %a : (!tile.shared<f32, [64, 64], 2>) -> (!tile.regs<f32, [64, 64]>)
    %y = tile.mask %x, %m, %n {rows = 1 : i32, columns = 0 : i32, fill = 0.0 : f32, operandSegmentSizes = array<i32: 1, 1, 0, 1, 0>} : (!tile.regs<f32, [64, 64]>, !tile.block<128, M>, i32) -> (!tile.regs<f32, [64, 64]>) // error: axis 0 of !tile.regs<f32, [64, 64]> is no block of 128 times 1
    %z = tile.mask %x, %n {rows = 1 : i32, columns = 0 : i32, fill = 0.0 : f32, operandSegmentSizes = array<i32: 1, 0, 0, 1, 0>} : (!tile.regs<f32, [64, 64]>, i32) -> (!tile.regs<f32, [64, 64]>) // error: axis 0 of !tile.regs<f32, [64, 64]> is no block of None times 1
    %w = tile.schedule %n {sym_name = "work", sizes = [128 : i32], group = 1 : i32, outermost = 1 : i32} : (i32) -> (!tile.work) // error: no such axis outermost
  }
}

// -----

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["A"], params = {}, launch = {}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>):
    tile.edited_maps %A {depth = 2 : i32} : (!tile.tensor<bf16, [M, K]>) // error: which is no list, are not edited
  }
}

// -----

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["A"], params = {}, launch = {}} do {
  ^bb0(%A: !tile.tensor<bf16, [G, K], list>):
    tile.edited_maps %A {depth = 0 : i32} : (!tile.tensor<bf16, [G, K], list>) // error: 0 tensor maps
  }
}

// -----

builtin.module {
  %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 128], 1>)
  %p = tile.accum {sym_name = "p"} : () -> (!tile.accum<bf16, [128, 64], 1>)
  %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [128, 64], 1>)
  tile.tensor_mma %d, %p, %b {trans_b = 0 : i32} : (!tile.accum<f32, [128, 128], 1>, !tile.accum<bf16, [128, 64], 1>, !tile.shared<bf16, [128, 64], 1>) // error: [128, 64] @ [128, 64] does not make [128, 128]
  tile.tensor_mma %d, %p, %b {trans_b = 1 : i32} : (!tile.accum<f32, [128, 128], 1>, !tile.accum<bf16, [128, 64], 1>, !tile.shared<bf16, [128, 64], 1>)
}

// -----

builtin.module {
  %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 64], 1>)
  %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [64, 64], 1>)
  tile.tensor_mma %d, %d, %b {trans_b = 1 : i32} : (!tile.accum<f32, [128, 64], 1>, !tile.accum<f32, [128, 64], 1>, !tile.shared<bf16, [64, 64], 1>) // error: is no operand: tiles of bf16 in tensor memory are
}
