// What the verifiers of the tile level refuse, each on its line.
// RUN: tkc-opt %s --split-input-file --expect-errors

builtin.module {
  tile.kernel {sym_name = "k", arg_names = ["A", "B"], params = {}, launch = {}} do { // error: a kernel names each of its arguments
  ^bb0(%A: !tile.tensor<bf16, [M, K]>):
  }
}

// -----

builtin.module {
  %M = stage.size {symbol = "M"} : () -> (i32)
  %w = tile.schedule %M {sym_name = "w", sizes = [128 : i32, 64 : i32], group = 1 : i32} : (i32) -> (!tile.work) // error: a schedule gives one block size for each extent
}

// -----

builtin.module {
  %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<bf16, [128, 64], 0>) // error: a ring has at least one slot, not 0
}

// -----

builtin.module {
  %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<b16, [128, 64], 1>) // error: no dtype 'b16'
}

// -----

builtin.module {
  %s = tile.shared {sym_name = "s"} : () -> (!tile.shared<bf16, [128, 64], 1>)
  %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<bf16, [128, 32], 1>)
  %u = tile.shared {sym_name = "u"} : () -> (!tile.shared<f16, [128, 64], 1>)
  tile.copy %s, %t : (!tile.shared<bf16, [128, 64], 1>, !tile.shared<bf16, [128, 32], 1>) // error: the shapes differ
  tile.copy %s, %u : (!tile.shared<bf16, [128, 64], 1>, !tile.shared<f16, [128, 64], 1>) // error: the dtypes differ
}
