// A tuple of registers is one value: an instruction that computes prints a line for each, a list prints in braces, and a
// part of a tuple prints nothing.
// RUN: tkc-opt %s | tkc-opt | filecheck %s --check-prefix=IR
// RUN: tkc-opt %s -p 'name-registers,check-target' -t ptx | filecheck %s

// IR: ptx.slice %{{.*}} {start = 1 : i64, count = 2 : i64, step = 2 : i64} : (!ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 2>)

builtin.module attributes {tkc.target = "sm_100a"} {
  ptx.kernel {sym_name = "k", params = [], reqntid = 32} do {
    %half = ptx.imm {value = 1056964608} : () -> (!ptx.reg<f32>)
    // CHECK: mov.u32 %r0, sm;
    %at = ptx.shared_base : () -> (!ptx.reg<b32>)
    // CHECK: tcgen05.ld.sync.aligned.32x32b.x4.b32 {%f0, %f1, %f2, %f3}, [%r0];
    %v = ptx.tcgen05.ld %at {shape = ".32x32b", num = ".x4"} : (!ptx.reg<b32>) -> (!ptx.reg<f32 x 4>)
    ptx.tcgen05.wait_ld
    // CHECK: mul.f32 %f4, %f0, 0f3F000000;
    // CHECK-NEXT: mul.f32 %f5, %f1, 0f3F000000;
    // CHECK-NEXT: mul.f32 %f6, %f2, 0f3F000000;
    // CHECK-NEXT: mul.f32 %f7, %f3, 0f3F000000;
    %w = ptx.mul %v, %half {type = ".f32"} : (!ptx.reg<f32 x 4>, !ptx.reg<f32>) -> (!ptx.reg<f32 x 4>)
    // CHECK: cvt.rn.bf16x2.f32 %r1, %f5, %f4;
    // CHECK-NEXT: cvt.rn.bf16x2.f32 %r2, %f7, %f6;
    %high = ptx.slice %w {start = 1, count = 2, step = 2} : (!ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 2>)
    %low = ptx.slice %w {start = 0, count = 2, step = 2} : (!ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 2>)
    %packed = ptx.cvt.x2 %high, %low {round = ".rn", type = ".bf16x2"} : (!ptx.reg<f32 x 2>, !ptx.reg<f32 x 2>) -> (!ptx.reg<b32 x 2>)
    // CHECK: mov.b32 %[[A:f[0-9]+]], %f7;
    // CHECK-NEXT: mov.b32 %[[B:f[0-9]+]], %f4;
    // CHECK: tcgen05.st.sync.aligned.32x32b.x2.b32 [%r0], {%[[A]], %[[B]]};
    %w3 = ptx.slice %w {start = 3, count = 0, step = 1} : (!ptx.reg<f32 x 4>) -> (!ptx.reg<f32>)
    %w0 = ptx.slice %w {start = 0, count = 0, step = 1} : (!ptx.reg<f32 x 4>) -> (!ptx.reg<f32>)
    %joined = ptx.join %w3, %w0 : (!ptx.reg<f32>, !ptx.reg<f32>) -> (!ptx.reg<f32 x 2>)
    ptx.tcgen05.st %at, %joined {shape = ".32x32b", num = ".x2"} : (!ptx.reg<b32>, !ptx.reg<f32 x 2>)
    // CHECK: st.shared.v2.b32 [%r0], {%r1, %r2};
    ptx.st.vec %at, %packed {space = ".shared", vec = ".v2", type = ".b32", operandSegmentSizes = array<i32: 1, 1, 0>} : (!ptx.reg<b32>, !ptx.reg<b32 x 2>)
    // CHECK: st.shared.v2.b32 [%r0+8], {%r2, %r0};
    %one = ptx.slice %packed {start = 1, count = 0, step = 1} : (!ptx.reg<b32 x 2>) -> (!ptx.reg<b32>)
    ptx.st.vec %at, %one, %at {space = ".shared", vec = ".v2", type = ".b32", offset = 8, operandSegmentSizes = array<i32: 1, 2, 0>} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>)
  }
}
