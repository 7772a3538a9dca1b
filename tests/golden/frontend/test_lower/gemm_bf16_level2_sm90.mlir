builtin.module {
  tile.kernel {sym_name = "gemm", arg_names = ["A", "B", "C"], params = {BM = 64 : i64, BN = 256 : i64, BK = 64 : i64, STAGES = 4 : i64, WIDTH = 64 : i64}, launch = {persistent}} do {
  ^bb0(%A: !tile.tensor<bf16, [M, K]>, %B: !tile.tensor<bf16, [N, K]>, %C: !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %c0 = stage.const {constant = 0 : i32} : () -> (i32)
    %K = stage.size {symbol = "K"} : () -> (i32)
    %c1 = stage.const {constant = 1 : i32} : () -> (i32)
    %c4 = stage.const {constant = 4 : i32} : () -> (i32)
    %c64 = stage.const {constant = 64 : i32} : () -> (i32)
    %c128 = stage.const {constant = 128 : i32} : () -> (i32)
    %c2 = stage.const {constant = 2 : i32} : () -> (i32)
    %c192 = stage.const {constant = 192 : i32} : () -> (i32)
    %c3 = stage.const {constant = 3 : i32} : () -> (i32)
    %work = tile.schedule %M, %N {sym_name = "work", sizes = [64 : i32, 256 : i32], group = 8 : i32} : (i32, i32) -> (!tile.work)
    %a = tile.shared {sym_name = "a"} : () -> (!tile.shared<bf16, [64, 64], 4>)
    %b = tile.shared {sym_name = "b"} : () -> (!tile.shared<bf16, [256, 64], 4>)
    %c = tile.shared {sym_name = "c"} : () -> (!tile.shared<bf16, [64, 64], 2>)
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [64, 256], 1>)
    %full = stage.barriers {sym_name = "full", depth = 4 : i32, count = 1 : i32} : () -> (!stage.mbarriers)
    %empty = stage.barriers {sym_name = "empty", depth = 4 : i32, count = 4 : i32} : () -> (!stage.mbarriers)
    tile.role {sym_name = "load"} do {
      %slot, %phase = tile.for_tiles %work, %c0, %c0 : (!tile.work, i32, i32) -> (i32, i32) do {
      ^bb0(%m: !tile.block<64, M>, %n: !tile.block<256, N>, %slot_1: i32, %phase_1: i32):
        %slot_2, %phase_2 = tile.for_blocks %K, %slot_1, %phase_1 {size = 64 : i32} : (i32, i32, i32) -> (i32, i32) do {
        ^bb0(%k: !tile.block<64, K>, %slot_3: i32, %phase_3: i32):
          %0 = stage.arith %phase_3, %c1 {kind = "xor"} : (i32, i32) -> (i32)
          stage.mbarrier_wait %empty, %slot_3, %0 {by = "all", id = "load.user.wait.empty"} : (!stage.mbarriers, i32, i32)
          %elected = stage.elected {scope = "one"} : () -> (i1)
          stage.if %elected : (i1) do {
            stage.mbarrier_expect %full, %slot_3 {bytes = 40960 : i32, by = "one", id = "load.user.expect.full"} : (!stage.mbarriers, i32)
            %1 = tile.slice %A, %m, %k : (!tile.tensor<bf16, [M, K]>, !tile.block<64, M>, !tile.block<64, K>) -> (!tile.slice<bf16, [64, 64]>)
            %a_slot = tile.slot %a, %slot_3 : (!tile.shared<bf16, [64, 64], 4>, i32) -> (!tile.shared<bf16, [64, 64], 4>)
            tile.load %1, %a_slot, %full, %slot_3 : (!tile.slice<bf16, [64, 64]>, !tile.shared<bf16, [64, 64], 4>, !stage.mbarriers, i32)
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
    tile.role {sym_name = "math", warps = 4 : i32} do {
      %before, %slot_6, %phase_6 = tile.for_tiles %work, %c0, %c0, %c0 : (!tile.work, i32, i32, i32) -> (i32, i32, i32) do {
      ^bb0(%m_1: !tile.block<64, M>, %n_1: !tile.block<256, N>, %before_1: i32, %slot_7: i32, %phase_7: i32):
        %before_2, %slot_8, %phase_8 = tile.for_blocks %K, %before_1, %slot_7, %phase_7 {size = 64 : i32} : (i32, i32, i32, i32) -> (i32, i32, i32) do {
        ^bb0(%k_1: !tile.block<64, K>, %before_3: i32, %slot_9: i32, %phase_9: i32):
          stage.mbarrier_wait %full, %slot_9, %phase_9 {by = "all", id = "math.user.wait.full"} : (!stage.mbarriers, i32, i32)
          stage.proxy_fence {id = "math.user.fence", space = "shared::cta", guards = [], by = "all"}
          stage.mma_fence {id = "math.user.fence.products"}
          %d_slot = tile.slot %d, %c0 : (!tile.accum<f32, [64, 256], 1>, i32) -> (!tile.accum<f32, [64, 256], 1>)
          %a_slot_1 = tile.slot %a, %slot_9 : (!tile.shared<bf16, [64, 64], 4>, i32) -> (!tile.shared<bf16, [64, 64], 4>)
          %b_slot_1 = tile.slot %b, %slot_9 : (!tile.shared<bf16, [256, 64], 4>, i32) -> (!tile.shared<bf16, [256, 64], 4>)
          %4 = tile.block_number %k_1 : (!tile.block<64, K>) -> (i32)
          %5 = stage.arith %4, %c0 {kind = "eq"} : (i32, i32) -> (i1)
          %6 = stage.arith %c0, %c0 {kind = "eq"} : (i32, i32) -> (i1)
          %7 = stage.arith %5, %6 {kind = "xor"} : (i1, i1) -> (i1)
          tile.restart %d_slot, %7 : (!tile.accum<f32, [64, 256], 1>, i1)
          tile.mma %d_slot, %a_slot_1, %b_slot_1 {trans_a = 0 : i32, trans_b = 1 : i32, alone} : (!tile.accum<f32, [64, 256], 1>, !tile.shared<bf16, [64, 64], 4>, !tile.shared<bf16, [256, 64], 4>)
          stage.mma_commit {id = "math.user.commit.products"}
          tile.products_wait {id = "math.user.wait.products", pending = 1 : i32}
          %8 = tile.block_number %k_1 : (!tile.block<64, K>) -> (i32)
          %9 = stage.arith %8, %c0 {kind = "eq"} : (i32, i32) -> (i1)
          %10 = stage.arith %c0, %c0 {kind = "eq"} : (i32, i32) -> (i1)
          %11 = stage.arith %9, %10 {kind = "xor"} : (i1, i1) -> (i1)
          stage.if %11 : (i1) do {
            stage.warp_sync {id = "math.user.sync.warp"}
            stage.mbarrier_arrive %empty, %before_3 {by = "lane", id = "math.user.arrive.empty"} : (!stage.mbarriers, i32)
            stage.yield ()
          }
          %slot_10 = stage.arith %slot_9, %c1 {kind = "add"} : (i32, i32) -> (i32)
          %12 = stage.arith %slot_10, %c4 {kind = "eq"} : (i32, i32) -> (i1)
          %slot_11, %phase_10 = stage.if %12 : (i1) -> (i32, i32) do {
            %phase_11 = stage.arith %phase_9, %c1 {kind = "xor"} : (i32, i32) -> (i32)
            stage.yield %c0, %phase_11 : (i32, i32)
          }, {
            stage.yield %slot_10, %phase_9 : (i32, i32)
          }
          tile.yield %slot_9, %slot_11, %phase_10 : (i32, i32, i32)
        }
        tile.products_wait {id = "math.user.wait.products.2", pending = 0 : i32}
        %13 = stage.arith %K, %c0 {kind = "gt"} : (i32, i32) -> (i1)
        stage.if %13 : (i1) do {
          stage.warp_sync {id = "math.user.sync.warp.2"}
          stage.mbarrier_arrive %empty, %before_2 {by = "lane", id = "math.user.arrive.empty.2"} : (!stage.mbarriers, i32)
          stage.yield ()
        }
        %elected_1 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_1 : (i1) do {
          stage.bulk_wait {id = "math.user.wait.stores", pending = 1 : i32, read}
          stage.yield ()
        }
        stage.role_barrier {id = "math.user.sync.role"}
        %d_slot_1 = tile.slot %d, %c0 : (!tile.accum<f32, [64, 256], 1>, i32) -> (!tile.accum<f32, [64, 256], 1>)
        %14 = stage.arith %K, %c0 {kind = "gt"} : (i32, i32) -> (i1)
        %d_values = tile.read_columns %d_slot_1, %c0, %14 : (!tile.accum<f32, [64, 256], 1>, i32, i1) -> (!tile.regs<f32, [64, 64]>)
        %15 = tile.cast %d_values : (!tile.regs<f32, [64, 64]>) -> (!tile.regs<bf16, [64, 64]>)
        %c_slot = tile.slot %c, %c0 : (!tile.shared<bf16, [64, 64], 2>, i32) -> (!tile.shared<bf16, [64, 64], 2>)
        tile.copy %15, %c_slot : (!tile.regs<bf16, [64, 64]>, !tile.shared<bf16, [64, 64], 2>)
        stage.proxy_fence {id = "math.user.fence.2", space = "shared::cta", guards = [], by = "all"}
        stage.role_barrier {id = "math.user.sync.role.2"}
        %elected_2 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_2 : (i1) do {
          %16 = tile.part %n_1, %c0 {count = 4 : i32} : (!tile.block<256, N>, i32) -> (!tile.block<64, N>)
          %17 = tile.slice %C, %m_1, %16 : (!tile.tensor<bf16, [M, N]>, !tile.block<64, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [64, 64]>)
          %c_slot_1 = tile.slot %c, %c0 : (!tile.shared<bf16, [64, 64], 2>, i32) -> (!tile.shared<bf16, [64, 64], 2>)
          tile.store %c_slot_1, %17 : (!tile.shared<bf16, [64, 64], 2>, !tile.slice<bf16, [64, 64]>)
          stage.bulk_commit {id = "math.user.commit.stores"}
          stage.yield ()
        }
        %elected_3 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_3 : (i1) do {
          stage.bulk_wait {id = "math.user.wait.stores.2", pending = 1 : i32, read}
          stage.yield ()
        }
        stage.role_barrier {id = "math.user.sync.role.3"}
        %d_slot_2 = tile.slot %d, %c0 : (!tile.accum<f32, [64, 256], 1>, i32) -> (!tile.accum<f32, [64, 256], 1>)
        %18 = stage.arith %K, %c0 {kind = "gt"} : (i32, i32) -> (i1)
        %d_values_1 = tile.read_columns %d_slot_2, %c64, %18 : (!tile.accum<f32, [64, 256], 1>, i32, i1) -> (!tile.regs<f32, [64, 64]>)
        %19 = tile.cast %d_values_1 : (!tile.regs<f32, [64, 64]>) -> (!tile.regs<bf16, [64, 64]>)
        %c_slot_2 = tile.slot %c, %c1 : (!tile.shared<bf16, [64, 64], 2>, i32) -> (!tile.shared<bf16, [64, 64], 2>)
        tile.copy %19, %c_slot_2 : (!tile.regs<bf16, [64, 64]>, !tile.shared<bf16, [64, 64], 2>)
        stage.proxy_fence {id = "math.user.fence.3", space = "shared::cta", guards = [], by = "all"}
        stage.role_barrier {id = "math.user.sync.role.4"}
        %elected_4 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_4 : (i1) do {
          %20 = tile.part %n_1, %c1 {count = 4 : i32} : (!tile.block<256, N>, i32) -> (!tile.block<64, N>)
          %21 = tile.slice %C, %m_1, %20 : (!tile.tensor<bf16, [M, N]>, !tile.block<64, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [64, 64]>)
          %c_slot_3 = tile.slot %c, %c1 : (!tile.shared<bf16, [64, 64], 2>, i32) -> (!tile.shared<bf16, [64, 64], 2>)
          tile.store %c_slot_3, %21 : (!tile.shared<bf16, [64, 64], 2>, !tile.slice<bf16, [64, 64]>)
          stage.bulk_commit {id = "math.user.commit.stores.2"}
          stage.yield ()
        }
        %elected_5 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_5 : (i1) do {
          stage.bulk_wait {id = "math.user.wait.stores.3", pending = 1 : i32, read}
          stage.yield ()
        }
        stage.role_barrier {id = "math.user.sync.role.5"}
        %d_slot_3 = tile.slot %d, %c0 : (!tile.accum<f32, [64, 256], 1>, i32) -> (!tile.accum<f32, [64, 256], 1>)
        %22 = stage.arith %K, %c0 {kind = "gt"} : (i32, i32) -> (i1)
        %d_values_2 = tile.read_columns %d_slot_3, %c128, %22 : (!tile.accum<f32, [64, 256], 1>, i32, i1) -> (!tile.regs<f32, [64, 64]>)
        %23 = tile.cast %d_values_2 : (!tile.regs<f32, [64, 64]>) -> (!tile.regs<bf16, [64, 64]>)
        %c_slot_4 = tile.slot %c, %c0 : (!tile.shared<bf16, [64, 64], 2>, i32) -> (!tile.shared<bf16, [64, 64], 2>)
        tile.copy %23, %c_slot_4 : (!tile.regs<bf16, [64, 64]>, !tile.shared<bf16, [64, 64], 2>)
        stage.proxy_fence {id = "math.user.fence.4", space = "shared::cta", guards = [], by = "all"}
        stage.role_barrier {id = "math.user.sync.role.6"}
        %elected_6 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_6 : (i1) do {
          %24 = tile.part %n_1, %c2 {count = 4 : i32} : (!tile.block<256, N>, i32) -> (!tile.block<64, N>)
          %25 = tile.slice %C, %m_1, %24 : (!tile.tensor<bf16, [M, N]>, !tile.block<64, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [64, 64]>)
          %c_slot_5 = tile.slot %c, %c0 : (!tile.shared<bf16, [64, 64], 2>, i32) -> (!tile.shared<bf16, [64, 64], 2>)
          tile.store %c_slot_5, %25 : (!tile.shared<bf16, [64, 64], 2>, !tile.slice<bf16, [64, 64]>)
          stage.bulk_commit {id = "math.user.commit.stores.3"}
          stage.yield ()
        }
        %elected_7 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_7 : (i1) do {
          stage.bulk_wait {id = "math.user.wait.stores.4", pending = 1 : i32, read}
          stage.yield ()
        }
        stage.role_barrier {id = "math.user.sync.role.7"}
        %d_slot_4 = tile.slot %d, %c0 : (!tile.accum<f32, [64, 256], 1>, i32) -> (!tile.accum<f32, [64, 256], 1>)
        %26 = stage.arith %K, %c0 {kind = "gt"} : (i32, i32) -> (i1)
        %d_values_3 = tile.read_columns %d_slot_4, %c192, %26 : (!tile.accum<f32, [64, 256], 1>, i32, i1) -> (!tile.regs<f32, [64, 64]>)
        %27 = tile.cast %d_values_3 : (!tile.regs<f32, [64, 64]>) -> (!tile.regs<bf16, [64, 64]>)
        %c_slot_6 = tile.slot %c, %c1 : (!tile.shared<bf16, [64, 64], 2>, i32) -> (!tile.shared<bf16, [64, 64], 2>)
        tile.copy %27, %c_slot_6 : (!tile.regs<bf16, [64, 64]>, !tile.shared<bf16, [64, 64], 2>)
        stage.proxy_fence {id = "math.user.fence.5", space = "shared::cta", guards = [], by = "all"}
        stage.role_barrier {id = "math.user.sync.role.8"}
        %elected_8 = stage.elected {scope = "one"} : () -> (i1)
        stage.if %elected_8 : (i1) do {
          %28 = tile.part %n_1, %c3 {count = 4 : i32} : (!tile.block<256, N>, i32) -> (!tile.block<64, N>)
          %29 = tile.slice %C, %m_1, %28 : (!tile.tensor<bf16, [M, N]>, !tile.block<64, M>, !tile.block<64, N>) -> (!tile.slice<bf16, [64, 64]>)
          %c_slot_7 = tile.slot %c, %c1 : (!tile.shared<bf16, [64, 64], 2>, i32) -> (!tile.shared<bf16, [64, 64], 2>)
          tile.store %c_slot_7, %29 : (!tile.shared<bf16, [64, 64], 2>, !tile.slice<bf16, [64, 64]>)
          stage.bulk_commit {id = "math.user.commit.stores.4"}
          stage.yield ()
        }
        tile.yield %before_2, %slot_8, %phase_8 : (i32, i32, i32)
      }
      %elected_9 = stage.elected {scope = "one"} : () -> (i1)
      stage.if %elected_9 : (i1) do {
        stage.bulk_wait {id = "math.user.wait.stores.5", pending = 0 : i32}
        stage.yield ()
      }
    }
  }
}
