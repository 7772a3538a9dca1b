// What the verifiers of the stage level refuse, each on its line.
// RUN: tkc-opt %s --split-input-file --expect-errors

builtin.module {
  %a = stage.const {constant = 1 : i32} : () -> (i32)
  %b = stage.const {constant = 1 : i64} : () -> (i64)
  %c = stage.const {constant = 1 : i32} : () -> (i64) // error: a constant of i32 is not i64
  %d = stage.arith %a, %a {kind = "plus"} : (i32, i32) -> (i32) // error: no scalar 'plus'
  %e = stage.arith %a {kind = "add"} : (i32) -> (i32) // error: add takes 2 inputs, not 1
  %f = stage.arith %a, %b {kind = "add"} : (i32, i64) -> (i32) // error: add takes inputs of one scalar type, not i32, i64
  %g = stage.arith %a, %a {kind = "eq"} : (i32, i32) -> (i32) // error: eq gives i1, not i32
  %h = stage.arith %a, %a {kind = "add"} : (i32, i32) -> (i64) // error: add of i32 gives i32, not i64
  %i = stage.number %a {kind = "convert"} : (i32) -> (ui32)
  %j = stage.number %a, %a {kind = "add"} : (i32, i32) -> (i32) // error: add is of two ui32 or of two i64, not of i32, i32
  %k = stage.number %i, %b {kind = "add"} : (ui32, i64) -> (ui32) // error: add is of two ui32 or of two i64, not of ui32, i64
  %l = stage.number %b, %b {kind = "shl"} : (i64, i64) -> (i64) // error: shl is of two ui32 or of two i64, not of i64, i64
  %m = stage.number %i, %i {kind = "lt"} : (ui32, ui32) -> (ui32) // error: lt of ui32 gives i1, not ui32
  %n = stage.number %i {kind = "convert"} : (ui32) -> (bf16) // error: no conversion of ui32 to bf16
  %o = stage.number %i {kind = "neg"} : (ui32) -> (ui32) // error: no kind 'neg' of numbers
  %p = stage.number %i {kind = "div"} : (ui32) -> (ui32) // error: div takes 2 inputs, not 1
}

// -----

builtin.module {
  %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<bf16, [128, 64], 4, local, "128B">) // error: no home 'local'
}

// -----

builtin.module {
  %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<bf17, [128, 64], 4, shared, "128B">) // error: no dtype 'bf17'
}

// -----

builtin.module {
  %zero = stage.const {constant = 0 : i32} : () -> (i32)
  %u = stage.alloc {sym_name = "u"} : () -> (!stage.buffer<ue8m0, [128, 4], 4, shared, "scale_atoms">)
  %v = stage.alloc {sym_name = "v"} : () -> (!stage.buffer<ue8m0, [256, 4], 4, tensor, "scale_atoms">)
  %w = stage.alloc {sym_name = "w"} : () -> (!stage.buffer<ue8m0, [128, 4], 4, tensor, "none">)
  stage.copy_scales %u, %zero, %v, %zero : (!stage.buffer<ue8m0, [128, 4], 4, shared, "scale_atoms">, i32, !stage.buffer<ue8m0, [256, 4], 4, tensor, "scale_atoms">, i32) // error: does not fit
  stage.copy_scales %u, %zero, %w, %zero : (!stage.buffer<ue8m0, [128, 4], 4, shared, "scale_atoms">, i32, !stage.buffer<ue8m0, [128, 4], 4, tensor, "none">, i32) // error: does not fit
}

// -----

builtin.module {
  stage.kernel {sym_name = "k", arg_names = ["A"], contract = {}} do {
  ^bb0(%A: !tile.tensor<bf16, [G, K], list>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %maps = stage.maps %A {sym_name = "m"} : (!tile.tensor<bf16, [G, K], list>) -> (!stage.tensor_maps<2>)
    stage.edit_map %maps, %zero, %zero, %zero {axes = [], id = "e"} : (!stage.tensor_maps<2>, i32, i32, i32) // error: 1 extents for 0 axes
  }
}

// -----

builtin.module {
  stage.kernel {sym_name = "k", arg_names = ["A"], contract = {}} do {
  ^bb0(%A: !tile.tensor<bf16, [G, K], list>):
    %maps = stage.maps %A {sym_name = "m"} : (!tile.tensor<bf16, [G, K], list>) -> (!stage.tensor_maps<0>) // error: at least one tensor map, not 0
  }
}
