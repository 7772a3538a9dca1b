// Wider patterns come first, so that no padding stands between rings; a slot that is no whole pattern is rounded up;
// tensor memory and registers take no bytes. Barriers follow, and the word for the tensor-memory address.
// RUN: tkc-opt %s -p 'assign-shared' | filecheck %s

// CHECK: shared_bytes = 6712 : i32
// CHECK: sym_name = "narrow", offset = 5120 : i32
// CHECK: sym_name = "odd", offset = 0 : i32
// CHECK: sym_name = "wide", offset = 3072 : i32
// CHECK: sym_name = "plain", offset = 6144 : i32
// CHECK: sym_name = "d"} : () -> (!stage.buffer<f32, [128, 128], 1, tensor, "none">)
// CHECK: sym_name = "full", depth = 3 : i32, count = 1 : i32, offset = 6656 : i32
// CHECK: sym_name = "empty", depth = 3 : i32, count = 1 : i32, offset = 6680 : i32

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %a = stage.alloc {sym_name = "narrow"} : () -> (!stage.buffer<bf16, [16, 32], 1, shared, "64B">)
    %b = stage.alloc {sym_name = "odd"} : () -> (!stage.buffer<bf16, [4, 64], 3, shared, "128B">)
    %c = stage.alloc {sym_name = "wide"} : () -> (!stage.buffer<bf16, [8, 64], 2, shared, "128B">)
    %d = stage.alloc {sym_name = "plain"} : () -> (!stage.buffer<bf16, [32, 8], 1, shared, "none">)
    %e = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 128], 1, tensor, "none">)
    %f = stage.barriers {sym_name = "full", depth = 3 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %g = stage.barriers {sym_name = "empty", depth = 3 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
  }
}
