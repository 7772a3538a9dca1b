// Where the program says when it waits, nothing is added; without `dependent` nothing is either.
// RUN: tkc-opt %s -p 'order-grids' | filecheck %s

// CHECK: sym_name = "own"
// CHECK: stage.store_element
// CHECK-NEXT: stage.grid_wait {by = "all", id = "own.user.wait"}
// CHECK-NOT: stage.grid

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "own", arg_names = ["X"], contract = {}, dependent} do {
  ^bb0(%X: !tile.tensor<f32, [4]>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %f = stage.const {constant = 1.0 : f32} : () -> (f32)
    stage.role {sym_name = "r", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.store_element %f, %X, %zero : (f32, !tile.tensor<f32, [4]>, i32)
      stage.grid_wait {by = "all", id = "own.user.wait"}
    }
  }
  stage.kernel {sym_name = "plain", arg_names = ["X"], contract = {}} do {
  ^bb0(%X: !tile.tensor<f32, [4]>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %f = stage.const {constant = 1.0 : f32} : () -> (f32)
    stage.role {sym_name = "r", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.store_element %f, %X, %zero : (f32, !tile.tensor<f32, [4]>, i32)
    }
  }
}
