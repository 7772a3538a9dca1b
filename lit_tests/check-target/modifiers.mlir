// A modifier may need more than its instruction; every complaint comes, each with the targets that would do.
// RUN: tkc-opt %s -p 'set-target{arch=sm_100f},check-target' | filecheck %s
// RUN: not tkc-opt %s -p 'set-target{arch=sm_90a},check-target' 2>&1 | filecheck %s --check-prefix=HOPPER

// CHECK-COUNT-2: ptx.ld.vec

builtin.module {
  ptx.kernel {sym_name = "k", params = [{name = "x", kind = "pointer"}], reqntid = 32} do {
    %x = ptx.param {param = "x"} : () -> (!ptx.reg<b64>)
    %a = ptx.ld.vec %x {space = ".global", vec = ".v4", type = ".b32"} : (!ptx.reg<b64>) -> (!ptx.reg<b32 x 4>)
    // HOPPER: modifiers.mlir:{{[0-9]+}}:5: error: ld.global.v8.b32 needs 256-bit global loads and stores, which sm_90a has not [TK202]
    %b = ptx.ld.vec %x {space = ".global", vec = ".v8", type = ".b32"} : (!ptx.reg<b64>) -> (!ptx.reg<b32 x 8>)
    // HOPPER: note: targets that have it: sm_100, sm_100f, sm_100a, sm_103f, sm_103a, sm_107f, sm_107a, sm_120a
    // HOPPER: modifiers.mlir:{{[0-9]+}}:5: error: add.f32x2 needs packed f32x2 arithmetic, which sm_90a has not [TK202]
    %c = ptx.add %x, %x {type = ".f32x2"} : (!ptx.reg<b64>, !ptx.reg<b64>) -> (!ptx.reg<b64>)
  }
}
