// A wgmma accumulator has one tuple of registers from its first undefined value to its last use, and is never moved.
// RUN: tkc-opt %s -p 'name-registers' | filecheck %s
// RUN: tkc-opt %s -p 'name-registers' -t ptx | filecheck %s --check-prefix=PTX

// PTX-NOT: mov.b32 %f
// PTX-COUNT-2: wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd0, %rd0, 1, 1, 1, 0, 0;
// PTX-NOT: mov.b32 %f

builtin.module attributes {tkc.target = "sm_90a"} {
  ptx.kernel {sym_name = "k", params = [{name = "d", kind = "u64"}], reqntid = 128} do {
    %zero = ptx.imm {value = 0} : () -> (!ptx.reg<b32>)
    %one = ptx.imm {value = 1} : () -> (!ptx.reg<b32>)
    %eight = ptx.imm {value = 8} : () -> (!ptx.reg<b32>)
    %desc = ptx.param {param = "d"} : () -> (!ptx.reg<b64>)
    // CHECK: ptx.undef : () -> (!ptx.reg<f32 x 4, 0>)
    %start = ptx.undef : () -> (!ptx.reg<f32 x 4>)
    // CHECK: ptx.for {{.*}} -> (!ptx.reg<f32 x 4, 0>) do {
    // CHECK-NEXT: ^bb0(%{{.*}}, %{{.*}}: !ptx.reg<f32 x 4, 0>):
    %acc = ptx.for %zero, %eight, %one, %start {type = ".s32", nonempty} : (!ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<b32>, !ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 4>) do {
    ^bb0(%i : !ptx.reg<b32>, %c : !ptx.reg<f32 x 4>):
      // CHECK-COUNT-2: ptx.wgmma.mma_async {{.*}} !ptx.reg<f32 x 4, 0>) -> (!ptx.reg<f32 x 4, 0>)
      %d = ptx.wgmma.mma_async %desc, %desc, %one, %c {shape = ".m64n8k16", dtype = ".f32", atype = ".bf16", btype = ".bf16", scale_a = 1, scale_b = 1, trans_a = 0, trans_b = 0} : (!ptx.reg<b64>, !ptx.reg<b64>, !ptx.reg<b32>, !ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 4>)
      %e = ptx.wgmma.mma_async %desc, %desc, %one, %d {shape = ".m64n8k16", dtype = ".f32", atype = ".bf16", btype = ".bf16", scale_a = 1, scale_b = 1, trans_a = 0, trans_b = 0} : (!ptx.reg<b64>, !ptx.reg<b64>, !ptx.reg<b32>, !ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 4>)
      ptx.yield %e : (!ptx.reg<f32 x 4>)
    }
  }
}
