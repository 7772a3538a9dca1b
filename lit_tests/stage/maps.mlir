// Tensor maps in global memory: a kernel's own, those of a list, and the fences of their proxy.
// RUN: tkc-opt %s | tkc-opt | filecheck %s
// RUN: tkc-opt --print-op-generic %s | tkc-opt | filecheck %s

// CHECK: %maps = stage.maps %A {sym_name = "load.A.loads"} : (!tile.tensor<bf16, [G, ?rows, K], list>) -> (!stage.tensor_maps<2>)
// CHECK: stage.edit_map %maps, %zero, %one, %one {axes = [0 : i32], id = "e", by = "one"} : (!stage.tensor_maps<2>, i32, i32, i32)
// CHECK-NEXT: stage.map_release {scope = "gpu", id = "r"}
// CHECK-NEXT: %own = stage.edited %maps, %zero, %one : (!stage.tensor_maps<2>, i32, i32) -> (!tile.tensor<bf16, [?rows, K]>)
// CHECK-NEXT: stage.map_acquire %own {scope = "gpu", id = "a"} : (!tile.tensor<bf16, [?rows, K]>)
// CHECK-NEXT: %given = stage.array %B, %one : (!tile.tensor<bf16, [G, N, K], list>, i32) -> (!tile.tensor<bf16, [N, K]>)
// CHECK-NEXT: stage.map_acquire %given {scope = "sys", id = "b", by = "all"} : (!tile.tensor<bf16, [N, K]>)

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "k", arg_names = ["rows", "A", "B"], contract = {}} do {
  ^bb0(%rows: !tile.tensor<i32, [G]>, %A: !tile.tensor<bf16, [G, ?rows, K], list>, %B: !tile.tensor<bf16, [G, N, K], list>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %maps = stage.maps %A {sym_name = "load.A.loads"} : (!tile.tensor<bf16, [G, ?rows, K], list>) -> (!stage.tensor_maps<2>)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.edit_map %maps, %zero, %one, %one {axes = [0 : i32], id = "e", by = "one"} : (!stage.tensor_maps<2>, i32, i32, i32)
      stage.map_release {scope = "gpu", id = "r"}
      %own = stage.edited %maps, %zero, %one : (!stage.tensor_maps<2>, i32, i32) -> (!tile.tensor<bf16, [?rows, K]>)
      stage.map_acquire %own {scope = "gpu", id = "a"} : (!tile.tensor<bf16, [?rows, K]>)
      %given = stage.array %B, %one : (!tile.tensor<bf16, [G, N, K], list>, i32) -> (!tile.tensor<bf16, [N, K]>)
      stage.map_acquire %given {scope = "sys", id = "b", by = "all"} : (!tile.tensor<bf16, [N, K]>)
    }
  }
}
