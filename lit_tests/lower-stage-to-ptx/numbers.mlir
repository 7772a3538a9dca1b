// Elements of a byte, numbers of u32 and i64, and conversions, which saturate.
// RUN: tkc-opt %s -p 'place-tiles,fuse-roles,lower-schedules,lower-pipes,insert-fences,elect-single-thread,assign-shared,assign-tensor-memory,assign-registers,lower-stage-to-ptx,name-registers' -t ptx | filecheck %s

// CHECK: .param .b16 scale
// CHECK: ld.global.s8 %[[BYTE:r[0-9]+]], [%{{rd[0-9]+}}];
// CHECK: max.s32 %[[LEAST:r[0-9]+]], %[[BYTE]], 0;
// CHECK: mul.lo.u32 %[[MUL:r[0-9]+]], %[[LEAST]], %[[LEAST]];
// CHECK: cvt.s64.u32 %[[LONG:rd[0-9]+]], %[[MUL]];
// CHECK: setp.lt.s64 %[[P:p[0-9]+]], %[[LONG]], %{{rd[0-9]+}};
// CHECK: selp.b64 %[[ONE:rd[0-9]+]], %[[LONG]], %{{rd[0-9]+}}, %[[P]];
// CHECK: max.s64 %{{rd[0-9]+}}, %[[ONE]], -2147483648;
// CHECK: min.s64 %{{rd[0-9]+}}, %{{rd[0-9]+}}, 2147483647;
// CHECK: cvt.u32.u64 %[[I:r[0-9]+]], %{{rd[0-9]+}};
// CHECK: max.s32 %{{r[0-9]+}}, %[[I]], -128;
// CHECK: min.s32 %[[PUT:r[0-9]+]], %{{r[0-9]+}}, 127;
// CHECK: st.global.b8 [%{{rd[0-9]+}}], %[[PUT]];
// CHECK: cvt.f32.bf16 %[[SCALE:f[0-9]+]], %{{h[0-9]+}};
// CHECK: cvt.rni.s64.f32 %[[WHOLE:rd[0-9]+]], %[[SCALE]];
// CHECK: setp.eq.f32 %[[NUMBER:p[0-9]+]], %[[SCALE]], %[[SCALE]];
// CHECK: selp.b64 %[[GIVEN:rd[0-9]+]], %[[WHOLE]], 0, %[[NUMBER]];
// CHECK: red.relaxed.gpu.global.add.u64 [%{{rd[0-9]+}}], %[[GIVEN]];

builtin.module attributes {tkc.target = "sm_90a"} {
  tile.kernel {sym_name = "k", arg_names = ["X", "L", "scale"], params = {}, launch = {persistent}} do {
  ^bb0(%X: !tile.tensor<s8, [M, N]>, %L: !tile.tensor<i64, [M]>, %scale: bf16):
    %one = stage.const {constant = 1 : i32} : () -> (i32)
    tile.role {sym_name = "one", warps = 1 : i32} do {
      %lane = stage.identity {which = "lane"} : () -> (i32)
      %x = stage.load_element %X, %one, %lane : (!tile.tensor<s8, [M, N]>, i32, i32) -> (i32)
      %u = stage.number %x {kind = "convert"} : (i32) -> (ui32)
      %m = stage.number %u, %u {kind = "mul"} : (ui32, ui32) -> (ui32)
      %l = stage.number %m {kind = "convert"} : (ui32) -> (i64)
      %b = stage.number %one {kind = "convert"} : (i32) -> (i64)
      %p = stage.number %l, %b {kind = "lt"} : (i64, i64) -> (i1)
      %s = stage.number %p, %l, %b {kind = "select"} : (i1, i64, i64) -> (i64)
      %i = stage.number %s {kind = "convert"} : (i64) -> (i32)
      stage.store_element %i, %X, %one, %lane : (i32, !tile.tensor<s8, [M, N]>, i32, i32)
      %f = stage.number %scale {kind = "convert"} : (bf16) -> (f32)
      %g = stage.number %f {kind = "convert"} : (f32) -> (i64)
      %old = stage.atomic %L, %g, %lane {kind = "add", sem = "relaxed", scope = "gpu", operandSegmentSizes = array<i32: 1, 1, 1>} : (!tile.tensor<i64, [M]>, i64, i32) -> (i64)
    }
  }
}
