// What is left out of tensor maps that a kernel edits, each at its place.
// RUN: tkc-opt %s -p 'lower-schedules,edit-maps' --split-input-file --expect-errors

builtin.module attributes {tkc.target = "sm_90a"} {
  stage.kernel {sym_name = "copy", arg_names = ["rows", "X", "Y"], contract = {}, dependent} do {
  ^bb0(%rows: !tile.tensor<i32, [G]>, %X: !tile.tensor<bf16, [G, ?rows, N], list>, %Y: !tile.tensor<bf16, [G, ?rows, N], list>):
    %G = stage.size {symbol = "G"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %t = stage.alloc {sym_name = "t"} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %ring = stage.pipe %t {sym_name = "ring", kind = "full_empty", depth = 4 : i32, producers = ["load"], consumers = ["store"]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">) -> (!stage.ring)
    %X_maps = stage.maps %X {sym_name = "X.maps"} : (!tile.tensor<bf16, [G, ?rows, N], list>) -> (!stage.tensor_maps<2>)
    %Y_maps = stage.maps %Y {sym_name = "Y.maps"} : (!tile.tensor<bf16, [G, ?rows, N], list>) -> (!stage.tensor_maps<2>)
    stage.role {sym_name = "load", warps = 1 : i32, first_warp = 0 : i32, groups = 1 : i32} do {
      stage.grid_wait {by = "one", id = "load.pdl"} // error: `wait pdl` and `arrive pdl` beside edited tensor maps
      %c1 = stage.const {constant = 1 : i32} : () -> (i32)
      %0 = stage.arith %G, %c1 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64 = stage.const {constant = 64 : i32} : () -> (i32)
      %1 = stage.arith %N, %c64 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %0, %rows, %1 {schedule = "work", group = 1 : i32, sizes = [1 : i32, 128 : i32, 64 : i32], operandSegmentSizes = array<i32: 3, 0>} : (i32, !tile.tensor<i32, [G]>, i32) do {
      ^bb0(%g: i32, %m: i32, %n: i32):
        %slot = stage.acquire %ring : (!stage.ring) -> (i32)
        %c128 = stage.const {constant = 128 : i32} : () -> (i32)
        %2 = stage.arith %m, %c128 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
        %3 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %X, %t, %slot, %g, %2, %3 {box = [1 : i32, 128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 3, 0>} : (!tile.tensor<bf16, [G, ?rows, N], list>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32, i32)
        stage.commit %ring, %slot {how = ["tma"], bytes = 16384 : i32} : (!stage.ring, i32)
        stage.yield ()
      }
    }
    stage.role {sym_name = "store", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
      %4 = stage.arith %G, %c1_1 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
      %5 = stage.arith %N, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %4, %rows, %5 {schedule = "work", group = 1 : i32, sizes = [1 : i32, 128 : i32, 64 : i32], operandSegmentSizes = array<i32: 3, 0>} : (i32, !tile.tensor<i32, [G]>, i32) do {
      ^bb0(%g_1: i32, %m_1: i32, %n_1: i32):
        %slot_1 = stage.wait %ring : (!stage.ring) -> (i32)
        %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
        %6 = stage.arith %m_1, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        %7 = stage.arith %n_1, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_store %t, %slot_1, %Y, %g_1, %6, %7 {box = [1 : i32, 128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [G, ?rows, N], list>, i32, i32, i32)
        stage.bulk_commit {id = "store.store"}
        stage.release %ring, %slot_1 {how = ["bulk"]} : (!stage.ring, i32)
        stage.yield ()
      }
      stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
    }
  }
}

// -----

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
      stage.work_loop %0, %rows, %1 {schedule = "work", group = 1 : i32, sizes = [1 : i32, 128 : i32, 64 : i32], operandSegmentSizes = array<i32: 3, 0>} : (i32, !tile.tensor<i32, [G]>, i32) do {
      ^bb0(%g: i32, %m: i32, %n: i32):
        %slot = stage.acquire %ring : (!stage.ring) -> (i32)
        %c128 = stage.const {constant = 128 : i32} : () -> (i32)
        %2 = stage.arith %m, %c128 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_1 = stage.const {constant = 64 : i32} : () -> (i32)
        %3 = stage.arith %n, %c64_1 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_load %X, %t, %slot, %m, %2, %3 {box = [1 : i32, 128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 3, 0>} : (!tile.tensor<bf16, [G, ?rows, N], list>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32, i32) // error: a copy of another array than that of the schedule
        stage.commit %ring, %slot {how = ["tma"], bytes = 16384 : i32} : (!stage.ring, i32)
        stage.yield ()
      }
    }
    stage.role {sym_name = "store", warps = 1 : i32, first_warp = 1 : i32, groups = 1 : i32} do {
      %c1_1 = stage.const {constant = 1 : i32} : () -> (i32)
      %4 = stage.arith %G, %c1_1 {kind = "cdiv"} : (i32, i32) -> (i32)
      %c64_2 = stage.const {constant = 64 : i32} : () -> (i32)
      %5 = stage.arith %N, %c64_2 {kind = "cdiv"} : (i32, i32) -> (i32)
      stage.work_loop %4, %rows, %5 {schedule = "work", group = 1 : i32, sizes = [1 : i32, 128 : i32, 64 : i32], operandSegmentSizes = array<i32: 3, 0>} : (i32, !tile.tensor<i32, [G]>, i32) do {
      ^bb0(%g_1: i32, %m_1: i32, %n_1: i32):
        %slot_1 = stage.wait %ring : (!stage.ring) -> (i32)
        %c128_1 = stage.const {constant = 128 : i32} : () -> (i32)
        %6 = stage.arith %m_1, %c128_1 {kind = "mul"} : (i32, i32) -> (i32)
        %c64_3 = stage.const {constant = 64 : i32} : () -> (i32)
        %7 = stage.arith %n_1, %c64_3 {kind = "mul"} : (i32, i32) -> (i32)
        stage.tma_store %t, %slot_1, %Y, %g_1, %6, %7 {box = [1 : i32, 128 : i32, 64 : i32]} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !tile.tensor<bf16, [G, ?rows, N], list>, i32, i32, i32)
        stage.bulk_commit {id = "store.store"}
        stage.release %ring, %slot_1 {how = ["bulk"]} : (!stage.ring, i32)
        stage.yield ()
      }
      stage.bulk_wait {pending = 0 : i32, id = "store.drain"}
    }
  }
}
