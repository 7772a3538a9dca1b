// A fragment has as many rows as the role's threads hold: more would be left out, fewer read beside the tile.
// RUN: not tkc-opt %s -p 'assign-shared,assign-registers,lower-stage-to-ptx' 2>&1 | filecheck %s

// CHECK: error: a fragment of 128 rows (rows) in role copy, whose 64 threads hold 64 at a time, is not supported yet; pieces of 64 rows fit

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {requires = []}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %x = stage.alloc {sym_name = "x"} : () -> (!stage.buffer<bf16, [128, 64], 2, shared, "128B">)
    stage.role {sym_name = "copy", warps = 2 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %f = stage.load_shared %x, %zero, %zero : (!stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, i32) -> (!stage.fragment<bf16, [128, 64], rows>)
      stage.store_shared %f, %x, %zero, %zero : (!stage.fragment<bf16, [128, 64], rows>, !stage.buffer<bf16, [128, 64], 2, shared, "128B">, i32, i32)
    }
  }
}
