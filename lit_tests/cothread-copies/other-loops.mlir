// The copies stay where they are: the loops or conditions round the items of role move and those of role math differ.
// RUN: tkc-opt %s -p 'cothread-copies' | filecheck %s

// CHECK: sym_name = "factors"
// CHECK: stage.role {sym_name = "move"
// CHECK: stage.acquire %factors
// CHECK: stage.copy_scales
// CHECK: stage.role {sym_name = "math"
// CHECK-NOT: stage.copy_scales

builtin.module attributes {tkc.target = "sm_100a"} {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %a = stage.alloc {sym_name = "a"} : () -> (!stage.buffer<e2m1, [128, 64], 2, shared, "32B">)
    %u = stage.alloc {sym_name = "a.scales"} : () -> (!stage.buffer<ue4m3, [128, 4], 2, shared, "scale_atoms">)
    %v = stage.alloc {sym_name = "sa"} : () -> (!stage.buffer<ue4m3, [128, 4], 2, tensor, "scale_atoms">)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 128], 1, tensor, "none">)
    %inputs = stage.pipe %a, %u {sym_name = "inputs", kind = "full_empty", depth = 2 : i32, producers = ["load"], consumers = ["move", "math"]} : (!stage.buffer<e2m1, [128, 64], 2, shared, "32B">, !stage.buffer<ue4m3, [128, 4], 2, shared, "scale_atoms">) -> (!stage.ring)
    %factors = stage.pipe %v {sym_name = "factors", kind = "full_empty", depth = 2 : i32, producers = ["move"], consumers = ["math"]} : (!stage.buffer<ue4m3, [128, 4], 2, tensor, "scale_atoms">) -> (!stage.ring)
    stage.role {sym_name = "move", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.for %zero, %one, %one : (i32, i32, i32) do {
      ^bb0(%k: i32):
        %s = stage.wait %inputs : (!stage.ring) -> (i32)
        %t = stage.acquire %factors : (!stage.ring) -> (i32)
        stage.copy_scales %u, %s, %v, %t : (!stage.buffer<ue4m3, [128, 4], 2, shared, "scale_atoms">, i32, !stage.buffer<ue4m3, [128, 4], 2, tensor, "scale_atoms">, i32)
        stage.commit %factors, %t {how = ["tcgen05"], bytes = 0 : i32} : (!stage.ring, i32)
        stage.release %inputs, %s {how = ["tcgen05"]} : (!stage.ring, i32)
        stage.yield ()
      }
    }
    stage.role {sym_name = "math", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      %o = stage.open %d, %zero : (!stage.buffer<f32, [128, 128], 1, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 128]>)
      %z = stage.for %zero, %K, %one, %o : (i32, i32, i32, !stage.accumulator<f32, [128, 128]>) -> (!stage.accumulator<f32, [128, 128]>) do {
      ^bb1(%l: i32, %x: !stage.accumulator<f32, [128, 128]>):
        %s = stage.wait %inputs : (!stage.ring) -> (i32)
        %t = stage.wait %factors : (!stage.ring) -> (i32)
        %y = stage.scaled_mma %x, %a, %s, %a, %s, %v, %t, %v, %t : (!stage.accumulator<f32, [128, 128]>, !stage.buffer<e2m1, [128, 64], 2, shared, "32B">, i32, !stage.buffer<e2m1, [128, 64], 2, shared, "32B">, i32, !stage.buffer<ue4m3, [128, 4], 2, tensor, "scale_atoms">, i32, !stage.buffer<ue4m3, [128, 4], 2, tensor, "scale_atoms">, i32) -> (!stage.accumulator<f32, [128, 128]>)
        stage.release %inputs, %s {how = ["tcgen05"]} : (!stage.ring, i32)
        stage.release %factors, %t {how = ["tcgen05"]} : (!stage.ring, i32)
        stage.yield %y : (!stage.accumulator<f32, [128, 128]>)
      }
    }
  }
}
