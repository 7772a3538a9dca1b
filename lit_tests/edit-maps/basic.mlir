// The role that copies sets its own map for each group that it has items of: loads' once the role that gets what they bring
// hands the slot back, stores' behind a full wait. Copies name one array, and have a coordinate less.
// RUN: tkc-opt %s -p 'edit-maps,lower-pipes' | filecheck %s

// CHECK: %[[FULL:.*]] = stage.barriers {sym_name = "load.loads.maps.full", depth = 2 : i32, count = 1 : i32}
// CHECK: %[[EMPTY:.*]] = stage.barriers {sym_name = "load.loads.maps.empty", depth = 2 : i32, count = 1 : i32}
// CHECK: %[[X:.*]] = stage.maps %{{.*}} {sym_name = "load.X.loads"} : (!tile.tensor<bf16, [G, ?rows, N], list>) -> (!stage.tensor_maps<2>)
// CHECK: %[[Y:.*]] = stage.maps %{{.*}} {sym_name = "store.Y.stores"}
// CHECK: stage.role {sym_name = "load"
// CHECK: stage.for {{.*}}chained = "work"
// CHECK: %[[COUNT:.*]] = stage.load_element
// CHECK: stage.if
// CHECK: stage.mbarrier_wait %[[EMPTY]], %[[SLOT:.*]], %{{.*}} {by = "one", id = "load.load.loads.maps.empty"}
// CHECK: stage.edit_map %[[X]], %[[SLOT]], %[[G:.*]], %[[COUNT]] {axes = [0 : i32]
// CHECK-NEXT: stage.map_release {scope = "gpu"
// CHECK-NEXT: %[[ARRAY:.*]] = stage.edited %[[X]], %[[SLOT]], %[[G]] : {{.*}} -> (!tile.tensor<bf16, [?rows, N]>)
// CHECK-NEXT: stage.map_acquire %[[ARRAY]] {scope = "gpu"
// CHECK-NEXT: stage.mbarrier_arrive %[[FULL]], %[[SLOT]]
// CHECK: stage.tma_load %[[ARRAY]], {{.*}} {box = [128 : i32, 64 : i32]
// CHECK: stage.role {sym_name = "store"
// CHECK: stage.bulk_wait {pending = 0 : i32, id = "store.store.stores.maps.complete"}
// CHECK: stage.edit_map %[[Y]]
// CHECK-NEXT: stage.map_release
// CHECK: stage.map_acquire
// CHECK: stage.mbarrier_wait %[[FULL]], %[[SLOT2:.*]], %{{.*}} {by = "one"
// CHECK: stage.tma_store
// CHECK: stage.mbarrier_arrive %[[EMPTY]], %[[SLOT2]]

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "copy", arg_names = ["rows", "X", "Y"], contract = {}} do {
  ^bb0(%rows: !tile.tensor<i32, [G]>, %X: !tile.tensor<bf16, [G, ?rows, N], list>, %Y: !tile.tensor<bf16, [G, ?rows, N], list>):
    %G = stage.size {symbol = "G"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %ring = stage.pipe %t {sym_name = "ring", kind = "full_empty", depth = 4 : i32, producers = ["load"], consumers = ["store"]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">) -> (!stage.ring)
    %X_maps = stage.maps %X {sym_name = "X.maps"} : (!tile.tensor<bf16, [G, ?rows, N], list>) -> (!stage.tensor_maps<2>)
    %Y_maps = stage.maps %Y {sym_name = "Y.maps"} : (!tile.tensor<bf16, [G, ?rows, N], list>) -> (!stage.tensor_maps<2>)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      %c1 = stage.const {constant = 1 : i32} : () -> (i32)
      %0 = stage.arith %G, %c1 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64 = stage.const {constant = 64 : i32} : () -> (i32)
      %1 = stage.arith %N, %c64 {kind = "cdiv"} : (i32, i32) -> (i32)
      %unit = stage.unit {which = "index"} : () -> (i32)
      %units = stage.unit {which = "count"} : () -> (i32)
      %c0 = stage.const {constant = 0 : i32} : () -> (i32)
      %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
      %2 = stage.for %c0, %0, %c1_1, %unit {chained = "work"} : (i32, i32, i32, i32) -> (i32) do {
      ^bb0(%g: i32, %first: i32):
        %count = stage.load_element %rows, %g {constant} : (!tile.tensor<i32, [G]>, i32) -> (i32)
        %c0_1 = stage.const {constant = 0 : i32} : () -> (i32)
        %3 = stage.arith %count, %c0_1 {kind = "max"} : (i32, i32) -> (i32)
        %c128 = stage.const {constant = 128 : i32} : () -> (i32)
        %4 = stage.arith %3, %c128 {kind = "cdiv"} : (i32, i32) -> (i32)
        %5 = stage.arith %4, %1 {kind = "mul"} : (i32, i32) -> (i32)
        %some = stage.arith %first, %5 {kind = "lt"} : (i32, i32) -> (i1)
        stage.if %some : (i1) do {
          stage.for %first, %5, %units : (i32, i32, i32) do {
          ^bb0(%item: i32):
            %n = stage.arith %item, %1 {kind = "mod"} : (i32, i32) -> (i32)
            %m = stage.arith %item, %1 {kind = "div"} : (i32, i32) -> (i32)
            %slot = stage.acquire %ring : (!stage.ring) -> (i32)
            %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
            %6 = stage.arith %m, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
            %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
            %7 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
            stage.tma_load %X, %t, %slot, %g, %6, %7 {box = [1 : i32, 128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 3, 0>} : (!tile.tensor<bf16, [G, ?rows, N], list>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32, i32)
            stage.commit %ring, %slot {how = ["tma"], bytes = 16384 : i32} : (!stage.ring, i32)
            stage.yield ()
          }
          stage.yield ()
        }
        %8 = stage.arith %5, %first {kind = "sub"} : (i32, i32) -> (i32)
        %9 = stage.arith %8, %c0_1 {kind = "max"} : (i32, i32) -> (i32)
        %10 = stage.arith %9, %units {kind = "cdiv"} : (i32, i32) -> (i32)
        %11 = stage.arith %10, %units {kind = "mul"} : (i32, i32) -> (i32)
        %12 = stage.arith %first, %11 {kind = "add"} : (i32, i32) -> (i32)
        %first_1 = stage.arith %12, %5 {kind = "sub"} : (i32, i32) -> (i32)
        stage.yield %first_1 : (i32)
      }
    }
    stage.role {sym_name = "store", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      %c1_2 = stage.const {constant = 1 : i32} : () -> (i32)
      %13 = stage.arith %G, %c1_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
      %14 = stage.arith %N, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      %unit_1 = stage.unit {which = "index"} : () -> (i32)
      %units_1 = stage.unit {which = "count"} : () -> (i32)
      %c0_2 = stage.const {constant = 0 : i32} : () -> (i32)
      %c1_3 = stage.const {constant = 1 : i32} : () -> (i32)
      %15 = stage.for %c0_2, %13, %c1_3, %unit_1 {chained = "work"} : (i32, i32, i32, i32) -> (i32) do {
      ^bb0(%g_1: i32, %first_2: i32):
        %count_1 = stage.load_element %rows, %g_1 {constant} : (!tile.tensor<i32, [G]>, i32) -> (i32)
        %c0_3 = stage.const {constant = 0 : i32} : () -> (i32)
        %16 = stage.arith %count_1, %c0_3 {kind = "max"} : (i32, i32) -> (i32)
        %c128_2 = stage.const {constant = 128 : i32} : () -> (i32)
        %17 = stage.arith %16, %c128_2 {kind = "cdiv"} : (i32, i32) -> (i32)
        %18 = stage.arith %17, %14 {kind = "mul"} : (i32, i32) -> (i32)
        %some_1 = stage.arith %first_2, %18 {kind = "lt"} : (i32, i32) -> (i1)
        stage.if %some_1 : (i1) do {
          stage.for %first_2, %18, %units_1 : (i32, i32, i32) do {
          ^bb0(%item_1: i32):
            %n_1 = stage.arith %item_1, %14 {kind = "mod"} : (i32, i32) -> (i32)
            %m_1 = stage.arith %item_1, %14 {kind = "div"} : (i32, i32) -> (i32)
            %slot_1 = stage.wait %ring : (!stage.ring) -> (i32)
            %c128_3 = stage.const {constant = 128 : i32} : () -> (i32)
            %19 = stage.arith %m_1, %c128_3 {kind = "mul"} : (i32, i32) -> (i32)
            %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
            %20 = stage.arith %n_1, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
            stage.tma_store %t, %slot_1, %Y, %g_1, %19, %20 {box = [1 : i32, 128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [G, ?rows, N], list>, i32, i32, i32)
            stage.bulk_commit {id = "store.store"}
            stage.release %ring, %slot_1 {how = ["bulk"]} : (!stage.ring, i32)
            stage.yield ()
          }
          stage.yield ()
        }
        %21 = stage.arith %18, %first_2 {kind = "sub"} : (i32, i32) -> (i32)
        %22 = stage.arith %21, %c0_3 {kind = "max"} : (i32, i32) -> (i32)
        %23 = stage.arith %22, %units_1 {kind = "cdiv"} : (i32, i32) -> (i32)
        %24 = stage.arith %23, %units_1 {kind = "mul"} : (i32, i32) -> (i32)
        %25 = stage.arith %first_2, %24 {kind = "add"} : (i32, i32) -> (i32)
        %first_3 = stage.arith %25, %18 {kind = "sub"} : (i32, i32) -> (i32)
        stage.yield %first_3 : (i32)
      }
      stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
    }
  }
}
