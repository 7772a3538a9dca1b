// Single elements: addresses in tensors and in slots, orders and scopes, atomics with and without an answer; bulk copies.
// RUN: tkc-opt %s -p 'place-tiles,fuse-roles,lower-schedules,lower-pipes,insert-fences,elect-single-thread,assign-shared,assign-tensor-memory,assign-registers,lower-stage-to-ptx,name-registers' -t ptx | filecheck %s

// CHECK: ld.param.u64 %[[X:rd[0-9]+]], [X_pointer];
// CHECK: ld.acquire.gpu.global.f32 %[[V:f[0-9]+]], [%{{rd[0-9]+}}];
// CHECK: st.shared::cta.f32 [%{{r[0-9]+}}+{{[0-9]+}}], %[[V]];
// CHECK: atom.acq_rel.gpu.global.add.f32 %[[OLD:f[0-9]+]], [%{{rd[0-9]+}}], %[[V]];
// CHECK: st.release.sys.global.f32 [%{{rd[0-9]+}}], %[[OLD]];
// CHECK: red.relaxed.cta.shared::cta.add.f32 [%{{r[0-9]+}}], %[[V]];
// CHECK: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%{{r[0-9]+}}], [%{{rd[0-9]+}}], 512, [%{{r[0-9]+}}];
// CHECK: cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%{{rd[0-9]+}}], [%{{r[0-9]+}}], 512;

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "k", arg_names = ["X"], params = {}, launch = {persistent}} do {
  ^bb0(%X: !tile.tensor<f32, [M, N]>):
    %zero = stage.const {constant = 0 : i32} : () -> (i32)
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %v = tile.shared {sym_name = "v"} : () -> (!tile.shared<f32, [128], 2, "none">)
    %full = stage.barriers {sym_name = "full", depth = 1 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    tile.role {sym_name = "one", warps = 1 : i32} do {
      %lane = stage.identity {which = "lane"} : () -> (i32)
      %s = tile.slot %v, %one : (!tile.shared<f32, [128], 2, "none">, i32) -> (!tile.shared<f32, [128], 2, "none">)
      %x = stage.load_element %X, %one, %lane {sem = "acquire", scope = "gpu"} : (!tile.tensor<f32, [M, N]>, i32, i32) -> (f32)
      stage.store_element %x, %s, %lane : (f32, !tile.shared<f32, [128], 2, "none">, i32)
      %old = stage.atomic %X, %x, %zero, %lane {kind = "add", sem = "acq_rel", scope = "gpu", operandSegmentSizes = array<i32: 1, 1, 2>} : (!tile.tensor<f32, [M, N]>, f32, i32, i32) -> (f32)
      stage.store_element %old, %X, %zero, %lane {sem = "release", scope = "sys"} : (f32, !tile.tensor<f32, [M, N]>, i32, i32)
      %none = stage.atomic %s, %x, %lane {kind = "add", sem = "relaxed", scope = "cta", operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.shared<f32, [128], 2, "none">, f32, i32) -> (f32)
      tile.for_blocks %N {size = 128 : i32} : (i32) do {
      ^bb0(%n: !tile.block<128, N>):
        %row = tile.slice %X, %zero, %n : (!tile.tensor<f32, [M, N]>, i32, !tile.block<128, N>) -> (!tile.slice<f32, [128]>)
        tile.tma_load %row, %s, %full, %zero {bulk, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>} : (!tile.slice<f32, [128]>, !tile.shared<f32, [128], 2, "none">, !stage.mbarriers, i32)
        tile.tma_store %s, %row {reduce = "add", bulk} : (!tile.shared<f32, [128], 2, "none">, !tile.slice<f32, [128]>)
        tile.yield ()
      }
    }
  }
}
