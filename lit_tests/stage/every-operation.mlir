// Every operation and every type of the stage level, in the short and in the generic form.
// RUN: tkc-opt %s | tkc-opt | filecheck %s
// RUN: tkc-opt --print-op-generic %s | tkc-opt | filecheck %s
// RUN: tkc-opt %s > %t && tkc-opt %s | tkc-opt | diff - %t

// CHECK: stage.kernel {sym_name = "all", arg_names = ["A", "C"], contract = {grid = [1 : i64]}, threads = 256 : i32, shared_bytes = 99 : i32, tensor_columns = 512 : i32} do {
// CHECK-NEXT: ^bb0(%A: !tile.tensor<bf16, [M, 64]>, %C: !tile.tensor<f32, [M, 64]>):
// CHECK-NEXT: %M = stage.size {symbol = "M"} : () -> (i32)
// CHECK-NEXT: %N = stage.size {symbol = "N"} : () -> (i64)
// CHECK-NEXT: %zero = stage.const {constant = 0 : i32} : () -> (i32)
// CHECK-NEXT: %one = stage.const {constant = 1 : i32} : () -> (i32)
// CHECK-NEXT: %half = stage.const {constant = 5.000000e-01 : f32} : () -> (f32)
// CHECK-NEXT: %some = stage.arith %zero, %M {kind = "lt"} : (i32, i32) -> (i1)
// CHECK-NEXT: %x = stage.arith %some, %zero, %one {kind = "select"} : (i1, i32, i32) -> (i32)
// CHECK-NEXT: %a = stage.alloc {sym_name = "a", offset = 0 : i32} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
// CHECK-NEXT: %s = stage.alloc {sym_name = "s", staging} : () -> (!stage.buffer<f32, [64, 32], 2, shared, "128B">)
// CHECK-NEXT: %answers = stage.alloc {sym_name = "answers"} : () -> (!stage.buffer<i32, [4], 2, shared, "none">)
// CHECK-NEXT: %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 64], 2, tensor, "none">)
// CHECK-NEXT: %e = stage.alloc {sym_name = "e"} : () -> (!stage.buffer<f32, [64, 64], 1, register, "none">)
// CHECK-NEXT: %u = stage.alloc {sym_name = "u"} : () -> (!stage.buffer<ue8m0, [128, 4], 4, shared, "scale_atoms">)
// CHECK-NEXT: %v0 = stage.alloc {sym_name = "v"} : () -> (!stage.buffer<ue8m0, [128, 4], 4, tensor, "scale_atoms">)
// CHECK-NEXT: %full = stage.barriers {sym_name = "p.full", depth = 4 : i32, count = 5 : i32, offset = 8 : i32} : () -> (!stage.mbarriers)
// CHECK-NEXT: %p = stage.pipe %a {sym_name = "p", kind = "full_empty", depth = 4 : i32, producers = ["r"], consumers = []} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">) -> (!stage.ring)
// CHECK-NEXT: stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32, registers = 40 : i32} do {
// CHECK-NEXT: %unit = stage.unit {which = "index"} : () -> (i32)
// CHECK-NEXT: %group = stage.group : () -> (i32)
// CHECK-NEXT: %elected = stage.elected {scope = "one"} : () -> (i1)
// CHECK-NEXT: stage.work_loop %M {schedule = "work", group = 8 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
// CHECK-NEXT: ^bb0(%m: i32):
// CHECK-NEXT: %slot = stage.acquire %p : (!stage.ring) -> (i32)
// CHECK-NEXT: stage.tma_load %A, %a, %slot, %m, %zero {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>}
// CHECK-NEXT: stage.commit %p, %slot {how = ["tma"], bytes = 16384 : i32} : (!stage.ring, i32)
// CHECK-NEXT: %got = stage.wait %p : (!stage.ring) -> (i32)
// CHECK-NEXT: stage.release %p, %got {how = ["generic", "tcgen05"]} : (!stage.ring, i32)
// CHECK-NEXT: %mine = stage.turn %p {index = 1 : i32, count = 2 : i32} : (!stage.ring) -> (i1)
// CHECK-NEXT: stage.skip %p : (!stage.ring)
// CHECK-NEXT: stage.yield ()
// CHECK-NEXT: }
// CHECK-NEXT: %acc = stage.open %d, %zero : (!stage.buffer<f32, [128, 64], 2, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 64]>)
// CHECK-NEXT: %cleared = stage.zero %acc : (!stage.accumulator<f32, [128, 64]>) -> (!stage.accumulator<f32, [128, 64]>)
// CHECK-NEXT: %sum, %next = stage.for %zero, %M, %one, %cleared, %zero : (i32, i32, i32, !stage.accumulator<f32, [128, 64]>, i32) -> (!stage.accumulator<f32, [128, 64]>, i32) do {
// CHECK-NEXT: ^bb0(%k: i32, %in: !stage.accumulator<f32, [128, 64]>, %at: i32):
// CHECK-NEXT: stage.mbarrier_wait %full, %at, %zero {by = "all", id = "w"} : (!stage.mbarriers, i32, i32)
// CHECK-NEXT: %there = stage.mbarrier_try %full, %at, %zero {id = "t", sem = "acquire", scope = "cluster"} : (!stage.mbarriers, i32, i32) -> (i1)
// CHECK-NEXT: %out = stage.mma %in, %a, %at, %a, %at {trans_a = 0 : i32, trans_b = 1 : i32, by = "all"}
// CHECK-NEXT: stage.tcgen05_commit %full, %at {id = "c"} : (!stage.mbarriers, i32)
// CHECK-NEXT: %tout = stage.tensor_mma %in, %in, %a, %at {trans_b = 1 : i32} : (!stage.accumulator<f32, [128, 64]>, !stage.accumulator<f32, [128, 64]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32) -> (!stage.accumulator<f32, [128, 64]>)
// CHECK-NEXT: %done = stage.mma_wait %out {pending = 1 : i32, id = "d"} : (!stage.accumulator<f32, [128, 64]>) -> (!stage.accumulator<f32, [128, 64]>)
// CHECK-NEXT: stage.yield %done, %at : (!stage.accumulator<f32, [128, 64]>, i32)
// CHECK-NEXT: }
// CHECK-NEXT: stage.copy_scales %u, %zero, %v0, %zero : (!stage.buffer<ue8m0, [128, 4], 4, shared, "scale_atoms">, i32, !stage.buffer<ue8m0, [128, 4], 4, tensor, "scale_atoms">, i32)
// CHECK-NEXT: %scaled = stage.scaled_mma %sum, %a, %zero, %a, %zero, %v0, %zero, %v0, %zero : (!stage.accumulator<f32, [128, 64]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, {{.*}}) -> (!stage.accumulator<f32, [128, 64]>)
// CHECK-NEXT: stage.tcgen05_fence {side = "after_thread_sync", id = "f", by = "one"}
// CHECK-NEXT: %f = stage.read_accumulator %sum, %zero, %some {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 64]>, i32, i1) -> (!stage.fragment<f32, [128, 32], rows>)
// CHECK-NEXT: %g = stage.read_accumulator %sum, %zero {row_block = 1 : i32} : (!stage.accumulator<f32, [128, 64]>, i32) -> (!stage.fragment<f32, [64, 32], half_rows>)
// CHECK-NEXT: %re = stage.write_accumulator %sum, %f, %zero {row_block = 0 : i32}
// CHECK-NEXT: %h = stage.map %f, %half {kind = "mul"} : (!stage.fragment<f32, [128, 32], rows>, f32) -> (!stage.fragment<f32, [128, 32], rows>)
// CHECK-NEXT: %b = stage.cast %h : (!stage.fragment<f32, [128, 32], rows>) -> (!stage.fragment<bf16, [128, 32], rows>)
// CHECK-NEXT: %l = stage.load_shared %a, %zero, %zero : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32) -> (!stage.fragment<bf16, [128, 32], wgmma>)
// CHECK-NEXT: stage.store_shared %b, %a, %zero, %zero : (!stage.fragment<bf16, [128, 32], rows>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32)
// CHECK-NEXT: %v = stage.fill %half : (f32) -> (!stage.fragment<f32, [128, 1], rows>)
// CHECK-NEXT: %masked = stage.mask %h, %M {rows = -1 : i32, columns = 1 : i32, fill = 0.000000e+00 : f32} : (!stage.fragment<f32, [128, 32], rows>, i32) -> (!stage.fragment<f32, [128, 32], rows>)
// CHECK-NEXT: %w = stage.part %h {start = 16 : i32} : (!stage.fragment<f32, [128, 32], rows>) -> (!stage.fragment<f32, [128, 16], rows>)
// CHECK-NEXT: %y = stage.reduce %w, %v, %M {kind = "add"} : (!stage.fragment<f32, [128, 16], rows>, !stage.fragment<f32, [128, 1], rows>, i32) -> (!stage.fragment<f32, [128, 1], rows>)
// CHECK-NEXT: %z = stage.combine_lanes %y {kind = "add"} : (!stage.fragment<f32, [128, 1], rows>) -> (!stage.fragment<f32, [128, 1], rows>)
// CHECK-NEXT: %folded = stage.fold_rows %h {kind = "max"} : (!stage.fragment<f32, [128, 32], rows>) -> (f32)
// CHECK-NEXT: %number = stage.fold_warp %z {kind = "add"} : (!stage.fragment<f32, [128, 1], rows>) -> (f32)
// CHECK-NEXT: %t = stage.load_global %C, %M, %zero, %one {axis = 0 : i32} : (!tile.tensor<f32, [M, 64]>, i32, i32, i32) -> (!stage.fragment<f32, [128, 1], rows>)
// CHECK-NEXT: stage.store_global %z, %C, %M, %zero, %one {axis = 0 : i32, limit = 64 : i32, add} : (!stage.fragment<f32, [128, 1], rows>, !tile.tensor<f32, [M, 64]>, i32, i32, i32)
// CHECK-NEXT: stage.proxy_fence {space = "shared::cta", guards = ["a"], id = "p", by = "all"}
// CHECK-NEXT: stage.role_barrier {id = "b", whole}
// CHECK-NEXT: stage.warp_sync {id = "s"}
// CHECK-NEXT: stage.if %elected : (i1) do {
// CHECK-NEXT: stage.mbarrier_expect %full, %zero {bytes = 16384 : i32, by = "one", id = "e"} : (!stage.mbarriers, i32)
// CHECK-NEXT: stage.mbarrier_arrive %full, %zero {by = "one", id = "a"} : (!stage.mbarriers, i32)
// CHECK-NEXT: stage.tma_store %s, %zero, %C, %zero, %zero {box = [64 : i32, 32 : i32]} : (!stage.buffer<f32, [64, 32], 2, shared, "128B">, i32, !tile.tensor<f32, [M, 64]>, i32, i32)
// CHECK-NEXT: stage.bulk_commit {id = "g"}
// CHECK-NEXT: stage.bulk_wait {pending = 1 : i32, read, id = "r"}
// CHECK-NEXT: stage.yield ()
// CHECK-NEXT: }, {
// CHECK-NEXT: stage.yield ()
// CHECK-NEXT: }
// CHECK-NEXT: %lane = stage.identity {which = "lane"} : () -> (i32)
// CHECK-NEXT: %again = stage.restart %acc, %some : (!stage.accumulator<f32, [128, 64]>, i1) -> (!stage.accumulator<f32, [128, 64]>)
// CHECK-NEXT: stage.tma_load_to %A, %a, %zero, %full, %one, %M, %zero {box = [128 : i32, 64 : i32], hint = "evict_first", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 2, 0, 0>} : (!tile.tensor<bf16, [M, 64]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.mbarriers, i32, i32, i32)
// CHECK-NEXT: stage.cluster_copy %a, %zero, %a, %one, %full, %one, %zero : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.mbarriers, i32, i32)
// CHECK-NEXT: stage.mma_fence {id = "u"}
// CHECK-NEXT: stage.mma_commit {id = "v"}
// CHECK-NEXT: stage.fence {sem = "acq_rel", scope = "gpu", id = "x"}
// CHECK-NEXT: stage.named_barrier {number = 3 : i32, threads = 128 : i32, id = "y"}
// CHECK-NEXT: stage.registers {action = "dec", count = 40 : i32}
// CHECK-NEXT: stage.tma_prefetch %A, %M, %zero {box = [128 : i32, 64 : i32], hint = "evict_last"}
// CHECK-NEXT: stage.cluster_barrier {does = "arrive", sem = "relaxed", id = "ca"}
// CHECK-NEXT: stage.try_cancel %answers, %zero, %full {everywhere} : (!stage.buffer<i32, [4], 2, shared, "none">, i32, !stage.mbarriers)
// CHECK-NEXT: %more, %item = stage.answer %answers, %zero {by = "one"} : (!stage.buffer<i32, [4], 2, shared, "none">, i32) -> (i1, i32)
// CHECK-NEXT: stage.grid_wait {by = "all", id = "gw"}
// CHECK-NEXT: stage.grid_launch {by = "one", id = "gl"}
// CHECK-NEXT: stage.print %one {format = "%d\0A"}
// CHECK-NEXT: stage.assert %some {told = "few", by = "all"}
// CHECK-NEXT: stage.mbarrier_arrive %full, %zero, %one {by = "all", id = "ar", scope = "cluster", sem = "release"}
// CHECK-NEXT: stage.mbarrier_expect %full, %zero, %one {bytes = 16 : i32, by = "one", id = "er"}
// CHECK-NEXT: stage.tcgen05_commit %full, %zero, %one {id = "cm", reads}
// CHECK-NEXT: %wide = stage.number %zero {kind = "convert"} : (i32) -> (ui32)
// CHECK-NEXT: %wider = stage.number %wide, %wide {kind = "mul"} : (ui32, ui32) -> (ui32)
// CHECK-NEXT: %el = stage.load_element %C, %zero, %one {sem = "acquire", scope = "gpu"}
// CHECK-NEXT: stage.store_element %el, %C, %zero, %one
// CHECK-NEXT: %old = stage.atomic %C, %el, %zero, %one {kind = "add", operandSegmentSizes = array<i32: 1, 1, 2>}
// CHECK-NEXT: stage.copy_elements %C, %zero, %one, %s, %zero, %one, %zero {bytes = 16 : i32, operandSegmentSizes = array<i32: 1, 2, 1, 3>}
// CHECK-NEXT: stage.copies_commit {id = "cc"}
// CHECK-NEXT: stage.copies_wait {pending = 1 : i32, id = "cw"}
// CHECK-NEXT: stage.copies_arrive %full, %zero {uncounted, id = "ca"} : (!stage.mbarriers, i32)
// CHECK-NEXT: %last = stage.while %zero : (i32) -> (i32) do {
// CHECK-NEXT: ^bb0(%i: i32):
// CHECK-NEXT: stage.yield %some : (i1)
// CHECK-NEXT: }, {
// CHECK-NEXT: ^bb0(%j: i32):
// CHECK-NEXT: stage.yield %j : (i32)
// CHECK-NEXT: }
// CHECK-NEXT: }

