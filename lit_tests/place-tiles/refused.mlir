// What `place-tiles` refuses, each at the statement that asks for it.
// RUN: tkc-opt %s -p 'place-tiles' --split-input-file --expect-errors

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "k", arg_names = ["C"], params = {}, launch = {persistent}} do {
  ^bb0(%C : !tile.tensor<f32, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<f32, [100, 32], 2, "128B">)
    %p = tile.pipe %t {sym_name = "p", producers = ["load"], consumers = ["store"]} : (!tile.shared<f32, [100, 32], 2, "128B">) -> (!tile.pipe_ring)
    %w = tile.schedule %M, %M {sym_name = "work", sizes = [100 : i32, 32 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
    tile.role {sym_name = "store"} do {
      tile.for_tiles %w : (!tile.work) do {
      ^bb0(%m : !tile.block<100, M>, %n : !tile.block<32, N>):
        tile.get %p : (!tile.pipe_ring) do {
        ^bb0(%s : !tile.shared<f32, [100, 32], 2, "128B">):
          %r = tile.read %s : (!tile.shared<f32, [100, 32], 2, "128B">) -> (!tile.regs<f32, [100, 32]>)
          %c = tile.slice %C, %m, %n : (!tile.tensor<f32, [M, N]>, !tile.block<100, M>, !tile.block<32, N>) -> (!tile.slice<f32, [100, 32]>)
          tile.copy %r, %c : (!tile.regs<f32, [100, 32]>, !tile.slice<f32, [100, 32]>) // error: a register tile of 100 rows over the 128 threads of a role is not supported yet: each thread has as many rows, so that 32, 64, 96 and multiples of 128 fit [TK110]
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "k", arg_names = ["C"], params = {}, launch = {persistent}} do {
  ^bb0(%C : !tile.tensor<f32, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<f32, [64, 32], 2, "128B">)
    %p = tile.pipe %t {sym_name = "p", producers = ["load"], consumers = ["store"]} : (!tile.shared<f32, [64, 32], 2, "128B">) -> (!tile.pipe_ring)
    %w = tile.schedule %M, %M {sym_name = "work", sizes = [64 : i32, 32 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
    tile.role {sym_name = "store", warps = 4 : i32} do {
      tile.for_tiles %w : (!tile.work) do {
      ^bb0(%m : !tile.block<64, M>, %n : !tile.block<32, N>):
        tile.get %p : (!tile.pipe_ring) do {
        ^bb0(%s : !tile.shared<f32, [64, 32], 2, "128B">):
          %r = tile.read %s : (!tile.shared<f32, [64, 32], 2, "128B">) -> (!tile.regs<f32, [64, 32]>)
          %c = tile.slice %C, %m, %n : (!tile.tensor<f32, [M, N]>, !tile.block<64, M>, !tile.block<32, N>) -> (!tile.slice<f32, [64, 32]>)
          tile.copy %r, %c : (!tile.regs<f32, [64, 32]>, !tile.slice<f32, [64, 32]>) // error: a register tile of 64 rows leaves threads of a role of 128 idle; `warps 2` fits, or tiles of 128 rows fit [TK110]
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "k", arg_names = ["C"], params = {}, launch = {persistent}} do {
  ^bb0(%C : !tile.tensor<f32, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<f32, [514, 32], 2, "128B">)
    %p = tile.pipe %t {sym_name = "p", producers = ["load"], consumers = ["store"]} : (!tile.shared<f32, [514, 32], 2, "128B">) -> (!tile.pipe_ring)
    %w = tile.schedule %M, %M {sym_name = "work", sizes = [514 : i32, 32 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
    tile.role {sym_name = "store"} do {
      tile.for_tiles %w : (!tile.work) do {
      ^bb0(%m : !tile.block<514, M>, %n : !tile.block<32, N>):
        tile.get %p : (!tile.pipe_ring) do {
        ^bb0(%s : !tile.shared<f32, [514, 32], 2, "128B">):
          %c = tile.slice %C, %m, %n : (!tile.tensor<f32, [M, N]>, !tile.block<514, M>, !tile.block<32, N>) -> (!tile.slice<f32, [514, 32]>)
          tile.copy %s, %c : (!tile.shared<f32, [514, 32], 2, "128B">, !tile.slice<f32, [514, 32]>) // error: a tile of shape [514, 32] has an extent of 514; the tensor copy engine takes boxes of at most 256 on each axis but the last, into which only the first is cut, in parts of a multiple of 8 [TK207]
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "k", arg_names = ["C"], params = {}, launch = {persistent}} do {
  ^bb0(%C : !tile.tensor<bf16, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<bf16, [7, 24], 2, "none">)
    %p = tile.pipe %t {sym_name = "p", producers = ["load"], consumers = ["store"]} : (!tile.shared<bf16, [7, 24], 2, "none">) -> (!tile.pipe_ring)
    %w = tile.schedule %M, %M {sym_name = "work", sizes = [7 : i32, 24 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
    tile.role {sym_name = "store"} do {
      tile.for_tiles %w : (!tile.work) do {
      ^bb0(%m : !tile.block<7, M>, %n : !tile.block<24, N>):
        tile.get %p : (!tile.pipe_ring) do {
        ^bb0(%s : !tile.shared<bf16, [7, 24], 2, "none">):
          %c = tile.slice %C, %m, %n : (!tile.tensor<bf16, [M, N]>, !tile.block<7, M>, !tile.block<24, N>) -> (!tile.slice<bf16, [7, 24]>)
          tile.copy %s, %c : (!tile.shared<bf16, [7, 24], 2, "none">, !tile.slice<bf16, [7, 24]>) // error: a tile of shape [7, 24] is copied in spans of 16 bytes of 7 rows; the tensor copy engine writes at multiples of 128 bytes, so rows must be a multiple of 8 [TK207]
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "k", arg_names = ["C"], params = {}, launch = {persistent}} do {
  ^bb0(%C : !tile.tensor<f32, [M, N]>):
    %M = stage.size {symbol = "M"} : () -> (i32)
    %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<f32, [128, 32], 2, "128B">)
    %p = tile.pipe %t {sym_name = "p", producers = ["load"], consumers = ["store"]} : (!tile.shared<f32, [128, 32], 2, "128B">) -> (!tile.pipe_ring)
    %w = tile.schedule %M, %M {sym_name = "work", sizes = [128 : i32, 32 : i32], group = 1 : i32} : (i32, i32) -> (!tile.work)
    tile.role {sym_name = "store", warps = 0 : i32} do { // error: role store asks for 0 warps; what it does takes 1 [TK208]
      tile.for_tiles %w : (!tile.work) do {
      ^bb0(%m : !tile.block<128, M>, %n : !tile.block<32, N>):

        tile.yield ()
      }
    }
  }
}

// -----

builtin.module attributes {tkc.target = "sm_120a"} {
  tile.kernel {sym_name = "k", arg_names = [], params = {}, launch = {persistent}} do {
    %d = tile.accum {sym_name = "d"} : () -> (!tile.accum<f32, [128, 256], 1>) // error: accumulator d needs tcgen05 or wgmma; sm_120a has neither [TK202]
  }
}
