// Two producers fill each item and two consumers drain it: counts are sums, and each end signals in its own way.
// RUN: tkc-opt %s -p 'lower-pipes' | filecheck %s

// One expect of `copier`, one arrival a warp of `writer`; one commit of `products`, one arrival a warp of `reader`.
// CHECK: %[[FULL:.*]] = stage.barriers {sym_name = "p.full", depth = 3 : i32, count = 5 : i32}
// CHECK: %[[EMPTY:.*]] = stage.barriers {sym_name = "p.empty", depth = 3 : i32, count = 9 : i32}
// CHECK-NOT: stage.pipe

// CHECK: sym_name = "copier"
// CHECK: stage.mbarrier_wait %[[EMPTY]], {{.*}}id = "copier.p.empty"
// CHECK-NEXT: stage.mbarrier_expect %[[FULL]], %{{.*}} {bytes = 4096 : i32, by = "one", id = "copier.p.expect"}
// CHECK-NOT: stage.mbarrier_arrive
// CHECK: sym_name = "writer"
// CHECK-NOT: stage.mbarrier_expect
// CHECK: stage.store_shared
// CHECK-NEXT: stage.warp_sync
// CHECK-NEXT: stage.mbarrier_arrive %[[FULL]], %{{.*}} {by = "lane", id = "writer.p.commit"}
// CHECK: sym_name = "products"
// CHECK: stage.mbarrier_wait %[[FULL]], {{.*}}id = "products.p.full"
// CHECK: stage.tcgen05_commit %[[EMPTY]], %{{.*}} {id = "products.p.release"}
// CHECK-NOT: stage.mbarrier_arrive
// CHECK: sym_name = "reader"
// CHECK: stage.mbarrier_wait %[[FULL]], {{.*}}by = "all", id = "reader.p.full"
// CHECK: stage.load_shared
// CHECK-NEXT: stage.warp_sync
// CHECK-NEXT: stage.mbarrier_arrive %[[EMPTY]], %{{.*}} {by = "lane", id = "reader.p.release"}

builtin.module {
  stage.kernel {sym_name = "k", arg_names = [], contract = {}} do {
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<f32, [128, 32], 3, shared, "128B">)
    %p = stage.pipe %t {sym_name = "p", kind = "full_empty", depth = 3 : i32, producers = ["copier", "writer"], consumers = ["products", "reader"]} : (!stage.buffer<f32, [128, 32], 3, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "copier", warps = 1 : i32, first_warp = 16 : i32, groups = 1 : i32} do {
      %s = stage.acquire %p : (!stage.ring) -> (i32)
      stage.commit %p, %s {how = ["tma"], bytes = 4096 : i32} : (!stage.ring, i32)
    }
    stage.role {sym_name = "writer", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %f = stage.load_shared %t, %zero, %zero : (!stage.buffer<f32, [128, 32], 3, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 32], rows>)
      %s = stage.acquire %p : (!stage.ring) -> (i32)
      stage.store_shared %f, %t, %s, %zero : (!stage.fragment<f32, [128, 32], rows>, !stage.buffer<f32, [128, 32], 3, shared, "128B">, i32, i32)
      stage.commit %p, %s {how = ["generic"], bytes = 0 : i32} : (!stage.ring, i32)
    }
    stage.role {sym_name = "products", warps = 1 : i32, first_warp = 17 : i32, groups = 1 : i32} do {
      %s = stage.wait %p : (!stage.ring) -> (i32)
      stage.release %p, %s {how = ["tcgen05"]} : (!stage.ring, i32)
    }
    stage.role {sym_name = "reader", warps = 8 : i32, first_warp = 4 : i32, groups = 1 : i32} do {
      %s = stage.wait %p : (!stage.ring) -> (i32)
      %f = stage.load_shared %t, %s, %zero : (!stage.buffer<f32, [128, 32], 3, shared, "128B">, i32, i32) -> (!stage.fragment<f32, [128, 32], rows>)
      stage.release %p, %s {how = ["generic"]} : (!stage.ring, i32)
    }
  }
}
