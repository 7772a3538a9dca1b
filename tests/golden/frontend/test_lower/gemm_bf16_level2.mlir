builtin.module {
  tile.kernel {sym_name = "gemm", arg_names = ["A", "B", "C"], params = {BM = 128 : i64, BN = 256 : i64, BK = 64 : i64, STAGES = 4 : i64, WIDTH = 64 : i64}, launch = {persistent}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %c0 = stage.const {constant = 0 : i32} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %c1 = stage.const {constant = 1 : i32} : () -> (i32)
    %c4 = stage.const {constant = 4 : i32} : () -> (i32)
    %c2 = stage.const {constant = 2 : i32} : () -> (i32)
    %c64 = stage.const {constant = 64 : i32} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [128 : i32, 256 : i32], group = 8 : i32} : (i32, i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [128, 64], 4>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [256, 64], 4>)
    %c = tile.shared {sym_name = "c"} : () -> (!tile.shared<bf16, [128, 64], 2>)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 256], 2>)
    %full = stage.barriers {sym_name = "full", depth = 4 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %empty = stage.barriers {sym_name = "empty", depth = 4 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %done = stage.barriers {sym_name = "done", depth = 2 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %drained = stage.barriers {sym_name = "drained", depth = 2 : i32, count = 4 : i32} : () -> (!stage.mbarriers)
    tile.role {sym_name = "load"} do {
      %slot, %phase = tile.for_tiles %work, %c0, %c0 : (!tile.work, i32, i32) -> (i32, i32) do {
      ^bb0(%m: !tile.block<128, M>, %n: !tile.block<256, N>, %slot_1: i32, %phase_1: i32):
        %slot_2, %phase_2 = tile.for_blocks %K, %slot_1, %phase_1 {size = 64 : i32} : (i32, i32, i32) -> (i32, i32) do {
        ^bb0(%k: !tile.block<64, K>, %slot_3: i32, %phase_3: i32):
          %0 = stage.arith %phase_3, %c1 {kind = "xor"} : (i32, i32) -> (i32)
          stage.mbarrier_wait %empty, %slot_3, %0 {by = "all", id = "load.user.wait.empty"} : (!stage.mbarriers, i32, i32)
          %elected = stage.elected {scope = "one"} : () -> (i1)
          stage.if %elected : (i1) do {
            stage.mbarrier_expect %full, %slot_3 {bytes = 49152 : i32, by = "one", id = "load.user.expect.full"} : (!stage.mbarriers, i32)
            %1 = tile.slice %A, %m, %k : (!tile.tensor<bf16, [M, K]>, !tile.block<128, M>, !tile.block<64, K>) -> (!tile.slice<bf16, [128, 64]>)
            %a_slot = tile.slot %a, %slot_3 : (!tile.shared<bf16, [128, 64], 4>, i32) -> (!tile.shared<bf16, [128, 64], 4>)
            tile.load %1, %a_slot, %full, %slot_3 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 4>, !stage.mbarriers, i32)
            %2 = tile.slice %B, %n, %k : (!tile.tensor<bf16, [N, K]>, !tile.block<256, N>, !tile.block<64, K>) -> (!tile.slice<bf16, [256, 64]>)
            %b_slot = tile.slot %b, %slot_3 : (!tile.shared<bf16, [256, 64], 4>, i32) -> (!tile.shared<bf16, [256, 64], 4>)
            tile.load %2, %b_slot, %full, %slot_3 : (!tile.slice<bf16, [256, 64]>, !tile.shared<bf16, [256, 64], 4>, !stage.mbarriers, i32)
            stage.yield ()
          }
          %slot_4 = stage.arith %slot_3, %c1 {kind = "add"} : (i32, i32) -> (i32)
          %3 = stage.arith %slot_4, %c4 {kind = "eq"} : (i32, i32) -> (i1)
          %slot_5, %phase_4 = stage.if %3 : (i1) -> (i32, i32) do {
            %phase_5 = stage.arith %phase_3, %c1 {kind = "xor"} : (i32, i32) -> (i32)
            stage.yield %c0, %phase_5 : (i32, i32)
          }, {
            stage.yield %slot_4, %phase_3 : (i32, i32)
          }
          tile.yield %slot_5, %phase_4 : (i32, i32)
        }
        tile.yield %slot_2, %phase_2 : (i32, i32)
      }
    }
    tile.role {sym_name = "math"} do {
      %slot_6, %phase_6, %i, %turn = tile.for_tiles %work, %c0, %c0, %c0, %c0 : (!tile.work, i32, i32, i32, i32) -> (i32, i32, i32, i32) do {
      ^bb0(%m_1: !tile.block<128, M>, %n_1: !tile.block<256, N>, %slot_7: i32, %phase_7: i32, %i_1: i32, %turn_1: i32):
        %4 = stage.arith %turn_1, %c1 {kind = "xor"} : (i32, i32) -> (i32)
        stage.mbarrier_wait %drained, %i_1, %4 {by = "all", id = "math.user.wait.drained"} : (!stage.mbarriers, i32, i32)
        stage.tcgen05_fence {id = "math.user.fence", side = "after_thread_sync", by = "all"}
        %slot_8, %phase_8 = tile.for_blocks %K, %slot_7, %phase_7 {size = 64 : i32} : (i32, i32, i32) -> (i32, i32) do {
        ^bb0(%k_1: !tile.block<64, K>, %slot_9: i32, %phase_9: i32):
          stage.mbarrier_wait %full, %slot_9, %phase_9 {by = "all", id = "math.user.wait.full"} : (!stage.mbarriers, i32, i32)
          stage.tcgen05_fence {id = "math.user.fence.2", side = "after_thread_sync", by = "all"}
          %elected_1 = stage.elected {scope = "one"} : () -> (i1)
          stage.if %elected_1 : (i1) do {
            stage.proxy_fence {id = "math.user.fence.3", space = "shared::cta", guards = [], by = "one"}
            %d_slot = tile.slot %d, %i_1 : (!tile.accum<f32, [128, 256], 2>, i32) -> (!tile.accum<f32, [128, 256], 2>)
            %a_slot_1 = tile.slot %a, %slot_9 : (!tile.shared<bf16, [128, 64], 4>, i32) -> (!tile.shared<bf16, [128, 64], 4>)
            %b_slot_1 = tile.slot %b, %slot_9 : (!tile.shared<bf16, [256, 64], 4>, i32) -> (!tile.shared<bf16, [256, 64], 4>)
            %5 = tile.block_number %k_1 : (!tile.block<64, K>) -> (i32)
            %6 = stage.arith %5, %c0 {kind = "eq"} : (i32, i32) -> (i1)
            %7 = stage.arith %c0, %c0 {kind = "eq"} : (i32, i32) -> (i1)
            %8 = stage.arith %6, %7 {kind = "xor"} : (i1, i1) -> (i1)
            tile.restart %d_slot, %8 : (!tile.accum<f32, [128, 256], 2>, i1)
            tile.mma %d_slot, %a_slot_1, %b_slot_1 {trans_a = 0 : i32, trans_b = 1 : i32, alone} : (!tile.accum<f32, [128, 256], 2>, !tile.shared<bf16, [128, 64], 4>, !tile.shared<bf16, [256, 64], 4>)
            stage.tcgen05_commit %empty, %slot_9 {id = "math.user.commit.empty"} : (!stage.mbarriers, i32)
            stage.yield ()
          }
          %slot_10 = stage.arith %slot_9, %c1 {kind = "add"} : (i32, i32) -> (i32)
          %9 = stage.arith %slot_10, %c4 {kind = "eq"} : (i32, i32) -> (i1)
          %slot_11, %phase_10 = stage.if %9 : (i1) -> (i32, i32) do {
            %phase_11 = stage.arith %phase_9, %c1 {kind = "xor"} : (i32, i32) -> (i32)
            stage.yield %c0, %phase_11 : (i32, i32)
          }, {
            stage.yield %slot_10, %phase_9 : (i32, i32)
          }
          tile.yield %slot_11, %phase_10 : (i32, i32)
        }
        %elected_2 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_2 : (i1) do {
          stage.tcgen05_commit %done, %i_1 {id = "math.user.commit.done"} : (!stage.mbarriers, i32)
          stage.yield ()
        }
        %i_2 = stage.arith %i_1, %c1 {kind = "add"} : (i32, i32) -> (i32)
        %10 = stage.arith %i_2, %c2 {kind = "eq"} : (i32, i32) -> (i1)
        %i_3, %turn_2 = stage.if %10 : (i1) -> (i32, i32) do {
          %turn_3 = stage.arith %turn_1, %c1 {kind = "xor"} : (i32, i32) -> (i32)
          stage.yield %c0, %turn_3 : (i32, i32)
        }, {
          stage.yield %i_2, %turn_1 : (i32, i32)
        }
        tile.yield %slot_8, %phase_8, %i_3, %turn_2 : (i32, i32, i32, i32)
      }
    }
    tile.role {sym_name = "store", warps = 4 : i32} do {
      %i_4, %turn_4 = tile.for_tiles %work, %c0, %c0 : (!tile.work, i32, i32) -> (i32, i32) do {
      ^bb0(%m_2: !tile.block<128, M>, %n_2: !tile.block<256, N>, %i_5: i32, %turn_5: i32):
        stage.mbarrier_wait %done, %i_5, %turn_5 {by = "all", id = "store.user.wait.done"} : (!stage.mbarriers, i32, i32)
        stage.tcgen05_fence {id = "store.user.fence", side = "after_thread_sync", by = "all"}
        stage.for %c0, %c4, %c1 : (i32, i32, i32) do {
        ^bb0(%j: i32):
          %elected_3 = stage.elected {scope = "one"} : () -> (i1)
          stage.if %elected_3 : (i1) do {
            stage.bulk_wait {id = "store.user.wait.stores", pending = 1 : i32, read}
            stage.yield ()
          }
          stage.role_barrier {id = "store.user.sync.role"}
          %d_slot_1 = tile.slot %d, %i_5 : (!tile.accum<f32, [128, 256], 2>, i32) -> (!tile.accum<f32, [128, 256], 2>)
          %11 = stage.arith %j, %c64 {kind = "mul"} : (i32, i32) -> (i32)
          %12 = stage.arith %K, %c0 {kind = "gt"} : (i32, i32) -> (i1)
          %d_values = tile.read_columns %d_slot_1, %11, %12 : (!tile.accum<f32, [128, 256], 2>, i32, i1) -> (!tile.regs<f32, [128, 64]>)
          %13 = tile.cast %d_values : (!tile.regs<f32, [128, 64]>) -> (!tile.regs<bf16, [128, 64]>)
          %14 = stage.arith %j, %c2 {kind = "mod"} : (i32, i32) -> (i32)
          %c_slot = tile.slot %c, %14 : (!tile.shared<bf16, [128, 64], 2>, i32) -> (!tile.shared<bf16, [128, 64], 2>)
          tile.copy %13, %c_slot : (!tile.regs<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 2>)
          stage.proxy_fence {id = "store.user.fence.2", space = "shared::cta", guards = [], by = "all"}
          stage.role_barrier {id = "store.user.sync.role.2"}
          %elected_4 = stage.elected {scope = "one"} : () -> (i1)
          stage.if %elected_4 : (i1) do {
            %15 = tile.part %n_2, %j {count = 4 : i32} : (!tile.block<256, N>, i32) -> (!tile.block<64, N>)
            %16 = tile.slice %C, %m_2, %15 : (!tile.tensor<bf16, [M, N]>, !tile.block<128, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
            %17 = stage.arith %j, %c2 {kind = "mod"} : (i32, i32) -> (i32)
            %c_slot_1 = tile.slot %c, %17 : (!tile.shared<bf16, [128, 64], 2>, i32) -> (!tile.shared<bf16, [128, 64], 2>)
            tile.store %c_slot_1, %16 : (!tile.shared<bf16, [128, 64], 2>, !tile.slice<bf16, [128, 64]>)
            stage.bulk_commit {id = "store.user.commit.stores"}
            stage.yield ()
          }
          stage.yield ()
        }
        stage.tcgen05_fence {id = "store.user.fence.3", side = "before_thread_sync", by = "all"}
        stage.warp_sync {id = "store.user.sync.warp"}
        stage.mbarrier_arrive %drained, %i_5 {by = "lane", id = "store.user.arrive.drained"} : (!stage.mbarriers, i32)
        %i_6 = stage.arith %i_5, %c1 {kind = "add"} : (i32, i32) -> (i32)
        %18 = stage.arith %i_6, %c2 {kind = "eq"} : (i32, i32) -> (i1)
        %i_7, %turn_6 = stage.if %18 : (i1) -> (i32, i32) do {
          %turn_7 = stage.arith %turn_5, %c1 {kind = "xor"} : (i32, i32) -> (i32)
          stage.yield %c0, %turn_7 : (i32, i32)
        }, {
          stage.yield %i_6, %turn_5 : (i32, i32)
        }
        tile.yield %i_7, %turn_6 : (i32, i32)
      }
      %elected_5 = stage.elected {scope = "one"} : () -> (i1)
      stage.if %elected_5 : (i1) do {
        stage.bulk_wait {id = "store.user.wait.stores.2", pending = 0 : i32}
        stage.yield ()
      }
    }
  }
}
