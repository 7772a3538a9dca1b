// Round a loop the next synchronisation may be the one before: the fence stands in the body. A loop that meets nobody
// needs none inside. Accesses at one place share a fence, which names all buffers.
// RUN: tkc-opt %s -p 'insert-fences' | filecheck %s

// CHECK: sym_name = "wrapped"
// CHECK: stage.for
// CHECK-NEXT: ^bb0
// CHECK-NEXT: stage.proxy_fence {space = "shared::cta", guards = ["t"], id = "wrapped.fence.0"}
// CHECK-NEXT: stage.load_shared
// CHECK-NEXT: stage.proxy_fence {space = "shared::cta", guards = ["t"], id = "wrapped.fence.1"}
// CHECK-NEXT: stage.role_barrier
// CHECK-NEXT: stage.tma_store
// CHECK-NEXT: stage.bulk_commit
// CHECK-NEXT: stage.bulk_wait
// CHECK-NEXT: stage.yield

// CHECK: sym_name = "alone"
// CHECK-NEXT: stage.role_barrier
// CHECK-NEXT: stage.proxy_fence {space = "shared::cta", guards = ["t", "u"], id = "alone.fence.0"}
// CHECK-NEXT: stage.for
// CHECK-NEXT: ^bb0
// CHECK-NEXT: stage.load_shared %t
// CHECK-NEXT: stage.load_shared %u
// CHECK-NEXT: stage.yield
// CHECK-NEXT: }
// CHECK-NEXT: stage.proxy_fence {space = "shared::cta", guards = ["t", "u"], id = "alone.fence.1"}
// CHECK-NEXT: stage.role_barrier

// Generic memory alone: nothing crosses.
// CHECK: sym_name = "generic"
// CHECK-NOT: stage.proxy_fence
// CHECK: sym_name = "async"
// CHECK-NOT: stage.proxy_fence

builtin.module {
  stage.kernel {sym_name = "k", arg_names = ["C"], contract = {}} do {
  ^bb0(%C: !tile.tensor<f32, [M, 32]>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<f32, [128, 32], 1, shared, "128B">)
    %u = stage.alloc {sym_name = "u"} : () -> (!stage.buffer<f32, [128, 32], 1, shared, "128B">)
    %v = stage.alloc {sym_name = "v"} : () -> (!stage.buffer<f32, [128, 32], 1, shared, "128B">)
    stage.role {sym_name = "wrapped", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.for %zero, %one, %one : (i32, i32, i32) do {
      ^bb0(%i: i32):
        %f = stage.load_shared %t, %zero, %zero : (!stage.buffer<f32, [128, 32], 1, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 32], rows>)
        stage.role_barrier {id = "x"}
        stage.tma_store %t, %zero, %C, %zero, %zero {box = [128 : i32, 32 : i32]} : (!stage.buffer<f32, [128, 32], 1, shared, "128B">, i32, !tile.tensor<f32, [M, 32]>, i32, i32)
        stage.bulk_commit {id = "y"}
        stage.bulk_wait {pending = 0 : i32, id = "z"}
        stage.yield ()
      }
    }
    stage.role {sym_name = "alone", warps = 4 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      stage.role_barrier {id = "a"}
      stage.for %zero, %one, %one : (i32, i32, i32) do {
      ^bb0(%i: i32):
        %f = stage.load_shared %t, %zero, %zero : (!stage.buffer<f32, [128, 32], 1, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 32], rows>)
        %g = stage.load_shared %u, %zero, %zero : (!stage.buffer<f32, [128, 32], 1, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 32], rows>)
        stage.yield ()
      }
      stage.role_barrier {id = "b"}
    }
    stage.role {sym_name = "generic", warps = 4 : i32, first_warp = 8 : i32, groups = 1 : i32} do {
      %f = stage.load_shared %v, %zero, %zero : (!stage.buffer<f32, [128, 32], 1, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 32], rows>)
      stage.role_barrier {id = "c"}
    }
    stage.role {sym_name = "async", warps = 1 : i32, first_warp = 12 : i32, groups = 1 : i32} do {
      stage.tma_store %u, %zero, %C, %zero, %zero {box = [128 : i32, 32 : i32]} : (!stage.buffer<f32, [128, 32], 1, shared, "128B">, i32, !tile.tensor<f32, [M, 32]>, i32, i32)
      stage.bulk_commit {id = "y"}
      stage.bulk_wait {pending = 0 : i32, id = "z"}
    }
  }
}
