// Lists of tensors, extents that the device counts, schedules over them and maps that a kernel edits.
// RUN: tkc-opt %s | tkc-opt | filecheck %s
// RUN: tkc-opt --print-op-generic %s | tkc-opt | filecheck %s

// CHECK: ^bb0(%rows: !tile.tensor<i32, [G]>, %X: !tile.tensor<bf16, [G, ?rows, N], list>,
// CHECK: %work = tile.schedule %G, %rows, %N {sym_name = "work", sizes = [1 : i32, 128 : i32, 64 : i32], group = 1 : i32} : (i32, !tile.tensor<i32, [G]>, i32) -> (!tile.work)
// CHECK: tile.edited_maps %X {depth = 2 : i32} : (!tile.tensor<bf16, [G, ?rows, N], list>)
// CHECK: ^bb0(%g: !tile.block<1, G>, %m: !tile.block<128, ?rows>, %n: !tile.block<64, N>):
// CHECK: tile.slice %X, %{{.*}}, %m, %n : (!tile.tensor<bf16, [G, ?rows, N], list>, i32, !tile.block<128, ?rows>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)

builtin.module {
  tile.kernel {sym_name = "copy", arg_names = ["rows", "X", "Y"], params = {}, launch = {persistent}} do {
  ^bb0(%rows: !tile.tensor<i32, [G]>, %X: !tile.tensor<bf16, [G, ?rows, N], list>, %Y: !tile.tensor<bf16, [G, ?rows, N], list>):
    %G = stage.size {symbol = "G"} : () -> (i32)
    %N = stage.size {symbol = "N"} : () -> (i32)
    %work = tile.schedule %G, %rows, %N {sym_name = "work", sizes = [1 : i32, 128 : i32, 64 : i32], group = 1 : i32} : (i32, !tile.tensor<i32, [G]>, i32) -> (!tile.work)
    %t = tile.shared {sym_name = "t"} : () -> (!tile.shared<bf16, [128, 64], 4>)
    %ring = tile.pipe %t {sym_name = "ring", producers = ["load"], consumers = ["store"]} : (!tile.shared<bf16, [128, 64], 4>) -> (!tile.pipe_ring)
    tile.edited_maps %X {depth = 2 : i32} : (!tile.tensor<bf16, [G, ?rows, N], list>)
    tile.edited_maps %Y {depth = 2 : i32} : (!tile.tensor<bf16, [G, ?rows, N], list>)
    tile.role {sym_name = "load"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%g: !tile.block<1, G>, %m: !tile.block<128, ?rows>, %n: !tile.block<64, N>):
        %g_1 = tile.index %g : (!tile.block<1, G>) -> (i32)
        tile.put %ring : (!tile.pipe_ring) do {
        ^bb0(%t_1: !tile.shared<bf16, [128, 64], 4>):
          %0 = tile.slice %X, %g_1, %m, %n : (!tile.tensor<bf16, [G, ?rows, N], list>, i32, !tile.block<128, ?rows>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
          tile.copy %0, %t_1 : (!tile.slice<bf16, [128, 64]>, !tile.shared<bf16, [128, 64], 4>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
    tile.role {sym_name = "store"} do {
      tile.for_tiles %work : (!tile.work) do {
      ^bb0(%g_2: !tile.block<1, G>, %m_1: !tile.block<128, ?rows>, %n_1: !tile.block<64, N>):
        %g_3 = tile.index %g_2 : (!tile.block<1, G>) -> (i32)
        tile.get %ring : (!tile.pipe_ring) do {
        ^bb0(%t_2: !tile.shared<bf16, [128, 64], 4>):
          %1 = tile.slice %Y, %g_3, %m_1, %n_1 : (!tile.tensor<bf16, [G, ?rows, N], list>, i32, !tile.block<128, ?rows>, !tile.block<64, N>) -> (!tile.slice<bf16, [128, 64]>)
          tile.copy %t_2, %1 : (!tile.shared<bf16, [128, 64], 4>, !tile.slice<bf16, [128, 64]>)
          tile.yield ()
        }
        tile.yield ()
      }
    }
  }
}
