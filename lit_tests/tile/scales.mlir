// Block-scaled tensors, slices and tiles print and parse back, and so do copies and products of scales in tensor memory.
// RUN: tkc-opt %s | tkc-opt | filecheck %s
// RUN: tkc-opt --print-op-generic %s | tkc-opt | filecheck %s

// CHECK: ^bb0(%A: !tile.tensor<e2m1, [M, K], ue4m3 / 16>):
// CHECK-NEXT: %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<e2m1, [128, 256], 4, ue4m3 / 16>)
// CHECK-NEXT: %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<e2m1, [256, 256], 4, ue4m3 / 16, "128B">)
// CHECK-NEXT: %d = tile.accum
// CHECK-NEXT: %sa = tile.accum {sym_name = "sa"} : () -> (!tile.accum<ue4m3, [128, 16], 4>)
// CHECK: tile.copy_scales %a, %sa : (!tile.shared<e2m1, [128, 256], 4, ue4m3 / 16>, !tile.accum<ue4m3, [128, 16], 4>)
// CHECK: tile.scaled_mma %d, %a, %sa, %b, %sb :

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["A"], params = {}, launch = {persistent}} do {
  ^bb0(%A: !tile.tensor<e2m1, [M, K], ue4m3 / 16>):
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<e2m1, [128, 256], 4, ue4m3 / 16>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<e2m1, [256, 256], 4, ue4m3 / 16, "128B">)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 256], 1>)
    %sa = tile.accum {sym_name = "sa"} : () -> (!tile.accum<ue4m3, [128, 16], 4>)
    %sb = tile.accum {sym_name = "sb"} : () -> (!tile.accum<ue4m3, [256, 16], 4>)
    tile.role {sym_name = "r"} do {
      tile.copy_scales %a, %sa : (!tile.shared<e2m1, [128, 256], 4, ue4m3 / 16>, !tile.accum<ue4m3, [128, 16], 4>)
      tile.scaled_mma %d, %a, %sa, %b, %sb : (!tile.accum<f32, [128, 256], 1>, !tile.shared<e2m1, [128, 256], 4, ue4m3 / 16>, !tile.accum<ue4m3, [128, 16], 4>, !tile.shared<e2m1, [256, 256], 4, ue4m3 / 16, "128B">, !tile.accum<ue4m3, [256, 16], 4>)
    }
  }
}
