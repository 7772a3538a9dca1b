// An accumulator that is read after the next multiply took its registers is a mistake of ours, not of the user's.
// RUN: not tkc-opt %s -p 'name-registers' 2>&1 | filecheck %s

// CHECK: internal error in name-registers: ptx.wgmma.mma_async at {{.*}}accumulator-moves.mlir:[[#]]:{{.*}}f32 x 4{{.*}}without a move

builtin.module attributes {tkc.target = "sm_90a"} {
  ptx.kernel {sym_name = "k", params = [{name = "d", kind = "u64"}], reqntid = 128} do {
    %one = ptx.imm {value = 1} : () -> (!ptx.reg<b32>)
    %desc = ptx.param {param = "d"} : () -> (!ptx.reg<b64>)
    %c = ptx.undef : () -> (!ptx.reg<f32 x 4>)
    %d = ptx.wgmma.mma_async %desc, %desc, %one, %c {shape = ".m64n8k16", dtype = ".f32", atype = ".bf16", btype = ".bf16"} : (!ptx.reg<b64>, !ptx.reg<b64>, !ptx.reg<b32>, !ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 4>)
    %e = ptx.wgmma.mma_async %desc, %desc, %one, %d {shape = ".m64n8k16", dtype = ".f32", atype = ".bf16", btype = ".bf16"} : (!ptx.reg<b64>, !ptx.reg<b64>, !ptx.reg<b32>, !ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 4>)
    %s = ptx.add %d, %e {type = ".f32"} : (!ptx.reg<f32 x 4>, !ptx.reg<f32 x 4>) -> (!ptx.reg<f32 x 4>)
  }
}