builtin.module {
  stage.kernel {sym_name = "all", arg_names = ["A", "C"], contract = {grid = [1 : i64]}, threads = 256 : i32, shared_bytes = 99 : i32, tensor_columns = 512 : i32} do {
  ^bb0(%A: !tile.tensor<bf16, [M, 64]>, %C: !tile.tensor<f32, [M, 64]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i64)
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %half = stage.const {constant = 5.000000e-01 : f32} : () -> (f32)
    %some = stage.arith %zero, %M {kind = "lt"} : (i32, i32) -> (i1)
    %x = stage.arith %some, %zero, %one {kind = "select"} : (i1, i32, i32) -> (i32)
    %a = stage.alloc {sym_name = "a", offset = 0 : i32} : () -> (!stage.buffer<bf16, [128, 64], 4, shared, "128B">)
    %s = stage.alloc {sym_name = "s", staging} : () -> (!stage.buffer<f32, [64, 32], 2, shared, "128B">)
    %answers = stage.alloc {sym_name = "answers"} : () -> (!stage.buffer<i32, [4], 2, shared, "none">)
    %d = stage.alloc {sym_name = "d"} : () -> (!stage.buffer<f32, [128, 64], 2, tensor, "none">)
    %e = stage.alloc {sym_name = "e"} : () -> (!stage.buffer<f32, [64, 64], 1, register, "none">)
    %u = stage.alloc {sym_name = "u"} : () -> (!stage.buffer<ue8m0, [128, 4], 4, shared, "scale_atoms">)
    %v0 = stage.alloc {sym_name = "v"} : () -> (!stage.buffer<ue8m0, [128, 4], 4, tensor, "scale_atoms">)
    %full = stage.barriers {sym_name = "p.full", depth = 4 : i32, count = 5 : i32, offset = 8 : i32} : () -> (!stage.mbarriers)
    %p = stage.pipe %a {sym_name = "p", kind = "full_empty", depth = 4 : i32, producers = ["r"], consumers = []} : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">) -> (!stage.ring)
    stage.role {sym_name = "r", warps = 4 : i32, first_warp = 0 : i32, groups = 1 : i32, registers = 40 : i32} do {
      %unit = stage.unit {which = "index"} : () -> (i32)
      %group = stage.group : () -> (i32)
      %elected = stage.elected {scope = "one"} : () -> (i1)
      stage.work_loop %M {schedule = "work", group = 8 : i32, operandSegmentSizes = array<i32: 1, 0>} : (i32) do {
      ^bb0(%m: i32):
        %slot = stage.acquire %p : (!stage.ring) -> (i32)
        stage.tma_load %A, %a, %slot, %m, %zero {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : (!tile.tensor<bf16, [M, 64]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32, i32)
        stage.commit %p, %slot {how = ["tma"], bytes = 16384 : i32} : (!stage.ring, i32)
        %got = stage.wait %p : (!stage.ring) -> (i32)
        stage.release %p, %got {how = ["generic", "tcgen05"]} : (!stage.ring, i32)
        %mine = stage.turn %p {index = 1 : i32, count = 2 : i32} : (!stage.ring) -> (i1)
        stage.skip %p : (!stage.ring)
        stage.yield ()
      }
      %acc = stage.open %d, %zero : (!stage.buffer<f32, [128, 64], 2, tensor, "none">, i32) -> (!stage.accumulator<f32, [128, 64]>)
      %cleared = stage.zero %acc : (!stage.accumulator<f32, [128, 64]>) -> (!stage.accumulator<f32, [128, 64]>)
      %sum, %next = stage.for %zero, %M, %one, %cleared, %zero : (i32, i32, i32, !stage.accumulator<f32, [128, 64]>, i32) -> (!stage.accumulator<f32, [128, 64]>, i32) do {
      ^bb0(%k: i32, %in: !stage.accumulator<f32, [128, 64]>, %at: i32):
        stage.mbarrier_wait %full, %at, %zero {by = "all", id = "w"} : (!stage.mbarriers, i32, i32)
        %there = stage.mbarrier_try %full, %at, %zero {id = "t", sem = "acquire", scope = "cluster"} : (!stage.mbarriers, i32, i32) -> (i1)
        %out = stage.mma %in, %a, %at, %a, %at {trans_a = 0 : i32, trans_b = 1 : i32, by = "all"} : (!stage.accumulator<f32, [128, 64]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32) -> (!stage.accumulator<f32, [128, 64]>)
        stage.tcgen05_commit %full, %at {id = "c"} : (!stage.mbarriers, i32)
        %tout = stage.tensor_mma %in, %in, %a, %at {trans_b = 1 : i32} : (!stage.accumulator<f32, [128, 64]>, !stage.accumulator<f32, [128, 64]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32) -> (!stage.accumulator<f32, [128, 64]>)
        %done = stage.mma_wait %out {pending = 1 : i32, id = "d"} : (!stage.accumulator<f32, [128, 64]>) -> (!stage.accumulator<f32, [128, 64]>)
        stage.yield %done, %at : (!stage.accumulator<f32, [128, 64]>, i32)
      }
      stage.copy_scales %u, %zero, %v0, %zero : (!stage.buffer<ue8m0, [128, 4], 4, shared, "scale_atoms">, i32, !stage.buffer<ue8m0, [128, 4], 4, tensor, "scale_atoms">, i32)
      %scaled = stage.scaled_mma %sum, %a, %zero, %a, %zero, %v0, %zero, %v0, %zero : (!stage.accumulator<f32, [128, 64]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.buffer<ue8m0, [128, 4], 4, tensor, "scale_atoms">, i32, !stage.buffer<ue8m0, [128, 4], 4, tensor, "scale_atoms">, i32) -> (!stage.accumulator<f32, [128, 64]>)
      stage.tcgen05_fence {side = "after_thread_sync", id = "f", by = "one"}
      %f = stage.read_accumulator %sum, %zero, %some {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 64]>, i32, i1) -> (!stage.fragment<f32, [128, 32], rows>)
      %g = stage.read_accumulator %sum, %zero {row_block = 1 : i32} : (!stage.accumulator<f32, [128, 64]>, i32) -> (!stage.fragment<f32, [64, 32], half_rows>)
      %re = stage.write_accumulator %sum, %f, %zero {row_block = 0 : i32} : (!stage.accumulator<f32, [128, 64]>, !stage.fragment<f32, [128, 32], rows>, i32) -> (!stage.accumulator<f32, [128, 64]>)
      %h = stage.map %f, %half {kind = "mul"} : (!stage.fragment<f32, [128, 32], rows>, f32) -> (!stage.fragment<f32, [128, 32], rows>)
      %b = stage.cast %h : (!stage.fragment<f32, [128, 32], rows>) -> (!stage.fragment<bf16, [128, 32], rows>)
      %l = stage.load_shared %a, %zero, %zero : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32) -> (!stage.fragment<bf16, [128, 32], wgmma>)
      stage.store_shared %b, %a, %zero, %zero : (!stage.fragment<bf16, [128, 32], rows>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, i32)
      %v = stage.fill %half : (f32) -> (!stage.fragment<f32, [128, 1], rows>)
      %masked = stage.mask %h, %M {rows = -1 : i32, columns = 1 : i32, fill = 0.000000e+00 : f32} : (!stage.fragment<f32, [128, 32], rows>, i32) -> (!stage.fragment<f32, [128, 32], rows>)
      %w = stage.part %h {start = 16 : i32} : (!stage.fragment<f32, [128, 32], rows>) -> (!stage.fragment<f32, [128, 16], rows>)
      %y = stage.reduce %w, %v, %M {kind = "add"} : (!stage.fragment<f32, [128, 16], rows>, !stage.fragment<f32, [128, 1], rows>, i32) -> (!stage.fragment<f32, [128, 1], rows>)
      %z = stage.combine_lanes %y {kind = "add"} : (!stage.fragment<f32, [128, 1], rows>) -> (!stage.fragment<f32, [128, 1], rows>)
      %folded = stage.fold_rows %h {kind = "max"} : (!stage.fragment<f32, [128, 32], rows>) -> (f32)
      %number = stage.fold_warp %z {kind = "add"} : (!stage.fragment<f32, [128, 1], rows>) -> (f32)
      %t = stage.load_global %C, %M, %zero, %one {axis = 0 : i32} : (!tile.tensor<f32, [M, 64]>, i32, i32, i32) -> (!stage.fragment<f32, [128, 1], rows>)
      stage.store_global %z, %C, %M, %zero, %one {axis = 0 : i32, limit = 64 : i32, add} : (!stage.fragment<f32, [128, 1], rows>, !tile.tensor<f32, [M, 64]>, i32, i32, i32)
      stage.proxy_fence {space = "shared::cta", guards = ["a"], id = "p", by = "all"}
      stage.role_barrier {id = "b", whole}
      stage.warp_sync {id = "s"}
      stage.if %elected : (i1) do {
        stage.mbarrier_expect %full, %zero {bytes = 16384 : i32, by = "one", id = "e"} : (!stage.mbarriers, i32)
        stage.mbarrier_arrive %full, %zero {by = "one", id = "a"} : (!stage.mbarriers, i32)
        stage.tma_store %s, %zero, %C, %zero, %zero {box = [64 : i32, 32 : i32]} : (!stage.buffer<f32, [64, 32], 2, shared, "128B">, i32, !tile.tensor<f32, [M, 64]>, i32, i32)
        stage.bulk_commit {id = "g"}
        stage.bulk_wait {pending = 1 : i32, read, id = "r"}
        stage.yield ()
      }, {
        stage.yield ()
      }
      %lane = stage.identity {which = "lane"} : () -> (i32)
      %again = stage.restart %acc, %some : (!stage.accumulator<f32, [128, 64]>, i1) -> (!stage.accumulator<f32, [128, 64]>)
      stage.tma_load_to %A, %a, %zero, %full, %one, %M, %zero {box = [128 : i32, 64 : i32], hint = "evict_first", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 2, 0, 0>} : (!tile.tensor<bf16, [M, 64]>, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.mbarriers, i32, i32, i32)
      stage.cluster_copy %a, %zero, %a, %one, %full, %one, %zero : (!stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.buffer<bf16, [128, 64], 4, shared, "128B">, i32, !stage.mbarriers, i32, i32)
      stage.mma_fence {id = "u"}
      stage.mma_commit {id = "v"}
      stage.fence {sem = "acq_rel", scope = "gpu", id = "x"}
      stage.named_barrier {number = 3 : i32, threads = 128 : i32, id = "y"}
      stage.registers {action = "dec", count = 40 : i32}
      stage.tma_prefetch %A, %M, %zero {box = [128 : i32, 64 : i32], hint = "evict_last"} : (!tile.tensor<bf16, [M, 64]>, i32, i32)
      stage.cluster_barrier {does = "arrive", sem = "relaxed", id = "ca"}
      stage.try_cancel %answers, %zero, %full {everywhere} : (!stage.buffer<i32, [4], 2, shared, "none">, i32, !stage.mbarriers)
      %more, %item = stage.answer %answers, %zero {by = "one"} : (!stage.buffer<i32, [4], 2, shared, "none">, i32) -> (i1, i32)
      stage.grid_wait {by = "all", id = "gw"}
      stage.grid_launch {by = "one", id = "gl"}
      stage.print %one {format = "%d\n"} : (i32) -> ()
      stage.assert %some {told = "few", by = "all"} : (i1) -> ()
      stage.mbarrier_arrive %full, %zero, %one {by = "all", id = "ar", scope = "cluster", sem = "release"} : (!stage.mbarriers, i32, i32)
      stage.mbarrier_expect %full, %zero, %one {bytes = 16 : i32, by = "one", id = "er"} : (!stage.mbarriers, i32, i32)
      stage.tcgen05_commit %full, %zero, %one {id = "cm", reads} : (!stage.mbarriers, i32, i32)
      %wide = stage.number %zero {kind = "convert"} : (i32) -> (ui32)
      %wider = stage.number %wide, %wide {kind = "mul"} : (ui32, ui32) -> (ui32)
      %el = stage.load_element %C, %zero, %one {sem = "acquire", scope = "gpu"} : (!tile.tensor<f32, [M, 64]>, i32, i32) -> (f32)
      stage.store_element %el, %C, %zero, %one : (f32, !tile.tensor<f32, [M, 64]>, i32, i32)
      %old = stage.atomic %C, %el, %zero, %one {kind = "add", operandSegmentSizes = array<i32: 1, 1, 2>} : (!tile.tensor<f32, [M, 64]>, f32, i32, i32) -> (f32)
      stage.copy_elements %C, %zero, %one, %s, %zero, %one, %zero {bytes = 16 : i32, operandSegmentSizes = array<i32: 1, 2, 1, 3>} : (!tile.tensor<f32, [M, 64]>, i32, i32, !stage.buffer<f32, [64, 32], 2, shared, "128B">, i32, i32, i32)
      stage.copies_commit {id = "cc"}
      stage.copies_wait {pending = 1 : i32, id = "cw"}
      stage.copies_arrive %full, %zero {uncounted, id = "ca"} : (!stage.mbarriers, i32)
      %last = stage.while %zero : (i32) -> (i32) do {
      ^bb0(%i: i32):
      stage.yield %some : (i1)
      }, {
      ^bb0(%j: i32):
      stage.yield %j : (i32)
      }
    }
  }
}
