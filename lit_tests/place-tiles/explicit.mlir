// Explicit code: slots become buffers and numbers, copies take their coordinates, scalars are carried, what speaks of
// no tile passes as it is. Buffers that no pipe carries say so, and an accumulator keeps every slot that it was given.
// RUN: tkc-opt %s -p 'place-tiles' | filecheck %s

// CHECK: %a = stage.alloc {sym_name = "a", explicit} : () -> (!stage.buffer<bf16, [128, 64], 2, shared, "128B">)
// CHECK-NEXT: %d = stage.alloc {sym_name = "d", explicit} : () -> (!stage.buffer<f32, [128, 128], 2, tensor, "none">)
// CHECK: %full = stage.barriers
// CHECK: stage.for %{{.*}}, %{{.*}}, %{{.*}}, %zero : (i32, i32, i32, i32) -> (i32) do {
// CHECK: stage.tma_load_to %A, %a, %{{.*}}, %full, %one, %{{.*}}, %{{.*}} {box = [128 : i32, 64 : i32], operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 2, 0, 0>}
// CHECK-NEXT: stage.mbarrier_wait %full, %one, %zero {by = "all", id = "w", sem = "relaxed", scope = "cluster"}
// CHECK-NEXT: %[[D:.*]] = stage.open %d, %one
// CHECK-NEXT: %more = stage.arith %zero, %k {kind = "lt"}
// CHECK-NEXT: %[[R:.*]] = stage.restart %[[D]], %more
// CHECK-NEXT: stage.mma %[[R]], %a, %{{.*}}, %a, %{{.*}} {trans_a = 0 : i32, trans_b = 1 : i32, alone}
// CHECK: sym_name = "two", warps = 4
// CHECK: stage.read_accumulator %{{.*}}, %{{.*}}, %some {row_block = 0 : i32}
// CHECK: stage.store_shared %{{.*}}, %c, %zero
// CHECK: %[[ROW:.*]] = stage.arith %one, %{{.*}} {kind = "mul"}
// CHECK: stage.tma_store %c, %zero, %C, %[[ROW]],
// CHECK: stage.while %zero

builtin.module attributes {tkc.target = "sm_100a"} {
  tile.kernel {sym_name = "k", arg_names = ["A", "C"], params = {}, launch = {}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %M = stage.size {symbol = "M"} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [128, 64], 2, "128B">)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 128], 2>)
    %c = tile.shared {sym_name = "c"} : () -> (!tile.shared<bf16, [128, 64], 1, "128B">)
    %full = stage.barriers {sym_name = "full", depth = 2 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    tile.role {sym_name = "one"} do {
      %s = tile.for_blocks %K, %zero {size = 64 : i32} : (i32, i32) -> (i32) do {
      ^bb0(%k: !tile.block<64, K>, %s0: i32):
        %m = tile.for_blocks %M, %s0 {size = 128 : i32} : (i32, i32) -> (i32) do {
        ^bb0(%b: !tile.block<128, M>, %s1: i32):
          %from = tile.slice %A, %b, %k : (!tile.tensor<bf16, [M, K]>, !tile.block<128, M>, !tile.block<64, K>) -> (!tile.slice<bf16, [128, 64]>)
          %as = tile.slot %a, %s1 : (!tile.shared<bf16, [128, 64], 2, "128B">, i32) -> (!tile.shared<bf16, [128, 64], 2, "128B">)
          tile.tma_load %from, %as, %full, %one {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 2, "128B">, !stage.mbarriers, i32)
          stage.mbarrier_wait %full, %one, %zero {by = "all", id = "w", sem = "relaxed", scope = "cluster"} : (!stage.mbarriers, i32, i32)
          %ds = tile.slot %d, %one : (!tile.accum<f32, [128, 128], 2>, i32) -> (!tile.accum<f32, [128, 128], 2>)
          %number = tile.block_number %k : (!tile.block<64, K>) -> (i32)
          %more = stage.arith %zero, %number {kind = "lt"} : (i32, i32) -> (i1)
          tile.restart %ds, %more : (!tile.accum<f32, [128, 128], 2>, i1)
          tile.mma %ds, %as, %as {trans_a = 0 : i32, trans_b = 1 : i32, alone} : (!tile.accum<f32, [128, 128], 2>, !tile.shared<bf16, [128, 64], 2, "128B">, !tile.shared<bf16, [128, 64], 2, "128B">)
          %next = stage.arith %s1, %one {kind = "xor"} : (i32, i32) -> (i32)
          tile.yield %next : (i32)
        }
        tile.yield %m : (i32)
      }
    }
    tile.role {sym_name = "two"} do {
      %ds = tile.slot %d, %one : (!tile.accum<f32, [128, 128], 2>, i32) -> (!tile.accum<f32, [128, 128], 2>)
      %cs = tile.slot %c, %zero : (!tile.shared<bf16, [128, 64], 1, "128B">, i32) -> (!tile.shared<bf16, [128, 64], 1, "128B">)
      %some = stage.arith %zero, %K {kind = "lt"} : (i32, i32) -> (i1)
      %x = tile.read_columns %ds, %one, %some : (!tile.accum<f32, [128, 128], 2>, i32, i1) -> (!tile.regs<f32, [128, 64]>)
      %y = tile.cast %x : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<bf16, [128, 64]>)
      tile.copy %y, %cs : (!tile.regs<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 1, "128B">)
      tile.for_blocks %M {size = 128 : i32} : (i32) do {
      ^bb0(%b: !tile.block<128, M>):
        %n = tile.part_at %b, %one {count = 2 : i32} : (!tile.block<128, M>, i32) -> (!tile.block<64, M>)
        %at = tile.block_at %one : (i32) -> (!tile.block<128, M>)
        %to = tile.slice %C, %at, %n : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, M>) -> (!tile.slice<bf16, [128, 64]>)
        tile.tma_store %cs, %to : (!tile.shared<bf16, [128, 64], 1, "128B">, !tile.slice<bf16, [128, 64]>)
        tile.yield ()
      }
      %z = stage.while %zero : (i32) -> (i32) do {
      ^bb0(%i: i32):
        %go = stage.arith %i, %K {kind = "lt"} : (i32, i32) -> (i1)
        stage.yield %go : (i1)
      }, {
      ^bb0(%i: i32):
        stage.mbarrier_arrive %full, %i {by = "lane", id = "a", count = 2 : i32} : (!stage.mbarriers, i32)
        %j = stage.arith %i, %one {kind = "add"} : (i32, i32) -> (i32)
        stage.yield %j : (i32)
      }
      stage.named_barrier {number = 3 : i32, threads = 128 : i32, id = "n"}
      stage.fence {sem = "acq_rel", scope = "gpu", id = "f"}
      stage.bulk_wait {pending = 0 : i32, id = "d"}
    }
  }
}
