// What the types and operations of the stage level refuse beyond scalars, each on its line.
// RUN: tkc-opt %s --split-input-file --expect-errors

builtin.module {
  %f = stage.load_shared () : () -> (!stage.fragment<f32, [128, 32], columns>) // error: no layout 'columns'; one of rows, half_rows, wgmma
}

// -----

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %u = stage.alloc {sym_name = "u"} : () -> (!stage.buffer<f32, [128, 64], 1, shared, "64B">)
    %full = stage.barriers {sym_name = "full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<f32, [128, 64], 1, shared, "128B">)
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %a = stage.load_shared %t, %zero, %zero : (!stage.buffer<f32, [128, 64], 1, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 32], rows>)
      %b = stage.load_shared %t, %zero, %zero : (!stage.buffer<f32, [128, 64], 1, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 64], rows>)
      %c = stage.map %a, %b {kind = "add"} : (!stage.fragment<f32, [128, 32], rows>, !stage.fragment<f32, [128, 64], rows>) -> (!stage.fragment<f32, [128, 32], rows>) // error: add of !stage.fragment<f32, [128, 64], rows> does not make !stage.fragment<f32, [128, 32], rows>
      stage.cluster_copy %t, %zero, %u, %zero, %full, %zero, %zero : (!stage.buffer<f32, [128, 64], 1, shared, "128B">, i32, !stage.buffer<f32, [128, 64], 1, shared, "64B">, i32, !stage.mbarriers, i32, i32) // error: bytes of !stage.buffer<f32, [128, 64], 1, shared, "128B"> in a row are not !stage.buffer<f32, [128, 64], 1, shared, "64B">
      stage.commit %zero, %zero {how = [], bytes = 0 : i32} : (i32, i32) // error: stage.commit
      stage.bulk_wait {id = "x"} // error: stage.bulk_wait
    }
  }
}
